"""transformers: patterns of a whole text (eager, output_attentions), a plain pass (sdpa), or greedy decoding."""

import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache

import peer


def prepare(spec):
    torch.set_num_threads(peer.threads(spec))
    torch.manual_seed(0)
    transformers.logging.disable_progress_bar()
    attention = "eager" if spec["task"] == "patterns" else "sdpa"
    decodes = spec["task"].startswith("decode")
    kind = AutoModelForCausalLM if decodes else AutoModel
    model = kind.from_pretrained(spec["model"], dtype=torch.float32, attn_implementation=attention).eval()
    ids = torch.randint(0, model.config.vocab_size, (1, spec["n"]))
    task = {"patterns": patterns, "pass": plain, "decode": generate, "decode-loop": loop}[spec["task"]]
    if decodes:
        ids = ids[:, :1]

    def run():
        with torch.inference_mode():
            task(model, ids, spec["n"])

    return run, {"versions": {"torch": torch.__version__, "transformers": transformers.__version__},
                 "threads": torch.get_num_threads()}


def patterns(model, ids, n):
    out = model(ids, output_attentions=True, use_cache=False)
    assert len(out.attentions) == model.config.num_hidden_layers and out.attentions[0].shape[-1] == n


def plain(model, ids, n):
    model(ids, use_cache=False)


def generate(model, ids, n):
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, min_new_tokens=n, do_sample=False,
                         use_cache=True, pad_token_id=0)
    assert out.shape[1] == n + 1


def loop(model, ids, n):
    """What generate does, without its bookkeeping."""
    cache = DynamicCache(config=model.config)
    for _ in range(n):
        ids = model(ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)


if __name__ == "__main__":
    peer.serve(prepare)
