#!/usr/bin/env python3
"""headscope beside its peers on this machine, in one run: ratios with their spread, the bars, and a page of results.

    run.py --program build/headscope [--quick] [--rows REGEX] [--repeats N] [--threads N]

`./dev bench --peers` builds the program, makes the Python and calls this with the same options. It needs the packages of tests/peers/requirements-bench.txt, and bench_kernels beside the program for the rows that are
held against the machine's limits. What is missing leaves out its rows and is named. Full runs are kept in bench/results;
one row measured again with --rows replaces that row alone. A quick run is short and keeps nothing.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import lengths
import machine
import report
import rows as table
import turns
from models import Missing, Models
from sides import Context


ABOUT = """\
Measures headscope beside the programs that people use today, on this machine and in one run: the sides of a row take
turns, a ratio is the median over the turns with its least and its most, each row is held against a bar, and
bench/results/<processor>.md keeps the figures with every side's command line."""
AFTER = """\
The first run makes .cache/bench-peers, a Python with pinned peers (about 2 GB to fetch, ten minutes; llama.cpp is built
for this processor), unless HEADSCOPE_PEERS_PYTHON names a Python that has them, and the checkpoints in .cache/bench
(2 GB). After that all rows take about an hour and up to 20 GB of memory; a row that needs more than is free says so.
Rows measured alone replace themselves on the page and leave the others as they are."""


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench --peers", description=ABOUT, epilog=AFTER, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(machine.ROOT, "build", "headscope"))
    parser.add_argument("--quick", action="store_true", help="short texts, two turns; nothing is kept")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose name it finds; --list names them")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="turns of each row (5, quick 2)")
    parser.add_argument("--threads", type=int, default=machine.threads(), metavar="N", help="of every side (all)")
    parser.add_argument("--cache", default=os.path.join(machine.ROOT, ".cache", "bench"), metavar="DIR")
    parser.add_argument("--results", default=report.FOLDER, metavar="DIR", help="where results are kept (bench/results)")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    options = parser.parse_args()
    try:
        options.wanted = re.compile(options.rows)
    except re.error as wrong:
        parser.error(f"--rows: {wrong}")
    options.repeats = options.repeats or (2 if options.quick else 5)
    return options


def print_conditions(context):
    c = machine.conditions()
    print(f"machine    {c['processor']} ({c['family']}), {context.threads} threads, {c['memory_gb']} GB, {c['system']}")
    print(f"compiler   {c['compiler']}")
    print(f"headscope  {context.version}, commit {machine.commit()}, kernels {context.isa}, "
          f"compute {' '.join(context.computes)}")
    if machine.load() > 0.5:
        print(f"note: the machine is busy (load {machine.load():.1f}): these figures say little")
    sys.stdout.flush()


def run_lengths(points, context, options, store):
    """The curves: a point measured again replaces that point alone."""
    print("\nlengths: SmolLM2 f32, one pass, time and memory against length", flush=True)
    base = os.path.join(options.cache, "quick") if options.quick else store.base
    os.makedirs(os.path.dirname(base), exist_ok=True)
    rows = {} if options.quick else lengths.read(base + "-length.csv")
    for point in points:
        where = f"  {point.length:>6} {point.side.name:<13} {point.capture:<9}"
        try:
            row = point.measure(context)
        except Missing as missing:
            print(f"{where} left out: {missing}", flush=True)
            continue
        rows[lengths.key(row)] = row
        lengths.write(base + "-length.csv", rows)
        print(f"{where} {float(row['seconds']):10.3f} s {float(row['peak_mb']):9.0f} MB", flush=True)
    if importlib.util.find_spec("matplotlib") and rows:
        subprocess.run([sys.executable, os.path.join(HERE, "plot.py"), base + "-length.csv", base + "-length.png"],
                       check=True, env=context.environment)
    else:
        print("  no picture: matplotlib is not installed")
    print(f"  {base}-length.csv")


def main():
    options = arguments()
    chosen = [row for row in table.table(options.quick) if options.wanted.search(row.id)]
    points = [point for point in lengths.points(options.quick) if options.wanted.search(point.id)]
    if not chosen and not points:
        sys.exit(f"./dev bench --peers: no row is called '{options.rows}'; --list names them")
    if options.list:
        print("\n".join(each.id for each in chosen + points))
        return 0
    context = Context(options.program, Models(options.cache, options.quick), options.threads, options.cache)
    store = report.Store(options.results)
    print_conditions(context)
    missed = []
    for row in chosen:
        result = turns.run(row, context, options.repeats)
        report.print_row(result)
        missed += [row.id for bar in result.get("bars", []) if bar["met"] is False]
        if not options.quick:
            store.add(result, context)
    if points:
        run_lengths(points, context, options, store)
    if not options.quick:
        store.write([row.id for row in table.table(False)])
        print(f"\n{store.base}.md")
    if missed:
        print(f"missed: {' '.join(dict.fromkeys(missed))}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
