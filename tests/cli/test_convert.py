"""headscope convert: round trips tensor by tensor, the same logits from either container, types and their fallbacks,
the tokenizer's way there and back, refusals, and what is left behind when it stops. And --dtype of the passes, which
converts weights in memory."""

import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

from program import DATA, PATIENCE, PROGRAM, ProgramTest, environment, main, sanitized

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import toys  # noqa: E402

IDS = "1,5,3,0,7,2"


def tensors_of(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    blob = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", blob)
    found = {}
    for name, entry in json.loads(blob[8 : 8 + n]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            found[name] = (entry["dtype"], entry["shape"], blob[8 + n + start : 8 + n + end])
    return found


def untied(seed=1, **shape):
    """A toy llama with an output matrix of its own."""
    config, tensors = toys.llama(seed=seed, **shape)
    config["tie_word_embeddings"] = False
    tensors["lm_head.weight"] = toys.Random(seed + 100).normal(tensors["model.embed_tokens.weight"][0])
    return config, tensors


def blocks(tensors, draw, at, d, linears, norms):
    """Adds the linear layers {name: (n_out, n_in)} and the norms of one block."""
    for name, shape in linears.items():
        tensors[f"{at}{name}.weight"], tensors[f"{at}{name}.bias"] = draw.normal(list(shape)), draw.normal([shape[0]])
    for name in norms:
        tensors[f"{at}{name}.weight"], tensors[f"{at}{name}.bias"] = draw.normal([d]), draw.normal([d])


def bert(kind="bert", vocab_size=17, d=8, n_ctx=12, segments=2, **more):
    config = {"model_type": kind, "vocab_size": vocab_size, "hidden_size": d, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 20, "max_position_embeddings": n_ctx, "type_vocab_size": segments, **more}
    draw, prefix = toys.Random(5), "" if kind == "bert" else "roberta."
    tensors = {f"{prefix}embeddings.{name}_embeddings.weight": draw.normal([n, d]) for name, n in
               (("word", vocab_size), ("position", n_ctx), ("token_type", segments))}
    blocks(tensors, draw, f"{prefix}embeddings.", d, {}, ["LayerNorm"])
    for i in range(2):
        blocks(tensors, draw, f"{prefix}encoder.layer.{i}.", d,
               {**{f"attention.self.{x}": (d, d) for x in ("query", "key", "value")}, "attention.output.dense": (d, d),
                "intermediate.dense": (20, d), "output.dense": (d, 20)}, ["attention.output.LayerNorm", "output.LayerNorm"])
    return config, tensors


def bloom(vocab_size=17, d=12, n_head=3, **more):
    config = {"model_type": "bloom", "vocab_size": vocab_size, "hidden_size": d, "n_layer": 2, "n_head": n_head, "seq_length": 32, **more}
    draw, tensors = toys.Random(6), {}
    tensors["transformer.word_embeddings.weight"] = draw.normal([vocab_size, d])
    blocks(tensors, draw, "transformer.", d, {}, ["word_embeddings_layernorm", "ln_f"])
    for i in range(2):
        blocks(tensors, draw, f"transformer.h.{i}.", d,
               {"self_attention.query_key_value": (3 * d, d), "self_attention.dense": (d, d), "mlp.dense_h_to_4h": (4 * d, d),
                "mlp.dense_4h_to_h": (d, 4 * d)}, ["input_layernorm", "post_attention_layernorm"])
    return config, tensors


class Convert(ProgramTest):
    def convert(self, source, target, *options):
        return self.run_program("convert", "-m", source, "-o", target, *options)

    def fine(self, source, target, *options):
        """Standard error of a conversion that ends well."""
        done = self.convert(source, target, *options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn(f"{target}: ".encode(), done.stdout)
        return done.stderr.decode()

    def refused(self, status, source, target, *options, says):
        before = sorted(os.listdir(self.folder))
        done = self.convert(source, target, *options)
        text = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (status, b""), text)
        for words in says:
            self.assertIn(words, text)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "something was left behind")

    def logits(self, model):
        out = self.folder / "logits.safetensors"
        self.good("run", "-m", model, "--ids", IDS, "--sites", "logits,pattern", "-o", out)
        return {name: entry[2] for name, entry in tensors_of(out).items()}

    def types(self, model):
        """{tensor: type}, as `info` lists them."""
        return {t["name"]: t["type"] for t in self.json("info", "--tensors", model)["tensors"]}

    def toy(self, name, config_and_tensors):
        return toys.write_folder(self.folder / name, *config_and_tensors)


class RoundTrips(Convert):
    def there_and_back(self, name, config_and_tensors):
        source = self.toy(name, config_and_tensors)
        self.fine(source, self.folder / f"{name}.gguf", "--dtype", "f32")
        self.fine(self.folder / f"{name}.gguf", self.folder / f"{name}-back")
        self.assertEqual(tensors_of(self.folder / f"{name}-back" / "model.safetensors"),
                         tensors_of(source / "model.safetensors"))
        want = self.logits(source)
        self.assertEqual(self.logits(self.folder / f"{name}.gguf"), want)
        self.assertEqual(self.logits(self.folder / f"{name}-back"), want)

    def test_gpt2(self):
        self.there_and_back("tied", toys.gpt2(prefix="transformer."))
        self.there_and_back("inner", toys.gpt2(prefix="transformer.", n_inner=12, seed=2))

    def test_llama(self):
        self.there_and_back("grouped", toys.llama())
        self.there_and_back("untied", untied(n_heads=4, n_kv=2, d=24, seed=3))

    def test_bloom(self):
        source, gguf, back = self.toy("bloom", bloom()), self.folder / "a.gguf", self.folder / "back"
        self.fine(source, gguf)
        self.fine(gguf, back)
        self.assertEqual(self.logits(gguf), self.logits(source))
        self.assertEqual(tensors_of(back / "model.safetensors"), tensors_of(source / "model.safetensors"))

    def test_encoders(self):
        """The last hidden states are the same bits; RoBERTa's positions begin behind the padding id."""
        for kind, more in (("bert", {}), ("roberta", {"pad_token_id": 3}), ("xlm-roberta", {"segments": 1, "pad_token_id": 1})):
            source = self.toy(kind, bert(kind, **more))
            gguf, back = self.folder / f"{kind}.gguf", self.folder / f"{kind}-back"
            self.fine(source, gguf)
            self.fine(gguf, back)
            states = []
            for model in (source, gguf, back):
                self.good("run", "-m", model, "--ids", IDS, "--sites", "ln_final,pattern", "-o", self.folder / "x.safetensors")
                states.append({name: entry[2] for name, entry in tensors_of(self.folder / "x.safetensors").items()})
            self.assertEqual(states[1], states[0])
            self.assertEqual(states[2], states[0])
            n_ctx = self.json("info", "-m", gguf)["config"]["n_ctx"]
            self.assertEqual(n_ctx, 12 - more.get("pad_token_id", -1) - 1)
            for words in (("ablate",), ("patch", "--corrupted-ids", IDS)):
                self.bad(1, *words, "-m", gguf, "--ids", IDS, "--metric", "logit: #1", says=["has no output matrix"])

    def test_types_are_kept(self):
        """bf16 shards: matrices stay bf16 in GGUF, vectors become float32 there; a folder gets one type throughout."""
        golden = pathlib.Path(toys.HERE) / "data" / "llama-bf16-shards"
        gguf, back, whole = (self.folder / name for name in ("a.gguf", "back", "whole"))
        self.fine(golden, gguf)
        self.assertEqual({t for name, t in self.types(gguf).items() if "_norm" not in name}, {"BF16"})
        self.assertEqual({t for name, t in self.types(gguf).items() if "_norm" in name}, {"F32"})
        self.fine(gguf, back, "--dtype", "bf16")
        self.fine(golden, whole)  # folder to folder: the shards end in one file
        self.assertEqual(tensors_of(back / "model.safetensors"), tensors_of(whole / "model.safetensors"))
        self.assertEqual(json.loads((back / "config.json").read_text())["torch_dtype"], "bfloat16")
        self.assertEqual(self.logits(gguf), self.logits(golden))

    def test_quantised_is_copied_and_widened(self):
        golden = pathlib.Path(toys.HERE) / "data" / "llama-q8_0.gguf"
        copy, wide = self.folder / "copy.gguf", self.folder / "wide"
        self.fine(golden, copy, "--dtype", "q8_0", "--pure")
        self.assertEqual(self.types(copy), self.types(golden))
        self.assertEqual(self.logits(copy), self.logits(golden))
        self.fine(golden, wide)
        self.assertEqual({t[0] for t in tensors_of(wide / "model.safetensors").values()}, {"F32"})
        self.assertEqual(self.logits(wide), self.logits(golden))

    def test_shared_matrix_under_the_heads_name(self):
        """Tied, and stored as lm_head alone: GGUF's readers look for the embedding."""
        config, tensors = toys.llama()
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
        source = self.toy("head", (config, tensors))
        self.fine(source, self.folder / "head.gguf")
        self.assertIn("token_embd.weight", self.types(self.folder / "head.gguf"))
        self.assertEqual(self.logits(self.folder / "head.gguf"), self.logits(source))


class Types(Convert):
    def test_every_type(self):
        """512 and 256 values a row fit every block; nothing falls back, and the logits stay near."""
        source = self.toy("wide", untied(vocab_size=40, d=256, inner=512, n_layer=1))
        for dtype in ("f32", "bf16", "f16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"):
            with self.subTest(dtype=dtype):
                target = self.folder / f"{dtype}.gguf"
                notes = self.fine(source, target, "--dtype", dtype, "--pure")
                self.assertNotIn("whole blocks", notes)
                kinds = self.types(target)
                self.assertEqual({t for name, t in kinds.items() if "norm" not in name}, {dtype.upper()})
                self.assertEqual({t for name, t in kinds.items() if "norm" in name}, {"F32"})
        notes = self.fine(source, self.folder / "q4_k.gguf", "--dtype", "q4_k", "--force")
        self.assertIn("output.weight makes the logits", notes)
        self.assertEqual(self.types(self.folder / "q4_k.gguf")["output.weight"], "Q6_K")

    def test_rows_of_no_whole_blocks(self):
        source = self.toy("odd", untied(d=96, n_heads=4, inner=40, n_layer=1))
        for dtype, wide, narrow in (("q4_k", "Q5_0", "F16"), ("q6_k", "Q8_0", "F16"), ("q4_0", "Q4_0", "F16")):
            with self.subTest(dtype=dtype):
                target = self.folder / f"{dtype}.gguf"
                notes = self.fine(source, target, "--dtype", dtype, "--pure")
                kinds = self.types(target)
                self.assertEqual(kinds["blk.0.attn_q.weight"], wide)    # rows of 96
                self.assertEqual(kinds["blk.0.ffn_down.weight"], narrow)  # rows of 40
                self.assertIn(f"1 matrix has rows of no whole blocks of {dtype.upper()}", notes)
                self.assertIn(f"stored as {narrow}", notes)

    def test_the_bill(self):
        golden = pathlib.Path(toys.HERE) / "data" / "llama-bf16-shards"
        done = self.convert(golden, self.folder / "a.gguf", "--dtype", "q8_0", "-v")
        text = done.stdout.decode()
        self.assertRegex(text, r"a\.gguf: \d+ tensors, [\d.]+ kB became [\d.]+ kB in [\d.e-]+ s\n")
        self.assertRegex(text, r"  Q8_0 +\d+ tensors  [\d.]+ kB; rounding changed 0\.[3-9]\d*% \(root mean square\)\n")
        self.assertRegex(text, r"  F32 +\d+ tensors  [\d.]+ [kB]+; no value changed\n")

    def test_rounding_anew_is_told(self):
        golden = pathlib.Path(toys.HERE) / "data" / "llama-q8_0.gguf"
        self.assertIn("quantised already", self.fine(golden, self.folder / "a.gguf", "--dtype", "q4_0"))


class Tokenizers(Convert):
    TEXTS = ("The animal didn't cross 1234 streets,\n\n  because…",
             "naïve 日本語 <|endoftext|> \U0001f600\t!!", "")

    def test_byte_level(self):
        folder = DATA / "tokenizers" / "gpt2"
        if not folder.exists():
            self.skipTest(f"skipped: no test data at {folder}")
        config, tensors = toys.gpt2(vocab_size=50257, n_embd=4, n_head=1, n_layer=1, prefix="transformer.",
                                    bos_token_id=50256, eos_token_id=50256)
        source = self.toy("gpt2", (config, tensors))
        shutil.copy(folder / "tokenizer.json", source)
        gguf, back = self.folder / "a.gguf", self.folder / "back"
        self.fine(source, gguf)
        self.fine(gguf, back)
        for text in self.TEXTS:
            for options in ([], ["--parse-special"]):
                want = self.json("tokenize", "-m", source, "--no-special", *options, text)
                self.assertEqual(self.json("tokenize", "-m", gguf, "--no-special", *options, text), want)
                self.assertEqual(self.json("tokenize", "-m", back, "--no-special", *options, text), want)

    def test_bytes_alone(self):
        """No merges is a list too. A chat template that no JSON can hold is left out, and a note says so."""
        source = self.toy("bytes", bloom(vocab_size=256))
        (source / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        (source / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
        gguf, back = self.folder / "a.gguf", self.folder / "back"
        self.assertEqual(self.fine(source, gguf) + self.fine(gguf, back), "")
        want = self.json("tokenize", "-m", source, "--no-special", "na\u00efve")
        self.assertEqual(self.json("tokenize", "-m", gguf, "--no-special", "na\u00efve"), want)
        self.assertEqual(self.json("tokenize", "-m", back, "--no-special", "na\u00efve"), want)
        gguf.write_bytes(gguf.read_bytes().replace(b"{{ messages }}", b"{{ messag\xff\xfe }}"))
        self.assertIn("the chat template is left out: it is not UTF-8", self.fine(gguf, self.folder / "again"))

    def pooling(self, source):
        """How embeddings are made goes into GGUF; a folder made of that does not say it, and a note does."""
        (source / "1_Pooling").mkdir()
        (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
        modules = [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}, {"path": "2_Normalize", "type": "x.Normalize"}]
        (source / "modules.json").write_text(json.dumps(modules))
        gguf, back = self.folder / "pooled.gguf", self.folder / "pooled"
        self.fine(source, gguf)
        self.assertIn("--pooling cls --normalise yes", self.fine(gguf, back))
        want = self.json("embed", "-m", source, "A robin sat.")["texts"]
        self.assertEqual(self.json("embed", "-m", gguf, "A robin sat.")["texts"], want)
        self.assertEqual(self.json("embed", "-m", back, "--pooling", "cls", "--normalise", "yes", "A robin sat.")["texts"], want)
        self.assertIn("modules.json", self.fine(source, self.folder / "again", "--dtype", "f32"))
        (source / "modules.json").write_text(json.dumps(modules + [{"path": "3_Dense", "type": "x.Dense"}]))
        self.assertIn("Dense layers have no place in GGUF", self.fine(source, self.folder / "dense.gguf"))

    def test_words_of_bert(self):
        """WordPiece to GGUF and back: the same ids, alone and in pairs, in capitals and with accents."""
        words = DATA / "tokenizers" / "bert-base-uncased"
        if not words.exists():
            self.skipTest(f"skipped: no test data at {words}")
        source = self.toy("bert", bert(vocab_size=30522))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(words / name, source)
        gguf, back = self.folder / "a.gguf", self.folder / "back"
        self.fine(source, gguf)
        self.assertNotIn("left out", self.fine(gguf, back))
        for text in (*self.TEXTS, "HELLO \u00c9cole Stra\u00dfe", "unbelievability ##ing [mask]", "", " \t "):
            for options in ([], ["--pair", "Who sat?"], ["--parse-special", "--no-special"]):
                want = self.json("tokenize", "-m", source, *options, text)
                self.assertEqual(self.json("tokenize", "-m", gguf, *options, text), want, (text, options))
                self.assertEqual(self.json("tokenize", "-m", back, *options, text), want, (text, options))
        self.pooling(source)
        said = json.loads((back / "tokenizer_config.json").read_text())
        self.assertEqual([said[f"{name}_token"] for name in ("cls", "sep", "mask", "unk", "pad")],
                         ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"])

    def test_pieces(self):
        folder = DATA / "models" / "tinystories-656k"
        if not folder.exists():
            self.skipTest(f"skipped: no test data at {folder}")
        gguf = self.folder / "a.gguf"
        self.fine(folder, gguf)
        for text in self.TEXTS[:1] + ("Once upon a time, there was a dog named Max.",):
            self.assertEqual(self.json("tokenize", "-m", gguf, text), self.json("tokenize", "-m", folder, text))
        self.assertEqual(self.logits(gguf), self.logits(folder))


class Refusals(Convert):
    def setUp(self):
        super().setUp()
        self.source = self.toy("source", toys.gpt2())

    def test_arguments(self):
        self.refused(2, self.source, self.folder / "out", "--dtype", "q8_0", says=["a folder holds f32, bf16 or f16"])
        self.refused(2, self.source, self.folder / "a.gguf", "--dtype", "q9", says=["--dtype wants one of"])
        self.bad(2, "convert", "-m", self.source, says=["no output"])
        self.bad(2, "convert", "-m", self.source, "-o", "", says=["no output"])
        self.refused(1, self.source, self.folder / "a.safetensors", says=["a folder", ".gguf"])
        self.refused(1, self.folder / "nothing", self.folder / "a.gguf", says=["nothing"])

    def test_what_cannot_be_written_is_named_as_it_was_asked_for(self):
        """A limit on the size of files: what is filled beside the output is nobody's concern."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

        for target in ("out.gguf", "folder", "folder/"):
            path = f"{self.folder}/{target}"
            done = self.run_program("convert", "-m", self.source, "-o", path, preexec_fn=limit)
            text = done.stderr.decode().splitlines()[-1]  # a note about the tokenizer may come before
            self.assertEqual(done.returncode, 1)
            self.assertTrue(text.startswith(f"headscope: {path.rstrip('/')}") and "File too large" in text, text)
            self.assertNotIn(".part.", text)

    def test_what_exists_is_not_replaced(self):
        target = self.folder / "a.gguf"
        target.write_bytes(b"precious")
        self.refused(1, self.source, target, says=["exists already", "--force"])
        self.assertEqual(target.read_bytes(), b"precious")
        self.fine(self.source, target, "--force")
        self.assertEqual(target.read_bytes()[:4], b"GGUF")

    def test_folders(self):
        target = self.folder / "out"
        target.mkdir()
        self.refused(1, self.source, target, says=["exists already"])
        (self.folder / "out.gguf").mkdir()
        self.refused(1, self.source, self.folder / "out.gguf", "--force", says=["is a folder"])
        self.fine(self.source, target, "--force")
        (target / "stale.txt").write_text("old")
        self.fine(self.source, target, "--force")
        self.assertFalse((target / "stale.txt").exists(), "a replaced folder keeps nothing of the old one")
        (target / "inner").mkdir()
        self.refused(1, self.source, target, "--force", says=["is not replaced"])
        (target / "inner").rmdir()
        (target / "another.gguf").write_text("precious")
        self.refused(1, self.source, target, "--force", says=["is not replaced"])
        self.assertEqual((target / "another.gguf").read_text(), "precious")
        other = self.folder / "other"
        other.mkdir()
        (other / "letter.txt").write_text("dear")
        self.refused(1, self.source, other, "--force", says=["is not replaced", "config.json"])
        self.assertEqual((other / "letter.txt").read_text(), "dear")

    def test_what_gguf_cannot_say(self):
        for name, more, says in (("scale", {"scale_attn_by_inverse_layer_idx": True}, "scale of its attention"),
                                 ("act", {"activation_function": "relu"}, "activation")):
            source = self.toy(name, toys.gpt2(**more))
            self.refused(1, source, self.folder / "a.gguf", says=[says, "GGUF"])

    def test_values_that_do_not_fit(self):
        config, tensors = toys.llama(d=32, inner=64, n_layer=1)
        tensors["model.layers.0.mlp.down_proj.weight"][1][5] = float("nan")
        source = self.toy("nan", (config, tensors))
        self.refused(1, source, self.folder / "a.gguf", "--dtype", "q8_0", says=["down_proj", "not finite"])
        self.fine(source, self.folder / "a.gguf", "--dtype", "f16")
        tensors["model.layers.0.mlp.down_proj.weight"][1][5] = 1e30
        source = self.toy("large", (config, tensors))
        for dtype in ("f16", "q4_0"):
            self.refused(1, source, self.folder / "b.gguf", "--dtype", dtype, says=["down_proj", "too large"])

    def test_damaged_input(self):
        path = self.source / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-9])
        self.refused(1, self.source, self.folder / "a.gguf", says=["model.safetensors"])


class InMemory(Convert):
    """--dtype of run, info and bench on a quantised file: in float32 nothing changes but the place."""

    def setUp(self):
        super().setUp()
        self.model = pathlib.Path(toys.HERE) / "data" / "llama-q8_0.gguf"

    def run_it(self, *options):
        out = self.folder / "logits.safetensors"
        done = self.run_program("run", "-m", self.model, "--ids", IDS, "--sites", "logits,pattern", "-o", out, *options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done, {name: entry[2] for name, entry in tensors_of(out).items()}

    def test_run(self):
        _, want = self.run_it()
        done, got = self.run_it("--dtype", "f32")
        self.assertEqual(got, want)
        self.assertRegex(done.stderr.decode(), r"note: 15 matrices became F32 in [\d.e-]+ s: \d+ MiB of this process")
        self.assertIn("(compute f32, weights f32)", " ".join(done.stdout.decode().split()))
        _, bf16 = self.run_it("--dtype", "bf16")
        self.assertNotEqual(bf16["logits"], want["logits"])
        done, same = self.run_it("--dtype", "q8_0")
        self.assertEqual(same, want)
        self.assertIn("no matrix was converted to Q8_0", done.stderr.decode())
        done, _ = self.run_it("--dtype", "bf16", "--json")
        self.assertEqual(json.loads(done.stdout)["weights"], "bf16")

    def test_info_and_bench(self):
        plain = self.json("info", "-m", self.model, "--tokens", "8")["memory"]
        wide = self.json("info", "-m", self.model, "--tokens", "8", "--dtype", "f32")["memory"]
        self.assertEqual((plain["converted_bytes"], wide["weights"]), (0, "f32"))
        self.assertLess(wide["weights_bytes"], plain["weights_bytes"])
        self.assertGreater(wide["converted_bytes"], plain["weights_bytes"] - wide["weights_bytes"])
        self.assertIn("  converted ", self.good("info", "-m", self.model, "--tokens", "8", "--dtype", "bf16"))
        self.bad(2, "info", "-m", self.model, "--dtype", "f32", says=["--tokens N"])
        rows = json.loads(self.good("bench", "-m", self.model, "-p", "4", "-n", "0", "-r", "1", "--json",
                                    "--dtype", "bf16"))
        self.assertEqual(rows[0]["dtype"], "BF16")
        self.bad(2, "run", "-m", self.model, "--dtype", "q4_0", says=["--dtype wants one of file|f32|f16|bf16|q8_0"])


class Long(Convert):
    """A model whose embedding is a file of zeros that takes no space on disk."""

    def setUp(self):
        super().setUp()
        config, tensors = toys.gpt2(n_embd=64, n_head=1, n_layer=1)
        rows = 1 << 19  # 128 MiB
        tensors.pop("wte.weight")
        self.source = toys.write_folder(self.folder / "long", {**config, "vocab_size": rows}, tensors)
        path = self.source / "model.safetensors"
        blob = path.read_bytes()
        (n,) = struct.unpack_from("<Q", blob)
        header = json.loads(blob[8 : 8 + n])
        end = len(blob) - 8 - n
        header["wte.weight"] = {"dtype": "F32", "shape": [rows, 64], "data_offsets": [end, end + rows * 256]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + blob[8 + n :])
        os.truncate(path, 8 + len(text) + end + rows * 256)

    def start(self, target, *options):
        return subprocess.Popen([PROGRAM, "convert", "-m", self.source, "-o", target, *options],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())

    @unittest.skipIf(sanitized(), "a peak of memory is told without sanitizers")
    def test_memory_stays_small(self):
        for target, dtype in ((self.folder / "a.gguf", "f16"), (self.folder / "out", "f32")):
            process = self.start(target, "--dtype", dtype)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertLess(usage.ru_maxrss, 100 << 10, "kilobytes; the matrix alone has 131,072")

    def test_stopped(self):
        before = sorted(os.listdir(self.folder))
        for target in (self.folder / "a.gguf", self.folder / "out"):
            process = self.start(target, "--dtype", "f16")
            while process.poll() is None and len(os.listdir(self.folder)) == len(before):
                time.sleep(0.002)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60 * PATIENCE), 130)
            self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    main()
