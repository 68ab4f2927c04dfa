"""headscope ablate: what a sweep, a set and a pair file print, that threads change nothing, and what is refused."""

import json
import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
TEXT = "Once upon a time there was a"
METRIC = ("--metric", "logit: #500 - #400")


class Ablate(ProgramTest):
    def ablate(self, *words):
        return self.json("ablate", "-m", STORIES, *words)

    def test_sweep(self):
        got = self.ablate(TEXT, *METRIC)
        self.assertEqual(len(got["targets"]), 40)
        self.assertEqual([t["ablated"][0]["layer"] for t in got["targets"]], [i // 8 for i in range(40)])
        for target in got["targets"]:
            self.assertAlmostEqual(target["effect"], target["value"] - got["clean"], delta=1e-6)
        self.assertEqual((got["how"], got["unit"], got["n_texts"]), ("zero", "logits", 1))
        for sweep in ("attn", "mlp"):
            self.assertEqual(len(self.ablate(TEXT, *METRIC, "--sweep", sweep)["targets"]), 5)

    def test_one_of_a_sweep_is_a_set_of_one(self):
        sweep = self.ablate(TEXT, *METRIC)["targets"][3 * 8 + 2]
        one = self.ablate(TEXT, *METRIC, "--heads", "L3H2")["targets"]
        self.assertEqual([t["kind"] for t in one], ["set"] + ["control"] * 10)
        self.assertEqual(one[0]["value"], sweep["value"])
        for control in one[1:]:
            self.assertEqual(control["ablated"][0]["layer"], 3)
            self.assertNotEqual(control["ablated"][0]["head"], 2)

    def test_threads_change_nothing(self):
        texts = {self.good("ablate", "-m", STORIES, TEXT, *METRIC, "-t", t) for t in "127"}
        self.assertEqual(len(texts), 1)
        (text,) = texts
        for words in ("every head in turn set to 0, compute f32", "in logits; effect = ablated minus as it is",
                      "as it is: ", "The 10 largest effects of 40", "This is the top of a search through 40"):
            self.assertIn(words, text)

    def test_losses(self):
        got = self.ablate(TEXT, "--metric", "loss", "--mlp", "L2", "--per-token")
        clean, after = got["losses"]["clean"], got["losses"]["ablated"]
        self.assertIsNone(clean[0])
        self.assertAlmostEqual(got["clean"], sum(clean[1:]) / len(clean[1:]), delta=1e-6)
        self.assertAlmostEqual(got["targets"][0]["value"], sum(after[1:]) / len(after[1:]), delta=1e-6)
        file = self.folder / "texts.txt"
        file.write_text(f"{TEXT}\n\nTom had a red ball.\n")
        got = self.ablate("--file", file, "--sweep", "mlp")
        self.assertEqual((got["n_texts"], got["n_clusters"]), (2, 2))
        for target in got["targets"]:
            self.assertLessEqual(target["ci"][0], target["effect"] + 1e-9)
            self.assertGreaterEqual(target["ci"][1], target["effect"] - 1e-9)

    def test_pairs(self):
        file = self.folder / "pairs.jsonl"
        lines = [{"id": "p-0-0", "prompt": "Lily and Tom ran. Tom gave a ball to", "io": "Lily", "s": "Tom"},
                 {"id": "p-0-1", "prompt": "Lily and Tom ran. Lily gave a ball to", "io": "Tom", "s": "Lily"},
                 {"id": "q", "prompt": "The big dog was very", "right": "happy", "wrong": "the"}]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        got = self.ablate("--pairs", file, "--heads", "L1H1", "--then", "all", "--no-controls")
        self.assertEqual((got["n_texts"], got["n_clusters"]), (3, 2))
        kinds = [t["kind"] for t in got["targets"]]
        self.assertEqual((kinds.count("alone"), kinds.count("after")), (39, 39))
        for target in got["targets"]:
            self.assertIn(target["right"], range(4))
        text = self.good("ablate", "-m", STORIES, "--pairs", file, "--heads", "L1H1", "--then", "L2H0")
        for words in (f"answers rightly {got['clean_right']} of 3 times", "Control: 10 draws", "in 2 clusters",
                      "After the set is ablated", "layer 3, head 0 (L2H0)"):
            self.assertIn(words, text)

    def test_means_and_donors(self):
        file = self.folder / "texts.txt"
        file.write_text(f"{TEXT}\n")
        same = self.ablate(TEXT, *METRIC, "--how", "resample", "--donor", TEXT)
        for target in same["targets"]:
            self.assertAlmostEqual(target["effect"], 0, delta=1e-6)
        mean = self.ablate(TEXT, *METRIC, "--how", "mean", "--corpus", file, "--by-position")
        for target in mean["targets"]:
            self.assertAlmostEqual(target["effect"], 0, delta=1e-5)
        mean = self.ablate(TEXT, *METRIC, "--how", "mean", "--corpus", file)
        self.assertGreater(max(abs(t["effect"]) for t in mean["targets"]), 1e-3)

    def test_picture(self):
        for name in ("a.png", "a.svg"):
            self.good("ablate", "-m", STORIES, TEXT, *METRIC, "--plot", self.folder / name)
            self.assertGreater((self.folder / name).stat().st_size, 1000)

    def test_refused(self):
        words = ("ablate", "-m", STORIES, TEXT)
        self.bad(2, *words, says=["--metric is missing"])
        self.bad(2, *words, "--metric", "accuracy", says=["'accuracy'"])
        self.bad(2, *words, *METRIC, "--how", "mean", says=["--corpus"])
        self.bad(2, *words, *METRIC, "--then", "L1H1", says=["--then comes after a set"])
        self.bad(2, *words, "--metric", "loss", "--positions", "0-4", says=["position 0"])
        self.bad(2, "ablate", "-m", STORIES, *METRIC, says=["TEXT, --file, --pairs and --ids"])
        self.bad(1, *words, *METRIC, "--heads", "L9H0", says=["no layer 10 (L9)", "5 layers"])
        self.bad(1, *words, *METRIC, "--heads", "L1H8", says=["no head 8"])
        self.bad(1, *words, "--metric", "logit: indescribable", says=["'indescribable' is"])
        self.bad(1, *words, *METRIC, "--how", "resample", "--donor", "x", says=["has 3 tokens"])
        self.bad(1, "ablate", "-m", STORIES, "--pairs", self.folder / "none", says=["cannot open"])


if __name__ == "__main__":
    main("models/stories260K")
