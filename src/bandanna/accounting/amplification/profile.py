"""What a Gaussian report among Gaussian reports reveals at many epsilons at once: `blanket.stop_loss` for arrays.

The same bound by the same sum over complex tilts z_j (`blanket.Circle`), one row for each epsilon; all rows share the
number N of points, the largest that one of them needs: any number will do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.amplification.blanket import Circle, lattices, newton

_STEEPEST = 300.0  # exponent of the largest tilt: no overflow, not of squares either


def stop_losses(*, users: int, chance: float, mu: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """E (m - tanh(epsilon/2))+ for every epsilon, from above; (R,), from (R,)."""
    grid = lattices(mu, epsilon)
    within = np.any((grid.places > 0) & (grid.weights > 0), axis=1)  # else all of s is below tau, but for the excess
    value = grid.excess.copy()
    if within.any():
        value[within] += _tilted(users, chance, grid.step, grid.places[within], grid.weights[within])
    return value


def _tilted(
    users: int, chance: float, step: float, places: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """E (Y)+ / (n p) from above, for every row of a lattice: (R,), from (R, Q)."""
    x = np.asarray(step * places, dtype=np.float64)
    theta, spread = _saddles(x, weights, users, chance)
    circle = Circle.around(users, chance, step, spread, x.shape[1])
    tilted = np.exp(theta[:, None] * x) * weights
    masses = np.zeros((len(x), circle.points))
    masses[np.arange(len(x))[:, None], places % circle.points] = tilted
    k = circle.transformed(masses)  # (R, N//2 + 1)
    size, most = np.abs(k), k[:, 0].real
    row, j = np.nonzero(circle.counts(size, most[:, None]))
    terms = np.zeros((len(x), int(j.max()) + 1))
    terms[row, j] = circle.terms(j, k[row, j], size[row, j], most[row], theta[row])
    return circle.expectation(terms.sum(axis=1), most, theta, tilted)


def _saddles(
    x: NDArray[np.float64], weights: NDArray[np.float64], users: int, chance: float
) -> tuple[NDArray[np.float64], float]:
    """theta near the least n log K(theta) - 2 log theta, (R,), and the largest tilted standard deviation of a Y.

    Any theta > 0 will do: these keep all digits. Newton's method between bounds.
    """
    last, below, likely = x[:, -1], x[0] - x[0, -1], chance * weights  # x = last + below in every row
    powers = np.stack([np.ones_like(below), below, below**2], axis=1)  # (Q, 3)
    most = np.where(weights > 0, x, -math.inf).max(axis=1)  # the last point with a weight
    lower = np.minimum(x - most[:, None], 0.0)
    low, high = np.zeros(len(x)), np.full(len(x), math.inf)
    theta = np.minimum(1 / np.sqrt(users * np.sum(likely * x**2, axis=1)), _STEEPEST / most)
    for _ in range(60):
        mass, first, second = ((likely * np.exp(theta[:, None] * lower)) @ powers).T  # times e^(theta most)
        total = (1 - chance) * np.exp(-theta * most) + mass
        mean = (last * mass + first) / total
        variance = users * ((last * (last * mass + 2 * first) + second) / total - mean**2)
        slope, step = newton(theta, users * mean, variance)
        low, high = np.where(slope < 0, theta, low), np.where(slope < 0, high, theta)
        step = np.where((low < step) & (step < high), step, np.where(np.isinf(high), 2 * low, (low + high) / 2))
        step = np.minimum(step, _STEEPEST / most)
        if np.all(np.abs(step - theta) < 1e-3 * theta):
            break
        theta = step
    return theta, math.sqrt(max(float(variance.max()), 0.0))
