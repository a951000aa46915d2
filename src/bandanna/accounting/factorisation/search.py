"""The search for a BLT's parameters: smooth and unconstrained, from a guess that is already close."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.factorisation.series import column_square, row_square

Array = NDArray[np.float64]
_STEP = 1e-5  # of the central differences: their error, about 1e-10, is far below what the result needs
_FLAT = 1e-5  # gradient at which the search ends: the cost is then within about 1e-7 of its minimum


def rates(point: Array) -> tuple[Array, Array]:
    """Free numbers (..., 2n) to interlaced 0 < rate_1 < rate_hat_1 < rate_2 < ... < 1: logits with positive gaps.

    The first number is the lowest logit, the others are logarithms of the gaps between neighbours.
    """
    gaps = np.concatenate([point[..., :1], np.exp(point[..., 1:])], axis=-1)
    mixed = 1 / (1 + np.exp(-np.cumsum(gaps, axis=-1)))  # (..., 2n)
    return mixed[..., 0::2], mixed[..., 1::2]


def guess(horizon: int, buffers: int) -> Array:
    """Logits of the rates evenly spaced from ln(1/T) to 0.6: the poles' time scales fill 1..T geometrically."""
    lowest, highest = -math.log(horizon), 0.6
    gap = (highest - lowest) / (2 * buffers - 1)
    return np.concatenate([[lowest], np.full(2 * buffers - 1, math.log(gap))])


def search(horizon: int, buffers: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(theta, theta_hat) that minimise ln sensitivity^2 + ln error^2 at this horizon."""
    from scipy import optimize

    def objective(point: Array) -> Array:
        rate, rate_hat = rates(point)
        with np.errstate(all="ignore"):  # a wild step of the line search may collapse two poles: infinite cost
            value = np.log(column_square(rate, rate_hat, horizon)) + np.log(row_square(rate, rate_hat, horizon))
        return np.where(np.isfinite(value), value, 1e6)

    def with_gradient(point: Array) -> tuple[float, Array]:
        steps = _STEP * np.eye(point.size)
        values = objective(np.concatenate([point[None], point + steps, point - steps]))  # (1 + 4n,)
        return float(values[0]), (values[1 : 1 + point.size] - values[1 + point.size :]) / (2 * _STEP)

    found = optimize.minimize(with_gradient, guess(horizon, buffers), jac=True, method="BFGS", options={"gtol": _FLAT})
    rate, rate_hat = rates(np.asarray(found.x))
    return tuple((1 - rate).tolist()), tuple((1 - rate_hat).tolist())
