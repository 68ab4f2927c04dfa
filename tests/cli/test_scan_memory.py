"""headscope scan over ten times as many pairs: memory stays what it was, from files and from a pipe, and the results do not
tell how many pairs lay in a temporary file; a folder that cannot take one is named."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from program import PROGRAM, SOURCE, ProgramTest, environment, main, sanitized

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import toys  # noqa: E402

FEW, MANY = 300, 3000
TAIL = " and so it went on" * 20  # a byte is a token: text, tokens and places are some kilobytes a pair

# Run by a small Python, since a process counts the memory of the one that started it until it is another program.
PEAK = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024))"""


def marked(n):
    return "".join(f"The [a:cat {i}] saw the [b:dog] and [q:it] was {{big|small}}{TAIL}.\n" for i in range(n))


def jsonl(n):
    lines = []
    for i in range(n):
        start = f"The cat {i} saw the dog and "
        dog = start.index("dog")
        for answer, word in enumerate(("big", "small")):
            lines.append(json.dumps({
                "id": f"{i * 7919 % 10007}-{answer}", "twin": f"{i * 7919 % 10007}-{1 - answer}", "group": i % 20, "answer": answer,
                "text": f"{start}it was {word}{TAIL}.", "pronoun_span": [len(start), len(start) + 2],
                "cands": [{"span": [4, 7]}, {"span": [dog, dog + 3]}]}))
    return "\n".join(lines) + "\n"


class ScanMemory(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        config, tensors = toys.llama(vocab_size=256, n_positions=1024, d=4, n_heads=1, inner=4, n_layer=1)
        cls.model = pathlib.Path(folder.name) / "model"
        toys.write_folder(cls.model, config, tensors)
        (cls.model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))

    def scan(self, text, *args, piped=False):
        """(bytes that the scan's process held at most, what it said)"""
        path = self.folder / "pairs"
        path.write_text(text)
        program = [PROGRAM, "scan", "--json", "-m", self.model, "-" if piped else path, "--query", "swap", "-t", "1", *args]
        command = [sys.executable, "-c", PEAK, *map(str, program)]
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as pipe:
            done = subprocess.run(command, stdin=pipe.stdout if piped else None, capture_output=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        said, _, peak = done.stdout.decode().rpartition("peak")
        return int(peak), json.loads(said)

    def assert_flat(self, pairs, most, *args, **more):
        """most: bytes that a pair more may take."""
        few, _ = self.scan(pairs(FEW), *args, **more)
        many, said = self.scan(pairs(MANY), *args, **more)
        self.assertEqual((said["n_pairs"], said["n_used"]), (MANY, MANY))
        self.assertLess((many - few) / (MANY - FEW), most, f"{few} bytes for {FEW} pairs, {many} for {MANY}")
        return said

    @unittest.skipIf(sanitized(), "a sanitizer's own memory grows")
    def test_marked(self):
        self.assert_flat(marked, 2500)  # the few do not fill the 4 MiB of a round of draws

    @unittest.skipIf(sanitized(), "a sanitizer's own memory grows")
    def test_jsonl_by_pipe(self):
        self.assert_flat(jsonl, 500, "--cluster", "group", piped=True)

    def test_results(self):
        """Pairs that came by pipe, in another order, or through a database are the same."""
        lines = jsonl(MANY // 3).splitlines(keepends=True)
        _, said = self.scan("".join(lines), "--cluster", "group")
        _, turned = self.scan("".join(reversed(lines)), "--cluster", "group", piped=True)
        self.assertEqual(said, turned)
        for n_loaded in (0, MANY // 3):
            _, kept = self.scan("".join(lines), "--cluster", "group", "--db", str(self.folder / "scan.sqlite"))
            self.assertEqual(kept.pop("n_loaded"), n_loaded)
            self.assertEqual(kept, {key: value for key, value in said.items() if key != "n_loaded"})

    def test_no_folder(self):
        path = self.folder / "pairs"
        for pairs in (marked, jsonl):
            path.write_text(pairs(MANY))
            self.bad(1, "scan", "-m", self.model, path, env={"TMPDIR": "/nowhere/at/all"}, says=["/nowhere/at/all", "TMPDIR"])


if __name__ == "__main__":
    main()
