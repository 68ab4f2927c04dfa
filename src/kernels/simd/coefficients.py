#!/usr/bin/env python3
"""Prints the polynomials of math.h and stats.h: minimax fits by weighted least squares (Lawson 1961), needs numpy and mpmath.

exp:   e^r = 1 + r + r^2 q(r),              |r| <= ln(2)/2, relative error
tanh:  tanh(x) = x + x^3 q(x^2),            |x| <= 0.65, relative error
ln:    ln(1 + t) = t - t^2/2 + t^3 q(t),    -1/4 <= t <= 1/2, relative error
erfc:  erfc(t) = exp(-t q(t)),              0 <= t <= 4.3, error times erfc(t)^(1/2): near-relative, and never wild
"""

import mpmath
import numpy as np


def minimax(x, y, weight, degree):
    """The polynomial p of this degree that makes max |weight (p - y)| least, lowest coefficient first."""
    basis, importance = np.vander(x, degree + 1, increasing=True), np.ones_like(x)
    for _ in range(200):
        scale = weight * np.sqrt(importance)
        p = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(weight * (basis @ p - y))
        importance = importance * error
        importance /= importance.sum()
    return p, error.max()


def grid(low, high, n=4001):
    return (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * (np.arange(n) + 0.5) / n)


def show(name, fit):
    p, error = fit
    print(f"{name}: error {error:.2e}")
    print("    " + ", ".join(f"{float(np.float32(c)).hex()}f" for c in p))


def values(f, x):
    return np.array([float(f(mpmath.mpf(float(v)))) for v in x])


def main():
    mpmath.mp.dps = 40
    r = grid(-np.log(2) / 2 * 1.001, np.log(2) / 2 * 1.001)
    show("exp", minimax(r, values(lambda v: (mpmath.exp(v) - 1 - v) / v**2, r), r**2 / np.exp(r), 4))
    x = grid(1e-3, 0.65)
    show("tanh", minimax(x**2, values(lambda v: (mpmath.tanh(v) - v) / v**3, x), x**3 / np.tanh(x), 4))
    t = grid(-0.25, 0.5)
    ln = values(mpmath.log1p, t)
    show("ln", minimax(t, values(lambda v: (mpmath.log1p(v) - v + v**2 / 2) / v**3, t), np.abs(t**3 / ln), 7))
    t = grid(1e-6, 4.3)
    erfc = values(mpmath.erfc, t)
    for degree in (7, 8, 9):
        show(f"erfc {degree}", minimax(t, values(lambda v: -mpmath.log(mpmath.erfc(v)) / v, t), t * erfc**0.5, degree))


if __name__ == "__main__":
    main()
