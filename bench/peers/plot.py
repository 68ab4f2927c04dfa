#!/usr/bin/env python3
"""plot.py POINTS.csv OUT.png: time and memory against length, from what lengths.py measured."""

import collections
import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

LABELS = {("headscope", "none"): "headscope, nothing kept", ("headscope", "stats"): "headscope, statistics of every head",
          ("headscope", "patterns"): "headscope, every pattern kept", ("transformers", "none"): "transformers, sdpa, nothing",
          ("transformers", "patterns"): "transformers, eager, every pattern"}
STYLES = {"none": ":", "stats": "-", "patterns": "--"}
COLOURS = {"headscope": "#0b6e99", "transformers": "#c2571a"}


def main():
    source, target = sys.argv[1:]
    lines = collections.defaultdict(list)
    with open(source, encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            lines[row["engine"], row["capture"]].append(
                (int(row["length"]), float(row["seconds"]), float(row["peak_mb"]) / 1e3))
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    for (engine, capture), points in lines.items():
        lengths, seconds, gigabytes = zip(*sorted(points))
        for panel, values in zip(panels, (seconds, gigabytes)):
            panel.plot(lengths, values, STYLES[capture], color=COLOURS[engine], marker="o", markersize=3,
                       label=LABELS[engine, capture])
    ticks = sorted({length for points in lines.values() for length, *_ in points})
    for panel, name in zip(panels, ("seconds", "GB at the peak")):
        panel.set(xscale="log", yscale="log", xlabel="tokens", title=name)
        panel.set_xticks(ticks, [f"{n:,}" for n in ticks], rotation=45, fontsize=8)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.suptitle("SmolLM2-135M, f32, one pass without LM head")
    figure.savefig(target, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
