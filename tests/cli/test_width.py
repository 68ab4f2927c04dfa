"""No line that is made for people is wider than the terminal: every command on a terminal of 80 cells, many on one of 60
and 40. What a model writes, and vectors, are data and not folded."""

import json
import re
import unicodedata

import test_encdec
import test_fill
from program import COMMANDS, DATA, ProgramTest, environment, main, on_terminal

MODELS = DATA / "models"
TEXT = "Once upon a time there was a little girl named Lily who liked to play in the park with her friend Tom."
OTHER = TEXT.replace("little", "big")
PAIRS = "".join(f"[a:Ben] met [b:Tom] at the {place}. Then {{Tom|Ben}} gave a ball [q:to] the dog.\n"
                for place in ("park", "big house", "school", "sea", "shop", "tree"))
IDS, OTHER_IDS = "1,403,407,261,378,276,300", "1,403,407,310,378,276,300"
METRIC = ("--metric", "logit: #500 - #400")
RAW = {"chat", "embed", "pull"}  # a conversation, vectors, a network


def cells(line):
    """Of a terminal: none for combining marks, two for wide characters."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in line)


class Width(ProgramTest):
    def setUp(self):
        super().setUp()
        self.texts, self.pairs, self.questions = (self.folder / name for name in ("texts", "pairs", "questions"))
        self.texts.write_text(f"{TEXT}\n{OTHER}\nOne day, Tom and Mia had a dog that liked to run.\n" * 9)
        self.pairs.write_text(PAIRS)
        self.questions.write_text(json.dumps({"prompt": "Lily saw a", "choices": [" dog", " cat"], "answer": 0}) + "\n")
        # Short paths: a word that is longer than a line cannot be folded.
        self.stories, self.tiny = self.folder / "stories.gguf", self.folder / "tiny"
        self.stories.symlink_to(MODELS / "stories260K" / "stories260K.f32.gguf")
        self.tiny.symlink_to(MODELS / "tinystories-656k")
        self.bert = test_fill.Fill.model(self, "bert-f16", 5)
        self.t5 = test_encdec.write_t5(self.folder / "t5")
        (self.t5 / "tokenizer.json").write_text(json.dumps(test_encdec.TOKENIZER))

    def looks(self):
        for words in ((), ("--pos", "5"), ("--stats",), ("--head", "L1H2"), ("--head", "L1H2", "--heatmap")):
            yield "look", "-m", self.tiny, *words, "Lily saw a dog, and Tom ran."
        yield "look", "-m", self.tiny, TEXT, "--vs", OTHER
        yield "look", "-m", self.t5, "w4 w5 w6"

    def searches(self):
        texts, pairs, tiny = self.texts, self.pairs, self.tiny
        yield ("scan", "-m", tiny, pairs, "--holdout", "0.5", "--cross", "5", "--null", "5", "--control", pairs,
               "--head", "L1H2")
        yield "scan", "-m", tiny, pairs, "--query", "swap", "--null", "weights"
        yield "detect", "-m", tiny, texts, "--sequences", "2", "--tl"
        yield "detect", "-m", tiny, texts, "--sequences", "2", "--by", "previous"
        yield "drift", tiny, tiny, texts, "--sequences", "2"

    def explanations(self):
        stories, pairs = self.stories, self.pairs
        yield "lens", "-m", stories, TEXT, "--top", "5", "--word", "#400"
        yield "lens", "-m", stories, "--pairs", pairs
        yield "attribute", "-m", stories, TEXT, *METRIC, "--sources"
        yield "attribute", "-m", stories, "--pairs", pairs, "--holdout", "0.5"
        yield "circuit", "-m", stories, "L1H2", "--word", "#400"
        yield "circuit", "-m", stories, "L1H2", "--all"
        yield "circuit", "-m", stories, "--eigen"
        yield "compose", "-m", stories
        yield "rollout", "-m", stories, TEXT
        yield "values", "-m", stories, TEXT
        yield "values", "-m", stories, TEXT, "--head", "L1H2"

    def interventions(self):
        stories, texts, pairs = self.stories, self.texts, self.pairs
        steer = ("steer", "-m", stories, "--toward", texts, "--away", pairs)
        yield "ablate", "-m", stories, TEXT, *METRIC
        yield "ablate", "-m", stories, "--pairs", pairs, "--heads", "L1H2,L2H3", "--then", "all"
        yield "ablate", "-m", stories, "--pairs", pairs, "--holdout", "0.5"
        yield "ablate", "-m", stories, "--file", texts, "--metric", "loss", "--heads", "L1H2", "--per-token"
        yield "ablate", "-m", self.t5, "--metric", "loss", "w4 w5", "--target", "w6 w7"
        yield "patch", "-m", stories, *METRIC, "--ids", IDS, "--corrupted-ids", OTHER_IDS
        yield "patch", "-m", stories, *METRIC, "--ids", IDS, "--cut", "each"
        yield "patch", "-m", stories, "--pairs", pairs
        yield *steer, *METRIC, TEXT
        yield *steer, "--pairs", pairs, "--layer", "L1"
        yield *steer, "--layer", "L1", "-n", "40", TEXT

    def others(self):
        stories, texts, out = self.stories, self.texts, self.folder
        bert = self.bert
        yield "run", "--sites", "help"
        yield "run", "-m", stories, "--text", TEXT, "--sites", "pattern", "-o", out / "r.npz"
        yield "export", "-m", stories, texts, "--layer", "L1", "-o", out / "e.npz"
        yield "generate", "-m", stories, "Lily", "-n", "4", "--watch", "L1H2,L0H1"
        yield "score", "-m", stories, TEXT, "--tokens"
        yield "score", "-m", stories, "--choices", self.questions
        yield "score", "-m", stories, "--pairs", self.pairs
        yield "fill", "-m", bert, "w4 [MASK] w7"
        yield "info", stories, "--tokens", "100"
        yield "info", self.tiny, "--tensors"
        yield "info", self.t5
        yield "tokenize", "-m", stories, TEXT
        yield "tokenize", "-m", bert, "w4 w5", "--pair", "w6"
        yield "convert", "-m", self.tiny, "-o", out / "c.gguf", "--dtype", "q4_k", "--force", "-v"
        yield "bench", "-m", stories, "-p", "8", "-n", "2", "-r", "1"
        yield "bench", "-m", stories, "--tokenize", texts, "-r", "1"
        yield "lesson",

    def check(self, runs, width):
        for words in runs:
            with self.subTest(width=width, words=words):
                output, status = on_terminal(words, environment(), width)
                self.assertEqual(status, 0, output.decode(errors="replace"))
                text = re.sub(r"\033\[[0-9;]*[A-Za-z]", "", output.decode())
                for line in re.split(r"[\r\n]+", text):
                    self.assertLessEqual(cells(line), width, line)

    def test_every_command(self):
        """At 80 cells, as in a pipe."""
        runs = [*self.looks(), *self.searches(), *self.explanations(), *self.interventions(), *self.others()]
        self.assertEqual({words[0] for words in runs} | RAW, set(COMMANDS))
        self.check(runs, 80)
        self.check([("lesson", "--all")], 80)

    def test_narrow(self):
        for width in (60, 40):
            runs = [*self.looks(), *self.explanations(), *self.interventions(), *self.others()]
            self.check([words for words in runs if "--tensors" not in words], width)  # names of 46 characters stay whole
        self.check(self.searches(), 60)

    def test_columns_of_the_environment(self):
        """COLUMNS counts in a pipe and before the terminal; what is no number does not."""
        wide = self.good("scan", "-m", self.tiny, self.pairs, env={"COLUMNS": "200"})
        self.assertRegex(wide, r"(?m)^head +shift +95% interval .* sink$")
        plain = self.good("scan", "-m", self.tiny, self.pairs, env={"COLUMNS": ""})
        self.assertLessEqual(max(map(cells, plain.splitlines())), 80)
        self.assertEqual(self.good("scan", "-m", self.tiny, self.pairs, env={"COLUMNS": "wide"}), plain)
        self.assertEqual(" ".join(sorted(set(wide.split()))), " ".join(sorted(set(plain.split()))))  # nothing is left out
        output, _ = on_terminal(("run", "--sites", "help"), environment(COLUMNS="50"), 120)
        self.assertLessEqual(max(map(cells, output.decode().split("\r\n"))), 50)

    def test_messages(self):
        """Notes and errors fold on a terminal alone: a log keeps one line a message."""
        words = ("look", "-m", self.tiny, "--token", "nowhere", TEXT)
        output, status = on_terminal(words, environment(), 40)
        self.assertEqual(status, 1)
        self.assertLessEqual(max(map(cells, output.decode().split("\r\n"))), 40)
        self.assertTrue(self.run_program(*words).stderr.splitlines()[0].startswith(b"headscope: "))


if __name__ == "__main__":
    main("models/stories260K/stories260K.f32.gguf", "models/tinystories-656k/model.safetensors")
