"""headscope tokenize: bytes as they are, JSON, decoding, special tokens, and folders that hold nothing but a tokenizer.
Ids are those of ../shared/cases.md (tokenizers 0.23.3) or follow from the byte alphabet's definition."""

import resource
import subprocess
import unittest

from program import DATA, PROGRAM, ProgramTest, environment, main, sanitized

GPT2 = DATA / "tokenizers" / "gpt2"
BERT = DATA / "tokenizers" / "bert-base-uncased"
STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"


class Tokenize(ProgramTest):
    def ids(self, text, *options, model=GPT2):
        """By standard input, which takes any bytes."""
        data = text if isinstance(text, bytes) else text.encode()
        return self.json("tokenize", "-m", model, "-", *options, input=data)["ids"]

    def test_the_same_by_every_way_in(self):
        text = "Hello  world"
        path = self.folder / "text"
        path.write_text(text)
        for source in ([text], ["--file", path], ["-f", path], ["--", text]):
            self.assertEqual(self.json("tokenize", "-m", GPT2, *source)["ids"], [15496, 220, 995], source)
        self.assertEqual(self.ids(text), [15496, 220, 995])
        said = self.json("tokenize", text, env={"HEADSCOPE_MODEL": str(GPT2)})
        self.assertEqual(said, {"ids": [15496, 220, 995], "tokens": ["Hello", " ", " world"]})

    def test_any_bytes(self):
        self.assertEqual(self.ids(b"a\0b"), [64, 188, 65])  # byte 0 is the first after the 188 printable ones
        self.assertEqual(self.ids(b"\xff\xfe"), [187, 186])
        said = self.json("tokenize", "-m", GPT2, "-", input=b"a\xe2\x82")
        self.assertEqual(said, {"ids": [64, 158, 224], "tokens": ["a", "\ufffd", "\ufffd"], "bytes": [None, "e2", "82"]})

    def test_nothing_is_stripped(self):
        self.assertEqual(self.ids("Hello world "), [15496, 995, 220])
        self.assertEqual(self.ids("  \n  x"), [220, 220, 198, 220, 2124])
        self.assertEqual(self.ids("x\r\n"), [87, 201, 198])
        self.assertEqual(self.ids("\n"), [198])

    def test_empty(self):
        self.assertEqual(self.json("tokenize", "-m", GPT2, ""), {"ids": [], "tokens": []})
        self.assertEqual(self.ids(b""), [])
        self.assertEqual(self.good("tokenize", "-m", GPT2, ""), "0 tokens, 0 bytes\n")

    def test_special_tokens(self):
        text = "a<|endoftext|>b"
        self.assertEqual(self.ids(text), [64, 27, 91, 437, 1659, 5239, 91, 29, 65])
        self.assertEqual(self.ids(text, "--parse-special"), [64, 50256, 65])
        with_bos = self.ids("Once", model=STORIES)
        self.assertEqual(with_bos[0], 1)
        self.assertEqual(self.ids("Once", "--no-special", model=STORIES), with_bos[1:])

    def test_decode(self):
        def decode(ids, *options):
            done = self.run_program("tokenize", "-m", GPT2, "--decode", ids, *options)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return done.stdout
        self.assertEqual(decode("5633"), b" ?")
        self.assertEqual(decode("88,318,5633"), b"y is ?")
        self.assertEqual(decode("[8582, 25081]"), "\U0001f642".encode())
        self.assertEqual(decode("64 188 65"), b"a\0b")
        self.assertEqual(decode("158,224"), b"\xe2\x82")
        self.assertEqual(self.json("tokenize", "-m", GPT2, "-d", "158"), {"ids": [158], "text": "\ufffd", "bytes": "e2"})
        self.bad(1, "tokenize", "-m", GPT2, "--decode", "1,50257", says=["id 50257", "50257 tokens"])

    def test_there_and_back(self):
        for data in (bytes(range(256)), "Seán\n\U0001f642\t x".encode(), b"", b" \n \r\n\0\0", b"\xf0\x9f\x99"):
            ids = self.ids(data)
            if ids:
                done = self.run_program("tokenize", "-m", GPT2, "--decode", ",".join(map(str, ids)))
                self.assertEqual(done.stdout, data)

    def test_table(self):
        """B40: stand-ins for what cannot be seen, the text itself for what can, and never a raw control character."""
        done = self.run_program("tokenize", "-m", GPT2, "-", input="Seán \n\t\U0001f642".encode() + b"\x1b\xff")
        text = done.stdout.decode()
        self.assertEqual(text.splitlines()[0], f"{len(text.splitlines()) - 2} tokens, 14 bytes")
        spans, labels = [], []
        for line in text.splitlines()[2:]:
            position, token, start, end, label = line.split(None, 4)
            self.assertEqual(int(position), len(spans))
            spans.append((int(start), int(end)))
            labels.append(label)
        self.assertEqual(spans[0][0], 0)
        self.assertEqual(spans[-1][1], 14)
        for before, after in zip(spans, spans[1:]):
            self.assertEqual(before[1], after[0])
        shown = "".join(labels)
        for part in ("án", "\u2423", "\u21b5", "\u21e5", "<U+001B>", "<FF>"):
            self.assertIn(part, shown)
        for never in ("\x1b", "Ġ", "Ċ", "Ã"):
            self.assertNotIn(never, text)
        self.assertIn("  (special)\n", self.good("tokenize", "-m", STORIES, "Once"))
        said = self.json("tokenize", "-m", GPT2, "\u0120")  # the byte alphabet's sign for a blank, really typed
        self.assertEqual("".join(said["bytes"]), "\u0120".encode().hex())

    def test_pair(self):
        said = self.json("tokenize", "-m", BERT, "Is it tired?", "--pair", "It is.")
        self.assertEqual(said["tokens"], "[CLS] is it tired ? [SEP] it is . [SEP]".split())
        self.assertEqual(said["segments"], [0] * 6 + [1] * 4)
        bare = self.json("tokenize", "-m", BERT, "Is it tired?", "--pair", "It is.", "--no-special")
        self.assertEqual(bare["segments"], [0] * 4 + [1] * 3)
        rows = self.good("tokenize", "-m", BERT, "Is it?", "-p", "unaffable").splitlines()
        self.assertEqual(rows[0], "9 tokens, 15 bytes")
        self.assertEqual(rows[2].split(), ["0", "101", "0", "0", "-", "0", "[CLS]", "(special)"])
        self.assertEqual(rows[3].split(), ["1", "2003", "0", "2", "A", "0", "is"])
        self.assertEqual([row.split()[-1] for row in rows[7:10]], ["una", "##ffa", "##ble"])
        self.assertEqual(rows[9].split()[2:6], ["6", "9", "B", "1"])
        self.bad(2, "tokenize", "-m", BERT, "--decode", "1", "--pair", "x", says=["--pair", "--decode"])

    def test_long_text(self):
        text = "The animal didn't cross the street. " * 20000
        said = self.ids(text)
        self.assertEqual(len(said), 8 * 20000 + 1)  # The animal didn 't cross the street . and the last blank
        self.assertEqual(said[8:], (said[8:16] * 20000)[: 8 * 19999] + [220])

    @unittest.skipIf(sanitized(), "gigabytes under a sanitizer")
    def test_input_that_never_ends(self):
        """A device is read up to a limit, which the error names; memory need not end first."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

        said = f"more than {1 << 30} bytes"
        self.bad(1, "tokenize", "-m", GPT2, "--file", "/dev/zero", says=["/dev/zero", said], preexec_fn=limit)
        with open("/dev/zero", "rb") as endless:
            done = subprocess.run([PROGRAM, "tokenize", "-m", GPT2, "-"], stdin=endless, capture_output=True, timeout=120,
                                  env=environment(), preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(f"standard input: has {said}", done.stderr.decode())

    def test_refusals(self):
        self.bad(1, "tokenize", "-m", DATA / "models" / "gpt-nano-sort", "a", says=["gpt-nano-sort"])
        self.bad(1, "tokenize", "-m", self.folder / "none", "a", says=["none"])


if __name__ == "__main__":
    main("tokenizers/gpt2", "tokenizers/bert-base-uncased", "models/stories260K", "models/gpt-nano-sort")
