"""Sweeps over many texts as searches: ablate, patch --pairs and attribute --pairs against tests worked out here from the
effects of each cluster by itself, --holdout and --choose, and what is refused."""

import csv
import io
import itertools
import json
import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads
LINES = ("Tom had a red ball.", "The sun was very hot.", "Lily saw a big dog.", "One day it was wet.",
         "The cat sat on a mat.", "He ran to the park.", "They had a lot of fun.", "She was not sad.")

HELD_OUT = ("held_out_effect", "held_out_low", "held_out_high", "held_out_p")


def flips(columns):
    """p and p_fwer of each column of effects: the share of all 2^n assignments of signs that reach it."""
    n = len(columns[0])
    size = [sum(x * x for x in c) ** 0.5 or 1 for c in columns]
    observed = [abs(sum(c)) / s for c, s in zip(columns, size)]
    one, family = [0] * len(columns), [0] * len(columns)
    for signs in itertools.product((-1, 1), repeat=n):
        turned = [abs(sum(s * x for s, x in zip(signs, c))) / d for c, d in zip(columns, size)]
        largest = max(turned)
        for j, least in enumerate(observed):
            one[j] += turned[j] >= least * (1 - 1e-9)
            family[j] += largest >= least * (1 - 1e-9)
    return [x / 2**n for x in one], [x / 2**n for x in family]


class Sweep(ProgramTest):
    def compare(self, got, columns, key):
        """got: an object for each column, with its figures."""
        ps, families = flips(columns)
        for one, column, p, family in zip(got, columns, ps, families, strict=True):
            self.assertAlmostEqual(one[key], sum(column) / len(column), delta=1e-6)
            self.assertAlmostEqual(one["p"], p, delta=1e-12)
            self.assertAlmostEqual(one["p_fwer"], family, delta=1e-12)
            self.assertGreaterEqual(one["q"], one["p"])
        held = [i for i, one in enumerate(got) if "held_out" in one]
        self.assertEqual(len(held), 2)
        for i in held:
            n, judged = len(columns[i]), got[i]["held_out"]
            self.assertEqual(judged["n_clusters"], n // 2)
            self.assertAlmostEqual((judged["effect"] + judged["chosen_effect"]) / 2, got[i][key], delta=1e-6)

    def compare_csv(self, words, got):
        rows = list(csv.DictReader(io.StringIO(self.good(*words, "--csv"))))
        for row, one in zip(rows, got, strict=True):
            self.assertEqual(list(row)[-7:], ["p", "p_fwer", "q", *HELD_OUT])
            for key in ("p", "p_fwer", "q"):
                self.assertAlmostEqual(float(row[key] or "nan"), one[key], delta=1e-8) if one[key] else self.assertEqual(row[key], "")
            held = one.get("held_out")
            wanted = [held["effect"], *held["ci"], held["p"]] if held else [None] * 4
            for key, want in zip(HELD_OUT, wanted, strict=True):
                self.assertAlmostEqual(float(row[key]), want, delta=1e-8) if held else self.assertEqual(row[key], "")

    def test_ablate(self):
        file = self.folder / "texts.txt"
        columns = []
        for line in LINES:
            file.write_text(line + "\n")
            one = self.json("ablate", "-m", STORIES, "--file", file)
            self.assertNotIn("p", one["targets"][0])
            columns.append([t["effect"] for t in one["targets"]])
        file.write_text("".join(line + "\n" for line in LINES))
        got = self.json("ablate", "-m", STORIES, "--file", file, "--holdout", "0.5", "--choose", "2")
        self.compare(got["targets"], list(zip(*columns)), "effect")
        self.assertEqual((got["tests"], got["min_dz"]), (40, None))  # eight clusters are too few for 40 tests
        text = self.good("ablate", "-m", STORIES, "--file", file, "--holdout", "0.5", "--choose", "2")
        for words in ("tested: 40; p by all sign flips", "with 8 clusters none by itself can pass", "p_fwer",
                      "chosen on 4 clusters, judged on the 4 others"):
            self.assertIn(words, text)
        self.assertIn("--holdout 0.5 judges", self.good("ablate", "-m", STORIES, "--file", file))
        self.compare_csv(("ablate", "-m", STORIES, "--file", file, "--holdout", "0.5", "--choose", "2"), got["targets"])

    def prompts(self):
        """Prompts, each a cluster, and a file of them."""
        lines = [{"id": f"{i}", "prompt": line[:-1], "right": "the", "wrong": "a"} for i, line in enumerate(LINES)]
        return [json.dumps(line) + "\n" for line in lines]

    def test_attribute(self):
        file = self.folder / "pairs.jsonl"
        columns = []
        for line in self.prompts():
            file.write_text(line)
            columns.append([p["value"] for p in self.json("attribute", "-m", STORIES, "--pairs", file)["parts"]])
        file.write_text("".join(self.prompts()))
        got = self.json("attribute", "-m", STORIES, "--pairs", file, "--holdout", "0.5", "--choose", "2")
        tested = [i for i, c in enumerate(zip(*columns)) if any(c)]  # a part that is 0 everywhere has no p
        self.assertEqual(got["tests"], len(tested))
        for i, part in enumerate(got["parts"]):
            self.assertEqual(part["p"] is None, i not in tested)
        self.compare([got["parts"][i] for i in tested], [c for c in zip(*columns) if any(c)], "value")
        text = self.good("attribute", "-m", STORIES, "--pairs", file, "--holdout", "0.5")
        self.assertIn("chosen on 4 clusters", text)
        self.compare_csv(("attribute", "-m", STORIES, "--pairs", file, "--holdout", "0.5", "--choose", "2"), got["parts"])

    def test_patch(self):
        file = self.folder / "pairs.txt"
        pairs = [f"The [a:{a}] saw the [b:{b}] who {{ran|sat}} as [q:it] did." for a, b in
                 (("cat", "dog"), ("dog", "man"), ("man", "cat"), ("bird", "tree"), ("girl", "car"), ("sun", "hat"))]
        columns = []
        for pair in pairs:
            file.write_text(pair + "\n")
            heads = self.json("patch", "-m", STORIES, "--pairs", file)["heads"]
            columns.append([h["indirect"] for h in sorted(heads, key=lambda h: (h["layer"], h["head"]))])
        file.write_text("".join(p + "\n" for p in pairs))
        got = self.json("patch", "-m", STORIES, "--pairs", file, "--holdout", "0.5", "--choose", "2")
        heads = sorted(got["heads"], key=lambda h: (h["layer"], h["head"]))
        self.compare(heads, list(zip(*columns)), "indirect")
        text = self.good("patch", "-m", STORIES, "--pairs", file, "--holdout", "0.5")
        self.assertIn("chosen on 3 clusters, judged on the 3 others", text)
        self.compare_csv(("patch", "-m", STORIES, "--pairs", file, "--holdout", "0.5", "--choose", "2"), got["heads"])

    def test_refused(self):
        file = self.folder / "texts.txt"
        file.write_text("".join(line + "\n" for line in LINES[:3]))
        for share in ("0", "1", "x", "nan"):
            self.bad(2, "ablate", "-m", STORIES, "--file", file, "--holdout", share, says=["between 0 and 1"])
        self.bad(2, "ablate", "-m", STORIES, "--file", file, "--choose", "2", says=["--choose goes with --holdout"])
        self.bad(2, "ablate", "-m", STORIES, "--file", file, "--heads", "L0H0", "--holdout", "0.5", says=["sweep"])
        self.bad(2, "ablate", "-m", STORIES, LINES[0], "--metric", "loss", "--holdout", "0.5", says=["many texts"])
        self.bad(2, "attribute", "-m", STORIES, LINES[0], "--metric", "logit: #400", "--holdout", "0.5")
        self.bad(2, "patch", "-m", STORIES, LINES[0], "--metric", "logit: #400", "--cut", "a", "--holdout", "0.5")
        self.bad(1, "ablate", "-m", STORIES, "--file", file, "--holdout", "0.5", says=["3 clusters cannot be split"])
        file.write_text("".join(line + "\n" for line in LINES))
        self.bad(1, "ablate", "-m", STORIES, "--file", file, "--holdout", "0.5", "--choose", "41",
                 says=["--choose 41", "tries 40"])


if __name__ == "__main__":
    main()
