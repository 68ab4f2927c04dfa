"""headscope run: what lands in the file, its names and shapes, packed texts, statistics, kinds of
passes, and that nothing half-written stays."""

import json
import math
import os
import re
import resource
import subprocess
import sys
import unittest

from program import DATA, PROGRAM, SOURCE, ProgramTest, environment, main, read_npz, read_safetensors, sanitized

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

SORT = DATA / "models" / "gpt-nano-sort"  # 3 layers, 3 heads, width 48, context 11, vocabulary 3, no tokenizer
ENTROPY = 1e-5  # nats; a logarithm in float32 is less exact than a sum
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
        names = [line.split()[0].removesuffix(".L") for line in text.splitlines() if re.match(r"  [a-z]\S* +\[", line)]
        self.assertEqual(len(names), 53)
        absent = {"rot_q", "rot_k", "mlp_up", "token_type_embed", "pooled", "ln_head"}
        absent |= {name for name in names if name.startswith(("enc_", "cross_"))}  # an encoder-decoder's
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

    def test_maps_that_outgrow_the_machine(self):
        """Said before the pass, which would keep 1.8 TB."""
        config, tensors = toys.llama(n_positions=1 << 20, d=64, n_heads=16, n_kv=16, n_layer=8)
        model = toys.write_folder(self.folder / "model", config, tensors)
        words = ["run", "-m", model, "-o", self.folder / "out.npz", "--ids", ",".join(["1"] * 60000), "--sites"]
        for site in ("pattern", "attn_scores"):
            self.bad(1, *words, site, says=["GiB", "--layers", "--stats"])

    @unittest.skipIf(sanitized(), "a sanitizer's own memory is above any limit")
    def test_text_that_has_no_end(self):
        """Memory runs out: an error, and not the reading of /dev/zero for ever."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

        model = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
        for words in (["tokenize"], ["run", "--sites", "z", "-o", self.folder / "a.npz"], ["look"]):
            self.bad(1, *words, "-m", model, "--file", "/dev/zero", says=["memory"], preexec_fn=limit)

    def test_an_empty_line_is_a_text(self):
        """It gives what the tokenizer adds by itself, and is refused by number where that is nothing."""
        path, out = self.folder / "lines", self.folder / "a.safetensors"
        path.write_text("a\n\nb\n")
        model = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
        words = ["run", "-m", model, "--file", path, "--sites", "z", "-o", out]
        self.good(*words)
        self.assertEqual(list(read_safetensors(out)["ids.seq1"].numbers), [1])  # BOS
        self.bad(1, *words, "--no-special", says=["line 2", "empty"])

    def test_a_lone_carriage_return_is_text(self):
        model = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
        lengths = []
        for text in (b"a", b"a\r\n", b"a\r"):
            (self.folder / "t.txt").write_bytes(text)
            done = self.good("run", "-m", model, "--file", self.folder / "t.txt", "--sites", "ln_final", "--json", "-o",
                             self.folder / "a.npz")
            lengths.append(json.loads(done))
        self.assertEqual(lengths[0], lengths[1])
        self.assertNotEqual(lengths[0], lengths[2])

    def test_past_the_context(self):
        ids = ",".join(["0"] * 12)
        self.bad(1, "run", "-m", SORT, "--ids", ids, "--sites", "logits", "-o", self.folder / "a.npz",
                 says=["12 tokens", "at most 11"])

    def test_file_size_limit(self):
        """As a full disk: an error, not the end by a signal that leaves half a file."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

        self.bad(1, "run", "-m", SORT, "--ids", "0,1,2", "--sites", "pattern,resid_post,logits", "-o",
                 self.folder / "out.npz", says=["out.npz", "File too large"], preexec_fn=limit)
        self.assertEqual(os.listdir(self.folder), [])

    def row_statistics(self, row, query):
        """By their definitions: {name: value or list} of one row of weights."""
        bins = [0.0] * max(1, (len(row) - 1).bit_length() + 1)
        for key, weight in enumerate(row):
            bins[abs(query - key).bit_length()] += weight
        order = sorted(range(query + 1), key=lambda key: (-row[key], key))
        return {"entropy": -math.fsum(w * math.log(w) for w in row if w > 0), "sink": row[0], "self": row[query],
                "prev": row[query - 1] if query else 0, "distance": bins, "topk_key": order,
                "topk_weight": [row[key] for key in order]}

    def check_statistics(self, got, layer, k, seq=""):
        pattern = got[f"pattern.{layer}{seq}"]
        n_heads, n = pattern.shape[:2]
        stats = {name: got[f"stats.{name}.{layer}{seq}"] for name in
                 ("entropy", "sink", "self", "prev", "distance", "received", "topk_key", "topk_weight")}
        n_bins = stats["distance"].shape[2]
        self.assertGreaterEqual(2 ** (n_bins - 1), n)
        for name, a in stats.items():
            last = {"distance": [n_bins], "topk_key": [k], "topk_weight": [k]}.get(name, [])
            self.assertEqual(a.shape, [n_heads, n, *last], name)
            self.assertEqual(a.numbers.typecode, "i" if name == "topk_key" else "f", name)
        for head in range(n_heads):
            for query in range(n):
                want = self.row_statistics(pattern.row(head, query), query)
                for name in ("entropy", "sink", "self", "prev"):
                    delta = ENTROPY if name == "entropy" else 2e-6
                    self.assertAlmostEqual(stats[name].row(head)[query], want[name], delta=delta, msg=(name, head, query))
                bins = stats["distance"].row(head, query)
                for b in range(n_bins):
                    self.assertAlmostEqual(bins[b], want["distance"][b] if b < len(want["distance"]) else 0, delta=2e-6)
                kept = min(k, query + 1)
                self.assertEqual(list(stats["topk_key"].row(head, query)), want["topk_key"][:kept] + [-1] * (k - kept))
                self.assertEqual(list(stats["topk_weight"].row(head, query)), want["topk_weight"][:kept] + [0] * (k - kept))
            for key in range(n):
                received = math.fsum(pattern.row(head, query)[key] for query in range(n))
                self.assertAlmostEqual(stats["received"].row(head)[key], received, delta=1e-5)

    def test_statistics(self):
        got = self.sort("pattern", "--stats", "--top-k", "3")
        for layer in range(3):
            self.check_statistics(got, layer, 3)
        text = "Once upon a time there was a little girl called Lily who liked to play in the park with her red ball"
        got = self.save("--text", text, "--sites", "pattern", "--stats", model=STORIES)
        self.assertEqual({name.split(".")[1] for name in got if name.startswith("stats.")},
                         {"entropy", "sink", "self", "prev", "distance", "received", "topk_key", "topk_weight"})
        for layer in range(5):
            self.check_statistics(got, layer, 8)

    def test_statistics_alone(self):
        """Without patterns the same bits, and only the layers that are asked for."""
        beside, alone = self.sort("pattern", "--stats"), self.save("--ids", ",".join(map(str, IDS)), "--stats")
        self.assertEqual(set(alone), {name for name in beside if not name.startswith("pattern.")})
        for name, a in alone.items():
            self.assertEqual(a.numbers.tobytes(), beside[name].numbers.tobytes(), name)
        for words, layers in ((["L1"], {1}), (["L0,L2"], {0, 2})):
            some = self.save("--ids", ",".join(map(str, IDS)), "--stats", "--layers", *words, name="out.npz")
            self.assertEqual({int(name.split(".")[2]) for name in some if name != "ids"}, layers)
            for name, a in some.items():
                self.assertEqual(a.numbers.tobytes(), alone[name].numbers.tobytes(), name)

    def test_statistics_of_packed_texts(self):
        path = self.folder / "texts"
        path.write_text("Once upon a time\nTom\nTom had a big red ball.\n")
        got = self.save("--file", path, "--sites", "pattern", "--stats", "--layers", "L3", "--top-k", "2", model=STORIES)
        for seq in range(3):
            self.check_statistics(got, 3, 2, f".seq{seq}")

    def test_statistics_are_documented(self):
        text = self.good("run", "--help")
        for name in ("entropy", "sink", "self", "prev", "distance", "received", "topk_key", "topk_weight"):
            self.assertIn(f"stats.{name}.4", text)
        self.assertIn("--stats", self.good("run", "--sites", "help"))

    def test_kinds_of_passes(self):
        """bf16 and a rounded cache stay near f32 and are named; auto on float32 weights is f32 to the bit."""
        path = self.folder / "out.safetensors"
        words = ["run", "-m", STORIES, "--text", "Once upon a time", "--sites", "pattern", "-o", path]
        self.assertEqual(self.json(*words)["compute"], "f32")
        exact = read_safetensors(path)
        for more, said in ((["--compute", "bf16"], {"compute": "bf16"}), (["--cache", "bf16"], {"cache": "bf16"}),
                           (["--cache", "f16"], {"cache": "f16"})):
            answer = self.json(*words, *more)
            self.assertEqual({key: answer.get(key) for key in said}, said)
            self.assertIn(" ".join((f"compute {answer['compute']}", *(["cache", more[1]] if "cache" in said else []))),
                          self.good(*words, *more).splitlines()[0].replace(",", ""))
            off = max(abs(a - b) for name, array in read_safetensors(path).items() if name.startswith("pattern.")
                      for a, b in zip(array.numbers, exact[name].numbers))
            self.assertTrue(0 < off < 0.05, (more, off))
        self.assertEqual(self.json(*words, "--compute", "auto")["compute"], "f32")
        self.assertEqual(read_safetensors(path)["pattern.4"].numbers.tobytes(), exact["pattern.4"].numbers.tobytes())
        quantised = DATA / "models" / "tinystories-656k" / "tinystories-656k.q8_0.gguf"
        if quantised.exists():
            words = ["run", "-m", quantised, "--text", "Once", "--sites", "logits", "-o", path]
            self.assertEqual(self.json(*words, "--compute", "auto")["compute"], "q8")

    def test_window(self):
        """In the first layer a window changes no score: its pattern is the softmax over what the window leaves."""
        plain = self.sort("attn_scores,pattern", "--layers", "L0")
        for window, sinks in ((1, 0), (3, 0), (2, 1), (2, 2), (9, 0)):
            words = ["--window", str(window), *(["--sinks", str(sinks)] if sinks else [])]
            got = self.sort("pattern", "--layers", "L0", "--stats", *words)
            self.check_statistics_hidden(got)
            for head in range(3):
                for query in range(6):
                    scores = plain["attn_scores.0"].row(head, query)
                    seen = [k for k in range(query + 1) if k > query - window or k < sinks]
                    most = max(scores[k] for k in seen)
                    total = math.fsum(math.exp(scores[k] - most) for k in seen)
                    for key, weight in enumerate(got["pattern.0"].row(head, query)):
                        want = math.exp(scores[key] - most) / total if key in seen else 0
                        self.assertAlmostEqual(weight, want, delta=1e-6, msg=(window, sinks, head, query, key))
        self.assertEqual(got["pattern.0"].numbers.tobytes(), plain["pattern.0"].numbers.tobytes())
        said = self.json("run", "-m", SORT, "--ids", "0,1", "--sites", "logits", "--window", "4", "--sinks", "1", "-o",
                         self.folder / "w.npz")
        self.assertEqual((said["window"], said["sinks"], said["compute"]), (4, 1, "f32"))

    def check_statistics_hidden(self, got):
        """What a window hides counts as weight 0."""
        for head in range(3):
            for query in range(6):
                want = self.row_statistics(got["pattern.0"].row(head, query), query)
                for name in ("entropy", "sink", "self", "prev"):
                    delta = ENTROPY if name == "entropy" else 2e-6
                    self.assertAlmostEqual(got[f"stats.{name}.0"].row(head)[query], want[name], delta=delta)
                heaviest = got["stats.topk_key.0"].row(head, query)[0]
                self.assertEqual(heaviest, want["topk_key"][0])

    def test_options_that_do_not_go_together(self):
        words = ["run", "-m", "nowhere", "--ids", "1", "-o", "x.npz"]
        self.bad(2, *words, says=["no sites", "--stats"])
        self.bad(2, *words, "--sites", "pattern", "--top-k", "3", says=["--top-k", "--stats"])
        self.bad(2, *words, "--stats", "--top-k", "65", says=["--top-k", "64"])
        self.bad(2, *words, "--stats", "--sinks", "2", says=["--sinks", "--window"])
        self.bad(2, *words, "--stats", "--compute", "f16", says=["--compute", "f32|bf16|q8|auto"])
        self.bad(2, *words, "--stats", "--cache", "q4_0", says=["--cache", "q8_0"])
        self.bad(1, "run", "-m", SORT, "--ids", "1", "--stats", "--cache", "q8_0", "-o", "x.npz", says=["Q8_0", "16"])

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
