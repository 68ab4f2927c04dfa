"""TransformerLens: run_with_cache that keeps the patterns alone; its HookedTransformer or the bridge over transformers."""

import torch
import transformers
from importlib.metadata import version
from transformers import AutoModelForCausalLM

import peer


def hooked_transformer(folder):
    """The checkpoint's weights in TransformerLens's own GPT-2, converted by its own code."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions.gpt2 import convert_gpt2_weights
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    c = hf.config
    config = HookedTransformerConfig(
        n_layers=c.n_layer, d_model=c.n_embd, n_ctx=c.n_positions, d_head=c.n_embd // c.n_head, n_heads=c.n_head,
        d_vocab=c.vocab_size, act_fn="gelu_new", normalization_type="LN", eps=c.layer_norm_epsilon, device="cpu",
        default_prepend_bos=False)
    model = HookedTransformer(config)
    with torch.no_grad():
        model.load_and_process_state_dict(convert_gpt2_weights(hf, config))
    return model


def bridge(folder):
    from transformer_lens.model_bridge import TransformerBridge
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return TransformerBridge.boot_transformers(folder, hf_model=hf, device="cpu")


def prepare(spec):
    torch.set_num_threads(peer.threads(spec))
    torch.manual_seed(0)
    transformers.logging.disable_progress_bar()
    model = {"hooked": hooked_transformer, "bridge": bridge}[spec["kind"]](spec["model"]).eval()
    ids = torch.randint(0, model.cfg.d_vocab, (1, spec["n"]))

    def run():
        with torch.inference_mode():
            logits, cache = model.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))
        assert len(cache) == model.cfg.n_layers and logits.shape[1] == spec["n"], list(cache)

    return run, {"versions": {name: version(name) for name in ("transformer-lens", "torch", "transformers")},
                 "threads": torch.get_num_threads()}


if __name__ == "__main__":
    peer.serve(prepare)
