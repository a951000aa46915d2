"""Link functions, their derivatives and constants."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import Polynomial, hermite_e
from scipy import special

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

# Derivatives of the links' means, to any order: polynomials, and cumulants of an exponential family.


@lru_cache(maxsize=16)
def _logistic_polynomials(order: int) -> tuple[Polynomial, ...]:
    slope = Polynomial([0.0, 1.0, -1.0])
    found = [Polynomial([0.0, 1.0])]
    for _ in range(order):
        found.append(slope * found[-1].deriv())
    return tuple(found)


@lru_cache(maxsize=16)
def _logistic_table(order: int) -> Floats:
    rows = [np.pad(each.coef[1:], (0, order + 2 - len(each.coef))) for each in _logistic_polynomials(order)]
    return np.array(rows, dtype=float).T  # powers by derivatives


def logistic_derivatives(z: Floats, order: int) -> Floats:
    """Return s, s', ..., s^(order) at z: (...) -> (..., order + 1)."""
    s = special.expit(z)[..., None]
    return np.asarray(s ** np.arange(1, order + 2) @ _logistic_table(order))


@lru_cache(maxsize=16)
def logistic_ratio(order: int) -> float:
    """Return sup |s^(order) / s'|."""
    ratio = _logistic_polynomials(order)[order] // Polynomial([0.0, 1.0, -1.0])
    return 1.01 * float(np.max(np.abs(ratio(np.linspace(0.0, 1.0, 1001)))))


@lru_cache(maxsize=16)
def _hermite_table(order: int) -> Floats:
    rows = [(-1) ** k * hermite_e.herme2poly([0.0] * k + [1.0]) for k in range(order)]
    return np.array([np.pad(row, (0, order - len(row))) for row in rows]).T


def probit_derivatives(z: Floats, order: int) -> Floats:
    """Return Phi, phi, ...: (...) -> (..., order + 1)."""
    tame = np.clip(z, -40.0, 40.0)[..., None]  # beyond it phi and all its derivatives vanish
    density = np.exp(-0.5 * tame**2) / math.sqrt(2 * math.pi)
    rest = density * (tame ** np.arange(order) @ _hermite_table(order))
    return np.concatenate([special.ndtr(z)[..., None], rest], axis=-1)


def probit_ratio(order: int, bound: float) -> float:
    """Bound sup |mu^(order) / mu'| over |z| <= bound."""
    return float(np.abs(_hermite_table(order)[:, -1]) @ bound ** np.arange(order))


def cumulants(chances: Floats, values: Floats, order: int) -> Floats:
    """Return kappa_1, ..., kappa_{order+1} of laws on `values` (V,): (..., V) -> (..., order + 1)."""
    mean = chances @ values
    centred = values - mean[..., None]
    moment = [np.ones(mean.shape), np.zeros(mean.shape)]
    moment += [np.sum(chances * centred**n, axis=-1) for n in range(2, order + 2)]
    kappa = [mean, mean]  # the first is never read
    for n in range(2, order + 2):
        kappa.append(moment[n] - sum(math.comb(n - 1, k - 1) * kappa[k] * moment[n - k] for k in range(2, n - 1)))
    return np.stack(kappa[1:], axis=-1)


# Proven suprema of the truncated Poisson family: of its variance, and of |third cumulant| / variance.
#
# The law is P(k | z) proportional to e^{kz} / k! on 0, ..., R. Write m for its mean, k_2 and k_3 for its cumulants, m_4
# for its fourth central moment and g = k_3 / k_2. All of these are functions of z, and
#
#     k_2 = m - (e^z - m)(R - m) <= R,     (log k_2)' = g,     g' = m_4 / k_2 - 3 k_2 - g^2 >= -2 k_2 >= -2 R,
#
# the first because m = e^z (1 - P(R)), the last because k_3^2 <= k_2 (m_4 - k_2^2) (Cauchy and Schwarz). So on an
# interval [a, b] of length h, with M = sup |g|,
#
#     |g| <= max(g(b), -g(a)) + 2 R h,     k_2 <= e^{M h} k_2(a).
#
# Branch and bound: intervals whose bound is below a value that is attained elsewhere are dropped, the others are
# halved. Below z = -12, or 12 above log R, all but a share e^{-12} of the law is at 0 (or at R), and each chance is
# that many times smaller than its neighbour's: there k_2 < 1e-5, and |g| <= 1.0001.


_REACH = 12.0
_TAIL = 1.0001  # |g| beyond the reach
_PRECISION = 1e-5  # relative
_TERMS = 2**20  # numbers held at once
_MOST = 1000  # a search beyond it takes minutes


@lru_cache(maxsize=64)
def bound_skew(most: int) -> float:
    """Bound sup_z |k_3| / k_2, the self-concordance constant for R = `most`, to 0.01 % (Lemma H.1)."""
    if most > _MOST:
        return float(most)

    def ends(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        (v, third), (w, later) = _cumulants(left, most), _cumulants(right, most)
        at = np.maximum(later / w, -third / v)
        return at, at + 2 * most * (right - left)

    return _supremum(ends, most, least=_TAIL)


@lru_cache(maxsize=64)
def bound_variance(most: int) -> float:
    """Bound sup_z k_2, the largest slope for R = `most`, to 0.001 %."""
    if most > _MOST:
        return float(most)
    skew = bound_skew(most)

    def ends(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        at = _cumulants(left, most)[0]
        return at, at * np.exp(skew * (right - left))

    return _supremum(ends, most, least=0.25)


def _supremum(ends: Callable[[Floats, Floats], tuple[Floats, Floats]], most: int, least: float) -> float:
    """Bound a function from values at the ends of intervals and bounds inside them."""
    edges = np.linspace(-_REACH, math.log(most) + _REACH, 257)
    left, right, best = edges[:-1], edges[1:], least
    while True:
        at, bound = ends(left, right)
        best = max(best, float(np.max(at)))
        kept = bound > best * (1 + _PRECISION)
        if not np.any(kept):
            return best * (1 + 1.01 * _PRECISION)  # and rounding
        middle = (left[kept] + right[kept]) / 2
        left, right = np.concatenate([left[kept], middle]), np.concatenate([middle, right[kept]])


def _cumulants(z: Floats, most: int) -> tuple[Floats, Floats]:
    counts = np.arange(most + 1.0)
    parts = []
    for piece in np.array_split(z, 1 + z.size * counts.size // _TERMS):
        logs = piece[:, None] * counts - special.gammaln(counts + 1)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        centred = counts - (chances @ counts)[:, None]
        squares = chances * centred**2
        parts.append((squares.sum(axis=1), (squares * centred).sum(axis=1)))
    variances, thirds = zip(*parts, strict=True)
    return np.concatenate(variances), np.concatenate(thirds)


# Links


_SQRT_TAU = math.sqrt(2 * math.pi)


@dataclass(frozen=True, kw_only=True)
class Link(ABC):
    """A link mu of a generalised linear model, E[r | x] = mu(z) with z = <x, theta> and rewards in [0, R].

    The loss is b(z) - r z with b' = mu, convex, with mean gradient 0 at the true theta whatever the law of r. Functions
    are elementwise, and finite for |z| up to 500 and beyond. Reference: [003], section 4 and Lemma H.1. Deviation: the
    probit link is not canonical, |mu''| <= |z| mu', so its self-concordance constant is max(R, S).
    """

    name: ClassVar[str]
    binary: ClassVar[bool] = False  # rewards are 0 or 1

    @property
    @abstractmethod
    def reward_bound(self) -> float:
        """R, the bound of rewards."""

    @property
    @abstractmethod
    def slope_bound(self) -> float:
        """Return L_mu = sup_z mu'(z), which no data may change."""

    @abstractmethod
    def mean(self, z: Floats) -> Floats:
        """Return mu(z), the mean."""

    @abstractmethod
    def slope(self, z: Floats) -> Floats:
        """Return mu'(z), the slope."""

    @abstractmethod
    def potential(self, z: Floats) -> Floats:
        """Return b(z), an integral of mu."""

    def concordance(self, parameter_bound: float) -> float:
        """Return M with |mu''(z)| <= M mu'(z) for |z| <= S; R for canonical families (Lemma H.1)."""
        return self.reward_bound

    def derivatives(self, z: Floats, order: int) -> Floats | None:
        """Return mu, mu', ..., mu^(order), (...) -> (..., order + 1), or None if unknown."""
        return None

    def derivative_ratio(self, order: int, bound: float) -> float:
        """Bound sup |mu^(order) / mu'| over |z| <= bound."""
        return math.inf

    def residual_bound(self, parameter_bound: float) -> float:
        """Return G = sup |mu(z) - r| over |z| <= S; R where mu stays in [0, R]."""
        return self.reward_bound

    def kappa(self, parameter_bound: float) -> float:
        """Return 1 / inf_{|z| <= S} mu'(z); infinite where mu' vanishes in double precision."""
        least = float(np.min(self.slope(np.array([-parameter_bound, parameter_bound]))))
        return 1 / least if least > 0 else math.inf

    @abstractmethod
    def draw(self, means: Floats, uniforms: Floats) -> Floats:
        """Draw rewards with these means, from one uniform each."""


class BernoulliLink(Link):
    """Base of links with rewards of 0 or 1."""

    binary = True
    reward_bound = 1.0

    def draw(self, means: Floats, uniforms: Floats) -> Floats:
        return np.asarray(uniforms < means, dtype=float)


@stored_as("LogisticLink")
@dataclass(frozen=True, kw_only=True)
class Logistic(BernoulliLink):
    """Bernoulli rewards, mu(z) = 1 / (1 + e^-z)."""

    name = "logistic"
    slope_bound = 0.25

    def mean(self, z: Floats) -> Floats:
        return np.asarray(special.expit(z))

    def slope(self, z: Floats) -> Floats:
        return np.asarray(special.expit(z) * special.expit(-np.asarray(z)))

    def potential(self, z: Floats) -> Floats:
        return np.logaddexp(0.0, z)

    def derivatives(self, z: Floats, order: int) -> Floats:
        return logistic_derivatives(z, order)

    def derivative_ratio(self, order: int, bound: float) -> float:
        return logistic_ratio(order)


@stored_as("ProbitLink")
@dataclass(frozen=True, kw_only=True)
class Probit(BernoulliLink):
    """Bernoulli rewards, mu = Phi, with the matching loss: not a canonical family."""

    name = "probit"
    slope_bound = 1 / _SQRT_TAU

    def mean(self, z: Floats) -> Floats:
        return np.asarray(special.ndtr(z))

    def slope(self, z: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * np.square(np.minimum(np.abs(z), 1e150))) / _SQRT_TAU)

    def potential(self, z: Floats) -> Floats:
        return np.maximum(z * self.mean(z) + self.slope(z), 0.0)

    def concordance(self, parameter_bound: float) -> float:
        return max(1.0, parameter_bound)

    def derivatives(self, z: Floats, order: int) -> Floats:
        return probit_derivatives(z, order)

    def derivative_ratio(self, order: int, bound: float) -> float:
        return probit_ratio(order, bound)


@stored_as("BinomialLink")
@dataclass(frozen=True, kw_only=True)
class Binomial(Link):
    """Counts of `trials` n Bernoulli rewards: mu(z) = n / (1 + e^-z), R = n."""

    trials: int = 1
    name = "binomial"

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "trials")

    @property
    def reward_bound(self) -> float:
        return float(self.trials)

    @property
    def slope_bound(self) -> float:
        return self.trials / 4

    def mean(self, z: Floats) -> Floats:
        return np.asarray(self.trials * special.expit(z))

    def slope(self, z: Floats) -> Floats:
        return np.asarray(self.trials * special.expit(z) * special.expit(-np.asarray(z)))

    def potential(self, z: Floats) -> Floats:
        return np.asarray(self.trials * np.logaddexp(0.0, z))

    def derivatives(self, z: Floats, order: int) -> Floats:
        return self.trials * logistic_derivatives(z, order)

    def derivative_ratio(self, order: int, bound: float) -> float:
        return logistic_ratio(order)

    def concordance(self, parameter_bound: float) -> float:
        return 1.0

    def draw(self, means: Floats, uniforms: Floats) -> Floats:
        chance = np.clip(np.asarray(means) / self.trials, 0.0, 1.0)[..., None]
        below = special.bdtr(np.arange(self.trials), self.trials, chance)  # P(X <= k), k < n
        return np.asarray(np.sum(np.asarray(uniforms)[..., None] >= below, axis=-1), dtype=float)


@stored_as("TruncatedPoissonLink")
@dataclass(frozen=True, kw_only=True)
class TruncatedPoisson(Link):
    """Poisson counts that are at most `most` R: b(z) = log sum_{k <= R} e^{k z} / k!."""

    most: int = 5
    name = "truncated poisson"

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "most")

    @property
    def reward_bound(self) -> float:
        return float(self.most)

    @property
    def slope_bound(self) -> float:
        return bound_variance(self.most)

    @cached_property
    def _counts(self) -> Floats:
        return np.arange(self.most + 1.0)

    def _chances(self, z: Floats) -> tuple[Floats, Floats]:
        logs = np.asarray(z)[..., None] * self._counts - special.gammaln(self._counts + 1)
        top = logs.max(axis=-1, keepdims=True)
        weights = np.exp(logs - top)
        total = weights.sum(axis=-1, keepdims=True)
        return weights / total, (top + np.log(total))[..., 0]

    def mean(self, z: Floats) -> Floats:
        return np.asarray(self._chances(z)[0] @ self._counts)

    def slope(self, z: Floats) -> Floats:
        chances = self._chances(z)[0]
        centred = self._counts - (chances @ self._counts)[..., None]
        return np.asarray(np.sum(chances * centred**2, axis=-1))

    def potential(self, z: Floats) -> Floats:
        return np.asarray(self._chances(z)[1])

    def derivatives(self, z: Floats, order: int) -> Floats:
        return cumulants(self._chances(z)[0], self._counts, order)

    def derivative_ratio(self, order: int, bound: float) -> float:
        return math.factorial(order) * float(self.most) ** (order - 1)

    def concordance(self, parameter_bound: float) -> float:
        return bound_skew(self.most)

    def argument(self, means: Floats) -> Floats:
        """Return z with mu(z) = mean, by bisection."""
        low, high = np.full(np.shape(means), -60.0), np.full(np.shape(means), 60.0)
        for _ in range(60):
            middle = (low + high) / 2
            below = self.mean(middle) < means
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def draw(self, means: Floats, uniforms: Floats) -> Floats:
        below = np.cumsum(self._chances(self.argument(means))[0][..., :-1], axis=-1)  # P(X <= k), k < R
        return np.asarray(np.sum(np.asarray(uniforms)[..., None] >= below, axis=-1), dtype=float)


@stored_as("LinearLink")
@dataclass(frozen=True, kw_only=True)
class Linear(BernoulliLink):
    """mu(z) = z with rewards in [0, 1]; simulated rewards are Bernoulli with the clipped mean."""

    name = "linear"
    slope_bound = 1.0

    def mean(self, z: Floats) -> Floats:
        return np.asarray(z, dtype=float)

    def slope(self, z: Floats) -> Floats:
        return np.ones(np.shape(z))

    def potential(self, z: Floats) -> Floats:
        return np.asarray(np.square(z) / 2)

    def concordance(self, parameter_bound: float) -> float:
        return 0.0

    def derivatives(self, z: Floats, order: int) -> Floats:
        found = np.zeros((*np.shape(z), order + 1))
        found[..., 0], found[..., 1] = z, 1.0
        return found

    def derivative_ratio(self, order: int, bound: float) -> float:
        return 0.0

    def residual_bound(self, parameter_bound: float) -> float:
        return 1.0 + parameter_bound


LINKS: dict[str, Link] = {"logistic": Logistic(), "probit": Probit(), "linear": Linear()}


_FAMILIES: dict[str, type[Link]] = {"Binomial": Binomial, "TruncatedPoisson": TruncatedPoisson}


def link_of(link: Link | str | Mapping[str, Any]) -> Link:
    """Return a link: given, by its name, or from a file's table.

    >>> link_of({"name": "Binomial", "trials": 4})
    Binomial(trials=4)
    """
    if isinstance(link, Link):
        return link
    if isinstance(link, str) and link in LINKS:
        return LINKS[link]
    if isinstance(link, Mapping) and (family := _FAMILIES.get(str(link.get("name")))) is not None:
        given = {key: value for key, value in link.items() if key != "name"}
        if set(given) <= {each.name for each in fields(family)}:
            return family(**given)
    allowed = "a Link (Binomial(trials=...), TruncatedPoisson(most=...)) or one of " + ", ".join(map(repr, LINKS))
    raise InvalidArgument("link", link, allowed)
