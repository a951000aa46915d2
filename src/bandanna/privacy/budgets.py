"""Privacy budgets: pure, approximate, zero-concentrated and Renyi differential privacy, and their conversions."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidBudget
from bandanna.numeric import search
from bandanna.privacy import gdp
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_LEAST_DELTA = 1e-300


class Budget:
    """Base class of all budgets."""

    def mu(self) -> float:
        """Return the largest mu such that every mu-GDP release keeps within the budget."""
        raise InvalidBudget("budget", self, "an ApproxDP, PureDP, ZCDP or RenyiDP")


@stored_as("PureDP")
@dataclass(frozen=True, kw_only=True)
class PureDP(Budget):
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every event S.

    Parameters
    ----------
    epsilon
        Bound on the log-ratio of probabilities, above 0. A smaller one is more private; inf is no privacy.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.epsilon(self.epsilon))

    def mu(self) -> float:
        if math.isinf(self.epsilon):
            return math.inf
        raise InvalidBudget("delta", 0.0, "a number in (0, 1)", gdp.NEVER_PURE)

    def to_zcdp(self) -> ZCDP:
        """Convert: epsilon-DP implies (epsilon tanh(epsilon/2))-zCDP, and no smaller rho holds (proofs.md F)."""
        return ZCDP(rho=pure_rho(self.epsilon))

    def to_renyi(self, alpha: float) -> RenyiDP:
        """Convert to the Renyi divergence of randomized response, the worst epsilon-DP pair; exact.

        D_alpha = log(cosh((alpha - 1/2) epsilon) / cosh(epsilon/2)) / (alpha - 1) (Bun and Steinke 2016, Lemma 5.3).
        """
        alpha = _order(alpha)
        if math.isinf(self.epsilon):
            return RenyiDP(alpha=alpha, epsilon=math.inf)
        log_ratio = _log_cosh((alpha - 0.5) * self.epsilon) - _log_cosh(self.epsilon / 2)
        return RenyiDP(alpha=alpha, epsilon=log_ratio / (alpha - 1))

    def to_approx(self, delta: float) -> ApproxDP:
        """Convert to randomized response's smallest epsilon': e^epsilon' = e^epsilon - delta (1 + e^epsilon), or 0."""
        delta = validation.delta(delta)
        if math.isinf(self.epsilon):
            return ApproxDP(epsilon=math.inf, delta=delta)
        shrink = 1 - delta * (1 + math.exp(-self.epsilon))  # e^{epsilon' - epsilon}
        return _approx(self.epsilon + math.log(shrink) if shrink > 0 else 0.0, delta)


@stored_as("ApproxDP")
@dataclass(frozen=True, kw_only=True)
class ApproxDP(Budget):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S.

    Parameters
    ----------
    epsilon
        Privacy loss, above 0; inf is no privacy.
    delta
        Excess probability that the bound allows, in [0, 1). Choose it well below 1 / number of users.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.epsilon(self.epsilon))
        object.__setattr__(self, "delta", validation.delta(self.delta))

    def mu(self) -> float:
        if 0 < self.delta < _LEAST_DELTA:
            raise InvalidBudget("delta", self.delta, f"at least {_LEAST_DELTA:g}", "Shares of it must be floats")
        return gdp.mu(self.epsilon, self.delta)


@stored_as("ZCDP")
@dataclass(frozen=True, kw_only=True)
class ZCDP(Budget):
    """rho-zCDP: the Renyi divergence of every order alpha > 1 is at most rho alpha.

    Parameters
    ----------
    rho
        Divergence per unit of alpha, above 0. A smaller one is more private; inf is no privacy.
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", validation.epsilon(self.rho, argument="rho"))

    def mu(self) -> float:
        return math.sqrt(2 * self.rho)

    def pure(self) -> float:
        """Return the largest epsilon of pure releases within the budget: epsilon tanh(epsilon/2) <= rho, from below."""
        if math.isinf(self.rho):
            return math.inf
        least = max(math.sqrt(2 * self.rho), self.rho) * (1 - 1e-14)
        return search.find_greatest(
            lambda epsilon: pure_rho(epsilon) <= self.rho, least, self.rho + least * (1 + 1e-12)
        )

    def to_renyi(self, alpha: float) -> RenyiDP:
        return RenyiDP(alpha=alpha, epsilon=alpha * self.rho)

    def to_approx(self, delta: float) -> ApproxDP:
        delta = _positive_delta(delta)
        if math.isinf(self.rho):
            return ApproxDP(epsilon=math.inf, delta=delta)
        # the optimal order is near 1 + sqrt(log(1/delta)/rho): a fine grid around it, a valid bound at each point
        centre = math.sqrt(max(math.log(1 / delta), 1e-3) / self.rho)
        orders = 1 + centre * np.exp(np.linspace(-12, 6, 20001))
        return _approx(float(np.min(_renyi_epsilon(orders, self.rho * orders, delta))), delta)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta of Renyi conversions at `epsilon` (Canonne, Kamath and Steinke 2020, Cor. 13)."""
        # alpha - 1 near the optimum of the exponent, or where the divergence reaches one
        centre = max((epsilon - self.rho) / (2 * self.rho), 1 / math.sqrt(self.rho))
        orders = 1 + centre * np.exp(np.linspace(-12, 6, 20001))
        exponent = (orders - 1) * (self.rho * orders - epsilon) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        return min(1.0, float(np.exp(np.min(exponent))))


@stored_as("RenyiDP")
@dataclass(frozen=True, kw_only=True)
class RenyiDP(Budget):
    """(alpha, epsilon)-RDP: the Renyi divergence of order alpha > 1 is at most epsilon.

    Parameters
    ----------
    alpha
        Order of the divergence, finite and above 1.
    epsilon
        Bound on the divergence, above 0. A smaller one is more private; inf is no privacy.
    """

    alpha: float
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.epsilon(self.epsilon))
        object.__setattr__(self, "alpha", _order(self.alpha))

    def mu(self) -> float:
        return math.sqrt(2 * self.epsilon / self.alpha)

    def to_approx(self, delta: float) -> ApproxDP:
        """Convert (Canonne, Kamath and Steinke 2020, Prop. 12).

        epsilon + log(1 - 1/alpha) - log(alpha delta)/(alpha - 1).
        """
        delta = _positive_delta(delta)
        return _approx(float(_renyi_epsilon(np.asarray(self.alpha), np.asarray(self.epsilon), delta)), delta)


def pure_rho(epsilon: float) -> float:
    """Return rho = epsilon tanh(epsilon/2), the zCDP of any epsilon-DP release (proofs.md F), rounded up."""
    return epsilon * math.tanh(epsilon / 2) * (1 + 2.0**-50)


def _renyi_epsilon(alpha: Floats, divergence: Floats, delta: float) -> Floats:
    return divergence + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)


def _log_cosh(x: float) -> float:
    return math.log1p(2 * math.sinh(x / 2) ** 2) if x < 1 else x + math.log1p(math.exp(-2 * x)) - math.log(2)


def _order(alpha: Any) -> float:
    number = validation.finite("alpha", alpha, "a finite number > 1", error=InvalidBudget)
    if number <= 1:
        raise InvalidBudget("alpha", alpha, "a finite number > 1")
    return number


def _approx(epsilon: float, delta: float) -> ApproxDP:
    return ApproxDP(epsilon=max(epsilon, sys.float_info.min), delta=delta)


def _positive_delta(delta: float) -> float:
    if validation.delta(delta) == 0.0:
        raise InvalidBudget("delta", delta, "a number in (0, 1)", "This conversion has no pure form")
    return delta
