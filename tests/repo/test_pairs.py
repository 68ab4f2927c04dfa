"""The sentence pairs of data/pairs: as many as README says, each differs in one word, and the controls are current."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "data" / "pairs"))
import pairs


class Pairs(unittest.TestCase):
    def test_enough(self):
        counts = {path.name: sum(1 for _ in pairs.lines(path)) for path in pairs.sources()}
        self.assertGreaterEqual(len(counts), 8)
        self.assertGreaterEqual(sum(counts.values()), 200)
        self.assertIn(f"{sum(counts.values())} pairs", (pairs.HERE / "README.md").read_text())

    def test_one_word_differs_and_stands_before_the_query(self):
        for path in pairs.sources():
            for parts in pairs.lines(path):
                with self.subTest(file=path.name, pair=parts):
                    x, y = parts[pairs.place(parts, "swap")][1]
                    self.assertNotEqual(x, y)
                    self.assertEqual((len(x.split()), len(y.split())), (1, 1))
                    query = pairs.place(parts, "q")
                    self.assertTrue(query is None or query > pairs.place(parts, "swap"))

    def test_no_rule_of_place_wins(self):
        for path in pairs.sources():
            _, first, nearest, _, _ = pairs.balance(path)
            self.assertLess(abs(first - nearest), 0.25, path.name)

    def test_controls_are_current(self):
        for path in pairs.sources():
            self.assertEqual(path.with_name(path.stem + ".control.txt").read_text(), pairs.controls(path), path.name)


if __name__ == "__main__":
    unittest.main()
