"""headscope steer: a dose of 0 changes nothing, doses, controls, pair files, writing on, and what is refused."""

import json
import unittest

from program import DATA, MARKED, SKIPPED, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
TEXT = "Once upon a time there was a"
METRIC = ("--metric", "logit: #500 - #400")


class Steer(ProgramTest):
    def setUp(self):
        super().setUp()
        self.toward, self.away = self.folder / "toward.txt", self.folder / "away.txt"
        self.toward.write_text("Lily was happy.\nTom had fun with his friends.\n")
        self.away.write_text("Lily was sad.\nTom had a big fall and cried.\nThe dog was lost.\n")
        self.words = ("steer", "-m", STORIES, "--toward", self.toward, "--away", self.away)

    def test_doses(self):
        got = self.json(*self.words, TEXT, *METRIC, "--layer", "L2", "--dose", "-1,0,0.5")
        self.assertEqual((got["n_toward"], got["n_away"], got["site"]), (2, 3, "resid_post"))
        self.assertEqual([(p["layer"], p["dose"]) for p in got["points"]], [(2, -1), (2, 0), (2, 0.5)])
        clean = self.json("ablate", "-m", STORIES, TEXT, *METRIC, "--heads", "L0H0", "--no-controls")["clean"]
        self.assertAlmostEqual(got["clean"], clean, delta=1e-6)
        for point in got["points"]:
            self.assertAlmostEqual(point["value"] - point["effect"], clean, delta=1e-6)
            self.assertEqual(point["effect"] == 0, point["dose"] == 0)
            control = point["control"]
            self.assertTrue(control["low"] <= control["mean"] <= control["high"])
        self.assertEqual(len(self.json(*self.words, TEXT, *METRIC, "--no-controls")["points"]), 5 * 6)

    def test_write(self):
        got = self.json(*self.words, TEXT, "--layer", "L3", "--dose", "0,5", "--write", "8")
        plain = self.json("generate", "-m", STORIES, TEXT, "-n", "8", "--compute", "f32")
        texts = [point["text"] for point in got["points"]]
        self.assertEqual(texts[0], plain["samples"][0]["text"])
        self.assertNotEqual(texts[0], texts[1])
        self.assertNotIn("value", got["points"][0])

    def test_text(self):
        words = (*self.words, TEXT, *METRIC, "--layer", "L1", "--plot", self.folder / "a.svg")
        text = self.good(*words)
        for expected in ("of 2 texts", "minus that of 3", "effect = steered minus as it is", "length of the direction",
                         "5 random directions"):
            self.assertIn(expected, text)
        self.assertEqual(text, self.good(*words, "-t", "3"))
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)
        text = self.good(*self.words, TEXT, "--metric", "loss", "--site", "mlp_out", "--at", "last", "--plot",
                         self.folder / "b.svg")
        self.assertIn("choosing one is a search", text)

    def test_pairs(self):
        lines = [{"id": "p-0-0", "prompt": "Lily and Tom ran. Tom gave a ball to", "io": "Lily", "s": "Tom"},
                 {"id": "p-1-0", "prompt": "Lily saw a dog. The dog saw", "right": "Lily", "wrong": "Tom"}]
        file = self.folder / "pairs.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        got = self.json(*self.words, "--pairs", file, "--layer", "L2")
        self.assertEqual((got["n_texts"], len(got["points"])), (2, 6))
        for point in got["points"]:
            self.assertTrue(point["ci"][0] <= point["effect"] <= point["ci"][1])
            self.assertIn(point["right"], (0, 1, 2))
        file.write_text(MARKED)
        got = self.json(*self.words, "--pairs", file, "--layer", "L2")
        self.assertEqual((got["n_texts"], got["n_clusters"], got["skipped"]), (2, 1, [SKIPPED]))

    def test_refused(self):
        self.bad(2, "steer", "-m", STORIES, TEXT, *METRIC, says=["--toward FILE and --away FILE"])
        self.bad(2, *self.words, TEXT, says=["--metric, --pairs or --write"])
        self.bad(2, *self.words, TEXT, *METRIC, "--limit", "3", says=["--limit goes with --pairs"])
        self.bad(2, *self.words, TEXT, *METRIC, "--dose", "1,x", says=["'1,x'"])
        self.bad(1, *self.words, TEXT, "--write", "5", says=["--write wants one layer"])
        self.bad(1, *self.words, TEXT, *METRIC, "--layer", "L9", says=["layer"])
        self.bad(1, *self.words, "--ids", "5", *METRIC, says=["position 0"])
        same = self.words[self.words.index("--toward") + 1]
        self.bad(1, "steer", "-m", STORIES, "--toward", same, "--away", same, TEXT, *METRIC, says=["have the same mean"])


if __name__ == "__main__":
    main("models/stories260K")
