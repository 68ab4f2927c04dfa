"""Random checkpoints, written as Hugging Face folders and as GGUF files.

Every tensor is random, biases and gains included. A query's weights are then scaled head by head so that the scores of
the sequence that is tested have a standard deviation between SPREAD's ends: patterns far from uniform and far from
one-hot. The folder is then opened by transformers, so what is compared is what both read from one file.
"""
import json
import os

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import reference

logging.disable_progress_bar()
torch.set_num_threads(1)  # toys are too small for more
SPREAD = (1.2, 2.8)  # what is aimed at; rounding weights to 16 bits may move it within 1 to 3
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 97, "n_positions": 64, "n_embd": 32,
        "n_layer": 3, "n_head": 4, "n_inner": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 97, "hidden_size": 32,
         "intermediate_size": 88, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
         "tie_word_embeddings": False}


def configuration(base, **changes):
    """A copy of `base` with changes; a value of ... takes the key out."""
    config = {**base, **changes}
    return {key: value for key, value in config.items() if value is not ...}


def use_threads():
    """As many threads for PyTorch as there are processors: for models of a real size."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))


class _Random:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def matrix(self, rows, columns, fan_in, gain=1.0):
        return torch.randn(rows, columns, generator=self.generator) * gain * fan_in ** -0.5

    def vector(self, n, mean=0.0, spread=0.3):
        return mean + spread * torch.randn(n, generator=self.generator)


def gpt2_tensors(config, seed):
    """Names without the prefix `transformer.`; matrices are Conv1D, [in][out]."""
    random, d, layers = _Random(seed), config["n_embd"], config["n_layer"]
    inner = config.get("n_inner") or 4 * d
    tensors = {"wte.weight": random.matrix(config["vocab_size"], d, 1), "wpe.weight":
               random.matrix(config["n_positions"], d, 1, 0.5)}
    for i in range(layers):
        for name, n_in, n_out in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, inner),
                                  ("mlp.c_proj", inner, d)):
            tensors[f"h.{i}.{name}.weight"] = random.matrix(n_in, n_out, n_in)
            tensors[f"h.{i}.{name}.bias"] = random.vector(n_out)
        for name in ("ln_1", "ln_2"):
            tensors[f"h.{i}.{name}.weight"] = random.vector(d, 1.0)
            tensors[f"h.{i}.{name}.bias"] = random.vector(d)
    tensors["ln_f.weight"], tensors["ln_f.bias"] = random.vector(d, 1.0), random.vector(d)
    if config.get("tie_word_embeddings") is False:
        tensors["lm_head.weight"] = random.matrix(config["vocab_size"], d, d, 2.0)
    return tensors


def llama_tensors(config, seed):
    """Names without the prefix `model.`; matrices are Linear, [out][in]."""
    random, d, inner = _Random(seed), config["hidden_size"], config["intermediate_size"]
    n_heads = config["num_attention_heads"]
    d_head = config.get("head_dim") or d // n_heads
    kv = (config.get("num_key_value_heads") or n_heads) * d_head
    tensors = {"embed_tokens.weight": random.matrix(config["vocab_size"], d, 1)}
    for i in range(config["num_hidden_layers"]):
        for name, n_in, n_out in (("q_proj", d, n_heads * d_head), ("k_proj", d, kv), ("v_proj", d, kv),
                                  ("o_proj", n_heads * d_head, d)):
            tensors[f"layers.{i}.self_attn.{name}.weight"] = random.matrix(n_out, n_in, n_in)
            if config.get("attention_bias"):
                tensors[f"layers.{i}.self_attn.{name}.bias"] = random.vector(n_out)
        for name, n_in, n_out in (("gate_proj", d, inner), ("up_proj", d, inner), ("down_proj", inner, d)):
            tensors[f"layers.{i}.mlp.{name}.weight"] = random.matrix(n_out, n_in, n_in, 1.5)
            if config.get("mlp_bias"):
                tensors[f"layers.{i}.mlp.{name}.bias"] = random.vector(n_out)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"layers.{i}.{name}.weight"] = random.vector(d, 1.0)
    tensors["norm.weight"] = random.vector(d, 1.0)
    if not config.get("tie_word_embeddings", False):
        tensors["lm_head.weight"] = random.matrix(config["vocab_size"], d, d, 2.0)
    return tensors


def write_folder(folder, config, tensors, dtype="F32", n_shards=1, prefix=True, extra=None, dtype_of=None):
    """Writes config.json and model.safetensors, or shards with their index. `extra` are buffers stored as they are;
    dtype_of(name) may give one tensor another type."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    first = "transformer." if config["model_type"] == "gpt2" else "model."
    stored = {}
    for name, value in tensors.items():
        full = first + name if prefix and name != "lm_head.weight" else name
        kind = (dtype_of and dtype_of(name)) or dtype
        stored[full] = value.to(DTYPES[kind]).contiguous()
    for name, value in (extra or {}).items():
        stored[first + name if prefix else name] = value
    if n_shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    names, weight_map = list(stored), {}
    for s in range(n_shards):
        file = f"model-{s + 1:05d}-of-{n_shards:05d}.safetensors"
        part = {name: stored[name] for name in names[s::n_shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    size = sum(value.numel() * value.element_size() for value in stored.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": weight_map}))
    return folder


def open_with_transformers(folder, **options):
    """The model of a folder in float32 with eager attention. A weight that it had to make up fails."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       output_loading_info=True, **options)
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    missing = {name for name in info["missing_keys"] if name not in tied}
    assert not missing and not info["mismatched_keys"], f"{folder}: transformers lacks {missing}"
    return model.eval()


def open_gguf(path):
    """The model of a GGUF file, dequantised by transformers."""
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                attn_implementation="eager").eval()


def query_parts(tensors, config, i, head):
    """Views of layer i's query weights, and bias where there is one, that belong to one head."""
    if config["model_type"] == "gpt2":
        d_head = config["n_embd"] // config["n_head"]
        rows = slice(head * d_head, (head + 1) * d_head)
        return [tensors[f"h.{i}.attn.c_attn.weight"][:, rows], tensors[f"h.{i}.attn.c_attn.bias"][rows]]
    d_head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rows = slice(head * d_head, (head + 1) * d_head)
    names = [f"layers.{i}.self_attn.q_proj.{kind}" for kind in ("weight", "bias")]
    return [tensors[name][rows] for name in names if name in tensors]


def calibrate(folder, config, tensors, ids, seed):
    """Scales each head's query so that its scores on `ids` spread as SPREAD says, layer after layer: a layer's scores
    depend on the layers before it only. Changes `tensors` in place; `folder` is scratch."""
    random = np.random.default_rng(seed)
    model = open_with_transformers(write_folder(folder, config, tensors))
    body = {name.removeprefix(model.base_model_prefix + "."): value for name, value in model.state_dict().items()}
    for i in range(model.config.num_hidden_layers):
        spread = reference.score_spread(reference.activations(model, ids)[f"attn_scores.{i}"])
        for head, found in enumerate(spread):
            factor = random.uniform(*SPREAD) / found
            for part in query_parts(tensors, config, i, head) + query_parts(body, config, i, head):
                part *= factor


def assert_spread(f32):
    """Every head's scores have a standard deviation of 1 to 3, as transformers computes them; the range found."""
    spreads = np.concatenate([reference.score_spread(value) for name, value in f32.items()
                              if name.startswith("attn_scores")])
    assert 1.0 <= spreads.min() and spreads.max() <= 3.0, f"scores spread {spreads.min():.2f} to {spreads.max():.2f}"
    return float(spreads.min()), float(spreads.max())


def token_ids(vocabulary, n, seed):
    return [int(i) for i in np.random.default_rng(seed).integers(0, vocabulary, n)]


# ------------------------------------------------------------------------------------------------------- GGUF ------

GGUF_TYPES = {name: getattr(gguf.GGMLQuantizationType, name)
              for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")}


def interleave(rows, n_heads):
    """Reorders the rows of q or k from transformers' pairs (j, j + d/2) to llama.cpp's (2j, 2j + 1)."""
    return rows.reshape(n_heads, 2, rows.shape[0] // n_heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


GGUF_WHOLE = {
    "llama": {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"},
    "gpt2": {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight",
             "ln_f.weight": "output_norm.weight", "ln_f.bias": "output_norm.bias", "lm_head.weight": "output.weight"},
}
GGUF_LAYER = {
    "llama": {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
              "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"},
    "gpt2": {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
}


def _gguf_name(name, arch):
    if name in GGUF_WHOLE[arch]:
        return GGUF_WHOLE[arch][name]
    _, i, rest = name.split(".", 2)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{i}.{GGUF_LAYER[arch][stem]}.{kind}"


def _gguf_keys(writer, config):
    if config["model_type"] == "gpt2":
        writer.add_context_length(config["n_positions"])
        writer.add_embedding_length(config["n_embd"])
        writer.add_block_count(config["n_layer"])
        writer.add_feed_forward_length(config.get("n_inner") or 4 * config["n_embd"])
        writer.add_head_count(config["n_head"])
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    n_heads, d = config["num_attention_heads"], config["hidden_size"]
    d_head = config.get("head_dim") or d // n_heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(d)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or n_heads)
    if d_head * n_heads != d:
        writer.add_key_length(d_head)
        writer.add_value_length(d_head)
    writer.add_rope_dimension_count(d_head)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _in_gguf_order(name, array, config):
    """From transformers' order of rows and columns to llama.cpp's."""
    if config["model_type"] == "gpt2":  # Conv1D [in][out] becomes Linear [out][in]
        return array.T if name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")) else array
    n_heads = config["num_attention_heads"]
    if ".q_proj." in name:
        return interleave(array, n_heads)
    return interleave(array, config.get("num_key_value_heads") or n_heads) if ".k_proj." in name else array


def write_gguf(path, config, tensors, kind="F32", embedding=None):
    """Writes a GGUF with matrices of type `kind` (the embedding of type `embedding`) and returns the tensors as the
    file holds them, dequantised, under their Hugging Face names."""
    arch, held = config["model_type"], {}
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(path.stem)
    _gguf_keys(writer, config)
    for name, value in tensors.items():
        type_name = (embedding or kind) if name in ("embed_tokens.weight", "wte.weight") else kind
        qtype = GGUF_TYPES["F32" if value.ndim == 1 or name == "wpe.weight" else type_name]
        array = value.numpy().astype(np.float32)
        stored = np.ascontiguousarray(_in_gguf_order(name, array, config))
        data = gguf.quants.quantize(stored, qtype)
        writer.add_tensor(_gguf_name(name, arch), data, raw_dtype=qtype)
        # Where each number of `stored` came from tells where its dequantised self goes back to.
        source = _in_gguf_order(name, np.arange(array.size).reshape(array.shape), config)
        back = np.empty(array.size, np.float32)
        back[source.reshape(-1)] = gguf.quants.dequantize(data, qtype).reshape(-1)
        held[name] = torch.from_numpy(back.reshape(array.shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held
