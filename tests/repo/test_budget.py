"""tools/check-budget accepts this checkout and sees long functions, long files, long lines and a missing comment."""

import unittest

from repo import ROOT, RepoTest, tool

budget = tool("check-budget")


def function(name, lines):
    return f"static int {name}(int a,\n    int b)\n{{\n" + "    a++; /* { */\n" * (lines - 4) + "}\n"


class Budget(RepoTest):
    def test_this_checkout(self):
        self.assertEqual(budget.check(ROOT), [])

    def test_sizes_of_functions(self):
        text = "/* Role. */\nint x;\n\n" + function("small", 60) + "\n/* Why.\n */\n" + function("large", 61)
        self.assertEqual(list(budget.functions(text)), [("small", 60), ("large", 61)])
        self.assertComplains(budget.check(self.tree({"src/base/a.c": text})), "src/base/a.c:large: 61 lines")
        self.assertEqual(budget.check(self.tree({"src/kernels/ref/a.c": text})), [])

    def test_sizes_of_files_and_lines(self):
        root = self.tree({"src/base/a.c": "/* Role. */\n" + "int x;\n" * 600, "src/base/b.c": "/* " + "x" * 115 + " */\n",
                          "include/c.h": "int x;\n"})
        self.assertComplains(budget.check(root), "include/c.h: opens with no comment", "src/base/a.c: 601 lines",
                             "src/base/b.c:1: 121 characters")

    def test_exceptions_are_named(self):
        root = self.tree({"src/base/a.c": "/* Role. */\n" + function("large", 61)})
        budget.LONG_FUNCTIONS["src/base/a.c:large"] = "for this test"
        self.addCleanup(budget.LONG_FUNCTIONS.pop, "src/base/a.c:large")
        self.assertEqual(budget.check(root), [])
        self.assertIn("src/base/a.c:large: no longer needs its exception", budget.check(ROOT))


if __name__ == "__main__":
    unittest.main()
