"""Where transformers keeps the parts of each architecture: module names for hooks and weights, and the switches that the
formula has. reference.py and checkpoints.py read models through this list alone.

Names are those of the whole model (with its head), {i} being the layer. What an architecture lacks is absent.
"""
from dataclasses import dataclass, field, replace
from typing import Callable


@dataclass
class Family:
    base: str  # the prefix that a checkpoint without head lacks
    layer: str
    attention: str  # the module that puts out the pattern second
    embed: str
    q: str  # the fused matrix, where q, k and v have one
    o: str
    w_in: str
    w_out: str
    ln1: str
    ln2: str
    k: str = ""
    v: str = ""
    w_up: str = ""
    ln1_post: str = ""
    ln2_post: str = ""
    q_norm: str = ""
    k_norm: str = ""
    cross: str = ""  # of an encoder-decoder's decoder: the module of cross-attention
    cross_ln: str = ""
    heads_first: bool = False  # these norms see [batch][n_heads][n_pos][d_head]
    ln_final: str = ""
    pos: str = ""
    types: str = ""
    ln_embed: str = ""
    head: str = ""  # what stands between the final norm and the output matrix
    ln_head: str = ""
    w_embed: str = ""  # widens a narrower embedding
    unembed: str = "lm_head"
    pooler: str = ""
    rotary: str = ""
    norm: str = "rms"
    eps: Callable = lambda c: c.rms_norm_eps
    act: Callable = lambda c: c.hidden_act
    fused: str = ""  # how q, k and v share their matrix: "parts", "heads" (NeoX) or "" for apart
    gate_up: bool = False  # w_in holds the gate, then the other half
    conv1d: bool = False
    less_one: bool = False  # gains are stored less 1
    post_norm: Callable = lambda c: False
    parallel: Callable = lambda c: False
    causal: bool = True
    pos_offset: Callable = lambda c: 0  # the row of position 0
    embed_scale: Callable = lambda c: 1.0  # where the module itself does not scale
    stored_scale: Callable = lambda c: 1.0  # where it does
    scale: Callable = lambda c, i: head_width(c) ** -0.5
    cap: Callable = lambda c: None
    alibi: bool = False  # scores fall with the distance, by a slope of each head
    logit_cap: Callable = lambda c: None
    window: Callable = lambda c, i: None  # keys with a distance below it are seen
    rope_kind: Callable = lambda c, i: None  # the layer kind, where each has a rotation of its own
    auto: str = "AutoModelForCausalLM"
    extra: dict = field(default_factory=dict)


def head_width(c):
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def slides(c, i):
    kinds = getattr(c, "layer_types", None)
    return c.sliding_window if kinds and kinds[i] == "sliding_attention" else None


def _llama(**changes):
    at = "model.layers.{i}."
    return Family(**{**dict(
        base="model.", layer="model.layers.{i}", attention=at + "self_attn", embed="model.embed_tokens",
        q=at + "self_attn.q_proj", k=at + "self_attn.k_proj", v=at + "self_attn.v_proj", o=at + "self_attn.o_proj",
        w_in=at + "mlp.gate_proj", w_up=at + "mlp.up_proj", w_out=at + "mlp.down_proj", ln1=at + "input_layernorm",
        ln2=at + "post_attention_layernorm", ln_final="model.norm", rotary="model.rotary_emb"), **changes})


def _gemma(**changes):
    at = "model.layers.{i}."
    return _llama(ln1_post=at + "post_attention_layernorm", ln2=at + "pre_feedforward_layernorm",
                  ln2_post=at + "post_feedforward_layernorm", less_one=True, act=lambda c: c.hidden_activation,
                  stored_scale=lambda c: c.hidden_size ** 0.5, scale=lambda c, i: c.query_pre_attn_scalar ** -0.5,
                  logit_cap=lambda c: c.final_logit_softcapping, window=slides, **changes)


QK_NORMS = {"q_norm": "model.layers.{i}.self_attn.q_norm", "k_norm": "model.layers.{i}.self_attn.k_norm"}

FAMILIES = {
    "llama": _llama(),
    "mistral": _llama(window=lambda c, i: c.sliding_window),
    "qwen2": _llama(window=slides),
    "qwen3": _llama(window=slides, **QK_NORMS),
    "phi3": _llama(q="model.layers.{i}.self_attn.qkv_proj", k="", v="", w_in="model.layers.{i}.mlp.gate_up_proj",
                   w_up="", fused="parts", gate_up=True, window=lambda c, i: c.sliding_window),
    "gemma2": _gemma(cap=lambda c: c.attn_logit_softcapping),
    "gemma3_text": _gemma(rope_kind=lambda c, i: c.layer_types[i], heads_first=True, **QK_NORMS),
    "gpt2": Family(
        base="transformer.", layer="transformer.h.{i}", attention="transformer.h.{i}.attn", embed="transformer.wte",
        pos="transformer.wpe", q="transformer.h.{i}.attn.c_attn", o="transformer.h.{i}.attn.c_proj",
        w_in="transformer.h.{i}.mlp.c_fc", w_out="transformer.h.{i}.mlp.c_proj", ln1="transformer.h.{i}.ln_1",
        ln2="transformer.h.{i}.ln_2", ln_final="transformer.ln_f", norm="layer", eps=lambda c: c.layer_norm_epsilon,
        act=lambda c: c.activation_function, fused="parts", conv1d=True,
        scale=lambda c, i: (head_width(c) ** -0.5 if c.scale_attn_weights else 1.0)
        / (i + 1 if c.scale_attn_by_inverse_layer_idx else 1)),
    "gpt_neox": Family(
        base="gpt_neox.", layer="gpt_neox.layers.{i}", attention="gpt_neox.layers.{i}.attention",
        embed="gpt_neox.embed_in", q="gpt_neox.layers.{i}.attention.query_key_value",
        o="gpt_neox.layers.{i}.attention.dense", w_in="gpt_neox.layers.{i}.mlp.dense_h_to_4h",
        w_out="gpt_neox.layers.{i}.mlp.dense_4h_to_h", ln1="gpt_neox.layers.{i}.input_layernorm",
        ln2="gpt_neox.layers.{i}.post_attention_layernorm", ln_final="gpt_neox.final_layer_norm",
        rotary="gpt_neox.rotary_emb", norm="layer", eps=lambda c: c.layer_norm_eps, fused="heads",
        parallel=lambda c: c.use_parallel_residual),
    "bloom": Family(
        base="transformer.", layer="transformer.h.{i}", attention="transformer.h.{i}.self_attention",
        embed="transformer.word_embeddings", ln_embed="transformer.word_embeddings_layernorm",
        q="transformer.h.{i}.self_attention.query_key_value", o="transformer.h.{i}.self_attention.dense",
        w_in="transformer.h.{i}.mlp.dense_h_to_4h", w_out="transformer.h.{i}.mlp.dense_4h_to_h",
        ln1="transformer.h.{i}.input_layernorm", ln2="transformer.h.{i}.post_attention_layernorm",
        ln_final="transformer.ln_f", norm="layer", eps=lambda c: c.layer_norm_epsilon, act=lambda c: "gelu_new",
        fused="heads", alibi=True),
    "opt": Family(
        base="model.", layer="model.decoder.layers.{i}", attention="model.decoder.layers.{i}.self_attn",
        embed="model.decoder.embed_tokens", pos="model.decoder.embed_positions", pos_offset=lambda c: 2,
        q="model.decoder.layers.{i}.self_attn.q_proj", k="model.decoder.layers.{i}.self_attn.k_proj",
        v="model.decoder.layers.{i}.self_attn.v_proj", o="model.decoder.layers.{i}.self_attn.out_proj",
        w_in="model.decoder.layers.{i}.fc1", w_out="model.decoder.layers.{i}.fc2",
        ln1="model.decoder.layers.{i}.self_attn_layer_norm", ln2="model.decoder.layers.{i}.final_layer_norm",
        ln_final="model.decoder.final_layer_norm", w_embed="model.decoder.project_in",
        head="model.decoder.project_out", norm="layer", eps=lambda c: 1e-5,
        act=lambda c: c.activation_function, post_norm=lambda c: not c.do_layer_norm_before),
}


def _bert(base, **changes):
    at = base + "encoder.layer.{i}."
    return Family(**{**dict(
        base=base, layer=base + "encoder.layer.{i}", attention=at + "attention.self",
        embed=base + "embeddings.word_embeddings", pos=base + "embeddings.position_embeddings",
        types=base + "embeddings.token_type_embeddings", ln_embed=base + "embeddings.LayerNorm",
        q=at + "attention.self.query", k=at + "attention.self.key", v=at + "attention.self.value",
        o=at + "attention.output.dense", ln1=at + "attention.output.LayerNorm", w_in=at + "intermediate.dense",
        w_out=at + "output.dense", ln2=at + "output.LayerNorm", norm="layer", eps=lambda c: c.layer_norm_eps,
        post_norm=lambda c: True, causal=False, auto="AutoModelForMaskedLM"), **changes})


FAMILIES["bert"] = _bert("bert.", pooler="bert.pooler.dense", head="cls.predictions.transform.dense", ln_head="cls.predictions.transform.LayerNorm",
                         unembed="cls.predictions.decoder")
FAMILIES["roberta"] = FAMILIES["xlm-roberta"] = _bert("roberta.", pooler="roberta.pooler.dense", head="lm_head.dense", ln_head="lm_head.layer_norm", unembed="lm_head.decoder",
                            pos_offset=lambda c: c.pad_token_id + 1, extra={"head_act": "gelu"})
FAMILIES["distilbert"] = _bert(
    "distilbert.", types="", layer="distilbert.transformer.layer.{i}",
    attention="distilbert.transformer.layer.{i}.attention", q="distilbert.transformer.layer.{i}.attention.q_lin",
    k="distilbert.transformer.layer.{i}.attention.k_lin", v="distilbert.transformer.layer.{i}.attention.v_lin",
    o="distilbert.transformer.layer.{i}.attention.out_lin", ln1="distilbert.transformer.layer.{i}.sa_layer_norm",
    w_in="distilbert.transformer.layer.{i}.ffn.lin1", w_out="distilbert.transformer.layer.{i}.ffn.lin2",
    ln2="distilbert.transformer.layer.{i}.output_layer_norm", head="vocab_transform", ln_head="vocab_layer_norm",
    unembed="vocab_projector", eps=lambda c: 1e-12, act=lambda c: c.activation)
FAMILIES["modernbert"] = Family(
    base="model.", layer="model.layers.{i}", attention="model.layers.{i}.attn", embed="model.embeddings.tok_embeddings",
    ln_embed="model.embeddings.norm", q="model.layers.{i}.attn.Wqkv", o="model.layers.{i}.attn.Wo",
    w_in="model.layers.{i}.mlp.Wi", w_out="model.layers.{i}.mlp.Wo", ln1="model.layers.{i}.attn_norm",
    ln2="model.layers.{i}.mlp_norm", ln_final="model.final_norm", head="head.dense", ln_head="head.norm",
    unembed="decoder", rotary="model.rotary_emb", norm="layer", eps=lambda c: c.norm_eps,
    act=lambda c: c.hidden_activation, fused="parts", gate_up=True, causal=False, auto="AutoModelForMaskedLM",
    window=lambda c, i: c.local_attention // 2 + 1 if c.layer_types[i] == "sliding_attention" else None,
    rope_kind=lambda c, i: c.layer_types[i], extra={"head_act_field": "classifier_activation"})


def stack_of(config, side):
    """One stack of an encoder-decoder: its encoder or its decoder. q, k, v and o stand under `attention` and `cross`."""
    decoder = side == "decoder"
    if config.model_type == "t5":
        at, last = side + ".block.{i}.layer.", "2" if decoder else "1"
        dense = at + last + ".DenseReluDense."
        return Family(base="", layer=side + ".block.{i}", attention=at + "0.SelfAttention", q="q", k="k", v="v", o="o",
                      ln1=at + "0.layer_norm", ln2=at + last + ".layer_norm", embed="shared",
                      w_in=dense + ("wi_0" if config.is_gated_act else "wi"), w_out=dense + "wo",
                      w_up=dense + "wi_1" if config.is_gated_act else "", ln_final=side + ".final_layer_norm",
                      cross=at + "1.EncDecAttention" if decoder else "", cross_ln=at + "1.layer_norm" if decoder else "")
    base = f"model.{side}."
    at = base + "layers.{i}."
    return Family(base="", layer=at[:-1], attention=at + "self_attn", q="q_proj", k="k_proj", v="v_proj", o="out_proj",
                  ln1=at + "self_attn_layer_norm", ln2=at + "final_layer_norm", w_in=at + "fc1", w_out=at + "fc2",
                  embed=base + "embed_tokens", pos=base + "embed_positions", norm="layer", causal=decoder,
                  ln_embed=base + "layernorm_embedding" if config.model_type == "bart" else "",
                  cross=at + "encoder_attn" if decoder else "",
                  cross_ln=at + "encoder_attn_layer_norm" if decoder else "")


def family_of(config):
    return FAMILIES[config.model_type]


def family_for(model):
    """The family with the names that this model has: a body without head lacks the prefix."""
    family = family_of(model.config)
    if hasattr(model, family.base.split(".")[0]):
        return family
    bare = {name: value.removeprefix(family.base) for name, value in vars(family).items() if isinstance(value, str)}
    return replace(family, **{**bare, "head": "", "ln_head": "", "unembed": "", "norm": family.norm})


def head_act(family, config):
    """The activation of the head's dense layer."""
    if "head_act" in family.extra:
        return family.extra["head_act"]
    return getattr(config, family.extra["head_act_field"]) if "head_act_field" in family.extra else family.act(config)
