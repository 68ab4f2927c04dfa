"""headscope.h stands alone as C11, C17 and C++, and the program in its opening comment compiles."""

import os
import re
import shutil
import subprocess
import unittest

from repo import ROOT, RepoTest

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include")]


class Header(RepoTest):
    def compile(self, program, *arguments, text='#include "headscope.h"\n'):
        if not shutil.which(program):
            self.skipTest(f"skipped: no {program}")
        done = subprocess.run([program, *WARNINGS, *arguments, "-"], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_c11(self):
        self.compile("gcc", "-std=c11", "-x", "c")

    def test_c17(self):
        self.compile("gcc", "-std=c17", "-x", "c")

    def test_cpp(self):
        self.compile("g++", "-std=c++11", "-x", "c++")

    def test_the_example(self):
        with open(os.path.join(ROOT, "include", "headscope.h"), encoding="utf-8") as f:
            comment = f.read().split("A complete program:")[1].split("Rules that hold")[0]
        body = re.findall(r"^ \*     (.*)$", comment, re.M)
        self.assertTrue(body, "the example is gone")
        program = '#include "headscope.h"\n#include <stdio.h>\nint main(void)\n{\n' + "\n".join(body) + "\nreturn 0;\n}\n"
        self.compile("gcc", "-std=c17", "-x", "c", "-Wno-unused-result", text=program)


if __name__ == "__main__":
    unittest.main()
