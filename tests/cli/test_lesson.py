"""headscope lesson: every program's whole output, alone and inside headscope, on every instruction set, against the stored
one; measured times and bytes are left out. The stored outputs were checked against PyTorch by tests/peers.

    test_lesson.py --write      stores what the program prints now
"""

import os
import pathlib
import re
import site
import subprocess
import sys
import unittest

from program import PATIENCE, PROGRAM, SOURCE, ProgramTest, environment, main

STORED = SOURCE / "tests" / "golden" / "lesson"
SOURCES = sorted((SOURCE / "examples" / "lesson").glob("[0-9][0-9]_*.c"))
ALONE = pathlib.Path(PROGRAM).parent / "lesson"
SMOLLM2 = os.environ.get("HEADSCOPE_SMOLLM2")
SMOLLM2 = SMOLLM2 if SMOLLM2 and os.path.exists(SMOLLM2) else None
MEASURED = "09_cost"
ASK_A_MODEL = ("08_next_words", "16_wide")


def minilm():
    """A folder of all-MiniLM-L6-v2: HEADSCOPE_MINILM, else what an installed package carries; None where there is none."""
    named = os.environ.get("HEADSCOPE_MINILM")
    if named:
        return named if os.path.exists(named) else None
    for folder in site.getsitepackages():
        for found in pathlib.Path(folder).glob("*[mM]ini*[lL][mM]*/**/config.json"):
            if (found.parent / "model.safetensors").exists():
                return str(found.parent)
    return None


MINILM = minilm()
MINILM_NAME = "all-MiniLM-L6-v2"


def masked(name, text):
    """The output without what was measured: the numbers of the table below its first line."""
    if name != MEASURED:
        return text
    first, rest = text.split("\n", 1)
    return first + "\n" + re.sub(r" +\d+(\.\d+)?(?=[ \n])", " #", rest).replace("window #", "window 128")


def number(source):
    return int(source.name[:2])


def stored(name):
    return (STORED / f"{name}.txt").read_text()


class Lesson(ProgramTest):
    def levels(self):
        """Instruction sets that this machine has."""
        names = ("ref", "avx2", "avx512", "neon")
        return [n for n in names if self.run_program("--version", env={"HEADSCOPE_ISA": n}).returncode == 0]

    def test_inside_headscope(self):
        for level in self.levels():
            for source in SOURCES:
                if source.stem == MEASURED and level == "ref":
                    continue  # tens of seconds without vectors
                with self.subTest(lesson=source.stem, level=level):
                    text = self.good("lesson", number(source), env={"HEADSCOPE_ISA": level})
                    self.assertEqual(masked(source.stem, text), stored(source.stem))

    def test_alone(self):
        for source in SOURCES:
            with self.subTest(lesson=source.stem):
                program = ALONE / source.stem
                self.assertTrue(program.exists(), f"no {program}")
                text = self.output(program)
                self.assertEqual(masked(source.stem, text), stored(source.stem))

    def output(self, program, *args):
        done = subprocess.run([str(program), *args], capture_output=True, timeout=300 * PATIENCE, env=environment())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def test_with_a_model(self):
        if not SMOLLM2:
            self.skipTest("skipped: no HEADSCOPE_SMOLLM2")
        for name in ASK_A_MODEL:
            for level in self.levels():
                if level == "ref":
                    continue
                with self.subTest(lesson=name, level=level):
                    text = self.good("lesson", name[:2], "-m", SMOLLM2, env={"HEADSCOPE_ISA": level})
                    self.assertEqual(text, stored(name + ".smollm2"))
            self.assertEqual(self.output(ALONE / name, SMOLLM2), stored(name + ".smollm2"))
        text = self.good("lesson", "wide", env={"HEADSCOPE_MODEL": SMOLLM2})
        self.assertEqual(text, stored("16_wide.smollm2"))

    def minilm(self):
        """A folder of the model's own name, which the program prints, whatever the package calls it."""
        if not MINILM:
            self.skipTest("skipped: no HEADSCOPE_MINILM and no package that carries all-MiniLM-L6-v2")
        folder = self.folder / MINILM_NAME
        folder.symlink_to(MINILM)
        return folder

    def test_with_an_encoder(self):
        folder = self.minilm()
        for level in self.levels():
            with self.subTest(level=level):
                text = self.good("lesson", "16", "-m", folder, env={"HEADSCOPE_ISA": level})
                self.assertEqual(text, stored("16_wide.minilm"))
        self.assertEqual(self.output(ALONE / "16_wide", folder), stored("16_wide.minilm"))
        text = self.good("lesson", "8", "-m", folder)
        self.assertEqual(text, stored("08_next_words") + f"\n{MINILM_NAME} looks both ways: it has no next word to guess\n")

    def test_known_head(self):
        """What transformers says of layer 4, head 1 of MiniLM: its weights from "it" on both words, in both sentences."""
        text = self.good("lesson", "16", "-m", self.minilm())
        from_it = text.split('from "it"', 1)[1].splitlines()
        self.assertEqual(from_it[1], "layer  4, head  1 (L3H1): animal 0.64 -> 0.27, street 0.05 -> 0.13")

    def test_full_disk(self):
        """A program says so when what it prints cannot be written, by itself and inside headscope."""
        if not os.path.exists("/dev/full"):
            self.skipTest("skipped: no /dev/full")
        for command in ([ALONE / "01_lookup"], [ALONE / "07_causal"], [PROGRAM, "lesson", "1"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(list(map(str, command)), stdout=full, stderr=subprocess.PIPE, timeout=60 * PATIENCE,
                                      env=environment())
            self.assertEqual(done.returncode, 1, command)
            self.assertRegex(done.stderr.decode(), r"\Aheadscope: cannot write to standard output.*\n\Z")

    def test_cost_grows_as_it_should(self):
        """Bytes do not depend on how busy the machine is: the table is quadratic, tiles are linear at most."""
        lines = self.good("lesson", "cost").splitlines()
        memory = {line[:14].strip(): float(line.split()[-1]) for line in lines[lines.index("memory in KiB") + 1 :]}
        self.assertTrue(1.8 < memory["full table"] <= 2.05, memory)
        for way in ("tiles", "window 128", "cache, a token"):
            self.assertTrue(0.5 < memory[way] <= 1.05, memory)

    def test_list_and_all(self):
        text = self.good("lesson")
        for source in SOURCES:
            self.assertRegex(text, rf"(?m)^ ?{number(source)}  {source.stem[3:]} +\w")
        self.assertEqual(len(re.findall(r"(?m)^ ?\d+  ", text)), len(SOURCES))
        text, at = self.good("lesson", "--all"), 0
        for source in SOURCES:
            begin = text.index(f"{number(source)}. ", at)
            at = text.index("\n\n", begin) + 2
            end = text.find(f"\n{number(source) + 1}. ", at) if number(source) < len(SOURCES) else len(text)
            self.assertEqual(masked(source.stem, text[at:end]), stored(source.stem))

    def test_by_name(self):
        self.assertEqual(self.good("lesson", "causal"), stored("07_causal"))
        self.assertEqual(self.good("lesson", "07"), stored("07_causal"))

    def test_pictures(self):
        for word, ending, begins in (("7", "png", b"\x89PNG"), ("9", "svg", b"<?xml"), ("14", "pdf", b"%PDF")):
            path = self.folder / f"a.{ending}"
            done = self.run_program("lesson", word, "--plot", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"wrote {path}", done.stderr.decode())
            self.assertTrue(path.read_bytes().startswith(begins))
        svg = self.folder / "b.svg"
        self.good("lesson", "2", "--plot", svg)
        self.assertIn(">sqrt(d_k)<", svg.read_text())

    def test_kinds(self):
        """The list of the programs says truly which of them draw and which ask a model."""
        for source in SOURCES:
            text, word = source.read_text(), str(number(source))
            with self.subTest(lesson=source.stem):
                if "lesson_show_" in text:
                    if source.stem != MEASURED:
                        self.good("lesson", word, "--plot", self.folder / "c.svg")
                else:
                    self.bad(2, "lesson", word, "--plot", "c.svg", says=["has nothing to draw"])
                if "lesson_open" not in text:
                    self.bad(2, "lesson", word, "-m", "none", says=["asks no model"])
                    if source.stem != MEASURED:
                        self.good("lesson", word, env={"HEADSCOPE_MODEL": "/none"})

    def test_refusals(self):
        self.bad(2, "lesson", "17", says=["no lesson '17'", "1 to 16"])
        self.bad(2, "lesson", "0", says=["no lesson '0'"])
        self.bad(2, "lesson", "casual", says=["did you mean causal?"])
        self.bad(2, "lesson", "3", "--all", says=["'3' and --all"])
        self.bad(2, "lesson", "--plot", "a.png", says=["give its number"])
        self.bad(2, "lesson", "7", "--plot", "a.gif", says=[".png, .svg or .pdf"])
        self.bad(2, "lesson", "1", "2", says=["one argument too many"])
        done = self.run_program("lesson", "16", "-m", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none", done.stderr.decode())

    def test_help(self):
        text = self.good("lesson", "--help")
        self.assertTrue(text.startswith("Usage: headscope lesson "))
        self.assertEqual(text, self.good("help", "lesson"))
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_page(self):
        """docs/lesson.md shows the stored outputs, those with a model where there are such."""
        page = (SOURCE / "docs" / "lesson.md").read_text()
        for source in SOURCES:
            shown = [stored(source.stem + (".smollm2" if source.stem in ASK_A_MODEL else ""))]
            if source.stem == "16_wide":
                shown.append(stored("16_wide.minilm"))
            blocks = re.findall(rf"```text\n\$ headscope lesson {number(source)}\b.*\n([^`]*)```", page)
            self.assertEqual([masked(source.stem, block) for block in blocks], shown, source.stem)
        for name in re.findall(r"\]\((?!http)([^)#]+)", page):
            self.assertTrue((SOURCE / "docs" / name).exists(), name)

    def test_sources(self):
        """Short enough to read in one go, public headers only, and known to the list."""
        for source in SOURCES:
            text = source.read_text()
            self.assertTrue(40 <= len(text.splitlines()) <= 100, source.name)
            includes = re.findall(r'#include "(.*?)"', text)
            self.assertEqual(includes, ["lesson.h"], source.name)
            self.assertRegex(self.good("lesson"), rf"(?m)^ ?{number(source)}  {source.stem[3:]} ")


def write():
    class Writer(ProgramTest):
        def runTest(self):
            for source in SOURCES:
                text = masked(source.stem, self.good("lesson", number(source)))
                (STORED / f"{source.stem}.txt").write_text(text)
            for name in ASK_A_MODEL if SMOLLM2 else ():
                (STORED / f"{name}.smollm2.txt").write_text(self.good("lesson", name[:2], "-m", SMOLLM2))
            if MINILM:
                (self.folder / MINILM_NAME).symlink_to(MINILM)
                text = self.good("lesson", "16", "-m", self.folder / MINILM_NAME)
                (STORED / "16_wide.minilm.txt").write_text(text)

    unittest.TextTestRunner().run(Writer())


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        main()
