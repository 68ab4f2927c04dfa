"""Llama: every site of random checkpoints in Hugging Face folders against transformers, float32 and eager attention."""
import common

import checkpoints as make
import whole_checkpoint

NEW_THETA = {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}

# name, changes to the configuration, how it is stored, lengths of the sequences
SHAPES = [
    ("llama-plain", {"num_key_value_heads": 4}, {}, (1, 2, 17, 64)),
    ("llama-grouped", {"hidden_size": 64, "num_attention_heads": 8, **NEW_THETA}, {}, (33,)),
    ("llama-one-kv", {"num_key_value_heads": 1, "rope_theta": 1e6}, {}, (33,)),
    ("llama-head-dim", {"hidden_size": 48, "head_dim": 20}, {}, (33,)),
    ("llama-head-dim-shards", {"hidden_size": 48, "head_dim": 6, "num_key_value_heads": 1, **NEW_THETA},
     {"n_shards": 4}, (33,)),
    ("llama-biases", {"attention_bias": True, "mlp_bias": True}, {}, (33,)),
    ("llama-attention-bias", {"attention_bias": True, "num_key_value_heads": ..., "rope_scaling": None}, {}, (33,)),
    ("llama-tied", {"tie_word_embeddings": True, "rms_norm_eps": 1e-3}, {}, (33,)),
    ("llama-tied-bare", {"tie_word_embeddings": True}, {"prefix": False}, (33,)),
    ("llama-bf16-shards", {"tie_word_embeddings": True, "hidden_size": 64}, {"dtype": "BF16", "n_shards": 2}, (40,)),
    ("llama-f16", {"num_attention_heads": 8, "hidden_size": 64, **NEW_THETA}, {"dtype": "F16"}, (40,)),
    ("llama-mixed", {}, {"dtype": "BF16", "dtype_of": lambda name: "F32" if "norm" in name else None}, (40,)),
    ("llama-defaults", {"rms_norm_eps": ..., "rope_theta": ..., "hidden_act": ..., "tie_word_embeddings": ...}, {},
     (33,)),
    ("llama-odd", {"hidden_size": 30, "num_attention_heads": 3, "num_key_value_heads": 3, "intermediate_size": 41,
                   "vocab_size": 101}, {}, (33,)),
    ("llama-wide", {"hidden_size": 192, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 2,
                    "intermediate_size": 512, "max_position_embeddings": 256}, {}, (200,)),
    ("llama-tiny", {"hidden_size": 4, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1,
                    "intermediate_size": 5, "vocab_size": 3}, {}, (12,)),
]


def test_random_checkpoints():
    report = common.Report()
    for seed, (name, changes, how, lengths) in enumerate(SHAPES, start=100):
        config = make.configuration(make.LLAMA, **changes)
        tensors = make.llama_tensors(config, seed)
        whole_checkpoint.check(report, name, config, tensors, lengths, seed, **how)
    report.finish()


if __name__ == "__main__":
    common.main(globals())
