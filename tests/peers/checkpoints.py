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
import transformers
from families import FAMILIES, family_for, family_of, head_width
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
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
_COMMON = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
           "intermediate_size": 72, "max_position_embeddings": 64}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 12, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
MISTRAL = {**_GROUPED, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 8}
QWEN2 = {**_GROUPED, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "head_dim": ...}
QWEN3 = {**_GROUPED, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
PHI3 = {**_GROUPED, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "head_dim": ..., "pad_token_id": 0}
GEMMA2 = {**_GROUPED, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "num_hidden_layers": 4,
          "sliding_window": 9, "query_pre_attn_scalar": 20, "tie_word_embeddings": ...}
GEMMA3 = {**GEMMA2, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "num_hidden_layers": 7}
GPT_NEOX = {**_COMMON, "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu",
            "hidden_size": 64}
BERT = {**_COMMON, "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_act": "gelu",
        "type_vocab_size": 2}
ROBERTA = {**BERT, "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "pad_token_id": 1,
           "max_position_embeddings": 66}
DISTILBERT = {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"], "vocab_size": 97, "dim": 32,
              "hidden_dim": 72, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
MODERNBERT = {**_COMMON, "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "local_attention": 8,
              "num_hidden_layers": 5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
              "sep_token_id": 2}
BLOOM = {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": 97, "hidden_size": 32,
         "n_layer": 3, "n_head": 4, "layer_norm_epsilon": 1e-5, "seq_length": 64}
OPT = {**_COMMON, "model_type": "opt", "architectures": ["OPTForCausalLM"], "ffn_dim": 72, "intermediate_size": ...}


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


def _is_body(config):
    """True for a checkpoint without a head."""
    name = (config.get("architectures") or [""])[0]
    return name.endswith("Model") and not name.endswith("LMHeadModel")


def random_tensors(config, seed):
    """The tensors of any model that transformers makes of the configuration, without what is tied to another and without
    the prefix that a checkpoint without head lacks."""
    family, random = FAMILIES[config["model_type"]], _Random(seed)
    made = AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
    with torch.device("cpu"):
        model = (AutoModel if _is_body(config) else getattr(transformers, family.auto)).from_config(made)
    family = family_for(model)
    tensors, seen = {}, set()
    for name, value in model.state_dict().items():
        if value.data_ptr() in seen or not value.is_floating_point():
            continue
        seen.add(value.data_ptr())
        if value.ndim == 2:
            embeds = name.removesuffix(".weight") in (family.embed, family.pos, family.types)
            scale = family.stored_scale(made) if name.startswith(family.embed) else 1.0
            gain = (1.0 if name.startswith(family.embed) else 0.5) / scale if embeds else \
                2.0 if family.unembed and name.startswith(family.unembed) else 1.2
            new = random.matrix(*value.shape, 1 if embeds else value.shape[1], gain)
        else:
            gain = name.endswith(".weight") and not family.less_one
            new = random.vector(value.shape[0], 1.0 if gain else 0.0)
        tensors[name.removeprefix(FAMILIES[config["model_type"]].base)] = new
    return tensors


def tensors_of(config, seed):
    kind = config["model_type"]
    return {"gpt2": gpt2_tensors, "llama": llama_tensors}.get(kind, random_tensors)(config, seed)


def is_head(name, kind):
    """True for what stands outside the body, and so never has its prefix."""
    family = FAMILIES[kind]
    heads = [part + "." for part in (family.unembed, family.head, family.ln_head)
             if part and not part.startswith(family.base)]
    return name.startswith((*heads, "cls.", "lm_head.", "embed_out."))


def write_folder(folder, config, tensors, dtype="F32", n_shards=1, prefix=True, extra=None, dtype_of=None, rename=None):
    """Writes config.json and model.safetensors, or shards with their index. `extra` are buffers stored as they are;
    dtype_of(name) may give one tensor another type, `rename` another name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    kind, first = config["model_type"], FAMILIES[config["model_type"]].base
    stored = {}
    for name, value in tensors.items():
        full = first + name if prefix and not is_head(name, kind) else name
        full = (rename or {}).get(full, full)
        stored[full] = value.to(DTYPES[(dtype_of and dtype_of(name)) or dtype]).contiguous()
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
    config = json.loads((folder / "config.json").read_text())
    body = _is_body(config)
    auto = AutoModel if body else getattr(transformers, FAMILIES[config["model_type"]].auto)
    model, info = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                       output_loading_info=True, **options)
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    missing = {name for name in info["missing_keys"] if name not in tied}
    assert not missing and not info["mismatched_keys"], f"{folder}: transformers lacks {missing}"
    return model.eval()


def open_gguf(path):
    """The model of a GGUF file, dequantised by transformers."""
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                attn_implementation="eager").eval()


def scale_query(tensors, config, i, head, factor):
    """Multiplies the scores of one head of layer i, or, where q has a norm that the heads share, those of all."""
    family = family_of(config)

    def name_of(module, kind):
        return f"{module.format(i=i)}.{kind}".removeprefix(family.base)
    if family.q_norm:
        gain = tensors[name_of(family.q_norm, "weight")]
        gain.copy_((gain + 1) * factor - 1 if family.less_one else gain * factor)
        return
    d = head_width(config)
    first = 3 * head * d if family.fused == "heads" else head * d
    for kind in ("weight", "bias"):
        value = tensors.get(name_of(family.q, kind))
        if value is not None:
            part = value[:, first : first + d] if family.conv1d and kind == "weight" else value[first : first + d]
            part *= factor


def calibrate(folder, config, tensors, ids, seed, types=None):
    """Scales each head's query so that its scores on `ids` spread as SPREAD says, layer after layer: a layer's scores
    depend on the layers before it only. Changes `tensors` in place; `folder` is scratch."""
    random = np.random.default_rng(seed)
    model = open_with_transformers(write_folder(folder, config, tensors))
    body = {name.removeprefix(model.base_model_prefix + "."): value for name, value in model.state_dict().items()}
    shared = bool(family_of(model.config).q_norm)
    capped = family_of(model.config).cap(model.config) is not None
    for i in range(model.config.num_hidden_layers):
        aims = random.uniform(*SPREAD, model.config.num_attention_heads)
        for _ in range(6 if capped else 1):
            scores = reference.activations(model, ids, types)[f"attn_scores.{i}"]
            spread = reference.score_spread(scores, config["model_type"])
            factors = [2 / spread.mean()] if shared else aims / spread
            for head, factor in enumerate(factors):
                scale_query(tensors, model.config, i, head, factor)
                scale_query(body, model.config, i, head, factor)


def assert_spread(f32, kind=None):
    """Every head's scores have a standard deviation of 1 to 3, as transformers computes them; the range found."""
    spreads = np.concatenate([reference.score_spread(value, kind) for name, value in f32.items()
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


# What llama.cpp calls an architecture, where transformers has another word, and the member of gguf.MODEL_ARCH.
GGUF_ARCH = {"mistral": "llama", "gemma3_text": "gemma3", "gpt_neox": "gptneox", "modernbert": "modern-bert",
             "roberta": "bert"}
# What its converter leaves out.
GGUF_LEFT_OUT = ("cls.", "pooler.", "head.", "decoder.")
BERTS = ("bert", "roberta")


def gguf_offset(config):
    """Rows of the position table that llama.cpp's converter cuts off: RoBERTa's first position is behind them."""
    return config["pad_token_id"] + 1 if config["model_type"] == "roberta" else 0


def gguf_arch(config):
    return GGUF_ARCH.get(config["model_type"], config["model_type"])


def gguf_names(config):
    """A function from a tensor's Hugging Face name to llama.cpp's, which is the gguf package's own."""
    member = gguf.MODEL_ARCH[gguf_arch(config).replace("-", "_").upper()]
    mapping = gguf.get_tensor_name_map(member, config.get("n_layer") or config["num_hidden_layers"])
    base, bare = FAMILIES[config["model_type"]].base, config["model_type"] in (*BERTS, "modernbert", "bloom")

    def name_of(name):
        full = name if is_head(name, config["model_type"]) or bare else base + name
        found = mapping.get_name(full, try_suffixes=(".weight", ".bias"))
        assert found, f"the gguf package has no name for {full}"
        return found
    return name_of


def _gguf_gpt2_keys(writer, config):
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_feed_forward_length(config.get("n_inner") or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def _gguf_rope_keys(writer, config, d_head):
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    writer.add_rope_dimension_count(int(d_head * config.get("rotary_pct", config.get("partial_rotary_factor", 1.0))))
    theta = config.get("rope_theta", config.get("rotary_emb_base", 10000.0))
    writer.add_rope_freq_base(config.get("global_rope_theta", 160000.0) if config["model_type"] == "modernbert" else
                              config.get("rope_theta", 1e6) if config["model_type"] == "gemma3_text" else theta)
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def gguf_keys(writer, config):
    kind = config["model_type"]
    if kind == "gpt2":
        _gguf_gpt2_keys(writer, config)
        return
    family = FAMILIES[kind]
    made = AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
    n_heads, d = made.num_attention_heads, config["hidden_size"]
    d_head = config.get("head_dim") or d // n_heads
    writer.add_context_length(config["seq_length"] if kind == "bloom" else
                              config["max_position_embeddings"] - gguf_offset(config))
    writer.add_embedding_length(d)
    writer.add_block_count(made.num_hidden_layers)
    writer.add_feed_forward_length(4 * d if kind == "bloom" else config["intermediate_size"])
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or n_heads)
    if d_head * n_heads != d:
        writer.add_key_length(d_head)
        writer.add_value_length(d_head)
    if kind not in BERTS and kind != "bloom":
        _gguf_rope_keys(writer, config, d_head)
    (writer.add_layer_norm_rms_eps if family.norm == "rms" else writer.add_layer_norm_eps)(family.eps(made))
    writer.add_vocab_size(config["vocab_size"])
    window = config["local_attention"] if kind == "modernbert" else config.get("sliding_window")
    if window and kind not in ("qwen2", "qwen3"):
        writer.add_sliding_window(window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(made.attn_logit_softcapping)
        writer.add_final_logit_softcapping(made.final_logit_softcapping)
    if kind == "gpt_neox":
        writer.add_parallel_residual(made.use_parallel_residual)
    if not family.causal:
        writer.add_causal_attention(False)


def in_gguf_order(name, array, config):
    """From transformers' order of rows and columns to llama.cpp's."""
    kind = config["model_type"]
    if kind == "gpt2":  # Conv1D [in][out] becomes Linear [out][in]
        return array.T if name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")) else array
    if name == "embeddings.position_embeddings.weight":
        return array[gguf_offset(config):]
    n_heads = config["n_head"] if kind == "bloom" else config["num_attention_heads"]
    if kind in ("gpt_neox", "bloom") and ".query_key_value." in name:  # head by head becomes all of q, then k, then v
        return array.reshape(n_heads, 3, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
    if kind not in ("llama", "mistral"):
        return array
    if ".q_proj." in name:
        return interleave(array, n_heads)
    return interleave(array, config.get("num_key_value_heads") or n_heads) if ".k_proj." in name else array


def _is_float32(name, value):
    """Vectors, positions and segments stay as they are in llama.cpp's files."""
    return value.ndim == 1 or "position_embeddings" in name or "token_type" in name or name == "wpe.weight"


def add_rope_factors(writer, config, folder):
    """llama3's scaling is a tensor of divisors, here those that transformers' own frequencies stand for."""
    model = open_with_transformers(folder)
    theta = config["rope_theta"]
    d = head_width(model.config)
    plain = 1.0 / theta ** (torch.arange(0, d, 2).float() / d)
    writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy())


def write_gguf(path, config, tensors, kind="F32", embedding=None, folder=None):
    """Writes a GGUF with matrices of type `kind` (the embedding of type `embedding`) and returns the tensors as the
    file holds them, dequantised, under their Hugging Face names. `folder` is the same model, for rotary factors."""
    held, name_of = {}, gguf_names(config)
    less_one = FAMILIES[config["model_type"]].less_one
    writer = gguf.GGUFWriter(path, gguf_arch(config))
    writer.add_name(path.stem)
    gguf_keys(writer, config)
    if folder:
        add_rope_factors(writer, config, folder)
    for name, value in tensors.items():
        if name.startswith(GGUF_LEFT_OUT) or (config["model_type"] in BERTS and name.startswith("lm_head.")):
            continue
        embeds = name in ("embed_tokens.weight", "wte.weight")
        qtype = GGUF_TYPES["F32" if _is_float32(name, value) else (embedding or kind) if embeds else kind]
        array = value.numpy().astype(np.float32)
        gain = less_one and name.endswith("norm.weight")
        stored = np.ascontiguousarray(in_gguf_order(name, array + np.float32(1) if gain else array, config))
        data = gguf.quants.quantize(stored, qtype)
        writer.add_tensor(name_of(name), data, raw_dtype=qtype)
        # Where each number of `stored` came from tells where its dequantised self goes back to.
        source = in_gguf_order(name, np.arange(array.size).reshape(array.shape), config)
        back = np.zeros(array.size, np.float32)
        back[source.reshape(-1)] = gguf.quants.dequantize(data, qtype).reshape(-1)
        held[name] = torch.from_numpy(back.reshape(array.shape) - np.float32(1 if gain else 0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held
