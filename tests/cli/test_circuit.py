"""headscope circuit and compose: what their tables and their JSON hold, and what is refused."""

import csv
import io
import math
import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers, 8 heads on 4 kv heads, 512 words
TINY = DATA / "models" / "tinystories-656k"  # 2 layers; no name of the standard list is one token


class Circuit(ProgramTest):
    def setUp(self):
        super().setUp()
        self.names = self.folder / "names.txt"
        self.names.write_text("Lily\n#301\nnobody-has-this-name\n#300\n")

    def circuit(self, *words):
        return self.json("circuit", "-m", STORIES, "--names", self.names, *words)

    def test_head(self):
        got = self.circuit("L2H3", "--top", "4")
        self.assertEqual((got["n_names"], len(got["ov"]), len(got["qk"]), len(got["ov_against"])), (3, 4, 4, 4))
        self.assertGreater(got["n_inputs"], 50)
        for kind, turn in (("ov", 1), ("qk", 1), ("ov_against", -1)):
            numbers = [turn * pair["value"] for pair in got[kind]]
            self.assertEqual(numbers, sorted(numbers, reverse=True))
        (word,) = self.circuit("L2H3", "--top", "4", "--word", "Lily")["words"]
        self.assertEqual((word["text"], len(word["writes"]), len(word["keys"])), (" Lily", 5, 5))
        everything = self.circuit("L2H3", "--all")
        self.assertEqual(everything["n_inputs"], 512)
        self.assertGreaterEqual(everything["ov"][0]["value"], got["ov"][0]["value"])

    def test_copying(self):
        got = self.circuit("--plot", self.folder / "a.svg")
        self.assertEqual(len(got["heads"]), 40)
        one = self.circuit("L2H3")
        (head,) = (h for h in got["heads"] if (h["layer"], h["head"]) == (2, 3))
        self.assertAlmostEqual(head["copying"], one["copying"], delta=1e-9)
        self.assertAlmostEqual(head["against"], one["against"], delta=1e-9)
        self.assertIsNone(got["heads"][0]["copying"])
        self.assertGreater((self.folder / "a.svg").stat().st_size, 1000)

    def test_text(self):
        text = self.good("circuit", "-m", STORIES, "--names", self.names, "L2H3")
        for words in ("layer 3, head 3 (L2H3) on", "of 3 names", "3 of 4 names are one token", "OV, what is written most",
                      "QK at distance 0: query -> key"):
            self.assertIn(words, text)
        self.assertEqual(text, self.good("circuit", "-m", STORIES, "--names", self.names, "L2H3", "-t", "3"))
        self.assertIn("Heads that copy", self.good("circuit", "-m", STORIES, "--names", self.names))
        self.assertIn(": itself is number", self.good("circuit", "-m", STORIES, "L2H3", "--names", self.names, "--word",
                                                      "#301"))

    def test_no_name_is_a_token(self):
        """A head is asked about a word also where none of the standard names is one token."""
        self.bad(1, "circuit", "-m", TINY, says=["none of 64 names is one token"])
        self.assertIn("none of 64 names is one token",
                      self.good("circuit", "-m", TINY, "L1H3", "--word", "#300"))
        got = self.json("circuit", "-m", TINY, "L1H3", "--word", "#300")
        self.assertEqual((got["n_names"], got["copying"], got["against"], len(got["words"])), (0, None, None, 1))
        self.names.write_text("nobody-has-this-name\n")
        self.bad(1, "circuit", "-m", STORIES, "--names", self.names, "L2H3", "--word", "#300", says=["none of 1 names"])

    def test_names(self):
        """Lines of any end; a zero byte is part of a name that is no token."""
        self.names.write_bytes(b"Lily\r\n\n#301\n\0\nLi\0ly\n#300")
        text = self.good("circuit", "-m", STORIES, "--names", self.names, "L2H3")
        self.assertIn("3 of 5 names are one token", text)

    def test_word(self):
        """A word by itself says what it says among all."""
        (alone,) = self.circuit("L2H3", "--all", "--word", "#301")["words"]
        rows = list(csv.DictReader(io.StringIO(self.good("circuit", "-m", STORIES, "--names", self.names, "L2H3", "--all",
                                                         "--csv"))))
        self.assertEqual(len(rows), 3 * 512 * 5)
        for kind, name in (("ov", "writes"), ("ov_against", "against"), ("qk", "keys")):
            own = [row for row in rows if row["kind"] == kind and row["from_id"] == "301"]
            self.assertEqual([int(row["to_id"]) for row in own], [word["id"] for word in alone[name]])
            for row, word in zip(own, alone[name]):
                self.assertAlmostEqual(float(row["value"]), word["value"], delta=1e-6)

    def test_distance(self):
        first = self.circuit("L2H3", "--word", "#301")["words"]
        self.assertEqual(self.circuit("L2H3", "--word", "#301", "--distance", "0")["words"], first)
        self.assertNotEqual(self.circuit("L2H3", "--word", "#301", "--distance", "2")["words"][0]["keys"],
                            first[0]["keys"])
        self.assertIn("QK at distance 3", self.good("circuit", "-m", STORIES, "--names", self.names, "L2H3",
                                                    "--distance", "3"))

    def test_eigen(self):
        heads = self.json("circuit", "-m", STORIES, "--eigen")["heads"]
        self.assertEqual(len(heads), 40)
        self.assertTrue(all(-1 <= head["eigen"] <= 1 for head in heads))
        self.assertGreater(max(h["eigen"] for h in heads) - min(h["eigen"] for h in heads), 0.5)
        text = self.good("circuit", "-m", STORIES, "--eigen", "--plot", self.folder / "e.png", "--top", "1")
        best = max(heads, key=lambda head: head["eigen"])
        self.assertIn(f"{best['eigen']:+.3f}  layer {best['layer'] + 1}, head {best['head']} ", text)
        self.assertEqual(text, self.good("circuit", "-m", STORIES, "--eigen", "--top", "1", "-t", "1"))
        self.assertGreater((self.folder / "e.png").stat().st_size, 1000)

    def test_compose(self):
        got = self.json("compose", "-m", STORIES)
        self.assertAlmostEqual(got["random"], 1 / math.sqrt(64), delta=1e-9)
        for kind in "qkv":
            for i, row in enumerate(got[kind]):
                for k, score in enumerate(row):
                    self.assertEqual(score is None, i // 8 >= k // 8)
                    if score is not None:
                        self.assertTrue(0 <= score <= 1)
        picture = self.folder / "a.png"
        text = self.good("compose", "-m", STORIES, "--kind", "k", "--head", "L2H3", "--top", "3", "--plot", picture)
        self.assertIn("would score 0.1250, 1 / sqrt(64)", text)
        self.assertEqual(text.count("(L2H3)"), 3)
        self.assertGreater(picture.stat().st_size, 1000)
        self.good("compose", "-m", STORIES, "--kind", "v", "--plot", self.folder / "b.svg")

    def test_refused(self):
        for word in ("H3", "L1H2x", "L4294967297H2", "L1H-1"):
            self.bad(2, "circuit", "-m", STORIES, word, says=[f"'{word}' is no head"])
        self.bad(2, "circuit", "-m", STORIES, "--word", "Lily", says=["want a head"])
        self.bad(2, "circuit", "-m", STORIES, "--distance", "1", says=["want a head"])
        self.bad(2, "circuit", "-m", STORIES, "--eigen", "L2H3", says=["--eigen is about all heads"])
        self.bad(2, "circuit", "-m", STORIES, "--json", "--csv", says=["one of the two"])
        self.bad(1, "circuit", "-m", STORIES, "--names", self.names, "L2H0", "--distance", "512", says=["distance is 512"])
        self.bad(1, "circuit", "-m", STORIES, "--names", self.names, "L9H0", says=["L9H0"])
        self.bad(1, "circuit", "-m", STORIES, "--names", self.names, "L2H0", "--word", "#512", says=["--word"])
        for words in (("compose", "-m", STORIES, "--head", "L9H9"), ("circuit", "-m", STORIES, "L9H9")):
            self.bad(1, *words, says=["no head L9H9", "layers L0 to L4 with heads H0 to H7"])
        self.bad(2, "compose", "-m", STORIES, "--plot", "a.png", says=["--kind"])


if __name__ == "__main__":
    main("models/stories260K", "models/tinystories-656k")
