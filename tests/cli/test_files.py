"""What the commands that read files have in common: a byte order mark before a file is no text."""

import json

from program import DATA, MARKED, ProgramTest, main

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"
MARK = b"\xef\xbb\xbf"
LINES = "Once upon a time there was a dog.\nTom had a big red ball.\n"
QUESTIONS = json.dumps({"prompt": "Tom had a", "choices": [" ball", " girl"], "answer": 0}) + "\n"
PROMPTS = json.dumps({"prompt": "Lily and Tom ran. Tom saw", "right": "Lily", "wrong": "Tom"}) + "\n"
NAMES = "Tom\nLily\n"


class Files(ProgramTest):
    def test_byte_order_mark(self):
        out = self.folder / "out.npz"
        for text, words in ((QUESTIONS, ["score", "--choices", "FILE"]), (PROMPTS, ["score", "--pairs", "FILE"]),
                            (LINES, ["score", "--file", "FILE"]), (MARKED, ["score", "--pairs", "FILE"]),
                            (LINES, ["look", "--file", "FILE"]), (LINES, ["generate", "--file", "FILE", "-n", "4"]),
                            (LINES, ["run", "--file", "FILE", "--sites", "resid_post", "-o", out]),
                            (LINES, ["export", "FILE", "-o", out]), (LINES, ["detect", "FILE", "--sequences", "2"]),
                            (LINES, ["embed", "--file", "FILE"]), (MARKED, ["scan", "FILE", "--query", "last"]),
                            (PROMPTS, ["ablate", "--pairs", "FILE", "--sweep", "heads"]),
                            (LINES, ["ablate", "--file", "FILE", "--how", "mean", "--corpus", "FILE", "--sweep", "attn"]),
                            ("[a:Tom] saw [b:Lily]. {Tom|Sam} gave [q:it] away.\n", ["patch", "--pairs", "FILE"]),
                            (LINES, ["steer", "Tom", "--toward", "FILE", "--away", "FILE2", "--metric", "logit: a"]),
                            (NAMES, ["circuit", "L1H1", "--names", "FILE"])):
            said, files = [], []
            for mark in (b"", MARK):
                path, other = self.folder / "file", self.folder / "other"
                path.write_bytes(mark + text.encode())
                other.write_text("The cat was sad.\n")
                at = {"FILE": path, "FILE2": other}
                said.append(self.good(words[0], "-m", STORIES, *(at.get(w, w) for w in words[1:]), *self.json_of(words)))
                files.append(out.read_bytes() if out in words else None)
            self.assertEqual(*said, words)
            self.assertEqual(*files, words)

    @staticmethod
    def json_of(words):
        return [] if words[0] in ("run", "generate") else ["--json"]

    def test_tokenize_keeps_it(self):
        """There it is the text's bytes that count."""
        path = self.folder / "file"
        path.write_bytes(MARK + b"Tom")
        ids = self.json("tokenize", "-m", STORIES, "--file", path)["ids"]
        self.assertIn("\ufeffTom", self.good("tokenize", "-m", STORIES, "--decode", ",".join(map(str, ids))))


if __name__ == "__main__":
    main("models/stories260K")
