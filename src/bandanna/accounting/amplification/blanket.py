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
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from bandanna.accounting import gdp

REPORT_TAILS = 5.0  # a mass `tail` of every report moves a batch by at most 5 n of them (calibration.md B.1, step 5)
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
    """s - tau on multiples of `step`, spread from above; E (s - last point)+ is the `excess`. One row for each tau."""

    step: float
    places: NDArray[np.int64]  # (..., Q), one after the other
    weights: NDArray[np.float64]  # (..., Q)
    excess: NDArray[np.float64]  # (...)


@lru_cache(maxsize=64)  # searches over eps0 ask for the same ones
def lattice(mu: float, epsilon: float) -> Lattice:
    """`lattices` of one epsilon."""
    return lattices(mu, epsilon)


def lattices(mu: float, epsilon: ArrayLike) -> Lattice:
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
    circle = Circle.around(users, chance, grid.step, spread, len(x))
    tilted = np.exp(theta * x) * grid.weights
    masses = np.bincount(grid.places % circle.points, tilted, circle.points)
    k = circle.transformed(np.asarray(masses, dtype=np.float64))
    size = np.abs(k)
    j = np.flatnonzero(circle.counts(size, size[0]))
    total = circle.terms(j, k[j], size[j], size[0], theta).sum()
    return float(grid.excess + circle.expectation(total, size[0], theta, tilted))


@dataclass(frozen=True, kw_only=True)
class Circle:
    """N = `points` tilts z_j, and the sum over them for one law on multiples of `step`, or for some, each by itself."""

    users: int
    chance: float
    step: float
    points: int

    @classmethod
    def around(cls, users: int, chance: float, step: float, spread: float, width: int) -> Circle:
        """With room for the standard deviation of Y, `spread`, and for one summand on `width` places."""
        points = fft.next_fast_len(max(math.ceil(_SPAN * spread / step) + width, 64), real=True)
        return cls(users=users, chance=chance, step=step, points=int(points))

    def transformed(self, masses: NDArray[np.float64]) -> NDArray[np.complex128]:
        """conj(K(z_j)) from tilted masses: (..., N//2 + 1), from (..., N)."""
        return np.asarray(1 - self.chance + self.chance * fft.rfft(masses))

    def counts(self, size: NDArray[np.float64], most: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which |K(z_j)| are large enough beside K(theta) for their terms to be computed."""
        return np.asarray(size > most * math.exp(-_FAINT / self.users))

    def terms(
        self,
        j: NDArray[np.int64],
        k: NDArray[np.complex128],
        size: NDArray[np.float64],
        most: NDArray[np.float64],
        theta: ArrayLike,
    ) -> NDArray[np.float64]:
        """Of B.2, in units of K(theta)^n, (J,): of places j with the values k, their sizes, K(theta) and theta.

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
        """E (Y)+ / (n p) from above, from the sum of the terms."""
        share = self.chance * tilted.sum(axis=-1) / most
        value = total / (self.points * self.step) + allowance(theta, self.step, self.points, self.users, share, tilted)
        return np.asarray(np.exp(self.users * np.log(most)) * value / (self.users * self.chance))


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
    return np.asarray(sizes * (users * eta * np.exp(users * eta) + math.exp(-_FAINT)))


def newton(theta: _Number, mean: _Number, variance: _Number) -> tuple[_Number, _Number]:
    """Slope of n log K(theta) - 2 log theta, from mean and variance of the tilted Y, and where it might be 0."""
    slope = mean - 2 / theta
    return slope, theta - slope / (variance + 2 / theta**2)


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
        variance = users * (square - mean**2)
        slope, step = newton(theta, users * mean, variance)
        low, high = (theta, high) if slope < 0 else (low, theta)
        step = step if low < step < high else (2 * low if math.isinf(high) else (low + high) / 2)
        if abs(step - theta) < 1e-3 * theta:
            break
        theta = step
    return theta, math.sqrt(max(variance, 0.0))
