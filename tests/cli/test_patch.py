"""headscope patch: shapes and ends of its maps, both directions, and what is refused."""

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

    def test_refused(self):
        self.bad(1, *WORDS[:-1], IDS, says=["no difference"])
        self.bad(1, *WORDS[:-1], "1,2", says=["7 and 2 tokens"])
        self.bad(2, *WORDS[:-2], says=["--corrupted"])
        self.bad(2, *WORDS[:3], "--metric", "loss", *WORDS[5:], says=["'loss'"])


if __name__ == "__main__":
    main("models/stories260K")
