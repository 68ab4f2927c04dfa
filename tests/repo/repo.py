"""What the tests of the checks share: a tool loaded as a module, and a small checkout made for one test."""

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.environ.get("HEADSCOPE_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("HEADSCOPE") or os.path.join(ROOT, "build", "headscope"))
TOOLS = os.path.join(ROOT, "tools")
sys.path.insert(0, TOOLS)


def tool(name):
    """tools/NAME as a module; its code for the command line does not run."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(TOOLS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class RepoTest(unittest.TestCase):
    maxDiff = None

    def tree(self, files):
        """A folder with these files: name -> text. It is gone after the test."""
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return root

    def assertComplains(self, complaints, *parts):
        """Exactly one complaint a part, in order, each holding its part."""
        self.assertEqual(len(complaints), len(parts), complaints)
        for complaint, part in zip(complaints, parts):
            self.assertIn(part, complaint)
