"""GPT-2: every site of random checkpoints against transformers, float32 and eager attention."""
import common
import torch

import checkpoints as make
import whole_checkpoint

# name, changes to the configuration, how it is stored, lengths of the sequences
SHAPES = [
    ("gpt2-plain", {}, {}, (1, 2, 17, 64)),
    ("gpt2-odd", {"n_embd": 45, "n_head": 5, "n_inner": 77, "n_layer": 2, "vocab_size": 131, "n_positions": 50,
                  "activation_function": "gelu"}, {"prefix": False}, (23, 50)),
    ("gpt2-by-layer", {"scale_attn_by_inverse_layer_idx": True, "n_layer": 4}, {"buffers": True}, (19,)),
    ("gpt2-unscaled", {"scale_attn_weights": False, "activation_function": "relu", "n_inner": ...}, {}, (19,)),
    ("gpt2-by-layer-unscaled", {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False, "n_inner": 24,
                                "activation_function": "silu"}, {"prefix": False, "buffers": True}, (19,)),
    ("gpt2-upcast", {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True}, {}, (19,)),
    ("gpt2-untied", {"tie_word_embeddings": False, "activation_function": "gelu_pytorch_tanh"}, {}, (31,)),
    ("gpt2-untied-bare", {"tie_word_embeddings": False, "layer_norm_epsilon": 0.01}, {"prefix": False}, (31,)),
    ("gpt2-defaults", {"activation_function": ..., "layer_norm_epsilon": ..., "n_inner": ...}, {}, (19,)),
    ("gpt2-f16", {"n_embd": 64, "n_head": 2, "activation_function": "gelu_fast"}, {"dtype": "F16"}, (40,)),
    ("gpt2-bf16-shards", {"n_embd": 48, "n_head": 3}, {"dtype": "BF16", "n_shards": 3}, (40,)),
    ("gpt2-f64", {}, {"dtype": "F64"}, (19,)),
    ("gpt2-f32-shards", {"tie_word_embeddings": False}, {"n_shards": 5, "prefix": False, "buffers": True}, (33,)),
    ("gpt2-mixed", {}, {"dtype": "F16", "dtype_of": lambda name: "F32" if ".ln" in name else None}, (33,)),
    ("gpt2-wide", {"n_embd": 192, "n_head": 3, "n_layer": 2, "n_positions": 256}, {}, (200,)),
    ("gpt2-many-heads", {"n_embd": 96, "n_head": 24, "n_layer": 2}, {}, (64,)),
    ("gpt2-tiny", {"n_embd": 6, "n_head": 1, "n_layer": 1, "vocab_size": 3, "n_positions": 12}, {}, (12,)),
]


def attention_buffers(config):
    """The masks that older checkpoints carry and that no engine may trip over."""
    n, kinds = config["n_positions"], (torch.float32, torch.uint8, torch.bool)
    extra = {}
    for i in range(config["n_layer"]):
        extra[f"h.{i}.attn.bias"] = torch.ones(n, n).tril().reshape(1, 1, n, n).to(kinds[i % 3])
        extra[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return extra


def test_random_checkpoints():
    report = common.Report()
    for seed, (name, changes, how, lengths) in enumerate(SHAPES):
        config = make.configuration(make.GPT2, **changes)
        tensors = make.gpt2_tensors(config, seed)
        how = dict(how)
        extra = attention_buffers(config) if how.pop("buffers", False) else None
        whole_checkpoint.check(report, name, config, tensors, lengths, seed, extra=extra, **how)
    report.finish()


if __name__ == "__main__":
    common.main(globals())
