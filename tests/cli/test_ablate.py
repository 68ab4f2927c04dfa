"""headscope ablate: what a sweep, a set and a pair file print, that threads change nothing, and what is refused."""

import json
import shutil
import unittest

from program import DATA, MARKED, SKIPPED, ProgramTest, main

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

    def test_layers_and_neurons(self):
        layers = self.ablate(TEXT, *METRIC, "--sweep", "layers")["targets"]
        self.assertEqual([[u["site"] for u in t["ablated"]] for t in layers], [["attn_out", "mlp_out"]] * 5)
        both = self.ablate(TEXT, *METRIC, "--attn", "L3", "--mlp", "L3")["targets"][0]
        self.assertEqual(both["value"], layers[3]["value"])
        neurons = self.ablate(TEXT, *METRIC, "--sweep", "neurons", "--layer", "L1,L3")["targets"]
        self.assertEqual(len(neurons), 2 * 172)
        for name in ("L3N20", "L3H20"):
            one = self.ablate(TEXT, *METRIC, "--neurons", name)["targets"][0]
            self.assertEqual(one["value"], neurons[172 + 20]["value"])
        self.assertIn("layer 4, neuron 20 (L3N20) set to 0", self.good("ablate", "-m", STORIES, TEXT, *METRIC, "--neurons", "L3N20"))
        self.bad(2, "ablate", "-m", STORIES, TEXT, *METRIC, "--heads", "L3N2", says=["L13H8,L4H3", "'L3N2'"])
        self.bad(2, "ablate", "-m", STORIES, TEXT, *METRIC, "--neurons", "L3", says=["L3N1500,L4N7", "'L3'"])
        for sweep in ("mlp", "layers", "neurons"):
            name = self.folder / f"{sweep}.svg"
            self.good("ablate", "-m", STORIES, TEXT, *METRIC, "--sweep", sweep, "--layer", "L2-L4", "--plot", name)
            self.assertIn("L4", name.read_text())
            self.assertNotIn(">L1<", name.read_text())

    def test_losses_of_a_corpus(self):
        file = self.folder / "texts.txt"
        file.write_text(f"{TEXT}\nTom had a red ball.\n")
        got = self.ablate("--file", file, "--heads", "L1H1,L2H2", "--per-token", "--no-controls")
        effects = []
        for text in got["texts"]:
            effects.append([b - a for a, b in zip(text["clean"][1:], text["ablated"][1:])])
        of_texts = [sum(e) / len(e) for e in effects]
        self.assertAlmostEqual(got["targets"][0]["effect"], sum(of_texts) / 2, delta=1e-6)
        self.assertEqual([r["first"] for r in got["ranges"]], [1, 2, 4, 8][:len(got["ranges"])])
        means = [sum(e[1:3]) / 2 for e in effects]
        self.assertAlmostEqual(got["ranges"][1]["effect"], sum(means) / 2, delta=1e-6)
        self.assertEqual(sum(r["n_tokens"] for r in got["ranges"]), sum(map(len, effects)))
        text = self.good("ablate", "-m", STORIES, "--file", file, "--heads", "L1H1", "--per-token", "--top", "3")
        self.assertIn("The 3 tokens of", text)
        self.assertRegex(text, r"(?m)^ +2 to 3       4  ")

    def test_controls_by_position(self):
        """The control of a range is what --positions says of it alone, drawn from the same heads."""
        file = self.folder / "texts.txt"
        file.write_text(f"{TEXT}\nTom had a big red ball and a cat.\n")
        words = ("--file", file, "--heads", "L1H1,L2H2")
        ranges = self.ablate(*words, "--per-token")["ranges"]
        for r in ranges[:3]:
            alone = self.ablate(*words, "--metric", "loss", "--positions", f"{r['first']}-{r['last']}")["targets"]
            self.assertAlmostEqual(r["effect"], alone[0]["effect"], delta=1e-6)
            draws = [t["effect"] for t in alone if t["kind"] == "control"]
            self.assertEqual(len(draws), 10)
            self.assertAlmostEqual(r["control"], sum(draws) / 10, delta=1e-6)
        self.assertIn("control: mean effect of the ten draws",
                      self.good("ablate", "-m", STORIES, *words, "--per-token"))
        self.assertNotIn("control", self.ablate(*words, "--per-token", "--no-controls")["ranges"][0])

    def test_every_kind_of_pair_file(self):
        marked = self.folder / "marked.txt"
        marked.write_text(MARKED)
        got = self.ablate("--pairs", marked, "--heads", "L1H1", "--no-controls")
        self.assertEqual((got["n_texts"], got["n_clusters"]), (2, 1))
        self.assertEqual(got["skipped"], [SKIPPED])
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"Lily met Tom. Then {s} gave a ball to", "right": r, "wrong": s}) + "\n"
                                   for r, s in (("Lily", "Tom"), ("Tom", "Lily"))))
        same = self.ablate("--pairs", prompts, "--heads", "L1H1", "--no-controls")
        self.assertAlmostEqual(got["clean"], same["clean"], delta=1e-9)
        ioi = DATA / "pairs" / "ioi_500_pairs.jsonl"
        got = self.ablate("--pairs", ioi, "--limit", "30", "--heads", "L1H1", "--no-controls")
        self.assertEqual(got["n_texts"] + 2 * len(got["skipped"]), 30)
        self.assertLess(got["n_clusters"], 15)  # templates, not pairs
        ids = DATA / "pairs" / "induction_stories260k.jsonl"
        self.assertEqual(self.ablate("--pairs", ids, "--limit", "3", "--heads", "L1H1", "--no-controls")["n_texts"], 6)

    def test_donors_of_a_pair_file(self):
        marked = self.folder / "marked.txt"
        lines = ["[a:Ben] met [b:Tom]. Then {Tom|Ben} gave a ball [q:to]",
                 "[a:Tom] met [b:Ben]. Then {Ben|Tom} gave a ball [q:to]"]
        marked.write_text("\n".join(lines) + "\n")
        twin = self.ablate("--pairs", marked, "--heads", "L3H2", "--how", "resample", "--no-controls")
        self.assertEqual((twin["n_texts"], twin["n_clusters"], twin["skipped"]), (4, 2, []))
        self.assertNotEqual(twin["clean"], twin["targets"][0]["value"])
        others = [self.ablate("--pairs", marked, "--heads", "L3H2", "--how", "resample", "--donors", n, "--no-controls")
                  for n in (2, 1)]
        self.assertNotEqual(others[0]["targets"][0]["value"], others[1]["targets"][0]["value"])
        self.assertEqual(others[0]["clean"], twin["clean"])
        text = self.good("ablate", "-m", STORIES, "--pairs", marked, "--heads", "L3H2", "--how", "resample")
        self.assertIn("what the donor holds (the twin)", text)
        self.bad(2, "ablate", "-m", STORIES, TEXT, *METRIC, "--donors", "3")

    def test_twins_of_other_lengths(self):
        """They are aligned by span; which texts are left out is what patch says, in the same words."""
        marked = self.folder / "marked.txt"
        marked.write_text("[a:Ben] met [b:Tom]. Then {Tom|Ben} gave a ball [q:to]\n"
                          "[a:Tom] saw [b:Lily]. Then {Lily|Tom} gave a ball [q:to]\n"
                          "[a:Ben] met [b:Tom]. Then {Tom|the Tom} gave a ball [q:to]\n")
        words = ("--pairs", marked, "--heads", "L1H1,L3H2", "--how", "resample", "--no-controls")
        got, patch = self.ablate(*words), self.json("patch", "-m", STORIES, "--pairs", marked)
        self.assertEqual((got["n_texts"], got["n_clusters"], got["n_aligned"]), (4, 2, 2))
        self.assertEqual([line["line"] for line in got["skipped"]], [3])
        self.assertEqual(got["skipped"], patch["skipped"])
        self.assertAlmostEqual(got["clean"], patch["clean"], delta=1e-9)
        one = self.ablate("--pairs", marked, "--heads", "L3H2", "--how", "resample", "--no-controls")["targets"][0]
        (head,) = [h for h in patch["heads"] if h["name"] == "L3H2"]  # a head from the twin: its indirect effect
        self.assertAlmostEqual(one["effect"], head["indirect"], delta=1e-6)
        text = self.good("ablate", "-m", STORIES, *words)
        self.assertIn("over 4 texts in 2 clusters, 2 of them aligned by span with a text of another length; 1 line", text)
        self.assertNotIn("n_aligned", self.ablate("--pairs", marked, "--heads", "L1H1", "--no-controls"))

    def test_donor_of_another_length(self):
        """The differing word is aligned from its end; what stands before it is the same in both runs."""
        text, donor = "Then Tom gave a ball to", "Then Lily gave a ball to"
        got = self.ablate(text, *METRIC, "--how", "resample", "--donor", donor, "--donor", text)
        self.assertEqual(got["n_aligned"], 1)
        self.assertGreater(max(abs(t["effect"]) for t in got["targets"]), 1e-3)
        said = self.good("ablate", "-m", STORIES, text, *METRIC, "--how", "resample", "--donor", donor)
        self.assertIn("what the donor holds (1 of 1 of another length, aligned by span)", said)
        self.bad(1, "ablate", "-m", STORIES, text, *METRIC, "--how", "resample", "--donor", "The old cat and a dog",
                 says=["--donor: 'The old cat and a dog' does not fit: texts of", "no frame"])

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
        file.write_text("a\n")  # one token, which is no mean for every position
        self.bad(1, "ablate", "-m", STORIES, TEXT, *METRIC, "--how", "mean", "--corpus", file, "--by-position",
                 "--no-special", says=["--by-position", "those of the corpus have 1"])

    def test_picture(self):
        for name in ("a.png", "a.svg"):
            self.good("ablate", "-m", STORIES, TEXT, *METRIC, "--plot", self.folder / name)
            self.assertGreater((self.folder / name).stat().st_size, 1000)

    def test_text_longer_than_the_context(self):
        """Of a file the line is named; of a pair file both wordings are left out."""
        long = "Once upon a time. " * 200
        file = self.folder / "texts.txt"
        file.write_text(f"Hello there.\n{long}\n")
        self.bad(1, "ablate", "-m", STORIES, "--file", file, "--metric", "loss", says=["line 2: the text has", "512"])
        file.write_text(MARKED.splitlines()[0] + f"\n{long}{MARKED}")
        skipped = self.ablate("--pairs", file, "--heads", "L1H1", "--no-controls")["skipped"]
        self.assertEqual([s["line"] for s in skipped], [2, 3])
        self.assertIn("the text has", skipped[0]["why"])

    def test_one_head_a_layer(self):
        """Its name is H0, in the table and in the JSON."""
        model = self.folder / "model"
        shutil.copytree(DATA / "models" / "gpt-nano-sort", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"n_head": 1}))
        words = ("ablate", "-m", model, "--ids", "0,1,2,0", "--metric", "logit: #1 - #2")
        swept = [t["ablated"] for t in self.json(*words)["targets"] if t["kind"] == "each"]
        self.assertEqual(swept, [[{"site": "z", "layer": i, "head": 0}] for i in range(3)])
        self.assertIn("layer 1, head 0 (L0H0)", self.good(*words))

    def test_refused(self):
        words = ("ablate", "-m", STORIES, TEXT)
        self.bad(2, *words, says=["--metric is missing"])
        self.bad(2, *words, "--metric", "accuracy", says=["'accuracy'"])
        self.bad(2, *words, *METRIC, "--limit", "3", says=["--limit goes with --file and --pairs"])
        self.bad(2, *words, *METRIC, "--how", "mean", says=["--corpus"])
        self.bad(2, *words, *METRIC, "--then", "L1H1", says=["--then comes after a set"])
        self.bad(2, *words, "--metric", "loss", "--positions", "0-4", says=["position 0"])
        self.bad(2, "ablate", "-m", STORIES, *METRIC, says=["TEXT, --file, --pairs and --ids"])
        self.bad(1, *words, *METRIC, "--heads", "L9H0", says=["--heads: there is no head L9H0", "layers L0 to L4 with heads H0 to H7"])
        self.bad(1, *words, *METRIC, "--heads", "L1H8", says=["no head L1H8"])
        self.bad(1, *words, "--metric", "logit: indescribable", says=["'indescribable' is"])
        self.bad(1, *words, "--metric", "logit: Mary-John", says=["'Mary-John' is", '"logit: A - B"'])
        self.bad(2, *words, "--metric", "loss", "--heads", "L1H1", "--per-token", "--csv", says=["--json has every token"])
        for word in ("#", "#abc", "#12x", "#-1", "#99999999999"):
            self.bad(1, *words, "--metric", f"logit: {word} - #1", says=["--metric", f"'{word}'"])
        self.bad(1, *words, *METRIC, "--how", "resample", "--donor", "x", says=["'x' does not fit: texts of 8 and 3 tokens"])
        self.bad(1, "ablate", "-m", STORIES, "--pairs", self.folder / "none", says=["cannot open"])


if __name__ == "__main__":
    main("models/stories260K")
