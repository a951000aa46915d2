"""What stochastic rounding to the lattice costs (calibration.md A.3 and A.3b).

A statistic x is encoded as floor(s x + U), U uniform per coordinate. Coupling two neighbours by the same U, their
encodings differ by an integer vector v that rounds s (x' - x) coordinate by coordinate, so with R = s Delta_2 and D
coordinates

    E |v|^2 <= R^2 + D/4,   v_k^2 has range at most 2 |s (x'-x)_k| + 1,   sum of squared ranges <= (2 R + sqrt D)^2.

By joint convexity the pair is a mixture over U of the shifts v, and Hoeffding's lemma bounds |v|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bandanna.accounting import gdp
from bandanna.core.arrays import Floats

_CELLS, _TOGETHER = 2000, 16


def composable_shift(shift: float, dim: int, tail: float) -> float:
    """|v|_2 is at most this except with probability `tail` (A.3b): what a release that will be composed must assume.

    |v|^2 <= R^2 + D/4 + (2 R + sqrt D) sqrt(log(1/tail)/2)
    """
    spread = (2 * shift + math.sqrt(dim)) * math.sqrt(math.log(1 / tail) / 2)
    return min(math.sqrt(shift**2 + dim / 4 + spread), shift + math.sqrt(dim))  # the latter always holds


def expected_delta(epsilon: float, mu_unit: float, shift: float, dim: int) -> float:
    """Bound on E_v delta_G(epsilon; mu_1 |v|), for one release at one epsilon only (A.3); never to be composed.

    min over lambda of C(lambda) exp(lambda (R^2 + D/4) + lambda^2 (2 R + sqrt D)^2 / 8),
    C(lambda) = sup_q delta_G(epsilon; mu_1 sqrt q) e^{-lambda q}.

    The supremum is bounded cell by cell (delta_G increases in q), so the result is an upper bound, not an estimate. The
    logarithm is convex in lambda, a largest of lines plus a parabola: its least on a grid is where it begins to rise.
    """
    mean, width = shift**2 + dim / 4, 2 * shift + math.sqrt(dim)
    most = (shift + math.sqrt(dim)) ** 2  # |v| <= |s(x'-x)| + sqrt D always
    grid = np.linspace(0.0, 1.0, _CELLS + 1) ** 0.5 * most
    grid = np.unique(
        np.concatenate([grid, np.linspace(max(mean - 3 * width, 0.0), min(mean + 6 * width, most), _CELLS)])
    )
    cells = _Cells(epsilon, mu_unit, grid)
    lambdas = np.geomspace(1e-3, 300.0, 300) / mean

    def bound(log_c: Callable[[float], float], place: int) -> float:
        lambda_ = float(lambdas[place])
        return log_c(lambda_) + lambda_ * mean + lambda_**2 * width**2 / 8

    low, high = 0, len(lambdas) - 1
    while low < high:  # nearly there, at little cost
        middle = (low + high) // 2
        falls = bound(cells.coarsely, middle) > bound(cells.coarsely, middle + 1)
        low, high = (middle + 1, high) if falls else (low, middle)
    found = bound(cells.finely, low)
    for step in (-1, 1):
        while 0 <= low + step < len(lambdas) and (beside := bound(cells.finely, low + step)) < found:
            low, found = low + step, beside
    worst = float(gdp.delta(epsilon, mu_unit * math.sqrt(most)))
    return min(float(np.exp(found)), worst, 1.0)


class _Cells:
    """log C(lambda), at least: by cells of a grid, or by some of them together, which is more and takes less."""

    def __init__(self, epsilon: float, mu_unit: float, grid: Floats) -> None:
        missing = (0, -(len(grid) - 1) % _TOGETHER)
        self._starts, ends = (np.pad(each, missing, "edge").reshape(-1, _TOGETHER) for each in (grid[:-1], grid[1:]))
        self._epsilon, self._mu = epsilon, mu_unit * np.sqrt(ends)
        self._first, self._last = self._starts[:, 0].copy(), self._starts[:, -1].copy()
        self._most = gdp.log_delta(epsilon, self._mu[:, -1])  # delta_G increases: at the end of each
        self._log_delta, self._known = np.empty(ends.shape), np.zeros(len(ends), dtype=bool)

    def coarsely(self, lambda_: float) -> float:
        return float((self._most - lambda_ * self._first).max())

    def finely(self, lambda_: float) -> float:
        """Where a larger one may lie than at the end of some cells, every cell is looked at."""
        reached = (self._most - lambda_ * self._last).max()
        higher = self._most - lambda_ * self._first >= reached
        new = higher & ~self._known
        if new.any():
            self._log_delta[new], self._known[new] = gdp.log_delta(self._epsilon, self._mu[new]), True
        return float((self._log_delta[higher] - lambda_ * self._starts[higher]).max())
