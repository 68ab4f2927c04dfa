"""headscope embed: vectors by their definition, in any company, and what the model's files say about them."""

import array
import json
import math
import random
import shutil
import struct
import unittest

from program import DATA, ProgramTest, main, read_safetensors

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
TINY = DATA / "models" / "tinystories-656k"
SORT = DATA / "models" / "gpt-nano-sort"
TEXTS = ["Once upon a time", "x", "Tom had a big red ball, and he loved it very much. " * 3, "A little girl"]


def write_layer(folder, n_in, n_out, act, bias=True, **changes):
    """A Dense of sentence-transformers with random weights; returns its function."""
    draw = random.Random(n_out)
    weight = [array.array("f", [draw.gauss(0, 1 / math.sqrt(n_in)) for _ in range(n_in)]) for _ in range(n_out)]
    offset = array.array("f", [draw.gauss(0, 1) for _ in range(n_out)])
    data, header = b"".join(row.tobytes() for row in weight), {}
    header["linear.weight"] = {"dtype": "F32", "shape": [n_out, n_in], "data_offsets": [0, len(data)]}
    if bias:
        header["linear.bias"] = {"dtype": "F32", "shape": [n_out], "data_offsets": [len(data), len(data) + 4 * n_out]}
        data += offset.tobytes()
    folder.mkdir(exist_ok=True)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"in_features": n_in, "out_features": n_out, "bias": bias, "activation_function": f"torch.nn.modules.activation.{act}"}
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    functions = {"Tanh": math.tanh, "ReLU": lambda x: max(x, 0), "Identity": lambda x: x, "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
                 "GELU": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, "SiLU": lambda x: x / (1 + math.exp(-x))}
    return lambda x: [functions[act](math.fsum(a * b for a, b in zip(row, x)) + (offset[i] if bias else 0))
                      for i, row in enumerate(weight)]


class Embed(ProgramTest):
    def states(self, text, model=STORIES):
        """The last hidden states [n_pos][d_model]."""
        path = self.folder / "states.safetensors"
        self.good("run", "-m", model, "--text", text, "--sites", "ln_final", "-o", path)
        return read_safetensors(path)["ln_final"]

    def test_by_definition(self):
        for text in TEXTS:
            states = self.states(text)
            n, d = states.shape
            rows = [states.row(i) for i in range(n)]
            want = {"mean": [math.fsum(row[k] for row in rows) / n for k in range(d)], "cls": list(rows[0]), "last": list(rows[-1])}
            for pooling, vector in want.items():
                for normalise in ("yes", "no"):
                    data = self.json("embed", "-m", STORIES, "--pooling", pooling, "--normalise", normalise, text)
                    (got,) = data["texts"]
                    length = math.sqrt(math.fsum(x * x for x in vector)) if normalise == "yes" else 1
                    for a, b in zip(got["embedding"], vector, strict=True):
                        self.assertAlmostEqual(a, b / length, delta=1e-6 * max(1, abs(b)))
                    self.assertEqual((data["pooling"], data["normalised"], got["n_tokens"]), (pooling, normalise == "yes", n))

    def test_company_changes_nothing(self):
        together = self.good("embed", "-m", STORIES, "--pooling", "mean", *TEXTS)
        alone = "".join(self.good("embed", "-m", STORIES, "--pooling", "mean", text) for text in TEXTS)
        self.assertEqual(together, alone)
        path = self.folder / "texts"
        path.write_text("\n".join(TEXTS * 40) + "\n")  # more than run at once
        self.assertEqual(self.good("embed", "-m", STORIES, "--pooling", "mean", "-f", path, "-t", "3"), alone * 40)

    def test_arrays(self):
        lines = self.good("embed", "-m", STORIES, *TEXTS).splitlines()
        path = self.folder / "e.safetensors"
        self.good("embed", "-m", STORIES, *TEXTS, "-o", path)
        array = read_safetensors(path)["embeddings"]
        self.assertEqual(array.shape, [4, 64])
        for i, line in enumerate(lines):
            self.assertEqual([float(x) for x in line.split(",")], [float(f"{x:.9g}") for x in array.row(i)])
        self.good("embed", "-m", STORIES, *TEXTS, "-o", self.folder / "e.npy")
        self.assertTrue((self.folder / "e.npy").read_bytes().endswith(array.numbers.tobytes()))

    def test_what_the_files_say(self):
        model = self.folder / "model"
        shutil.copytree(TINY, model)
        def said():
            data = self.json("embed", "-m", model, "Once upon a time there was a big dog")
            return data["pooling"], data["normalised"], data["texts"][0]["n_tokens"]
        self.assertEqual(said()[:2], ("last", False))
        modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        (model / "1_Pooling").mkdir()
        (model / "modules.json").write_text(json.dumps(modules))
        self.bad(1, "embed", "-m", model, "x", says=["1_Pooling/config.json", "no such file"])
        pooling = {"word_embedding_dimension": 128, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
        (model / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        self.assertEqual(said()[:2], ("mean", False))
        modules.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})
        (model / "modules.json").write_text(json.dumps(modules))
        (model / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
        self.assertEqual(said(), ("mean", True, 5))
        (model / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "pooling_mode_max_tokens": True}))
        self.bad(1, "embed", "-m", model, "x", says=["pooling_mode_max_tokens"])
        self.good("embed", "-m", model, "x", "--pooling", "mean", "--normalise", "no")
        (model / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
        (model / "modules.json").write_text(json.dumps(modules))
        self.bad(1, "embed", "-m", model, "x", says=["Dense", "before Normalize"])

    def with_modules(self, *names):
        """A folder whose modules are these behind the transformer."""
        model = self.folder / "model"
        if not model.exists():
            shutil.copytree(TINY, model)
            (model / "1_Pooling").mkdir()
            (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
        modules += [{"path": name, "type": "sentence_transformers.models." + name[2:]} for name in names]
        (model / "modules.json").write_text(json.dumps(modules))
        return model

    def test_dense(self):
        """Layers behind the pooling by their definition, then the length."""
        model = self.with_modules("1_Pooling")
        (plain,) = self.json("embed", "-m", model, TEXTS[0])["texts"]
        d = len(plain["embedding"])
        for acts in (("Tanh",), ("ReLU", "Identity"), ("GELU", "Sigmoid", "SiLU")):
            vector, n, names = plain["embedding"], d, ["1_Pooling"]
            for i, act in enumerate(acts, start=2):
                vector = write_layer(model / f"{i}_Dense", n, 9 * i, act, bias=i % 2 == 0)(vector)
                n = 9 * i
                names.append(f"{i}_Dense")
            for normalise in (False, True):
                got = self.json("embed", "-m", self.with_modules(*names, *(["9_Normalize"] if normalise else [])), TEXTS[0])
                length = math.sqrt(math.fsum(x * x for x in vector)) if normalise else 1
                self.assertEqual((got["dense"], got["normalised"]), ([9 * i for i in range(2, 2 + len(acts))], normalise))
                for a, b in zip(got["texts"][0]["embedding"], vector, strict=True):
                    self.assertAlmostEqual(a, b / length, delta=1e-6)
        bare = self.json("embed", "-m", model, "--no-dense", "--normalise", "no", TEXTS[0])
        self.assertEqual((bare["texts"], bare["dense"]), ([plain], []))
        self.good("embed", "-m", model, *TEXTS, "-o", self.folder / "e.safetensors")
        self.assertEqual(read_safetensors(self.folder / "e.safetensors")["embeddings"].shape, [4, n])
        alone = "".join(self.good("embed", "-m", model, text) for text in TEXTS)
        self.assertEqual(self.good("embed", "-m", model, *TEXTS, "-t", "3"), alone)

    def test_bad_dense(self):
        model = self.with_modules("1_Pooling", "2_Dense")
        embed, layer = ("embed", "-m", model, "x"), model / "2_Dense"
        self.bad(1, *embed, says=["2_Dense/config.json", "no such file"])
        write_layer(layer, 64, 8, "Tanh")
        self.bad(1, *embed, says=["takes 64 numbers, a vector has 128"])
        for changes, says in (({"activation_function": "torch.nn.modules.activation.Mish"}, "Mish"), ({"out_features": 9}, "another shape"),
                              ({"in_features": None}, "in_features"), ({"in_features": 1 << 40}, "in_features"),
                              ({"module_input_name": "token_embeddings"}, "token_embeddings"), ({"activation_function": 3}, "activation_function")):
            write_layer(layer, 128, 8, "Tanh", **changes)
            self.bad(1, *embed, says=[says])
        write_layer(layer, 128, 8, "Tanh", bias=False)
        config = json.loads((layer / "config.json").read_text())
        (layer / "config.json").write_text(json.dumps({**config, "bias": True}))
        self.bad(1, *embed, says=["linear.bias is missing"])
        (layer / "model.safetensors").rename(layer / "pytorch_model.bin")
        self.bad(1, *embed, says=["pytorch_model.bin"])
        self.with_modules("2_Dense", "1_Pooling")
        self.bad(1, *embed, says=["behind the pooling"])
        self.with_modules("1_Pooling", "1_Pooling")
        self.bad(1, *embed, says=["second pooling"])
        self.with_modules("1_Pooling", *["2_Dense"] * 9)
        write_layer(layer, 128, 128, "Tanh")
        self.bad(1, *embed, says=["more than 8 layers"])

    def test_pairs(self):
        arguments = self.good("embed", "-m", STORIES, "--pooling", "mean", "--pairs", *TEXTS)
        self.assertEqual(len(arguments.splitlines()), 2)
        path = self.folder / "pairs"
        path.write_text(f"{TEXTS[0]}\t{TEXTS[1]}\n{TEXTS[2]}\t{TEXTS[3]}\r\n" * 40)
        self.assertEqual(self.good("embed", "-m", STORIES, "--pooling", "mean", "--pairs", "-f", path), arguments * 40)
        data = self.json("embed", "-m", STORIES, "--pairs", *TEXTS[:2])["texts"]
        self.assertEqual([(one["text"], one["pair"]["text"]) for one in data], [tuple(TEXTS[:2])])
        self.bad(2, "embed", "-m", STORIES, "--pairs", "x", says=["two by two"])
        self.bad(1, "embed", "-m", STORIES, "--pairs", "-n", "3", *TEXTS[:2], says=["pair 1: ", "not cut"])
        for line in ("no tab", "a\tb\tc"):
            path.write_text(f"a\tb\n{line}\n")
            self.bad(1, "embed", "-m", STORIES, "--pairs", "-f", path, says=["line 2", "one tab"])

    def variant(self, **changes):
        """TINY with another configuration."""
        model = self.folder / "-".join(changes)
        model.mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            (model / name).symlink_to(TINY / name)
        config = json.loads((TINY / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, **changes}))
        return model

    def sentence_transformers(self, name, inner="", texts=None, prompts=None):
        """TINY as such a folder: mean, normalised; the checkpoint in `inner`."""
        model = self.folder / name
        (model / inner).mkdir(parents=True)
        (model / "1_Pooling").mkdir()
        for file in ("model.safetensors", "tokenizer.json", "config.json"):
            (model / inner / file).symlink_to(TINY / file)
        types = (("Transformer", inner), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
        (model / "modules.json").write_text(json.dumps([
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(types)]))
        (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        if texts:
            (model / inner / "sentence_bert_config.json").write_text(json.dumps(texts))
        if prompts:
            (model / "config_sentence_transformers.json").write_text(json.dumps(prompts))
        return model

    def test_older_folders(self):
        """The checkpoint lies in a folder below that of modules.json, which counts all the same."""
        want = self.good("embed", "-m", TINY, "--pooling", "mean", "--normalise", "yes", TEXTS[0])
        for name, inner in (("new", ""), ("old", "0_Transformer")):
            data = self.json("embed", "-m", self.sentence_transformers(name, inner), TEXTS[0])
            self.assertEqual((data["pooling"], data["normalised"]), ("mean", True))
            self.assertEqual(self.good("embed", "-m", self.folder / name, TEXTS[0]), want)

    def test_what_is_done_to_texts(self):
        long = "a " * 600
        for most, n in ((8, 8), (512, 512), (1000, 512)):
            model = self.sentence_transformers(f"cut{most}", texts={"max_seq_length": most, "do_lower_case": False})
            self.assertEqual(self.json("embed", "-m", model, long)["texts"][0]["n_tokens"], n)
        small = self.sentence_transformers("small", "0_Transformer", texts={"do_lower_case": True})
        prompted = self.sentence_transformers("prompted", prompts={"prompts": {"q": "query: "}, "default_prompt_name": "q"})
        for model, says in ((small, "do_lower_case"), (prompted, "default_prompt_name")):
            self.bad(1, "embed", "-m", model, "x", says=[says])
            self.good("embed", "-m", model, "--pooling", "mean", "--normalise", "yes", "x")
        silent = self.sentence_transformers("silent", prompts={"prompts": {"q": "query: "}, "default_prompt_name": None})
        self.good("embed", "-m", silent, "x")

    def test_both_ways(self):
        """A decoder with is_causal false sees what comes later; it writes nothing on."""
        model, path = self.variant(is_causal=False), self.folder / "p.safetensors"
        self.good("run", "-m", model, "--ids", "1,20,30", "--sites", "pattern", "-o", path)
        pattern = read_safetensors(path)["pattern.0"]
        for query in range(3):
            row = pattern.row(0, query)
            self.assertGreater(min(row), 0)
            self.assertAlmostEqual(math.fsum(row), 1, delta=1e-6)
        self.assertEqual(self.json("embed", "-m", model, "x")["pooling"], "mean")
        self.bad(1, "generate", "-m", model, "x", says=["not causal"])
        gguf, back = self.folder / "both.gguf", self.folder / "back"
        for source, target in ((model, gguf), (gguf, back)):
            self.good("convert", "-m", source, "-o", target)
            self.good("run", "-m", target, "--ids", "1,20,30", "--sites", "pattern", "-o", path)
            self.assertEqual(read_safetensors(path)["pattern.0"].numbers, pattern.numbers)
        other = self.variant(model_type="mistral", sliding_window=4, is_causal=False)
        self.bad(1, "embed", "-m", other, "x", says=["is_causal", "sliding window"])

    def test_limits(self):
        for words, says in (([], "no text"), (["x", "-f", "y"], "one of the two"), (["x", "-o", "a.txt"], ".npy"), (["x", "--pooling", "max"], "mean|cls|last"),
                            (["x", "--json", "-o", "a.npy"], "one of the two")):
            self.bad(2, "embed", "-m", STORIES, *words, says=[says])
        self.bad(1, "embed", "-m", STORIES, "a " * 600, says=["text 1: ", "512", "--max-tokens"])
        self.assertEqual(self.json("embed", "-m", STORIES, "a " * 600, "--max-tokens", "512")["texts"][0]["n_tokens"], 512)
        self.bad(1, "embed", "-m", STORIES, "--max-tokens", "513", "x", says=["513"])
        self.bad(1, "embed", "-m", STORIES, "--no-special", "a", "", says=["text 2: a text that is empty"])
        path = self.folder / "lines.txt"
        path.write_text("a\n\nb\n")
        self.bad(1, "embed", "-m", STORIES, "--no-special", "--file", path, says=[f"{path}: line 2: a text that is empty"])
        self.bad(1, "embed", "-m", SORT, "x", says=["no tokenizer"])


if __name__ == "__main__":
    main("models/stories260K", "models/tinystories-656k", "models/gpt-nano-sort")
