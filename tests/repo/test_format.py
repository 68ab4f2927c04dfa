"""The C files are as clang-format 14 has them; skipped where that version is not installed."""

import sys
import unittest

from repo import ROOT, RepoTest, tool

form = tool("check-format")


class Format(RepoTest):
    def test_this_checkout(self):
        self.assertEqual(form.check(ROOT), [])

    def test_another_format_is_seen(self):
        settings = {".clang-format": form.checklib.read(ROOT, ".clang-format")}
        root = self.tree({**settings, "src/base/a.c": "int f(int a)\n{\n    return a;\n}\n\nint  x;\n"})
        self.assertComplains(form.check(root), "src/base/a.c:6: not as clang-format 14")


if __name__ == "__main__":
    if not form.clang_format()[0]:
        print(f"skipped: needs clang-format {form.VERSION}, found {form.clang_format()[1]}")
        sys.exit(77)
    unittest.main()
