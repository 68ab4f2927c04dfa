"""The statistics of headscope/inspect.h against scipy and numpy: exact and sampled sign flips, the family-wise p, adjusted
p-values, the sign test, the least effect that a run could find, and bootstrap intervals from torch's index matrix."""
import ctypes

import common
import library
import numpy as np
import torch


class Table(ctypes.Structure):
    _fields_ = [("values", ctypes.c_void_p), ("n_clusters", ctypes.c_int), ("n_columns", ctypes.c_int)]


class FlipOptions(ctypes.Structure):
    _fields_ = [("n_draws", ctypes.c_int), ("seed", ctypes.c_uint64), ("n_threads", ctypes.c_int)]


class BootstrapOptions(ctypes.Structure):
    _fields_ = [("n_draws", ctypes.c_int), ("level", ctypes.c_double), ("seed", ctypes.c_uint64),
                ("n_threads", ctypes.c_int)]


def scipy_stats():
    try:
        from scipy import stats
    except ImportError:
        common.require(False, "scipy is not here")
    return stats


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def table(x):
    return Table(x.ctypes.data, *x.shape)


def exact(lib, x):
    p, err = ctypes.c_double(), library.Error()
    assert lib.hsc_sign_flip_exact(pointer(x), len(x), 1, ctypes.byref(p), ctypes.byref(err)) == 0, err.message
    return p.value


def family(lib, x, n_draws=0, seed=0):
    p, p_fwer, used, err = np.empty(x.shape[1]), np.empty(x.shape[1]), ctypes.c_int(), library.Error()
    options = FlipOptions(n_draws, seed, 2)
    status = lib.hsc_sign_flip_family(ctypes.byref(table(x)), ctypes.byref(options), pointer(p), pointer(p_fwer),
                                      ctypes.byref(used), ctypes.byref(err))
    assert status == 0, err.message
    return p, p_fwer, used.value


def test_exact_p():
    stats, lib, rng, worst = scipy_stats(), library.load(), np.random.default_rng(1), 0
    for n in range(2, 17):
        for shift in (0.0, 0.3, -0.8):
            for x in (rng.normal(shift, 1, n), rng.integers(-3, 4, n) / 4 + shift // 1):
                if x.sum() == 0:
                    continue
                want = stats.permutation_test((x,), np.mean, permutation_type="samples", n_resamples=np.inf,
                                              vectorized=True, axis=-1).pvalue
                worst = max(worst, abs(exact(lib, np.ascontiguousarray(x)) - want))
    print(f"  exact p, n = 2 to 16: at most {worst:.1e} from permutation_test")
    assert worst <= 1e-12


def test_sampled_p():
    stats, lib, rng = scipy_stats(), library.load(), np.random.default_rng(2)
    x = np.ascontiguousarray(rng.normal(0.15, 1, (120, 40)))
    p, p_fwer, used = family(lib, x)
    assert used == 100000
    peer = stats.permutation_test((x,), np.mean, permutation_type="samples", n_resamples=20000, vectorized=True, axis=0,
                                  batch=500, rng=np.random.default_rng(3)).pvalue
    error = np.sqrt(peer * (1 - peer) * (1 / 20000 + 1 / 100000)) + 2e-4
    assert (np.abs(p - peer) <= 4 * error).all()
    assert (p_fwer >= p).all()
    small = np.ascontiguousarray(x[:30])  # here the exact p is known
    p, _, used = family(lib, small)
    truth = np.array([exact(lib, np.ascontiguousarray(column)) for column in small.T])
    bar = 4 * np.sqrt(truth * (1 - truth) / used) + 1e-5
    assert (np.abs(p - truth) <= bar).all()
    print(f"  sampled p: at most {(np.abs(p - truth) / bar).max() * 4:.1f} standard errors away")


def test_family_wise():
    """max |t| by the textbook's formula, under the very signs that the library draws."""
    lib, rng = library.load(), np.random.default_rng(4)
    x = np.ascontiguousarray(rng.normal(0.2, 1, (45, 12)) * rng.uniform(0.1, 3, 12))
    n_draws = 3000
    p, p_fwer, _ = family(lib, x, n_draws, seed=7)
    r = library.Random(lib, 7)
    lib.hsc_random_bits32.restype = ctypes.c_uint32
    words = np.array([lib.hsc_random_bits32(ctypes.byref(r.state)) for _ in range(n_draws * 2)]).reshape(n_draws, 2)
    turned = (words[:, np.arange(45) // 32] >> (np.arange(45) % 32)) & 1
    signs = 1.0 - 2 * turned
    draws = signs[:, :, None] * x
    t = draws.mean(1) / (draws.std(1, ddof=1) / np.sqrt(45))
    observed = np.abs(x.mean(0) / (x.std(0, ddof=1) / np.sqrt(45)))
    want = (1 + (np.abs(t).max(1)[:, None] >= observed).sum(0)) / (1 + n_draws)
    assert np.allclose(p_fwer, want, rtol=0, atol=1e-15), (p_fwer, want)
    want = (1 + (np.abs(draws.sum(1)) >= np.abs(x.sum(0)) - 1e-12).sum(0)) / (1 + n_draws)
    assert np.allclose(p, want, rtol=0, atol=1e-15)


def test_adjusted():
    stats, lib, rng, worst = scipy_stats(), library.load(), np.random.default_rng(5), 0
    for n in (1, 2, 5, 72, 270):
        p = rng.uniform(0, 1, n) ** 3
        p[: n // 4] = p[0]  # ties
        for kind, name in enumerate(("bh", "by")):
            out = np.empty(n)
            assert lib.hsc_adjust_p(kind, pointer(p), n, pointer(out), None) == 0
            worst = max(worst, np.abs(out - stats.false_discovery_control(p, method=name)).max())
        order, out, running = np.argsort(p, kind="stable"), np.empty(n), 0.0
        assert lib.hsc_adjust_p(2, pointer(p), n, pointer(out), None) == 0
        for rank, i in enumerate(order):
            running = max(running, min(1.0, (n - rank) * p[i]))
            worst = max(worst, abs(out[i] - running))
    print(f"  adjusted p: at most {worst:.1e} from false_discovery_control and Holm's formula")
    assert worst <= 1e-12


def test_sign_test():
    stats, lib = scipy_stats(), library.load()
    lib.hsc_sign_test.restype = ctypes.c_double
    for n in (0, 1, 2, 7, 32, 357, 1000):
        for k in {0, n // 7, n // 3, n // 2, n}:
            want = stats.binomtest(k, n).pvalue if n else 1.0
            got = lib.hsc_sign_test(k, n - k)
            assert abs(got - want) <= 1e-12 * max(want, 1e-3), (k, n, got, want)


def test_power():
    stats, lib = scipy_stats(), library.load()
    lib.hsc_min_dz.restype = ctypes.c_double
    for n in (2, 3, 6, 14, 20, 32, 60, 357, 5000):
        for tests, alpha in ((1, 0.05), (1, 0.9), (72, 0.05), (1024, 0.01)):
            got = lib.hsc_min_dz(n, tests, ctypes.c_double(alpha), ctypes.c_double(0.8))
            if n < 1 + np.log2(tests / alpha):
                assert np.isnan(got)
                continue
            critical = stats.t.isf(alpha / tests / 2, n - 1)
            power = stats.nct.sf(critical, n - 1, got * np.sqrt(n))
            assert abs(power - 0.8) <= 1e-5, (n, tests, alpha, got, power)


def test_bootstrap():
    """numpy's percentiles over torch's index matrix."""
    lib, rng, worst = library.load(), np.random.default_rng(6), 0
    for n, n_draws, seed, level in ((32, 0, 0, 0), (60, 2000, 3, 0.9), (1, 50, 1, 0), (357, 1000, 12, 0.99)):
        x = np.ascontiguousarray(rng.normal(0.1, 1, (n, 9)))
        out, err, draws = np.empty((9, 2)), library.Error(), n_draws or 10000
        options = BootstrapOptions(n_draws, level, seed, 2)
        status = lib.hsc_bootstrap(ctypes.byref(table(x)), ctypes.byref(options), pointer(out), ctypes.byref(err))
        assert status == 0, err.message
        torch.manual_seed(seed)
        index = torch.randint(0, n, (draws, n)).numpy()
        half = (1 - (level or 0.95)) / 2
        want = np.percentile(x[index].mean(1), [100 * half, 100 * (1 - half)], axis=0).T
        worst = max(worst, np.abs(out - want).max())
    print(f"  bootstrap: at most {worst:.1e} from numpy.percentile over torch.randint's rows")
    assert worst <= 1e-12


common.main(globals())
