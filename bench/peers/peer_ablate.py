"""TransformerLens: every head of a HookedTransformer zeroed in turn at one text. The residual stream before each layer is
cached once, and a run starts at the layer of its head: one head a run, or all heads of a layer in one batch."""

import torch
from importlib.metadata import version

import peer
from peer_lens import hooked_transformer


def prepare(spec):
    torch.set_num_threads(peer.threads(spec))
    torch.manual_seed(0)
    model = hooked_transformer(spec["model"]).eval()
    ids = torch.randint(0, model.cfg.d_vocab, (1, spec["n"]))
    n_heads = model.cfg.n_heads

    def lead(logits):
        return logits[:, -1, 3] - logits[:, -1, 5]

    def one(layer, head, resid):
        def hook(z, hook):
            z[:, :, head] = 0
            return z
        hooks = [(f"blocks.{layer}.attn.hook_z", hook)]
        return lead(model.run_with_hooks(resid, start_at_layer=layer, fwd_hooks=hooks))

    def layer_of_heads(layer, resid):
        def hook(z, hook):
            z[torch.arange(n_heads), :, torch.arange(n_heads)] = 0
            return z
        hooks = [(f"blocks.{layer}.attn.hook_z", hook)]
        return lead(model.run_with_hooks(resid.expand(n_heads, -1, -1), start_at_layer=layer, fwd_hooks=hooks))

    def run():
        effects = []
        with torch.inference_mode():
            logits, cache = model.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_resid_pre"))
            before = lead(logits)
            for layer in range(model.cfg.n_layers):
                resid = cache[f"blocks.{layer}.hook_resid_pre"]
                if spec["kind"] == "batched":
                    effects.append(layer_of_heads(layer, resid) - before)
                else:
                    effects += [one(layer, head, resid) - before for head in range(n_heads)]
        assert sum(len(e) for e in effects) == model.cfg.n_layers * n_heads

    return run, {"versions": {name: version(name) for name in ("transformer-lens", "torch")},
                 "threads": torch.get_num_threads()}


if __name__ == "__main__":
    peer.serve(prepare)
