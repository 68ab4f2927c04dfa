"""headscope rollout and values: what their tables and their JSON hold, and what is refused."""

import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
TEXT = "Once upon a time there was a"


class Rollout(ProgramTest):
    def test_rollout(self):
        got = self.json("rollout", "-m", STORIES, TEXT, "--token", " time")
        n = len(got["tokens"])
        self.assertEqual((len(got["rollout"]), len(got["flow"]), got["pos"]), (n, n, 4))
        for q, row in enumerate(got["rollout"]):
            self.assertAlmostEqual(sum(row), 1, delta=1e-5)
            self.assertEqual([k for k, share in enumerate(row) if share], list(range(q + 1)))
        for share, flow in zip(got["rollout"][4], got["flow"]):
            self.assertLessEqual(share, flow + 1e-6)  # a flow to one input alone is the most that can reach it
        self.assertAlmostEqual(sum(got["mean"]), 1, delta=1e-5)
        text = self.good("rollout", "-m", STORIES, TEXT, "--token", " time", "--plot", self.folder / "a.svg")
        self.assertIn("what position 4 ' time' is made of after all layers", text)
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)
        self.assertIsNone(self.json("rollout", "-m", STORIES, TEXT, "--no-flow")["flow"])
        long = ",".join(["300"] * 129)
        self.assertIsNone(self.json("rollout", "-m", STORIES, "--ids", long)["flow"])

    def test_values(self):
        got = self.json("values", "-m", STORIES, TEXT, "--pos", "4")
        self.assertEqual(len(got["heads"]), 40)
        look = self.json("look", "-m", STORIES, TEXT, "--pos", "4", "--top", "1", "--include-first")
        for head, row in zip(got["heads"], look["heads"]):
            self.assertAlmostEqual(max(head["weights"]), row["top"][0]["weight"], delta=1e-6)
            self.assertTrue(all(size > 0 for size in head["sizes"]))
        text = self.good("values", "-m", STORIES, TEXT, "--head", "L2H3", "--plot", self.folder / "a.svg")
        rows = [line.split() for line in text.splitlines() if line.startswith(("head", "L2H3"))]
        self.assertEqual(" ".join(rows[0]), "head looks most at weight moves most of share weight size")
        self.assertEqual(float(rows[1][-3]), max(float(line.split()[-3]) for line in text.split("\n\n")[1].splitlines()[1:]))
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)
        self.assertEqual(len(self.good("values", "-m", STORIES, TEXT, "--layer", "L2-L3").splitlines()), 4 + 16)

    def test_refused(self):
        self.bad(2, "rollout", "-m", STORIES, says=["TEXT and --ids"])
        self.bad(2, "values", "-m", STORIES, TEXT, "--plot", "a.png", says=["--head"])
        self.bad(2, "values", "-m", STORIES, TEXT, "--head", "L0H0", "--layer", "L1", says=["one of the two"])
        self.bad(1, "values", "-m", STORIES, TEXT, "--head", "L9H0", says=["L9H0"])


if __name__ == "__main__":
    main("models/stories260K")
