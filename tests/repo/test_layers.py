"""tools/check-layers accepts this checkout and sees each kind of arrow that points left."""

import unittest

from repo import ROOT, RepoTest, tool

layers = tool("check-layers")
LEAF = '/* A leaf. */\n#include "headscope.h"\n#include <string.h>\n'


class Layers(RepoTest):
    def test_this_checkout(self):
        self.assertEqual(layers.check(ROOT), [])

    def test_arrows_to_the_right_pass(self):
        root = self.tree({"src/base/a.h": LEAF, "src/kernels/ref/k.h": LEAF,
                          "src/model/arch/m.c": '#include "kernels/ref/k.h"\n#include "base/a.h"\n'})
        self.assertEqual(layers.check(root), [])

    def test_an_arrow_to_the_left_fails(self):
        root = self.tree({"src/base/a.c": '\n#include "model/m.h"\n', "src/model/m.h": LEAF})
        self.assertComplains(layers.check(root), 'src/base/a.c:2: "model/m.h": base may include nothing')

    def test_the_program_sees_only_the_public_header(self):
        root = self.tree({"src/cli/look.c": ' #  include "model/m.h"\n#include "headscope.h"\n', "src/model/m.h": LEAF})
        self.assertComplains(layers.check(root), 'src/cli/look.c:1: "model/m.h"')

    def test_paths_are_written_from_src(self):
        root = self.tree({"src/base/a.c": '#include "a.h"\n#include "base/../base/a.h"\n#include "base/b.h"\n',
                          "src/base/a.h": LEAF})
        self.assertComplains(layers.check(root), "not written from src/", "not written from src/", "does not exist")

    def test_libraries_have_owners(self):
        root = self.tree({"src/model/m.c": "#include <cairo/cairo.h>\n#include <omp.h>\n"})
        self.assertComplains(layers.check(root), "<cairo/cairo.h> belongs to plot", "<omp.h> belongs to base")

    def test_a_public_header_stands_alone(self):
        root = self.tree({"include/headscope.h": '#include "base/a.h"\n', "src/base/a.h": LEAF})
        self.assertComplains(layers.check(root), "a public header")

    def test_examples_see_public_headers(self):
        root = self.tree({"examples/lesson/a.c": '#include "lesson.h"\n#include "headscope/nn.h"\n#include "base/a.h"\n',
                          "examples/lesson/lesson.h": LEAF, "src/base/a.h": LEAF,
                          "src/cli/a.c": '#include "examples/lesson/lesson.h"\n',
                          "src/base/a.c": '#include "examples/lesson/lesson.h"\n'})
        self.assertComplains(layers.check(root), 'examples/lesson/a.c:3: "base/a.h"', "src/base/a.c:1:")

    def test_unknown_folder(self):
        self.assertComplains(layers.check(self.tree({"src/misc/a.c": LEAF, "src/b.c": LEAF})), "src/b.c", "src/misc/a.c")

    def test_a_comment_is_no_include(self):
        root = self.tree({"src/base/a.c": '/*\n#include "model/m.h"\n*/\n// #include "model/m.h"\n'})
        self.assertEqual(layers.check(root), [])

    def test_the_table_has_no_circle(self):
        order = list(layers.MAY_INCLUDE)
        for folder, allowed in layers.MAY_INCLUDE.items():
            for other in allowed:
                self.assertLess(order.index(other), order.index(folder), f"{folder} -> {other}")


if __name__ == "__main__":
    unittest.main()
