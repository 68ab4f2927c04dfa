"""Runs a row: every side once, then again, so that what the machine does meanwhile meets all of them alike."""

import dataclasses
import statistics
import sys
import time

import machine
import rows as table
import sides
from models import Missing

PAUSE = 0.3  # seconds in which threads that spin fall asleep
SHORT, SHORT_RUNS = 0.5, 5  # a turn takes so many seconds or runs


def started(candidates, context, role):
    """The sides that could be started, and why the others could not. Of ours that would run the same the last is kept: it
    is the one that a bar is for."""
    running, reasons = [], {}
    for index, side in enumerate(candidates):
        try:
            side.start(context)
        except Missing as missing:
            reasons[index] = str(missing)
            side.stop()
            continue
        except BaseException:
            side.stop()
            raise
        if role == "ours":
            running = [(i, s) for i, s in running if s.facts["command"] != side.facts["command"]]
        running.append((index, side))
    return running, reasons


def run(row, context, repeats):
    """A dictionary that report.py reads; {"skipped": why} when nothing of ours could run."""
    free = machine.memory_mb("MemAvailable")
    ours, ours_reasons = started(row.ours, context, "ours")
    peers, peer_reasons = [], {}
    try:
        if not ours:
            return {"id": row.id, "what": row.what, "skipped": "; ".join(ours_reasons.values())}
        if 0 < free < row.needs_mb:
            peer_reasons[0] = f"the peer needs {row.needs_mb / 1e3:.1f} GB of memory, {free / 1e3:.1f} GB are free"
        else:
            peers, peer_reasons = started(row.peers, context, "peers")
        figures, limits, lost = take_turns(row, ours + peers, context, repeats)
    finally:
        for _, side in ours + peers:
            side.stop()
    result = {"id": row.id, "what": row.what, "unit": row.unit, "work": row.work, "repeats": repeats,
              "ours": [summary(row, i, side, figures[side]) for i, side in ours if side in figures],
              "peers": [summary(row, i, side, figures[side]) for i, side in peers if side in figures],
              "missing": [*ours_reasons.values(), *peer_reasons.values(), *lost]}
    if not result["ours"]:
        return {"id": row.id, "what": row.what, "skipped": "; ".join(result["missing"])}
    result["bars"] = [judge(row, bar, result, limits, context) for bar in row.bars]
    return result


def take_turns(row, running, context, repeats):
    """Figures by side; the machine's limits after each round where a bar wants them; why a side had to give up."""
    figures, limits, lost = {side: [] for _, side in running}, [], []
    for turn in range(repeats):
        for side in list(figures):
            time.sleep(PAUSE)
            progress(f"{row.id}: turn {turn + 1} of {repeats}, {side.name} {side.role}")
            try:
                figures[side].append(one_turn(side))
            except Missing as missing:
                lost.append(str(missing))
                del figures[side]
        if any(bar.kind == table.BANDWIDTH for bar in row.bars):
            try:
                limits.append(sides.limits(context))
            except Missing:
                pass
    progress("")
    return figures, limits, lost


def one_turn(side):
    """What is short is run several times; the median of these is the turn's figure."""
    runs = [side.turn()]
    while side.again_when_short and len(runs) < SHORT_RUNS and sum(f.seconds for f in runs) < SHORT:
        runs.append(side.turn())
    middle = sorted(runs, key=lambda f: f.seconds)[len(runs) // 2]
    return dataclasses.replace(middle, peak_mb=max(f.peak_mb for f in runs))


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def summary(row, index, side, figures):
    seconds = [f.seconds for f in figures]
    middle = statistics.median(seconds)
    more = {key: [f.more[key] for f in figures] for key in figures[0].more}
    return {"index": index, "name": side.name, "role": side.role, "compute": figures[0].compute, "seconds": seconds,
            "shown": row.show(middle), "least": row.show(max(seconds) if row.unit != "ms" else min(seconds)),
            "most": row.show(min(seconds) if row.unit != "ms" else max(seconds)),
            "peak_mb": max(f.peak_mb for f in figures), "more": more, "facts": side.facts}


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def judge(row, bar, result, limits, context):
    """{"bar", "value": spread or None, "met": true, false or None}, and the ratio that it is about."""
    said = {"bar": str(bar), "kind": bar.kind, "limit": bar.limit, "value": None, "met": None}
    ours = next((s for s in result["ours"] if s["index"] == bar.ours), None)
    peers = [s for s in result["peers"] if bar.against in ("", s["name"], s["role"])]
    if ours is None:
        return said
    said["ours"] = f"{ours['name']} {ours['compute']}".strip()
    if bar.kind == table.BANDWIDTH:
        size = context.bytes_of(row.model)
        values = [size / (s / row.work) / (limit["read"] * 1e9) for s, limit in zip(ours["seconds"], limits)]
    elif bar.kind == table.PEAK:
        values = ours["more"].get("peak", [])
    elif not peers:
        values = []
    else:
        best = min(peers, key=lambda s: statistics.median(s["seconds"]))
        said["peer"] = f"{best['name']} {best['role']}".strip()
        pairs = list(zip(ours["seconds"], best["seconds"]))
        values = {table.SPEED: [b / a for a, b in pairs], table.COST: [a / b for a, b in pairs],
                  table.MEMORY: [ours["peak_mb"] / best["peak_mb"]]}[bar.kind]
    if values:
        said["value"] = spread(values)
        said["met"] = bar.met(said["value"]["median"])
    return said
