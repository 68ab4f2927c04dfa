"""headscope info against what the checkpoints' own files say, read here by the formats' definitions."""

import json
import math
import struct

from program import DATA, ProgramTest, main

MODELS = DATA / "models"
SORT = MODELS / "gpt-nano-sort"


def header(path):
    blob = path.read_bytes()
    (n,) = struct.unpack_from("<Q", blob)
    return {k: v for k, v in json.loads(blob[8 : 8 + n]).items() if k != "__metadata__"}


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
        self.assertEqual(said["tokenizer"], {"n_tokens": 2048})
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
        self.assertEqual(len(with_tensors.splitlines()), len(text.splitlines()) + 41)

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
