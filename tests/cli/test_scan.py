"""headscope scan against the same worked out here from the patterns that `headscope run` saves: weights of spans,
queries, figures of the heads, rules; what is left out and why; the same bits for threads, stores and resumed runs; choosing and
judging; controls; and refusals."""

import csv
import io
import itertools
import json
import math
import signal
import sqlite3
import statistics
import subprocess
import time
import unittest

from program import DATA, PATIENCE, PROGRAM, ProgramTest, environment, main, on_terminal, read_safetensors

TINY = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"

# Candidates of several tokens, of one that they share with a neighbour, and of one; queries of one and of several.
PAIRS = """\
One day, [a:Tom] and [b:Mia] had a ball. {Mia|Tom} gave it [q:to] me.
The [b:little cat] saw the [a:dog] today. {It|He} was [q:big and happy].
So [a:Lily] met [b:Benjamin] there. Then {Lily|Benjamin}! ran [q:away]
In the park a [a:bird] and a [b:hippopotamus] sat. The {bird|hippopotamus} was [q:sad].
The sun saw the [b:red ball] near a [a:tree]. {Soon|Now} they all went [q:home].
"""


def spans(template):
    """The two texts of a marked line with the spans of a, b and q; by hand, not by the program's reader."""
    out = []
    for which in (0, 1):
        text, marks, i, turned = "", {}, 0, False
        while i < len(template):
            if template[i] == "[":
                kind, start = template[i + 1], len(text)
                end = template.index("]", i)
                text += template[i + 3:end]
                marks[kind] = (start, len(text))
                i = end + 1
            elif template[i] == "{":
                end = template.index("}", i)
                start = len(text)
                text += template[i + 1:end].split("|")[which]
                marks["swap"] = (start, len(text))
                i = end + 1
                if template[i:i + 1] == "!":
                    turned, i = True, i + 1
            else:
                text += template[i]
                i += 1
        out.append((text, marks))
    return out[::-1] if turned else out


class ScanTest(ProgramTest):
    def write(self, text, name="pairs.txt"):
        path = self.folder / name
        path.write_text(text)
        return path

    def patterns(self, text):
        path = self.folder / "patterns.safetensors"
        self.good("run", "-m", TINY, "--text", text, "--sites", "pattern", "-o", path)
        arrays = read_safetensors(path)
        return [arrays[f"pattern.{i}"] for i in range(2)]

    def tokens(self, text):
        """[{"from", "to"}]: the start token and the blank that stands before every text have no byte of it."""
        out, at = [{"from": 0, "to": 0}] * 2, 0
        for piece in self.json("tokenize", "-m", TINY, text)["tokens"][2:]:
            out.append({"from": at, "to": at + len(piece)})
            at += len(piece)
        self.assertEqual(at, len(text))
        return out

    def inside(self, text, tokens, span):
        """Tokens that share a byte that is no blank with the span."""
        found = []
        for i, t in enumerate(tokens):
            start, end = max(t["from"], span[0]), min(t["to"], span[1])
            if text[start:end].strip():
                found.append(i)
        return found

    def weights(self, text, marks, query="q", keys="sum"):
        """{(layer, head): (a, b, sink)}"""
        tokens, patterns, out = self.tokens(text), self.patterns(text), {}
        if query == "last":
            rows = [max(i for i, t in enumerate(tokens) if any(c.isalnum() for c in text[t["from"]:t["to"]]))]
        else:
            rows = self.inside(text, tokens, marks[query])
            rows = rows[-1:] if query == "swap" else rows
        for layer, head in itertools.product(range(2), range(8)):
            sums = []
            for kind in "ab":
                cols = self.inside(text, tokens, marks[kind])
                cols = cols[-1:] if keys == "last" else cols
                value = statistics.fmean(sum(patterns[layer].row(head, r)[c] for c in cols) for r in rows)
                sums.append(value / len(cols) if keys == "mean" else value)
            sums.append(statistics.fmean(patterns[layer].row(head, r)[0] for r in rows))
            out[layer, head] = sums
        return out

    def expected(self, lines, **more):
        """{(layer, head): {figure: value}} over pairs that are clusters of their own."""
        seen = [[self.weights(text, marks, **more) for text, marks in spans(line)] for line in lines]
        out = {}
        for where in itertools.product(range(2), range(8)):
            pairs = [(x[where], y[where]) for x, y in seen]
            shifts = [(x[0] - x[1]) - (y[0] - y[1]) for x, y in pairs]
            right = [((x[0] > x[1]) + (x[0] == x[1]) / 2, (y[1] > y[0]) + (y[1] == y[0]) / 2) for x, y in pairs]
            shares = [(x[0] - x[1]) / (x[0] + x[1]) - (y[0] - y[1]) / (y[0] + y[1]) for x, y in pairs
                      if x[0] + x[1] >= 0.02 and y[0] + y[1] >= 0.02]
            mean, sd = statistics.fmean(shifts), statistics.stdev(shifts)
            signed = [abs(sum(s * x for s, x in zip(signs, shifts))) for signs in
                      itertools.product((1, -1), repeat=len(shifts))]
            out[where] = {
                "a1": statistics.fmean(x[0] for x, _ in pairs), "b1": statistics.fmean(x[1] for x, _ in pairs),
                "a2": statistics.fmean(y[0] for _, y in pairs), "b2": statistics.fmean(y[1] for _, y in pairs),
                "shift": mean, "dz": mean / sd, "share": statistics.fmean(shares) if shares else None,
                "mass": statistics.fmean((x[0] + x[1] + y[0] + y[1]) / 2 for x, y in pairs),
                "sink": statistics.fmean((x[2] + y[2]) / 2 for x, y in pairs),
                "accuracy": statistics.fmean(sum(r) / 2 for r in right),
                "pair_accuracy": statistics.fmean(r == (1, 1) for r in right),
                "p": sum(s >= signed[0] * (1 - 1e-9) for s in signed) / len(signed)}
        return out

    def compare(self, result, want):
        self.assertEqual(len(result["heads"]), 16)
        for head in result["heads"]:
            figures = want[head["layer"], head["head"]]
            self.assertEqual(head["name"], f"L{head['layer']}H{head['head']}")
            for name, value in figures.items():
                if value is None:
                    self.assertIsNone(head[name])
                else:
                    self.assertAlmostEqual(head[name], value, delta=2e-5 * (1 + abs(value)) if name == "dz" else 2e-6,
                                           msg=f"{head['name']} {name}")


class Figures(ScanTest):
    def test_from_the_patterns(self):
        path, lines = self.write("# a comment\n" + PAIRS), PAIRS.splitlines()
        result = self.json("scan", "-m", TINY, path)
        self.assertEqual([result[k] for k in ("n_pairs", "n_used", "n_clusters", "n_same", "query", "tests")],
                         [5, 5, 5, 0, "pronoun", 16])
        self.compare(result, self.expected(lines))
        shifts = [abs(h["shift"]) for h in result["heads"]]
        self.assertEqual(shifts, sorted(shifts, reverse=True))
        for query in ("swap", "last"):
            lines_of = [line for line in lines if query == "last" or "{It" not in line]
            result = self.json("scan", "-m", TINY, self.write("\n".join(lines_of)), "--query", query)
            self.compare(result, self.expected(lines_of, query=query))
        for keys in ("mean", "last"):
            self.compare(self.json("scan", "-m", TINY, path, "--keys", keys), self.expected(lines, keys=keys))

    def test_a_word_as_query(self):
        """The text of the query names the same token as the mark does."""
        marked = self.write("The [a:cat] and the [b:dog] ate. {Tom|Mia} was [q:sad] too.\n"
                            "The [b:cat] and the [a:dog] sat. {Mia|Tom} was [q:sad] then.\n", "marked.txt")
        plain = self.write(marked.read_text().replace("[q:sad]", "sad"), "plain.txt")
        mine = self.json("scan", "-m", TINY, plain, "--query", "sad")
        self.assertEqual(mine["heads"], self.json("scan", "-m", TINY, marked)["heads"])
        text = self.bad(1, "scan", "-m", TINY, plain, "--query", "The")
        self.assertIn("no pair can be used", text)

    def test_rules(self):
        """a first in line 1 and 3, b first in 2; the answer cannot be told from places."""
        path = self.write(PAIRS)
        rules = self.json("scan", "-m", TINY, path)["baselines"]
        for name in ("first", "nearest", "longest"):
            self.assertEqual(rules[name], 0.5)
            self.assertEqual(rules["pairs"][name], 0)
        self.assertGreaterEqual(rules["offset"], 0.5)

    def test_csv(self):
        path = self.write(PAIRS)
        rows = list(csv.DictReader(io.StringIO(self.good("scan", "-m", TINY, path, "--csv"))))
        heads = self.json("scan", "-m", TINY, path)["heads"]
        self.assertEqual([row["name"] for row in rows], [h["name"] for h in heads])
        for row, head in zip(rows, heads):
            for name in ("a1", "shift", "p", "p_fwer", "q", "accuracy", "pair_accuracy", "sink"):
                self.assertAlmostEqual(float(row[name]), head[name], delta=1e-8)
            self.assertAlmostEqual(float(row["ci_low"]), head["ci"][0], delta=1e-8)
            self.assertEqual({cell for name, cell in row.items() if name.startswith("held_out_")}, {""})

    def test_csv_held_out(self):
        words = ("scan", "-m", TINY, self.write(PAIRS), "--confirm", self.write(PAIRS, "other.txt"))
        rows = list(csv.DictReader(io.StringIO(self.good(*words, "--csv"))))
        for row, head in zip(rows, self.json(*words)["heads"], strict=True):
            held = head["held_out"]
            cells = [float(row["held_out_" + name] or "nan") for name in ("shift", "low", "high", "p", "accuracy")]
            if not held:
                self.assertTrue(all(cell != cell for cell in cells))
                continue
            for cell, want in zip(cells, (held["shift"], *held["ci"], held["p"], held["accuracy"]), strict=True):
                self.assertAlmostEqual(cell, want, delta=1e-8)
        self.assertEqual(sum(row["held_out_p"] != "" for row in rows), 1)

    def test_failing_sentences(self):
        """--head lists exactly the wordings whose answer gets less weight."""
        path, lines = self.write(PAIRS), PAIRS.splitlines()
        text = self.good("scan", "-m", TINY, path, "--head", "L1H2")
        listed = text[text.index("L1H2 is wrong"):].splitlines()
        wrong = []
        for number, line in enumerate(lines, 1):
            for w, (sentence, marks) in enumerate(spans(line)):
                a, b, _ = self.weights(sentence, marks)[1, 2]
                lack = a - b if w else b - a
                if lack > 0:
                    wrong.append((-lack, f"line {number}: a {a:.4f}, b {b:.4f}", sentence))
        self.assertTrue(wrong)
        self.assertEqual(listed[0], f"L1H2 is wrong in {len(wrong)} of 10 sentences, worst first:")
        for (_, start, sentence), line in zip(sorted(wrong), listed[1:]):
            self.assertTrue(line.startswith(start), (line, start))
            self.assertTrue(line.endswith(sentence), line)
        self.assertEqual(len(listed) - 1, len(wrong))


class LeftOut(ScanTest):
    def test_lines_and_reasons(self):
        path = self.write("The [a:cat] saw [b:it]. {Tom|Mia} was [q:sad].\n"       # used
                          "The [a:cat] saw [b:it]. {Tom|Mia} was [q:sad].\n"       # the same again
                          "Then [q:he] saw {Tom|Mia} and [a:cats] and [b:dogs].\n"  # causal: later
                          "The [a:cat] saw a [b:dog]. He was [q:so] {big|small}.\n"  # the same up to the query
                          "no marks\n")
        result = self.json("scan", "-m", TINY, path)
        self.assertEqual([result[k] for k in ("n_pairs", "n_used", "n_same")], [4, 1, 1])
        self.assertEqual([s["line"] for s in result["skipped"]], [2, 3, 5])
        for skipped, words in zip(result["skipped"], ("another line", "after the query", "exactly one")):
            self.assertIn(words, skipped["why"])
        text = self.good("scan", "-m", TINY, path)
        self.assertIn("1 pair reads the same up to the query", text)
        self.assertIn("3 lines left out: line 2 (another line has the same tokens)", text)
        self.assertIn("none by itself can pass", text)

    def test_all_the_same(self):
        path = self.write("The [a:cat] saw a [b:dog]. He was [q:so] {big|small}.\n")
        text = self.bad(1, "scan", "-m", TINY, path, says=[str(path), "differ by exactly 0", "swap and last"])
        self.assertNotIn("null", text)
        self.assertEqual(self.json("scan", "-m", TINY, path, "--query", "last")["n_used"], 1)


class SameBits(ScanTest):
    NAMES = ["Tom", "Mia", "Lily", "Ben", "Sue", "Max", "Anna", "Tim", "Sara", "Jack", "Lucy", "Sam"]

    def many(self, n):
        lines = []
        for a, b in itertools.islice(itertools.permutations(self.NAMES, 2), n):
            lines.append(f"One day, [a:{a}] and [b:{b}] had a ball. Then {{{b}|{a}}} gave it [q:to] me.")
        return lines

    def test_threads_and_batches(self):
        """Alone or among others, with one thread or three: the same figures to the last bit."""
        path = self.write("\n".join(self.many(70)))
        one = self.json("scan", "-m", TINY, path, "-t", 1)
        self.assertEqual(one, self.json("scan", "-m", TINY, path, "-t", 3))
        for line in self.many(70)[::23]:
            lone = {h["name"]: h for h in self.json("scan", "-m", TINY, self.write(line, "one.txt"))["heads"]}
            db = self.folder / "all.sqlite"
            self.good("scan", "-m", TINY, path, "--db", db)
            text = spans(line)[0][0]
            rows = sqlite3.connect(db).execute("SELECT layer, head, a, b, sink FROM weights JOIN sentences"
                                               " ON sentence = id WHERE text = ? AND wording = 0", [text]).fetchall()
            self.assertEqual(len(rows), 16)
            for layer, head, a, b, _ in rows:
                figures = lone[f"L{layer}H{head}"]
                self.assertEqual((f"{a:.9g}", f"{b:.9g}"), (f"{figures['a1']:.9g}", f"{figures['b1']:.9g}"))

    def test_store(self):
        path, db = self.write("\n".join(self.many(50))), self.folder / "scan.sqlite"
        plain = self.json("scan", "-m", TINY, path, "--holdout", "0.5")
        first = self.json("scan", "-m", TINY, path, "--db", db, "--holdout", "0.5")
        self.assertEqual(first, plain)
        again = self.json("scan", "-m", TINY, path, "--db", db, "--holdout", "0.5")
        self.assertEqual(again.pop("n_loaded"), 50)
        plain.pop("n_loaded")
        self.assertEqual(again, plain)
        base = sqlite3.connect(db)
        count = lambda table: base.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        self.assertEqual([count(t) for t in ("runs", "sentences", "weights", "heads")], [1, 100, 1600, 16])
        best = again["heads"][0]
        row = base.execute("SELECT shift, p, a1, held_out_shift FROM heads WHERE layer = ? AND head = ?",
                           [best["layer"], best["head"]]).fetchone()
        self.assertAlmostEqual(row[0], best["shift"], delta=1e-9)
        self.assertAlmostEqual(row[3], best["held_out"]["shift"], delta=1e-9) if best["held_out"] else None
        # What is missing is run again, and an edited line too; what left the file leaves the run.
        with base:
            base.execute("PRAGMA foreign_keys = ON")
            base.execute("DELETE FROM sentences WHERE pair < '000011'")
        lines = self.many(50)
        lines[20] = lines[20].replace("ball", "hat")
        self.write("\n".join(lines[:49]))
        third = self.json("scan", "-m", TINY, path, "--db", db)
        self.assertEqual((third["n_loaded"], third["n_used"]), (38, 49))
        self.assertEqual([count(t) for t in ("runs", "sentences", "weights", "heads")], [1, 98, 1568, 16])
        fresh = self.json("scan", "-m", TINY, path)
        self.assertEqual(third["heads"], fresh["heads"])
        # Another query is another run.
        self.good("scan", "-m", TINY, path, "--db", db, "--query", "last")
        self.assertEqual([count(t) for t in ("runs", "sentences")], [2, 196])

    def test_store_spoilt(self):
        """What stands in the store and can be no weight is computed anew."""
        path, db = self.write("\n".join(self.many(6))), self.folder / "scan.sqlite"
        plain = self.json("scan", "-m", TINY, path, "--db", db)
        for value in ("'abc'", "9e999", "-1"):
            with sqlite3.connect(db) as base:
                base.execute(f"UPDATE weights SET a = {value} WHERE sentence = (SELECT min(id) FROM sentences)")
            base.close()
            again = self.json("scan", "-m", TINY, path, "--db", db)
            self.assertEqual((again["n_loaded"], again["heads"]), (5, plain["heads"]), value)
        for command in (("scan", "-m", TINY, path), ("detect", "-m", TINY)):
            self.bad(2, *command, "--db", "", says=["--db is empty"])

    def test_killed(self):
        """A run that is killed goes on where it stopped."""
        lines = [line.replace("ball", thing) for thing in ("ball", "hat", "cake", "dog", "cat", "box", "toy", "car")
                 for line in self.many(132)]
        path, db = self.write("\n".join(lines)), self.folder / "scan.sqlite"
        process = subprocess.Popen([PROGRAM, "scan", "-m", TINY, path, "--db", db, "-t", "1"], env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done, limit = 0, time.monotonic() + 60 * PATIENCE
        while done < 64 and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.01)
            try:
                base = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
                done = base.execute("SELECT count(*) FROM sentences").fetchone()[0]
            except sqlite3.Error:
                pass
        killed = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = self.json("scan", "-m", TINY, path, "--db", db)
        n = len(set(lines))
        self.assertEqual(result["n_used"], n)
        self.assertGreaterEqual(result["n_loaded"], 32)
        if killed:
            self.assertEqual(result["n_loaded"] % 32, 0)  # whole batches
        rows = sqlite3.connect(db).execute("SELECT count(*), count(DISTINCT pair || wording) FROM sentences").fetchone()
        self.assertEqual(rows, (2 * n, 2 * n))
        self.assertEqual(result["heads"], self.json("scan", "-m", TINY, path)["heads"])

    def test_not_a_database(self):
        path = self.write(PAIRS)
        other = self.write("this is not a database, whatever its name says; " * 20, "other.sqlite")
        self.bad(1, "scan", "-m", TINY, path, "--db", other, says=["other.sqlite", "not a database"])
        base = sqlite3.connect(self.folder / "foreign.sqlite")
        base.execute("CREATE TABLE mine (x)")
        base.commit()
        self.bad(1, "scan", "-m", TINY, path, "--db", self.folder / "foreign.sqlite", says=["something else"])
        self.bad(1, "scan", "-m", TINY, path, "--db", self.folder / "no" / "such.sqlite", says=["such.sqlite"])


class Judging(ScanTest):
    def lines(self):
        return [f"One day, [a:{a}] and [b:{b}] had a ball. Then {{{b}|{a}}} gave it [q:to] me."
                for a, b in itertools.permutations(SameBits.NAMES[:5], 2)]

    def test_hold_out(self):
        path = self.write("\n".join(self.lines()))
        result = self.json("scan", "-m", TINY, path, "--holdout", "0.5", "--choose", 2, "--seed", 4)
        held = [h for h in result["heads"] if h["held_out"]]
        self.assertEqual(len(held), 2)
        for head in held:
            self.assertEqual(head["held_out"]["n_clusters"], 10)
            self.assertTrue(head["held_out"]["ci"][0] <= head["held_out"]["shift"] <= head["held_out"]["ci"][1])
        other = self.json("scan", "-m", TINY, path, "--holdout", "0.5", "--choose", 2, "--seed", 5)
        self.assertNotEqual([h["held_out"] for h in other["heads"]], [h["held_out"] for h in result["heads"]])
        text = self.good("scan", "-m", TINY, path, "--holdout", "0.5", "--seed", 4)
        self.assertIn("chosen on 10 clusters, judged on the 10 others (seed 4)", text)

    def test_confirm(self):
        """Judged on the very file that chose, the figures are the file's own."""
        path = self.write("\n".join(self.lines()))
        result = self.json("scan", "-m", TINY, path, "--confirm", path)
        best = result["heads"][0]
        self.assertEqual(best["held_out"]["shift"], best["shift"])
        self.assertEqual(best["held_out"]["ci"], best["ci"])
        self.assertEqual(best["held_out"]["p"], best["p"])
        self.assertEqual([bool(h["held_out"]) for h in result["heads"]], [True] + [False] * 15)

    def test_cross(self):
        path = self.write("\n".join(self.lines()))
        result = self.json("scan", "-m", TINY, path, "--cross", 30, "--choose", 3)
        self.assertEqual(sum(h["cross"]["chosen"] for h in result["heads"]), 90)
        for head in result["heads"]:
            self.assertEqual(head["cross"]["median_shift"] is None, head["cross"]["chosen"] == 0)

    def test_control(self):
        path = self.write("\n".join(self.lines()))
        same = self.json("scan", "-m", TINY, path, "--control", path)
        self.assertEqual(same["control"], {"n_pairs": 20, "n_clusters": 20})
        for head in same["heads"]:
            self.assertEqual(head["control"]["shift"], 0)
            self.assertEqual(head["control"]["control"], head["shift"])
            self.assertIsNone(head["control"]["p"])
        words = [line.replace("had a ball. Then", "and then and").replace("gave it", "and") for line in self.lines()]
        control = self.write("\n".join(words), "control.txt")
        result = self.json("scan", "-m", TINY, path, "--control", control)
        alone = {h["name"]: h["shift"] for h in self.json("scan", "-m", TINY, control)["heads"]}
        for head in result["heads"]:
            self.assertAlmostEqual(head["control"]["control"], alone[head["name"]], delta=1e-9)
            self.assertAlmostEqual(head["control"]["shift"], head["shift"] - alone[head["name"]], delta=1e-8)

    def test_null(self):
        path = self.write("\n".join(self.lines()))
        result = self.json("scan", "-m", TINY, path, "--null", 99)
        self.assertAlmostEqual(result["null"]["observed"], abs(result["heads"][0]["shift"]), delta=1e-9)
        self.assertTrue(0.01 <= result["null"]["p"] <= 1)
        for by in ("t", "accuracy"):
            other = self.json("scan", "-m", TINY, path, "--null", 9, "--by", by)
            best = other["heads"][0]
            want = abs(best["dz"]) * math.sqrt(20) if by == "t" else best["accuracy"]
            self.assertAlmostEqual(other["null"]["observed"], want, delta=1e-6)

    def test_null_weights(self):
        path = self.write("\n".join(self.lines()))
        plain = self.json("scan", "-m", TINY, path)
        one, two, three = (self.json("scan", "-m", TINY, path, "--null", "weights", *more)
                           for more in ((), ("-t", "1"), ("--seed", "3")))
        self.assertEqual(one["heads"], plain["heads"])  # the model's own figures do not change
        self.assertEqual(one, two)
        self.assertNotEqual(one["null"]["best"], three["null"]["best"])
        null = one["null"]
        self.assertTrue(0 < null["median"] <= null["high"] <= null["best"])
        above = sum(abs(h["shift"]) > null["best"] for h in one["heads"])
        self.assertEqual((null["n_above"], null["weights"]), (above, "shuffled"))
        self.assertIn("weights in a random order (seed 0): best L", self.good("scan", "-m", TINY, path, "--null", "weights"))
        self.bad(2, "scan", "-m", TINY, path, "--null", "0", says=["'weights' or a number"])


class Shown(ScanTest):
    def test_pictures_and_terminal(self):
        path = self.write(PAIRS)
        for ending, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
            picture = self.folder / f"map{ending}"
            self.good("scan", "-m", TINY, path, "--plot", picture)
            self.assertTrue(picture.read_bytes().startswith(start))
        output, status = on_terminal(["scan", "-m", TINY, path], environment())
        self.assertEqual(status, 0)
        self.assertIn(b"\x1b[", output)
        self.assertNotIn("\x1b", self.good("scan", "-m", TINY, path))

    def test_refusals(self):
        path = self.write(PAIRS)
        for status, args, words in (
                (2, [], "file of sentence pairs is missing"), (2, [path, "--holdout", "1"], "between 0 and 1"),
                (2, [path, "--holdout", "x"], "between 0 and 1"), (2, [path, "--json", "--csv"], "one of the two"),
                (2, [path, "--holdout", "0.5", "--confirm", path], "--confirm"), (2, [path, "--plot", "x.gif"], ".png"),
                (1, [self.folder / "none.txt"], "none.txt"), (1, [path, "--head", "L7H0"], "no head L7H0"),
                (1, [path, "--choose", "17", "--holdout", "0.5"], "cannot be chosen"),
                (1, [path, "--cluster", "topic"], "no fields"), (1, [path, "--bos", "nothing such"], "--bos"),
                (1, [self.write("", "empty.txt")], "no sentence pairs")):
            self.bad(status, "scan", "-m", TINY, *args, says=[words])


if __name__ == "__main__":
    main("models/tinystories-656k")
