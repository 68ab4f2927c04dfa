"""Activations of a transformers model at every site of headscope, in float32 from the model itself and in float64.

float32: forward hooks on transformers' own modules, run eagerly. Only the scores and the rotation, which no module puts
out, are computed again from what the modules gave, and what follows from them is checked against what transformers did.
float64: the same mathematics written out below on the same weights. transformers cannot give it (its RMSNorm, softmax
and rotary angles fall back to float32 in a model that was made double). It is checked against the float32 run.
"""
import math

import numpy as np
import torch
from families import FAMILIES, family_for, family_of, head_act, head_width
from transformers.activations import ACT2FN
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

# The float64 forward and transformers' float32 one are the same function as long as they agree this well.
AGREE = 1e-4


def activations(model, ids, types=None):
    """{tensor name: float32 array}: what transformers computes, batch dimension dropped."""
    with torch.no_grad():
        sites, out = _read(model.eval(), torch.tensor([list(ids)]), types)
    n_layers = model.config.num_hidden_layers
    for layer in range(n_layers):
        assert torch.equal(sites[f"pattern.{layer}"], out.attentions[layer])
        off = (_softmax(sites[f"attn_scores.{layer}"]) - out.attentions[layer]).abs().max()
        assert off < 2e-6, f"the scores are not those of the pattern, which is {off:.1e} away"
        assert torch.equal(sites[f"resid_pre.{layer}"], out.hidden_states[layer])
    if "project_out" not in family_of(model.config).head or not _has(model, family_of(model.config).head):
        assert torch.equal(sites["ln_final"], out.hidden_states[n_layers])
    return {name: value[0].float().numpy() for name, value in sites.items()}


def exact(model, ids, types=None):
    """{tensor name: float64 array}: the same sites in float64 throughout."""
    with torch.no_grad():
        return {name: value.numpy() for name, value in _exact(model, torch.tensor(list(ids)), types).items()}


def both(model, ids, types=None):
    """(float32 sites, float64 sites), checked against each other."""
    from common import deviation
    f32, f64 = activations(model, ids, types), exact(model, ids, types)
    assert f32.keys() == f64.keys(), f32.keys() ^ f64.keys()
    for name in f32:
        off = deviation(name.split(".")[0], f32[name], f64[name], causal=family_of(model.config).causal)
        assert off < AGREE, f"{name}: the two references differ by {off:.1e}"
    return f32, f64


def score_spread(scores, kind=None):
    """Standard deviation of each head's visible scores about their row's mean: [n_heads]. A shift of a whole row does
    not change its pattern, so it does not count, nor does what the distance alone adds in a model of this kind."""
    if kind and FAMILIES[kind].alibi:
        scores = scores - _alibi(*scores.shape[:2], torch.float32).numpy()
    seen = np.isfinite(scores)
    mean = np.where(seen, scores, 0).sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
    square = np.where(seen, scores - mean, 0) ** 2
    # The first rows have few keys to spread over: n - 1 of a row's n differences are free.
    return np.sqrt(square.sum((-1, -2)) / np.maximum(seen.sum(-1) - 1, 0).sum(-1))


class _Hooks:
    """Keeps what goes into and comes out of modules while a model runs."""

    def __init__(self, model):
        self.model, self.sites, self.handles = model, {}, []

    def output(self, module, *names, split=None, pick=None):
        def keep(_, __, out):
            out = out[pick or 0] if isinstance(out, tuple) else out
            for name, part in zip(names, out.split(split, -1) if split else [out]):
                self.sites[name] = part.detach().clone()
        self.handles.append(self.model.get_submodule(module).register_forward_hook(keep))

    def input(self, module, name):
        def keep(_, args, kwargs):
            self.sites[name] = (args[0] if args else kwargs["hidden_states"]).detach().clone()
        self.handles.append(self.model.get_submodule(module).register_forward_pre_hook(keep, with_kwargs=True))

    def run(self, ids, **more):
        try:
            return self.model(ids, output_attentions=True, output_hidden_states=True, **more)
        finally:
            for handle in self.handles:
                handle.remove()


def _heads(flat, n_heads):
    """[batch][n_pos][n_heads * d_head] -> [batch][n_pos][n_heads][d_head]"""
    return flat.reshape(*flat.shape[:-1], n_heads, -1)


def _kv_heads(config):
    return getattr(config, "num_key_value_heads", None) or config.num_attention_heads


def _split_qkv(family, config, fused):
    """q, k, v [..][n_heads or n_kv_heads][d_head] of one matrix's output."""
    n, kv, d = config.num_attention_heads, _kv_heads(config), head_width(config)
    if family.fused == "heads":
        return fused.reshape(*fused.shape[:-1], n, 3, d).unbind(-2)
    parts = fused.split([n * d, kv * d, kv * d], -1)
    return [_heads(part, heads) for part, heads in zip(parts, (n, kv, kv))]


def _rotate(x, cos, sin):
    """Turns pairs (j, j + r/2) of the first r values of each head; x [..][n_pos][n_heads][d], cos and sin [n_pos][r/2]."""
    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def _angles(model, family, i, n, dtype):
    """Cosines and sines [n][r/2] as layer i's rotation has them, products and functions in `dtype`."""
    rotary, kind = model.get_submodule(family.rotary), family.rope_kind(model.config, i)
    name = "" if kind is None else kind + "_"
    inv_freq, scale = getattr(rotary, name + "inv_freq"), getattr(rotary, name + "attention_scaling")
    angle = torch.arange(n, dtype=dtype)[:, None] * inv_freq.to(dtype)
    return angle.cos() * scale, angle.sin() * scale


def _visible(family, config, i, n):
    """[n_query][n_key], true where a query sees a key."""
    distance = torch.arange(n)[:, None] - torch.arange(n)[None]
    seen = distance >= 0 if family.causal else torch.ones(n, n, dtype=torch.bool)
    window = family.window(config, i)
    return seen if window is None else seen & (distance.abs() < window)


def _alibi(n_heads, n, dtype):
    """[n_heads][n_query][n_key]: each head's slope times key - query."""
    at = torch.arange(n)
    return _get_alibi_slopes(n_heads, "cpu").to(dtype)[:, None, None] * (at[None] - at[:, None])


def _scores(family, config, i, q, k):
    """Masked scores [..][n_heads][n_query][n_key] of q [..][n_pos][n_heads][d] and k [..][n_pos][n_kv_heads][d]."""
    k = k.repeat_interleave(q.shape[-2] // k.shape[-2], dim=-2)
    scores = torch.matmul(q.transpose(-3, -2), k.transpose(-3, -2).transpose(-1, -2)) * family.scale(config, i)
    cap = family.cap(config)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if family.alibi:  # transformers adds slope times the key's position: the same but for what softmax does not see
        scores = scores + _alibi(scores.shape[-3], scores.shape[-1], scores.dtype)
    return scores.masked_fill(~_visible(family, config, i, scores.shape[-1]), -math.inf)


def _softmax(scores):
    return torch.softmax(scores, -1)


def _hook_layer(hooks, family, config, i):
    """Hooks of one block. Fused outputs are kept under names of their own and split afterwards."""
    def at(name):
        return getattr(family, name).format(i=i)
    post, parallel = family.post_norm(config), family.parallel(config)
    hooks.input(at("layer"), f"resid_pre.{i}")
    hooks.output(at("ln1"), f"ln1.{i}")
    hooks.output(at("ln2"), f"ln2.{i}")
    hooks.output(at("attention"), f"pattern.{i}", pick=1)
    for name in ("qkv",) if family.fused else ("q", "k", "v"):
        hooks.output(at("q" if name == "qkv" else name), f"{name}.{i}")
    for name in ("q_norm", "k_norm"):
        if getattr(family, name):
            hooks.output(at(name), f"{name}.{i}")
    hooks.input(at("o"), f"z.{i}")
    hooks.output(at("ln1_post") if family.ln1_post else at("o"), f"attn_out.{i}")
    if not parallel:
        hooks.input(at("ln1") if post else at("ln2"), f"resid_mid.{i}")
    if family.gate_up:
        hooks.output(at("w_in"), f"mlp_pre.{i}", f"mlp_up.{i}", split=hooks.model.get_submodule(at("w_out")).in_features)
    else:
        hooks.output(at("w_in"), f"mlp_pre.{i}")
        if family.w_up:
            hooks.output(at("w_up"), f"mlp_up.{i}")
    hooks.input(at("w_out"), f"mlp_post.{i}")
    hooks.output(at("ln2_post") if family.ln2_post else at("w_out"), f"mlp_out.{i}")
    if post:
        hooks.input(at("ln2"), f"resid_post.{i}")
    else:
        hooks.output(at("layer"), f"resid_post.{i}")


def _has(model, name):
    if not name:
        return False
    try:
        return model.get_submodule(name) is not None
    except AttributeError:
        return False


def _read(model, ids, types):
    config, family = model.config, family_for(model)
    hooks = _Hooks(model)
    hooks.output(family.embed, "embed")
    for name, site in (("pos", "pos_embed"), ("types", "token_type_embed"), ("ln_final", "ln_final"), ("ln_head", "ln_head"),
                       ("unembed", "logits")):
        if _has(model, getattr(family, name)):
            hooks.output(getattr(family, name), site)
    for i in range(config.num_hidden_layers):
        _hook_layer(hooks, family, config, i)
    more = {"token_type_ids": torch.tensor([list(types)])} if types is not None else {}
    out = hooks.run(ids, **more)
    sites, n = hooks.sites, ids.shape[1]
    if "logits" in sites:
        sites["logits"] = out.logits
    if "ln_final" not in sites:
        sites["ln_final"] = out.hidden_states[-1]
    if family.w_embed and _has(model, family.w_embed):  # OPT: what it widens and what it narrows again
        hooked = model.get_submodule(family.w_embed), model.get_submodule(family.head)
        sites["embed"] = hooked[0](sites["embed"])
        sites["ln_final"] = sites.get(f"ln2.{config.num_hidden_layers - 1}") if family.post_norm(config) else \
            sites["ln_final"]
        sites["ln_head"] = hooked[1](sites["ln_final"])
    if _has(model, family.pooler):
        sites["pooled"] = torch.tanh(model.get_submodule(family.pooler)(sites["ln_final"]))
        assert torch.allclose(sites["pooled"][:, 0], out.pooler_output, atol=1e-6)
    for name in ("pos_embed", "token_type_embed"):
        if name in sites:
            sites[name] = sites[name].reshape(1, n, -1)
    for name, value in sites.items():
        if value.ndim == 2:  # OPT drops the batch before its feed-forward
            sites[name] = value[None]
    for i in range(config.num_hidden_layers):
        if family.fused:
            sites[f"q.{i}"], sites[f"k.{i}"], sites[f"v.{i}"] = _split_qkv(family, config, sites.pop(f"qkv.{i}"))
        for name, heads in (("q", config.num_attention_heads), ("k", _kv_heads(config)), ("v", _kv_heads(config)),
                            ("z", config.num_attention_heads)):
            sites[f"{name}.{i}"] = _heads(sites[f"{name}.{i}"].flatten(2), heads)
        q, k = sites[f"q.{i}"], sites[f"k.{i}"]
        if family.q_norm:
            q, k = sites.pop(f"q_norm.{i}"), sites.pop(f"k_norm.{i}")
            if family.heads_first:
                q, k = q.transpose(1, 2), k.transpose(1, 2)
        if family.rotary:
            cos, sin = _angles(model, family, i, n, torch.float32)
            q, k = sites[f"rot_q.{i}"], sites[f"rot_k.{i}"] = _rotate(q, cos, sin), _rotate(k, cos, sin)
        sites[f"attn_scores.{i}"] = _scores(family, config, i, q, k)
    return sites, out


class _Weights:
    """The formula's layers on float64 copies of a model's weights."""

    def __init__(self, model):
        self.family, self.config = family_for(model), model.config
        self.w = {name: value.double() for name, value in model.state_dict().items()}

    def has(self, name):
        return bool(name) and name + ".weight" in self.w

    def affine(self, x, name):
        w = self.w[name + ".weight"]
        return x @ (w if self.family.conv1d and w.shape[0] == x.shape[-1] and "lm_head" not in name else w.T) \
            + self.w.get(name + ".bias", 0.0)

    def norm(self, x, name, always=False):
        if not name or (not always and not self.has(name)):
            return x
        eps, gain, bias = self.family.eps(self.config), self.w.get(name + ".weight"), self.w.get(name + ".bias")
        if self.family.less_one:
            gain = gain + 1
        if self.family.norm == "layer":
            return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, bias, eps)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


def _exact_attention(model, m, sites, i, x):
    config, family = m.config, m.family
    n_heads, kv = config.num_attention_heads, _kv_heads(config)

    def at(name):
        return getattr(family, name).format(i=i)
    if family.fused:
        q, k, v = _split_qkv(family, config, m.affine(x, at("q")))
    else:
        q, k, v = (_heads(m.affine(x, at(name)), heads) for name, heads in (("q", n_heads), ("k", kv), ("v", kv)))
    sites.update({f"q.{i}": q, f"k.{i}": k, f"v.{i}": v})
    if family.q_norm:
        q, k = m.norm(q, at("q_norm")), m.norm(k, at("k_norm"))
    if family.rotary:
        cos, sin = _angles(model, family, i, len(x), torch.float64)
        q, k = sites[f"rot_q.{i}"], sites[f"rot_k.{i}"] = _rotate(q, cos, sin), _rotate(k, cos, sin)
    scores = sites[f"attn_scores.{i}"] = _scores(family, config, i, q, k)
    pattern = sites[f"pattern.{i}"] = _softmax(scores)
    v = v.repeat_interleave(n_heads // kv, dim=1)
    z = sites[f"z.{i}"] = torch.matmul(pattern, v.transpose(0, 1)).transpose(0, 1)
    out = m.norm(m.affine(z.flatten(1), at("o")), at("ln1_post"))
    sites[f"attn_out.{i}"] = out
    return out


def _exact_mlp(m, sites, i, x):
    def at(name):
        return getattr(m.family, name).format(i=i)
    act = ACT2FN[m.family.act(m.config)]
    pre, up = m.affine(x, at("w_in")), None
    if m.family.gate_up:
        pre, up = pre.chunk(2, -1)
    elif m.family.w_up:
        up = m.affine(x, at("w_up"))
    sites[f"mlp_pre.{i}"] = pre
    h = act(pre)
    if up is not None:
        sites[f"mlp_up.{i}"] = up
        h = h * up
    sites[f"mlp_post.{i}"] = h
    out = sites[f"mlp_out.{i}"] = m.norm(m.affine(h, at("w_out")), at("ln2_post"))
    return out


def _exact_layer(model, m, sites, i, x):
    family, config = m.family, m.config
    ln1, ln2 = family.ln1.format(i=i), family.ln2.format(i=i)
    affine_free = family.norm == "layer" and not m.has(ln1) and _norms_without_gain(model, ln1)
    sites[f"resid_pre.{i}"] = x
    if family.post_norm(config):
        x = sites[f"resid_mid.{i}"] = x + _exact_attention(model, m, sites, i, x)
        x = sites[f"ln1.{i}"] = m.norm(x, ln1, affine_free)
        x = sites[f"resid_post.{i}"] = x + _exact_mlp(m, sites, i, x)
        x = sites[f"ln2.{i}"] = m.norm(x, ln2, affine_free)
        return x
    h = sites[f"ln1.{i}"] = m.norm(x, ln1, affine_free)
    attention = _exact_attention(model, m, sites, i, h)
    if family.parallel(config):
        h = sites[f"ln2.{i}"] = m.norm(x, ln2)
        x = x + attention + _exact_mlp(m, sites, i, h)
    else:
        x = sites[f"resid_mid.{i}"] = x + attention
        h = sites[f"ln2.{i}"] = m.norm(x, ln2, affine_free)
        x = x + _exact_mlp(m, sites, i, h)
    sites[f"resid_post.{i}"] = x
    return x


def _norms_without_gain(model, name):
    return isinstance(model.get_submodule(name), torch.nn.LayerNorm)


def _exact(model, ids, types):
    m = _Weights(model)
    family, config, n = m.family, m.config, len(ids)
    sites = {"embed": m.w[family.embed + ".weight"][ids] * family.stored_scale(config)}
    if m.has(family.w_embed):
        sites["embed"] = m.affine(sites["embed"], family.w_embed)
    x = sites["embed"]
    if family.types:
        x = x + sites.setdefault("token_type_embed", m.w[family.types + ".weight"][torch.tensor(types or [0] * n)])
    if family.pos:
        at = family.pos_offset(config)
        x = x + sites.setdefault("pos_embed", m.w[family.pos + ".weight"][at : at + n])
    x = m.norm(x, family.ln_embed)
    for i in range(config.num_hidden_layers):
        x = _exact_layer(model, m, sites, i, x)
    if family.ln_final and _has(model, family.ln_final):
        x = m.norm(x, family.ln_final, True)
    sites["ln_final"] = x
    if m.has(family.pooler):
        sites["pooled"] = torch.tanh(m.affine(x, family.pooler))
    if m.has(family.head):
        act = ACT2FN[head_act(family, config)] if family.ln_head else torch.nn.Identity()
        x = sites["ln_head"] = m.norm(act(m.affine(x, family.head)), family.ln_head)
    if m.has(family.unembed):
        logits, cap = m.affine(x, family.unembed), family.logit_cap(config)
        sites["logits"] = logits if cap is None else cap * torch.tanh(logits / cap)
    return sites
