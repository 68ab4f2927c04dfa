"""headscope patch: shapes and ends of its maps, both directions, paths, cut edges, pair files, and what is refused."""

import re
import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
IDS = "1,403,407,261,378,276,300"
OTHER = "1,403,407,310,378,276,300"  # another token at position 3
WORDS = ("patch", "-m", STORIES, "--metric", "logit: #500 - #400", "--ids", IDS, "--corrupted-ids", OTHER)


class Patch(ProgramTest):
    def test_ends(self):
        got = self.json(*WORDS)
        self.assertEqual((len(got["cells"]), {len(row) for row in got["cells"]}), (5, {7}))
        for row in got["cells"]:
            for position in range(3):  # causal: what lies before the exchanged token is the same in both runs
                self.assertEqual(row[position], 0)
        self.assertAlmostEqual(got["cells"][0][3], 1, delta=1e-5)  # the exchanged token is the whole difference
        noise = self.json(*WORDS, "--noise")
        self.assertAlmostEqual(noise["cells"][0][3], 0, delta=1e-5)
        self.assertEqual((got["direction"], noise["direction"]), ("denoise", "noise"))

    def test_heads(self):
        got = self.json(*WORDS, "--site", "z")
        self.assertEqual((len(got["cells"]), {len(row) for row in got["cells"]}, got["columns"]), (5, {8}, "head"))

    def test_text(self):
        text = self.good(*WORDS, "--plot", self.folder / "a.svg")
        for words in ("(denoising)", "clean ", "0 is the corrupted run, 1 the clean", "The 10 cells of 35"):
            self.assertIn(words, text)
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)

    def test_kv_heads(self):
        """A key or value belongs to a kv head; 8 heads share 4 here."""
        text = self.good(*WORDS, "--site", "v", "--top", "1")
        self.assertIn("v patched kv head by kv head at all positions", text)
        found = re.search(r"layer (\d) \(L(\d)\), kv head (\d), which H(\d) to H(\d) share", text)
        layer, index, kv, first, last = map(int, found.groups())
        self.assertEqual((layer, first, last), (index + 1, 2 * kv, 2 * kv + 1))
        self.bad(2, *WORDS, "--site", "mlp_out", "--by", "head", says=["mlp_out is not made of heads"])
        self.bad(2, *WORDS, "--site", "pattern", "--by", "layer", says=["pattern goes head by head"])
        self.bad(2, *WORDS, "--site", "logits", says=["no layer has such a site"])
        self.bad(1, *WORDS, "--site", "cross_z", says=["no site"])

    def test_paths(self):
        end = self.json(*WORDS, "--path", "end")
        self.assertEqual((end["mode"], end["input"], end["columns"]), ("paths", "resid_post", "head"))
        got = self.json(*WORDS, "--path", "L3H2,L2H1", "--input", "v", "--noise")
        self.assertEqual(got["receivers"], [{"layer": 3, "head": 2}, {"layer": 2, "head": 1}])
        for layer, row in enumerate(got["cells"]):
            for cell in row:  # what does not stand before a receiver sends it nothing: the clean run
                self.assertEqual(cell == 1, layer >= 3)
        text = self.good(*WORDS, "--path", "L3H2")
        self.assertIn("paths from each head to q of L3H2, other heads held, from the clean run", text)
        self.bad(2, *WORDS, "--path", "L3", says=["'L3'"])
        self.bad(2, *WORDS, "--path", "end", "--input", "k")
        noise = self.good(*WORDS, "--path", "L3H1", "--noise", "--plot", self.folder / "n.svg")
        self.assertIn("the map shows them less 1", noise)
        lines = noise.splitlines()
        below = [line for line in lines if line.startswith((" 4 L4", "4 L4"))][0]
        self.assertEqual(below[4:].strip(), "")  # heads behind the receiver send it nothing: as the run starts, white
        self.bad(1, *WORDS, "--path", "L3H9", says=["L3H9"])
        self.bad(1, *WORDS, "--path", "L9H1", says=["--path: there is no head L9H1: the model has layers L0 to L4"])
        self.bad(1, *WORDS, "--path", "L0H3,L0H1", says=["no head stands before those of layer 1 (L0)"])

    def test_cuts(self):
        text = "Tom saw a cat and a dog"
        words = ("patch", "-m", STORIES, "--metric", "logit: #500 - #400", text)
        got = self.json(*words, "--cut", "cat", "--query", "dog")
        self.assertEqual((len(got["cells"]), len(got["cells"][0]), got["mode"]), (5, 8, "cuts"))
        self.assertEqual((got["cut"], got["query"]), ([5, 6], [9, 10]))
        same = self.json(*words, "--cut", "#5-6", "--query", "#9-10")
        self.assertEqual(got["cells"], same["cells"])
        layers = self.json(*words, "--cut", "cat", "--by", "layer")
        self.assertEqual([len(row) for row in layers["cells"]], [1] * 5)
        each = self.json(*words, "--cut", "each", "--query", "cat")
        for row in each["cells"]:  # nothing behind the query is seen anyway
            self.assertEqual(row[7:], [0] * (len(row) - 7))
        self.assertTrue(all(all(row[:6]) for row in each["cells"][:4]))
        self.assertFalse(any(each["cells"][4]))  # nobody reads what the last layer writes there
        plain = self.good(*words, "--cut", "cat", "--no-renorm", "--plot", self.folder / "a.svg")
        self.assertIn("cannot see positions 5 to 6", plain)
        self.bad(1, *words, "--cut", "a ", says=["more than once: choose one of #4, #8"])
        self.bad(1, *words, "--cut", "cow", says=["does not stand"])
        self.bad(1, *words, "--cut", "dog", "--query", "Tom", says=["behind the query"])
        self.bad(2, *words, "--cut", "dog", "--path", "end")

    def test_pairs(self):
        file = self.folder / "pairs.txt"
        file.write_text("[a:Ben] met [b:Tom]. Then {Tom|Ben} gave a ball [q:to]\n"
                        "[a:Tom] saw [b:Lily]. Then {Lily|Tom} gave a ball [q:to]\n")
        got = self.json("patch", "-m", STORIES, "--pairs", file)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["n_aligned"], got["skipped"]), (4, 2, 2, []))
        self.assertAlmostEqual(got["total"], -2 * got["clean"], delta=1e-6)  # both orders of one pair
        for head in got["heads"]:
            self.assertAlmostEqual(head["indirect"], got["total"] - head["direct"], delta=1e-6)
        text = self.good("patch", "-m", STORIES, "--pairs", file, "--plot", self.folder / "m.svg", "--top", "3")
        for words in ("over 4 texts in 2 clusters, 2 of them aligned by span with a text of another length\n", "The 3 heads of 40 that carry most"):
            self.assertIn(words, text)
        self.bad(2, "patch", "-m", STORIES, "--pairs", file, "text")
        self.bad(2, "patch", "-m", STORIES, "--pairs", file, "--site", "z", says=["leave --site out"])
        self.bad(2, *WORDS, "--limit", "3")

    def test_twins_of_other_lengths(self):
        """A word of more tokens is aligned, also where it is the other with an ending; a word too many is not."""
        file = self.folder / "pairs.txt"
        lines = ["[a:Ben] met [b:Tom]. Then {Tom|Ben} gave a ball [q:to]",
                 "[a:Tom] saw [b:Lily]. Then {Lily|Tom} gave a ball [q:to]",
                 "[a:Tom] met [b:Ben]. The {dog|dogs} ran [q:to]",
                 "[a:Ben] met [b:Tom]. Then {Tom|the Tom} gave a ball [q:to]"]
        file.write_text("\n".join(lines) + "\n")
        got = self.json("patch", "-m", STORIES, "--pairs", file)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["n_aligned"]), (6, 3, 4))
        (skipped,) = got["skipped"]
        self.assertEqual(skipped["line"], 4)
        self.assertRegex(skipped["why"], r"\Aits twin does not fit: texts of (\d+) and (?!\1)\d+ tokens: where one has a "
                                         r"word more the other has nothing to align\Z")
        self.assertIn("over 6 texts in 3 clusters, 4 of them aligned by span with a text of another length; 1 line left "
                      "out: line 4 (its twin does", self.good("patch", "-m", STORIES, "--pairs", file))
        alone = []
        for line in lines[:3]:
            file.write_text(line + "\n")
            alone.append(self.json("patch", "-m", STORIES, "--pairs", file))
        self.assertEqual([one["n_aligned"] for one in alone], [0, 2, 2])
        for head in got["heads"]:
            of_pairs = [h["indirect"] for one in alone for h in one["heads"] if h["name"] == head["name"]]
            self.assertAlmostEqual(head["indirect"], sum(of_pairs) / 3, delta=1e-6)
        file.write_text(lines[3] + "\n")
        self.bad(1, "patch", "-m", STORIES, "--pairs", file, says=[f"{file}: no text has a twin to take from; line 1: its twin"])

    def test_ending(self):
        """A word and the same with an ending: the ending meets the word's last token, as over a pair file."""
        metric = ("--metric", "logit: #500 - #400")
        got = self.json("patch", "-m", STORIES, *metric, "The dogs ran to", "--corrupted", "The dog ran to")
        n, m = got["n_rows"]
        self.assertEqual(n, m + 1)
        self.assertEqual(got["seam"], 3)  # <s>, The, do, g, s: s meets g, and g nothing
        self.assertEqual([i for i, cell in enumerate(got["cells"][0]) if cell is None], [3])
        for other in ("The dog, ran to", "The big dog ran to"):
            self.bad(1, "patch", "-m", STORIES, *metric, "The dog ran to", "--corrupted", other, says=["a word more"])
        how = ("--how", "resample", "--heads", "L3H2", "--no-controls")
        got = self.json("ablate", "-m", STORIES, *metric, "The dogs ran to", *how, "--donor", "The dog ran to")
        self.assertEqual(got["n_aligned"], 1)

    def test_texts_of_unequal_lengths(self):
        """Patched before the first layer, a position of a model that rotates is the other text's token there."""
        metric = ("--metric", "logit: #500 - #400")
        clean, corrupted = (1, 300, 401, 402, 403, 404), (1, 300, 350, 403, 404)

        def patch(*words, first=clean, second=corrupted):
            ids = [",".join(map(str, x)) for x in (first, second)]
            return self.json("patch", "-m", STORIES, *metric, "--ids", ids[0], "--corrupted-ids", ids[1], *words)

        def share(got, mixed):
            value = patch(first=mixed, second=(*mixed[:-1], 405))["clean"]
            return (value - got["corrupted"]) / (got["clean"] - got["corrupted"])

        for words, mixed in (((), (1, 300, 402, 403, 404)), (("--noise",), (1, 300, 401, 350, 403, 404))):
            got = patch(*words)
            self.assertEqual((got["n_rows"], got["seam"]), ([6, 5], 2))
            row = got["cells"][0]
            self.assertEqual([c is None for c in row], [False, False, True, False, False, False])
            self.assertAlmostEqual(row[3], share(got, mixed), delta=1e-5)
            for same in (0, 1, 4, 5):  # the same token in both
                self.assertAlmostEqual(row[same], float("--noise" in words), delta=1e-5)
            whole = patch(*words, "--by", "layer")
            self.assertAlmostEqual(whole["cells"][0][0], share(whole, mixed), delta=1e-5)
            for cells in patch(*words, "--site", "z")["cells"]:
                self.assertNotIn(None, cells)
        ids = ("--ids", "1,300,401,402,403,404", "--corrupted-ids", "1,300,350,403,404")
        text = self.good("patch", "-m", STORIES, *metric, *ids, "--plot", self.folder / "m.svg")
        for words in ("6 and 5 tokens, aligned by span: from position 2 on", "of 25 farthest"):
            self.assertIn(words, text)
        self.assertIn("no such token in the other text", (self.folder / "m.svg").read_text())
        for words in (("--site", "pattern"), ("--path", "end")):
            self.bad(1, "patch", "-m", STORIES, *metric, *ids, *words, says=["6 and 5 tokens", words[-1].replace("end", "--path")])
        self.bad(1, "patch", "-m", STORIES, *metric, "--ids", "1,2,3,4", "--corrupted-ids", "1,2,4", says=["a word more"])

    def test_refused(self):
        self.bad(1, *WORDS[:-1], IDS, says=["no difference"])
        self.bad(1, *WORDS[:-1], "2,3", says=["7 and 2 tokens", "no frame"])
        self.bad(2, *WORDS[:-2], says=["--corrupted"])
        self.bad(2, *WORDS[:3], "--metric", "loss", *WORDS[5:], says=["'loss'"])


if __name__ == "__main__":
    main("models/stories260K")
