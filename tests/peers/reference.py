"""Activations of a transformers model at every site of headscope, in float32 from the model itself and in float64.

float32: forward hooks on transformers' own modules, run eagerly. Only the scores and the rotation, which no module puts
out, are computed again with transformers' own functions, and what follows from them is checked against what it did.
float64: the same mathematics written out below on the same weights. transformers cannot give it (its RMSNorm, softmax
and rotary angles fall back to float32 in a model that was made double). It is checked against the float32 run.
"""
import math

import numpy as np
import torch
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

# The float64 forward and transformers' float32 one are the same function as long as they agree this well.
AGREE = 1e-4


def activations(model, ids):
    """{tensor name: float32 array}: what transformers computes, batch dimension dropped."""
    read = _read_gpt2 if model.config.model_type == "gpt2" else _read_llama
    with torch.no_grad():
        sites, out = read(model.eval(), torch.tensor([list(ids)]))
    n_layers = model.config.num_hidden_layers
    for layer in range(n_layers):
        assert torch.equal(sites[f"pattern.{layer}"], out.attentions[layer])
        again = torch.softmax(sites[f"attn_scores.{layer}"], -1)
        assert (again - out.attentions[layer]).abs().max() < 2e-6, "the scores are not those of the pattern"
        assert torch.equal(sites[f"resid_pre.{layer}"], out.hidden_states[layer])
    assert torch.equal(sites["ln_final"], out.hidden_states[n_layers])
    sites["logits"] = out.logits
    return {name: value[0].float().numpy() for name, value in sites.items()}


def exact(model, ids):
    """{tensor name: float64 array}: the same sites in float64 throughout."""
    run = _exact_gpt2 if model.config.model_type == "gpt2" else _exact_llama
    with torch.no_grad():
        return {name: value.numpy() for name, value in run(model, torch.tensor(list(ids))).items()}


def both(model, ids):
    """(float32 sites, float64 sites), checked against each other."""
    from common import deviation
    f32, f64 = activations(model, ids), exact(model, ids)
    assert f32.keys() == f64.keys(), f32.keys() ^ f64.keys()
    for name in f32:
        assert deviation(name.split(".")[0], f32[name], f64[name]) < AGREE, f"{name}: the two references differ"
    return f32, f64


def score_spread(scores):
    """Standard deviation of each head's visible scores about their row's mean: [n_heads]. A shift of a whole row does
    not change its pattern, so it does not count."""
    seen = np.isfinite(scores)
    mean = np.where(seen, scores, 0).sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
    square = np.where(seen, scores - mean, 0) ** 2
    # The first rows have few keys to spread over: n - 1 of a row's n differences are free.
    return np.sqrt(square.sum((-1, -2)) / (seen.sum(-1) - 1).sum(-1))


class _Hooks:
    """Keeps what goes into and comes out of modules while a model runs."""

    def __init__(self):
        self.sites, self.handles = {}, []

    def output(self, module, *names, split=None, pick=None):
        def keep(_, __, out):
            out = out if pick is None else out[pick]
            for name, part in zip(names, out.split(split, -1) if split else [out]):
                self.sites[name] = part.detach().clone()
        self.handles.append(module.register_forward_hook(keep))

    def input(self, module, name):
        def keep(_, args, kwargs):
            self.sites[name] = (args[0] if args else kwargs["hidden_states"]).detach().clone()
        self.handles.append(module.register_forward_pre_hook(keep, with_kwargs=True))

    def run(self, model, ids):
        try:
            return model(ids, output_attentions=True, output_hidden_states=True, use_cache=False)
        finally:
            for handle in self.handles:
                handle.remove()


def _heads(flat, n_heads):
    """[batch][n_pos][n_heads * d_head] -> [batch][n_pos][n_heads][d_head]"""
    return flat.view(*flat.shape[:-1], n_heads, -1)


def _scores(q, k, scale):
    """Masked scores [batch][n_heads][n_query][n_key] of q [batch][n_pos][n_heads][d] and k [..][n_kv_heads][d]."""
    k = k.repeat_interleave(q.shape[-2] // k.shape[-2], dim=-2)
    scores = torch.matmul(q.transpose(-3, -2), k.transpose(-3, -2).transpose(-1, -2)) * scale
    n = scores.shape[-1]
    return scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)


def _read_gpt2(model, ids):
    config, body, hooks = model.config, model.transformer, _Hooks()
    hooks.output(body.wte, "embed")
    hooks.output(body.wpe, "pos_embed")
    for i, block in enumerate(body.h):
        hooks.input(block, f"resid_pre.{i}")
        hooks.output(block.ln_1, f"ln1.{i}")
        hooks.output(block.attn.c_attn, f"q.{i}", f"k.{i}", f"v.{i}", split=config.n_embd)
        hooks.output(block.attn, f"pattern.{i}", pick=1)
        hooks.input(block.attn.c_proj, f"z.{i}")
        hooks.output(block.attn.c_proj, f"attn_out.{i}")
        hooks.input(block.ln_2, f"resid_mid.{i}")
        hooks.output(block.ln_2, f"ln2.{i}")
        hooks.output(block.mlp.c_fc, f"mlp_pre.{i}")
        hooks.input(block.mlp.c_proj, f"mlp_post.{i}")
        hooks.output(block.mlp.c_proj, f"mlp_out.{i}")
        hooks.output(block, f"resid_post.{i}")
    hooks.output(body.ln_f, "ln_final")
    out = hooks.run(model, ids)
    sites = hooks.sites
    if sites["pos_embed"].shape[0] != 1:
        sites["pos_embed"] = sites["pos_embed"][None]
    for i, block in enumerate(body.h):
        for name in ("q", "k", "v", "z"):
            sites[f"{name}.{i}"] = _heads(sites[f"{name}.{i}"], config.n_head)
        sites[f"attn_scores.{i}"] = _scores(sites[f"q.{i}"], sites[f"k.{i}"], block.attn.scaling)
    return sites, out


def _read_llama(model, ids):
    config, body, hooks = model.config, model.model, _Hooks()
    hooks.output(body.embed_tokens, "embed")
    hooks.output(body.rotary_emb, "cos", pick=0)
    hooks.output(body.rotary_emb, "sin", pick=1)
    for i, block in enumerate(body.layers):
        attention, mlp = block.self_attn, block.mlp
        hooks.input(block, f"resid_pre.{i}")
        hooks.output(block.input_layernorm, f"ln1.{i}")
        for name, module in (("q", attention.q_proj), ("k", attention.k_proj), ("v", attention.v_proj)):
            hooks.output(module, f"{name}.{i}")
        hooks.output(attention, f"pattern.{i}", pick=1)
        hooks.input(attention.o_proj, f"z.{i}")
        hooks.output(attention.o_proj, f"attn_out.{i}")
        hooks.input(block.post_attention_layernorm, f"resid_mid.{i}")
        hooks.output(block.post_attention_layernorm, f"ln2.{i}")
        hooks.output(mlp.gate_proj, f"mlp_pre.{i}")
        hooks.output(mlp.up_proj, f"mlp_up.{i}")
        hooks.input(mlp.down_proj, f"mlp_post.{i}")
        hooks.output(mlp.down_proj, f"mlp_out.{i}")
        hooks.output(block, f"resid_post.{i}")
    hooks.output(body.norm, "ln_final")
    out = hooks.run(model, ids)
    sites = hooks.sites
    cos, sin = sites.pop("cos"), sites.pop("sin")
    for i, block in enumerate(body.layers):
        for name, n_heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads),
                              ("v", config.num_key_value_heads), ("z", config.num_attention_heads)):
            sites[f"{name}.{i}"] = _heads(sites[f"{name}.{i}"], n_heads)
        q, k = apply_rotary_pos_emb(sites[f"q.{i}"], sites[f"k.{i}"], cos, sin, unsqueeze_dim=2)
        sites[f"rot_q.{i}"], sites[f"rot_k.{i}"] = q, k
        sites[f"attn_scores.{i}"] = _scores(q, k, block.self_attn.scaling)
    return sites, out


def _attend(sites, i, q, k, v, scale):
    """Scores, pattern and z of one layer; q, k, v are [n_pos][n_heads or n_kv_heads][d_head]."""
    scores = _scores(q, k, scale)
    pattern = torch.softmax(scores, -1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    z = torch.matmul(pattern, v.transpose(0, 1)).transpose(0, 1)
    sites.update({f"attn_scores.{i}": scores, f"pattern.{i}": pattern, f"z.{i}": z})
    return z.flatten(1)


def _exact_gpt2(model, ids):
    config = model.config
    w = {name.removeprefix("transformer."): value.double() for name, value in model.state_dict().items()}
    sites = {"embed": w["wte.weight"][ids], "pos_embed": w["wpe.weight"][: len(ids)]}

    def norm(x, name):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"],
                                              config.layer_norm_epsilon)

    def affine(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    act = ACT2FN[config.activation_function]
    x = sites["embed"] + sites["pos_embed"]
    for i in range(config.n_layer):
        sites[f"resid_pre.{i}"] = x
        h = sites[f"ln1.{i}"] = norm(x, f"h.{i}.ln_1")
        q, k, v = (_heads(part, config.n_head) for part in affine(h, f"h.{i}.attn.c_attn").split(config.n_embd, -1))
        sites.update({f"q.{i}": q, f"k.{i}": k, f"v.{i}": v})
        scale = q.shape[-1] ** -0.5 if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            scale /= i + 1
        out = sites[f"attn_out.{i}"] = affine(_attend(sites, i, q, k, v, scale), f"h.{i}.attn.c_proj")
        x = sites[f"resid_mid.{i}"] = x + out
        h = sites[f"ln2.{i}"] = norm(x, f"h.{i}.ln_2")
        h = sites[f"mlp_pre.{i}"] = affine(h, f"h.{i}.mlp.c_fc")
        h = sites[f"mlp_post.{i}"] = act(h)
        h = sites[f"mlp_out.{i}"] = affine(h, f"h.{i}.mlp.c_proj")
        x = sites[f"resid_post.{i}"] = x + h
    h = sites["ln_final"] = norm(x, "ln_f")
    sites["logits"] = h @ w["lm_head.weight"].T
    return sites


def _rotate(x, theta):
    """Turns pair (j, j + d/2) of row p by p * theta^(-2j/d); x is [n_pos][n_heads][d]."""
    n, _, d = x.shape
    angle = torch.arange(n, dtype=torch.float64)[:, None] * theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _exact_llama(model, ids):
    config = model.config
    w = {name.removeprefix("model."): value.double() for name, value in model.state_dict().items()}
    theta = config.rope_parameters["rope_theta"]
    sites = {"embed": w["embed_tokens.weight"][ids]}

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * w[name + ".weight"]

    def affine(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)

    act = ACT2FN[config.hidden_act]
    x = sites["embed"]
    for i in range(config.num_hidden_layers):
        at = f"layers.{i}"
        sites[f"resid_pre.{i}"] = x
        h = sites[f"ln1.{i}"] = norm(x, f"{at}.input_layernorm")
        q = sites[f"q.{i}"] = _heads(affine(h, f"{at}.self_attn.q_proj"), config.num_attention_heads)
        k = sites[f"k.{i}"] = _heads(affine(h, f"{at}.self_attn.k_proj"), config.num_key_value_heads)
        v = sites[f"v.{i}"] = _heads(affine(h, f"{at}.self_attn.v_proj"), config.num_key_value_heads)
        q = sites[f"rot_q.{i}"] = _rotate(q, theta)
        k = sites[f"rot_k.{i}"] = _rotate(k, theta)
        z = _attend(sites, i, q, k, v, q.shape[-1] ** -0.5)
        out = sites[f"attn_out.{i}"] = affine(z, f"{at}.self_attn.o_proj")
        x = sites[f"resid_mid.{i}"] = x + out
        h = sites[f"ln2.{i}"] = norm(x, f"{at}.post_attention_layernorm")
        gate = sites[f"mlp_pre.{i}"] = affine(h, f"{at}.mlp.gate_proj")
        up = sites[f"mlp_up.{i}"] = affine(h, f"{at}.mlp.up_proj")
        h = sites[f"mlp_post.{i}"] = act(gate) * up
        h = sites[f"mlp_out.{i}"] = affine(h, f"{at}.mlp.down_proj")
        x = sites[f"resid_post.{i}"] = x + h
    h = sites["ln_final"] = norm(x, "norm")
    sites["logits"] = h @ w["lm_head.weight"].T
    return sites
