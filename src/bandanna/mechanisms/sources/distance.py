"""How far the fast source is from the secure one: bounds on the Kolmogorov distance of their releases."""

from __future__ import annotations

import math

from bandanna.core import require
from bandanna.errors import InvalidArgument


def gaussian_grid_distance(*, std: float, grid: float) -> float:
    """Bound on sup_x |P(fast <= x) - P(secure <= x)| for a Gaussian release of the same value, grid <= std.

        fast = v + N(0, std^2),   secure = grid (round(v / grid) + discrete Gaussian(std / grid)),
        distance <= grid / (std sqrt(2 pi)) + (grid / std)^2 / 16.

    Proof, in units of the grid, s = std / grid >= 1, f the density of N(0, s^2), S = sum_j f(j).
    (1) Rounding v moves it by at most 1/2, hence the distribution function by at most f(0)/2. Then v = 0.
    (2) For k >= 0 and x in [k, k+1), P(N > x) is within f(0)/2 of P(N > k + 1/2); by symmetry k >= 0 is enough.
    (3) Midpoint rule with its Peano kernel (1/2 - |t|)^2 / 2 <= 1/8:
        |sum_{j>k} f(j) - P(N > k + 1/2)| <= (1/8) int_0^inf |f''| = (1/4) max |f'| < 0.0606 / s^2.
    (4) Dividing by S moves a tail <= 1/2 by at most (S - 1)/2 = sum_{m>=1} exp(-2 pi^2 s^2 m^2) < 1e-8 / s^2 (Poisson
        summation); 0.0606 + 1e-8 < 1/16.
    """
    ratio = require.positive("grid", grid) / require.positive("std", std)
    if ratio > 1:
        raise InvalidArgument("grid", grid, f"at most std = {std!r}")
    return min(1.0, ratio / math.sqrt(2 * math.pi) + ratio**2 / 16)


def laplace_grid_distance(*, scale: float, grid: float) -> float:
    """Bound on sup_x |P(fast <= x) - P(secure <= x)| for a Laplace release of the same value.

        distance <= grid / (2 scale) + (grid / scale)^2 / 16.

    Proof, in units of the grid, s = scale / grid. The density is at most 1 / (2s): steps (1) and (2) of
    `gaussian_grid_distance` cost 1 / (4s) each. For k >= 0 the discrete tail is
    P(Y > k) = e^{-(k+1)/s} / (1 + e^{-1/s}) = P(L > k + 1/2) sech(1 / (2s)), and 1 - sech(x) <= x^2 / 2.
    """
    ratio = require.positive("grid", grid) / require.positive("scale", scale)
    return min(1.0, ratio / 2 + ratio**2 / 16)
