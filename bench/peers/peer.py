"""The side of a peer: a process that loads once and then runs each time it is asked, so that it can take turns.

A peer's script calls serve(prepare). prepare(spec) loads and returns (run, facts): run() does the work once and returns
nothing, a number of seconds when it timed itself, or a dictionary with "seconds" and more; facts are versions and what
was called. The protocol is a line of JSON for each line that arrives; what libraries print goes to standard error.
"""

import ctypes
import gc
import json
import os
import sys
import time


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
    except OSError:
        pass


def peak_mb():
    """The most memory resident since reset_peak, in megabytes."""
    try:
        with open("/proc/self/status", encoding="utf-8") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    import resource
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6


def give_memory_back():
    """Two sides take turns on one machine: what this one no longer uses must not be missing to the other."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass


def threads(spec):
    return spec.get("threads") or len(os.sched_getaffinity(0))


def measure(run):
    give_memory_back()
    reset_peak()
    start = time.perf_counter()
    said = run()
    seconds = time.perf_counter() - start
    figure = said if isinstance(said, dict) else {"seconds": said if said is not None else seconds}
    figure.setdefault("seconds", seconds)
    figure["peak_mb"] = peak_mb()
    return figure


def serve(prepare):
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message):
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    run, facts = prepare(json.loads(sys.argv[1]))
    say(facts)
    for _ in sys.stdin:
        figure = measure(run)
        give_memory_back()
        say(figure)
