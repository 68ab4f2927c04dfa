"""Time and memory of one pass of SmolLM2 against the length of the text, with and without a view of attention."""

import csv
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


def series(n):
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


def measure(context, quick, say):
    for n in LENGTHS[:4] if quick else LENGTHS:
        for side, capture, needs in series(n):
            free = machine.memory_mb("MemAvailable")
            if free and needs > 0.95 * free:
                say(f"  {n:>6} {side.name:<13} {capture:<9} left out: needs {needs / 1e3:.1f} GB of memory")
                continue
            try:
                side.start(context)
                figures = [side.turn() for _ in range(3 if n <= REPEAT_UP_TO else 1)]
            except Missing as missing:
                say(f"  {n:>6} {side.name:<13} {capture:<9} left out: {missing}")
                continue
            finally:
                side.stop()
            seconds, peak = statistics.median(f.seconds for f in figures), max(f.peak_mb for f in figures)
            say(f"  {n:>6} {side.name:<13} {capture:<9} {seconds:10.3f} s {peak:9.0f} MB")
            yield dict(zip(FIELDS, (n, side.name, capture, figures[0].compute, f"{seconds:.4f}", f"{peak:.1f}")))


def write(path, points):
    with open(path + ".part", "w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(points)
    os.replace(path + ".part", path)
