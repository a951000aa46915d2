"""Factorisations A = B C of the prefix-sum matrix, for continual release.

`factorise("blt", horizon=20_000)` is the one to use; the papers use the tree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.privacy.calibration_cache import compute_cached
from bandanna.storage.encoding import stored_as


@dataclass(frozen=True, kw_only=True)
class Factorisation(ABC):
    """A = B C with A the lower-triangular matrix of ones: prefix sums of a stream of `horizon` elements (proofs.md C).

    The mechanism releases y = C x + z, z_i ~ N(0, std^2), and estimates the prefix sums A x by B y. For one element
    that changes by Delta in l2,

        price mu = Delta sensitivity() / std,       std of the prefix at step t = std prefix_std(t).

    C is lower triangular, so elements may be chosen after seeing earlier releases. M0 elements of one user cost Delta
    sensitivity(M0) / std.
    """

    horizon: int
    name: ClassVar[str]

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "horizon")

    @abstractmethod
    def sensitivity(self, participations: int = 1) -> float:
        """Return the largest norm of a sum of `participations` different columns of C."""

    @abstractmethod
    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Return the row norms of B at the (1-based) steps: std of the prefix sums for unit noise."""

    @abstractmethod
    def releases(self, participations: int = 1) -> int:
        """Return the number of released numbers (per coordinate) that `participations` elements can touch."""

    @abstractmethod
    def total_releases(self) -> int:
        """Return the number of released numbers (per coordinate) over the whole horizon."""

    def error(self) -> float:
        """Return the largest row norm of B: std of the worst prefix for unit noise."""
        return float(self.prefix_std(self.horizon))

    def unit_std(self) -> float:
        """Return the std of the worst prefix at price mu = 1 and element sensitivity 1."""
        return self.sensitivity() * self.error()

    def _steps(self, steps: ArrayLike) -> NDArray[np.int64]:
        given: NDArray[Any] = np.asarray(steps)
        numeric = given.dtype.kind in "iuf"
        if not numeric or not np.all((given >= 1) & (given <= self.horizon) & (given == np.floor(given))):
            raise InvalidArgument("steps", steps, f"whole numbers from 1 to the horizon {self.horizon}")
        return given.astype(np.int64)


# Norms of a BLT in closed form


_STEPS = 4096


def residues(rate: Array, rate_hat: Array) -> Array:
    """Return w of C(x) = prod_j (1 - thh_j x)/(1 - th_j x) = 1 + sum_i w_i x/(1 - th_i x).

        w_i = prod_j (th_i - thh_j) / prod_{j != i} (th_i - th_j)

    Swapped arguments give -w_hat. Poles are on the last axis. The rates 1 - theta avoid cancellation near theta = 1.
    """
    zeros = rate_hat[..., None, :] - rate[..., :, None]  # (..., n, n): th_i - thh_j
    poles = rate[..., None, :] - rate[..., :, None] + np.eye(rate.shape[-1])  # (..., n, n): th_i - th_j; 1 for j = i
    return np.asarray(np.prod(zeros, axis=-1) / np.prod(poles, axis=-1))  # (..., n)


def geometric_sum(rate: Array, count: Array | int) -> Array:
    """Return sum_{k < count} (1 - rate)^k for rate in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):  # rate = 0 and rate = 1 are settled below
        total = -np.expm1(count * np.log1p(-rate)) / rate
    total = np.where(rate > 0, total, count)
    return np.asarray(np.where(np.equal(count, 0), 0.0, total))


def series_energy(amplitude: Array, rate: Array, count: Array | int) -> Array:
    """Return sum_{k < count} (sum_i amplitude_i (1 - rate_i)^k)^2 by geometric series."""
    total = np.zeros(())
    for i in range(rate.shape[-1]):
        for j in range(i + 1):
            both = rate[..., i] + rate[..., j] - rate[..., i] * rate[..., j]  # 1 - theta_i theta_j
            pair = amplitude[..., i] * amplitude[..., j] * geometric_sum(both, count)
            total = total + (pair if i == j else 2 * pair)
    return np.asarray(total)


def column_square(rate: Array, rate_hat: Array, horizon: int) -> Array:
    """Return the squared norm of C's first column: c_0 = 1, c_k = sum_i w_i theta_i^{k-1}."""
    return np.asarray(1 + series_energy(residues(rate, rate_hat), rate, horizon - 1))


def columns_square(rate: Array, rate_hat: Array, horizon: int, count: int) -> float:
    """Return the squared norm of the sum of C's first `count` <= horizon columns (proofs.md C.1).

    Above _STEPS columns it is an upper bound.
    """
    if count == 1:
        return float(column_square(rate, rate_hat, horizon))
    weights = residues(rate, rate_hat)
    ends = np.unique(np.rint(np.linspace(0, count, min(count, _STEPS) + 1)))  # rows in groups, each as its last
    grown = 1 + np.sum(weights * geometric_sum(rate, ends[1:, None] - 1), axis=-1)
    falling = series_energy(weights * geometric_sum(rate, count), rate, horizon - count)
    return float(np.sum(np.diff(ends) * grown**2) + falling)


def row_square(rate: Array, rate_hat: Array, steps: Array | int) -> Array:
    """Return the squared norm of row t of B: b_k = b_inf + sum_i u_i theta_hat_i^k.

    b_inf = prod_i (1 - theta_i) / (1 - theta_hat_i), u_i = w_hat_i / (1 - theta_hat_i); both positive.
    """
    limit = np.prod(rate / rate_hat, axis=-1, keepdims=True)  # (..., 1): b_inf, the pole of 1/(1-x)
    amplitude = np.concatenate([limit, -residues(rate_hat, rate) / rate_hat], axis=-1)  # (..., n + 1)
    return series_energy(amplitude, np.concatenate([np.zeros_like(limit), rate_hat], axis=-1), steps)


# Search for a BLT's parameters


Array = NDArray[np.float64]
_STEP = 1e-5  # of the central differences: their error, about 1e-10, is far below what the result needs
_FLAT = 1e-5  # gradient at which the search ends: the cost is then within about 1e-7 of its minimum


def rates_from_logits(point: Array) -> tuple[Array, Array]:
    """Map a lowest logit and log gaps, (..., 2n), to interlaced 0 < rate_1 < rate_hat_1 < rate_2 < ... < 1."""
    gaps = np.concatenate([point[..., :1], np.exp(point[..., 1:])], axis=-1)
    mixed = 1 / (1 + np.exp(-np.cumsum(gaps, axis=-1)))  # (..., 2n)
    return mixed[..., 0::2], mixed[..., 1::2]


def initial_logits(horizon: int, buffers: int) -> Array:
    """Return logits of rates whose time scales fill 1..T geometrically."""
    lowest, highest = -math.log(horizon), 0.6
    gap = (highest - lowest) / (2 * buffers - 1)
    return np.concatenate([[lowest], np.full(2 * buffers - 1, math.log(gap))])


def search_blt(horizon: int, buffers: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (theta, theta_hat) that minimise ln sensitivity^2 + ln error^2 at this horizon."""
    from scipy import optimize

    def objective(point: Array) -> Array:
        rate, rate_hat = rates_from_logits(point)
        with np.errstate(all="ignore"):  # a wild step of the line search may collapse two poles: infinite cost
            value = np.log(column_square(rate, rate_hat, horizon)) + np.log(row_square(rate, rate_hat, horizon))
        return np.where(np.isfinite(value), value, 1e6)

    def with_gradient(point: Array) -> tuple[float, Array]:
        steps = _STEP * np.eye(point.size)
        values = objective(np.concatenate([point[None], point + steps, point - steps]))  # (1 + 4n,)
        return float(values[0]), (values[1 : 1 + point.size] - values[1 + point.size :]) / (2 * _STEP)

    found = optimize.minimize(
        with_gradient, initial_logits(horizon, buffers), jac=True, method="BFGS", options={"gtol": _FLAT}
    )
    rate, rate_hat = rates_from_logits(np.asarray(found.x))
    return tuple((1 - rate).tolist()), tuple((1 - rate_hat).tolist())


# Buffered linear Toeplitz


_WORTHWHILE = 1e-4  # a further buffer is kept only if it lowers the unit std by at least this fraction
_GIVEN: ContextVar[Mapping[int, BLT] | None] = ContextVar("begun", default=None)  # by horizon


@stored_as("BLT")
@dataclass(frozen=True, kw_only=True)
class BLT(Factorisation):
    """Buffered linear Toeplitz: nearly the noise of the square root of A, in the memory of a few running sums.

    C is lower-triangular Toeplitz with the rational generating function

        C(x) = prod_i (1 - theta_hat_i x) / prod_i (1 - theta_i x),   1 >= th_1 > thh_1 > th_2 > ... > thh_n >= 0.

    Interlacing makes all coefficients of C and B positive (proofs.md C), c_k = sum_i w_i theta_i^{k-1} after c_0 = 1.
    Without buffers C = I. Streaming: (C x)_t = x_t + sum_i w_i s_i, s_i <- theta_i s_i + x_t; C^{-1} the same with
    -w_hat_i and theta_hat_i. Reference: Dvijotham, McMahan, Pillutla, Steinke and Thakurta 2024; our own search finds
    the parameters.
    """

    theta: tuple[float, ...]
    theta_hat: tuple[float, ...]
    name: ClassVar[str] = "blt"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", tuple(float(value) for value in self.theta))
        object.__setattr__(self, "theta_hat", tuple(float(value) for value in self.theta_hat))
        if not is_interlaced(self.theta, self.theta_hat):
            allowed = "interlaced, 1 >= theta_1 > theta_hat_1 > theta_2 > ... > theta_hat_n >= 0, and of one length"
            raise InvalidArgument("theta and theta_hat", (self.theta, self.theta_hat), allowed)

    @classmethod
    def optimal(cls, *, horizon: int, buffers: int = 4) -> BLT:
        """Return the BLT with the least unit_std() that the search finds; cached on disk.

        It has at most `buffers` and at most T // 2 buffers. Inside `use_factorisations` it is the given one.
        """
        horizon, buffers = validation.integer("horizon", horizon), validation.integer("buffers", buffers)
        most = min(buffers, horizon // 2)

        def build(found: Mapping[str, Any]) -> BLT:
            return cls(horizon=horizon, theta=tuple(found["theta"]), theta_hat=tuple(found["theta_hat"]))

        def compute() -> dict[str, Any]:
            best = cls(horizon=horizon, theta=(), theta_hat=())
            for count in range(1, most + 1):
                theta, theta_hat = search_blt(horizon, count)
                if not is_interlaced(theta, theta_hat):  # pragma: no cover - two poles met in floating point
                    break
                found = cls(horizon=horizon, theta=theta, theta_hat=theta_hat)
                if found.unit_std() > best.unit_std() * (1 - _WORTHWHILE):
                    break
                best = found
            return {"theta": list(best.theta), "theta_hat": list(best.theta_hat)}

        def valid(found: Mapping[str, Any]) -> bool:
            stored, plain = build(found), cls(horizon=horizon, theta=(), theta_hat=())
            return stored.buffers <= most and stored.unit_std() <= plain.unit_std()

        started = (_GIVEN.get() or {}).get(horizon)
        if started is not None and started.buffers <= most:
            return started
        return build(compute_cached("blt", {"horizon": horizon, "buffers": most}, compute, valid=valid))

    @property
    def buffers(self) -> int:
        """Number n of running sums that a stream keeps."""
        return len(self.theta)

    @cached_property
    def _rates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return 1 - np.asarray(self.theta), 1 - np.asarray(self.theta_hat)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """w > 0 of C(x) = 1 + sum_i w_i x / (1 - theta_i x)."""
        rate, rate_hat = self._rates
        return residues(rate, rate_hat)

    @cached_property
    def inverse_weights(self) -> NDArray[np.float64]:
        """w_hat > 0 of 1/C(x) = 1 - sum_i w_hat_i x / (1 - theta_hat_i x)."""
        rate, rate_hat = self._rates
        return -residues(rate_hat, rate)

    def sensitivity(self, participations: int = 1) -> float:
        count = min(validation.integer("participations", participations), self.horizon)
        return math.sqrt(columns_square(*self._rates, self.horizon, count))

    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(row_square(*self._rates, self._steps(steps).astype(np.float64))))

    def releases(self, participations: int = 1) -> int:
        validation.integer("participations", participations)
        return self.horizon

    def total_releases(self) -> int:
        return self.horizon


@contextmanager
def use_factorisations(factorisations: Iterable[BLT]) -> Iterator[None]:
    """Make `BLT.optimal` return the one of these with the same horizon, if any, inside this context.

    The search's last digits depend on the processor, but a moved stream must keep its factorisation.
    """
    token = _GIVEN.set({each.horizon: each for each in factorisations})
    try:
        yield
    finally:
        _GIVEN.reset(token)


def is_interlaced(theta: Sequence[float], theta_hat: Sequence[float]) -> bool:
    """Return 1 >= theta_1 > theta_hat_1 > theta_2 > ... > theta_hat_n >= 0 (false for NaN, true for no buffers)."""
    if len(theta) != len(theta_hat):
        return False
    mixed = [value for pair in zip(theta, theta_hat, strict=True) for value in pair]
    inside = all(0 <= value <= 1 for value in mixed)
    return inside and all(upper > lower for upper, lower in pairwise(mixed))


# Binary tree


@stored_as("BinaryTree")
@dataclass(frozen=True, kw_only=True)
class BinaryTree(Factorisation):
    """Noisy sums of all complete dyadic blocks; a prefix adds the blocks of its binary expansion.

    C has one row for each block ((j-1) 2^l, j 2^l] with j 2^l <= T; L = floor(log2 T) + 1 levels, and

        sensitivity = sqrt(L),      prefix_std(t)^2 = popcount(t).

    References: Dwork, Naor, Pitassi, Rothblum (2010); Chan, Shi, Song (2011).
    """

    name: ClassVar[str] = "tree"

    @property
    def levels(self) -> int:
        return self.horizon.bit_length()

    def sensitivity(self, participations: int = 1) -> float:
        """Return sqrt(sum_b n_b^2), n_b of the first M elements in block b; sqrt(L) for M = 1 (proofs.md C.1)."""
        each, square = validation.integer("participations", participations), 0
        for level in range(self.levels):
            full, rest = divmod(min(each, self.horizon >> level << level), 1 << level)
            square += (full << 2 * level) + rest * rest
        return math.sqrt(square)

    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        t = self._steps(steps)  # (...)
        total = np.zeros(t.shape)
        for level in range(self.levels):  # one bit of all steps at a time: there may be millions
            total += (t >> level) & 1
        return np.sqrt(total)

    def error(self) -> float:
        cleared = [((self.horizon >> bit) ^ 1) << bit | (1 << bit) - 1 for bit in range(self.levels)]
        worst = [t for t in (self.horizon, *cleared) if 1 <= t <= self.horizon]
        return float(np.max(self.prefix_std(worst)))

    def releases(self, participations: int = 1) -> int:
        each = validation.integer("participations", participations)
        return sum(min(each, self.horizon >> level) for level in range(self.levels))

    def total_releases(self) -> int:
        return sum(self.horizon >> level for level in range(self.levels))


def factorise(name: str, *, horizon: int, buffers: int = 4) -> Factorisation:
    """Return the factorisation of that name ("blt", "tree"); `buffers` concerns "blt" only."""
    validation.one_of("mechanism", name, ("blt", "tree"))
    return BinaryTree(horizon=horizon) if name == "tree" else BLT.optimal(horizon=horizon, buffers=buffers)
