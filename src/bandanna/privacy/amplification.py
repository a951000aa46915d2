"""Amplification by shuffling: what a batch of Gaussian reports reveals about one of them (proofs.md B).

Symbols: n `users`, p `chance`, eps0 `local_epsilon`, mu = Delta_2 / sigma.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from bandanna import validation
from bandanna.privacy import gdp

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


# Stop-loss values at one epsilon


REPORT_TAILS = 5.0  # a mass `tail` of every report moves a batch by at most 5 n of them (proofs.md B.1, step 5)
_FINENESS = 12.0  # lattice points per standard deviation of s: its variance grows by about 1/(6 144)
_REACH = 16.0  # standard deviations of a report beyond which s counts as excess, Phi(-16) < 1e-57
_RAISED = 1e-13  # added to s for the rounding of its conditional means
_SPAN = 16.0  # standard deviations of Y that N lattice points cover, beside the range of one summand
_WEIGHTS = 1e-13  # relative error of a lattice weight, at most: differences of Phi over a twelfth of a deviation
_UNIT = 2.0**-52
_FAINT = 45.0  # terms of the sum that are smaller than e^-45 of the first are bounded, not computed

_Number = TypeVar("_Number", float, NDArray[np.float64])


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """s - tau on multiples of `step`, spread from above, one row for each tau. `excess`: E (s - last point)+."""

    step: float
    places: NDArray[np.int64]  # (..., Q), one after the other
    weights: NDArray[np.float64]  # (..., Q)
    excess: NDArray[np.float64]  # (...)


@lru_cache(maxsize=64)  # searches over eps0 repeat the same arguments
def spread_on_lattice(mu: float, epsilon: float) -> Lattice:
    """Return the lattice of one epsilon, cached."""
    return spread_on_lattices(mu, epsilon)


def spread_on_lattices(mu: float, epsilon: ArrayLike) -> Lattice:
    """Spread s - tau under (R + S)/2 over a lattice, by the mass and the mean of each cell (proofs.md B.2)."""
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
    low, high = edges[..., :-1], edges[..., 1:]
    mirrored = low > 0
    return np.asarray(special.ndtr(np.where(mirrored, -low, high)) - special.ndtr(np.where(mirrored, -high, low)))


def stop_loss(*, users: int, chance: float, mu: float, epsilon: float) -> float:
    """Return an upper bound on E (m - tau)+, tau = tanh(epsilon / 2); delta is (1 + e^epsilon) times it (Theorem B).

    m is the mean of C + 1 independent s = tanh(log(R/S) / 2) under (R + S)/2, C ~ Bin(n - 1, p), R and S the user's two
    laws. The bound is E (Y)+ / (n p), Y = sum_i b_i (s_i - tau) with coins b_i of chance p, on a lattice (proofs.md
    B.1, B.2).
    """
    grid = spread_on_lattice(mu, epsilon)
    x = np.asarray(grid.step * grid.places, dtype=np.float64)
    if x[-1] <= 0:
        return float(grid.excess)
    theta, spread = _saddle(x, grid.weights, users, chance)
    circle = TiltCircle.around(users, chance, grid.step, spread, len(x))
    tilted = np.exp(theta * x) * grid.weights
    masses = np.bincount(grid.places % circle.points, tilted, circle.points)
    k = circle.transformed(np.asarray(masses, dtype=np.float64))
    size = np.abs(k)
    j = np.flatnonzero(circle.counts(size, size[0]))
    total = circle.terms(j, k[j], size[j], size[0], theta).sum()
    return float(grid.excess + circle.expectation(total, size[0], theta, tilted))


@dataclass(frozen=True, kw_only=True)
class TiltCircle:
    """The N = `points` tilts z_j = theta + 2 pi i j / (N h), and the sum over them for one law or several.

        E (Y)+ <= 1/(N h) sum_j K(z_j)^n (h/2)^2 / sinh^2(h z_j / 2)

    for any theta > 0 (proofs.md B.2).
    """

    users: int
    chance: float
    step: float
    points: int

    @classmethod
    def around(cls, users: int, chance: float, step: float, spread: float, width: int) -> TiltCircle:
        """Return a circle for Y with standard deviation `spread` and a summand on `width` places."""
        points = fft.next_fast_len(max(math.ceil(_SPAN * spread / step) + width, 64), real=True)
        return cls(users=users, chance=chance, step=step, points=int(points))

    def transformed(self, masses: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Return conj(K(z_j)) from tilted masses: (..., N//2 + 1), from (..., N)."""
        return np.asarray(1 - self.chance + self.chance * fft.rfft(masses))

    def counts(self, size: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which |K(z_j)| are large enough beside K(theta) to matter."""
        return np.asarray(size > most * math.exp(-_FAINT / self.users))

    def terms(
        self,
        j: NDArray[np.int64],
        k: NDArray[np.complex128],
        size: NDArray[np.float64],
        most: NDArray[np.float64],
        theta: ArrayLike,
    ) -> NDArray[np.float64]:
        """Return the terms of the sum in units of K(theta)^n, (J,), for places j with values k.

        (K / K(theta))^n = far e^(i angle), and 1 / sinh^2(a - i b) = (one + i other)^2 for a - i b = h conj(z_j) / 2.
        """
        a, b = np.multiply(theta, self.step / 2), j * (math.pi / self.points)
        one, other = np.sinh(a) * np.cos(b), np.cosh(a) * np.sin(b)  # sinh(a - i b) = one - i other
        square = one**2 + other**2
        one, other = one / square, other / square
        far, angle = np.exp(self.users * np.log(size / most)), self.users * np.angle(k)
        real = np.cos(angle) * ((one - other) * (one + other)) - np.sin(angle) * (2 * one * other)
        twice = np.where((j == 0) | (2 * j == self.points), 1.0, 2.0)  # j and N - j are conjugate
        return np.asarray(twice * far * real * (self.step / 2) ** 2)

    def expectation(
        self, total: NDArray[np.float64], most: NDArray[np.float64], theta: ArrayLike, tilted: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return an upper bound on E (Y)+ / (n p) from the sum of the terms."""
        share = self.chance * tilted.sum(axis=-1) / most
        rounding = bound_rounding(theta, self.step, self.points, self.users, share, tilted)
        value = total / (self.points * self.step) + rounding
        return np.asarray(np.exp(self.users * np.log(most)) * value / (self.users * self.chance))


def bound_rounding(
    theta: ArrayLike, step: float, points: int, users: int, share: ArrayLike, tilted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound rounding errors and faint terms in units of K(theta)^n (proofs.md B.2)."""
    theta = np.asarray(theta)
    norm = math.sqrt(points) * np.linalg.norm(tilted, axis=-1) / tilted.sum(axis=-1)
    eta = share * (_WEIGHTS + 5 * _UNIT * math.log2(points) * norm) + 8 * _UNIT
    sizes = step / 2 / np.sinh(step * theta) + step / 4 / points / np.sinh(step * theta / 2) ** 2
    return np.asarray(sizes * (users * eta * np.exp(users * eta) + math.exp(-_FAINT)))


def newton_step(theta: _Number, mean: _Number, variance: _Number) -> tuple[_Number, _Number]:
    """Return the slope of n log K(theta) - 2 log theta, and its likely root."""
    slope = mean - 2 / theta
    return slope, theta - slope / (variance + 2 / theta**2)


def _saddle(x: NDArray[np.float64], weights: NDArray[np.float64], users: int, chance: float) -> tuple[float, float]:
    """Return theta near the minimum of n log K(theta) - 2 log theta, and the tilted standard deviation of Y."""
    low, high = 0.0, math.inf
    theta = 1 / math.sqrt(users * chance * float(weights @ x**2))
    for _ in range(60):
        tilted = chance * weights * np.exp(theta * (x - x[-1]))  # times e^(theta x_last): no overflow
        total = (1 - chance) * math.exp(-theta * x[-1]) + float(tilted.sum())
        mean, square = float(tilted @ x) / total, float(tilted @ x**2) / total
        variance = users * (square - mean**2)
        slope, step = newton_step(theta, users * mean, variance)
        low, high = (theta, high) if slope < 0 else (low, theta)
        step = step if low < step < high else (2 * low if math.isinf(high) else (low + high) / 2)
        if abs(step - theta) < 1e-3 * theta:
            break
        theta = step
    return theta, math.sqrt(max(variance, 0.0))


# Stop-loss values at many epsilons


_STEEPEST = 300.0  # exponent of the largest tilt: no overflow, not of squares either


def stop_losses(*, users: int, chance: float, mu: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `stop_loss` for every epsilon, (R,) from (R,): all rows share the largest N that one of them needs."""
    grid = spread_on_lattices(mu, epsilon)
    within = np.any((grid.places > 0) & (grid.weights > 0), axis=1)  # else all of s is below tau, but for the excess
    value = grid.excess.copy()
    if within.any():
        value[within] += _tilted(users, chance, grid.step, grid.places[within], grid.weights[within])
    return value


def _tilted(
    users: int, chance: float, step: float, places: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    x = np.asarray(step * places, dtype=np.float64)
    theta, spread = _saddles(x, weights, users, chance)
    circle = TiltCircle.around(users, chance, step, spread, x.shape[1])
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
        slope, step = newton_step(theta, users * mean, variance)
        low, high = np.where(slope < 0, theta, low), np.where(slope < 0, high, theta)
        step = np.where((low < step) & (step < high), step, np.where(np.isinf(high), 2 * low, (low + high) / 2))
        step = np.minimum(step, _STEEPEST / most)
        if np.all(np.abs(step - theta) < 1e-3 * theta):
            break
        theta = step
    return theta, math.sqrt(max(float(variance.max()), 0.0))


# Composition for users who return


_RETURNING_FINENESS = 10.0  # knots per standard deviation of the loss: its variance grows by about 1/600
_NEAR = 7.0  # standard deviations with a knot at every step; beyond, each is `_GROWTH` times as far out
_GROWTH = 1.03
_RETURNING_FAINT = 1e-20  # mass of either end of the losses that is counted as an infinite loss
_CUT = 1e-15  # mass of both ends of composed losses, likewise
_ROWS = 72  # knots at once: about all that are near
_ROOM = 700.0  # fewer among more users, whose sums have more points: 2^17 numbers fit into a cache
LARGEST_LOSS_RATIO = 20.0  # loss of the last knot: beyond it 1 - tau has no digits left


@dataclass(frozen=True, kw_only=True)
class LossDistribution:
    """Masses of the losses (first, first + 1, ...) times `step`, and of an infinite loss."""

    step: float
    first: int
    masses: NDArray[np.float64]
    infinite: float

    def composed(self, times: int) -> LossDistribution:
        """Return the `times`-fold composition; `_CUT` of mass at each end counts as infinite loss."""
        low, high = self._reach(times)
        points = int(fft.next_fast_len(max(high - low + 1, len(self.masses)), real=True))
        around = fft.irfft(fft.rfft(self.masses, points) ** times, points)
        infinite = _CUT - math.expm1(times * math.log1p(-self.infinite)) if self.infinite < 1 else 1.0
        masses = np.roll(around, -low)[: high - low + 1]
        return LossDistribution(step=self.step, first=times * self.first + low, masses=masses, infinite=infinite)

    def _reach(self, times: int) -> tuple[int, int]:
        """Return the places beyond which composed losses have `_CUT` of mass, by Chernoff's bound."""
        order = np.arange(1, 21) / len(self.masses)
        grown = np.exp(np.outer(np.arange(len(self.masses)), order))  # (L, 20)
        with np.errstate(divide="ignore", invalid="ignore"):  # next to no mass: rounding may leave less than none
            above = (times * np.log(self.masses @ grown) + math.log(2 / _CUT)) / order
            below = (times * np.log(self.masses @ (1 / grown)) + math.log(2 / _CUT)) / -order
        low = np.max(below, where=np.isfinite(below), initial=0.0)
        high = np.min(above, where=np.isfinite(above), initial=times * (len(self.masses) - 1))
        return math.floor(low), math.ceil(high)

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        """Return E (1 - e^(epsilon - loss))+. dp-accounting uses this name."""
        beyond = max(0, math.floor(epsilon / self.step) - self.first)
        above = epsilon - self.step * (self.first + np.arange(beyond, len(self.masses)))
        return self.infinite - float(self.masses[beyond:] @ np.expm1(np.minimum(above, 0.0)))

    def pld(self) -> PrivacyLossDistribution:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

        pmf = pld_pmf.DensePLDPmf(self.step, self.first, self.masses, self.infinite, True)
        return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def blanket_losses(
    *, users: int, local_epsilon: float, mu: float, discretization: float | None = None
) -> LossDistribution:
    """Return privacy losses that dominate one report among `users`, at `mu` = Delta_2 / sigma (proofs.md B.2).

    Losses are multiples k g of g, the `discretization`, by default a tenth of their standard deviation. m is on the
    knots tau_k = tanh(k g / 2); its mass v_k at tau_k and at -tau_k gives the loss k g the mass v_k (1 + tau_k).
    """
    users, local = validation.integer("users", users), validation.positive("local_epsilon", local_epsilon)
    coarse = float(loss_std(users=users, local_epsilon=local, mu=validation.positive("mu", mu))) / _RETURNING_FINENESS
    step = coarse if discretization is None else validation.positive("discretization", discretization)
    knots, rest, left = _profile(users, math.exp(-local), mu, step, max(1, math.floor(coarse / step)))
    slopes = np.append(np.diff(left) / np.diff(rest), left[-1] / rest[-1])  # of E (m - tau)+ in 1 - tau, falling to 0
    mass = slopes - np.append(slopes[1:], 0.0)  # v_k for k > 0, and at m = 1
    masses = np.zeros(2 * int(knots[-1]) + 1)
    masses[knots[-1] + knots] = np.append(1 - 2 * slopes[0], mass[:-1]) * (2 - rest)
    masses[knots[-1] - knots[1:]] = mass[:-1] * rest[1:]
    first = int(np.argmax(np.cumsum(masses) > _RETURNING_FAINT))
    infinite = 2 * float(mass[-1]) + float(masses[:first].sum())
    return LossDistribution(step=step, first=first - int(knots[-1]), masses=masses[first:], infinite=infinite)


def loss_std(*, users: int, local_epsilon: ArrayLike, mu: float) -> NDArray[np.float64]:
    """Return about the standard deviation of the loss, 2 tanh(mu/2) / sqrt(E[C] + 1)."""
    return np.asarray(2 * math.tanh(mu / 2) / np.sqrt((users - 1) * np.exp(-np.asarray(local_epsilon)) + 1))


@lru_cache(maxsize=512)
def composed_blanket(users: int, local_epsilon: float, mu: float, times: int) -> LossDistribution:
    """Return the `times`-fold composition of `blanket_losses`, cached."""
    return blanket_losses(users=users, local_epsilon=local_epsilon, mu=mu).composed(times)


def _profile(
    users: int, chance: float, mu: float, step: float, stride: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return knots k >= 0, 1 - tau_k and a convex bound on E (m - tau_k)+."""
    alone = gdp.epsilon(_RETURNING_FAINT / 100, mu)  # a report reveals no more among others
    ahead = _knots(step, stride, min(LARGEST_LOSS_RATIO, alone))
    room = max(1, min(_ROWS, round(_ROOM / math.sqrt(users * chance))))
    knots, at, bound = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
    while following := list(islice(ahead, room)):
        loss = np.array(following) * step
        rest, values = 2 * special.expit(-loss), stop_losses(users=users, chance=chance, mu=mu, epsilon=loss)
        faint = np.flatnonzero(values <= _RETURNING_FAINT * rest)
        end = faint[0] + 1 if len(faint) else None
        knots, at, bound = (
            np.append(all_, new[:end]) for all_, new in ((knots, np.array(following)), (at, rest), (bound, values))
        )
        if end:
            break
    bound[0] = np.min(bound + (1 - at) / 2)  # E (m)+ <= E (m - tau)+ + tau/2, as m and -m have one law
    return knots, at, np.interp(at, *_convex_minorant(at[::-1], bound[::-1]))


def _knots(step: float, stride: int, end: float) -> Iterator[int]:
    """Yield 0, `stride`, 2 `stride`, ...; knots beyond grow by `_GROWTH`, up to a loss of `end`."""
    k = 0
    while k * step <= end:
        yield k
        far = math.floor(_GROWTH * k / stride) * stride if k > _NEAR * _RETURNING_FINENESS * stride else 0
        k = max(k + stride, far)


def _convex_minorant(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    vertices = [(0.0, 0.0)]
    for point in zip(x.tolist(), y.tolist(), strict=True):
        while len(vertices) > 1:
            (x0, y0), (x1, y1) = vertices[-2:]
            if (y1 - y0) * (point[0] - x1) < (point[1] - y1) * (x1 - x0):
                break
            vertices.pop()
        vertices.append(point)
    return [vertex[0] for vertex in vertices], [vertex[1] for vertex in vertices]
