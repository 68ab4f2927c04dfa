"""Encoder-decoders in the program: look at each attention, run's names and shapes, generate, info, and what is refused.
The checkpoint is a small random T5, written here."""

import array
import json
import random
import struct
import sys

from program import COMMANDS, SOURCE as CHECKOUT, ProgramTest, main, read_npz, read_safetensors

sys.path.insert(0, str(CHECKOUT / "tests" / "golden"))
import toys  # noqa: E402

D, D_HEAD, HEADS, FF, VOCABULARY, LAYERS = 16, 8, 2, 24, 31, {"encoder": 1, "decoder": 2}
CONFIG = {"model_type": "t5", "vocab_size": VOCABULARY, "d_model": D, "d_kv": D_HEAD, "d_ff": FF, "num_layers": 1,
          "num_decoder_layers": 2, "num_heads": HEADS, "decoder_start_token_id": 0, "eos_token_id": 1}
SOURCE, TARGET = "5,9,2,14,3,1", "0,8,4,16"


def shapes(vocabulary):
    yield "shared.weight", [vocabulary, D]
    for side, n_layers in LAYERS.items():
        yield f"{side}.final_layer_norm.weight", [D]
        yield f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", [32, HEADS]
        attentions = ["0.SelfAttention"] + (["1.EncDecAttention"] if side == "decoder" else [])
        ff = len(attentions)
        for i in range(n_layers):
            at = f"{side}.block.{i}.layer."
            for name in attentions:
                for part in "qkvo":
                    yield f"{at}{name}.{part}.weight", [D, D]
            for k in range(ff + 1):
                yield f"{at}{k}.layer_norm.weight", [D]
            yield f"{at}{ff}.DenseReluDense.wi.weight", [FF, D]
            yield f"{at}{ff}.DenseReluDense.wo.weight", [D, FF]


def write_t5(folder, vocabulary=VOCABULARY):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": vocabulary}))
    draw, header, data = random.Random(1), {}, b""
    for name, shape in shapes(vocabulary):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = array.array("f", [draw.gauss(0, 0.5) if len(shape) > 1 else 1 for _ in range(n)]).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


# Words 2 to 28 of the vocabulary, for texts in place of ids: "w2" to "w28".
TOKENIZER = {
    "version": "1.0", "added_tokens": [{"id": 1, "content": "</s>", "special": True, "single_word": False, "lstrip": False,
                                        "rstrip": False, "normalized": False}],
    "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
    "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {
        "SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {
            "Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
    "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<pad>": 0, "</s>": 1, "<unk>": 29,
                                                                  **{f"w{i}": i for i in range(2, 29)}}},
}


def words_of(ids):
    """The words of ids, without the end."""
    return " ".join(f"w{i}" for i in ids.split(",") if i not in ("0", "1"))


class EncoderDecoder(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = write_t5(self.folder / "t5")
        self.look = ("look", "-m", self.model, "--ids", SOURCE)

    def test_too_long_lines_are_named(self):
        model = write_t5(self.folder / "bytes", 256)
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        lines, choices = self.folder / "lines.tsv", self.folder / "choices.jsonl"
        for text, says in (("ab\t" + "x" * 20000, "the target has"), ("x" * 20000 + "\tcd", "the source has")):
            lines.write_text("ab\tcd\n\n" + text + "\n")
            done = self.run_program("ablate", "-m", model, "--file", lines, "--heads", "L0H0", "--side", "decoder")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{lines}: line 3: {says} ".encode(), done.stderr)
        for prompt, choice, says in (("ab", "x" * 20000, "the target has"), ("x" * 20000, "ab", "the source has")):
            choices.write_text(json.dumps({"prompt": "ab", "choices": ["c", "d"]}) + "\n"
                               + json.dumps({"prompt": prompt, "choices": ["c", choice]}))
            done = self.run_program("score", "-m", model, "--choices", choices)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{choices}: line 2: {says} ".encode(), done.stderr)

    def test_look(self):
        cross = self.json(*self.look, "--target-ids", TARGET, "--head", "L1H0", "--top", "6")
        self.assertEqual((cross["side"], len(cross["tokens"]), len(cross["source"])), ("cross", 4, 6))
        for query in cross["queries"]:  # no key is left out, and they are the source's
            self.assertEqual(sorted(key["pos"] for key in query["top"]), list(range(6)))
            self.assertAlmostEqual(sum(key["weight"] for key in query["top"]), 1, delta=1e-5)
            self.assertGreater(min(key["weight"] for key in query["top"]), 0)
            self.assertEqual({key["text"] for key in query["top"]}, set(SOURCE.split(",")))
        decoder = self.json(*self.look, "--target-ids", TARGET, "--side", "decoder", "--head", "L1H0")
        self.assertEqual([query["best"]["pos"] for query in decoder["queries"]][0], 0)
        encoder = self.json(*self.look, "--side", "encoder", "--head", "L0H1")
        self.assertEqual((len(encoder["queries"]), "source" in encoder), (6, False))
        self.bad(1, *self.look, "--side", "encoder", "--head", "L1H0", says=["no head L1H0"])

    def rows(self, source, target, pos):
        """{(site, layer, head): the row of a target's token} of cross-attention and the decoder's own."""
        out = self.folder / "rows.safetensors"
        self.good("run", "-m", self.model, "--ids", source, "--target-ids", target, "--sites", "pattern,cross_pattern", "-o", out)
        got = read_safetensors(out)
        return {(site, layer, head): got[f"{site}.{layer}"].row(head, pos) for site in ("pattern", "cross_pattern")
                for layer in range(2) for head in range(2)}

    def test_versus(self):
        """How far weights moved between two sources, two targets, or both; a token before all differences cannot move."""
        source2, target2 = SOURCE.replace("2", "7"), TARGET.replace("4", "11")
        for site, side in (("cross_pattern", "cross"), ("pattern", "decoder")):
            for more, texts in ((["--vs", source2], (source2, TARGET)), (["--vs-target", target2], (SOURCE, target2)),
                                (["--vs", source2, "--vs-target", target2], (source2, target2))):
                got = self.json(*self.look, "--target-ids", TARGET, "--side", side, "--top", "10", *more)
                before, after = self.rows(SOURCE, TARGET, 3), self.rows(*texts, 3)
                moved = {(head["layer"], head["head"]): head["moved"] for head in got["heads"]}
                for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    pair = zip(before[site, layer, head], after[site, layer, head])
                    self.assertAlmostEqual(moved.get((layer, head), 0), sum(abs(a - b) for a, b in pair) / 2, delta=1e-5)
                self.assertEqual([token["text"] for token in got["source2"]], texts[0].split(","))
                self.assertEqual([token["text"] for token in got["tokens2"]], texts[1].split(","))
                self.assertEqual(got["first_source_difference"], 2 if texts[0] == source2 else None)
                self.assertEqual(got["first_difference"], 2 if texts[1] == target2 else None)
        still = self.json(*self.look, "--target-ids", TARGET, "--vs-target", target2, "--pos", "1")
        self.assertEqual((still["cannot_change"], still["heads"]), ("causal_mask", []))
        moves = self.json(*self.look, "--target-ids", TARGET, "--vs-target", target2, "--vs", source2, "--pos", "1")
        self.assertIsNone(moves["cannot_change"])
        self.assertTrue(moves["heads"])
        self.assertIn("the sources differ from position 2 on: '2' became '7'", self.good(*self.look, "--vs", source2))
        longer = self.json(*self.look, "--target-ids", TARGET, "--vs", "5,9,3,1")
        for head in longer["heads"]:  # what is gone has no weight left
            if head["left"]["pos"] in (2, 3):
                self.assertEqual(head["left"]["after"], 0)
        own = self.json(*self.look, "--vs", source2)  # without --target each text's own
        self.assertEqual([token["id"] for token in own["tokens2"]],
                         [token["id"] for token in self.json("look", "-m", self.model, "--ids", source2)["tokens"]])

    def test_lens(self):
        """The last stage is what the model says of the target."""
        lens = ("lens", "-m", self.model, "--ids", SOURCE)
        got = self.json(*lens, "--target-ids", TARGET, "--word", "#7", "--top", "2")
        self.assertEqual((len(got["stages"]), len(got["tokens"]), len(got["source"])), (3, 4, 6))
        score = self.json("score", "-m", self.model, "--ids", SOURCE, "--target-ids", TARGET)
        for cell, token in zip(got["stages"][-1], score["tokens"][1:]):
            self.assertAlmostEqual(cell["loss"], -token["log_prob"], delta=1e-5)
        self.assertEqual([cell["kl"] for cell in got["stages"][-1]], [0] * 4)
        self.assertGreater(min(cell["kl"] for cell in got["stages"][0]), 0)
        self.assertEqual(self.json(*lens, "-t", "1"), self.json(*lens, "-t", "3"))
        self.assertIn("at position 1 '8'", self.good(*lens, "--target-ids", TARGET, "--token", "8"))
        self.assertEqual(self.json(*lens)["tokens"], self.json(*self.look)["tokens"])
        self.bad(2, *lens, "--target", "a", "--target-ids", "1", says=["one of the two"])
        self.bad(2, "lens", "-m", self.model, "--pairs", "x", "--target", "a", says=["brings its own targets"])

    def test_twins_of_other_lengths(self):
        """The encoder's heads are aligned by the sources' tokens, the decoder's by the targets', which are the same."""
        (self.model / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        words = words_of(SOURCE)
        longer, file = words.replace("w2 ", "w7 w9 "), self.folder / "pairs.jsonl"
        self.assertNotEqual(words, longer)
        lines = [{"id": f"a-{i}", "twin": f"a-{1 - i}", "source": source, "prompt": "w8 w4", "right": "w5", "wrong": "w9"}
                 for i, source in enumerate((words, longer))]
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        for side, n in (("encoder", 2), ("cross", 0), ("decoder", 0)):
            how = ("--side", side, "--how", "resample")
            twins = self.json("ablate", "-m", self.model, "--pairs", file, *how)
            self.assertEqual((twins["n_texts"], twins["n_aligned"], twins["skipped"]), (2, n, []))
            alone = [self.json("ablate", "-m", self.model, "--metric", "logit: #5 - #9", x, "--target", "w8 w4", *how,
                               "--donor", f"{y}\tw8 w4") for x, y in ((words, longer), (longer, words))]
            self.assertEqual([one["n_aligned"] for one in alone], [n // 2] * 2)
            for got, *of_texts in zip(twins["targets"], *(one["targets"] for one in alone)):
                self.assertAlmostEqual(got["value"], sum(t["value"] for t in of_texts) / 2, delta=1e-6)

    def test_pairs(self):
        """A line of sources and targets is what ablating that one text says; a twin gives its activations."""
        (self.model / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        source2 = SOURCE.replace("2", "7")
        lines = [{"id": "a-0", "twin": "a-1", "source": words_of(SOURCE), "prompt": "w8 w4", "right": "w5", "wrong": "w9"},
                 {"id": "a-1", "twin": "a-0", "source": words_of(source2), "prompt": "w8 w4", "right": "w9", "wrong": "w5"},
                 {"id": "b-0", "source": "w3 w12", "right": "w5", "wrong": "w9"},
                 {"source": "w3", "prompt": "w8", "right": "w5", "wrong": "w5"}]
        file = self.folder / "pairs.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        one = self.json("ablate", "-m", self.model, "--metric", "logit: #5 - #9", "--ids", SOURCE, "--target-ids", "0,8,4")
        first = self.json("ablate", "-m", self.model, "--pairs", file, "--limit", "1")
        self.assertEqual([t["value"] for t in first["targets"]], [t["value"] for t in one["targets"]])
        got = self.json("ablate", "-m", self.model, "--pairs", file)
        self.assertEqual((got["n_texts"], got["n_clusters"], [s["line"] for s in got["skipped"]]), (3, 2, [4]))
        begins = self.json("ablate", "-m", self.model, "--metric", "logit: #5 - #9", "--ids", "3,12,1", "--target-ids", "0")
        third = self.folder / "third.jsonl"
        third.write_text(json.dumps(lines[2]) + "\n")
        self.assertEqual(self.json("ablate", "-m", self.model, "--pairs", third)["clean"], begins["clean"])
        for side in ("cross", "encoder", "decoder"):
            twins = self.json("ablate", "-m", self.model, "--pairs", file, "--how", "resample", "--side", side)
            self.assertEqual((twins["n_texts"], [s["why"] for s in twins["skipped"]][-1]), (2, "it has no twin"))
        self.assertEqual([t["effect"] for t in self.json("ablate", "-m", self.model, "--pairs", file, "--how", "resample",
                                                         "--side", "decoder", "--layer", "L0")["targets"]], [0, 0])  # reads no source
        leads = self.json("lens", "-m", self.model, "--pairs", file)["stages"]
        self.assertAlmostEqual(leads[-1]["lead"], got["clean"], delta=1e-5)
        scored = self.json("score", "-m", self.model, "--pairs", file)
        self.assertEqual([s["line"] for s in scored["skipped"]], [])  # both answers of line 4 are one: a guess
        for line, ids, target in ((lines[0], SOURCE, "0,8,4"), (lines[2], "3,12,1", "0")):
            third.write_text(json.dumps(line) + "\n")
            lead = 0
            for sign, answer in ((1, "5"), (-1, "9")):
                whole = self.json("score", "-m", self.model, "--ids", ids, "--target-ids", f"{target},{answer}")
                lead += sign * whole["tokens"][-1]["log_prob"]
            self.assertAlmostEqual(self.json("score", "-m", self.model, "--pairs", third)["lead"], lead, delta=1e-5)
        self.bad(1, "score", "-m", self.model, "--pairs", file, "--by", "text", says=["--by text"])
        file.write_text(json.dumps({"prompt": "w8", "right": "w5", "wrong": "w9"}) + "\n")
        self.bad(1, "ablate", "-m", self.model, "--pairs", file, says=["line 1", 'wants a "source"'])
        file.write_text("[a:w2] w5 [b:w3]. w9 {w2|w3} w4 [q:w5] w6.\n")
        self.bad(1, "ablate", "-m", self.model, "--pairs", file, says=["line 1", 'wants a "source"'])

    def test_words(self):
        both = self.json(*self.look, "--target-ids", TARGET, "--token", "8", "--to", "14")
        self.assertEqual((both["query"]["pos"], both["key"]["pos"]), (1, 3))
        self.bad(1, *self.look, "--target-ids", TARGET, "--to", "8", says=["no token is exactly that", "3 '14'"])
        overview = self.json(*self.look, "--target-ids", TARGET)
        for head in overview["heads"]:
            self.assertAlmostEqual(head["first"] + head["last"] + head["other"], 1, delta=1e-5)

    def test_run(self):
        out = self.folder / "a.safetensors"
        got = self.json("run", "-m", self.model, "--ids", SOURCE, "--target-ids", TARGET, "--sites",
                        "enc_pattern,pattern,cross_pattern,cross_k,logits", "-o", out)
        want = {"source_ids": [6], "ids": [4], "enc_pattern.0": [2, 6, 6], "logits": [4, VOCABULARY]}
        want |= {f"pattern.{i}": [2, 4, 4] for i in range(2)} | {f"cross_pattern.{i}": [2, 4, 6] for i in range(2)}
        want |= {f"cross_k.{i}": [6, 2, 8] for i in range(2)}
        self.assertEqual({a["name"]: a["shape"] for a in got["arrays"]}, want)

    def test_own_text(self):
        """Without a target the model's own greedy text is looked at."""
        written = self.json("generate", "-m", self.model, "--ids", SOURCE, "-n", "128", "--compute", "f32")
        ids = [token["id"] for token in written["prompt"]["tokens"]] + written["samples"][0]["ids"]
        self.assertEqual(ids[0], CONFIG["decoder_start_token_id"])
        looked = [token["id"] for token in self.json(*self.look)["tokens"]]
        self.assertEqual(looked, ids[:-1] if ids[-1] == CONFIG["eos_token_id"] else ids)
        self.assertEqual([token["id"] for token in written["source"]["tokens"]], [int(i) for i in SOURCE.split(",")])

    def rules(self, **rules):
        """The model with a generation_config.json."""
        said = {"decoder_start_token_id": 0, "eos_token_id": 1, **rules}
        (self.model / "generation_config.json").write_text(json.dumps(said))
        return "generate", "-m", self.model, "--ids", SOURCE, "--compute", "f32"

    def test_rules(self):
        """Options go before the files' rules, and --plain does without them."""
        free = self.json(*self.rules(), "-n", "12")["samples"][0]["ids"]
        said = dict(num_beams=3, min_length=5, no_repeat_ngram_size=1, max_length=13)
        write = self.rules(**said)
        ruled = self.json(*write)
        self.assertEqual((ruled["beams"], ruled["min_tokens"], ruled["no_repeat"]), (3, 4, 1))
        ids = ruled["samples"][0]["ids"]
        self.assertEqual((len(ids), len(set(ids) | {0})), (12, 13))  # no token twice, so the end does not come
        self.assertEqual(self.json(*write, "--plain", "-n", "12")["samples"][0]["ids"], free)
        self.assertEqual(self.json(*write, "--beams", "1", "--no-repeat", "0", "--min-tokens", "0")["samples"][0]["ids"], free)
        alone = self.json(*self.rules(), "-n", "12", "--beams", "3", "--min-tokens", "4", "--no-repeat", "1")
        self.assertEqual(alone["samples"], ruled["samples"])
        self.assertNotIn("beams", self.json(*self.rules(**said), "--watch", "L0H0"))
        self.assertIn("num_beams (3) is left out", self.run_program(*write, "--watch", "L0H0").stderr.decode())
        self.assertIn("its sequence_bias is not followed", self.run_program(*self.rules(sequence_bias=[[[3], 1.5]])).stderr.decode())
        self.bad(1, *self.rules(num_beams=65), says=["num_beams is 65, at most 64"])
        self.bad(1, *self.rules(early_stopping="soon"), says=["early_stopping"])
        self.bad(1, *self.rules(), "--early-stop", says=["--beams"])

    def test_score(self):
        """What is scored is the target, behind the token that begins it; cut anywhere its log-probabilities stay."""
        score = ("score", "-m", self.model, "--ids", SOURCE)
        whole, short = self.json(*score, "--target-ids", TARGET), self.json(*score, "--target-ids", TARGET[:5])
        self.assertEqual((whole["n_scored"], len(whole["source"]["tokens"]), whole["tokens"][0]["log_prob"]), (3, 6, None))
        self.assertEqual([token["log_prob"] for token in whole["tokens"][:3]], [token["log_prob"] for token in short["tokens"]])
        self.assertAlmostEqual(whole["log_prob"], sum(token["log_prob"] for token in whole["tokens"][1:]), delta=1e-6)
        other = self.json("score", "-m", self.model, "--ids", SOURCE[2:], "--target-ids", TARGET)
        self.assertNotEqual(whole["log_prob"], other["log_prob"])
        self.assertIn("tokens scored    3", self.good(*score, "--target-ids", TARGET))
        self.bad(1, *score, says=["--target is what is scored"])
        self.bad(2, *score, "--target-ids", TARGET, "--stride", "2", says=["read whole"])
        self.bad(2, "score", "-m", self.model, "--choices", "x", "--target-ids", TARGET, says=["--choices are targets"])

    def test_ablate(self):
        """Heads of each side by their names; a head that does not exist on a side is refused there."""
        ablate = ("ablate", "-m", self.model, "--metric", "loss", "--ids", SOURCE, "--target-ids", TARGET)
        clean = -self.json("score", "-m", self.model, "--ids", SOURCE, "--target-ids", TARGET)["log_prob"] / 3
        for side, site, n in (("cross", "cross_z", 4), ("encoder", "enc_z", 2), ("decoder", "z", 4)):
            swept = self.json(*ablate, "--side", side)
            self.assertAlmostEqual(swept["clean"], clean, delta=1e-5)
            self.assertEqual([unit["site"] for target in swept["targets"] for unit in target["ablated"]], [site] * n)
            self.assertTrue(all(target["effect"] for target in swept["targets"]))
            one = self.json(*ablate, "--side", side, "--heads", "L0H1", "--no-controls")
            self.assertEqual(one["targets"][0]["value"], swept["targets"][1]["value"])
            self.assertEqual(self.json(*ablate, "--side", side, "-t", "1"), self.json(*ablate, "--side", side, "-t", "3"))
        self.assertEqual(self.json(*ablate), self.json(*ablate, "--side", "cross"))
        self.assertIn("in the encoder, every head in turn", self.good(*ablate, "--side", "encoder"))
        self.bad(1, *ablate, "--side", "encoder", "--heads", "L1H0", says=["there is no head L1H0: the model has layer L0 with heads H0 to H1"])
        self.bad(2, *ablate, "--target", "x", says=["one of the two"])

    def test_patch(self):
        """The exchanged word's residual stream is the whole difference as it enters the encoder."""
        patch = ("patch", "-m", self.model, "--metric", "logit: #8 - #4", "--ids", SOURCE, "--corrupted-ids",
                 SOURCE.replace("2", "7"), "--target-ids", TARGET)
        got = self.json(*patch)
        self.assertEqual((got["site"], len(got["cells"]), len(got["cells"][0])), ("enc_resid_pre", 1, 6))
        self.assertEqual([round(cell, 5) for cell in got["cells"][0]], [0, 0, 1, 0, 0, 0])
        heads = self.json(*patch, "--site", "cross_pattern")
        self.assertEqual((len(heads["cells"]), heads["columns"]), (2, "head"))
        self.assertEqual([len(row) for row in self.json(*patch, "--site", "cross_z", "--by", "position")["cells"]], [4, 4])
        self.assertIn("enc_resid_pre patched", self.good(*patch))
        begins = self.json(*patch[:-2])
        self.assertNotEqual(begins["clean"], got["clean"])
        self.bad(1, *patch, "--path", "end", says=["--path is not for t5, an encoder-decoder", "--corrupted, with --site"])
        self.bad(1, "patch", "-m", self.model, "--pairs", "x", says=["--pairs is not for t5", "ablate, steer, lens and score take --pairs"])
        self.bad(1, *patch, "--site", "rot_q", says=["has no site"])

    def test_detect(self):
        """The encoder's heads, by one layer of two; a window would be the decoder's."""
        data = self.json("detect", "-m", self.model, "--sequences", "3", "--length", "8")
        self.assertEqual((data["side"], [head["layer"] for head in data["heads"]]), ("encoder", [0, 0]))
        for head in data["heads"]:  # tokens see later ones
            self.assertGreater(head["scores"]["next"]["score"], 0)
        refused = self.run_program("detect", "-m", self.model, "--sequences", "3", "--length", "8", "--window", "4")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"a window is about its decoder", refused.stderr)
        drift = self.json("drift", self.model, self.model, "--sequences", "2", "--length", "8")
        self.assertEqual(len(drift["heads"]), 2)

    def test_stats(self):
        """Of the encoder they are what its patterns say."""
        out = self.folder / "p.safetensors"
        self.good("run", "-m", self.model, "--ids", SOURCE, "--target-ids", TARGET, "--sites", "enc_pattern,pattern", "-o", out)
        patterns = read_safetensors(out)
        for side, name, n, layers in (("encoder", "enc_pattern", 6, 1), ("decoder", "pattern", 4, 2)):
            heads = self.json(*self.look, *(["--target-ids", TARGET] if side == "decoder" else []), "--stats", "--include-first", "--side", side)["heads"]
            self.assertEqual(len(heads), 2 * layers)
            for head in heads:
                rows = [patterns[f"{name}.{head['layer']}"].row(head["head"], q) for q in range(n)]
                self.assertAlmostEqual(head["self"], sum(rows[q][q] for q in range(1, n)) / (n - 1), delta=1e-5)
                self.assertAlmostEqual(head["first"], sum(rows[q][0] for q in range(1, n)) / (n - 1), delta=1e-5)
                self.assertAlmostEqual(head["most_received"]["weight"], max(sum(row[k] for row in rows) for k in range(n)), delta=1e-4)

    def test_info(self):
        info = self.json("info", "-m", self.model)
        self.assertEqual((info["config"]["n_layers"], info["encoder"]["n_layers"]), (2, 1))
        self.assertIn("relative positions", self.good("info", "-m", self.model))

    def steer(self, *more):
        toward, away = self.folder / "toward.txt", self.folder / "away.txt"
        ends = "" if "encoder" in more else "\tw8 w4"
        toward.write_text(f"w3 w4{ends}\nw5 w6 w7{ends}\n")
        away.write_text(f"w9 w10 w11{ends}\n")
        return ("steer", "-m", self.model, "--toward", toward, "--away", away, "--ids", SOURCE, "--dose=-1,0,2", *more)

    def test_steer(self):
        """Dose 0 changes nothing; either stack may be steered, and what is written follows."""
        (self.model / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        for side, site, layers in (("decoder", "resid_post", 2), ("encoder", "enc_resid_post", 1)):
            got = self.json(*self.steer("--side", side, "--metric", "loss", "--target-ids", TARGET))
            self.assertEqual((got["site"], len(got["lengths"]), len(got["points"])), (site, layers, 3 * layers))
            clean = -self.json("score", "-m", self.model, "--ids", SOURCE, "--target-ids", TARGET)["log_prob"] / 3
            self.assertAlmostEqual(got["clean"], clean, delta=1e-5)
            for point in got["points"]:
                self.assertEqual(point["effect"] == 0, point["dose"] == 0, point)
            wrote = self.json(*self.steer("--side", side, "--layer", "L0", "--write", "6"))["points"]
            plain = self.json("generate", "-m", self.model, "--ids", SOURCE, "-n", "6", "--compute", "f32")
            self.assertEqual(wrote[1]["text"], plain["samples"][0]["text"])
            self.assertNotEqual(wrote[2]["text"], wrote[1]["text"])
            both = self.json(*self.steer("--side", side, "--layer", "L0", "--write", "6", "--metric", "loss"))["points"]
            self.assertEqual([point["text"] for point in both], [point["text"] for point in wrote])
        self.bad(1, *self.steer("--metric", "logit: #5"), says=["target 1 has one token, and position 0 is left alone"])
        self.bad(1, *self.steer("--side", "encoder", "--layer", "L1", "--metric", "logit: #5"), says=["L1"])
        self.bad(2, *self.steer("--metric", "loss", "--target", "w3", "--target-ids", "0"), says=["one of the two"])

    LINES = [("w5 w9 w2 w14 w3", "w8 w4 w16"), ("w7", ""), ("w3 w4 w5 w6 w7 w8 w9", "w2")]

    def export(self, lines, *words):
        """What export says and wrote, and what run saves for each pair of texts."""
        (self.model / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        corpus, out, ones = self.folder / "corpus.txt", self.folder / "out.npz", []
        corpus.write_text("".join(line + "\n" for line in lines))
        got = self.json("export", "-m", self.model, corpus, "-o", out, *words)
        for source, target in self.LINES:
            one, site = self.folder / "one.npz", words[words.index("--site") + 1]
            self.good("run", "-m", self.model, "--text", source, "--target", target, "--sites", site, "-o", one)
            ones.append(read_npz(one))
        return got, read_npz(out), ones

    def test_export_rows(self):
        """Rows of each stack, and whose tokens the index names: to the bit those of single runs."""
        pairs, sources = ["\t".join(pair) for pair in self.LINES], [source for source, _ in self.LINES]
        for site, side, n_layers, lines in (
                ("enc_resid_post", "source_ids", 1, pairs), ("enc_z", "source_ids", 1, sources),
                ("cross_v", "source_ids", 2, sources), ("enc_ln_final", "source_ids", 0, pairs), ("resid_post", "ids", 2, pairs),
                ("cross_z", "ids", 2, pairs), ("logits", "ids", 0, pairs)):
            for rows in ("all", "last", "mean"):
                got, arrays, ones = self.export(lines, "--site", site, "--rows", rows)
                names = [f"{site}.{i}" for i in range(n_layers)] or [site]
                self.assertEqual(set(arrays), {*names, "text", "position", "token"})
                kept = [range(n) if rows == "all" else [n - 1] for n in (len(one[side].numbers) for one in ones)]
                self.assertEqual(got["n_rows"], sum(map(len, kept)))
                self.assertEqual(list(arrays["text"].numbers), [i for i, at in enumerate(kept) for _ in at])
                where = [(pos, one[side].numbers[pos]) for one, at in zip(ones, kept) for pos in at]
                if rows == "mean":
                    self.assertEqual(set(arrays["position"].numbers) | set(arrays["token"].numbers), {-1})
                    continue
                self.assertEqual(list(zip(arrays["position"].numbers, arrays["token"].numbers)), where)
                for name in names:
                    width = len(ones[0][name].numbers) // ones[0][name].shape[0]
                    want = [x for one, at in zip(ones, kept) for pos in at
                            for x in one[name].numbers[pos * width : (pos + 1) * width]]
                    self.assertEqual(list(arrays[name].numbers), want, (name, rows))

    def test_export_maps(self):
        pairs = ["\t".join(pair) for pair in self.LINES]
        for site, queries, keys in (("cross_pattern", "ids", "source_ids"), ("pattern", "ids", "ids"),
                                    ("enc_attn_scores", "source_ids", "source_ids")):
            for rows in ("all", "last"):
                got, arrays, ones = self.export(pairs, "--site", site, "--rows", rows, "--layer", "L0")
                first = [0 if rows == "all" else len(one[queries].numbers) - 1 for one in ones]
                crosses, want = site == "cross_pattern", []
                self.assertEqual(set(arrays), {f"{site}.0", "text", "shape", "token"} | ({"source_token"} if crosses else set()))
                shapes = [arrays["shape"].row(i) for i in range(3)]
                self.assertEqual([list(shape) for shape in shapes], [
                    [HEADS, len(one[queries].numbers) - at, len(one[keys].numbers)] for one, at in zip(ones, first)])
                for one, at in zip(ones, first):
                    for head in range(HEADS):
                        for query in range(at, one[f"{site}.0"].shape[1]):
                            want += one[f"{site}.0"].row(head, query)
                self.assertEqual(list(arrays[f"{site}.0"].numbers), want)
                columns = [token for one in ones for token in one[keys].numbers]
                self.assertEqual(list(arrays["source_token" if crosses else "token"].numbers), columns)
                if crosses:
                    self.assertEqual(list(arrays["token"].numbers), [x for one, at in zip(ones, first) for x in one["ids"].numbers[at:]])
                self.assertEqual(got["n_rows"], sum(shape[1] for shape in shapes))

    def test_export_target(self):
        """One target for the lines without one, and what is refused."""
        sources = [source for source, _ in self.LINES]
        _, same, _ = self.export([f"{source}\tw8 w4" for source in sources], "--site", "cross_z")
        for target in (["--target", "w8 w4"], ["--target-ids", "0,8,4"]):
            _, got, _ = self.export([sources[0], f"{sources[1]}\tw8 w4", sources[2]], "--site", "cross_z", *target)
            self.assertEqual({name: list(one.numbers) for name, one in got.items()},
                             {name: list(one.numbers) for name, one in same.items()})
        corpus, out = self.folder / "corpus.txt", self.folder / "out.npz"
        words = ("export", "-m", self.model, corpus, "-o", out)
        corpus.write_text("w5\tw6\n\nw7\n")
        self.bad(1, *words, says=[f"{corpus}: line 3: ", "a source, a tab and a target are wanted"])
        self.bad(2, *words, "--site", "enc_z", "--target", "w8", says=["--target: enc_z"])
        self.bad(1, *words, "--site", "enc_z", "--layer", "L1", says=["L1"])
        self.bad(1, *words, "--site", "rot_q", "--target", "w8", says=["no site 'rot_q'"])

    def test_who_reads_it(self):
        """Commands that have no place for such a model say which have one, and these are all others."""
        words = {"fill": ["a [MASK]"], "circuit": ["L0H0"], "attribute": ["--metric", "logit: #3", "a"], "compose": [], "rollout": ["a"],
                 "values": ["a", "--token", "a"], "chat": [], "bench": []}
        said = None
        for name, more in words.items():
            done = self.run_program(name, "-m", self.model, *more)
            text = done.stderr.decode()
            self.assertEqual((done.returncode, f"which {name} has no place for" in text), (1, True), text)
            said = said or text.splitlines()[-1]
            self.assertEqual(text.splitlines()[-1], said)
        listed = {word.strip("'").removeprefix("headscope ") for word in said.strip().removesuffix(" do").split(", ")}
        self.assertEqual(listed, set(COMMANDS) - set(words) - {"pull", "lesson", "convert"})

    def test_refused(self):
        self.bad(1, "fill", "-m", self.model, "a", says=["encoder-decoder (t5)", "fill has no place for"])
        self.bad(2, *self.look, "--target", "a", "--target-ids", "1", says=["one of the two"])
        self.bad(1, *self.look, "--stats", says=["--side encoder or --side decoder"])
        self.bad(2, *self.look, "--vs", "1,2", "--vs-target", "0,3", "--side", "encoder", says=["reads no target"])
        self.bad(2, *self.look, "--vs-target", "0,3", "--stats", "--side", "decoder", says=["one of the two"])
        self.bad(1, *self.look, "--target-ids", TARGET, "--vs-target", "x", says=["--vs-target wants token ids"])
        self.bad(1, *self.look, "--target-ids", TARGET, "--vs-target", "99", says=["token id 99"])


if __name__ == "__main__":
    main()
