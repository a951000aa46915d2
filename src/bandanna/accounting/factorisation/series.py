"""Closed forms for sums of exponentials: norms of a BLT at any horizon, without a loop over time.

A rational generating function with poles theta_i = 1 - rate_i has coefficients sum_i amplitude_i (1 - rate_i)^k. All
amplitudes here are positive and everything is written in the rates, which are exact in floating point near theta = 1:
no step subtracts nearly equal numbers, whatever the horizon. Arrays may have leading axes; poles are on the last one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_STEPS = 4096


def residues(rate: Array, rate_hat: Array) -> Array:
    """w of C(x) = prod_j (1 - thh_j x)/(1 - th_j x) = 1 + sum_i w_i x/(1 - th_i x); with swapped arguments, -w_hat.

    w_i = prod_j (th_i - thh_j) / prod_{j != i} (th_i - th_j); for interlaced parameters all w_i > 0 and w_hat_i > 0.
    """
    zeros = rate_hat[..., None, :] - rate[..., :, None]  # (..., n, n): th_i - thh_j
    poles = rate[..., None, :] - rate[..., :, None] + np.eye(rate.shape[-1])  # (..., n, n): th_i - th_j; 1 for j = i
    return np.asarray(np.prod(zeros, axis=-1) / np.prod(poles, axis=-1))  # (..., n)


def geometric(rate: Array, count: Array | int) -> Array:
    """sum_{k < count} (1 - rate)^k for rate in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):  # rate = 0 and rate = 1 are settled below
        total = -np.expm1(count * np.log1p(-rate)) / rate
    total = np.where(rate > 0, total, count)
    return np.asarray(np.where(np.equal(count, 0), 0.0, total))


def energy(amplitude: Array, rate: Array, count: Array | int) -> Array:
    """sum_{k < count} (sum_i amplitude_i (1 - rate_i)^k)^2, by one geometric series for each pair of poles."""
    total = np.zeros(())
    for i in range(rate.shape[-1]):
        for j in range(i + 1):
            both = rate[..., i] + rate[..., j] - rate[..., i] * rate[..., j]  # 1 - theta_i theta_j
            pair = amplitude[..., i] * amplitude[..., j] * geometric(both, count)
            total = total + (pair if i == j else 2 * pair)
    return np.asarray(total)


def column_square(rate: Array, rate_hat: Array, horizon: int) -> Array:
    """Squared norm of C's first column: c_0 = 1, c_k = sum_i w_i theta_i^{k-1}."""
    return np.asarray(1 + energy(residues(rate, rate_hat), rate, horizon - 1))


def columns_square(rate: Array, rate_hat: Array, horizon: int, count: int) -> float:
    """Squared norm of the sum of C's first `count` <= horizon columns; above _STEPS of them, a bound from above.

    Row t < count of that sum holds c_0 + ... + c_t = 1 + sum_i w_i (1 + ... + theta_i^{t-1}), which grows with t; row
    t >= count holds c_{t-count+1} + ... + c_t = sum_i w_i (1 + ... + theta_i^{count-1}) theta_i^{t-count}.
    """
    if count == 1:
        return float(column_square(rate, rate_hat, horizon))
    weights = residues(rate, rate_hat)
    ends = np.unique(np.rint(np.linspace(0, count, min(count, _STEPS) + 1)))  # rows in groups, each as its last
    grown = 1 + np.sum(weights * geometric(rate, ends[1:, None] - 1), axis=-1)
    falling = energy(weights * geometric(rate, count), rate, horizon - count)
    return float(np.sum(np.diff(ends) * grown**2) + falling)


def row_square(rate: Array, rate_hat: Array, steps: Array | int) -> Array:
    """Squared norm of row t of B: b_k = b_inf + sum_i u_i theta_hat_i^k.

    b_inf = prod_i (1 - theta_i) / (1 - theta_hat_i), u_i = w_hat_i / (1 - theta_hat_i); both positive.
    """
    limit = np.prod(rate / rate_hat, axis=-1, keepdims=True)  # (..., 1): b_inf, the pole of 1/(1-x)
    amplitude = np.concatenate([limit, -residues(rate_hat, rate) / rate_hat], axis=-1)  # (..., n + 1)
    return energy(amplitude, np.concatenate([np.zeros_like(limit), rate_hat], axis=-1), steps)
