"""headscope run: what lands in the file, its names and shapes, packed texts, and that nothing half-written stays."""

import json
import math
import os
import subprocess
import unittest

from program import DATA, PROGRAM, ProgramTest, environment, main, read_npz, read_safetensors

SORT = DATA / "models" / "gpt-nano-sort"  # 3 layers, 3 heads, width 48, context 11, vocabulary 3, no tokenizer
STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
IDS = [0, 0, 2, 1, 0, 1]


class Run(ProgramTest):
    def save(self, *words, name="out.safetensors", model=SORT):
        path = self.folder / name
        self.good("run", "-m", model, *words, "-o", path)
        return read_npz(path) if name.endswith("npz") else read_safetensors(path)

    def sort(self, sites, *words, **more):
        return self.save("--ids", ",".join(map(str, IDS)), "--sites", sites, *words, **more)

    def test_names_and_shapes(self):
        got = self.sort("pattern,resid_post,logits")
        want = {"ids": [6], "logits": [6, 3]}
        want.update({f"pattern.{i}": [3, 6, 6] for i in range(3)})
        want.update({f"resid_post.{i}": [6, 48] for i in range(3)})
        self.assertEqual({name: a.shape for name, a in got.items()}, want)
        self.assertEqual(got["ids"].numbers.tolist(), IDS)
        self.assertEqual(got["ids"].numbers.typecode, "i")
        for layer in range(3):
            for head in range(3):
                for query in range(6):
                    row = got[f"pattern.{layer}"].row(head, query)
                    self.assertAlmostEqual(math.fsum(row), 1, delta=1e-6)
                    self.assertEqual(list(row[query + 1 :]), [0] * (5 - query))

    def test_every_site(self):
        text = self.good("run", "--sites", "help")
        names = [line.split()[0].removesuffix(".L") for line in text.splitlines() if line.startswith("  ")]
        self.assertEqual(len(names), 22)
        absent = {"rot_q", "rot_k", "mlp_up"}
        got = self.sort(",".join(name for name in names if name not in absent), "--layers", "L1")
        self.assertEqual({name.split(".")[0] for name in got}, set(names) - absent | {"ids"})
        shapes = {"q": [6, 3, 16], "z": [6, 3, 16], "mlp_pre": [6, 192], "attn_scores": [3, 6, 6]}
        for name, shape in shapes.items():
            self.assertEqual(got[f"{name}.1"].shape, shape)
        for name in absent:
            self.bad(1, "run", "-m", SORT, "--ids", "1", "--sites", name, "-o", self.folder / "x.npz", says=[name])

    def test_layers(self):
        names = set(self.sort("pattern,embed", "--layers", "L0,3"))
        self.assertEqual(names, {"ids", "embed", "pattern.0", "pattern.2"})
        self.assertEqual(set(self.sort("pattern", "--layers", "2-3")), {"ids", "pattern.1", "pattern.2"})
        self.bad(1, "run", "-m", SORT, "--ids", "1", "--sites", "pattern", "--layers", "L1-L3", "-o", "x.npz",
                 says=["no layer 4 (L3)", "3 layers"])

    def test_npz_holds_the_same(self):
        one, other = self.sort("pattern,logits"), self.sort("pattern,logits", name="out.npz")
        self.assertEqual(set(one), set(other))
        for name in one:
            self.assertEqual(one[name].shape, other[name].shape)
            self.assertEqual(one[name].numbers.tobytes(), other[name].numbers.tobytes())

    def test_threads_change_nothing(self):
        files = []
        for threads in ("1", "2", "7"):
            path = self.folder / f"{threads}.safetensors"
            self.good("run", "-m", STORIES, "--text", "Once upon a time", "--sites", "pattern,logits", "-t", threads, "-o", path)
            files.append(path.read_bytes())
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])

    def test_packed_texts(self):
        lines = ["Once upon a time", "Tom had a ball.", "x"]
        path = self.folder / "texts"
        path.write_text("\n".join(lines) + "\n")
        packed = self.save("--file", path, "--sites", "pattern,resid_post,logits", model=STORIES)
        names = set()
        for i, line in enumerate(lines):
            alone = self.save("--text", line, "--sites", "pattern,resid_post,logits", model=STORIES)
            for name, a in alone.items():
                names.add(f"{name}.seq{i}")
                self.assertEqual(packed[f"{name}.seq{i}"].shape, a.shape, name)
                self.assertEqual(packed[f"{name}.seq{i}"].numbers.tobytes(), a.numbers.tobytes(), (line, name))
        self.assertEqual(set(packed), names)
        path.write_bytes("\r\n".join(lines).encode())
        again = self.save("--file", path, "--sites", "logits", model=STORIES)
        self.assertEqual(again["logits.seq2"].numbers.tobytes(), packed["logits.seq2"].numbers.tobytes())

    def test_one_line_is_one_text(self):
        path = self.folder / "text"
        path.write_text("Once upon\n")
        self.assertEqual(set(self.save("--file", path, "--sites", "logits", model=STORIES)), {"ids", "logits"})
        done = self.run_program("run", "-m", STORIES, "--file", "-", "--sites", "logits", "-o", self.folder / "in.npz",
                                input=b"Once upon")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(read_npz(self.folder / "in.npz")["ids"].numbers.tolist()[0], 1)

    def test_summary(self):
        path = self.folder / "out.npz"
        words = ["run", "-m", SORT, "--ids", "0,1,2", "--sites", "pattern,logits", "--layers", "L0", "-o", path]
        self.assertEqual(self.good(*words).splitlines(),
                         [f"{path}: 3 arrays of 1 text, 3 tokens (compute f32)", "  ids                   I32 [3]",
                          "  pattern.0             F32 [3][3][3]", "  logits                F32 [3][3]"])
        said = self.json(*words)
        self.assertEqual(said["arrays"], [{"name": "ids", "dtype": "I32", "shape": [3]},
                                          {"name": "pattern.0", "dtype": "F32", "shape": [3, 3, 3]},
                                          {"name": "logits", "dtype": "F32", "shape": [3, 3]}])
        self.assertEqual((said["compute"], said["output"], said["n_tokens"]), ("f32", str(path), [3]))
        self.assertEqual(said["model"], {"name": "gpt-nano-sort", "arch": "gpt2", "n_layers": 3, "n_heads": 3})

    def refused(self, *words, says, status=1):
        before = sorted(self.folder.iterdir())
        self.bad(status, "run", *words, "-o", self.folder / "refused.npz", says=says)
        self.assertEqual(sorted(self.folder.iterdir()), before)  # nothing new, no half-written neighbour

    def test_refusals(self):
        sites = ["--sites", "logits"]
        self.refused("-m", SORT, "--ids", "1,3", *sites, says=["3"])
        self.refused("-m", SORT, "--ids", ",".join("0" * 12), *sites, says=["11", "12"])
        self.refused("-m", SORT, "--text", "abc", *sites, says=["--ids"])
        self.refused("-m", STORIES, "--text", "", "--no-special", *sites, says=["empty"])
        text = self.folder / "text"
        text.write_text("one\n\nthree\n")
        self.refused("-m", STORIES, "--file", text, "--no-special", *sites, says=["line 2", "empty"])
        text.write_text("")
        self.refused("-m", STORIES, "--file", text, *sites, says=["no text"])
        self.refused("-m", STORIES, "--file", self.folder / "none", *sites, says=["none", "No such file"])

    def test_output_that_cannot_be_written(self):
        words = ["run", "-m", SORT, "--ids", "0,1", "--sites", "logits", "-o"]
        self.bad(1, *words, self.folder / "no" / "out.npz", says=["out.npz", "No such file"])
        (self.folder / "dir.npz").mkdir()
        self.bad(1, *words, self.folder / "dir.npz", says=["dir.npz"])
        if os.path.exists("/dev/full"):
            (self.folder / "full.npz").symlink_to("/dev/full")
            self.bad(1, *words, self.folder / "full.npz", says=["full", "No space left on device"])

    def test_an_old_file_is_replaced_whole(self):
        path = self.folder / "out.safetensors"
        path.write_bytes(b"old")
        os.chmod(path, 0o640)
        self.sort("logits")
        self.assertIn("logits", read_safetensors(path))
        self.assertEqual(os.listdir(self.folder), ["out.safetensors"])

    def test_full_standard_output(self):
        """The arrays are written, the summary is not: an error."""
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, "run", "-m", SORT, "--ids", "0", "--sites", "logits", "-o",
                                       self.folder / "out.npz"], stdout=full, stderr=subprocess.PIPE, env=environment())
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"standard output", done.stderr)

    def test_closed_streams(self):
        """A file that is opened must not take the number of a closed stream, else messages would land in it."""
        want = self.folder / "want.npz"
        words = ["run", "-m", SORT, "--ids", "0,1", "--sites", "logits", "-o"]
        self.good(*words, want)
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            path = self.folder / "closed.npz"
            done = subprocess.run(["bash", "-c", f'"$0" "$@" {closed}', PROGRAM, *map(str, words), path],
                                  capture_output=True, env=environment())
            self.assertEqual(done.returncode, 1 if ">&- " in closed + " " and closed != "2>&-" else 0, closed)
            self.assertEqual(path.read_bytes(), want.read_bytes(), closed)

    def test_names_of_files_in_json(self):
        """A name that is not UTF-8 is still valid JSON."""
        name = os.fsdecode(b"\xff.npz")
        done = self.run_program("run", "-m", SORT, "--ids", "0", "--sites", "logits", "-o", self.folder / name, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["output"].endswith("\ufffd.npz"))


if __name__ == "__main__":
    main("models/gpt-nano-sort", "models/stories260K")
