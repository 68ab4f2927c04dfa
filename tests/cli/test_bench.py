"""headscope bench: which tests it runs and how it names them, its two forms of output, memory, and what it refuses.

Times differ from run to run, so only relations between them are tested.
"""

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import unittest

from program import DATA, PATIENCE, PROGRAM, SOURCE, ProgramTest, environment, main, sanitized

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

SORT = DATA / "models" / "gpt-nano-sort"  # context 11, no tokenizer
STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads, context 512
KEYS = ["model", "dtype", "compute", "test", "depth", "threads", "capture", "tok_per_s", "peak_rss_mb"]


class Tests(ProgramTest):
    def bench(self, *words):
        return self.json("bench", *words)

    def named(self, *words):
        return [(row["test"], row["depth"], row["threads"], row["capture"]) for row in self.bench(*words)]

    def test_one_object_a_test(self):
        rows = self.bench("-m", SORT, "-p", "5", "-n", "4", "-r", "3", "-t", "1")
        self.assertEqual([list(row) for row in rows], [KEYS, KEYS])
        for row, test in zip(rows, ("pp5", "tg4")):
            self.assertEqual((row["model"], row["dtype"], row["compute"], row["test"], row["depth"], row["threads"],
                              row["capture"]), ("gpt-nano-sort", "F32", "f32", test, 0, 1, "none"))
            rate = row["tok_per_s"]
            self.assertEqual(set(rate), {"median", "min", "max"})
            self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"], rate)
            self.assertGreater(row["peak_rss_mb"], 0)

    def test_lists_multiply(self):
        got = self.named("-m", SORT, "-p", "2,3", "-n", "1", "-d", "0,4", "-t", "1,2", "-r", "1", "--capture", "patterns,none")
        want = [(test, depth, threads, capture) for threads in (1, 2) for capture in ("none", "patterns")
                for depth in (0, 4) for test in ("pp2", "pp3", "tg1")]
        self.assertEqual(got, want)

    def test_ranges(self):
        for words, want in ((("-p", "1-3", "-n", "0"), ["pp1", "pp2", "pp3"]), (("-p", "1-8+3,2", "-n", "0"), ["pp1", "pp4", "pp7", "pp2"]),
                            (("-p", "2-8*2", "-n", "0"), ["pp2", "pp4", "pp8"]), (("-p", "0", "-n", "2-2"), ["tg2"])):
            self.assertEqual([test for test, *_ in self.named("-m", SORT, *words, "-t", "1", "-r", "1")], want)
        self.assertEqual([depth for _, depth, *_ in self.named("-m", SORT, "-p", "2", "-n", "0", "-d", "0-8+4", "-r", "1")], [0, 4, 8])

    def test_prompt_and_generation(self):
        for spelling in ("-pg", "--pg"):
            rows = self.named("-m", SORT, "-p", "2", "-n", "3", spelling, "5,4", "-d", "0,2", "-t", "1", "-r", "1")
            self.assertEqual(rows, [(test, depth, 1, "none") for depth in (0, 2) for test in ("pp2", "tg3", "pp5+tg4")])
        (row,) = self.bench("-m", SORT, "-p", "0", "-n", "0", "-pg", "5,6", "-r", "1")
        self.assertEqual(list(row), KEYS)
        self.bad(1, "bench", "-m", SORT, "-p", "1", "-n", "1", "-pg", "6,6", says=["needs 12 tokens", "is 11"])

    def test_repeated_options_add_up(self):
        """As in llama-bench: every list of an option counts, in the order in which they are given."""
        got = self.named("-m", SORT, "-p", "3", "-p", "2,1", "-n", "1", "-n", "2", "-d", "0", "-d", "4", "-t", "2", "-t", "1",
                         "-pg", "2,1", "-pg", "1,2", "-r", "1", "-c", "patterns", "-c", "none")
        tests = ("pp3", "pp2", "pp1", "tg1", "tg2", "pp2+tg1", "pp1+tg2")
        self.assertEqual(got, [(test, depth, threads, capture) for threads in (2, 1) for capture in ("none", "patterns")
                               for depth in (0, 4) for test in tests])
        self.bad(2, "bench", "-m", SORT, "-p", "2", "-p", "x", says=["--prompt", "'x'"])
        self.bad(1, "bench", "-m", SORT, "-p", "2", "-p", "12", "-p", "3", "-n", "0", says=["needs 12 tokens"])
        self.bad(1, "bench", "-m", SORT, "-p", "0", "-n", "0", "-pg", "6,6", "-pg", "1,1", says=["needs 12 tokens"])

    @unittest.skipUnless(sys.platform == "linux" and not sanitized(), "limits of memory are of Linux, without sanitizers")
    def test_a_failure_is_not_under_a_table(self):
        """No room for what a test keeps: the error alone, and no head of a table without rows."""
        config, tensors = toys.llama(n_positions=40000)
        model = toys.write_folder(self.folder / "model", config, tensors)
        room = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        self.bad(1, "bench", "-m", model, "-p", "40000", "-n", "0", "-r", "1", "-t", "1", "-c", "patterns", preexec_fn=room,
                 says=["memory"])

    def test_zero_leaves_a_kind_out(self):
        self.assertEqual(self.named("-m", SORT, "-p", "3", "-n", "0", "-t", "1", "-r", "1"), [("pp3", 0, 1, "none")])
        self.assertEqual(self.named("-m", SORT, "-p", "0", "-n", "3", "-t", "1", "-r", "1"), [("tg3", 0, 1, "none")])

    def test_defaults(self):
        rows = self.bench("-m", STORIES, "-n", "8", "-r", "1")
        self.assertEqual([row["test"] for row in rows], ["pp512", "tg8"])
        self.assertEqual(self.named("-m", STORIES, "-p", "8", "-r", "1", "-t", "1")[1], ("tg128", 0, 1, "none"))
        with_all = self.named("-m", SORT, "-p", "2", "-n", "0", "-c", "stats,none,patterns", "-t", "1")
        self.assertEqual([capture for *_, capture in with_all], ["none", "stats", "patterns"])

    def test_type_of_most_weights(self):
        models = DATA / "models"
        for path, dtype in ((STORIES, "F32"), (STORIES.parent / "stories260K.q8_0.gguf", "Q8_0"),
                            (models / "tinystories-656k" / "tinystories-656k.f16.gguf", "F16")):
            (row,) = self.bench("-m", path, "-p", "4", "-n", "0", "-r", "1")
            self.assertEqual(row["dtype"], dtype)

    def test_compute_kind(self):
        for kind in ("f32", "bf16"):
            (row,) = self.bench("-m", STORIES, "-p", "4", "-n", "0", "-r", "1", "--compute", kind)
            self.assertEqual(row["compute"], kind)

    def test_the_fastest_kind_is_the_default(self):
        for path, kind in ((STORIES, "f32"), (STORIES.parent / "stories260K.q8_0.gguf", "q8"),
                           (DATA / "models" / "tinystories-656k" / "tinystories-656k.f16.gguf", "bf16")):
            for words in ((), ("--compute", "auto")):
                (row,) = self.bench("-m", path, "-p", "4", "-n", "0", "-r", "1", *words)
                self.assertEqual(row["compute"], kind)

    def test_rows_of_logits(self):
        for rows in ("none", "all"):
            prompt, made = self.bench("-m", SORT, "-p", "4", "-n", "2", "-r", "1", "--logits", rows)
            self.assertEqual(prompt["logits"], rows)
            self.assertNotIn("logits", made)  # a token cannot be chosen without
        (row,) = self.bench("-m", SORT, "-p", "4", "-n", "0", "-r", "1", "--logits", "last")
        self.assertNotIn("logits", row)

    def test_the_rate_is_that_of_the_clock(self):
        """More repetitions on one thread take as much more processor time as they are said to take; that other programs
        run meanwhile lengthens neither this nor the shortest of the repetitions."""
        def processor_seconds():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        for words, n, more in ((("-p", "64", "-n", "0"), 64, 400), (("-p", "0", "-n", "32"), 32, 200)):
            spent = []
            for repeats in (1, 1 + more):
                before = processor_seconds()
                (row,) = self.bench("-m", STORIES, *words, "-t", "1", "-r", repeats)
                spent.append(processor_seconds() - before)
            rate, took = row["tok_per_s"], spent[1] - spent[0]
            self.assertLess(more * n / rate["max"], 3 * took)
            self.assertGreater(more * n / rate["median"], took / 3)

    def test_the_whole_context(self):
        self.assertEqual(self.named("-m", SORT, "-p", "5", "-n", "5", "-d", "6", "-r", "2", "-t", "1", "--capture", "stats"),
                         [("pp5", 6, 1, "stats"), ("tg5", 6, 1, "stats")])
        for words in (("-p", "6", "-n", "5", "-d", "6"), ("-p", "0", "-n", "12"), ("-p", "4", "-n", "1", "-d", "0,8")):
            self.bad(1, "bench", "-m", SORT, *words, says=["needs 12 tokens", "is 11", "-p, -n and -d"])
        self.bad(1, "bench", "-m", SORT, says=["needs 512 tokens", "is 11"])

    def test_patterns_take_their_memory(self):
        """5 layers of 8 heads of 512 x 512 weights are 42 MB; their statistics are a fraction of it."""
        peaks = [self.bench("-m", STORIES, "-p", "512", "-n", "0", "-r", "1", "-c", what)[0]["peak_rss_mb"]
                 for what in ("none", "stats", "patterns")]
        weights = 5 * 8 * 512 * 512 * 4e-6
        self.assertGreater(peaks[2] - peaks[0], 0.9 * weights)
        self.assertGreater(peaks[2] - peaks[1], 0.4 * weights)

    @unittest.skipUnless(sys.platform == "linux" and not sanitized(), "the peak begins anew on Linux, without sanitizers")
    def test_a_test_does_not_inherit_a_peak(self):
        """A test's peak is the same alone as after a larger one, whether memory was that of sessions or of weights.

        Two runs of one test differ by a megabyte or two, by which pages the libraries happened to touch."""
        large, small = self.bench("-m", STORIES, "-p", "512,8", "-n", "0", "-r", "1", "-c", "patterns")
        self.assertLess(small["peak_rss_mb"], large["peak_rss_mb"] - 30)
        (alone,) = self.bench("-m", STORIES, "-p", "8", "-n", "0", "-r", "1", "-c", "patterns")
        self.assertAlmostEqual(small["peak_rss_mb"], alone["peak_rss_mb"], delta=4)


class Table(ProgramTest):
    def test_text(self):
        done = self.run_program("bench", "-m", SORT, "-p", "4", "-n", "3", "-d", "0,5", "-t", "1", "-r", "2", "-c", "patterns")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        model, head, *rows = done.stdout.decode().splitlines()
        self.assertEqual(model, "gpt-nano-sort, weights F32")
        for word in ("compute", "test", "threads", "capture", "tok/s", "peak MB"):
            self.assertIn(word, head)
        self.assertEqual([row.split()[0] for row in rows], ["pp4", "tg3", "pp4@d5", "tg3@d5"])
        for row in rows:
            self.assertEqual(row.split()[1:4], ["f32", "1", "patterns"])
            self.assertRegex(row, r"[\d.]+ \([\d.]+\.\.[\d.]+\)$")

    def test_a_row_comes_when_it_is_measured(self):
        """The first row can be read while the second, which takes long, still runs."""
        process = subprocess.Popen([PROGRAM, "bench", "-m", STORIES, "-p", "8", "-n", "511", "-r", "10000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        said = b""
        while b"\npp8 " not in said and select.select([process.stdout], [], [], 30 * PATIENCE)[0]:
            said += os.read(process.stdout.fileno(), 65536)
        self.assertIn(b"\npp8 ", said)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual((process.returncode, rest[0]), (130, b""))
        self.assertRegex(rest[1], rb"\A(headscope: stopped \(tg\d+[^\n]*\)\n)?\Z")

    def test_progress_on_a_terminal_alone(self):
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, "bench", "-m", SORT, "-p", "4", "-n", "0", "-r", "2"], stdout=subprocess.PIPE,
                                   stderr=slave, env=environment())
        os.close(slave)
        shown = b""
        process.wait(60 * PATIENCE)
        while select.select([master], [], [], 0.2)[0]:
            try:
                block = os.read(master, 65536)
            except OSError:  # the terminal's way to say that the other side has closed
                break
            shown += block
        os.close(master)
        table = process.stdout.read()
        process.stdout.close()
        self.assertIn(b"pp4: 2 of 2", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotIn(b" of ", table)

    def test_model_of_the_environment(self):
        text = self.good("bench", "-p", "2", "-n", "0", "-r", "1", env={"HEADSCOPE_MODEL": str(SORT)})
        self.assertIn("gpt-nano-sort", text)

    def test_full_standard_output(self):
        if os.path.exists("/dev/full"):
            for form in ([], ["--json"]):
                with open("/dev/full", "wb") as full:
                    done = subprocess.run([PROGRAM, "bench", "-m", SORT, "-p", "2", "-n", "0", "-r", "1", *form],
                                          stdout=full, stderr=subprocess.PIPE, env=environment())
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr)


class Tokenizer(ProgramTest):
    def test_json(self):
        path = self.folder / "text"
        path.write_text("Once upon a time there was a little girl. " * 50)
        (row,) = self.json("bench", "-m", STORIES, "--tokenize", path, "-r", "3")
        self.assertEqual(set(row), {"model", "test", "n_bytes", "n_tokens", "mb_per_s", "peak_rss_mb"})
        self.assertEqual((row["test"], row["n_bytes"]), ("tokenize", path.stat().st_size))
        ids = self.json("tokenize", "-m", STORIES, "--no-special", "--file", path)["ids"]
        self.assertEqual(row["n_tokens"], len(ids))
        rate = row["mb_per_s"]
        self.assertTrue(0 < rate["min"] <= rate["median"] <= rate["max"], rate)

    def test_text(self):
        path = self.folder / "text"
        path.write_text("Once upon a time")
        text = self.good("bench", "-m", STORIES, "--tokenize", path, "-r", "1")
        self.assertRegex(text, r": 16 bytes, \d+ tokens: [\d.]+ \([\d.]+\.\.[\d.]+\) MB/s, peak [\d.]+ MB\n$")

    def test_refusals(self):
        self.bad(1, "bench", "-m", STORIES, "--tokenize", self.folder / "none", says=["none", "No such file"])
        self.bad(1, "bench", "-m", SORT, "--tokenize", os.devnull, says=["tokenizer"])
        for words in (["-p", "4"], ["-n", "4"], ["-d", "4"], ["-t", "1"], ["-c", "none"], ["-pg", "1,1"]):
            self.bad(2, "bench", "-m", STORIES, "--tokenize", os.devnull, *words, says=["--tokenize", "alone"])


class Misuse(ProgramTest):
    def test_numbers(self):
        for option, words in (("prompt", ["-p", "4,x"]), ("prompt", ["-p", ""]), ("prompt", ["-p", "4-2"]),
                              ("prompt", ["-p", "2-8*1"]), ("prompt", ["-p", "0-8*2"]), ("prompt", ["-p", "0-8+0"]),
                              ("prompt", ["-p", "1-99999"]), ("prompt", ["-p", "1-"]), ("prompt", ["-p", "1-4+"]),
                              ("pg", ["-pg", "4"]), ("pg", ["-pg", "4,0"]), ("pg", ["-pg", "4,4,4"]), ("prompt", ["-p", "-1"]),
                              ("generate", ["-n", "1,,2"]), ("depth", ["-d", "1.5"]), ("depth", ["-d", "99999999999"]),
                              ("threads", ["-t", "0"]), ("threads", ["-t", "1025"]), ("repeat", ["-r", "0"]),
                              ("repeat", ["-r", "x"])):
            self.bad(2, "bench", "-m", SORT, *words, says=[f"--{option}", words[1], "bench --help"])

    def test_words(self):
        self.bad(2, "bench", "-m", SORT, "--capture", "none,all", says=["--capture", "none,all", "stats"])
        self.bad(2, "bench", "-m", SORT, "--capture", "", says=["--capture"])
        self.bad(2, "bench", "-m", SORT, "--logits", "some", says=["--logits", "some", "last|all|none"])
        self.bad(2, "bench", "-m", SORT, "-p", "0", "-n", "0,0", says=["no test is left"])
        self.bad(2, "bench", "-m", SORT, "text", says=["text"])
        self.bad(2, "bench", says=["no model"])
        self.bad(1, "bench", "-m", self.folder / "none", "-p", "1", says=["none"])


if __name__ == "__main__":
    main("models/gpt-nano-sort", "models/stories260K", "models/tinystories-656k")
