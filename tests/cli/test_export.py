"""headscope export: rows and index are those of single runs, packs change nothing, and what is refused."""

import os
import resource
import signal
import subprocess
import time
import zipfile
import unittest

from program import (DATA, PATIENCE, PROGRAM, ProgramTest, catches_interrupt, environment, main, read_npz, sanitized,
                     wait_for)

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, width 64, context 512
LINES = ["Once upon a time there was a dog.", "", "Lily ran.", "Tom had a big red ball and a cat."] + ["The end."] * 70


class Export(ProgramTest):
    def setUp(self):
        super().setUp()
        self.corpus, self.out = self.folder / "corpus.txt", self.folder / "out.npz"
        self.corpus.write_text("\n".join(LINES) + "\n")

    def export(self, *words):
        got = self.json("export", "-m", STORIES, self.corpus, "-o", self.out, *words)
        with zipfile.ZipFile(self.out) as archive:
            self.assertIsNone(archive.testzip())  # the check sums
        return got, read_npz(self.out)

    def run_line(self, line, sites):
        path = self.folder / "one.npz"
        self.good("run", "-m", STORIES, "--text", line, "--sites", sites, "-o", path)
        return read_npz(path)

    def test_every_row(self):
        got, arrays = self.export()
        self.assertEqual(set(arrays), {f"resid_post.{i}" for i in range(5)} | {"text", "position", "token"})
        self.assertEqual((got["n_texts"], got["n_rows"], got["n_cut"]), (73, len(arrays["text"].numbers), 0))
        at = 0
        for number in (0, 2, 3, 4, 73):
            one = self.run_line(LINES[number], "resid_post")
            at = arrays["text"].numbers.index(number)
            n = one["ids"].shape[0]
            self.assertEqual(list(arrays["token"].numbers[at : at + n]), list(one["ids"].numbers))
            self.assertEqual(list(arrays["position"].numbers[at : at + n]), list(range(n)))
            for layer in range(5):  # to the bit
                rows = arrays[f"resid_post.{layer}"].numbers[at * 64 : (at + n) * 64]
                self.assertEqual(rows.tobytes(), one[f"resid_post.{layer}"].numbers.tobytes())

    def test_last_and_mean(self):
        one = self.run_line(LINES[0], "resid_post,ln_final")
        n = one["ids"].shape[0]
        got, arrays = self.export("--rows", "last", "--layer", "L2")
        self.assertEqual((got["n_rows"], set(arrays)), (73, {"resid_post.2", "text", "position", "token"}))
        self.assertEqual(list(arrays["resid_post.2"].row(0)), list(one["resid_post.2"].row(n - 1)))
        self.assertEqual(arrays["position"].numbers[0], n - 1)
        _, arrays = self.export("--rows", "mean", "--site", "ln_final")
        self.assertEqual(arrays["ln_final"].shape, [73, 64])
        for i, value in enumerate(arrays["ln_final"].row(0)):
            want = sum(one["ln_final"].row(pos)[i] for pos in range(1, n)) / (n - 1)
            self.assertAlmostEqual(value, want, delta=1e-5)
        self.assertEqual((arrays["position"].numbers[0], arrays["token"].numbers[0]), (-1, -1))

    def test_npy(self):
        path = self.folder / "out.npy"
        text = self.good("export", "-m", STORIES, self.corpus, "-o", path, "--layer", "L1", "--rows", "last")
        self.assertIn("73 rows of resid_post over 73 texts", text)
        blob = path.read_bytes()
        self.assertTrue(blob.startswith(b"\x93NUMPY"))
        self.assertIn(b"'shape': (73, 64)", blob[:128])
        self.assertEqual(len(blob) % 64, 0)
        self.bad(1, "export", "-m", STORIES, self.corpus, "-o", path, says=["a .npy file holds one array"])

    def test_long_text(self):
        self.corpus.write_text("a " * 600 + "\n")
        got, _ = self.export("--layer", "L0")
        self.assertEqual((got["n_cut"], got["n_rows"]), (1, 512))

    def test_maps(self):
        """Patterns of every text end to end, their shapes beside them: to the bit those of single runs."""
        for rows, site in (("all", "pattern"), ("last", "attn_scores")):
            got, arrays = self.export("--site", site, "--rows", rows)
            self.assertEqual(set(arrays), {f"{site}.{i}" for i in range(5)} | {"text", "shape", "token"})
            self.assertEqual(list(arrays["text"].numbers), [i for i, line in enumerate(LINES) if line])
            at = token = n_rows = 0
            for i, number in enumerate(arrays["text"].numbers):
                heads, n_query, n_key = arrays["shape"].row(i)
                self.assertEqual((heads, n_query), (8, n_key if rows == "all" else 1))
                if number in (0, 2, 3, 4, 73):
                    one = self.run_line(LINES[number], site)
                    self.assertEqual(list(arrays["token"].numbers[token : token + n_key]), list(one["ids"].numbers))
                    for layer in range(5):
                        whole = one[f"{site}.{layer}"]
                        self.assertEqual(whole.shape, [8, n_key, n_key])
                        want = [x for head in range(8) for query in range(n_key - n_query, n_key)
                                for x in whole.row(head, query)]
                        self.assertEqual(list(arrays[f"{site}.{layer}"].numbers[at : at + len(want)]), want)
                at, token, n_rows = at + heads * n_query * n_key, token + n_key, n_rows + n_query
            self.assertEqual((got["n_rows"], arrays[f"{site}.0"].shape, arrays["token"].shape), (n_rows, [at], [token]))

    def test_stopped(self):
        """Ctrl-C ends it while the corpus is read and while rows are written; nothing stays."""
        self.corpus.write_text((LINES[0] * 8 + "\n") * 60000)
        before = sorted(os.listdir(self.folder))
        for writing in (False, True):
            words = [PROGRAM, "export", "-m", STORIES, self.corpus, "-o", self.out]
            process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            self.assertTrue(wait_for(lambda: catches_interrupt(process)))
            while writing and process.poll() is None and sorted(os.listdir(self.folder)) == before:
                time.sleep(0.002)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=100 * PATIENCE)
            self.assertEqual(process.returncode, 130)
            self.assertLess(time.monotonic() - start, 5 * PATIENCE)
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    @unittest.skipIf(sanitized(), "gigabytes under a sanitizer")
    def test_a_line_that_never_ends(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        self.bad(1, "export", "-m", STORIES, "/dev/zero", "-o", self.out, says=["/dev/zero", f"more than {1 << 30} bytes"],
                 preexec_fn=limit)

    def test_refused(self):
        words = ("export", "-m", STORIES, self.corpus)
        self.bad(2, *words, says=["-o FILE"])
        self.bad(2, *words, "-o", "a.txt", says=[".npz or .npy"])
        self.bad(2, *words, "-o", self.out, "--site", "nothing", says=["'nothing'"])
        self.bad(1, *words, "-o", self.out, "--site", "pattern", "--rows", "mean", says=["no mean"])
        self.bad(1, *words, "-o", self.folder / "a.npy", "--site", "pattern", "--layer", "L0", says=["an .npz holds the shapes"])
        self.bad(1, *words, "-o", self.out, "--layer", "L9", says=["layer"])
        self.bad(1, "export", "-m", STORIES, self.folder / "none.txt", "-o", self.out, says=["none.txt"])
        self.corpus.write_text("\n\n")
        self.bad(1, *words, "-o", self.out, says=["no texts"])
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    main("models/stories260K")
