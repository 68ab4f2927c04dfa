"""headscope look against the same worked out here from the patterns that `headscope run` saves: tables, JSON and CSV, the
first token's rule, ties, who looks at a token, the overview, two texts against each other, pictures, and refusals."""

import csv
import io
import json
import math
import os
import re
import sys
import unittest

from program import DATA, SOURCE, ProgramTest, environment, main, on_terminal, read_safetensors

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

SORT = DATA / "models" / "gpt-nano-sort"  # no tokenizer: a token's text is its id
TINY = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
GPT2 = DATA / "tokenizers" / "gpt2"
IDS = "0,0,2,1,0,1"
TEXT = "Once upon a time, there was a little cat named Tom. Tom had a big red ball."


def top(weights, first, last, k=1):
    """(weight, position), heaviest first, ties to the lower position."""
    return sorted(((weights[i], i) for i in range(first, last + 1)), key=lambda pair: (-pair[0], pair[1]))[:k]


class LookTest(ProgramTest):
    def patterns(self, model, *source):
        """[layer]: an Array [head][query][key]."""
        path = self.folder / "patterns.safetensors"
        self.good("run", "-m", model, *source, "--sites", "pattern", "-o", path)
        arrays = read_safetensors(path)
        self.tokens = arrays["ids"].numbers.tolist()
        return [arrays[f"pattern.{i}"] for i in range(len(arrays) - 1)]

    def texts(self, model, text):
        return self.json("tokenize", "-m", model, text)["tokens"]


    def even_model(self):
        """One layer, two heads, queries of zero: every visible key weighs the same."""
        config, tensors = toys.gpt2(n_head=2, n_layer=1)
        weight, bias = (tensors[f"h.0.attn.c_attn.{name}"][1] for name in ("weight", "bias"))
        for i in range(8):
            bias[i] = 0.0
            for j in range(8):
                weight[i * 24 + j] = 0.0
        return toys.write_folder(self.folder / "even", config, tensors)


class Table(LookTest):
    def lines(self, patterns, texts, query, layer, first=1):
        """The lesson's lines by its own format."""
        lines = []
        for head in range(patterns[layer].shape[0]):
            weight, key = top(patterns[layer].row(head, query), 0 if query == 0 else first, query)[0]
            lines.append(f"head {head:2d}: {texts[query]!r} attends most to {texts[key]!r:12} ({weight:.2f})")
        return lines

    def test_one_layer(self):
        patterns, texts = self.patterns(TINY, "--text", TEXT), self.texts(TINY, TEXT)
        query = len(texts) - 3
        self.assertEqual(texts.count(texts[query]), 1)
        for spelling, layer in (("2", 1), ("L1", 1), ("1", 0), ("L0", 0)):
            text = self.good("look", "-m", TINY, TEXT, "--layer", spelling, "--token", texts[query])
            self.assertEqual(text.splitlines(), ["2 layers; 8 heads per layer", *self.lines(patterns, texts, query, layer)])

    def test_every_position_and_layer(self):
        patterns, texts = self.patterns(SORT, "--ids", IDS), IDS.split(",")
        for query in range(6):
            want = ["3 layers; 3 heads per layer"]
            for layer in range(3):
                want += [f"layer {layer + 1} (L{layer})", *self.lines(patterns, texts, query, layer)]
            self.assertEqual(self.good("look", "-m", SORT, "--ids", IDS, "--pos", query).splitlines(), want)
        only = self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--layer", "L0,L2").splitlines()
        self.assertEqual(only, want[:5] + want[9:])
        one = self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--head", "L2H1").splitlines()
        self.assertEqual(one, [want[0], want[9], want[11]])

    def test_include_first(self):
        patterns, texts = self.patterns(SORT, "--ids", IDS), IDS.split(",")
        done = self.run_program("look", "-m", SORT, "--ids", IDS, "--pos", "3", "--layer", "2", "--include-first")
        self.assertEqual(done.stdout.decode().splitlines()[1:], self.lines(patterns, texts, 3, 1, first=0))
        self.assertEqual(done.stderr, b"")
        done = self.run_program("look", "-m", SORT, "--ids", IDS, "--pos", "3", "--layer", "2")
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertIn(b"note: the first token, '0', is left out", done.stderr)
        done = self.run_program("look", "-m", SORT, "--ids", IDS, "--pos", "0")  # it looks at itself, whatever the rule
        self.assertEqual(done.stderr, b"")
        self.assertEqual(done.stdout.count(b"'0' attends most to '0'          (1.00)"), 9)

    def test_top(self):
        patterns = self.patterns(SORT, "--ids", IDS)
        lines = self.good("look", "-m", SORT, "--ids", IDS, "--pos", "4", "--layer", "3", "--top", "3").splitlines()[1:]
        self.assertEqual(len(lines), 9)
        for head in range(3):
            for rank, (weight, key) in enumerate(top(patterns[2].row(head, 4), 1, 4, 3)):
                shown = f"{IDS.split(',')[key]!r:12} ({weight:.2f})"
                lead = f"head {head:2d}: '0' attends most to " if rank == 0 else "then ".rjust(len("head  0: '0' attends most to "))
                self.assertEqual(lines[head * 3 + rank], lead + shown)
        few = self.good("look", "-m", SORT, "--ids", IDS, "--pos", "1", "--layer", "3", "--top", "5").splitlines()[1:]
        self.assertEqual(len(few), 3)  # only itself is left to look at

    def test_ties_go_to_the_lower_position(self):
        model = self.even_model()
        said = self.json("look", "-m", model, "--ids", "1,2,3,4,5", "--pos", "4", "--top", "3")
        for head in said["heads"]:
            self.assertEqual([w["pos"] for w in head["top"]], [1, 2, 3])
            self.assertEqual(len({w["weight"] for w in head["top"]}), 1)
        said = self.json("look", "-m", model, "--ids", "1,2,3,4,5", "--pos", "4", "--include-first")
        self.assertEqual([head["best"]["pos"] for head in said["heads"]], [0, 0])
        kinds = self.json("look", "-m", model, "--ids", "1,2,3,4,5")["heads"]
        self.assertEqual([head["kind"] for head in kinds], ["spread", "spread"])

    def test_threads_change_nothing(self):
        for words in ([], ["--pos", "4"], ["--to-pos", "2"], ["--vs", "Once upon a time, a dog."]):
            one = self.good("look", "-m", TINY, TEXT, *words, "--json", "-t", "1")
            self.assertEqual(one, self.good("look", "-m", TINY, TEXT, *words, "--json", "-t", "5"))


class Formats(LookTest):
    def test_json(self):
        patterns, texts = self.patterns(TINY, "--text", TEXT), self.texts(TINY, TEXT)
        said = self.json("look", "-m", TINY, TEXT, "--pos", "7", "--top", "4")
        self.assertEqual(list(said), ["model", "compute", "tokens", "query", "heads"])
        self.assertEqual(said["model"], {"name": "TinyStories-656K", "arch": "llama", "n_layers": 2, "n_heads": 8})
        self.assertEqual(said["tokens"], [{"id": i, "text": t} for i, t in zip(self.tokens, texts)])
        self.assertEqual(said["query"], {"pos": 7, "text": texts[7]})
        self.assertEqual([(h["layer"], h["head"], h["name"]) for h in said["heads"]],
                         [(i, j, f"L{i}H{j}") for i in range(2) for j in range(8)])
        for h in said["heads"]:
            want = top(patterns[h["layer"]].row(h["head"], 7), 1, 7, 4)
            self.assertEqual(h["best"], h["top"][0])
            self.assertEqual([(w["pos"], w["text"]) for w in h["top"]], [(key, texts[key]) for _, key in want])
            for w, (weight, _) in zip(h["top"], want):
                self.assertAlmostEqual(w["weight"], weight, delta=1e-8)  # nine digits

    def test_csv_says_what_json_says(self):
        for words in (["--pos", "7", "--top", "3"], ["--to-pos", "2", "--top", "2"], ["--pos", "7", "--to-pos", "3"],
                      ["--head", "L1H3", "--top", "2"]):
            text = self.good("look", "-m", TINY, TEXT, *words, "--csv")
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            said = self.json("look", "-m", TINY, TEXT, *words)
            got = [(r["name"], int(r["query"]), r["query_text"], int(r["key"]), r["key_text"], float(r["weight"])) for r in rows]
            want = []
            for h in said.get("heads", said.get("queries")):
                for w in h.get("top", [h]):
                    query, key = said.get("query", w), said.get("key", w)
                    if "queries" in said:
                        query, key = h, w
                    name = h.get("name") or said["head"]["name"]
                    want.append((name, query["pos"], query["text"], key["pos"], key["text"], w["weight"]))
            self.assertEqual(got, want, words)
            self.assertTrue(text.endswith("\r\n"))

    def test_csv_quotes(self):
        model = self.folder / "bytes"
        config, tensors = toys.gpt2(vocab_size=256)
        toys.write_folder(model, config, tensors)
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        text = self.good("look", "-m", model, 'a,"\nb', "--pos", "4", "--top", "4", "--csv")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual({r["key_text"] for r in rows}, {",", '"', "\n", "b"})

    def test_bytes_beside_text(self):
        model = self.folder / "bytes"
        config, tensors = toys.gpt2(vocab_size=256)
        toys.write_folder(model, config, tensors)
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        said = self.json("look", "-m", model, "aé", "--pos", "1", "--include-first")
        self.assertEqual([{k: v for k, v in t.items() if k != "id"} for t in said["tokens"]],
                         [{"text": "a"}, {"text": "\ufffd", "bytes": "c3"}, {"text": "\ufffd", "bytes": "a9"}])
        self.assertEqual(said["query"], {"pos": 1, "text": "\ufffd", "bytes": "c3"})

    def test_json_in_a_pipe_is_one_line(self):
        self.assertEqual(self.good("look", "-m", SORT, "--ids", IDS, "--json").count("\n"), 1)


class Keys(LookTest):
    def test_who_looks_at_it(self):
        patterns, texts = self.patterns(TINY, "--text", TEXT), self.texts(TINY, TEXT)
        key, n = 4, len(texts)
        said = self.json("look", "-m", TINY, TEXT, "--to", texts[key], "--top", "3")
        self.assertEqual(said["key"], {"pos": key, "text": texts[key]})
        lines = self.good("look", "-m", TINY, TEXT, "--to-pos", key, "--layer", "1").splitlines()[1:]
        for h in said["heads"]:
            column = [patterns[h["layer"]].row(h["head"], q)[key] for q in range(n)]
            want = top(column, key, n - 1, 3)
            self.assertEqual([w["pos"] for w in h["top"]], [q for _, q in want])
            if h["layer"] == 0:
                weight, query = want[0]
                self.assertEqual(lines[h["head"]], f"head {h['head']:2d}: {texts[key]!r} is looked at most by "
                                                   f"{texts[query]!r:12} ({weight:.2f})")

    def test_nothing_before_the_key_can_see_it(self):
        said = self.json("look", "-m", SORT, "--ids", IDS, "--to-pos", "4", "--top", "6")
        for h in said["heads"]:
            self.assertEqual(sorted(w["pos"] for w in h["top"]), [4, 5])

    def test_pair(self):
        patterns = self.patterns(SORT, "--ids", IDS)
        said = self.json("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--to", "2", "--top", "4")
        want = sorted(((-patterns[i].row(j, 5)[2], i, j) for i in range(3) for j in range(3)))[:4]
        self.assertEqual([(h["layer"], h["head"]) for h in said["heads"]], [(i, j) for _, i, j in want])
        text = self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--to", "2", "--top", "1")
        weight, layer, head = want[0]
        self.assertEqual(text.splitlines()[1:],
                         ["'1' looks at '2' most in", f"layer {layer + 1}, head {head} (L{layer}H{head}) ({-weight:.2f})"])
        self.assertIn("in no head: it comes later", self.good("look", "-m", SORT, "--ids", IDS, "--pos", "1", "--to", "2"))

    def test_one_head(self):
        patterns, texts = self.patterns(SORT, "--ids", IDS), IDS.split(",")
        lines = self.good("look", "-m", SORT, "--ids", IDS, "--head", "L1H2").splitlines()
        self.assertEqual(lines[1], "layer 2, head 2 (L1H2)")
        for query in range(6):
            weight, key = top(patterns[1].row(2, query), 1 if query else 0, query)[0]
            self.assertEqual(lines[2 + query], f"token {query:3d}: {texts[query]!r:12} attends most to {texts[key]!r:12} ({weight:.2f})")


class Overview(LookTest):
    def check(self, model, source, patterns, layers=None):
        said = self.json("look", "-m", model, *source, *(["--layer", ",".join(f"L{i}" for i in layers)] if layers else []))
        chosen = layers or range(len(patterns))
        n, links = patterns[0].shape[1], []
        self.assertEqual([(h["layer"], h["head"]) for h in said["heads"]],
                         [(i, j) for i in chosen for j in range(patterns[0].shape[0])])
        for h in said["heads"]:
            rows = [patterns[h["layer"]].row(h["head"], q) for q in range(n)]
            want = dict.fromkeys(("first", "self", "previous", "other", "entropy"), 0.0)
            for q in range(1, n):
                want["first"] += rows[q][0] / (n - 1)
                want["self"] += rows[q][q] / (n - 1)
                want["previous"] += rows[q][q - 1] / (n - 1)
                want["other"] += math.fsum(rows[q][1 : q - 1]) / (n - 1) if q > 1 else 0
                want["entropy"] -= math.fsum(w * math.log(w) for w in rows[q] if w > 0) / (n - 1)
                links += [(-rows[q][k], h["layer"], h["head"], q, k) for k in range(1, q - 1)]
            for name, value in want.items():
                self.assertAlmostEqual(h[name], value, delta=2e-6, msg=(h["name"], name))
            most = math.fsum(math.log(q + 1) for q in range(1, n)) / (n - 1)
            kind = max(("first", "self", "previous", "other"), key=lambda name: h[name])
            self.assertEqual(h["kind"], "spread" if h["entropy"] >= 0.9 * most else kind)
        links = sorted(links)[:10]
        self.assertEqual([(l["layer"], l["head"], l["query"]["pos"], l["key"]["pos"]) for l in said["links"]],
                         [link[1:] for link in links])
        return said

    def test_figures(self):
        self.check(SORT, ["--ids", IDS], self.patterns(SORT, "--ids", IDS))
        patterns = self.patterns(TINY, "--text", TEXT)
        self.check(TINY, [TEXT], patterns)
        self.check(TINY, [TEXT], patterns, layers=[1])

    def test_text(self):
        said = self.json("look", "-m", TINY, TEXT)
        lines = self.good("look", "-m", TINY, TEXT).splitlines()
        letters = {"first": "f", "self": "s", "previous": "p", "spread": "=", "other": "o"}
        self.assertEqual(lines[1].split(), [f"H{i}" for i in range(8)])
        for layer in range(2):
            cells = lines[2 + layer].split()
            self.assertEqual(cells[:3], ["layer", str(layer + 1), f"(L{layer})"])
            self.assertEqual([c.lower() for c in cells[3:]], [letters[h["kind"]] for h in said["heads"] if h["layer"] == layer])
            for head, cell in enumerate(cells[3:]):  # under the head's number
                self.assertEqual(lines[2 + layer][lines[1].index(f"H{head}") + 1], cell)
        for link, line in zip(said["links"], lines[-10:]):
            self.assertTrue(line.startswith(f"layer {link['layer'] + 1}, head {link['head']} ({link['name']})"), line)
            self.assertIn(f"{link['query']['text']!r} ({link['query']['pos']})", line)
            self.assertIn(f"-> {link['key']['text']!r} ({link['key']['pos']})", line)
            self.assertTrue(line.endswith(f"{link['weight']:.2f}"), line)

    def test_short_texts(self):
        for ids in ("0", "0,1", "0,1,2"):
            said = self.json("look", "-m", SORT, "--ids", ids)
            self.assertEqual(said["links"], [])
            self.assertNotIn("nan", self.good("look", "-m", SORT, "--ids", ids).lower())

    def test_long_text(self):
        """The whole context: rows stream by, nothing of n x n is kept."""
        ids = ",".join(str(3 + i * 7 % 2000) for i in range(512))
        said = self.json("look", "-m", TINY, "--ids", ids)
        self.assertEqual(len(said["links"]), 10)
        self.assertEqual(len(self.json("look", "-m", TINY, "--ids", ids, "--pos", "511")["heads"]), 16)


class Statistics(LookTest):
    """--stats: the same sums from whole patterns."""

    def check(self, model, source, patterns, *words):
        said = self.json("look", "-m", model, *source, "--stats", *words)
        n = patterns[0].shape[1]
        self.assertEqual([d["from"] for d in said["distances"]], [0] + [2 ** b for b in range(len(said["distances"]) - 1)])
        self.assertGreaterEqual(said["distances"][-1]["to"], n - 1)
        for h in said["heads"]:
            rows = [patterns[h["layer"]].row(h["head"], q) for q in range(n)]
            want = dict.fromkeys(("entropy", "first", "self", "previous"), 0.0)
            distance = [0.0] * len(said["distances"])
            for q in range(1, n):
                want["first"] += rows[q][0] / (n - 1)
                want["self"] += rows[q][q] / (n - 1)
                want["previous"] += rows[q][q - 1] / (n - 1)
                want["entropy"] -= math.fsum(w * math.log(w) for w in rows[q] if w > 0) / (n - 1)
                for key in range(n):
                    at = next((i for i, d in enumerate(said["distances"]) if d["from"] <= q - key <= d["to"]), None)
                    if at is not None:
                        distance[at] += rows[q][key] / (n - 1)
            for name, value in want.items():
                delta = 1e-5 if name == "entropy" else 2e-6
                self.assertAlmostEqual(h[name], value, delta=delta, msg=(h["name"], name))
            for got, value in zip(h["distance"], distance, strict=True):
                self.assertAlmostEqual(got, value, delta=2e-6, msg=h["name"])
            first = 0 if "--include-first" in words or n == 1 else 1
            received = [math.fsum(row[key] for row in rows) for key in range(n)]
            weight, key = top(received, first, n - 1)[0]
            self.assertEqual(h["most_received"]["pos"], key)
            self.assertAlmostEqual(h["most_received"]["weight"], weight, delta=1e-5)
        return said

    def test_figures(self):
        patterns = self.patterns(SORT, "--ids", IDS)
        self.assertEqual(len(self.check(SORT, ["--ids", IDS], patterns)["heads"]), 9)
        self.check(SORT, ["--ids", "1"], self.patterns(SORT, "--ids", "1"))
        patterns = self.patterns(TINY, "--text", TEXT)
        self.check(TINY, [TEXT], patterns, "--include-first")
        some = self.check(TINY, [TEXT], patterns, "--layer", "2")
        self.assertEqual([h["name"] for h in some["heads"]], [f"L1H{i}" for i in range(8)])
        one = self.check(TINY, [TEXT], patterns, "--head", "L1H3")
        self.assertEqual(one["heads"], some["heads"][3:4])
        window = self.patterns(TINY, "--text", TEXT, "--window", "4", "--sinks", "1")
        said = self.check(TINY, [TEXT], window, "--window", "4", "--sinks", "1")
        self.assertEqual((said["window"], said["sinks"]), (4, 1))

    def test_the_whole_context(self):
        ids = ",".join(str(3 + i * 7 % 2000) for i in range(512))
        self.check(TINY, ["--ids", ids], self.patterns(TINY, "--ids", ids), "--head", "L1H5")

    def test_text_and_csv(self):
        said = self.json("look", "-m", TINY, TEXT, "--stats")
        done = self.run_program("look", "-m", TINY, TEXT, "--stats")
        self.assertIn(b"is left out of the maximum; --include-first puts it back (compute f32)", done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "2 layers; 8 heads per layer")
        at = next(i for i, line in enumerate(lines) if line.startswith("head "))
        far = len(said["tokens"]) - 1  # 22 tokens or so: bins 2-3 and 4-7 in one column, 8-15 and 16-31 in the next
        self.assertEqual(lines[at].split(), ["head", "entropy", "first", "self", "prev", "2-7", f"8-{far}", "receives", "most"])
        self.assertEqual(len(lines), at + 17)
        for h, line in zip(said["heads"], lines[at + 1 :]):
            groups = [h["distance"][2] + h["distance"][3], math.fsum(h["distance"][4:])]
            shown = [f"{x:.2f}" for x in (h["entropy"], h["first"], h["self"], h["previous"], *groups)]
            self.assertEqual(line.split()[:7], [h["name"], *shown])
            most = h["most_received"]
            self.assertTrue(line.endswith(f"{most['text']!r} ({most['pos']}) {most['weight']:.2f}"), line)
        self.assertTrue(all(len(line) <= 80 for line in lines))
        rows = list(csv.DictReader(io.StringIO(self.good("look", "-m", TINY, TEXT, "--stats", "--csv"), newline="")))
        self.assertEqual(len(rows), 16)
        for r, h in zip(rows, said["heads"]):
            self.assertEqual((r["name"], int(r["most"]), r["most_text"]),
                             (h["name"], h["most_received"]["pos"], h["most_received"]["text"]))
            for name in ("entropy", "first", "self", "previous"):
                self.assertAlmostEqual(float(r[name]), h[name], delta=1e-7)
            bins = [float(r[f"distance_{d['from']}_{d['to']}"]) for d in said["distances"]]
            for a, b in zip(bins, h["distance"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-7)

    def test_threads_change_nothing(self):
        one = self.good("look", "-m", TINY, TEXT, "--stats", "--json", "-t", "1")
        self.assertEqual(one, self.good("look", "-m", TINY, TEXT, "--stats", "--json", "-t", "5"))

    def test_refusals(self):
        for words in (["--pos", "1"], ["--to", "x"], ["--vs", "x"], ["--top", "2"], ["--plot", "a.png"],
                      ["--heatmap", "--layer", "1"]):
            self.bad(2, "look", "-m", "nowhere", "text", "--stats", *words, says=["--stats", words[0]])


class Kinds(LookTest):
    """--compute, --cache, --window and --sinks: what they show, and that they are named."""

    def test_window(self):
        words = ["--window", "3", "--sinks", "1"]
        patterns = self.patterns(SORT, "--ids", IDS, *words)
        said = self.json("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--top", "6", "--include-first", *words)
        for h in said["heads"]:
            row = patterns[h["layer"]].row(h["head"], 5)
            want = sorted((0, 3, 4, 5), key=lambda key: (-row[key], key))
            self.assertEqual([w["pos"] for w in h["top"]], want)  # 1 and 2 are hidden: not listed, not even with 0
            for w in h["top"]:
                self.assertAlmostEqual(w["weight"], row[w["pos"]], delta=1e-8)
        for key, seen in ((1, {1, 2, 3}), (0, {0, 1, 2, 3, 4, 5})):
            said = self.json("look", "-m", SORT, "--ids", IDS, "--to-pos", key, "--top", "6", *words)
            for h in said["heads"]:
                self.assertEqual({w["pos"] for w in h["top"]}, seen)
        self.assertIn("in no head: it lies before the window",
                      self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--to-pos", "1", *words))
        model = self.even_model()  # still even, over what the window leaves
        kinds = self.json("look", "-m", model, "--ids", "1,2,3,4,5", "--window", "2")["heads"]
        self.assertEqual([h["kind"] for h in kinds], ["spread", "spread"])

    def test_names(self):
        look = ["look", "-m", TINY, TEXT]
        exact = self.json(*look, "--pos", "5")
        for words, said in ((["--compute", "bf16"], {"compute": "bf16"}), (["--cache", "bf16"], {"compute": "f32", "cache": "bf16"}),
                            (["--compute", "auto"], {"compute": "f32"})):
            got = self.json(*look, "--pos", "5", *words)
            self.assertEqual({key: value for key, value in got.items() if key in ("compute", "cache")}, said)
            off = [abs(a["best"]["weight"] - b["best"]["weight"]) for a, b in zip(exact["heads"], got["heads"])]
            self.assertTrue(0 < max(off) < 0.05 or said == {"compute": "f32"}, (words, off))
        self.assertEqual(got, exact)
        for words, note in ((["--compute", "bf16"], b"compute bf16"), (["--window", "9"], b"compute f32, window 9")):
            for mode in ([], ["--pos", "5"], ["--stats"], ["--to-pos", "2"]):
                self.assertIn(note, self.run_program(*look, *mode, *words).stderr)
        self.bad(2, *look, "--sinks", "2", says=["--sinks", "--window"])


class Versus(LookTest):
    def test_moves(self):
        one, two = "0,0,2,1,0,1", "0,0,1,1,0,1"
        a, b = self.patterns(SORT, "--ids", one), self.patterns(SORT, "--ids", two)
        said = self.json("look", "-m", SORT, "--ids", one, "--vs", two, "--pos", "4", "--top", "9")
        self.assertEqual((said["first_difference"], said["cannot_change"]), (2, None))
        want = []
        for layer in range(3):
            for head in range(3):
                deltas = [float(y) - float(x) for x, y in zip(a[layer].row(head, 4), b[layer].row(head, 4))]
                want.append((math.fsum(map(abs, deltas)) / 2, layer, head, deltas))
        want.sort(key=lambda w: (-w[0], w[1:3]))
        self.assertEqual([(h["layer"], h["head"]) for h in said["heads"]], [w[1:3] for w in want])
        for h, (moved, layer, head, deltas) in zip(said["heads"], want):
            self.assertAlmostEqual(h["moved"], moved, delta=1e-8)
            self.assertEqual(h["left"]["pos"], deltas.index(min(deltas)))
            self.assertEqual(h["went"]["pos"], deltas.index(max(deltas)))
            self.assertAlmostEqual(h["left"]["before"], a[layer].row(head, 4)[h["left"]["pos"]], delta=1e-8)
            self.assertAlmostEqual(h["went"]["after"], b[layer].row(head, 4)[h["went"]["pos"]], delta=1e-8)

    def test_of_unequal_length(self):
        one, two = "0,0,2,1,0,1", "0,0,1,1,1,0,1"  # 2 became 1 1
        a, b = self.patterns(SORT, "--ids", one), self.patterns(SORT, "--ids", two)
        said = self.json("look", "-m", SORT, "--ids", one, "--vs", two, "--top", "1")
        self.assertEqual((said["query"]["pos"], said["query2"]["pos"]), (5, 6))
        h = said["heads"][0]
        x, y = a[h["layer"]].row(h["head"], 5), b[h["layer"]].row(h["head"], 6)
        # equal at both ends: 0 0 . . 1 0 1 (the suffix "1 0 1" of both); between them 2 against 1 1
        moved = abs(x[0] - y[0]) + abs(x[1] - y[1]) + x[2] + y[2] + y[3] + sum(abs(x[i] - y[i + 1]) for i in (3, 4, 5))
        self.assertAlmostEqual(h["moved"], moved / 2, delta=1e-7)
        self.bad(1, "look", "-m", SORT, "--ids", one, "--vs", two, "--pos", "2", says=["position 2", "differs"])

    def test_one_token_more(self):
        """Equal at the front up to the last; the second text's last token is new and takes a sixth from five fifths."""
        model = self.even_model()
        said = self.json("look", "-m", model, "--ids", "1,1,1,1,1", "--vs", "1,1,1,1,1,1")
        self.assertEqual((said["query"]["pos"], said["query2"]["pos"], said["first_difference"]), (4, 5, 5))
        for head, h in enumerate(said["heads"]):
            self.assertEqual((h["layer"], h["head"]), (0, head))  # they moved alike
            self.assertAlmostEqual(h["moved"], 1 / 6, delta=1e-6)
            self.assertEqual((h["left"]["pos"], h["went"]["pos"]), (0, 5))  # each lost alike: the lower position
        text = self.good("look", "-m", model, "--ids", "1,1,1,1,1", "--vs", "1,1,1,1,1,1")
        self.assertIn("'' became '1'", text)
        best = self.json("look", "-m", model, "--ids", "1,1,1,1,1", "--vs", "1,1,1,1,1,1", "--top", "1")["heads"]
        self.assertEqual([h["name"] for h in best], ["L0H0"])

    def test_a_token_asked_for_stands_for_itself(self):
        """Last in the first text, but common to both: not compared with the other's last."""
        look = ["look", "-m", SORT, "--ids", "0,1", "--vs", "0,1,2"]
        said = self.json(*look, "--pos", "1")
        self.assertEqual((said["query2"]["pos"], said["cannot_change"], said["heads"]), (1, "causal_mask", []))
        text = self.good(*look, "--pos", "0")
        self.assertIn("the first text has no token that comes so late", text)
        self.assertNotIn("--pos", text)
        self.assertEqual(self.json(*look)["query2"]["pos"], 2)
        text = self.bad(1, "look", "-m", SORT, "--ids", "0,0,1", "--vs", "1,1,0,0", "--pos", "1", says=["position 1"])
        self.assertNotIn("ask for one", text)

    def test_what_the_mask_forbids(self):
        one, two = "0,0,2,1,0,1", "0,0,2,1,0,2"
        said = self.json("look", "-m", SORT, "--ids", one, "--vs", two, "--pos", "3")
        self.assertEqual((said["cannot_change"], said["heads"]), ("causal_mask", []))
        text = self.good("look", "-m", SORT, "--ids", one, "--vs", two, "--pos", "3")
        self.assertIn("nothing can change: a causal model's token sees only itself and earlier ones", text)
        self.assertIn("largest change measured in 9 heads: exactly 0", text)
        said = self.json("look", "-m", SORT, "--ids", one, "--vs", one)
        self.assertEqual((said["cannot_change"], said["first_difference"], said["heads"]), ("same_tokens", None, []))
        text = self.good("look", "-m", SORT, "--ids", one, "--vs", two)
        self.assertIn("'1' became '2'", text)
        self.assertIn("the query itself is another token", text)

    def test_text_and_csv(self):
        two = TEXT.replace("little", "big")
        said = self.json("look", "-m", TINY, TEXT, "--vs", two)
        self.assertEqual(len(said["heads"]), 10)
        lines = self.good("look", "-m", TINY, TEXT, "--vs", two).splitlines()
        for h, line in zip(said["heads"], lines[-10:]):
            self.assertTrue(line.startswith(h["name"] + " "), line)
            self.assertIn(f"{h['moved']:.2f}", line)
        rows = list(csv.DictReader(io.StringIO(self.good("look", "-m", TINY, TEXT, "--vs", two, "--csv"), newline="")))
        self.assertEqual([(r["name"], int(r["left"]), r["went_text"]) for r in rows],
                         [(h["name"], h["left"]["pos"], h["went"]["text"]) for h in said["heads"]])


class Pictures(LookTest):
    def test_one_head(self):
        for ending, magic in ((".png", b"\x89PNG\r\n\x1a\n"), (".pdf", b"%PDF-"), (".svg", b"<")):
            path = self.folder / f"one{ending}"
            done = self.run_program("look", "-m", SORT, "--ids", IDS, "--head", "L1H2", "--plot", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(str(path).encode(), done.stderr)
            self.assertTrue(path.read_bytes().startswith(magic))
        text = (self.folder / "one.svg").read_text()
        for part in ("gpt-nano-sort layer 2, head 2 (L1H2)", "attends to", "token"):
            self.assertIn(part, text)

    def test_grids(self):
        for words, title, shown, absent in ((["--layer", "2"], "gpt-nano-sort layer 2 (L1)", ["L1H0", "L1H2"], "L0H0"),
                                            ([], "gpt-nano-sort", ["L0H0", "L2H2"], "L3H0")):
            path = self.folder / "grid.svg"
            self.good("look", "-m", SORT, "--ids", IDS, *words, "--plot", path)
            text = path.read_text()
            for part in (title, *shown):
                self.assertIn(part, text)
            self.assertNotIn(absent, text)

    def test_with_a_table(self):
        path = self.folder / "a.png"
        self.assertEqual(self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--head", "L1H2", "--plot", path),
                         self.good("look", "-m", SORT, "--ids", IDS, "--pos", "5", "--head", "L1H2"))

    def test_terminal(self):
        text = self.good("look", "-m", SORT, "--ids", IDS, "--head", "L1H2", "--heatmap")
        self.assertTrue(text.startswith("gpt-nano-sort layer 2, head 2 (L1H2)\n"))
        self.assertNotIn("\033", text)  # a pipe is no terminal
        layer = self.good("look", "-m", SORT, "--ids", IDS, "--layer", "2", "--heatmap")
        self.assertEqual(layer.count("gpt-nano-sort layer 2, head "), 3)
        self.assertIn(text, layer)

    def test_refusals(self):
        words = ["look", "-m", SORT, "--ids", IDS, "--head", "L1H2", "--plot"]
        self.bad(1, *words, self.folder / "no" / "a.png", says=["a.png", "No such file"])
        if os.path.exists("/dev/full"):
            (self.folder / "full.png").symlink_to("/dev/full")
            self.bad(1, *words, self.folder / "full.png", says=["full"])
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name != "full.png"], [])


class Terminal(LookTest):
    """B55: colours only where they are wanted, and the same letters with them or without."""

    def on_terminal(self, *words, width=0, **env):
        output, status = on_terminal(["look", "-m", SORT, "--ids", IDS, *words], environment(**env), width)
        self.assertEqual(status, 0, output)
        return output.decode().replace("\r\n", "\n")

    def test_overview(self):
        plain = self.good("look", "-m", SORT, "--ids", IDS)
        coloured = self.on_terminal()
        self.assertIn("\033[", coloured)
        self.assertEqual(re.sub(r"\033\[[0-9;]*m", "", coloured), plain)
        self.assertEqual(self.on_terminal(NO_COLOR="1"), plain)
        self.assertEqual(self.on_terminal(TERM="dumb"), plain)
        self.assertEqual(self.on_terminal(NO_COLOR=""), coloured)

    def test_a_narrow_overview(self):
        """On a terminal the grid first shortens the names of its layers, then goes on below; every letter stays."""
        def grid(width):
            text = re.split(r"each\s+head", self.on_terminal(width=width, NO_COLOR="1"))[0]
            lines = text.splitlines()[:-1]
            return lines[next(i for i, line in enumerate(lines) if line.split()[:1] == ["H0"]) :]  # what stands above folds

        def letters(lines):
            return [line.split()[-n_heads:] for line in lines]

        wide = grid(80)
        n_heads = len(wide[0].split())
        exact = max(map(len, wide))
        self.assertTrue(wide[1].startswith("layer 1 (L0)"))
        self.assertEqual(grid(exact), wide)
        brief = grid(exact - 1)
        self.assertTrue(brief[1].startswith("L0 "))
        self.assertEqual(letters(brief), letters(wide))
        narrow = grid(6)  # "L0" and one head of three cells
        self.assertLessEqual(max(map(len, narrow)), 6)
        blocks = [block.splitlines() for block in "\n".join(narrow).split("\n\n")]
        self.assertEqual([block[0].split() for block in blocks], [[name] for name in wide[0].split()])
        self.assertEqual([list(row) for row in zip(*([line.split()[-1] for line in block[1:]] for block in blocks))],
                         letters(wide[1:]))

    def test_heatmap(self):
        words = ["--head", "L1H2", "--heatmap"]
        self.assertIn("\033[48;2;", self.on_terminal(*words, COLORTERM="truecolor"))
        self.assertIn("\033[48;5;", self.on_terminal(*words))
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\033", self.on_terminal(*words, **env))

    def test_json_is_indented(self):
        text = self.on_terminal("--json")
        self.assertGreater(text.count("\n"), 10)
        self.assertEqual(json.loads(text), self.json("look", "-m", SORT, "--ids", IDS))


class Refusals(LookTest):
    def test_tokens(self):
        sentence = "Tom had a dog. He had a cat and one big ball"
        look, texts = ["look", "-m", TINY, sentence], self.texts(TINY, sentence)
        twice = next(t for t in texts if texts.count(t) == 2)
        where = ", ".join(str(i) for i, t in enumerate(texts) if t == twice)
        self.bad(1, *look, "--token", twice, says=[repr(twice), where, "--pos N"])
        self.bad(1, *look, "--to", twice, says=[where, "--to-pos N"])
        text = self.bad(1, *look, "--token", "zebra", says=["no token is exactly that"])
        for position, token in enumerate(texts):
            self.assertIn(f"{position} {token!r}", text)
        near = next(t for t in texts if t != t.strip() and t.strip() and texts.count(t) == 1)
        self.bad(1, *look, "--token", near.strip(), says=[repr(near), f"position {texts.index(near)}"])
        self.bad(1, *look, "--pos", str(len(texts)), says=[f"--pos {len(texts)}", f"0 to {len(texts) - 1}"])
        self.bad(1, *look, "--to-pos", "99", says=["--to-pos 99"])

    def test_model(self):
        look = ["look", "-m", SORT, "--ids", IDS]
        self.bad(1, *look, "--layer", "4", says=["no layer 4 (L3)", "3 layers"])
        self.bad(1, *look, "--head", "L3H0", says=["L3H0", "L0 to L2", "H0 to H2"])
        self.bad(1, *look, "--head", "L0H3", says=["L0H3"])
        self.bad(1, "look", "-m", SORT, "a text", says=["no tokenizer", "--ids 1,2,3"])
        self.bad(1, "look", "-m", SORT, "--ids", ",".join("0" * 12), says=["12 tokens", "11"])
        self.bad(1, "look", "-m", SORT, "--ids", "0,3", says=["3"])
        self.bad(1, "look", "-m", TINY, "", "--no-special", says=["empty"])
        self.bad(1, *look, "--vs", "1,x", says=["1,x"])

    def test_input(self):
        one = self.good("look", "-m", TINY, TEXT, "--json")
        path = self.folder / "text"
        path.write_text(TEXT + "\n")
        self.assertEqual(one, self.good("look", "-m", TINY, "--file", path, "--json"))
        self.assertEqual(one, self.good("look", "-m", TINY, "-", "--json", input=TEXT.encode()))
        self.assertEqual(one, self.good("look", "-m", TINY, "-", "--json", input=TEXT.encode() + b"\r\n"))
        self.assertEqual(one, self.good("look", TEXT, "--json", env={"HEADSCOPE_MODEL": str(TINY)}))
        self.assertNotEqual(one, self.good("look", "-m", TINY, "-", "--json", input=TEXT.encode() + b"\n\n"))
        self.bad(1, "look", "-m", TINY, "--file", self.folder / "none", says=["none", "No such file"])

    def test_special_tokens(self):
        first = self.json("look", "-m", TINY, "a")["tokens"]
        without = self.json("look", "-m", TINY, "a", "--no-special")["tokens"]
        self.assertEqual(first, self.json("look", "-m", TINY, "a")["tokens"])
        self.assertEqual(first[-len(without):], without)
        stories = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
        self.assertEqual([t["id"] for t in self.json("look", "-m", stories, "Once")["tokens"]][0], 1)
        self.assertNotEqual([t["id"] for t in self.json("look", "-m", stories, "Once", "--no-special")["tokens"]][0], 1)
        typed = self.json("look", "-m", stories, "</s>", "--no-special", "--parse-special")["tokens"]
        self.assertIn(2, [t["id"] for t in typed])
        plain = self.json("look", "-m", stories, "</s>", "--no-special")["tokens"]
        self.assertNotIn(2, [t["id"] for t in plain])


@unittest.skipUnless(os.environ.get("HEADSCOPE_SMOLLM2"), "HEADSCOPE_SMOLLM2 names no file")
class SmolLM2(LookTest):
    MODEL = os.environ.get("HEADSCOPE_SMOLLM2", "")
    SENTENCE = "The animal didn't cross the street because it was too tired"

    def test_the_head_that_finds_the_animal(self):
        links = self.json("look", "-m", self.MODEL, self.SENTENCE)["links"]
        found = [l for l in links if l["query"]["text"] == " it"]
        self.assertEqual([(l["name"], l["key"]["text"]) for l in found], [("L13H8", " animal")])
        self.assertAlmostEqual(found[0]["weight"], 0.75, delta=0.005)


if __name__ == "__main__":
    main("models/gpt-nano-sort", "models/tinystories-656k", "models/stories260K")
