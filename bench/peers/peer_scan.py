"""transformers over the prompts of a file of IOI pairs: eager with output_attentions, the row of the last token of every
head kept, one sentence after another or in batches of 20. What comes after, figures and tests, is not counted here."""

import json
import os

import torch
import transformers
from transformers import AutoModel, AutoTokenizer

import peer

BATCH = 20


def prepare(spec):
    torch.set_num_threads(peer.threads(spec))
    transformers.logging.disable_progress_bar()
    folder, name = os.path.split(spec["tokenizer"])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModel.from_pretrained(spec["model"], dtype=torch.float32, attn_implementation="eager").eval()
    with open(spec["pairs"], encoding="utf-8") as lines:
        texts = [json.loads(line)["prompt"] for line in lines]
    size = 1 if spec["kind"] == "loop" else BATCH

    def run():
        kept = 0
        with torch.inference_mode():
            for at in range(0, len(texts), size):
                encoded = tokenizer(texts[at:at + size], return_tensors="pt", padding=size > 1)
                out = model(**encoded, output_attentions=True, use_cache=False)
                last = encoded["attention_mask"].sum(1) - 1
                rows = torch.stack([layer[torch.arange(len(last)), :, last] for layer in out.attentions])
                kept += rows.shape[1]
        assert kept == len(texts)

    return run, {"versions": {"torch": torch.__version__, "transformers": transformers.__version__},
                 "threads": torch.get_num_threads()}


if __name__ == "__main__":
    peer.serve(prepare)
