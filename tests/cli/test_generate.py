"""headscope generate: texts and their ends, samples, beams, watched heads, and what happens on Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import time
import unicodedata
import unittest

from program import DATA, PATIENCE, PROGRAM, ProgramTest, catches_interrupt, environment, main, on_terminal, wait_for

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # context 512, byte fallback
TINY = DATA / "models" / "tinystories-656k"  # a folder; byte-level, ends its texts with token 2
SORT = DATA / "models" / "gpt-nano-sort"  # no tokenizer, context 11


class Generate(ProgramTest):
    def generate(self, *words, model=STORIES, **more):
        return self.json("generate", "-m", model, *words, **more)

    def test_rules_of_a_file(self):
        """What transformers would write by and this program does not is named; sampling is left to the options."""
        model = self.folder / "model"
        model.mkdir()
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            (model / name).symlink_to(TINY / name)
        for rules, name in (({"repetition_penalty": 1.3}, "repetition_penalty"), ({"sequence_bias": [[[3], 1.5]]}, "sequence_bias"),
                            ({"bad_words_ids": [[5]], "num_beams": 1}, "bad_words_ids"),
                            ({"do_sample": True, "temperature": 0.7, "repetition_penalty": 1.0, "min_length": 0}, None)):
            (model / "generation_config.json").write_text(json.dumps({"eos_token_id": 2, **rules}))
            said = self.run_program("generate", "-m", model, "Once", "-n", "2").stderr.decode()
            self.assertEqual(said, f"headscope: note: model: its {name} is not followed: options alone decide\n" if name else "")

    def text(self, *words, model=STORIES, **more):
        return self.good("generate", "-m", model, *words, **more)

    def test_text_and_json_agree(self):
        data = self.generate("Once upon a time", "-n", "30")
        (sample,) = data["samples"]
        self.assertEqual(self.text("Once upon a time", "-n", "30"), sample["text"] + "\n")
        self.assertEqual(len(sample["ids"]), 30)
        self.assertEqual(sample["finish"], "length")
        self.assertEqual(data["compute"], "f32")
        self.assertTrue(sample["text"].startswith(", there was a little girl named Lily."), sample["text"])
        self.assertEqual(self.text("-", "-n", "30", input=b"Once upon a time\n"), sample["text"] + "\n")
        path = self.folder / "prompt"
        path.write_text("Once upon a time\n")
        self.assertEqual(self.text("--file", path, "-n", "30", "--echo"), "Once upon a time" + sample["text"] + "\n")

    def test_a_model_ends_its_text(self):
        data = self.generate("Once upon a time", "-n", "0", model=TINY)
        (sample,) = data["samples"]
        self.assertEqual((sample["finish"], sample["ids"][-1]), ("end", 2))
        self.assertEqual(sample["text"].count("<|end_story|>"), 1)  # this model first spells it out in ordinary tokens
        more = self.generate("Once upon a time", "-n", str(len(sample["ids"]) + 5), "--ignore-end", model=TINY)
        self.assertEqual(more["samples"][0]["ids"][: len(sample["ids"])], sample["ids"])
        self.assertEqual(more["samples"][0]["finish"], "length")
        shown = self.generate("Once upon a time", "-n", str(len(sample["ids"])), "--ignore-end", "--show-special", model=TINY)
        self.assertEqual(shown["samples"][0]["text"], sample["text"] + "<|end_story|>")

    def test_stop_texts(self):
        whole = self.generate("Once upon a time", "-n", "40")["samples"][0]["text"]
        for stop in ("girl", "a little", " ", "irl na"):
            (sample,) = self.generate("Once upon a time", "-n", "40", "--stop", "absent", "--stop", stop)["samples"]
            self.assertEqual(sample["text"], whole[: whole.index(stop)], stop)
            self.assertEqual(sample["finish"], "stop")
            self.assertEqual(self.text("Once upon a time", "-n", "40", "--stop", stop), sample["text"] + "\n")
        # What only looks like the beginning of a stop text comes out after all.
        self.assertEqual(self.generate("Once upon a time", "-n", "40", "--stop", "girl named Sue")["samples"][0]["text"], whole)

    def test_characters_stay_whole(self):
        """Each written block is valid UTF-8 although bytes are tokens of their own."""
        process = subprocess.Popen([PROGRAM, "generate", "-m", STORIES, "née 🦙", "-n", "200", "-T", "3", "--seed", "5"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        with process.stdout as pipe:
            blocks = iter(lambda: os.read(pipe.fileno(), 65536), b"")
            text = "".join(block.decode() for block in blocks)
        self.assertEqual(process.wait(60 * PATIENCE), 0)
        want = self.generate("née 🦙", "-n", "200", "-T", "3", "--seed", "5")["samples"][0]["text"]
        self.assertEqual(text, want + "\n")
        self.assertFalse(want.isascii())

    def test_samples(self):
        words = ["Once upon a time", "-n", "20", "-T", "1.2", "--top-p", "0.95"]
        many = self.generate(*words, "--samples", "3", "--seed", "4")
        self.assertEqual(many["sampling"], {"temperature": 1.2, "top_p": 0.95, "seed": 4})
        texts = [sample["text"] for sample in many["samples"]]
        self.assertEqual(len(set(texts)), 3)
        for i, text in enumerate(texts):
            self.assertEqual(self.text(*words, "--seed", str(4 + i)), text + "\n")
        shown = self.text(*words, "--samples", "3", "--seed", "4")
        self.assertIn("--- sample 1 (seed 5): 20 tokens, length\n" + texts[1], shown)

    def test_filters_draw(self):
        """A filter without a temperature draws at temperature 1; the narrowest filters leave the likeliest token."""
        greedy = self.text("Once upon a time", "-n", "20")
        for words in (["-k", "1"], ["--top-p", "0"], ["--min-p", "1"], ["-T", "0", "-k", "50"]):
            self.assertEqual(self.text("Once upon a time", "-n", "20", *words), greedy, words)
        self.assertNotEqual(self.text("Once upon a time", "-n", "20", "--typical", "0.3"), greedy)
        self.assertNotEqual(self.text("Once upon a time", "-n", "20", "--top-p", "0.99", "--seed", "1"), greedy)
        self.assertNotEqual(self.text("Once upon a time", "-n", "60", "--frequency", "50"),
                            self.text("Once upon a time", "-n", "60"))

    def test_context(self):
        done = self.run_program("generate", "-m", SORT, "--ids", "0,0,2,1,0,1", "-n", "0")
        self.assertEqual(done.stdout, b"0 0 0 1 1 2\n")  # the sixth token is written and never read
        self.assertIn(b"the context of 11 tokens is full; --slide", done.stderr)
        slid = self.generate("--ids", "0,0,2,1,0,1", "-n", "30", "--slide", model=SORT)["samples"][0]
        self.assertEqual((len(slid["ids"]), slid["finish"]), (30, "length"))
        full = ",".join("0" * 11)
        self.assertEqual(len(self.generate("--ids", full, "-n", "2", model=SORT)["samples"][0]["ids"]), 1)
        self.bad(1, "generate", "-m", SORT, "--ids", full + ",0", says=["12 tokens", "at most 11"])
        self.bad(1, "generate", "-m", SORT, "--ids", "3", says=["token id 3", "vocabulary of 3"])

    def test_watch(self):
        data = self.generate("Once upon a time", "-n", "5", "--watch", "L2H3,L0H1", "--top", "2")
        self.assertEqual(data["compute"], "f32")
        n = len(data["prompt"]["tokens"])
        self.assertEqual([token["pos"] for token in data["watch"]], list(range(n, n + 5)))
        ids = [token["id"] for token in data["prompt"]["tokens"]] + data["samples"][0]["ids"]
        path = self.folder / "all.safetensors"
        self.good("run", "-m", STORIES, "--ids", ",".join(map(str, ids)), "--sites", "pattern", "-o", path)
        from program import read_safetensors
        whole = read_safetensors(path)
        for token in data["watch"]:
            self.assertEqual(token["query"], token["pos"] - 1)
            self.assertEqual([(h["layer"], h["head"]) for h in token["heads"]], [(2, 3), (0, 1)])
            for head in token["heads"]:
                row = whole[f"pattern.{head['layer']}"].row(head["head"], token["query"])
                self.assertEqual(head["first"], float(f"{row[0]:.9g}"))
                best = sorted(range(1, token["pos"]), key=lambda k: (-row[k], k))[:2]
                self.assertEqual([key["pos"] for key in head["keys"]], best)
                for key in head["keys"]:
                    self.assertEqual(key["weight"], float(f"{row[key['pos']]:.9g}"))

    def test_watch_columns(self):
        """Weights stand in columns of terminal cells, whatever the script; a part of a character shows as its bytes."""
        done = self.run_program("generate", "-m", STORIES, "東 é 👩 Lily e\u0301", "-n", "4", "--watch", "L2H3", "--top", "20")
        lines = [line for line in done.stderr.decode().splitlines() if "L2H3" in line]
        self.assertEqual(len(lines), 4)
        self.assertIn("<E6>", lines[0])
        self.assertNotIn("\ufffd", "".join(lines))
        keys = re.split(r"L2H3    \d\.\d{3}", lines[0])[1]  # behind the weight on the first token
        places = [match.start() for match in re.finditer(r"0\.\d{3}", "".join(
            "" if unicodedata.combining(c) else c + " " * (unicodedata.east_asian_width(c) in "WF") for c in keys))]
        self.assertGreater(len(places), 3)
        self.assertEqual(len({b - a for a, b in zip(places, places[1:])}), 1, keys)

    def test_watch_lines(self):
        done = self.run_program("generate", "-m", STORIES, "Once upon a time", "-n", "3", "--watch", "L2H3,L0H1")
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1 + 3 * 2)
        self.assertIn("L2H3", lines[1])
        self.assertRegex(lines[1], r"L2H3    0\.\d{3}  ")
        self.assertEqual(done.stdout, self.text("Once upon a time", "-n", "3").encode())
        both, status = on_terminal(["generate", "-m", STORIES, "Once upon a time", "-n", "3", "--watch", "L2H3"],
                                   environment())
        self.assertEqual(status, 0)
        self.assertTrue(both.decode().replace("\r", "").endswith(done.stdout.decode()), both)  # the text comes after the lines

    def test_beams(self):
        data = self.generate("Once upon a time", "-n", "12", "--beams", "4", "--samples", "4")
        scores = [sample["score"] for sample in data["samples"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(len({tuple(sample["ids"]) for sample in data["samples"]}), 4)
        greedy = self.generate("Once upon a time", "-n", "12")["samples"][0]
        self.assertGreaterEqual(scores[0] + 1e-5, greedy["log_prob"] / 12)
        self.assertEqual(self.text("Once upon a time", "-n", "12", "--beams", "4"), data["samples"][0]["text"] + "\n")

    def test_threads_change_nothing(self):
        one = self.generate("Once upon a time", "-n", "40", "-T", "1", "-t", "1")["samples"]
        self.assertEqual(self.generate("Once upon a time", "-n", "40", "-T", "1", "-t", "3")["samples"], one)

    def test_interrupted(self):
        process = subprocess.Popen([PROGRAM, "generate", "-m", STORIES, "Once", "-n", "0", "--slide", "--ignore-end"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        first = b""
        while len(first) < 40:  # the prompt and some tokens: from the second on Ctrl-C ends the writing alone
            block = os.read(process.stdout.fileno(), 100)
            self.assertTrue(block)
            first += block
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60 * PATIENCE)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertTrue((first + out).endswith(b"\n"))

    def test_interrupted_json(self):
        """What there is comes out once the writing has begun, which nothing tells from outside: the wait grows."""
        for wait in (0.5, 2, 8, 32):
            process = subprocess.Popen([PROGRAM, "generate", "-m", STORIES, "Once", "-n", "0", "--slide", "--ignore-end",
                                        "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            self.assertTrue(wait_for(lambda: catches_interrupt(process)))
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60 * PATIENCE)
            self.assertEqual((process.returncode, err), (130, b""))
            if out:
                break
        self.assertEqual(json.loads(out)["samples"][0]["finish"], "interrupted")

    def test_closed_pipe(self):
        process = subprocess.Popen([PROGRAM, "generate", "-m", STORIES, "Once", "-n", "0", "--slide", "--ignore-end"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        os.read(process.stdout.fileno(), 10)
        process.stdout.close()
        self.assertEqual(process.wait(60 * PATIENCE), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_misuse(self):
        for words, says in ((["-T", "-1", "x"], "--temperature wants a number from 0 to 100"), (["-T", "nan", "x"], "nan"),
                            (["--top-p", "1.5", "x"], "from 0 to 1"), ([], "no prompt"), (["x", "--ids", "1"], "more than one"),
                            (["x", "--stop", ""], "not empty"), (["x", "--watch", "4"], "L13H8"), (["x", "--repetition", "0"], "above 0"),
                            (["x", "--watch", "L0H0", "--samples", "2"], "--samples"), (["x", "--beams", "2", "-T", "1"], "draw"),
                            (["x", "--beams", "2", "--samples", "3"], "at most as many"), (["x", "--top", "4"], "--watch"),
                            (["x", "--early-stop", "--beams", "1"], "--beams"), (["x", "--sinks", "2"], "--window")):
            self.bad(2, "generate", "-m", STORIES, *words, says=[says])
        self.bad(1, "generate", "-m", STORIES, "x", "--watch", "L9H0", says=["no head L9H0", "L0 to L4"])
        self.bad(1, "generate", "-m", STORIES, "--no-special", "", says=["the prompt is empty"])
        self.bad(1, "generate", "-m", SORT, "x", says=["no tokenizer", "--ids"])


if __name__ == "__main__":
    main("models/stories260K", "models/tinystories-656k", "models/gpt-nano-sort")
