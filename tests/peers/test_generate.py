"""Writing on, against transformers: the filters on given logits, greedy text and beam search token for token in float32,
on real and on random models."""
import ctypes
import json

import common
import numpy as np
import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

import checkpoints as make
import library


class Sampling(ctypes.Structure):
    _fields_ = [("repetition", ctypes.c_float), ("presence", ctypes.c_float), ("frequency", ctypes.c_float),
                ("temperature", ctypes.c_float), ("top_k", ctypes.c_int), ("top_p", ctypes.c_float),
                ("min_p", ctypes.c_float), ("typical_p", ctypes.c_float)]


def their_list(how):
    """transformers' processors in the order of its generate()."""
    steps = LogitsProcessorList()
    if "repetition" in how:
        steps.append(processors.RepetitionPenaltyLogitsProcessor(how["repetition"]))
    if how.get("temperature", 1.0) != 1.0:
        steps.append(processors.TemperatureLogitsWarper(how["temperature"]))
    if "top_k" in how:
        steps.append(processors.TopKLogitsWarper(how["top_k"]))
    if "top_p" in how:
        steps.append(processors.TopPLogitsWarper(how["top_p"]))
    if "min_p" in how:
        steps.append(processors.MinPLogitsWarper(how["min_p"]))
    if "typical_p" in how:
        steps.append(processors.TypicalLogitsWarper(how["typical_p"]))
    return steps


def ours(lib, how, ids, n_prompt, logits):
    out, err = logits.copy(), library.Error()
    sampling = Sampling(**{"temperature": 1.0, **how})
    ids = np.asarray(ids, np.int32)
    status = lib.hsc_filter_logits(ctypes.byref(sampling), ids.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(ids)),
                                   ctypes.c_size_t(n_prompt), out.ctypes.data_as(ctypes.c_void_p), len(out),
                                   ctypes.byref(err))
    assert status == 0, err.message
    return out


def test_filters():
    lib = library.load()
    settings = [{"repetition": 1.3}, {"temperature": 0.7}, {"top_k": 1}, {"top_k": 50}, {"top_p": 0.9}, {"top_p": 0.1},
                {"min_p": 0.05}, {"min_p": 1.0}, {"typical_p": 0.9}, {"typical_p": 0.2},
                {"repetition": 1.2, "temperature": 0.8, "top_k": 40, "top_p": 0.95},
                {"temperature": 1.5, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.7},
                {"repetition": 0.8, "temperature": 3.0, "top_k": 300, "top_p": 0.99, "typical_p": 0.95}]
    rng = np.random.default_rng(0)
    for n_vocab, spread in ((8, 1), (1000, 3), (50257, 2), (50257, 6)):
        for trial in range(3):
            logits = (rng.standard_normal(n_vocab) * spread).astype(np.float32)
            ids = rng.integers(0, n_vocab, 40)
            for how in settings:
                if how.get("top_k", 0) > n_vocab:
                    continue
                want = their_list(how)(torch.tensor(ids)[None], torch.tensor(logits)[None])[0].numpy()
                got = ours(lib, how, ids, 20, logits)
                kept, theirs = np.isfinite(got), np.isfinite(want)
                # A sum in float32 may put one token on the other side of the limit: it must be one at the edge.
                assert np.count_nonzero(kept != theirs) <= 1, f"{how}, {n_vocab} tokens: {kept.sum()} kept, not {theirs.sum()}"
                both = kept & theirs
                np.testing.assert_allclose(got[both], want[both], rtol=2e-7)


def test_ties():
    """Equal logits at the k-th place all stay, as transformers has it."""
    lib = library.load()
    logits = np.array([1, 3, 2, 2, 2, 0], np.float32)
    for how in ({"top_k": 2}, {"top_k": 3}, {"min_p": 0.3}):
        want = their_list(how)(torch.zeros(1, 1, dtype=torch.long), torch.tensor(logits)[None])[0].numpy()
        np.testing.assert_array_equal(ours(lib, how, [0], 1, logits), want)


def generate(model, *words, ids=None):
    source = ["--ids", ",".join(map(str, ids))] if ids is not None else []
    done = common.headscope("generate", "-m", model, "--compute", "f32", "--json", *source, *words)
    return json.loads(done.stdout)


def greedy(name, path, peer, ids, n=64, words=(), **more):
    with torch.no_grad():
        want = peer.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False, use_cache=True,
                             attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             pad_token_id=0, **more)[0, len(ids):].tolist()
    got = generate(path, "-n", n, *words, ids=ids)["samples"][0]["ids"]
    assert got == want, f"{name}: token {[a == b for a, b in zip(got, want)].index(False)} differs: {got} {want}"
    print(f"{name}: {len(got)} tokens are the same", flush=True)


def beams(name, path, peer, ids, n_beams, n=24, extra=(), **more):
    options = {"length_penalty": 1.0, "early_stopping": False, **more}
    with torch.no_grad():
        want = peer.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False, num_beams=n_beams,
                             num_return_sequences=n_beams, attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             pad_token_id=0, output_scores=True, return_dict_in_generate=True, **options)
    words = ["--beams", n_beams, "--samples", n_beams, "-n", n, "--length-penalty", options["length_penalty"]]
    got = generate(path, *words, *extra, *(["--early-stop"] if options["early_stopping"] else []), ids=ids)["samples"]
    ends = peer.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    assert len(got) == n_beams
    for i, (sample, row, score) in enumerate(zip(got, want.sequences, want.sequences_scores)):
        row = row[len(ids):].tolist()
        stop = next((k + 1 for k, token in enumerate(row) if token in ends), len(row))
        assert sample["ids"] == row[:stop], f"{name}: beam {i}: {sample['ids']} is not {row[:stop]}"
        assert abs(sample["score"] - float(score)) < 1e-4 + 1e-6 * abs(float(score)), f"{name}: beam {i}: {sample['score']} is not {score}"
    print(f"{name}: {n_beams} beams are the same", flush=True)


def test_smollm2():
    path = common.smollm2()
    peer = make.open_gguf(path)
    peer.generation_config.eos_token_id = 2
    for text in ("The animal didn't cross the street because", "def fibonacci(n):\n", "Once upon a time, in 1987,"):
        ids = [token["id"] for token in generate(path, "-n", 1, text)["prompt"]["tokens"]]
        greedy(repr(text), path, peer, ids)
        beams(repr(text), path, peer, ids, 3)


def test_tinystories():
    """A model that ends its texts: beams finish at different lengths."""
    home = common.require_data("models", "tinystories-656k")
    peer = make.open_with_transformers(home)
    ids = [1, 412, 315, 310, 263]
    greedy("tinystories", home, peer, ids)
    for words, more in ((("--min-tokens", "150"), {"min_new_tokens": 150}), (("--no-repeat", "2"), {"no_repeat_ngram_size": 2}),
                        (("--no-repeat", "3", "--min-tokens", "190"), {"no_repeat_ngram_size": 3, "min_new_tokens": 190})):
        greedy(f"tinystories {words}", home, peer, ids, 200, words, **more)
        beams(f"tinystories {words}", home, peer, ids, 3, 200, words, **more)
    for n_beams, more in ((2, {}), (4, {"length_penalty": 2.0}), (4, {"early_stopping": True}),
                          (5, {"length_penalty": -1.0}), (3, {"length_penalty": 0.0})):
        beams(f"tinystories {more}", home, peer, ids, n_beams, n=200, **more)


def test_random_models():
    with common.scratch() as folder:
        for seed, (base, tensors) in enumerate(((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors))):
            for ends in (5, [5, 9, 11]):
                config = make.configuration(base, eos_token_id=ends)
                path = make.write_folder(folder / f"{base['model_type']}-{len(str(ends))}", config, tensors(config, seed))
                peer = make.open_with_transformers(path)
                for start in (3, 30):
                    ids = list(range(start, start + 4))
                    greedy(path.name, path, peer, ids, n=60)
                    for n_beams in (2, 5):
                        beams(path.name, path, peer, ids, n_beams, n=40)


if __name__ == "__main__":
    common.main(globals())
