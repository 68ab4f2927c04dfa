"""transformers as sentence-transformers uses it: tokenize, run padded batches in the order of the file, take the mean over
the tokens of each text and normalise it."""

import torch
import transformers
from transformers import AutoModel, AutoTokenizer

import peer

BATCH = 32


def prepare(spec):
    torch.set_num_threads(peer.threads(spec))
    transformers.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(spec["model"])
    model = AutoModel.from_pretrained(spec["model"], dtype=torch.float32, attn_implementation="sdpa").eval()
    with open(spec["texts"], encoding="utf-8") as lines:
        texts = lines.read().splitlines()

    def run():
        vectors = []
        with torch.inference_mode():
            for at in range(0, len(texts), BATCH):
                encoded = tokenizer(texts[at:at + BATCH], return_tensors="pt", padding=True)
                mask = encoded["attention_mask"].unsqueeze(-1)
                sums = (model(**encoded).last_hidden_state * mask).sum(1)
                vectors.append(torch.nn.functional.normalize(sums / mask.sum(1), dim=1))
        assert torch.cat(vectors).shape[0] == len(texts)

    return run, {"versions": {"torch": torch.__version__, "transformers": transformers.__version__},
                 "threads": torch.get_num_threads()}


if __name__ == "__main__":
    peer.serve(prepare)
