"""headscope info against what the checkpoints' own files say, read here by the formats' definitions."""

import json
import math
import random
import struct
import subprocess
import sys
import unittest
from unittest import mock

from program import DATA, PROGRAM, SOURCE, ProgramTest, environment, main, sanitized

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

MODELS = DATA / "models"
SORT = MODELS / "gpt-nano-sort"


def header(path):
    blob = path.read_bytes()
    (n,) = struct.unpack_from("<Q", blob)
    return {k: v for k, v in json.loads(blob[8 : 8 + n]).items() if k != "__metadata__"}


# Run by a small Python, since a process counts the memory of the one that started it until it is another program.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"""


class Tiled(toys.Random):
    """Large tensors at once: a thousand numbers over and over."""

    def normal(self, shape, spread=1.0, mean=0.0):
        n = math.prod(shape)
        few = [self.source.gauss(mean, spread) for _ in range(min(n, 1009))]
        return (shape, (few * (n // len(few) + 1))[:n])


class Forecast(ProgramTest):
    def test_parts(self):
        said = self.json("info", SORT, "--tokens", "11", "-t", "1")["memory"]
        self.assertEqual((said["n_tokens"], said["compute"]), (11, "f32"))
        self.assertEqual(said["patterns_bytes"], 3 * 3 * 11 * 11 * 4)
        n_bytes, table = self.json("info", SORT)["bytes"], 3 * 48 * 4
        self.assertTrue(n_bytes - table / 10 < said["weights_bytes"] <= n_bytes)  # the embedding is looked up by rows
        self.assertEqual(said["logits_bytes"], 3 * 4)
        self.assertEqual(said["peak_bytes"], sum(said[f"{part}_bytes"] for part in
                                                 ("program", "weights", "cache", "activations", "logits")))
        unread = said["peak_bytes"] - said["peak_without_logits_bytes"] - said["logits_bytes"]
        self.assertEqual(unread, table)  # the output matrix
        text = self.good("info", SORT, "--tokens", "11")
        for words in ("at the peak of a pass over 11 tokens (compute f32)\n", "  program  ", "  weights  ", "  cache  ",
                      "  activations ", "  logits  ", "for every pattern", "for all statistics"):
            self.assertIn(words, text)
        self.assertNotIn("at the peak", self.good("info", SORT))
        self.assertNotIn("memory", self.json("info", SORT))

    def test_kinds(self):
        q8_0 = MODELS / "tinystories-656k" / "tinystories-656k.q8_0.gguf"
        said = {kind: self.json("info", q8_0, "--tokens", "512", "-t", "1", *words)["memory"] for kind, words in
                (("plain", []), ("auto", ["--compute", "auto"]), ("f16", ["--cache", "f16"]), ("few", ["--window", "8"]))}
        self.assertEqual(said["auto"]["compute"], "q8")
        self.assertEqual((said["f16"]["cache"], said["few"]["window"]), ("f16", 8))
        self.assertEqual(said["f16"]["cache_bytes"] * 2, said["plain"]["cache_bytes"])

    def test_refusals(self):
        self.bad(1, "info", SORT, "--tokens", "12", says=["--tokens 12", "11"])
        self.bad(2, "info", SORT, "--tokens", "0", says=["--tokens"])
        for words in (["--compute", "q8"], ["--cache", "f16"], ["--window", "3"], ["-t", "2"]):
            self.bad(2, "info", SORT, *words, says=["--tokens N"])

    def check_peak(self, model, n, pass_words, vocabulary, runs):
        """A forecast and the peaks of real runs: within a tenth. `runs` are (words of run, which forecast, bytes kept).
        The tokens are from all over the table, every second one seen before."""
        said = self.json("info", model, "--tokens", n, "-t", "2", *pass_words)["memory"]
        draw = random.Random(n)
        new = [draw.randrange(vocabulary) for _ in range(-(-n // 2))]
        ids = ",".join(map(str, (new + new)[:n]))
        for words, which, kept in runs:
            foreseen = said[which] + (kept if isinstance(kept, int) else said[kept])
            peak = self.peak(model, ids, *pass_words, *words)
            self.assertTrue(0.9 * peak < foreseen < 1.1 * peak, (n, pass_words, words, peak, foreseen, said))
        return said

    def peak(self, model, ids, *words):
        done = subprocess.run([sys.executable, "-S", "-c", PEAK, PROGRAM, "run", "-m", model, "--ids", ids, "-t", "2", "-o",
                               self.folder / "out.safetensors", *words], capture_output=True, env=environment(), check=True)
        return int(done.stdout)

    @unittest.skipUnless(sys.platform == "linux" and not sanitized(), "peaks are of Linux, without sanitizers")
    def test_it_comes_true(self):
        """A checkpoint of 36 MB, and what the process of a real run holds at its peak: within a tenth."""
        with mock.patch.object(toys, "Random", Tiled):
            config, tensors = toys.llama(vocab_size=4096, n_positions=2048, d=512, n_heads=8, n_kv=8, inner=1536)
        model = toys.write_folder(self.folder / "model", config, tensors)
        for n in (12, 200, 1024, 2000):
            few, all_logits = "peak_without_logits_bytes", "peak_bytes"
            said = self.check_peak(model, n, [], 4096, ((["--sites", "ln_final"], few, n * 512 * 4),
                                                        (["--sites", "pattern"], few, "patterns_bytes"),
                                                        (["--stats"], few, "stats_bytes"),
                                                        (["--sites", "logits"], all_logits, n * 4096 * 4)))
            self.assertGreater(said["weights_bytes"], 30e6)

    @unittest.skipUnless(sys.platform == "linux" and not sanitized(), "peaks are of Linux, without sanitizers")
    def test_it_comes_true_of_converted_weights(self):
        """Most of the checkpoint is the tokens' table, tied to the output matrix or beside one of its own."""
        for tied in (True, False):
            with mock.patch.object(toys, "Random", Tiled):
                config, tensors = toys.llama(vocab_size=16384, n_positions=1024, d=512, n_heads=8, n_kv=8, inner=1536,
                                             n_layer=4, tie_word_embeddings=tied)
                if not tied:
                    tensors["lm_head.weight"] = Tiled(2).normal([16384, 512])
            model = toys.write_folder(self.folder / f"model{tied}", config, tensors)
            for dtype in ("file", "f32", "f16", "bf16", "q8_0"):
                for n in (12, 500):
                    self.check_peak(model, n, ["--dtype", dtype], 16384,
                                    ((["--sites", "ln_final"], "peak_without_logits_bytes", n * 512 * 4),
                                     (["--sites", "logits"], "peak_bytes", n * 16384 * 4)))


class Info(ProgramTest):
    def test_folder(self):
        entries = header(SORT / "model.safetensors")
        said = self.json("info", "-m", SORT, "--tensors")
        self.assertEqual(said["model"], {"name": "gpt-nano-sort", "arch": "gpt2", "n_layers": 3, "n_heads": 3})
        self.assertEqual(said["parameters"], sum(math.prod(e["shape"]) for e in entries.values()))
        self.assertEqual(said["bytes"], sum(e["data_offsets"][1] - e["data_offsets"][0] for e in entries.values()))
        self.assertEqual(said["types"], [{"type": "F32", "n_tensors": len(entries), "bytes": said["bytes"]}])
        self.assertEqual({t["name"]: (t["type"], t["shape"]) for t in said["tensors"]},
                         {name: (e["dtype"], e["shape"]) for name, e in entries.items()})
        self.assertEqual(said["cache_bytes_per_token"], 2 * 3 * 3 * 16 * 4)
        self.assertIsNone(said["tokenizer"])
        config = said["config"]
        self.assertEqual([config[k] for k in ("n_ctx", "d_model", "d_head", "d_mlp", "d_vocab", "n_kv_heads")],
                         [11, 48, 16, 192, 3, 3])
        self.assertEqual([config[k] for k in ("causal", "tied", "has_pos_embed", "is_rotary", "is_gated")],
                         [True, False, True, False, False])
        self.assertNotIn("tensors", self.json("info", SORT))

    def test_gguf(self):
        said = self.json("info", MODELS / "tinystories-656k" / "tinystories-656k.q8_0.gguf")
        config = said["config"]
        self.assertEqual([config[k] for k in ("n_layers", "n_heads", "n_kv_heads", "d_model", "d_vocab", "n_ctx")],
                         [2, 8, 4, 128, 2048, 512])
        self.assertEqual(said["tokenizer"], {
            "n_tokens": 2048, "model": "BPE by scores, unknown characters as bytes", "pre_tokenizer": None,
            "normalizer": "put in front ' ', replace ' ' by '\u2581'", "single": "<|start_story|> A",
            "pair": "<|start_story|> A <|start_story|> B", "special_tokens": [
                {"text": "<unk>", "id": 0}, {"text": "<|start_story|>", "id": 1}, {"text": "<|end_story|>", "id": 2}]})
        self.assertEqual({t["type"] for t in said["types"]}, {"Q8_0", "F32"})
        for t in said["types"]:
            if t["type"] == "Q8_0":
                self.assertEqual(t["bytes"] % 34, 0)
        self.assertEqual(sum(t["bytes"] for t in said["types"]), said["bytes"])

    def test_text(self):
        text = self.good("info", SORT)
        for line in ("gpt-nano-sort\n", "architecture  gpt2, causal\n", "layers        3\n",
                     "heads         3 a layer, 16 wide\n", "parameters    85,728\n",
                     "vocabulary    3, output of its own\n", "tensors       41\n"):
            self.assertIn(line, text)
        self.assertIn("tokenizer     none", text)
        self.assertNotIn("\033", text)
        with_tensors = self.good("info", SORT, "--tensors")
        self.assertTrue(with_tensors.startswith(text))
        self.assertEqual(len(with_tensors.splitlines()), len(text.splitlines()) + 2 + 41)  # a blank line and the heads

    def test_tokenizer(self):
        text = self.good("info", MODELS / "tinystories-656k")
        for line in ("tokenizer     BPE, unknown characters as bytes, 2048 tokens\n",
                     "  normalizer  put in front '\u2581', replace ' ' by '\u2581'\n", "  one text    <|start_story|> A\n",
                     "  special     <unk> 0, <|start_story|> 1, <|end_story|> 2\n"):
            self.assertIn(line, text)

    def test_environment_names_the_model(self):
        self.assertEqual(self.good("info", env={"HEADSCOPE_MODEL": str(SORT)}), self.good("info", "-m", SORT))

    def test_paths(self):
        """B57: blanks, other scripts, a slash at the end."""
        folder = self.folder / "мой модель" / "é 日本"
        folder.mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_bytes((SORT / name).read_bytes())
        for path in (folder, f"{folder}/", f"{folder}/."):
            self.assertEqual(self.json("info", path)["parameters"], 85728)
        self.assertEqual(self.json("info", folder)["model"]["name"], "é 日本")


if __name__ == "__main__":
    main("models/gpt-nano-sort", "models/tinystories-656k")
