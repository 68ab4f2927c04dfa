"""Time and memory of one pass of SmolLM2 against the length of the text, with and without a view of attention."""

import csv
import dataclasses
import os
import statistics

import machine
from models import Missing
from sides import Bench, Peer

FIELDS = ("length", "engine", "capture", "compute", "seconds", "peak_mb")
LENGTHS = [128 << i for i in range(9)]  # 128 to 32,768
LONGEST_OF_PEER = 4096
WARM_UP_TO, REPEAT_UP_TO = 8192, 2048


def patterns_mb(n):
    return 30 * 9 * n * n * 4e-6


def sides(n):
    """(side, capture, megabytes that it needs)"""
    warm = n <= WARM_UP_TO
    for capture in ("none", "stats", "patterns"):
        needs = 1000 + n * 0.2 + (patterns_mb(n) if capture == "patterns" else 0)
        yield Bench("smollm2", "pp", n, capture=capture, logits="none", warm=warm), capture, needs
    if n > LONGEST_OF_PEER:
        return
    for task, capture in (("pass", "none"), ("patterns", "patterns")):
        needs = 2000 + n * 0.2 + (1.02 * patterns_mb(n) if capture == "patterns" else 0)
        yield Peer("transformers", "peer_torch.py", task=task, model="@smollm2", n=n), capture, needs


@dataclasses.dataclass
class Point:
    """One measurement; its id is lengths-4096-stats, or lengths-4096-transformers-patterns."""
    length: int
    side: object
    capture: str
    needs_mb: float

    @property
    def id(self):
        peer = "" if self.side.name == "headscope" else self.side.name + "-"
        return f"lengths-{self.length}-{peer}{self.capture}"

    def measure(self, context):
        """A row of the table of points; Missing when it cannot be had."""
        free = machine.memory_mb("MemAvailable")
        if free and self.needs_mb > 0.95 * free:
            raise Missing(f"needs {self.needs_mb / 1e3:.1f} GB of memory")
        try:
            self.side.start(context)
            figures = [self.side.turn() for _ in range(3 if self.length <= REPEAT_UP_TO else 1)]
        finally:
            self.side.stop()
        seconds, peak = statistics.median(f.seconds for f in figures), max(f.peak_mb for f in figures)
        return dict(zip(FIELDS, (str(self.length), self.side.name, self.capture, figures[0].compute, f"{seconds:.4f}",
                                 f"{peak:.1f}")))


def points(quick):
    return [Point(n, *side) for n in (LENGTHS[:4] if quick else LENGTHS) for side in sides(n)]


def key(row):
    return int(row["length"]), row["engine"], row["capture"]


def read(path):
    """{key: row} of a table that was kept; none when there is no such file."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as f:
        return {key(row): row for row in csv.DictReader(f)}


def write(path, rows):
    with open(path + ".part", "w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[at] for at in sorted(rows))
    os.replace(path + ".part", path)
