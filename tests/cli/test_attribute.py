"""headscope attribute: parts that add up, sources, pair files, and what is refused."""

import json
import unittest

from program import DATA, MARKED, SKIPPED, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
TEXT = "Once upon a time there was a"
METRIC = ("--metric", "logit: #500 - #400")


class Attribute(ProgramTest):
    def attribute(self, *words):
        return self.json("attribute", "-m", STORIES, *words)

    def test_sum(self):
        got = self.attribute(TEXT, *METRIC)
        self.assertEqual(len(got["parts"]), 4 + 5 * (8 + 2))
        self.assertAlmostEqual(sum(p["value"] for p in got["parts"]), got["value"], delta=1e-5)
        self.assertEqual([p["kind"] for p in got["parts"][:3]], ["embed", "pos_embed", "head"])
        clean = self.json("ablate", "-m", STORIES, TEXT, *METRIC, "--heads", "L0H0", "--no-controls")["clean"]
        self.assertAlmostEqual(got["value"], clean, delta=1e-5)

    def test_position(self):
        whole = self.attribute(TEXT, *METRIC, "--pos", "3")
        ids = [t["id"] for t in whole["tokens"]]
        part = self.attribute("--ids", ",".join(map(str, ids[:4])), *METRIC)
        self.assertEqual(whole["parts"], part["parts"])
        self.assertEqual(whole["metric"], "logit of #500 minus logit of #400 at position 3")
        self.assertEqual(part["metric"], "logit of #500 minus logit of #400 at the last token")
        self.assertIn(f"at position 3 '{whole['tokens'][3]['text']}'\n",
                      self.good("attribute", "-m", STORIES, TEXT, *METRIC, "--pos", "3"))

    def test_sources(self):
        got = self.attribute(TEXT, *METRIC, "--sources")
        for part in got["parts"]:
            self.assertEqual("sources" in part, part["kind"] == "head")
            if part["kind"] == "head":
                self.assertAlmostEqual(sum(part["sources"]), part["value"], delta=1e-5)

    def test_text(self):
        words = ("attribute", "-m", STORIES, TEXT, *METRIC, "--sources", "--plot", self.folder / "a.svg")
        text = self.good(*words)
        for expected in ("taken apart: logit of #500 minus logit of #400", "the parts add up to it within",
                         "together ", "The 10 largest parts of 54", " from "):
            self.assertIn(expected, text)
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)
        self.assertEqual(text, self.good(*words, "-t", "3"))

    def test_pairs(self):
        lines = [{"id": "p-0-0", "prompt": "Lily and Tom ran. Tom gave a ball to", "io": "Lily", "s": "Tom"},
                 {"id": "p-0-1", "prompt": "Lily and Tom ran. Lily gave a ball to", "io": "Tom", "s": "Lily"},
                 {"id": "p-1-0", "prompt": "Lily saw a dog. The dog saw", "right": "Lily", "wrong": "Tom"}]
        file = self.folder / "pairs.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        got = self.attribute("--pairs", file)
        ablate = self.json("ablate", "-m", STORIES, "--pairs", file, "--heads", "L0H0", "--no-controls")
        self.assertAlmostEqual(got["value"], ablate["clean"], delta=1e-5)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["right"]), (3, 2, ablate["clean_right"]))
        for part in got["parts"]:
            self.assertLessEqual(part["ci"][0], part["value"] + 1e-9)

    def test_marked_pairs(self):
        file = self.folder / "marked.txt"
        file.write_text(MARKED)
        got = self.attribute("--pairs", file)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["skipped"]), (2, 1, [SKIPPED]))
        self.assertIn(f"line 2 ({SKIPPED['why']})", self.good("attribute", "-m", STORIES, "--pairs", file))

    def test_refused(self):
        self.bad(2, "attribute", "-m", STORIES, TEXT, says=["--metric is missing"])
        self.bad(2, "attribute", "-m", STORIES, TEXT, "--metric", "loss", says=["'loss'"])
        self.bad(2, "attribute", "-m", STORIES, *METRIC, says=["TEXT and --ids"])
        self.bad(2, "attribute", "-m", STORIES, "--pairs", "x", "--sources", says=["--pairs"])
        self.bad(2, "attribute", "-m", STORIES, TEXT, *METRIC, "--limit", "3", says=["--limit goes with --pairs"])
        self.bad(1, "attribute", "-m", STORIES, TEXT, "--metric", "logit: #512", says=["512"])


if __name__ == "__main__":
    main("models/stories260K")
