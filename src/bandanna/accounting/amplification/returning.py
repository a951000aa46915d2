"""The privacy loss distribution of a Gaussian report among Gaussian reports, for users who return.

The pair of `blanket` has the densities 1 + m and 1 - m, its privacy loss is 2 artanh(m), and all that a test can get
out of it is the convex function E (m - tau)+ of tau, which `stop_loss` bounds from above. Between knots tau_k =
tanh(k g / 2), multiples of a step g of the loss, it lies below its chords, and the chords belong to an m that is
always at a knot: that pair dominates this one, and its losses lie on a grid, so that they compose by convolution.
The greatest convex function below the computed values still lies above the true one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from bandanna.accounting import gdp
from bandanna.accounting.amplification.profile import stop_losses
from bandanna.core import require

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FINENESS = 10.0  # knots per standard deviation of the loss: its variance grows by about 1/600
_NEAR = 7.0  # standard deviations with a knot at every step; beyond, each is `_GROWTH` times as far out
_GROWTH = 1.03
_FAINT = 1e-20  # mass of either end of the losses that is counted as an infinite loss
_CUT = 1e-15  # mass of both ends of composed losses, likewise
_ROWS = 72  # knots at once: about all that are near
_ROOM = 700.0  # fewer among more users, whose sums have more points: 2^17 numbers fit into a cache
MOST = 20.0  # loss of the last knot: beyond it 1 - tau has no digits left


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Masses of the losses (first, first + 1, ...) times `step`, and of an infinite loss."""

    step: float
    first: int
    masses: NDArray[np.float64]
    infinite: float

    def composed(self, times: int) -> Losses:
        """`times`-fold composition: a convolution, in which `_CUT` of mass at both ends counts as an infinite loss."""
        low, high = self._reach(times)
        points = int(fft.next_fast_len(max(high - low + 1, len(self.masses)), real=True))
        around = fft.irfft(fft.rfft(self.masses, points) ** times, points)
        infinite = _CUT - math.expm1(times * math.log1p(-self.infinite)) if self.infinite < 1 else 1.0
        masses = np.roll(around, -low)[: high - low + 1]
        return Losses(step=self.step, first=times * self.first + low, masses=masses, infinite=infinite)

    def _reach(self, times: int) -> tuple[int, int]:
        """Places among the composed losses, from the least, beyond which lies `_CUT` of mass: Chernoff's bound."""
        order = np.arange(1, 21) / len(self.masses)
        grown = np.exp(np.outer(np.arange(len(self.masses)), order))  # (L, 20)
        with np.errstate(divide="ignore", invalid="ignore"):  # next to no mass: rounding may leave less than none
            above = (times * np.log(self.masses @ grown) + math.log(2 / _CUT)) / order
            below = (times * np.log(self.masses @ (1 / grown)) + math.log(2 / _CUT)) / -order
        low = np.max(below, where=np.isfinite(below), initial=0.0)
        high = np.min(above, where=np.isfinite(above), initial=times * (len(self.masses) - 1))
        return math.floor(low), math.ceil(high)

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        """E (1 - e^(epsilon - loss))+, under the name that it has in dp-accounting."""
        beyond = max(0, math.floor(epsilon / self.step) - self.first)
        above = epsilon - self.step * (self.first + np.arange(beyond, len(self.masses)))
        return self.infinite - float(self.masses[beyond:] @ np.expm1(np.minimum(above, 0.0)))

    def pld(self) -> PrivacyLossDistribution:
        """For dp-accounting; one direction serves both."""
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

        pmf = pld_pmf.DensePLDPmf(self.step, self.first, self.masses, self.infinite, True)
        return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def blanket_pld(
    *, users: int, local_epsilon: float, mu: float, discretization: float | None = None
) -> PrivacyLossDistribution:
    """`blanket_losses`, for dp-accounting to compose with others."""
    return blanket_losses(users=users, local_epsilon=local_epsilon, mu=mu, discretization=discretization).pld()


def blanket_losses(*, users: int, local_epsilon: float, mu: float, discretization: float | None = None) -> Losses:
    """Privacy losses that dominate one report among `users`, at `mu` = Delta_2 / sigma.

    Losses are multiples of `discretization`; the default is a tenth of the standard deviation of one loss. m has the
    mass v_k at tau_k and as much at -tau_k, so the loss k g has v_k (1 + tau_k): one direction serves both.
    """
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
    return Losses(step=step, first=first - int(knots[-1]), masses=masses[first:], infinite=infinite)


def loss_std(*, users: int, local_epsilon: ArrayLike, mu: float) -> NDArray[np.float64]:
    """Standard deviation of the loss, about: 2 tanh(mu/2) / sqrt(E[C] + 1)."""
    return np.asarray(2 * math.tanh(mu / 2) / np.sqrt((users - 1) * np.exp(-np.asarray(local_epsilon)) + 1))


@lru_cache(maxsize=512)
def composed_blanket(users: int, local_epsilon: float, mu: float, times: int) -> Losses:
    """`times`-fold composition."""
    return blanket_losses(users=users, local_epsilon=local_epsilon, mu=mu).composed(times)


def _profile(
    users: int, chance: float, mu: float, step: float, stride: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Knots k >= 0, 1 - tau_k and a convex bound on E (m - tau_k)+; (K,) each."""
    alone = gdp.epsilon(_FAINT / 100, mu)  # nobody reveals more among others
    ahead, room = _knots(step, stride, min(MOST, alone)), max(1, min(_ROWS, round(_ROOM / math.sqrt(users * chance))))
    knots, at, bound = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
    while following := list(islice(ahead, room)):
        loss = np.array(following) * step
        rest, values = 2 * special.expit(-loss), stop_losses(users=users, chance=chance, mu=mu, epsilon=loss)
        faint = np.flatnonzero(values <= _FAINT * rest)
        end = faint[0] + 1 if len(faint) else None
        knots, at, bound = (
            np.append(all_, new[:end]) for all_, new in ((knots, np.array(following)), (at, rest), (bound, values))
        )
        if end:
            break
    bound[0] = np.min(bound + (1 - at) / 2)  # E (m)+ <= E (m - tau)+ + tau/2, as m and -m have one law
    return knots, at, np.interp(at, *_below(at[::-1], bound[::-1]))


def _knots(step: float, stride: int, end: float) -> Iterator[int]:
    """0, `stride`, 2 `stride`, ... and, far out, those that are `_GROWTH` times as far as the last, to a loss `end`."""
    k = 0
    while k * step <= end:
        yield k
        far = math.floor(_GROWTH * k / stride) * stride if k > _NEAR * _FINENESS * stride else 0
        k = max(k + stride, far)


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
