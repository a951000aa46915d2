"""Proven suprema of the truncated Poisson family: of its variance, and of |third cumulant| / variance.

The law is P(k | z) proportional to e^{kz} / k! on 0, ..., R. Write m for its mean, k_2 and k_3 for its cumulants, m_4
for its fourth central moment and g = k_3 / k_2. All of these are functions of z, and

    k_2 = m - (e^z - m)(R - m) <= R,     (log k_2)' = g,     g' = m_4 / k_2 - 3 k_2 - g^2 >= -2 k_2 >= -2 R,

the first because m = e^z (1 - P(R)), the last because k_3^2 <= k_2 (m_4 - k_2^2) (Cauchy and Schwarz). So on an
interval [a, b] of length h, with M = sup |g|,

    |g| <= max(g(b), -g(a)) + 2 R h,     k_2 <= e^{M h} k_2(a).

Branch and bound: intervals whose bound is below a value that is attained elsewhere are dropped, the others are halved.
Below z = -12, or 12 above log R, all but a share e^{-12} of the law is at 0 (or at R), and each chance is that many
times smaller than its neighbour's: there k_2 < 1e-5, and |g| <= 1.0001.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats

_REACH = 12.0
_TAIL = 1.0001  # |g| beyond the reach
_PRECISION = 1e-5  # relative
_TERMS = 2**20  # numbers held at once
_MOST = 1000  # a search beyond it takes minutes


@lru_cache(maxsize=64)
def largest_skew(most: int) -> float:
    """Bound sup_z |k_3| / k_2, the self-concordance constant, to 0.01 %; for R above 1000 by R (Lemma H.1 of [003]).

    Parameters
    ----------
    most
        R, the largest count.

    Returns
    -------
    float
        At least the supremum, which is 1 or more.
    """
    if most > _MOST:
        return float(most)

    def ends(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        (v, third), (w, later) = _cumulants(left, most), _cumulants(right, most)
        at = np.maximum(later / w, -third / v)
        return at, at + 2 * most * (right - left)

    return _supremum(ends, most, least=_TAIL)


@lru_cache(maxsize=64)
def largest_variance(most: int) -> float:
    """Bound sup_z k_2, the largest slope, to 0.001 %; for R above 1000 by R.

    Parameters
    ----------
    most
        R, the largest count.

    Returns
    -------
    float
        At least the supremum, which is 1/4 or more.
    """
    if most > _MOST:
        return float(most)
    skew = largest_skew(most)

    def ends(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        at = _cumulants(left, most)[0]
        return at, at * np.exp(skew * (right - left))

    return _supremum(ends, most, least=0.25)


def _supremum(ends: Callable[[Floats, Floats], tuple[Floats, Floats]], most: int, least: float) -> float:
    """Bound a function by values at the ends of intervals and bounds inside of them; `least`: never below it."""
    edges = np.linspace(-_REACH, math.log(most) + _REACH, 257)
    left, right, best = edges[:-1], edges[1:], least
    while True:
        at, bound = ends(left, right)
        best = max(best, float(np.max(at)))
        kept = bound > best * (1 + _PRECISION)
        if not np.any(kept):
            return best * (1 + 1.01 * _PRECISION)  # and rounding
        middle = (left[kept] + right[kept]) / 2
        left, right = np.concatenate([left[kept], middle]), np.concatenate([middle, right[kept]])


def _cumulants(z: Floats, most: int) -> tuple[Floats, Floats]:
    """Variance and third cumulant of the law at z."""
    counts = np.arange(most + 1.0)
    parts = []
    for piece in np.array_split(z, 1 + z.size * counts.size // _TERMS):
        logs = piece[:, None] * counts - special.gammaln(counts + 1)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        centred = counts - (chances @ counts)[:, None]
        squares = chances * centred**2
        parts.append((squares.sum(axis=1), (squares * centred).sum(axis=1)))
    variances, thirds = zip(*parts, strict=True)
    return np.concatenate(variances), np.concatenate(thirds)
