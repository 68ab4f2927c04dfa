"""headscope score: log-probabilities by their definition, windows, and benchmarks of choices."""

import json
import math
import unittest

from program import DATA, ProgramTest, main, read_safetensors

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
SORT = DATA / "models" / "gpt-nano-sort"
TINY = DATA / "models" / "tinystories-656k"
TEXT = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."


class Score(ProgramTest):
    def logits(self, ids):
        path = self.folder / "logits.safetensors"
        self.good("run", "-m", STORIES, "--ids", ",".join(map(str, ids)), "--sites", "logits", "-o", path)
        return read_safetensors(path)["logits"]

    def log_probs(self, ids):
        """By definition, from a whole pass; the first has none."""
        table, out = self.logits(ids), [None]
        for i in range(1, len(ids)):
            row = table.row(i - 1)
            top = max(row)
            out.append(row[ids[i]] - top - math.log(math.fsum(math.exp(x - top) for x in row)))
        return out

    def test_by_definition(self):
        data = self.json("score", "-m", STORIES, TEXT)
        ids = [token["id"] for token in data["tokens"]]
        want = self.log_probs(ids)
        self.assertIsNone(data["tokens"][0]["log_prob"])
        for token, value in zip(data["tokens"][1:], want[1:]):
            self.assertAlmostEqual(token["log_prob"], value, delta=1e-6)
        total = math.fsum(want[1:])
        self.assertEqual(data["n_scored"], len(ids) - 1)
        self.assertAlmostEqual(data["log_prob"], total, delta=1e-5)
        self.assertAlmostEqual(data["perplexity"], math.exp(-total / (len(ids) - 1)), delta=1e-5)
        self.assertAlmostEqual(data["bits_per_byte"], -total / math.log(2) / len(TEXT), delta=1e-5)
        shown = self.good("score", "-m", STORIES, TEXT, "--tokens")
        self.assertIn(f"perplexity       {data['perplexity']:.4f}\n", shown)
        self.assertEqual(len(shown.splitlines()), 1 + len(ids) + 1 + 5)

    def test_windows(self):
        """Each token is scored once, in the first window that holds it, with the tokens that it has there."""
        ids = [token["id"] for token in self.json("score", "-m", STORIES, TEXT)["tokens"]]
        for window, stride in ((8, 3), (10, 9), (16, 8), (5, 1)):
            data = self.json("score", "-m", STORIES, TEXT, "--max-length", window, "--stride", stride)
            scored, begin = 1, 0
            while scored < len(ids):
                part = self.log_probs(ids[begin : begin + window])
                for at in range(scored, min(begin + window, len(ids))):
                    self.assertAlmostEqual(data["tokens"][at]["log_prob"], part[at - begin], delta=1e-6)
                scored, begin = min(begin + window, len(ids)), begin + stride

    def test_long_text(self):
        """Longer than the context of 512."""
        path = self.folder / "long"
        path.write_text(TEXT * 30)
        data = self.json("score", "-m", STORIES, "--file", path)
        self.assertGreater(data["n_scored"], 700)
        self.assertTrue(all(token["log_prob"] < 0 for token in data["tokens"][1:]))
        again = self.json("score", "-m", STORIES, "--file", path, "-t", 3)
        self.assertEqual(again, data)

    def test_great_context(self):
        """What is made for a text grows with the text and not with the context, which is 16 million tokens here."""
        model = self.folder / "great"
        model.mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            (model / name).symlink_to(TINY / name)
        config = json.loads((TINY / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 24}))
        self.assertEqual(self.json("score", "-m", model, TEXT)["log_prob"], self.json("score", "-m", TINY, TEXT)["log_prob"])

    def test_choices(self):
        lines = [{"prompt": "Once upon a time, there was a little", "choices": [" girl", " xqz", " dog named Tom"], "answer": 0},
                 {"prompt": "She loved to play ", "choices": ["outside", "9"], "answer": "9"},
                 {"prompt": "Tom had a", "choices": [" ball.", " big red ball and he loved it very much."]}]
        path = self.folder / "q.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
        data = self.json("score", "-m", STORIES, "--choices", path)
        self.assertEqual((data["n_questions"], data["n_answered"]), (3, 2))
        self.assertEqual([q["answer"] for q in data["questions"]], [0, 1, None])
        self.assertEqual([q["best"] for q in data["questions"]], [0, 0, 0])
        self.assertEqual(data["accuracy"], 0.5)
        self.assertEqual(data["questions"][2]["best_byte"], 1)
        for question, line in zip(data["questions"], lines):
            for scored, choice in zip(question["choices"], line["choices"]):
                whole = self.json("score", "-m", STORIES, line["prompt"] + choice)["tokens"]
                n = scored["n_tokens"]
                self.assertEqual("".join(token["text"] for token in whole[-n:]).strip(), choice.strip())
                self.assertAlmostEqual(scored["log_prob"], math.fsum(token["log_prob"] for token in whole[-n:]), delta=1e-5)
                self.assertEqual(scored["n_bytes"], len(choice))
        self.assertIn("by sum           0.5000 +- 0.5000", self.good("score", "-m", STORIES, "--choices", path))

    def whole(self, text):
        return self.json("score", "-m", STORIES, text)["log_prob"]

    def test_pairs(self):
        """Leads are those of the choices, and of whole texts with the candidate in the query's place."""
        path = self.folder / "pairs.txt"
        path.write_text("# a comment\nThe [a:dog] saw the [b:cat]. {Max|Sue} likes [q:it] very much.\n"
                        "[a:Tom] met [b:Lily]. It was {her|him} and [q:she] ran.\n"
                        "One day, [a:Tom] and [b:Lily] met [q:him] at {sea|home}.\n")
        said = self.json("score", "-m", STORIES, "--pairs", path)
        self.assertEqual([(line["line"], "same up to the query" in line["why"]) for line in said["skipped"]], [(4, True)])
        prompts = ["The dog saw the cat. Max likes it", "The dog saw the cat. Sue likes it", "Tom met Lily. It was her and she",
                   "Tom met Lily. It was him and she"]
        choices = self.folder / "choices.jsonl"
        answers = [(" dog", " cat"), (" cat", " dog"), (" Tom", " Lily"), (" Lily", " Tom")]
        choices.write_text("\n".join(json.dumps({"prompt": p, "choices": c}) for p, c in zip(prompts, answers)))
        want = [q["choices"][0]["log_prob"] - q["choices"][1]["log_prob"]
                for q in self.json("score", "-m", STORIES, "--choices", choices)["questions"]]
        leads = [text["lead"] for text in said["texts"]]
        for lead, right in zip(leads, want):
            self.assertAlmostEqual(lead, right, delta=1e-5)
        self.assertEqual((said["n_texts"], said["n_pairs"], said["n_clusters"]), (4, 2, 2))
        self.assertEqual(said["n_right"], sum(lead > 0 for lead in leads))
        self.assertEqual(said["n_both"], (min(leads[:2]) > 0) + (min(leads[2:]) > 0))
        self.assertAlmostEqual(said["lead"], sum(leads) / 4, delta=1e-6)
        self.assertLessEqual(said["ci"][0], said["lead"])
        self.assertIn(f"right           {said['n_right']} of 4;", self.good("score", "-m", STORIES, "--pairs", path))
        said = self.json("score", "-m", STORIES, "--pairs", path, "--by", "text")
        self.assertEqual((said["n_texts"], said["skipped"]), (6, []))
        texts = [["The dog saw the cat. Max likes the dog very much.", "The dog saw the cat. Max likes the cat very much."],
                 ["The dog saw the cat. Sue likes the cat very much.", "The dog saw the cat. Sue likes the dog very much."]]
        for text, (right, wrong) in zip(said["texts"], texts):
            self.assertAlmostEqual(text["lead"], self.whole(right) - self.whole(wrong), delta=1e-4)

    def test_prompts(self):
        path = self.folder / "prompts.jsonl"
        lines = [{"id": "p-0", "prompt": "Lily and Tom ran. Tom gave a ball to", "right": "Lily", "wrong": "Tom"},
                 {"id": "p-1", "prompt": "The big dog was very", "right": "happy and sad", "wrong": "the"}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        said = self.json("score", "-m", STORIES, "--pairs", path)
        self.assertEqual((said["n_texts"], said["n_pairs"], said["n_clusters"], said["ci"]), (2, 0, 1, None))
        for text, line in zip(said["texts"], lines):
            leads = [self.whole(f"{line['prompt']} {line[key]}") for key in ("right", "wrong")]
            self.assertAlmostEqual(text["lead"], leads[0] - leads[1], delta=1e-4)
        self.assertEqual(self.json("score", "-m", STORIES, "--pairs", path, "--limit", 1)["n_texts"], 1)
        self.bad(2, "score", "-m", STORIES, "x", "--by", "text", says=["go with --pairs"])
        self.bad(2, "score", "-m", STORIES, "--pairs", path, "--tokens", says=["--pairs: not with"])
        path.write_text("")
        self.bad(1, "score", "-m", STORIES, "--pairs", path, says=["prompts.jsonl"])

    def test_many_choices(self):
        """More than go through at once; all the same answer gets the same score."""
        path = self.folder / "q.jsonl"
        path.write_text(json.dumps({"prompt": "Tom had a", "choices": [" ball"] * 40 + [" big red ball"] * 3, "answer": 41}))
        (question,) = self.json("score", "-m", STORIES, "--choices", path)["questions"]
        self.assertEqual(len({choice["log_prob"] for choice in question["choices"][:40]}), 1)
        self.assertEqual(len({choice["log_prob"] for choice in question["choices"][40:]}), 1)

    def test_bad_choices(self):
        path = self.folder / "q.jsonl"
        for text, says in (("", "holds no question"), ("{}", "line 1: prompt is missing"), ('{"prompt":"a"}', "choices"),
                           ('{"prompt":"a","choices":[]}', "1 to 256"), ('{"prompt":"a","choices":[1]}', "not a text"),
                           ('{"prompt":"a","choices":["b"],"answer":1}', "answer"), ('\n{"prompt":"a", nonsense', "line 2: column"),
                           ('{"prompt":"a","choices":["b"],"answer":"c"}', "neither"), ('{"prompt":"a","choices":[""]}', "empty"), ("[]", "not a JSON object")):
            path.write_text(text)
            self.bad(1, "score", "-m", STORIES, "--choices", path, says=[says, str(path)])

    def test_limits(self):
        for words, says in (([], "no text"), (["x", "--ids", "1"], "more than one"), (["x", "--max-length", "1"], "from 2"),
                            (["x", "--max-length", "8", "--stride", "8"], "below --max-length 8"), (["--choices", "x", "--tokens"], "--tokens")):
            self.bad(2, "score", "-m", STORIES, *words, says=[says])
        self.bad(1, "score", "-m", STORIES, "x", "--max-length", "513", says=["513", "at most 512"])
        self.bad(1, "score", "-m", STORIES, "x", "--stride", "512", says=["--stride 512"])
        self.bad(1, "score", "-m", STORIES, "--choices", "absent", says=["absent", "No such file"])
        self.bad(1, "score", "-m", STORIES, "--no-special", "", says=["empty"])
        self.bad(1, "score", "-m", SORT, "x", says=["no tokenizer"])
        for last in (3, 99999999):  # of a vocabulary of 3; no pass reads the last token
            self.bad(1, "score", "-m", SORT, "--ids", f"0,1,{last}", says=[f"token id {last}", "vocabulary of 3"])
        self.assertEqual(self.json("score", "-m", SORT, "--ids", "0,0,2,1,0,1,0,0,0,1,1,2")["n_scored"], 11)
        self.assertEqual(self.json("score", "-m", SORT, "--ids", "1")["n_scored"], 0)


if __name__ == "__main__":
    main("models/stories260K", "models/gpt-nano-sort", "models/tinystories-656k")
