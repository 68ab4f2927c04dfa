"""hsc_random against torch's CPU generator: integers, permutations and uniform numbers to the bit, normal ones within
4e-6, over seeds, sizes, and sequences of calls that each must leave the generator where torch leaves it."""
import math
import random

import common
import library
import numpy as np
import torch

SEEDS = [0, 1, 2, 3, 12, 42, 1234, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**63 - 1]
SIZES = [0, 1, 2, 3, 7, 14, 15, 16, 17, 23, 31, 32, 33, 40, 47, 48, 80, 255, 624, 625, 1000, 4099]
NORMAL_BAR = 4e-6


def pair(lib, seed):
    torch.manual_seed(seed)
    return library.Random(lib, seed)


def same(mine, theirs, what):
    assert np.array_equal(mine, theirs.reshape(-1).numpy()), what


def close(mine, theirs, what, scale=1.0):
    off = np.abs(mine.astype(np.float64) - theirs.reshape(-1).double().numpy()).max(initial=0) / scale
    assert off <= NORMAL_BAR, f"{what}: {off:.2e} away"
    return off


def test_uniform():
    lib = library.load()
    for seed in SEEDS:
        for n in SIZES:
            r = pair(lib, seed)
            same(r.uniform(0, 1, n), torch.rand(n), f"rand({n}), seed {seed}")
            for low, high in ((-0.125, 0.125), (-0.0883883461356163, 0.0883883461356163), (2.0, 5.0), (-7.5, -7.25)):
                theirs = torch.empty(n).uniform_(low, high)
                same(r.uniform(low, high, n), theirs, f"uniform_({low}, {high}) of {n}, seed {seed}")


def test_normal():
    lib = library.load()
    worst = 0.0
    for seed in SEEDS:
        for n in SIZES:
            r = pair(lib, seed)
            for again in range(3):
                worst = max(worst, close(r.normal(n), torch.randn(n), f"randn({n}) no. {again}, seed {seed}"))
            mine, theirs = r.normal(n, 3.0, 0.5), torch.empty(n).normal_(3.0, 0.5)
            close(mine, theirs, f"normal_(3, 0.5) of {n}, seed {seed}", 3.0)
    print(f"normal numbers: at most {worst:.1e} from torch's")


def test_a_million():
    lib = library.load()
    r = pair(lib, 0)
    print(f"a million normal numbers: at most {close(r.normal(1_000_003), torch.randn(1_000_003), 'randn'):.1e} away")
    same(r.uniform(0, 1, 1_000_003), torch.rand(1_000_003), "rand")


def test_integers():
    lib = library.load()
    ranges = [(0, 1), (0, 2), (0, 10), (-5, 5), (0, 2**28 - 1), (0, 2**28), (0, 2**28 + 1), (-2**31, 2**31 - 1),
              (0, 2**32 - 1), (0, 2**32), (0, 2**32 + 1), (-2**62, 2**62), (-2**63, 2**63 - 1), (2**63 - 2, 2**63 - 1)]
    for seed in SEEDS:
        r = pair(lib, seed)
        for low, high in ranges:
            for n in (0, 1, 5, 700):
                same(r.integers(low, high, n), torch.randint(low, high, (n,)), f"randint({low}, {high}), seed {seed}")


def test_permutations():
    lib = library.load()
    for seed in SEEDS:
        r = pair(lib, seed)
        for n in (0, 1, 2, 3, 5, 10, 623, 1000, 100_003):
            same(r.permutation(n), torch.randperm(n), f"randperm({n}), seed {seed}")


def test_initial_values():
    lib = library.load()
    for seed in SEEDS:
        r = pair(lib, seed)
        for n_out, n_in in ((1, 1), (3, 5), (64, 64), (256, 64), (64, 256), (192, 64), (7, 1000)):
            for a in (0.0, math.sqrt(5)):
                theirs = torch.nn.init.kaiming_uniform_(torch.empty(n_out, n_in), a=a)
                same(r.kaiming_uniform(n_out, n_in, a), theirs, f"kaiming_uniform_ {n_out} x {n_in}, a {a}, seed {seed}")
            for gain in (1.0, 5 / 3):
                theirs = torch.nn.init.xavier_uniform_(torch.empty(n_out, n_in), gain)
                same(r.xavier_uniform(n_out, n_in, gain), theirs, f"xavier_uniform_ {n_out} x {n_in}, seed {seed}")


def test_mixed_calls():
    """The waiting half of a pair of normal numbers survives everything but a seed."""
    lib = library.load()
    for seed in range(40):
        r, choose = pair(lib, seed), random.Random(seed)
        for step in range(60):
            n = choose.choice([1, 2, 3, 5, 15, 16, 17, 40])
            kind = choose.randrange(4)
            what = f"seed {seed}, step {step}"
            if kind == 0:
                close(r.normal(n), torch.randn(n), what)
            elif kind == 1:
                same(r.uniform(0, 1, n), torch.rand(n), what)
            elif kind == 2:
                same(r.integers(0, 1000, n), torch.randint(0, 1000, (n,)), what)
            else:
                same(r.permutation(n), torch.randperm(n), what)


if __name__ == "__main__":
    common.main(globals())
