"""The privacy loss distribution of a Gaussian report among Gaussian reports, for users who return.

The pair of `blanket` has the densities 1 + m and 1 - m, its privacy loss is 2 artanh(m), and all that a test can get
out of it is the convex function E (m - tau)+ of tau, which `stop_loss` bounds from above. Between knots tau_k =
tanh(k g / 2), multiples of a step g of the loss, it lies below its chords, and the chords belong to an m that is
always at a knot: that pair dominates this one, and its losses lie on a grid, so that they compose by convolution
(dp-accounting). The greatest convex function below the computed values still lies above the true one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna.accounting.amplification.blanket import stop_loss
from bandanna.core import require

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FINENESS = 10.0  # knots per standard deviation of the loss: its variance grows by about 1/600
_NEAR = 7.0  # standard deviations with a knot at every step; beyond, each is `_GROWTH` times as far out
_GROWTH = 1.03
_FAINT = 1e-20  # mass of either end of the losses that is counted as an infinite loss
MOST = 20.0  # loss of the last knot: beyond it 1 - tau has no digits left


def blanket_pld(
    *, users: int, local_epsilon: float, mu: float, discretization: float | None = None
) -> PrivacyLossDistribution:
    """Privacy loss distribution that dominates one report among `users`, at `mu` = Delta_2 / sigma.

    Losses are multiples of `discretization`; the default is a tenth of the standard deviation of one loss. m has the
    mass v_k at tau_k and as much at -tau_k, so the loss k g has v_k (1 + tau_k): one direction serves both.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    users, local = require.whole("users", users), require.positive("local_epsilon", local_epsilon)
    coarse = float(loss_std(users=users, local_epsilon=local, mu=require.positive("mu", mu))) / _FINENESS
    step = coarse if discretization is None else require.positive("discretization", discretization)
    knots, rest, left = _profile(users, math.exp(-local), mu, step, max(1, math.floor(coarse / step)))
    slopes = np.append(np.diff(left) / np.diff(rest), left[-1] / rest[-1])  # of E (m - tau)+ in 1 - tau, falling to 0
    mass = slopes - np.append(slopes[1:], 0.0)  # v_k for k > 0, and at m = 1
    masses = np.zeros(2 * int(knots[-1]) + 1)
    masses[knots[-1] + knots] = np.append(1 - 2 * slopes[0], mass[:-1]) * (2 - rest)
    masses[knots[-1] - knots[1:]] = mass[:-1] * rest[1:]
    first = int(np.argmax(np.cumsum(masses) > _FAINT))
    infinite = 2 * float(mass[-1]) + float(masses[:first].sum())
    pmf = pld_pmf.DensePLDPmf(step, first - int(knots[-1]), masses[first:], infinite, True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def loss_std(*, users: int, local_epsilon: ArrayLike, mu: float) -> NDArray[np.float64]:
    """Standard deviation of the loss, about: 2 tanh(mu/2) / sqrt(E[C] + 1)."""
    return np.asarray(2 * math.tanh(mu / 2) / np.sqrt((users - 1) * np.exp(-np.asarray(local_epsilon)) + 1))


@lru_cache(maxsize=512)
def composed_blanket(users: int, local_epsilon: float, mu: float, times: int) -> PrivacyLossDistribution:
    """`times`-fold composition."""
    pld = blanket_pld(users=users, local_epsilon=local_epsilon, mu=mu)
    return pld.self_compose(times, tail_mass_truncation=1e-15)


def _profile(
    users: int, chance: float, mu: float, step: float, stride: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Knots k >= 0, 1 - tau_k and a convex bound on E (m - tau_k)+; (K,) each."""
    knots, rest, values = list[int](), list[float](), list[float]()
    k = 0
    while not values or (values[-1] > _FAINT * rest[-1] and k * step <= MOST):
        knots.append(k)
        rest.append(2 * float(special.expit(-k * step)))
        values.append(stop_loss(users=users, chance=chance, mu=mu, epsilon=k * step))
        far = math.floor(_GROWTH * k / stride) * stride if k > _NEAR * _FINENESS * stride else 0
        k = max(k + stride, far)
    at, bound = np.array(rest), np.array(values)
    bound[0] = np.min(bound + (1 - at) / 2)  # E (m)+ <= E (m - tau)+ + tau/2, as m and -m have one law
    return np.array(knots), at, np.interp(at, *_below(at[::-1], bound[::-1]))


def _below(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Vertices of the greatest convex function below the points, from (0, 0) on, x increasing."""
    vertices = [(0.0, 0.0)]
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(vertices) > 1 and _turns_right(vertices[-2], vertices[-1], point):
            vertices.pop()
        vertices.append(point)
    return [vertex[0] for vertex in vertices], [vertex[1] for vertex in vertices]


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) >= (c[1] - b[1]) * (b[0] - a[0])
