"""Encoder-decoders in the program: look at each attention, run's names and shapes, generate, info, and what is refused.
The checkpoint is a small random T5, written here."""

import array
import json
import random
import struct

from program import ProgramTest, main, read_safetensors

D, D_HEAD, HEADS, FF, VOCABULARY, LAYERS = 16, 8, 2, 24, 31, {"encoder": 1, "decoder": 2}
CONFIG = {"model_type": "t5", "vocab_size": VOCABULARY, "d_model": D, "d_kv": D_HEAD, "d_ff": FF, "num_layers": 1,
          "num_decoder_layers": 2, "num_heads": HEADS, "decoder_start_token_id": 0, "eos_token_id": 1}
SOURCE, TARGET = "5,9,2,14,3,1", "0,8,4,16"


def shapes():
    yield "shared.weight", [VOCABULARY, D]
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


def write_t5(folder):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    draw, header, data = random.Random(1), {}, b""
    for name, shape in shapes():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = array.array("f", [draw.gauss(0, 0.5) if len(shape) > 1 else 1 for _ in range(n)]).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


class EncoderDecoder(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = write_t5(self.folder / "t5")
        self.look = ("look", "-m", self.model, "--ids", SOURCE)

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
        self.bad(1, *ablate, "--side", "encoder", "--heads", "L1H0", says=["there is no layer 2 (L1)"])
        self.bad(1, "ablate", "-m", self.model, "--pairs", "x", says=["--pairs"])
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
        self.bad(1, *patch, "--path", "end", says=["not for", "t5"])
        self.bad(1, "patch", "-m", self.model, "--pairs", "x", says=["not for"])
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

    def test_refused(self):
        self.bad(1, "fill", "-m", self.model, "a", says=["encoder-decoder (t5)", "fill has no place for"])
        self.bad(2, *self.look, "--target", "a", "--target-ids", "1", says=["one of the two"])
        self.bad(1, *self.look, "--stats", says=["--side encoder or --side decoder"])
        self.bad(1, *self.look, "--vs", "1,2", says=["--side encoder"])


if __name__ == "__main__":
    main()
