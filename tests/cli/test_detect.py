"""headscope detect against the same worked out here from the patterns that `headscope run` saves: every detector by its
definition on a text; random sequences; windows; the same bits for threads; what is null; tables, CSV, pictures and refusals."""

import csv
import io
import json
import math
import re
import resource
import signal
import sqlite3
import statistics
import subprocess
import time
import unittest

from program import DATA, PROGRAM, ProgramTest, environment, main, read_safetensors

TINY = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
TEXT = "One day, the hippopotamus, unbelievably, was uninterested. Lily and the hippopotamus smiled. They had fun."
MARKS = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
NAMES = ["previous", "self", "first", "next", "duplicate", "induction", "piece", "punctuation", "cls", "sep", "entropy"]


def figures(row, q, ids, texts, special, tl):
    """One row's figures by the definitions of docs/detectors.md; a key that is not here: the row has none."""
    out = {}
    earlier = [k for k in range(q) if ids[k] == ids[q]]
    tl["previous"] += row[q - 1] if q else 0
    tl["duplicate"] += sum(row[k] for k in earlier)
    if q == 0 or special[q]:
        return out
    out.update(self=row[q], first=row[0], entropy=-sum(p * math.log(p) for p in row if p > 0))
    if not special[q - 1]:
        out["previous"] = row[q - 1]
    if earlier:
        out["duplicate"] = sum(row[k] for k in earlier)
    marks = [k for k in range(q + 1) if texts[k].strip() and set(texts[k].strip()) <= MARKS]
    if marks:
        out["punctuation"] = sum(row[k] for k in marks)
    first = q
    while first not in marks and first - 1 not in marks and not special[first - 1] \
            and not texts[first][0].isspace() and not texts[first - 1][-1].isspace():
        first -= 1
    if first < q:
        out["piece"] = row[first]
    return out


class DetectTest(ProgramTest):
    def write(self, text, name="text.txt"):
        path = self.folder / name
        path.write_text(text)
        return path

    def heads(self, result):
        return {(h["layer"], h["head"]): h for h in result["heads"]}

    def test_database(self):
        path, text = self.folder / "heads.sqlite", self.write(TEXT)
        said = self.json("detect", "-m", TINY, text, "--db", path)
        self.good("detect", "-m", TINY, text, "--db", path)  # again: replaced, not doubled
        self.good("detect", "-m", TINY, text, "--db", path, "--seed", 1)
        with sqlite3.connect(path) as db:
            runs = db.execute("SELECT id, corpus, n_windows, n_tokens, seed FROM detections ORDER BY seed").fetchall()
            rows = db.execute("SELECT layer, head, detector, score, ci_low, weight, query, key, text FROM scores"
                              " WHERE detection = ?", (runs[0][0],)).fetchall()
        self.assertEqual([r[1:] for r in runs], [(str(text), 1, said["n_tokens"], seed) for seed in (0, 1)])
        self.assertEqual(len(rows), len(said["heads"]) * len(NAMES))
        for layer, head, name, score, low, weight, query, key, example in rows:
            want = self.heads(said)[layer, head]["scores"][name]
            if want["score"] is None:
                self.assertIsNone(score)
                continue
            self.assertAlmostEqual(score, want["score"], delta=1e-8)
            self.assertEqual(low is None, want["ci"] is None)
            best = want["best"]
            self.assertEqual((query, key, example), (best["query"], best["key"], best["text"]) if best else (None,) * 3)
        pairs = self.write("One day, [a:Tom] and [b:Mia] had a ball. {Mia|Tom} gave it [q:to] me.\n", "pairs.txt")
        self.good("scan", "-m", TINY, pairs, "--db", path)  # one file for both
        other = self.write("not a database, but long enough to be read as a header of one", "other.sqlite")
        self.bad(1, "detect", "-m", TINY, text, "--db", other, says=["other.sqlite"])

    def test_killed(self):
        """A run that is killed goes on where it stopped, and counts no window twice."""
        text = self.write("".join(f"Day {i}: {TEXT}\n" for i in range(4000)))
        path, words = self.folder / "heads.sqlite", ("detect", "-m", TINY, text, "--windows", 300, "-t", 1)
        process = subprocess.Popen([PROGRAM, *map(str, words), "--db", path], env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept, limit = 0, time.monotonic() + 60
        while kept < 24 and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.01)
            kept = self.kept(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = self.kept(path)
        self.assertGreaterEqual(kept, 24)  # 20 random sequences and the first of the text
        self.assertLess(kept, 320)
        result = self.json(*words, "--db", path)
        self.assertEqual(result.pop("n_loaded"), kept)
        fresh = self.json(*words)
        self.assertEqual(fresh.pop("n_loaded"), 0)
        self.assertEqual(result, fresh)
        self.assertEqual(self.kept(path), 0)  # the scores have taken their place
        text.write_text(text.read_text().replace("Day 0", "Day 1", 1))
        self.assertEqual(self.json(*words, "--db", path)["n_loaded"], 0)

    def kept(self, path):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                return db.execute("SELECT count(*) FROM windows").fetchone()[0]
        except sqlite3.Error:
            return 0

    def test_damaged_windows(self):
        """Windows of another text, or that are damaged, are run anew."""
        text, path = self.write(TEXT), self.folder / "heads.sqlite"
        words = ("detect", "-m", TINY, text, "--db", path)
        fresh = self.json(*words)
        with sqlite3.connect(path) as db:
            key = db.execute("SELECT key FROM detections").fetchone()[0]
            for number, digest in ((0, "0123456789abcdef"), (1, "")):
                db.execute("INSERT INTO windows VALUES (?, 'random', ?, ?, x'00')", (key, number, digest))
        self.assertEqual(self.json(*words), fresh)

    def test_definitions(self):
        said = self.json("tokenize", "-m", TINY, TEXT)
        ids, texts = said["ids"], said["tokens"]
        special = [i == 0 for i in range(len(ids))]
        path = self.folder / "patterns.safetensors"
        self.good("run", "-m", TINY, "--text", TEXT, "--sites", "pattern", "-o", path)
        arrays = read_safetensors(path)
        result = self.json("detect", "-m", TINY, self.write(TEXT), "--sequences", 2)
        self.assertEqual((result["n_windows"], result["n_tokens"], result["before"]), (1, len(ids) - 1, ids[0]))
        self.assertFalse(result["cut"])
        for (layer, number), head in self.heads(result).items():
            tl, rows = dict.fromkeys(["previous", "duplicate"], 0.0), []
            for q in range(len(ids)):
                row = arrays[f"pattern.{layer}"].row(number, q)
                rows.append(figures(row, q, ids, texts, special, tl))
            self.assertEqual(list(head["scores"]), NAMES)
            for name in ["previous", "self", "first", "duplicate", "piece", "punctuation", "entropy"]:
                values = [r[name] for r in rows if name in r]
                self.assertGreater(len(values), 2, name)
                score = head["scores"][name]
                self.assertAlmostEqual(score["score"], statistics.fmean(values), delta=2e-6, msg=(layer, number, name))
                if name in tl:
                    self.assertAlmostEqual(score["tl"], tl[name] / len(ids), delta=2e-6)
                if name != "entropy":
                    best = score["best"]
                    self.assertAlmostEqual(best["weight"], max(values), delta=2e-6)
                    self.assertAlmostEqual(best["weight"], rows[best["query"]][name], delta=2e-6)
                    self.assertTrue(best["text"].endswith(texts[best["query"]]))
                    self.assertEqual(best["key_token"]["id"], ids[best["key"]])
            for name in ["next", "cls", "sep"]:
                self.assertEqual(head["scores"][name], {"score": None, "ci": None, "tl": None, "best": None})
            self.assertAlmostEqual(sum(head["distance"]), 1, delta=1e-5)

    def test_windows_and_intervals(self):
        path = self.write("\n".join([TEXT] * 400))
        result = self.json("detect", "-m", TINY, path, "--windows", 3, "--sequences", 2)
        self.assertEqual((result["n_windows"], result["n_tokens"], result["cut"]), (3, 3 * 255, True))
        for head in result["heads"]:
            score = head["scores"]["previous"]
            self.assertLessEqual(score["ci"][0], score["score"])
            self.assertLessEqual(score["score"], score["ci"][1])
        same = self.json("detect", "-m", TINY, path, "--windows", 3, "--sequences", 2, "-t", 3)
        self.assertEqual(result, same)
        piped = self.json("detect", "-m", TINY, "-", "--windows", 3, "--sequences", 2, input=path.read_bytes())
        self.assertEqual(result["heads"], piped["heads"])

    def test_a_file_is_not_read_whole(self):
        """A corpus that ends where a page does, one in a pipe, and one of 8 GiB, of which two windows are read."""
        text = self.write((TEXT * 100)[:8192])
        said = self.json("detect", "-m", TINY, text)
        piped = json.loads(self.good("detect", "-m", TINY, "-", "--json", input=text.read_bytes()))
        self.assertEqual(said["heads"], piped["heads"])
        large = self.folder / "large.txt"
        with large.open("wb") as file:
            file.write(text.read_bytes())
            file.truncate(8 << 30)
        said = self.json("detect", "-m", TINY, large, "--windows", 2)
        self.assertEqual((said["n_windows"], said["cut"]), (2, True))
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2 << 20)  # of KiB, of any child so far

    def test_random_sequences(self):
        first = self.json("detect", "-m", TINY, "--sequences", 3, "--length", 20)
        self.assertIsNone(first["text"])
        self.assertEqual((first["n_sequences"], first["length"], first["n_windows"]), (3, 20, 0))
        for head in first["heads"]:
            scores = head["scores"]
            self.assertEqual(scores["induction"]["best"]["query"] - 19, scores["induction"]["best"]["key"])
            # Each row of the second half has one duplicate, so detect_head's sum is 20 / 41 of the mean.
            self.assertAlmostEqual(scores["duplicate"]["tl"], scores["duplicate"]["score"] * 20 / 41, delta=1e-6)
        other = self.json("detect", "-m", TINY, "--sequences", 3, "--length", 20, "--seed", 1)
        self.assertNotEqual(first["heads"], other["heads"])

    def test_table_and_csv(self):
        path = self.write(TEXT)
        table = self.good("detect", "-m", TINY, path, "--sequences", 2)
        self.assertIn("before every window: <|start_story|>", table)
        self.assertRegex(table, r"(?m)^next +-.* no row can have it$")
        ranked = self.good("detect", "-m", TINY, path, "--sequences", 2, "--by", "previous", "--tl", "--top", 16)
        scores = [float(line.split()[2]) for line in ranked.splitlines() if re.match(r"previous  L\d+H\d+ +\d\.\d{4}\b", line)]
        self.assertEqual(len(scores), 16)
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertIn("64-127", ranked)
        rows = list(csv.DictReader(io.StringIO(self.good("detect", "-m", TINY, path, "--sequences", 2, "--csv"))))
        result = self.heads(self.json("detect", "-m", TINY, path, "--sequences", 2))
        self.assertEqual(len(rows), 16 * len(NAMES))
        for row in rows:
            want = result[int(row["layer"]), int(row["head"])]["scores"][row["detector"]]
            self.assertEqual(row["score"], "" if want["score"] is None else row["score"])
            if want["score"] is not None:
                self.assertAlmostEqual(float(row["score"]), want["score"], delta=1e-8)

    def test_drift(self):
        path = self.write(TEXT)
        other = self.folder / "q8.gguf"
        self.good("convert", "-m", TINY, "-o", other, "--dtype", "q8_0")
        same = self.json("drift", TINY, TINY, path, "--sequences", 2)
        self.assertTrue(all(h["distance"] == 0 and h["largest"] == 0 for h in same["heads"]))
        result = self.json("drift", TINY, other, path, "--sequences", 2)
        patterns = []
        for model in (TINY, other):
            saved = self.folder / "patterns.safetensors"
            self.good("run", "-m", model, "--text", TEXT, "--sites", "pattern", "-o", saved)
            patterns.append(read_safetensors(saved))
        n = patterns[0]["pattern.0"].shape[-1]
        detected = [self.heads(self.json("detect", "-m", m, path, "--sequences", 2)) for m in (TINY, other)]
        for (layer, number), head in self.heads(result).items():
            distances = []
            for q in range(1, n):
                x, y = (p[f"pattern.{layer}"].row(number, q) for p in patterns)
                kl = sum(a * math.log2(2 * a / (a + b)) for a, b in zip(x, y) if a > 0)
                kl += sum(b * math.log2(2 * b / (a + b)) for a, b in zip(x, y) if b > 0)
                distances.append(math.sqrt(max(kl, 0) / 2))
            self.assertGreater(head["distance"], 0)
            self.assertAlmostEqual(head["distance"], statistics.fmean(distances), delta=1e-6)
            self.assertAlmostEqual(head["largest"], max(distances), delta=1e-5)
            for name in NAMES:
                both = [d[layer, number]["scores"][name]["score"] for d in detected]
                self.assertEqual([head["scores"][name]["a"], head["scores"][name]["b"]], both)
        table = self.good("drift", TINY, other, path, "--sequences", 2)
        self.assertIn("mean distance of all 16 heads", table)
        self.assertIn(f"\n{TINY.name}, q8.gguf: Jensen-Shannon distance", table)
        rows = list(csv.DictReader(io.StringIO(self.good("drift", TINY, other, path, "--sequences", 2, "--csv"))))
        self.assertEqual([float(r["distance"]) for r in rows], sorted((h["distance"] for h in result["heads"]), reverse=True))

    def test_drift_refusals(self):
        self.bad(2, "drift", TINY, says=["two files"])
        self.bad(2, "drift", "-m", TINY, TINY, says=["unknown option -m; it is headscope drift A B [CORPUS]"])
        self.bad(1, "drift", TINY, self.folder / "none.gguf", says=["none.gguf"])
        self.bad(2, "drift", TINY, TINY, "--json", "--csv", says=["one of the two"])

    def test_picture(self):
        picture = self.folder / "map.png"
        self.good("detect", "-m", TINY, "--sequences", 2, "--plot", picture)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_refusals(self):
        path = self.write("")
        self.bad(2, "detect", "-m", TINY, "--json", "--csv", says=["one of the two"])
        self.bad(2, "detect", "-m", TINY, "--by", "nonsense", says=["nonsense", "previous", "entropy"])
        self.bad(2, "detect", "-m", TINY, "--by", "indction", says=["did you mean induction?"])
        self.bad(2, "detect", "-m", TINY, "--by", "distance", says=["below those of any --by"])
        self.bad(2, "detect", "-m", TINY, "--plot", "map.txt", says=[".png"])
        self.bad(1, "detect", "-m", TINY, path, says=["no token"])
        self.bad(1, "detect", "-m", TINY, self.folder / "none.txt", says=["none.txt"])
        self.bad(1, "detect", "-m", TINY, "--bos", "<nothing>", says=["--bos <nothing>"])
        own = self.json("detect", "-m", TINY, "--bos", "own")
        self.assertEqual(own["before"], self.json("tokenize", "-m", TINY, "x")["ids"][0])


if __name__ == "__main__":
    main("models/tinystories-656k/tinystories-656k.f32.gguf")
