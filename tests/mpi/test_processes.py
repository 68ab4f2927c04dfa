"""scan and detect on 2 to 4 processes of mpirun on this machine: the answers and the database of one process alone, to the
last bit; a process that fails leaves a database that a later run goes on from. Needs a build with HEADSCOPE_MPI, which
HEADSCOPE_MPI_PROGRAM may name."""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from program import DATA, PROGRAM, SOURCE, ProgramTest, environment, main

TINY = DATA / "models" / "tinystories-656k" / "tinystories-656k.f32.gguf"
PAIRS = SOURCE / "data" / "pairs" / "names.txt"
MPI = os.environ.get("HEADSCOPE_MPI_PROGRAM") or PROGRAM
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun(n, *words):
    return subprocess.run(["mpirun", "--oversubscribe", "-n", str(n), MPI, *map(str, words)], capture_output=True,
                          timeout=300, stdin=subprocess.DEVNULL, env=environment(**AS_ROOT))


def reason():
    """Why there is nothing to test; None: there is."""
    if not shutil.which("mpirun"):
        return "no mpirun"
    done = mpirun(2, "scan", "-m", TINY, PAIRS, "-t", 1, "--top", 1)
    if b"has no MPI" in done.stderr:
        return "the program was built without HEADSCOPE_MPI"
    return None


WHY = reason()


class Processes(ProgramTest):
    def setUp(self):
        super().setUp()
        if WHY:
            self.skipTest(WHY)

    def on(self, n, *words):
        done = mpirun(n, *words)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def test_scan(self):
        words = ("scan", "-m", TINY, PAIRS, "-t", 1, "--json", "--holdout", "0.5", "--null", "weights")
        alone = json.loads(self.good(*words))  # mpirun gives its processes a terminal, so lines are broken elsewhere
        for n in (2, 3, 4):
            self.assertEqual(json.loads(self.on(n, *words)), alone)

    def rows(self, path, sql):
        with sqlite3.connect(path) as db:
            return db.execute(sql).fetchall()

    def test_one_database(self):
        paths = [self.folder / f"{n}.sqlite" for n in (1, 3)]
        self.good("scan", "-m", TINY, PAIRS, "-t", 1, "--db", paths[0])
        self.on(3, "scan", "-m", TINY, PAIRS, "-t", 1, "--db", paths[1])
        for sql in ("SELECT pair, wording, line, cluster, digest, text FROM sentences ORDER BY 1, 2",
                    "SELECT pair, wording, layer, head, a, b, sink FROM weights JOIN sentences ON sentence = id ORDER BY 1, 2, 3, 4",
                    "SELECT layer, head, shift, p_fwer FROM heads ORDER BY 1, 2"):
            self.assertEqual(self.rows(paths[0], sql), self.rows(paths[1], sql))
        again = json.loads(self.on(2, "scan", "-m", TINY, PAIRS, "-t", 1, "--db", paths[1], "--json"))
        self.assertEqual(again["n_loaded"], again["n_used"])

    def children(self, pid):
        listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in listed]

    def kill_one(self, words, path, count):
        """Runs on three processes and kills one of them as soon as `count` finds something. Returns what is kept then."""
        process = subprocess.Popen(["mpirun", "--oversubscribe", "-n", "3", MPI, *map(str, words), "--db", str(path)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=environment(**AS_ROOT))
        for _ in range(3000):
            time.sleep(0.01)
            try:
                if self.rows(path, count)[0][0] > 0:
                    break
            except sqlite3.OperationalError:
                pass
        ranks = self.children(process.pid)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[1], signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(out, b"")
        return self.rows(path, count)[0][0]

    def test_a_killed_process_leaves_a_scan_to_go_on_from(self):
        pairs, path = self.folder / "many.txt", self.folder / "scan.sqlite"
        names = ["Tom", "Mia", "Lily", "Ben", "Sam", "Sue", "Max", "Anna", "Tim", "Jack", "Lucy", "Amy"]
        places = ["sea", "tree", "house", "park", "door", "car", "lake", "farm", "school", "bed", "box", "fire", "hill", "road"]
        lines = [f"One {day} [a:{a}] met [b:{b}] by the {place}. {{{b}|{a}}} gave it [q:to]" for a in names for b in names
                 if a != b for place in places for day in ("day", "night", "time")]
        pairs.write_text("\n".join(lines) + "\n")
        words = ("scan", "-m", TINY, pairs, "-t", 1, "--json")
        kept = self.kill_one(words, path, "SELECT count(DISTINCT pair) FROM sentences")
        self.assertTrue(0 < kept < len(lines), kept)
        result = json.loads(self.on(2, *words, "--db", path))
        self.assertEqual(result["n_loaded"], kept)
        alone = json.loads(self.good(*words))
        self.assertEqual(result["heads"], alone["heads"])

    def test_a_killed_process_leaves_a_detection_to_go_on_from(self):
        text, path = self.folder / "text.txt", self.folder / "heads.sqlite"
        text.write_text("".join(f"Day {i}. {line}\n" for i in range(200) for line in PAIRS.read_text().split("\n")))
        words = ("detect", "-m", TINY, text, "-t", 1, "--json", "--windows", 1200)
        kept = self.kill_one(words, path, "SELECT count(*) FROM windows")
        self.assertTrue(0 < kept < 1220, kept)
        result = json.loads(self.on(2, *words, "--db", path))
        self.assertEqual(result.pop("n_loaded"), kept)
        alone = json.loads(self.good(*words))
        alone.pop("n_loaded")
        self.assertEqual(result, alone)
        self.assertEqual(self.rows(path, "SELECT count(*) FROM windows"), [(0,)])

    def test_detect(self):
        text = self.folder / "text.txt"
        text.write_text(PAIRS.read_text() * 3)
        for words in (("detect", "-m", TINY, text, "-t", 1, "--json", "--tl"), ("detect", "-m", TINY, "-t", 1, "--json")):
            alone = json.loads(self.good(*words))
            for n in (2, 4):
                self.assertEqual(json.loads(self.on(n, *words)), alone)

    def test_refused(self):
        done = mpirun(2, "look", "-m", TINY, "text")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"look does not split its work over processes", done.stderr)
        for command in ("scan", "detect"):
            for path in ("-", "/dev/stdin"):  # each process would get a part of the input, or none
                done = mpirun(2, command, "-m", TINY, path, "-t", 1)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(b"must be a file, no pipe", done.stderr)


if __name__ == "__main__":
    if WHY:
        print(f"skipped: {WHY}")
        raise SystemExit(77)
    main("models/tinystories-656k")
