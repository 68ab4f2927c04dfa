"""tools/check-words accepts this checkout and sees paths of one machine, registries' hosts and unfinished notes."""

import unittest

from repo import ROOT, RepoTest, tool

words = tool("check-words")


class Words(RepoTest):
    def test_this_checkout(self):
        self.assertEqual(words.check(ROOT), [])

    def test_paths_and_hosts(self):
        root = self.tree({"a.md": "see /work/main\n", "b.py": "\n# from https://pypi.org/simple\n", "dev": "/opt/x\n"})
        self.assertComplains(words.check(root), "a.md:1: '/work/'", "b.py:2: 'pypi.org'", "dev:1: '/opt/'")

    def test_what_is_no_path_of_a_machine(self):
        self.assertEqual(words.check(self.tree({"a.md": "docs/work/x ../opt/y ~/work/z hsc_session\n"})), [])

    def test_unfinished_code(self):
        root = self.tree({"a.c": "/* TODO: more */\n#if 0\n#endif \n", "b.md": "TODO\n"})
        self.assertComplains(words.check(root), "a.c:1: 'TODO'", "a.c:2", "a.c:3")


if __name__ == "__main__":
    unittest.main()
