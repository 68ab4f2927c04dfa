"""./dev: its table and its commands agree, bash can read it, and what it does not know it refuses."""

import os
import re
import subprocess
import unittest

from repo import ROOT, RepoTest, tool

DEV = os.path.join(ROOT, "dev")


def dev(*arguments):
    return subprocess.run(["bash", DEV, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Dev(RepoTest):
    def test_help_lists_every_command(self):
        with open(DEV, encoding="utf-8") as f:
            commands = set(re.findall(r"^cmd_(\w+)\(\)", f.read(), re.M))
        listed = set(re.findall(r"^  (\w+)", dev("help").stdout, re.M))
        self.assertEqual(listed, commands)
        self.assertEqual(dev().stdout, dev("help").stdout)

    def test_syntax(self):
        for script in ("dev", ".ci/run"):
            done = subprocess.run(["bash", "-n", os.path.join(ROOT, script)], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_unknown_words_are_refused(self):
        for arguments in (["frobnicate"], ["test", "--frobnicate"], ["../x"]):
            done = dev(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(arguments[-1], done.stderr)

    def test_the_strongest_head(self):
        def head(name, pos, weight):
            return {"name": name, "best": {"pos": pos, "weight": weight}}

        heads = [head("L0H0", 0, 0.99), head("L0H1", 8, 0.98), head("L0H2", 9, 0.97), head("L1H3", 2, 0.7),
                 head("L2H1", 2, 0.75), head("L2H2", 5, 0.1)]
        strongest = tool("strongest-head").strongest
        self.assertEqual(strongest({"query": {"pos": 9}, "heads": heads})["name"], "L2H1")
        self.assertIsNone(strongest({"query": {"pos": 9}, "heads": heads[:3]}))


if __name__ == "__main__":
    unittest.main()
