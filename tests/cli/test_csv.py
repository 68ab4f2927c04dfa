"""--csv of the commands that draw maps: the figures of --json, a cell a line."""

import csv
import io
import unittest

from program import DATA, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
TEXT = "Once upon a time, there was a little girl"
PROMPTS = ('{"prompt": "Lily and Tom played. Lily gave it to", "right": "Tom", "wrong": "Lily"}\n'
           '{"prompt": "Tom and Lily ran. Tom looked at", "right": "Lily", "wrong": "Tom"}\n'
           '{"prompt": "Both are one", "right": "Tom", "wrong": "Tom"}\n')


class Csv(ProgramTest):
    def both(self, *words):
        """Lines of CSV as dictionaries, the JSON, of the same command."""
        text = self.good(*words, "--csv")
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertTrue(all(None not in row and None not in row.values() for row in rows), "columns differ")
        return rows, self.json(*words)

    def same(self, texts, numbers):
        self.assertEqual(len(texts), len(numbers))
        for text, number in zip(texts, numbers):
            if number is None:
                self.assertEqual(text, "")
            else:
                self.assertAlmostEqual(float(text), number, delta=1e-7 * max(1, abs(number)))

    def prompts(self):
        path = self.folder / "prompts.jsonl"
        path.write_text(PROMPTS)
        return path

    def test_rollout(self):
        rows, said = self.both("rollout", "-m", STORIES, TEXT)
        self.same([row["rollout"] for row in rows], sum(said["rollout"], []))
        n = len(said["tokens"])
        self.same([row["flow"] for row in rows[-n:]], said["flow"])
        self.same([row["mean"] for row in rows[-n:]], said["mean"])
        self.assertEqual(rows[-1]["key_token"], said["tokens"][-1]["text"])

    def test_score(self):
        rows, said = self.both("score", "-m", STORIES, TEXT)
        self.same([row["log_prob"] for row in rows], [token["log_prob"] for token in said["tokens"]])
        self.assertEqual([row["token"] for row in rows], [token["text"] for token in said["tokens"]])
        rows, said = self.both("score", "-m", STORIES, "--pairs", self.prompts())
        self.same([row["lead"] for row in rows], [text["lead"] for text in said["texts"]])
        leads = [text["lead"] for text in said["texts"]]
        self.same([row["right"] for row in rows], [0.5 + (lead > 0) / 2 - (lead < 0) / 2 for lead in leads])
        self.assertEqual([int(row["line"]) for row in rows], [text["line"] for text in said["texts"]])
        questions = self.folder / "questions.jsonl"
        questions.write_text('{"prompt": "Tom has a", "choices": [" cat", " big dog"], "answer": 1}\n'
                             '{"prompt": "Lily is", "choices": [" sad", " happy"]}\n')
        rows, said = self.both("score", "-m", STORIES, "--choices", questions)
        choices = [choice for question in said["questions"] for choice in question["choices"]]
        for name in ("log_prob", "n_tokens", "n_bytes"):
            self.same([row[name] for row in rows], [choice[name] for choice in choices])
        for name in ("best", "best_byte", "best_token"):
            self.assertEqual([int(row["choice"]) for row in rows if row[name] == "1"], [q[name] for q in said["questions"]])
        self.assertEqual([row["right"] for row in rows], ["0", "1", "", ""])
        self.bad(2, "score", "-m", STORIES, TEXT, "--csv", "--json", says=["one of the two"])
        self.bad(2, "score", "-m", STORIES, TEXT, "--csv", "--tokens", says=["leave --tokens out"])

    def test_values(self):
        rows, said = self.both("values", "-m", STORIES, TEXT, "--layer", "L1")
        self.same([row["weight"] for row in rows], sum((head["weights"] for head in said["heads"]), []))
        self.same([row["size"] for row in rows], sum((head["sizes"] for head in said["heads"]), []))
        rows, said = self.both("values", "-m", STORIES, TEXT, "--head", "L1H2")
        n = len(said["tokens"])
        self.assertEqual(len(rows), n * n)
        self.same([row["weight"] for row in rows[-n:]], said["heads"][0]["weights"])

    def test_lens(self):
        rows, said = self.both("lens", "-m", STORIES, TEXT, "--word", "#300")
        cells = sum(said["stages"], [])
        for name in ("kl", "loss", "p_answer"):
            self.same([row[name] for row in rows], [cell[name] for cell in cells])
        self.same([row["p_300"] for row in rows], [cell["words"][0]["p"] for cell in cells])
        self.assertEqual([int(row["top_id"]) for row in rows], [cell["top"][0]["id"] for cell in cells])

    def test_pairs(self):
        """Of a pair file; the line that cannot be used is named."""
        for command in ("lens", "attribute"):
            words = (command, "-m", STORIES, "--pairs", self.prompts())
            rows, said = self.both(*words)
            self.assertEqual([line["line"] for line in said["skipped"]], [3])
            self.assertIn("1 line left out: line 3", self.good(*words))
            if command == "lens":
                self.same([row["lead"] for row in rows], [stage["lead"] for stage in said["stages"]])
                self.same([row["ci_low"] for row in rows], [stage["ci"][0] for stage in said["stages"]])
            else:
                self.same([row["value"] for row in rows], [part["value"] for part in said["parts"]])
                self.same([row["ci_high"] for row in rows], [part["ci"][1] for part in said["parts"]])

    def test_attribute(self):
        rows, said = self.both("attribute", "-m", STORIES, TEXT, "--metric", "logit: #300 - #301", "--sources")
        parts = [row for row in rows if not row["source"]]
        self.same([row["value"] for row in parts], [part["value"] for part in said["parts"]])
        self.same([row["value"] for row in rows if row["source"]],
                  sum((part["sources"] for part in said["parts"] if "sources" in part), []))

    def test_compose(self):
        rows, said = self.both("compose", "-m", STORIES, "--kind", "k")
        self.same([row["score"] for row in rows], [score for row in said["k"] for score in row if score is not None])

    def test_copying(self):
        names = self.folder / "names.txt"
        names.write_text("#300\n#301\n")
        rows, said = self.both("circuit", "-m", STORIES, "--names", names)
        self.same([row["against"] for row in rows], [head["against"] for head in said["heads"]])
        rows, said = self.both("circuit", "-m", STORIES, "--eigen")
        self.same([row["eigen"] for row in rows], [head["eigen"] for head in said["heads"]])

    def test_patch(self):
        words = ("patch", "-m", STORIES, "--metric", "logit: #300 - #301", "--ids", "1,403,407,261,378",
                 "--corrupted-ids", "1,403,400,261,378")
        for site, by, names in (("resid_pre", "default", ["layer", "position", "token", "value"]),
                                ("v", "default", ["layer", "kv_head", "value"]),
                                ("pattern", "head", ["layer", "head", "value"]), ("z", "layer", ["layer", "value"])):
            rows, said = self.both(*words, "--site", site, "--by", by)
            self.assertEqual(list(rows[0]), names)
            self.same([row["value"] for row in rows], sum(said["cells"], []))

    def test_ablate(self):
        rows, said = self.both("ablate", "-m", STORIES, "--pairs", self.prompts())
        for name in ("value", "effect", "right"):
            self.same([row[name] for row in rows], [target[name] for target in said["targets"]])
        self.assertEqual((rows[9]["kind"], rows[9]["ablated"], rows[9]["ci_low"] != ""), ("each", "L1H1", True))
        rows, said = self.both("ablate", "-m", STORIES, TEXT, "--metric", "loss", "--heads", "L1H1,L2H3", "--mlp", "L0")
        self.assertEqual((rows[0]["kind"], rows[0]["ablated"]), ("set", "L1H1 L2H3 L0.mlp_out"))
        self.same([rows[0]["effect"]], [said["targets"][0]["effect"]])

    def test_steer(self):
        for name in ("toward", "away"):
            (self.folder / name).write_text(f"Lily was {'glad' if name == 'away' else 'sad'} today\n")
        words = ("steer", "-m", STORIES, "--toward", self.folder / "toward", "--away", self.folder / "away", "--metric",
                 "logit: #300 - #301", TEXT, "--layer", "L1-L2")
        rows, said = self.both(*words)
        self.same([row["effect"] for row in rows], [point["effect"] for point in said["points"]])
        self.same([row["control_low"] for row in rows], [point["control"]["low"] for point in said["points"]])

    def test_one_of_two(self):
        for words in (("rollout", TEXT), ("values", TEXT), ("lens", TEXT), ("attribute", TEXT, "--metric", "logit: #3"),
                      ("compose",), ("patch", TEXT)):
            self.bad(2, words[0], "-m", STORIES, *words[1:], "--json", "--csv", says=["one of the two"])


if __name__ == "__main__":
    main("models/stories260K")
