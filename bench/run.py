#!/usr/bin/env python3
"""Times the program as a whole process, start included, and says on what machine, with which compiler and commit.

    run.py [--runs N] [-- ARGUMENTS OF headscope]

Without arguments: `look` on the lesson's sentence, on the small model of the test data and on SmolLM2 if it was fetched.
Each line: the fastest, the median and the slowest of N runs (after one that warms the caches), in milliseconds.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.environ.get("HEADSCOPE", os.path.join(ROOT, "build", "headscope"))
DATA = os.environ.get("HEADSCOPE_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))
SENTENCE = "The animal didn't cross the street because it was too tired"
MODELS = (os.path.join(DATA, "models", "tinystories-656k"),
          os.path.join(ROOT, ".cache", "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return re.search(r"model name\s*: (.*)", f.read()).group(1)
    except (OSError, AttributeError):
        return platform.processor() or "unknown"


def print_conditions():
    dirty = " with changes" if output("git", "status", "--porcelain", "--untracked-files=no") else ""
    print(f"machine   {processor()}, {len(os.sched_getaffinity(0))} threads, {platform.system()} {platform.release()}")
    print(f"compiler  {output('cc', '--version').splitlines()[0]}")
    print(f"commit    {output('git', 'rev-parse', '--short', 'HEAD')}{dirty}")


def time_command(arguments, runs):
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        times.append(1e3 * (time.perf_counter() - start))
        if done.returncode:
            sys.exit(f"headscope {' '.join(arguments)}: exit status {done.returncode}: {done.stderr.strip()}")
    times = times[1:]
    print(f"{min(times):9.1f} {statistics.median(times):9.1f} {max(times):9.1f}  headscope {' '.join(arguments)}")


def main():
    parser = argparse.ArgumentParser(description="time the program as a whole process")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("arguments", nargs="*", help="of headscope; put -- before them")
    options = parser.parse_args()
    print_conditions()
    print(f"\n{'fastest':>9} {'median':>9} {'slowest':>9}  ms, {options.runs} runs")
    if options.arguments:
        time_command(options.arguments, options.runs)
        return
    for model in filter(os.path.exists, MODELS):
        time_command(["look", "-m", model, SENTENCE], options.runs)
        time_command(["look", "-m", model, SENTENCE, "--token", " it", "--json"], options.runs)


if __name__ == "__main__":
    main()
