"""headscope lens: what its table, its JSON and a pair file say, and what is refused."""

import json
import math
import unittest

from program import DATA, MARKED, SKIPPED, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads, 512 words
TEXT = "Once upon a time there was a"


class Lens(ProgramTest):
    def test_json(self):
        got = self.json("lens", "-m", STORIES, TEXT, "--word", "#500", "--word", "#3", "--top", "2")
        n = len(got["tokens"])
        self.assertEqual((len(got["stages"]), {len(row) for row in got["stages"]}), (6, {n}))
        for row in got["stages"]:
            for i, cell in enumerate(row):
                self.assertEqual((len(cell["top"]), [w["id"] for w in cell["words"]]), (2, [500, 3]))
                self.assertEqual(cell["loss"] is None, i == n - 1)
        for cell, before in zip(got["stages"][-1], got["stages"][0]):
            self.assertEqual(cell["kl"], 0)
            self.assertGreater(before["kl"], 0)
            self.assertEqual(cell["p_answer"], cell["top"][0]["p"])

    def test_last_stage_is_the_model(self):
        got = self.json("lens", "-m", STORIES, TEXT)
        score = self.json("score", "-m", STORIES, TEXT)
        losses = [cell["loss"] for cell in got["stages"][-1][:-1]]
        self.assertAlmostEqual(-sum(losses), score["log_prob"], delta=1e-3)

    def test_text(self):
        text = self.good("lens", "-m", STORIES, TEXT, "--pos", "2", "--by", "kl", "--plot", self.folder / "a.svg")
        for words in ("logit lens, compute f32", "at position 2", "embedding", "layer 5 (L4)", "KL, nats"):
            self.assertIn(words, text)
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)
        self.assertEqual(text, self.good("lens", "-m", STORIES, TEXT, "--pos", "2", "--by", "kl", "-t", "3"))

    def test_columns(self):
        """A word's name ends where its numbers end, counted in characters, not in bytes."""
        lines = self.good("lens", "-m", STORIES, TEXT, "--word", "#502", "--word", "#300").splitlines()
        head = next(line for line in lines if line.startswith("after "))
        row = next(line for line in lines if line.startswith("embedding "))
        end = head.index("'\u00e2'") + 3
        self.assertTrue(row[end - 1].isdigit(), (head, row))
        self.assertEqual(row[end], " ")

    def test_pairs(self):
        lines = [{"id": "p-0-0", "prompt": "Lily and Tom ran. Tom gave a ball to", "io": "Lily", "s": "Tom"},
                 {"id": "p-0-1", "prompt": "Lily and Tom ran. Lily gave a ball to", "io": "Tom", "s": "Lily"},
                 {"id": "p-1-0", "prompt": "Lily saw a dog. The dog saw", "right": "Lily", "wrong": "Tom"}]
        file = self.folder / "pairs.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        got = self.json("lens", "-m", STORIES, "--pairs", file, "--plot", self.folder / "a.png")
        self.assertEqual((got["n_texts"], got["n_clusters"], len(got["stages"])), (3, 2, 6))
        ablate = self.json("ablate", "-m", STORIES, "--pairs", file, "--heads", "L0H0", "--no-controls")
        self.assertAlmostEqual(got["stages"][-1]["lead"], ablate["clean"], delta=1e-5)
        self.assertEqual(got["stages"][-1]["right"], ablate["clean_right"])
        for stage in got["stages"]:
            self.assertTrue(math.isfinite(stage["lead"]))
        self.assertGreater((self.folder / "a.png").stat().st_size, 1000)

    def test_marked_pairs(self):
        """One cluster has no interval, and what is left out is told."""
        file = self.folder / "marked.txt"
        file.write_text(MARKED)
        got = self.json("lens", "-m", STORIES, "--pairs", file)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["skipped"]), (2, 1, [SKIPPED]))
        self.assertNotIn("ci", got["stages"][0])
        text = self.good("lens", "-m", STORIES, "--pairs", file, "--plot", self.folder / "a.svg")
        self.assertIn(f"line 2 ({SKIPPED['why']})", text)
        self.assertNotIn("interval", text + (self.folder / "a.svg").read_text())

    def test_refused(self):
        self.bad(2, "lens", "-m", STORIES, says=["TEXT and --ids"])
        self.bad(2, "lens", "-m", STORIES, TEXT, "--by", "word", says=["wants a --word"])
        self.bad(2, "lens", "-m", STORIES, TEXT, "--pairs", "x", says=["--pairs"])
        self.bad(2, "lens", "-m", STORIES, TEXT, "--limit", "3", says=["--limit goes with --pairs"])
        self.bad(2, "lens", "-m", STORIES, "--pairs", "x", "--by", "kl", says=["--by is about one text"])
        self.bad(1, "lens", "-m", STORIES, TEXT, "--pos", "99", says=["--pos 99"])
        self.bad(1, "lens", "-m", STORIES, TEXT, "--token", "zebra", says=["zebra"])
        self.bad(1, "lens", "-m", STORIES, TEXT, "--word", "#512", says=["--word: '#512'", "#511"])


if __name__ == "__main__":
    main("models/stories260K")
