"""The shared library offers what the headers declare; tools/check-symbols sees a name too many and one too few."""

import os
import shutil
import subprocess
import unittest

from repo import BUILD, ROOT, RepoTest, tool

symbols = tool("check-symbols")
HEADER = "#define HSC_API\nHSC_API const char *hsc_one(void);\nHSC_API HSC_MUST hsc_status hsc_two(int *a,\n   int b);\n"


class Symbols(RepoTest):
    def build(self, source):
        """A checkout whose library is made from this C text."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.skipTest("skipped: no C compiler on the path")
        root = self.tree({"include/headscope.h": HEADER, "tests/symbols.txt": "hsc_one\nhsc_two\n", "a.c": source,
                          "build/here": ""})
        library = os.path.join(root, "build", "libheadscope.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, os.path.join(root, "a.c")], check=True)
        return root

    def test_this_checkout(self):
        self.assertEqual(symbols.check(ROOT, os.path.join(BUILD, "libheadscope.so")), [])

    def test_a_library_that_agrees(self):
        self.assertEqual(symbols.check(self.build("int hsc_one, hsc_two; static int x; int *y(void);")), [])

    def test_a_name_too_few_and_one_too_many(self):
        complaints = symbols.check(self.build("int hsc_one, hsc_three;"))
        self.assertComplains(complaints, "hsc_two: in tests/symbols.txt, not in lib", "hsc_three: in libheadscope.so, not")

    def test_internal_and_foreign_names(self):
        complaints = symbols.check(self.build("int hsc_one, hsc_two, hsc__inner, other;"))
        self.assertEqual([c for c in complaints if c.endswith("not hsc_...")],
                         ["hsc__inner: not hsc_...", "other: not hsc_..."])

    def test_header_and_list_must_agree(self):
        root = self.build("int hsc_one, hsc_two;")
        with open(os.path.join(root, "tests/symbols.txt"), "w", encoding="utf-8") as f:
            f.write("hsc_one\n")
        self.assertComplains(symbols.check(root), "hsc_two: in the headers, not", "hsc_two: in libheadscope.so, not")

    def test_no_library(self):
        root = self.build("int hsc_one, hsc_two;")
        os.remove(os.path.join(root, "build", "libheadscope.so"))
        self.assertComplains(symbols.check(root), "not built")


if __name__ == "__main__":
    unittest.main()
