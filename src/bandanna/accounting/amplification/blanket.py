"""A Gaussian report among Gaussian reports: what one shuffled batch reveals at most (calibration.md B.1, B.2).

R and S are the person's two laws, at the distance mu = Delta_2 / sigma. But for a mass (n - 1) p delta0 everybody else
sends, with probability p = e^-eps0, a draw from (R + S)/2: the person hides among C ~ Bin(n - 1, p) of them. Relative
to C + 1 draws from (R + S)/2 the two neighbours have the densities 1 + m and 1 - m, m the mean of C + 1 independent

    s = tanh(log(R/S) / 2),      so that      delta = (1 + e^epsilon) E (m - tau)+,      tau = tanh(epsilon / 2),

in both directions, as s and -s have one law. With coins b_i of chance p this is a sum over all n,

    E (m - tau)+ = E (Y)+ / (n p),      Y = sum_i b_i (s_i - tau).

Everything below is an upper bound on it. Spreading s over two points with the same mean raises the expectation of a
convex function, so s - tau is put on a lattice, h Z; beyond the last point the excess itself is added. For every
theta > 0, with K the moment generating function of one summand, z_j = theta + 2 pi i j / (N h) and N points,

    E (Y)+ <= 1/(N h) sum_j K(z_j)^n (h/2)^2 / sinh^2(h z_j / 2) = sum_k e^(-theta k N h) E (Y + k N h)+,

whose other terms are not negative; theta near the saddle point keeps all digits, however small delta is (B.2).

Symbols: n `users`, p `chance`, eps0 `local_epsilon`, Delta_2 / sigma `mu`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from bandanna.accounting import gdp

REPORT_TAILS = 5.0  # a mass `tail` of every report moves a batch by at most 5 n of them (calibration.md B.1, step 5)
_FINENESS = 12.0  # lattice points per standard deviation of s: its variance grows by about 1/(6 144)
_REACH = 16.0  # standard deviations of a report beyond which s counts as excess, Phi(-16) < 1e-57
_RAISED = 1e-13  # added to s for the rounding of its conditional means
SPAN = 16.0  # standard deviations of Y that N lattice points cover, beside the range of one summand
_WEIGHTS = 1e-13  # relative error of a lattice weight, at most: differences of Phi over a twelfth of a deviation
_UNIT = 2.0**-52
FAINT = 45.0  # terms of the sum that are smaller than e^-45 of the first are bounded, not computed


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """s - tau on multiples of `step`, spread from above; E (s - last point)+ is the `excess`. One row for each tau."""

    step: float
    places: NDArray[np.int64]  # (..., Q), one after the other
    weights: NDArray[np.float64]  # (..., Q)
    excess: NDArray[np.float64]  # (...)


@lru_cache(maxsize=64)  # searches over eps0 ask for the same ones
def lattice(mu: float, epsilon: float | tuple[float, ...]) -> Lattice:
    """s - tau under (R + S)/2: of every cell between two points the mass and the mean are known.

    The cell [a, a + h] of s holds R(cell) = (1 + s) (R + S)/2 integrated, so that the share of the upper point is

        (R(cell) (1 - a) - S(cell) (1 + a)) / (2 h).
    """
    tau, step = np.tanh(np.asarray(epsilon) / 2)[..., None], math.tanh(mu / 2) / _FINENESS  # (..., 1)
    end = math.tanh(mu * (_REACH + mu / 2) / 2)
    first, last = np.floor((-end - tau) / step), np.ceil((end - tau) / step)
    places = last.astype(np.int64) + np.arange(-int((last - first).max()), 1)  # (..., Q)
    points = tau + step * places
    with np.errstate(divide="ignore"):
        losses = 2 * np.arctanh(np.clip(points, -1.0, 1.0))
    edges = losses / mu  # of a report, on the line through both centres
    edges[..., 0], edges[..., -1] = -math.inf, math.inf
    ours, theirs = _cells(edges - mu / 2), _cells(edges + mu / 2)  # R, S of every cell, (..., Q - 1)
    mass, low = (ours + theirs) / 2, points[..., :-1]
    share = (ours * (1 - low) - theirs * (1 + low)) / (2 * step) + _RAISED / step * mass
    share = np.clip(share, 0.0, mass)
    share[..., 0] = np.where(points[..., 0] > -1, mass[..., 0], share[..., 0])  # below the first point: raised
    weights = np.zeros(points.shape)
    weights[..., :-1] = mass - share
    weights[..., 1:] += share
    beyond = losses[..., -1]  # the last point's privacy loss
    finite = np.where(np.isfinite(beyond), beyond, 0.0)
    excess = np.where(np.isfinite(beyond), gdp.delta(finite, mu) * special.expit(-finite), 0.0)
    return Lattice(step=step, places=places, weights=weights, excess=excess)


def _cells(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi(b) - Phi(a) of neighbouring edges, from the side on which both are small."""
    low, high = edges[..., :-1], edges[..., 1:]
    mirrored = low > 0
    return np.asarray(special.ndtr(np.where(mirrored, -low, high)) - special.ndtr(np.where(mirrored, -high, low)))


def stop_loss(*, users: int, chance: float, mu: float, epsilon: float) -> float:
    """E (m - tanh(epsilon/2))+, from above."""
    grid = lattice(mu, epsilon)
    x = np.asarray(grid.step * grid.places, dtype=np.float64)
    if x[-1] <= 0:
        return float(grid.excess)
    theta, spread = _saddle(x, grid.weights, users, chance)
    points = math.ceil(SPAN * spread / grid.step) + len(x)
    points = int(fft.next_fast_len(max(points, 64), real=True))  # N
    tilted = np.exp(theta * x) * grid.weights
    k = 1 - chance + chance * fft.rfft(np.bincount(grid.places % points, tilted, points))  # conj(K(z_j)), (N//2 + 1,)
    size = np.abs(k)
    j = np.flatnonzero(size > size[0] * math.exp(-FAINT / users))
    z = theta - 2j * math.pi * j / (points * grid.step)
    kernel = (grid.step / 2) ** 2 / np.sinh(grid.step * z / 2) ** 2
    twice = np.where((j == 0) | (2 * j == points), 1.0, 2.0)  # j and N - j are conjugate
    top = users * math.log(size[0])
    terms = twice * (np.exp(users * np.log(k[j]) - top) * kernel).real  # B.2
    value = float(terms.sum()) / (points * grid.step)
    value += float(allowance(theta, grid.step, points, users, chance * tilted.sum() / size[0], tilted))
    return float(grid.excess) + math.exp(top) * value / (users * chance)


def allowance(
    theta: ArrayLike, step: float, points: int, users: int, share: ArrayLike, tilted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rounding and faint terms, in units of K(theta)^n: (n eta e^(n eta) + e^-45) times the sum of the kernel's sizes.

    Every computed K(z_j) is within eta K(theta) of the true one: errors of the weights, of the Fourier transform in the
    Euclidean norm (5 log2(N) units, as for radix 2), and of what follows. The sizes (h/2)^2 / |sinh|^2 have one maximum
    on the circle, so their sum is at most their integral, h / (2 sinh(h theta)), and the first.
    """
    theta = np.asarray(theta)
    norm = math.sqrt(points) * np.linalg.norm(tilted, axis=-1) / tilted.sum(axis=-1)
    eta = share * (_WEIGHTS + 5 * _UNIT * math.log2(points) * norm) + 8 * _UNIT
    sizes = step / 2 / np.sinh(step * theta) + step / 4 / points / np.sinh(step * theta / 2) ** 2
    return np.asarray(sizes * (users * eta * np.exp(users * eta) + math.exp(-FAINT)))


def _saddle(x: NDArray[np.float64], weights: NDArray[np.float64], users: int, chance: float) -> tuple[float, float]:
    """theta near the least n log K(theta) - 2 log theta, and the tilted standard deviation of Y; Newton's method.

    Any theta > 0 will do: this one keeps all digits.
    """
    low, high = 0.0, math.inf
    theta = 1 / math.sqrt(users * chance * float(weights @ x**2))
    for _ in range(60):
        tilted = chance * weights * np.exp(theta * (x - x[-1]))  # times e^(theta x_last): no overflow
        total = (1 - chance) * math.exp(-theta * x[-1]) + float(tilted.sum())
        mean, square = float(tilted @ x) / total, float(tilted @ x**2) / total
        slope = users * mean - 2 / theta
        low, high = (theta, high) if slope < 0 else (low, theta)
        variance = users * (square - mean**2)
        step = theta - slope / (variance + 2 / theta**2)
        step = step if low < step < high else (2 * low if math.isinf(high) else (low + high) / 2)
        if abs(step - theta) < 1e-3 * theta:
            break
        theta = step
    return theta, math.sqrt(max(variance, 0.0))
