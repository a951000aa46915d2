"""What stochastic rounding to the lattice costs (calibration.md A.3 and A.3b).

A statistic x is encoded as floor(s x + U), U uniform per coordinate. Coupling two neighbours by the same U, their
encodings differ by an integer vector v that rounds s (x' - x) coordinate by coordinate, so with R = s Delta_2 and D
coordinates

    E |v|^2 <= R^2 + D/4,   v_k^2 has range at most 2 |s (x'-x)_k| + 1,   sum of squared ranges <= (2 R + sqrt D)^2.

By joint convexity the pair is a mixture over U of the shifts v, and Hoeffding's lemma bounds |v|^2.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.accounting import gdp

_CELLS = 2000


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
    log_delta = gdp.log_delta(epsilon, mu_unit * np.sqrt(grid[1:]))  # at the upper end of each cell
    lambdas = np.geomspace(1e-3, 300.0, 300) / mean

    def bound(place: int) -> float:
        lambda_ = lambdas[place]
        log_c = np.max(log_delta - lambda_ * grid[:-1])
        return float(log_c + lambda_ * mean + lambda_**2 * width**2 / 8)

    low, high = 0, len(lambdas) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= bound(middle + 1) else (middle + 1, high)
    worst = float(gdp.delta(epsilon, mu_unit * math.sqrt(most)))
    return min(float(np.exp(bound(low))), worst, 1.0)
