"""headscope export: sites over a corpus against what transformers' modules put out, text by text, on a random GPT-2 and
on random T5, BART and Marian."""
import common
import numpy as np

import checkpoints as make
import encdec
import reference
import test_parity_encdec as parity
from test_interventions import CORPUS, DONOR, TEXT, ids_of, with_tokenizer

TEXTS = [TEXT, DONOR, *CORPUS, "a"]
SITES = ("embed", "pos_embed", "resid_pre", "ln1", "q", "k", "v", "z", "attn_out", "resid_mid", "ln2", "mlp_pre", "mlp_post",
         "mlp_out", "resid_post", "ln_final", "logits")
BAR = 1e-5  # of the site's largest number; sums of at most 128 products in float32


def export(path, corpus, out, *words):
    common.headscope("export", "-m", path, corpus, "-o", out, *words)
    with np.load(out) as arrays:
        return dict(arrays)


def test_sites():
    with common.scratch() as folder:
        _, path = with_tokenizer(folder, 41)
        model = make.open_with_transformers(path)
        corpus = folder / "corpus.txt"
        corpus.write_text("".join(text + "\n" for text in TEXTS))
        ids = [ids_of(path, text) for text in TEXTS]
        want = [reference.activations(model, one) for one in ids]
        for site in SITES:
            names = [name for name in want[0] if name.split(".")[0] == site]
            got = export(path, corpus, folder / "out.npz", "--site", site)
            assert set(got) == {*names, "text", "position", "token"}, (site, set(got))
            assert got["token"].tolist() == sum(ids, [])
            assert got["text"].tolist() == [i for i, one in enumerate(ids) for _ in one]
            off = 0
            for name in names:
                rows = np.concatenate([one[name].reshape(len(one[name]), -1) for one in want])
                assert rows.std() > 1e-3, f"{name} hardly differs from row to row"
                off = max(off, float(np.abs(got[name] - rows).max() / np.abs(rows).max()))
            print(f"  {site:<10} {len(names)} arrays of {rows.shape[0]} rows, off by {off:.1e} of the largest")
            assert off <= BAR, (site, off)


def test_rows():
    """The last token's row of each text, and the mean over all but the first."""
    with common.scratch() as folder:
        _, path = with_tokenizer(folder, 43)
        model = make.open_with_transformers(path)
        corpus = folder / "corpus.txt"
        corpus.write_text("".join(text + "\n" for text in TEXTS))
        rows = [reference.activations(model, ids_of(path, text))["resid_post.1"] for text in TEXTS]
        for how, of in (("last", lambda x: x[-1]), ("mean", lambda x: x[1:].mean(0) if len(x) > 1 else x[0])):
            got = export(path, corpus, folder / "out.npz", "--layer", "L1", "--rows", how)["resid_post.1"]
            off = np.abs(got - np.stack([of(x) for x in rows])).max()
            print(f"  {how}: off by {off:.1e} at most")
            assert off <= 1e-5 * max(np.abs(x).max() for x in rows)


LONG = "It was late and the animal was tired of the wide street. " * 9
LINES = [*parity.PAIRS, ("It was too wide for them.", ""), ("One.", "Das Tier"), (LONG, LONG)]


def ids_of_pair(model, tokenizer, source, target):
    """What the encoder reads, and the decoder behind the token that begins a text, without the end; cut at the context."""
    labels = tokenizer(text_target=target)["input_ids"][:-1]
    n_ctx = getattr(model.config, "max_position_embeddings", None)
    return tokenizer(source)["input_ids"][:n_ctx], [model.config.decoder_start_token_id, *labels][:n_ctx]


def check_pairs(path, folder, site, ids, want):
    """Rows and index of one site of an encoder-decoder over a corpus: how far off, of the site's largest number."""
    names = [name for name in want[0] if name.split(".")[0] == site]
    of_source = site.startswith("enc_") or site in ("cross_k", "cross_v")
    lines = [source for source, _ in LINES] if of_source else ["\t".join(pair) for pair in LINES]
    (folder / "corpus.txt").write_text("".join(line + "\n" for line in lines))
    got = export(path, folder / "corpus.txt", folder / "out.npz", "--site", site)
    sides = [pair[0] if of_source else pair[1] for pair in ids]
    assert set(got) >= {*names, "text", "token"} and len(set(got) - {*names}) in (3, 4), (site, set(got))
    assert got["token"].tolist() == sum(sides, []), site
    if "position" in got:
        assert got["text"].tolist() == [i for i, one in enumerate(sides) for _ in one]
        assert got["position"].tolist() == [k for one in sides for k in range(len(one))]
    else:
        keys = [pair[0] if of_source or site.startswith("cross_") else pair[1] for pair in ids]
        assert got["shape"][:, 1:].tolist() == [[len(rows), len(columns)] for rows, columns in zip(sides, keys)]
        if site.startswith("cross_"):
            assert got["source_token"].tolist() == sum(keys, [])
    off = 0
    for name in names:
        rows, ours = np.concatenate([one[name].ravel() for one in want]), got[name].ravel()
        seen = np.isfinite(rows)  # scores are -inf where masked
        assert rows[seen].std() > 1e-3, f"{name} hardly varies"
        assert (np.isfinite(ours) == seen).all(), name
        off = max(off, float(np.abs(ours[seen] - rows[seen]).max() / np.abs(rows[seen]).max()))
    return len(names), off


def test_encoder_decoders():
    """Every site of both stacks and of cross-attention, rows and maps, over lines of a source and a target."""
    for seed, (base, words) in enumerate(parity.WORDS, start=1200):
        with common.scratch() as folder:
            path, model, tokenizer = parity.with_words(folder, base, words, seed)
            ids = [ids_of_pair(model, tokenizer, *pair) for pair in LINES]
            want = [encdec.activations(model, *pair) for pair in ids]
            sites = list(dict.fromkeys(name.split(".")[0] for name in want[0]))
            worst = {site: check_pairs(path, folder, site, ids, want) for site in sites}
            for site, (n, off) in worst.items():
                print(f"  {base['model_type']:<6} {site:<18} {n} arrays, off by {off:.1e} of the largest", flush=True)
            assert max(off for _, off in worst.values()) <= BAR


if __name__ == "__main__":
    common.main(globals())
