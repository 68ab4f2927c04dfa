"""What the tests of the program share: running it, its test data, and readers for what it writes."""

import array
import fcntl
import json
import math
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("HEADSCOPE_SOURCE") or HERE.parent.parent)
PROGRAM = os.environ.get("HEADSCOPE") or str(SOURCE / "build" / "headscope")
DATA = pathlib.Path(os.environ.get("HEADSCOPE_TEST_DATA") or SOURCE.parent / "shared" / "data")
PATIENCE = int(os.environ.get("HEADSCOPE_TEST_PATIENCE") or 1)  # how many times longer this build may take for anything
COMMANDS = ("look", "run", "export", "scan", "detect", "drift", "ablate", "patch", "lens", "attribute",
            "circuit", "compose", "rollout", "values", "steer", "generate", "chat", "score", "embed", "fill", "info",
            "tokenize", "convert", "pull", "bench", "lesson")

# Two pairs as scan reads them; nothing before the second one's query tells its wordings apart, so it is no prompt.
MARKED = ("[a:Lily] met [b:Tom]. Then {Tom|Lily} gave a ball [q:to] the dog.\n"
          "The [a:cat] saw the [b:dog] because [q:it] was {big|small}.\n")
SKIPPED = {"line": 2, "why": "both wordings are the same up to the query"}


def environment(**more):
    """No model, colours or terminal of the caller's; what fontconfig never frees is no leak of ours."""
    env = {k: v for k, v in os.environ.items() if k not in ("HEADSCOPE_MODEL", "NO_COLOR", "TERM", "COLORTERM", "COLUMNS")}
    env.update(HF_HUB_OFFLINE="1", TERM="xterm-256color", LSAN_OPTIONS=f"suppressions={HERE / 'leaks.txt'}:print_suppressions=0")
    env.update(more)
    return env


class ProgramTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *args, input=b"", env=None, **more):
        """The finished process; outputs are bytes. Nothing is folded unless the test says how wide a line is."""
        done = subprocess.run([PROGRAM, *map(str, args)], input=input, capture_output=True, timeout=120 * PATIENCE,
                              env=environment(**{"COLUMNS": "1000", **(env or {})}), **more)
        self.assertNotIn(b"Sanitizer", done.stderr, done.stderr.decode(errors="replace"))
        return done

    def good(self, *args, **more):
        """Standard output as text of a run that must end well."""
        done = self.run_program(*args, **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def json(self, *args, **more):
        return json.loads(self.good(args[0], "--json", *args[1:], **more))

    def bad(self, status, *args, says=(), **more):
        """A run that must end with this status, no output, and one line that starts with the program's name (a second
        one, indented, may say what to do). Returns standard error."""
        done = self.run_program(*args, **more)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, status, text)
        self.assertEqual(done.stdout, b"", text)
        lines = text.splitlines()
        self.assertTrue(lines and lines[0].startswith("headscope: "), text)
        for line in lines[1:]:
            self.assertTrue(line.startswith("  "), text)
        for words in says:
            self.assertIn(words, text)
        return text


def wait_for(condition, seconds=60):
    """Until it holds; False when it does not come to that."""
    end = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def catches_interrupt(process):
    """Whether a running program has begun to handle Ctrl-C (or has ended); before that it would just be killed."""
    try:
        text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        time.sleep(0.5 * PATIENCE)  # no Linux: nothing tells
        return True
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", text, re.M)
    return not caught or bool(int(caught[1], 16) >> signal.SIGINT - 1 & 1)


def on_terminal(args, env, width=0):
    """What the program writes to a terminal (both outputs together) and its exit status; width 0: one that has none."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    output = b""
    while True:
        try:
            block = os.read(master, 65536) if select.select([master], [], [], 60 * PATIENCE)[0] else b""
        except OSError:  # a terminal's way to say that the other side has closed
            break
        if not block:
            break
        output += block
    os.close(master)
    return output, process.wait(60 * PATIENCE)


def sanitized():
    """Whether the program is built with a sanitizer, whose own memory is many times the program's."""
    if not os.path.exists(PROGRAM):
        return False
    with open(PROGRAM, "rb") as f:
        program = f.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def main(*needed):
    """Runs the module's tests; says what is missing and ends with 77 when it cannot."""
    if not os.access(PROGRAM, os.X_OK):
        print(f"skipped: no program at {PROGRAM}")
        sys.exit(77)
    for path in needed:
        if not DATA.joinpath(path).exists():
            print(f"skipped: no test data at {DATA.joinpath(path)}")
            sys.exit(77)
    unittest.main()


class Array:
    """A tensor: shape and a flat list of numbers."""

    def __init__(self, shape, numbers):
        assert len(numbers) == math.prod(shape), (shape, len(numbers))
        self.shape, self.numbers = list(shape), numbers

    def row(self, *at):
        """The last axis at the given outer indices."""
        index = 0
        for size, i in zip(self.shape, at):
            index = index * size + i
        width = self.shape[-1]
        return self.numbers[index * width : (index + 1) * width]


def read_safetensors(path):
    blob = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", blob)
    arrays = {}
    for name, entry in json.loads(blob[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        numbers = array.array({"F32": "f", "I32": "i"}[entry["dtype"]], blob[8 + n + start : 8 + n + end])
        arrays[name] = Array(entry["shape"], numbers)
    return arrays


def read_npz(path):
    """By the formats' texts: a zip of .npy files, each a header of a Python literal and the numbers."""
    import ast
    import zipfile
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            blob = archive.read(name)
            assert blob[:6] == b"\x93NUMPY" and name.endswith(".npy")
            size, at = (struct.unpack_from("<H", blob, 8)[0], 10) if blob[6] == 1 else (struct.unpack_from("<I", blob, 8)[0], 12)
            head = ast.literal_eval(blob[at : at + size].decode("latin-1"))
            assert not head["fortran_order"]
            numbers = array.array({"<f4": "f", "<i4": "i"}[head["descr"]], blob[at + size :])
            arrays[name[:-4]] = Array(head["shape"], numbers)
    return arrays
