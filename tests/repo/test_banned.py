"""tools/check-banned accepts this checkout and sees calls, not comments, strings or members of the same name."""

import unittest

from repo import ROOT, RepoTest, tool

banned = tool("check-banned")


class Banned(RepoTest):
    def test_this_checkout(self):
        self.assertEqual(banned.check(ROOT), [])

    def test_everywhere(self):
        root = self.tree({"src/cli/a.c": "\nvoid f(char *s)\n{\n    strcpy(s, s);\n    printf(s);\n}\n",
                          "tests/unit/b.c": "int x = atoi (\"1\");\n"})
        self.assertComplains(banned.check(root), "src/cli/a.c:4: strcpy", "tests/unit/b.c:1: atoi")

    def test_in_the_library(self):
        root = self.tree({"src/model/a.c": "int x = printf(0) + exit(1);\nvoid *p = malloc(1);\n"})
        self.assertComplains(banned.check(root), ":1: printf", ":1: exit", ":2: malloc")

    def test_at_home(self):
        self.assertEqual(banned.check(self.tree({"src/base/alloc.c": "void *p = malloc(1);\n"})), [])

    def test_what_is_no_call(self):
        text = '/* malloc(1) */\nint a = x->free(1) + y.free(2) + hsc__free(3);\nchar *s = "exit(1)"; // abort()\n'
        self.assertEqual(banned.check(self.tree({"src/model/a.c": text})), [])


if __name__ == "__main__":
    unittest.main()
