"""Each public header stands alone as C11, C17 and C++, and the program in headscope.h's opening comment compiles."""

import os
import re
import shutil
import subprocess
import unittest

import repo  # noqa: F401  (finds tools/)
import checklib
from repo import ROOT, RepoTest

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include")]


class Header(RepoTest):
    def compile(self, program, *arguments, text):
        if not shutil.which(program):
            self.skipTest(f"skipped: no {program}")
        done = subprocess.run([program, *WARNINGS, *arguments, "-"], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def compile_each(self, program, *arguments):
        for name in checklib.c_files(ROOT, ("include",)):
            with self.subTest(header=name):
                self.compile(program, *arguments, text=f'#include "{name[len("include/"):]}"\n')

    def test_c11(self):
        self.compile_each("gcc", "-std=c11", "-x", "c")

    def test_c17(self):
        self.compile_each("gcc", "-std=c17", "-x", "c")

    def test_cpp(self):
        self.compile_each("g++", "-std=c++11", "-x", "c++")

    def test_the_example(self):
        with open(os.path.join(ROOT, "include", "headscope.h"), encoding="utf-8") as f:
            comment = f.read().split("A complete program:")[1].split("Rules that hold")[0]
        body = re.findall(r"^ \*     (.*)$", comment, re.M)
        self.assertTrue(body, "the example is gone")
        program = '#include "headscope.h"\n#include <stdio.h>\nint main(void)\n{\n' + "\n".join(body) + "\nreturn 0;\n}\n"
        self.compile("gcc", "-std=c17", "-x", "c", "-Wno-unused-result", text=program)


if __name__ == "__main__":
    unittest.main()
