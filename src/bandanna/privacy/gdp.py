"""Gaussian differential privacy: the exact profile delta(epsilon; mu), its inverses, and prices that compose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric import search

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_LOG_SQRT_TAU = 0.5 * math.log(2 * math.pi)
NEVER_PURE = "Gaussian noise is never pure. Use a Laplace mechanism"


@dataclass(frozen=True, kw_only=True)
class Price:
    """mu-GDP up to a total-variation mass `tail`."""

    mu: float
    tail: float = 0.0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.non_negative, "mu", "tail", infinite=True)

    def delta(self, epsilon: float) -> float:
        """Return delta_G(epsilon; mu) + (1 + e^epsilon) tail, at most 1."""
        return min(1.0, float(delta(epsilon, self.mu)) + _tail_cost(epsilon, self.tail))

    def epsilon(self, delta_: float) -> float:
        """Return the smallest epsilon >= 0 with `self.delta(epsilon) <= delta_`; infinity if there is none."""
        least = epsilon(delta_, self.mu)
        if self.tail == 0.0 or math.isinf(least):
            return least
        # the tail's share grows with epsilon: look upwards from the ideal in small steps, then between the last two
        found, before = max(least, 1e-12), least
        while self.delta(found) > delta_:
            if _tail_cost(found, self.tail) > delta_:
                return math.inf
            before, found = found, found * 1.01
        return search.find_least(lambda e: self.delta(e) <= delta_, max(before, 1e-15), found)

    def __add__(self, other: Price) -> Price:
        """Compose: squares of mu add, tails add."""
        return Price(mu=math.hypot(self.mu, other.mu), tail=self.tail + other.tail)

    def repeated(self, times: int) -> Price:
        """Return the `times`-fold composition: sqrt(times) mu, times tail."""
        return Price(mu=math.sqrt(times) * self.mu, tail=times * self.tail)


def _tail_cost(epsilon: float, tail: float) -> float:
    return tail * (1.0 + math.exp(min(epsilon, 700.0))) if tail > 0 else 0.0


def _mills(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2)))


def _mills_slope(x: NDArray[np.float64]) -> NDArray[np.float64]:
    beyond = x > 50.0
    if not beyond.any():
        return np.asarray(1 - x * _mills(x))
    far = np.maximum(x, 50.0) ** -2
    series = far * (1 - far * (3 - far * (15 - far * 105)))
    return np.where(beyond, series, 1 - x * _mills(np.minimum(x, 50.0)))


def log_delta(epsilon: ArrayLike, mu: ArrayLike) -> NDArray[np.float64]:
    """Return the logarithm of `delta`, within about 1e-11 relative in delta, for finite mu > 0 and epsilon >= 0."""
    epsilon = validation.non_negative_array("epsilon", epsilon, error=InvalidBudget)
    mu = validation.non_negative_array("mu", mu)
    if not np.all((mu > 0) & (mu < math.inf)):
        raise InvalidArgument("mu", mu, "finite numbers > 0")
    return _log_delta(epsilon, mu)


def _log_delta(epsilon: NDArray[np.float64], mu: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `log_delta` without checks.

    With a = epsilon/mu - mu/2 and b = epsilon/mu + mu/2, delta = phi(a) (Mills(a) - Mills(b)); small mu need an
    integral of -Mills'.
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_phi = -0.5 * a * a - _LOG_SQRT_TAU
    close, far_left = mu < 1.0, a < -1.0  # most often one value, for which one of two ways is enough
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        between = 0.0 if close.all() else _mills(np.maximum(a, -30.0)) - _mills(b)
        if close.any():
            points = (a + b)[..., None] / 2 + mu[..., None] / 2 * _NODES
            between = np.where(close, mu / 2 * (_mills_slope(points) @ _WEIGHTS), between)
        near = log_phi + np.log(between)
        if not far_left.any():
            return np.asarray(near)
        sure = np.log1p(-np.minimum(special.ndtr(a) + np.exp(log_phi) * _mills(b), 1.0))  # a << 0: delta near 1
    return np.asarray(np.where(far_left, sure, near))


def delta(epsilon: ArrayLike, mu: ArrayLike) -> NDArray[np.float64]:
    """Return the exact delta of a mu-GDP release at epsilon >= 0 (0 for mu = 0, 1 for mu = infinity)."""
    epsilon = validation.non_negative_array("epsilon", epsilon, error=InvalidBudget)
    mu = validation.non_negative_array("mu", mu)
    regular = (mu > 0) & np.isfinite(mu)
    value = np.exp(_log_delta(epsilon, np.where(regular, mu, 1.0)))
    return np.where(regular, value, np.where(mu > 0, 1.0, 0.0))


def epsilon(delta_: float, mu_: float) -> float:
    """Return the smallest epsilon >= 0 with delta(epsilon; mu) <= delta; 0 for mu = 0, infinity for mu = infinity."""
    delta_, mu_ = validation.delta(delta_), validation.non_negative("mu", mu_, infinite=True)
    if mu_ == 0.0:
        return 0.0
    return math.inf if delta_ == 0.0 or math.isinf(mu_) else _epsilon(delta_, mu_)


@lru_cache(maxsize=4096)
def _epsilon(delta_: float, mu_: float) -> float:
    log_target = math.log(delta_)
    # delta <= Phi(-a): once a = epsilon/mu - mu/2 reaches sqrt(2 log(1/delta)) the target is met
    reach = mu_ * (mu_ / 2 + math.sqrt(-2 * log_target))
    if math.isinf(reach):  # beyond floats, and beyond any promise
        return math.inf
    price = np.asarray(mu_)
    return _solve(lambda e: float(_log_delta(np.asarray(e), price)), log_target, reach=reach)


def mu(epsilon_: float, delta_: float) -> float:
    """Return the largest mu with delta(epsilon; mu) <= delta. The analytic Gaussian mechanism has std Delta_2 / mu."""
    epsilon_, delta_ = validation.epsilon(epsilon_), validation.delta(delta_)
    if delta_ == 0.0:
        raise InvalidBudget("delta", 0.0, "a number in (0, 1)", NEVER_PURE)
    return math.inf if math.isinf(epsilon_) else _mu(epsilon_, delta_)


@lru_cache(maxsize=4096)
def _mu(epsilon_: float, delta_: float) -> float:
    log_target = math.log(delta_)
    # at mu = 2 sqrt(epsilon) + 80, a <= -39 and delta = 1; delta <= mu/sqrt(2 pi), so mu = delta meets the target
    low, high = min(delta_, 1e-3), 2 * math.sqrt(epsilon_) + 80.0
    at = np.asarray(epsilon_)
    return search.find_greatest(lambda m: float(_log_delta(at, np.asarray(m))) <= log_target, low, high, relative=1e-13)


def solve_epsilon(
    profile: Callable[[float], float], target: float, *, reach: float = 1.0, most: float = 600.0
) -> float:
    """Return the smallest epsilon >= 0 at which a decreasing profile is at most `target`; infinity beyond `most`.

    `reach` is a guess from above. The returned epsilon meets the target and is at most 1 part in 10^12 too large.
    """

    def log_profile(epsilon: float) -> float:
        delta = profile(epsilon)
        return math.log(delta) if delta > 0 else -math.inf

    return _solve(log_profile, math.log(target), reach=reach, most=most)


def _solve(log_profile: Callable[[float], float], log_target: float, *, reach: float, most: float = 600.0) -> float:
    if log_profile(0.0) <= log_target:
        return 0.0
    high = max(reach, 1e-12)
    while log_profile(high) > log_target:
        if high >= most:
            return math.inf
        start, high = high, min(2 * high, most)
        if high == most or log_profile(high) > log_profile(start):
            closer = (start * (high / start) ** (step / 16) for step in range(1, 16))
            high = next((epsilon for epsilon in closer if log_profile(epsilon) <= log_target), high)
    low = high / 2
    while low > 1e-15 and log_profile(low) <= log_target:
        low, high = low / 16, low
    return search.find_crossing(lambda epsilon: log_profile(epsilon) - log_target, low, high)
