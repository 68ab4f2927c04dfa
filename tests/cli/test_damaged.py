"""Checkpoints that are damaged or hostile: weights that are no numbers through every command, and encoder-decoder
folders whose configuration or tensors are cut, empty, huge or of the wrong kind. Nothing may hang, crash or print what
is no JSON; what is refused is refused in one line that names the file."""

import json
import math
import random
import re
import sys

import test_encdec
from program import SOURCE, ProgramTest, main

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

TEXT, OTHER = "The cat sat", "The dog sat"
METRIC = ("--metric", "logit: #10 - #20")
PAIRS = "One [a:x] and [b:y] had a ball. {y|x} gave it [q:to] me.\nSo [a:p] met [b:q]. {p|q} ran [q:away]\n"


def no_constant(word):
    raise AssertionError(f"{word} is no JSON")


class Damaged(ProgramTest):
    def ends_well(self, *words):
        """Done or refused; killed by nothing, and not as a fault of the arguments."""
        done = self.run_program(*words)
        self.assertIn(done.returncode, (0, 1), (words, done.stderr.decode(errors="replace")))
        if done.returncode:
            self.assertTrue(done.stderr.decode().splitlines()[-1].startswith("headscope: "), (words, done.stderr))
        elif "--json" in words:
            json.loads(done.stdout, parse_constant=no_constant)
        said = (done.stdout + done.stderr).decode(errors="replace")
        if words[0] != "embed":  # whose numbers are read by programs
            self.assertIsNone(re.search(r"\bnan\b", said), (words, said))  # what is no number shows as "-"
        self.assertNotIn("-nan", said, words)
        return done.returncode


class NotANumber(Damaged):
    def commands(self, model):
        def file(name, text):
            (self.folder / name).write_text(text)
            return self.folder / name
        corpus = file("corpus.txt", "The cat sat on a mat.\nTom had a red ball.\nthe sun was hot\n")
        pairs = file("pairs.txt", PAIRS)
        sets = ("--toward", file("toward.txt", "good day\nnice cat\n"),
                "--away", file("away.txt", "bad day\npoor dog\n"))
        picture, sites, m = self.folder / "a.svg", "q,k,v,z,attn_scores,pattern,resid_post,logits", ("-m", model)
        return (
            ("look", *m, TEXT), ("look", *m, TEXT, "--json"), ("look", *m, TEXT, "--stats"),
            ("look", *m, TEXT, "--head", "L0H0", "--plot", picture), ("look", *m, TEXT, "--vs", OTHER),
            ("run", *m, "--text", TEXT, "--sites", sites, "-o", self.folder / "a.npz"),
            ("run", *m, "--text", TEXT, "--stats", "-o", self.folder / "a.safetensors"),
            ("scan", *m, pairs), ("detect", *m, corpus), ("drift", model, model, corpus),
            ("ablate", *m, TEXT, *METRIC), ("ablate", *m, TEXT, *METRIC, "--json"),
            ("ablate", *m, TEXT, *METRIC, "--sweep", "neurons", "--layer", "L0"),
            ("ablate", *m, TEXT, "--metric", "loss", "--heads", "L0H0", "--per-token"),
            ("ablate", *m, "--file", corpus, "--heads", "L0H0", "--per-token"),
            ("ablate", *m, "--pairs", pairs), ("ablate", *m, TEXT, *METRIC, "--how", "mean", "--corpus", corpus),
            ("patch", *m, *METRIC, TEXT, "--corrupted", OTHER), ("patch", *m, *METRIC, TEXT, "--cut", "each"),
            ("patch", *m, *METRIC, TEXT, "--corrupted", OTHER, "--path", "end"), ("patch", *m, "--pairs", pairs),
            ("lens", *m, TEXT), ("lens", *m, TEXT, "--json"), ("attribute", *m, TEXT, *METRIC),
            ("attribute", *m, TEXT, *METRIC, "--json"), ("circuit", *m, "L0H0", "--all"),
            ("circuit", *m, "L0H0", "--word", "#7", "--json"), ("compose", *m), ("compose", *m, "--json"),
            ("rollout", *m, TEXT), ("rollout", *m, TEXT, "--json"),
            ("values", *m, TEXT), ("values", *m, TEXT, "--json"),
            ("steer", *m, *sets, *METRIC, TEXT), ("steer", *m, *sets, "--layer", "L0", "-n", "3", TEXT),
            ("generate", *m, TEXT, "-n", "4"), ("generate", *m, TEXT, "-n", "4", "--beams", "2"),
            ("generate", *m, TEXT, "-n", "4", "--temperature", "1"), ("score", *m, TEXT), ("score", *m, TEXT, "--json"),
            ("embed", *m, TEXT), ("embed", *m, TEXT, "--json"),
            ("export", *m, corpus, "--site", "resid_post", "-o", self.folder / "e.npz"), ("info", model),
            ("bench", *m, "-p", "4", "-n", "2", "-r", "1"),
            ("convert", *m, "-o", self.folder / "c.gguf", "--force"),
            ("convert", *m, "-o", self.folder / "c.gguf", "--dtype", "q8_0", "--force"))

    def checkpoint(self, part=None, value=None, vocab_size=256):
        config, tensors = toys.gpt2(vocab_size=vocab_size, n_positions=64, n_embd=8)
        for name, (shape, numbers, *_) in tensors.items():
            if part and part in name:
                numbers[len(numbers) // 2] = value
        model = toys.write_folder(self.folder / "model", config, tensors)
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        return model

    def test_every_command(self):
        for part, value in (("attn.c_attn.weight", math.nan), ("wte", math.inf), ("attn.c_attn.weight", 3e38)):
            for words in self.commands(self.checkpoint(part, value)):
                with self.subTest(part=part, value=value, words=words[0]):
                    self.ends_well(*words)

    def test_no_divergence_from_nan(self):
        """A model that ends with no numbers is at no distance from anything, and not at distance 0."""
        got = self.json("lens", "-m", self.checkpoint("attn.c_attn.weight", math.nan), TEXT)
        self.assertIsNone(got["stages"][0][-1]["kl"])

    def test_more_tokens_than_the_model_has(self):
        """The tokenizer's last ids have no row in the model: told, wherever a text or an option brings one in."""
        model = self.checkpoint(vocab_size=120)
        ids = self.json("tokenize", "-m", model, "Ca~")["ids"]
        self.assertLess(max(ids[:2]), 120)
        self.assertGreaterEqual(ids[2], 120)
        run = ("run", "--text", "Ca~", "--sites", "logits", "-o", self.folder / "l.npz")
        for words in (("score", "Ca~"), ("generate", "Ca~"), ("look", "Ca~"), ("lens", "Ca~"), run):
            self.bad(1, words[0], "-m", model, *words[1:], says=[f"token id {ids[2]}", "vocabulary of 120"])
        for words in (("ablate", "Ca"), ("patch", "Ca", "--cut", "each"), ("attribute", "Ca")):
            self.bad(1, words[0], "-m", model, *words[1:], "--metric", 'logit: "~"', says=[f"#{ids[2]}", "#0 to #119"])
        for words in self.commands(model):
            with self.subTest(words=words[0]):
                self.ends_well(*words)

    def test_quantised(self):
        """Fields of another quantisation are refused even where the tensors look like plain ones."""
        model = self.checkpoint()
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "gptq", "bits": 4}}))
        self.bad(1, "score", "-m", model, TEXT, says=["quantization_config", "gptq", "not supported"])
        (model / "config.json").write_text(json.dumps({**config, "quantization_config": None}))
        self.good("score", "-m", model, TEXT)

    def test_no_test_of_nan(self):
        """Figures over clusters name the text that brings none."""
        model, pairs = self.checkpoint("attn.c_attn.weight", math.nan), self.folder / "repeats.jsonl"
        lines = [{"id": f"{i}", "T": 6, "ids": [0, *range(i, i + 6), *range(i, i + 6)]} for i in (10, 20)]
        pairs.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for command in ("ablate", "patch", "attribute", "lens"):
            self.bad(1, command, "-m", model, "--pairs", pairs, says=["text 1 of 4", "not finite", "damaged"])

    def test_no_flow_of_nan(self):
        self.bad(1, "rollout", "-m", self.checkpoint("attn.c_attn.weight", math.nan), TEXT, says=["not finite"])


# --------------------------------------------------------------------------------------- encoder-decoders ------

def sides(vocab, n_positions, learned, d=8, ff=12):
    """Names and shapes of one layer each of BART, or of Marian whose positions are sinusoids."""
    yield "model.shared.weight", [vocab, d]
    yield "final_logits_bias", [1, vocab]
    for side in ("encoder", "decoder"):
        if learned:
            yield f"model.{side}.embed_positions.weight", [n_positions + 2, d]
            for part in ("weight", "bias"):
                yield f"model.{side}.layernorm_embedding.{part}", [d]
        at = f"model.{side}.layers.0."
        attentions = ("self_attn",) if side == "encoder" else ("self_attn", "encoder_attn")
        for name in attentions:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                yield f"{at}{name}.{part}.weight", [d, d]
                yield f"{at}{name}.{part}.bias", [d]
        for name, rows, columns in (("fc1", ff, d), ("fc2", d, ff)):
            yield f"{at}{name}.weight", [rows, columns]
            yield f"{at}{name}.bias", [rows]
        for name in (*(f"{a}_layer_norm" for a in attentions), "final_layer_norm"):
            yield f"{at}{name}.weight", [d]
            yield f"{at}{name}.bias", [d]


def side_config(kind):
    both = {f"{side}_{key}": value for side in ("encoder", "decoder")
            for key, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 12))}
    return {"model_type": kind, "vocab_size": 31, "d_model": 8, "max_position_embeddings": 40,
            "activation_function": "relu", "decoder_start_token_id": 2, "eos_token_id": 1, **both}


KINDS = {"t5": (test_encdec.CONFIG, lambda: test_encdec.shapes(test_encdec.VOCABULARY)),
         "bart": (side_config("bart"), lambda: sides(31, 40, True)),
         "marian": (side_config("marian"), lambda: sides(31, 40, False))}
# A count of each kind that its tensors depend on.
COUNTS = {"t5": ("d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "vocab_size",
                 "relative_attention_num_buckets", "relative_attention_max_distance", "n_positions"),
          "bart": ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
                   "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size", "max_position_embeddings")}
COUNTS["marian"] = COUNTS["bart"]


class EncoderDecoders(Damaged):
    def write(self, kind, config=None, changes=()):
        """A checkpoint of the kind; changes: {tensor name: shape}."""
        draw, tensors = random.Random(3), {}
        for name, shape in KINDS[kind][1]():
            shape = dict(changes).get(name, shape)
            tensors[name] = (shape, [draw.gauss(0, 0.5) for _ in range(math.prod(shape))])
        return toys.write_folder(self.folder / kind, {**KINDS[kind][0], **(config or {})}, tensors)

    def look(self, model):
        return "look", "-m", model, "--ids", "5,9,2,14", "--target-ids", "2,8,4"

    def test_a_target_without_end(self):
        """What a model writes that never ends is read, so it stops where the context does."""
        model = self.write("bart")
        generation = {"decoder_start_token_id": 2, "eos_token_id": 1, "min_length": 100}
        (model / "generation_config.json").write_text(json.dumps(generation))
        for command in ("look", "lens"):
            self.assertEqual(len(self.json(command, "-m", model, "--ids", "5,9,3")["tokens"]), 40)

    def refused(self, model, *words):
        return self.bad(1, *self.look(model), says=[str(model), *words])

    def test_whole(self):
        for kind in KINDS:
            self.good(*self.look(self.write(kind)))

    def test_counts_of_a_configuration(self):
        """Each field of no sense is refused by its name; 2^24 by its name or by the tensor that is not so large."""
        for kind, fields in COUNTS.items():
            for field in fields:
                for value in ("8", 0, -1, 2**31, 2**63, 1.5, True, [], {}):
                    with self.subTest(kind=kind, field=field, value=value):
                        if value == 2**63:
                            self.refused(self.write(kind, {field: value}))  # no integer of JSON's reader
                        else:
                            self.refused(self.write(kind, {field: value}), field)
                with self.subTest(kind=kind, field=field, value="large"):
                    self.ends_well(*self.look(self.write(kind, {field: 2**20})))

    def test_words_of_a_configuration(self):
        for kind, field, values in (("t5", "feed_forward_proj", (7, "", "gated-", "no such", [], "\0")),
                                    ("t5", "tie_word_embeddings", (1, "yes")), ("t5", "layer_norm_epsilon", (-1, "a")),
                                    ("bart", "activation_function", (7, "", "no such", {})),
                                    ("bart", "scale_embedding", (1, "yes")), ("bart", "normalize_before", (True, 1)),
                                    ("marian", "share_encoder_decoder_embeddings", (0, "no"))):
            for value in values:
                with self.subTest(kind=kind, field=field, value=value):
                    self.refused(self.write(kind, {field: value}), "config.json")

    def test_shapes(self):
        """Every tensor with no rows, with a dimension more, or one row short, in turn."""
        for kind in KINDS:
            for i, (name, shape) in enumerate(KINDS[kind][1]()):
                change = ([0, *shape[1:]], [*shape, 1], [shape[0] - 1, *shape[1:]])[i % 3]
                with self.subTest(kind=kind, name=name, shape=change):
                    self.refused(self.write(kind, changes={name: change}), name)

    def test_cut_files(self):
        for kind in KINDS:
            model = self.write(kind)
            path = model / "model.safetensors"
            whole = path.read_bytes()
            for n in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
                path.write_bytes(whole[:n])
                with self.subTest(kind=kind, n=n):
                    self.refused(model)
            config = (model / "config.json").read_text()
            path.write_bytes(whole)
            for n in (0, 1, len(config) // 2, len(config) - 1):
                (model / "config.json").write_text(config[:n])
                with self.subTest(kind=kind, config=n):
                    self.refused(model)

    def test_not_a_number(self):
        for kind in KINDS:
            for part, value in (("q.weight" if kind == "t5" else "q_proj.weight", math.nan), ("shared", math.inf)):
                draw, tensors = random.Random(3), {}
                for name, shape in KINDS[kind][1]():
                    tensors[name] = (shape, [draw.gauss(0, 0.5) for _ in range(math.prod(shape))])
                    if part in name:
                        tensors[name][1][len(tensors[name][1]) // 2] = value
                model = toys.write_folder(self.folder / kind, KINDS[kind][0], tensors)
                source = ("-m", model, "--ids", "5,9,2")
                sites = ("--sites", "enc_pattern,pattern,cross_pattern,cross_k,logits", "-o", self.folder / "a.npz")
                for words in (self.look(model), (*self.look(model), "--json"), ("look", *source, "--side", "encoder"),
                              ("run", *source, "--target-ids", "2,8", *sites), ("generate", *source, "-n", "4"),
                              ("generate", *source, "-n", "4", "--beams", "2"), ("info", model)):
                    with self.subTest(kind=kind, part=part, words=words[0]):
                        self.ends_well(*words)


if __name__ == "__main__":
    main()
