"""headscope export: sites over a corpus against what transformers' modules put out, text by text, on a random GPT-2."""
import common
import numpy as np

import checkpoints as make
import reference
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


if __name__ == "__main__":
    common.main(globals())
