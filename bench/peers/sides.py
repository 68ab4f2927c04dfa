"""What takes turns in a row: a bench of headscope, a whole process, a kernel, or a peer in a process of its own.

A side is started, run once a turn, and stopped. A turn gives a Figure; `facts` tells what was run, for the result.
"""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

from models import Missing

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass
class Figure:
    seconds: float
    peak_mb: float = 0.0
    compute: str = ""
    more: dict = dataclasses.field(default_factory=dict)


class Context:
    """What every side may ask for: the program, the checkpoints, the threads, the environment."""

    def __init__(self, program, models, threads, cache):
        self.program, self.models, self.threads, self.cache = os.path.abspath(program), models, threads, cache
        if not os.access(self.program, os.X_OK):
            raise SystemExit(f"run.py: no program at {program}; ./dev build makes it")
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "HEADSCOPE_MODEL")}
        self.environment.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", PYTHONDONTWRITEBYTECODE="1")
        version = self._say("--version")
        self.version = version.split()[1]
        self.isa = re.search(r"kernels: (\S+)", version).group(1)
        self.computes = re.search(r"compute: (.*)", version).group(1).replace(",", " ").split()

    def _say(self, *words):
        return subprocess.run([self.program, *words], capture_output=True, text=True, check=True).stdout

    def compute(self, wanted):
        if wanted != "auto" and wanted not in self.computes:
            raise Missing(f"headscope has no compute kind {wanted} yet")
        return wanted

    def run(self, words):
        """The JSON that the program prints."""
        done = subprocess.run([self.program, *words], capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise Missing(f"headscope {shlex.join(words)}: {done.stderr.strip() or done.returncode}")
        return json.loads(done.stdout)

    def bytes_of(self, model):
        return self.run(["info", "--json", "-m", self.models.path(model)])["bytes"]


def shown(words, context):
    """A command as one types it, without the folders of this machine."""
    text = shlex.join(map(str, words))
    for folder, name in ((str(context.cache), ".cache/bench"), (os.path.dirname(context.program), "build")):
        text = text.replace(folder, name)
    return re.sub(r"(?<![\w.])/[^\s'\"]*/([^/\s'\"]+)", r"\1", text)


class Side:
    name = "headscope"
    role = ""  # what this side does differently from its neighbour in the row
    again_when_short = True  # a turn of a short run is several runs

    def start(self, context):
        self.context = context
        self.facts = {}

    def turn(self):
        raise NotImplementedError

    def stop(self):
        pass


class Bench(Side):
    """headscope bench: its own timing, one warm-up and one repetition a turn."""

    def __init__(self, model, test, n, depth=0, capture="none", logits="last", compute="f32", warm=True, role=""):
        self.model, self.test, self.n, self.depth, self.warm = model, test, n, depth, warm
        self.capture, self.logits, self.wanted, self.role = capture, logits, compute, role

    def start(self, context):
        super().start(context)
        words = ["bench", "-m", context.models.path(self.model), "-p", str(self.n if self.test == "pp" else 0), "-n",
                 str(self.n if self.test == "tg" else 0), "-t", str(context.threads), "-r", "1", "--json"]
        compute = context.compute(self.wanted)
        words += ["-d", str(self.depth)] if self.depth else []
        words += ["--capture", self.capture] if self.capture != "none" else []
        words += ["--logits", self.logits] if self.logits != "last" else []
        words += ["--compute", compute]
        words += [] if self.warm else ["--no-warmup"]
        self.words = words
        self.facts = {"command": shown([context.program, *words], context), "versions": {"headscope": context.version}}

    def turn(self):
        (row,) = self.context.run(self.words)
        return Figure(self.n / row["tok_per_s"]["median"], row["peak_rss_mb"], row["compute"])


class Encode(Side):
    """headscope bench --tokenize."""

    def __init__(self, tokenizer, text):
        self.tokenizer, self.text = tokenizer, text

    def start(self, context):
        super().start(context)
        models = context.models
        self.words = ["bench", "-m", models.path(self.tokenizer), "--tokenize", models.path(self.text), "-r", "1", "--json"]
        self.facts = {"command": shown([context.program, *self.words], context)}

    def turn(self):
        (row,) = self.context.run(self.words)
        return Figure(row["n_bytes"] * 1e-6 / row["mb_per_s"]["median"], row["peak_rss_mb"],
                      more={"n_tokens": row["n_tokens"]})


class Process(Side):
    """A whole process, start included."""

    def __init__(self, name, words):
        self.name, self.make_words = name, words

    def start(self, context):
        super().start(context)
        self.words = [str(word) for word in self.make_words(context)]
        self.facts = {"command": shown(self.words, context)}

    def turn(self):
        with tempfile.TemporaryFile() as said:
            start = time.perf_counter()
            process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=said, env=self.context.environment)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                said.seek(0)
                raise Missing(f"{self.facts['command']}: {said.read().decode(errors='replace').strip()[-300:]}")
        return Figure(seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6)


class Product(Side):
    """One shape of bench_kernels, beside the peak of the machine that it measures in the same repeat."""

    again_when_short = False

    def __init__(self, rows, n_out, n_in):
        self.shape = (rows, n_out, n_in)

    def start(self, context):
        super().start(context)
        self.words = [kernels_program(context), "-r", "3", "-t", str(context.threads), "gemm"]
        self.facts = {"command": shown(self.words, context)}

    def turn(self):
        rows, n_out, n_in = self.shape
        said = subprocess.run(self.words, capture_output=True, text=True, check=True).stdout
        found = re.search(rf"^gemm.*F32.*\b{rows} *x *{n_out} *x *{n_in}\b.*?([\d.]+) GFLOP/s *([\d.]+)% of peak", said, re.M)
        if not found:
            raise Missing(f"bench_kernels prints no line for {rows} x {n_out} x {n_in}")
        return Figure(2e-9 * rows * n_out * n_in / float(found.group(1)), more={"peak": float(found.group(2)) / 100})


def kernels_program(context):
    path = os.path.join(os.path.dirname(context.program), "bench_kernels")
    if not os.access(path, os.X_OK):
        raise Missing("bench_kernels is not built beside the program")
    return path


def limits(context):
    """Peak GFLOP/s and read GB/s of this machine now."""
    words = [kernels_program(context), "-r", "1", "-t", str(context.threads), "limits-only"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {"peak": float(re.search(r"peak ([\d.]+) GFLOP/s", said).group(1)),
            "read": float(re.search(r"read ([\d.]+) GB/s", said).group(1))}


class Peer(Side):
    """A script of this folder in a process of its own, which loads once and runs once a turn; its first run is a
    warm-up. `spec` is handed over as JSON; what begins with '@' in it names a checkpoint."""

    def __init__(self, name, script, role="", **spec):
        self.name, self.script, self.role, self.spec = name, script, role, spec
        self.process = None

    def start(self, context):
        super().start(context)
        spec = {key: context.models.path(value[1:]) if isinstance(value, str) and value.startswith("@") else value
                for key, value in self.spec.items()}
        spec["threads"] = context.threads
        words = [sys.executable, os.path.join(HERE, self.script), json.dumps(spec)]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=context.environment)
        self.facts = self._listen()
        self.facts["command"] = shown(["python", "bench/peers/" + self.script, json.dumps(spec)], context)
        self.turn()

    def _listen(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.log.seek(0)
        tail = self.log.read().decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {status}"]
        raise Missing(f"{self.name}: {tail[0]}")

    def turn(self):
        try:
            self.process.stdin.write("run\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; what it said last is heard below
        said = self._listen()
        return Figure(said.pop("seconds"), said.pop("peak_mb"), more=said)

    def stop(self):
        if self.process:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            self.process.wait()
            self.process.stdout.close()
            self.log.close()
            self.process = None
