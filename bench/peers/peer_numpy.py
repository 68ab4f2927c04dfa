"""OpenBLAS through numpy: one matrix product, the weight stored [n_out][n_in] or [n_in][n_out]."""

import re
import statistics
import time

import numpy as np

import peer

CALLS = 20


def prepare(spec):
    rng = np.random.default_rng(0)
    rows, n_out, n_in = spec["shape"]
    x = rng.random((rows, n_in), dtype=np.float32) - 0.5
    w = rng.random((n_out, n_in) if spec["layout"] == "out-in" else (n_in, n_out), dtype=np.float32) - 0.5
    w = w.T if spec["layout"] == "out-in" else w
    y = np.empty((rows, n_out), np.float32)

    def run():
        seconds = []
        for _ in range(CALLS):
            start = time.perf_counter()
            np.matmul(x, w, out=y)
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    facts = {"versions": {"numpy": np.__version__, blas["name"]: blas["version"]}}
    try:
        import threadpoolctl
        facts["build"] = ", ".join(f"{p['internal_api']} {p.get('architecture', '')} {p['num_threads']} threads"
                                   for p in threadpoolctl.threadpool_info())
    except ImportError:
        facts["build"] = re.sub(r"\s+", " ", blas.get("openblas configuration", ""))
    return run, facts


if __name__ == "__main__":
    peer.serve(prepare)
