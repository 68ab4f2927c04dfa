"""headscope scan against transformers over own_twins: every head's weight from the query on both candidates and on
position 0, sentence by sentence, read from the database that the scan leaves behind. And, on MiniLM, the known values."""
import json
import pathlib
import sqlite3

import common
import numpy as np

BAR = 1e-5


def twins():
    path = common.require_data("pairs", "own_twins.jsonl")
    return path, [json.loads(line) for line in path.read_text().splitlines()]


def inside(text, offsets, span):
    """Tokens that share a byte that is no blank with the span; the texts are ASCII, so characters are bytes."""
    found = [i for i, (start, end) in enumerate(offsets)
             if text[max(start, span[0]):min(end, span[1])].strip() and end > start]
    assert found, (text, span)
    return found


def compare(model, tokenizer, path, lines, folder, program_model, query):
    import torch
    db = pathlib.Path(folder) / "scan.sqlite"
    common.headscope("scan", "-m", program_model, path, "--query", query, "--db", db, "--json")
    base, worst, n = sqlite3.connect(db), 0.0, 0
    for line in lines:
        text = line["text"]
        assert text.isascii()
        encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            patterns = torch.stack(model(**encoded, output_attentions=True).attentions)[:, 0].double().numpy()
        rows = inside(text, offsets, line["pronoun_span"] if query == "pronoun" else line["swap_span"])
        rows = rows if query == "pronoun" else rows[-1:]
        row = patterns[:, :, rows].mean(2)
        want = np.stack([row[:, :, inside(text, offsets, c["span"])].sum(2) for c in line["cands"]] + [row[:, :, 0]], 2)
        got = np.zeros_like(want)
        found = base.execute("SELECT layer, head, a, b, sink FROM weights JOIN sentences ON sentence = id WHERE text = ?",
                             [text]).fetchall()
        assert len(found) == want.shape[0] * want.shape[1], (text, len(found))
        for layer, head, *weights in found:
            got[layer, head] = weights
        worst, n = max(worst, np.abs(got - want).max()), n + 1
    print(f"  {pathlib.Path(program_model).name}: {n} sentences, at most {worst:.1e} from transformers")
    assert worst <= BAR


def test_smollm2():
    from transformers import AutoModelForCausalLM, AutoTokenizer
    import torch
    path, lines = twins()
    gguf = common.smollm2()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, attn_implementation="eager",
                                                 dtype=torch.float32).eval()
    with common.scratch() as folder:
        compare(model, tokenizer, path, lines, folder, gguf, "swap")


def open_minilm():
    from transformers import AutoModel, AutoTokenizer
    folder = common.minilm()
    done = common.headscope("info", "-m", folder, status=None)
    common.require(done.returncode == 0, f"the program does not open MiniLM: {done.stderr.decode().strip()}")
    return folder, lambda: (AutoModel.from_pretrained(folder, attn_implementation="eager").eval(),
                            AutoTokenizer.from_pretrained(folder))


def test_minilm():
    path, lines = twins()
    minilm_folder, load = open_minilm()
    model, tokenizer = load()
    with common.scratch() as folder:
        compare(model, tokenizer, path, lines, folder, minilm_folder, "pronoun")


def test_encoder_decoders():
    """Their encoder reads the sentences: its own heads, of T5 and BART with tokenizers made here."""
    import test_parity_encdec as encdec
    path, lines = twins()
    for seed, (base, words) in enumerate(encdec.WORDS[:2], start=1200):
        with common.scratch() as folder:
            model, peer, tokenizer = encdec.with_words(folder, base, words, seed)
            # transformers gives a mark of its own the next letter's place, headscope the blank's: such sentences are left out.
            told = [line for line in lines if "\u2581" not in tokenizer.tokenize(line["text"])]
            assert len(told) > 10, len(told)
            compare(peer.get_encoder(), tokenizer, path, told, folder, model, "pronoun")


def test_known_head():
    """One value from one model: a test of arithmetic, not a finding."""
    path, _ = twins()
    folder, _ = open_minilm()
    result = json.loads(common.headscope("scan", "-m", folder, path, "--json").stdout)
    best, second = result["heads"][:2]
    assert best["name"] == "L3H1", best["name"]
    for name, value in (("a1", 0.3933), ("b1", 0.2247), ("a2", 0.3102), ("b2", 0.2838), ("shift", 0.1422)):
        assert abs(best[name] - value) <= 6e-5, (name, best[name])
    assert abs(best["p"] - 7.5e-4) <= 0.5e-5, best["p"]
    assert abs(best["ci"][0] - 0.068) <= 0.004 and abs(best["ci"][1] - 0.218) <= 0.004, best["ci"]
    assert abs(second["shift"]) < best["shift"] / 5, second
    print(f"  L3H1: shift {best['shift']:.4f}, interval [{best['ci'][0]:.3f}, {best['ci'][1]:.3f}], p {best['p']:.2e}; "
          f"next {second['name']} {second['shift']:.4f}")


if __name__ == "__main__":
    common.main(globals())
