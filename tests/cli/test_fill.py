"""headscope fill: masked words of a golden checkpoint against transformers' logits, and how a gap that cannot be filled
is answered."""

import json
import math
import shutil
import unittest

from program import DATA, SOURCE, ProgramTest, main, read_safetensors

GOLDEN = SOURCE / "tests" / "golden" / "data"
STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"


def words(ids, mask):
    return " ".join("[MASK]" if i == mask else f"w{i}" for i in ids)


class Fill(ProgramTest):
    def model(self, name, mask, content="[MASK]"):
        """The golden checkpoint with a tokenizer of which token `mask` is the mask and any other one is a word."""
        folder = self.folder / f"{name}-{mask}"
        shutil.copytree(GOLDEN / name, folder)
        vocab = {content if i == mask else f"w{i}": i for i in range(64)}
        added = {"id": mask, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}
        tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [added], "normalizer": None,
                     "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
                     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
                     "model": {"type": "WordPiece", "unk_token": "w0", "continuing_subword_prefix": "##",
                               "max_input_chars_per_word": 100, "vocab": vocab}}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return folder

    def check(self, data, logits, positions, top):
        """The candidates against the softmax of logits [n_pos][n_vocab]."""
        self.assertEqual([mask["pos"] for mask in data["masks"]], positions)
        for mask in data["masks"]:
            row = list(logits.row(mask["pos"]))
            total = math.fsum(math.exp(x) for x in row)
            order = sorted(range(len(row)), key=lambda i: -row[i])[:top]
            self.assertEqual([guess["id"] for guess in mask["candidates"]], order)
            for guess in mask["candidates"]:
                want = math.exp(row[guess["id"]]) / total
                self.assertAlmostEqual(guess["probability"], want, delta=1e-4 * want)

    def test_against_transformers(self):
        expected = read_safetensors(GOLDEN / "modernbert-bf16.expected.safetensors")
        ids = expected["ids"].numbers.tolist()
        for mask in (16, 53):  # stands in one place, in two
            positions = [at for at, i in enumerate(ids) if i == mask]
            model = self.model("modernbert-bf16", mask)
            for top in (1, 5, 64):
                data = self.json("fill", "-m", model, words(ids, mask), "-k", top)
                self.assertEqual([token["id"] for token in data["tokens"]], ids)
                self.check(data, expected["logits"], positions, top)
            self.assertAlmostEqual(sum(g["probability"] for g in data["masks"][0]["candidates"]), 1, delta=1e-8)

    def test_a_head_with_a_transform(self):
        model = self.model("bert-f16", 42)
        ids = [26, 42, 61, 42, 42, 38]
        out = self.folder / "logits.safetensors"
        self.good("run", "-m", model, "--ids", ",".join(map(str, ids)), "--sites", "logits", "-o", out)
        data = self.json("fill", "-m", model, words(ids, 42))
        self.check(data, read_safetensors(out)["logits"], [1, 3, 4], 5)
        best = [mask["candidates"][0]["text"] for mask in data["masks"]]
        self.assertEqual(data["text"], f"w26 {best[0]} w61 {best[1]} {best[2]} w38")
        self.assertEqual((data["compute"], data["model"]["arch"]), ("f32", "bert"))

    def test_pair(self):
        """Two texts are one sequence in two segments: what a plain pass over the same ids and segments says."""
        model = self.model("bert-f16", 42)
        tree = json.loads((model / "tokenizer.json").read_text())
        sep = {"id": "w7", "type_id": 0}
        tree["post_processor"] = {
            "type": "TemplateProcessing", "special_tokens": {"w7": {"id": "w7", "ids": [7], "tokens": ["w7"]}},
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": sep}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": sep}, {"Sequence": {"id": "B", "type_id": 1}}]}
        (model / "tokenizer.json").write_text(json.dumps(tree))
        ids, segments = [26, 42, 7, 61, 42, 38], "0,0,0,1,1,1"
        out = self.folder / "logits.safetensors"
        self.good("run", "-m", model, "--ids", ",".join(map(str, ids)), "--segments", segments, "--sites",
                  "logits,pattern", "-o", out)
        expected = read_safetensors(out)
        data = self.json("fill", "-m", model, words(ids[:2], 42), "--pair", words(ids[3:], 42))
        self.assertEqual([token["id"] for token in data["tokens"]], ids)
        self.check(data, expected["logits"], [1, 4], 5)
        # look reads the pair in the same way.
        seen = self.json("look", "-m", model, words(ids[:2], 42), "--pair", words(ids[3:], 42), "--parse-special", "--pos",
                         "4", "--include-first")
        self.assertEqual([token["text"] for token in seen["tokens"]], ["w26", "[MASK]", "w7", "w61", "[MASK]", "w38"])
        for head in seen["heads"]:
            row = list(expected[f"pattern.{head['layer']}"].row(head["head"], 4))
            self.assertAlmostEqual(head["best"]["weight"], max(row), delta=1e-6)
            self.assertEqual(head["best"]["pos"], row.index(max(row)))
        self.bad(2, "look", "-m", model, "--ids", "1,2", "--pair", "x", says=["--pair"])

    def test_text(self):
        model = self.model("bert-f16", 42)
        text = self.good("fill", "-m", model, "w1 [MASK] w2 [MASK]", "-k", "2")
        data = self.json("fill", "-m", model, "w1 [MASK] w2 [MASK]", "-k", "2")
        lines = text.splitlines()
        self.assertEqual((lines[0], lines[2], lines[7]), (data["text"], "position 1", "position 3"))
        for line, guess in zip(lines[4:6] + lines[9:11], [g for mask in data["masks"] for g in mask["candidates"]], strict=True):
            self.assertEqual(line.split(), [f"{guess['probability']:.6f}", str(guess["id"]), repr(guess["text"])])
        path = self.folder / "text"
        path.write_text("w1 [MASK] w2 [MASK]\n")
        self.assertEqual(self.good("fill", "-m", model, "--file", path, "-k", "2"), text)
        self.assertEqual(self.good("fill", "-m", model, "-", "-k", "2", input=path.read_bytes()), text)

    def test_the_files_name_the_mask(self):
        model = self.model("bert-f16", 42, content="<gap>")
        self.bad(1, "fill", "-m", model, "w1 <gap>", says=["no mask token"])
        for name, value in (("special_tokens_map.json", "<gap>"), ("tokenizer_config.json", {"content": "<gap>"})):
            (model / name).write_text(json.dumps({"mask_token": value}))
            self.assertEqual(self.json("fill", "-m", model, "w1 <gap>")["masks"][0]["pos"], 1)
            self.bad(1, "fill", "-m", model, "w1 [MASK]", says=["no mask", "<gap>"])
            (model / name).unlink()

    def test_what_cannot_be_filled(self):
        model = self.model("bert-f16", 42)
        self.bad(2, "fill", "-m", model, says=["no text"])
        self.bad(2, "fill", "-m", model, "x", "-f", "y", says=["one of the two"])
        self.bad(2, "fill", "-m", model, "x", "-k", "0", says=["--top"])
        self.bad(1, "fill", "-m", model, "w1 w2", says=["no mask", "[MASK]"])
        self.bad(1, "fill", "-m", model, "[MASK] " * 17, says=["17 tokens", "16"])
        self.bad(1, "fill", "-m", model, "[MASK]", "-k", "65", says=["--top 65", "64 tokens"])
        self.bad(1, "fill", "-m", GOLDEN / "bert-f16", "[MASK]", says=["has no tokenizer"])
        self.bad(1, "fill", "-m", self.headless(), "[MASK]", says=["masked-word head", "bert-base-uncased", "embed"])
        if STORIES.exists():
            self.bad(1, "fill", "-m", STORIES, "[MASK]", says=["generate", "bert-base-uncased"])

    def headless(self):
        """The same checkpoint without its head."""
        model = self.model("bert-f16", 41)
        path = model / "model.safetensors"
        blob = path.read_bytes()
        n = int.from_bytes(blob[:8], "little")
        head = json.loads(blob[8 : 8 + n])
        kept = {name: entry for name, entry in head.items() if not name.startswith("cls.")}
        data, at = b"", 0
        for entry in kept.values():
            if "data_offsets" not in entry:
                continue
            start, end = entry["data_offsets"]
            entry["data_offsets"] = [at, at + end - start]
            data, at = data + blob[8 + n + start : 8 + n + end], at + end - start
        text = json.dumps(kept).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        return model


if __name__ == "__main__":
    main()
