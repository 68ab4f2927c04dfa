"""Encoder-decoders: random checkpoints, and transformers' activations at every site of headscope, in float32 from the
model itself (forward hooks, eager attention) and in float64 from the mathematics written out below on the same weights.
"""
import json
import math

import common  # noqa: F401  keeps transformers quiet
import numpy as np
import torch
import transformers
from checkpoints import DTYPES, SPREAD
from families import stack_of
from reference import AGREE, score_spread
from safetensors.torch import save_file
from transformers import AutoConfig
from transformers.activations import ACT2FN

CLASSES = {"t5": "T5ForConditionalGeneration", "bart": "BartForConditionalGeneration", "marian": "MarianMTModel"}


def sizes_of(config, side):
    """(layers, heads, width of a head)"""
    if config.model_type == "t5":
        return config.num_layers if side == "encoder" else config.num_decoder_layers, config.num_heads, config.d_kv
    heads = getattr(config, f"{side}_attention_heads")
    return getattr(config, f"{side}_layers"), heads, config.d_model // heads


def act_of(config):
    return ACT2FN[config.dense_act_fn if config.model_type == "t5" else config.activation_function]


# ---------------------------------------------------------------------------------------------------- checkpoints ----

def make_model(config, seed):
    """A model of the configuration (a dict) with random weights that matter: norms, biases, tables too."""
    made = AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
    torch.manual_seed(seed)
    model = getattr(transformers, CLASSES[config["model_type"]])._from_config(made, attn_implementation="eager")
    random = torch.Generator().manual_seed(seed)
    sinusoids = made.model_type == "marian"
    with torch.no_grad():
        for name, value in list(model.named_parameters()) + list(model.named_buffers()):
            if sinusoids and "embed_positions" in name:
                continue
            new = torch.randn(value.shape, generator=random)
            if "relative_attention_bias" in name or "embed_positions" in name:
                new *= 0.5
            elif "shared" in name or "embed_tokens" in name:
                new *= made.d_model ** -0.5 if getattr(made, "scale_embedding", False) else 1.0
            elif "lm_head" in name:
                new *= 2 * value.shape[1] ** -0.5
            elif name == "final_logits_bias":
                new *= 0.5
            elif value.ndim == 2:
                new *= 1.2 * value.shape[1] ** -0.5
            else:
                new = 0.3 * new + (1.0 if name.endswith("norm.weight") or name.endswith("embedding.weight") else 0.0)
            value.copy_(new)
    return model.eval()


def enliven(model, seed):
    """Lets the next token hang on the last one more than on what all have in common, and keeps a tied output matrix from
    giving it back: else random models write one word for ever."""
    names, last = stack_of(model.config, "decoder"), sizes_of(model.config, "decoder")[0] - 1
    signs = torch.randint(0, 2, (model.config.d_model,), generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0
    with torch.no_grad():
        norm = model.get_submodule(names.ln_final or names.ln2.format(i=last))
        norm.weight.copy_(signs * norm.weight.abs())
        if norm.weight is not None and getattr(norm, "bias", None) is not None:
            norm.bias.zero_()
        for name in dict.fromkeys((names.embed, stack_of(model.config, "encoder").embed)):
            model.get_submodule(name).weight.mul_(3.0)
        if "final_logits_bias" in dict(model.named_buffers()):
            model.final_logits_bias.mul_(0.2)
    return model


def calibrate(model, source, target, seed):
    """Scales each head's query, side by side and layer after layer, so that its scores spread as SPREAD says."""
    random = np.random.default_rng(seed)
    places = [("encoder", "attention", "enc_attn_scores"), ("decoder", "attention", "attn_scores"),
              ("decoder", "cross", "cross_attn_scores")]
    for side in ("encoder", "decoder"):
        for i in range(sizes_of(model.config, side)[0]):
            for at, part, site in places:
                if at == side:
                    _calibrate_layer(model, source, target, side, i, part, f"{site}.{i}", random)


def _calibrate_layer(model, source, target, side, i, part, site, random):
    names, (_, n_heads, d) = stack_of(model.config, side), sizes_of(model.config, side)
    query = model.get_submodule(f"{getattr(names, part).format(i=i)}.{names.q}")
    aims = random.uniform(*SPREAD, n_heads)
    for _ in range(5):  # a bias of positions does not grow with the query
        spread = score_spread(activations(model, source, target)[site])
        with torch.no_grad():
            factors = torch.tensor(aims / spread, dtype=torch.float32).repeat_interleave(d)
            query.weight *= factors[:, None]
            if query.bias is not None:
                query.bias *= factors


def save(model, folder, config, dtype="F32", drop=(), extra=None):
    """config.json as given and the tensors that are not tied to another; `drop` leaves some out."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    stored, seen = {}, set()
    for name, value in model.state_dict().items():
        if value.data_ptr() in seen or name in drop or (model.config.model_type == "marian" and "embed_positions" in name):
            continue
        seen.add(value.data_ptr())
        stored[name] = value.to(DTYPES[dtype]).clone().contiguous()
    for name, value in (extra or {}).items():
        stored[name] = value
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def load(folder):
    config = json.loads((folder / "config.json").read_text())
    model, info = getattr(transformers, CLASSES[config["model_type"]]).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    missing = {name for name in info["missing_keys"] if name not in tied and "embed_positions" not in name}
    assert not missing and not info["mismatched_keys"], f"{folder}: transformers lacks {missing}"
    return model.eval()


# -------------------------------------------------------------------------------------------------------- float32 ----

class _Hooks:
    def __init__(self, model):
        self.model, self.sites, self.handles = model, {}, []

    def output(self, module, name):
        def keep(_, __, out):
            self.sites[name] = (out[0] if isinstance(out, tuple) else out).detach().clone()
        self.handles.append(self.model.get_submodule(module).register_forward_hook(keep))

    def input(self, module, name):
        def keep(_, args, kwargs):
            self.sites[name] = (args[0] if args else kwargs["hidden_states"]).detach().clone()
        self.handles.append(self.model.get_submodule(module).register_forward_pre_hook(keep, with_kwargs=True))


def _hook_attention(hooks, module, names, prefix, i):
    for site in ("q", "k", "v"):
        hooks.output(f"{module}.{getattr(names, site)}", f"{prefix}{site}.{i}")
    hooks.input(f"{module}.{names.o}", f"{prefix}z.{i}")
    hooks.output(f"{module}.{names.o}", f"{prefix}attn_out.{i}")


def _hook_layer(hooks, config, names, prefix, i, post):
    def at(name):
        return getattr(names, name).format(i=i)
    hooks.input(at("layer"), f"{prefix}resid_pre.{i}")
    _hook_attention(hooks, at("attention"), names, prefix, i)
    hooks.output(at("ln1"), f"{prefix}ln1.{i}")
    if names.cross:
        _hook_attention(hooks, at("cross"), names, "cross_", i)
        hooks.output(at("cross_ln"), f"cross_ln1.{i}")
        hooks.input(at("ln1") if post else at("cross_ln"), f"resid_mid.{i}")
        hooks.input(at("cross_ln") if post else at("ln2"), f"cross_resid_mid.{i}")
    else:
        hooks.input(at("ln1") if post else at("ln2"), f"{prefix}resid_mid.{i}")
    hooks.output(at("ln2"), f"{prefix}ln2.{i}")
    hooks.output(at("w_in"), f"{prefix}mlp_pre.{i}")
    if names.w_up:
        hooks.output(at("w_up"), f"{prefix}mlp_up.{i}")
    hooks.input(at("w_out"), f"{prefix}mlp_post.{i}")
    hooks.output(at("w_out"), f"{prefix}mlp_out.{i}")
    if post:
        hooks.input(at("ln2"), f"{prefix}resid_post.{i}")
    else:
        hooks.output(at("layer"), f"{prefix}resid_post.{i}")


def _position_bias(model, side, n, dtype):
    """[n_heads][n][n] of T5's first block, or None."""
    if model.config.model_type != "t5":
        return None
    module = model.get_submodule(f"{side}.block.0.layer.0.SelfAttention")
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    buckets = module._relative_position_bucket(distance, bidirectional=side == "encoder",
                                               num_buckets=module.relative_attention_num_buckets,
                                               max_distance=module.relative_attention_max_distance)
    return module.relative_attention_bias.weight.to(dtype)[buckets].permute(2, 0, 1)


def _scores(model, q, k, d, bias, causal):
    scores = torch.matmul(q.transpose(0, 1), k.transpose(0, 1).transpose(-1, -2))
    if model.config.model_type != "t5":
        scores = scores * d ** -0.5
    if bias is not None:
        scores = scores + bias
    if causal:
        n = scores.shape[-1]
        scores = scores.masked_fill(torch.arange(n)[None] > torch.arange(n)[:, None], -math.inf)
    return scores


def activations(model, source, target):
    """{tensor name: float32 array}: what transformers computes."""
    config, hooks = model.config, _Hooks(model)
    post = config.model_type != "t5"
    for side, prefix in (("encoder", "enc_"), ("decoder", "")):
        names = stack_of(config, side)
        if names.pos:
            hooks.output(names.pos, prefix + "pos_embed")
        for i in range(sizes_of(config, side)[0]):
            _hook_layer(hooks, config, names, prefix, i, post)
    try:
        with torch.no_grad():
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]), use_cache=False,
                        output_attentions=True, output_hidden_states=True)
    finally:
        for handle in hooks.handles:
            handle.remove()
    sites = {name: value.reshape(-1, value.shape[-1]) for name, value in hooks.sites.items()}
    with torch.no_grad():
        _add_rest(model, out, sites, source, target)
    return {name: value.float().numpy() for name, value in sites.items()}


def _scaled_rows(model, names, ids):
    rows = model.get_submodule(names.embed)(torch.tensor(ids))  # BART's module scales by itself
    return rows * math.sqrt(model.config.d_model) if model.config.model_type == "marian" and \
        model.config.scale_embedding else rows


def _add_rest(model, out, sites, source, target):
    config = model.config
    sites["logits"] = out.logits[0]
    sites["ln_final"], sites["enc_ln_final"] = out.decoder_hidden_states[-1][0], out.encoder_last_hidden_state[0]
    for side, prefix, ids, attentions in (("encoder", "enc_", source, out.encoder_attentions),
                                          ("decoder", "", target, out.decoder_attentions)):
        n_layers, n_heads, d = sizes_of(config, side)
        sites[prefix + "embed"] = _scaled_rows(model, stack_of(config, side), ids)
        for i in range(n_layers):
            sites[f"{prefix}pattern.{i}"] = attentions[i][0]
            parts = [prefix] + (["cross_"] if side == "decoder" else [])
            for part in parts:
                for name in ("q", "k", "v", "z"):
                    sites[f"{part}{name}.{i}"] = sites[f"{part}{name}.{i}"].reshape(-1, n_heads, d)
            sites[f"{prefix}attn_scores.{i}"] = _scores(model, sites[f"{prefix}q.{i}"], sites[f"{prefix}k.{i}"], d,
                                                        _position_bias(model, side, len(ids), torch.float32),
                                                        side == "decoder")
            if side == "decoder":
                sites[f"cross_pattern.{i}"] = out.cross_attentions[i][0]
                sites[f"cross_attn_scores.{i}"] = _scores(model, sites[f"cross_q.{i}"], sites[f"cross_k.{i}"], d, None,
                                                          False)
    for name in [name for name in sites if "attn_scores" in name]:
        off = (torch.softmax(sites[name], -1) - sites[name.replace("attn_scores", "pattern")]).abs().max()
        assert off < 2e-6, f"{name} are not the scores of the pattern, which is {off:.1e} away"


# -------------------------------------------------------------------------------------------------------- float64 ----

class _Exact:
    def __init__(self, model):
        self.model, self.config = model, model.config
        self.w = {name: value.double() for name, value in model.state_dict().items()}

    def affine(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0.0)

    def norm(self, x, name):
        gain, bias = self.w[name + ".weight"], self.w.get(name + ".bias")
        if self.config.model_type == "t5":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config.layer_norm_epsilon) * gain
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, bias, 1e-5)

    def attend(self, sites, names, module, prefix, i, x, keys, bias, causal, d):
        q, k, v = (self.affine(rows, f"{module}.{name}").reshape(len(rows), -1, d)
                   for rows, name in ((x, names.q), (keys, names.k), (keys, names.v)))
        scores = _scores(self.model, q, k, d, bias, causal)
        pattern = torch.softmax(scores, -1)
        z = torch.matmul(pattern, v.transpose(0, 1)).transpose(0, 1)
        out = self.affine(z.flatten(1), f"{module}.{names.o}")
        sites.update({f"{prefix}{site}.{i}": value for site, value in
                      (("q", q), ("k", k), ("v", v), ("attn_scores", scores), ("pattern", pattern), ("z", z),
                       ("attn_out", out))})
        return out

    def feed(self, sites, names, prefix, i, x):
        pre = self.affine(x, names.w_in.format(i=i))
        h = act_of(self.config)(pre)
        sites[f"{prefix}mlp_pre.{i}"] = pre
        if names.w_up:
            up = sites[f"{prefix}mlp_up.{i}"] = self.affine(x, names.w_up.format(i=i))
            h = h * up
        sites[f"{prefix}mlp_post.{i}"] = h
        out = sites[f"{prefix}mlp_out.{i}"] = self.affine(h, names.w_out.format(i=i))
        return out

    def embed(self, sites, names, prefix, ids):
        config = self.config
        x = self.w[names.embed + ".weight"][torch.tensor(ids)]
        if getattr(config, "scale_embedding", False):
            x = x * math.sqrt(config.d_model)
        sites[prefix + "embed"] = x
        if names.pos:
            first = 2 if config.model_type == "bart" else 0
            rows = self.model.get_submodule(names.pos).weight.double()[first : first + len(ids)]
            sites[prefix + "pos_embed"] = rows
            x = x + rows
        return self.norm(x, names.ln_embed) if names.ln_embed else x

    def stack(self, sites, side, ids, memory):
        names, (n_layers, _, d) = stack_of(self.config, side), sizes_of(self.config, side)
        prefix, post = "enc_" if side == "encoder" else "", self.config.model_type != "t5"
        x, bias = self.embed(sites, names, prefix, ids), _position_bias(self.model, side, len(ids), torch.float64)
        for i in range(n_layers):
            def norm(x, name, site):
                sites[f"{site}.{i}"] = self.norm(x, getattr(names, name).format(i=i))
                return sites[f"{site}.{i}"]
            sites[f"{prefix}resid_pre.{i}"] = x
            h = x if post else norm(x, "ln1", prefix + "ln1")
            x = x + self.attend(sites, names, names.attention.format(i=i), prefix, i, h, h, bias, side == "decoder", d)
            sites[f"{prefix}resid_mid.{i}"] = x
            x = norm(x, "ln1", prefix + "ln1") if post else x
            if names.cross:
                h = x if post else norm(x, "cross_ln", "cross_ln1")
                x = x + self.attend(sites, names, names.cross.format(i=i), "cross_", i, h, memory, None, False, d)
                sites[f"cross_resid_mid.{i}"] = x
                x = norm(x, "cross_ln", "cross_ln1") if post else x
            h = x if post else norm(x, "ln2", prefix + "ln2")
            x = x + self.feed(sites, names, prefix, i, h)
            sites[f"{prefix}resid_post.{i}"] = x
            x = norm(x, "ln2", prefix + "ln2") if post else x
        x = sites[prefix + "ln_final"] = self.norm(x, names.ln_final) if names.ln_final else x
        return x


def exact(model, source, target):
    """{tensor name: float64 array}: the same sites in float64 throughout."""
    m, sites = _Exact(model), {}
    with torch.no_grad():
        memory = m.stack(sites, "encoder", source, None)
        x = m.stack(sites, "decoder", target, memory)
        if getattr(model.config, "scale_decoder_outputs", False):
            x = x * model.config.d_model ** -0.5
        sites["logits"] = m.affine(x, "lm_head") + m.w.get("final_logits_bias", torch.zeros(1))[..., :]
    return {name: value.reshape(-1, value.shape[-1]).numpy() if name == "logits" else value.numpy()
            for name, value in sites.items()}


def both(model, source, target):
    """(float32 sites, float64 sites), checked against each other."""
    from common import deviation
    f32, f64 = activations(model, source, target), exact(model, source, target)
    assert f32.keys() == f64.keys(), f32.keys() ^ f64.keys()
    for name in f32:
        off = deviation(name.split(".")[0], f32[name], f64[name])
        assert off < AGREE, f"{name}: the two references differ by {off:.1e}"
    return f32, f64


def assert_spread(f32):
    spreads = np.concatenate([score_spread(value) for name, value in f32.items() if "attn_scores" in name])
    assert 1.0 <= spreads.min() and spreads.max() <= 3.0, f"scores spread {spreads.min():.2f} to {spreads.max():.2f}"
