"""Least Gaussian and Laplace noise for a budget: one release, M releases, or a continual release."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from bandanna.accounting import accountant, events
from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.accounting.factorisation import Factorisation
from bandanna.accounting.grid import fine_grid
from bandanna.accounting.records import joint_share
from bandanna.core import require, search
from bandanna.errors import CalibrationError, InvalidBudget

_LARGEST = 600.0  # epsilon beyond which e^epsilon leaves the floats


def gaussian_std(*, sensitivity: float, dim: int, budget: Budget, participations: int = 1) -> float:
    """Least std of Gaussian noise on a `dim`-vector of l2 `sensitivity`, for a user in `participations` releases.

    The analytic Gaussian mechanism: std = sensitivity sqrt(M) / mu(epsilon, delta), plus the grid's share.
    """
    sensitivity, dim, participations = _checked(sensitivity, dim, participations)
    return _gaussian_std(sensitivity, dim, budget, participations, sensitivity / finite_mu(budget))


@lru_cache(maxsize=4096)  # policies of one kind calibrate alike
def _gaussian_std(sensitivity: float, dim: int, budget: Budget, participations: int, once: float) -> float:
    """From `once`, the std for a user in one release, without a grid."""

    def event(std: float) -> events.Event:
        one = events.GaussianEvent(std=std, sensitivity=sensitivity, dim=dim, grid=fine_grid(std, sensitivity, dim))
        return events.RepetitionEvent(event=one, times=participations)

    return _least_std(event, budget, start=once * math.sqrt(participations))


def continual_std(
    *, factorisation: Factorisation, sensitivity: float, dim: int, budget: Budget, participations: int = 1
) -> float:
    """Least std of the noise on every released number of a continual sum, M0 participations inside one stream.

    std = sensitivity |C|_M0 / mu(epsilon, delta), |C|_M0 the largest norm of a sum of M0 columns, plus the grid's
    share; the worst prefix has factorisation.error() times it.
    """
    sensitivity, dim, participations = _checked(sensitivity, dim, participations)
    apart = participations * sensitivity * factorisation.sensitivity()  # what the grid must be fine for
    change = sensitivity * factorisation.sensitivity(participations)
    touched = dim * factorisation.releases(participations)

    def event(std: float) -> events.Event:
        return events.ContinualEvent(
            factorisation=factorisation,
            std=std,
            sensitivity=sensitivity,
            participations=participations,
            dim=dim,
            grid=fine_grid(std, apart, touched),
        )

    return _least_std(event, budget, start=change / finite_mu(budget))


def laplace_scale(*, sensitivity: float, dim: int, budget: Budget, participations: int = 1) -> float:
    """Least scale of Laplace noise on a `dim`-vector of l1 `sensitivity`: M sensitivity / epsilon, pure.

    In zCDP each release may have the epsilon with epsilon tanh(epsilon/2) = rho / M (calibration.md F).
    """
    sensitivity, dim, participations = _checked(sensitivity, dim, participations)
    if isinstance(budget, PureDP | ApproxDP):
        if math.isinf(budget.epsilon):
            raise InvalidBudget("epsilon", math.inf, "a finite number (the clear protocol adds no noise)")
        pure = participations * sensitivity / budget.epsilon
    else:
        pure = sensitivity / ZCDP(rho=finite_mu(budget) ** 2 / (2 * participations)).pure()

    def event(scale: float) -> events.Event:
        one = events.LaplaceEvent(
            scale=scale, sensitivity=sensitivity, dim=dim, grid=fine_grid(scale, sensitivity, dim**2)
        )
        return events.RepetitionEvent(event=one, times=participations)

    if isinstance(budget, ApproxDP) and budget.delta > 0:  # a delta buys little for few releases: keep it pure
        budget = PureDP(epsilon=budget.epsilon)
    return _least_std(event, budget, start=pure)


def finite_mu(budget: Budget) -> float:
    """The Gaussian price of a budget; an infinite one has no least noise."""
    if not isinstance(budget, Budget):
        raise InvalidBudget("budget", budget, "ApproxDP, ZCDP, RenyiDP or PureDP")
    if isinstance(budget, ApproxDP) and _LARGEST < budget.epsilon < math.inf:
        raise InvalidBudget("epsilon", budget.epsilon, f"at most {_LARGEST:g}, or math.inf for no noise")
    mu = budget.mu()
    if math.isinf(mu):
        raise InvalidBudget("epsilon", math.inf, "a finite number (the clear protocol adds no noise)")
    return mu


def parts_mu(budget: Budget, share: float, *, weighted: bool, joint: bool = True) -> float:
    """m with m^2 = mu_matrix^2 + mu_vector^2, the matrix's `share` of it given, for parts of one record: at least mu.

    Not `joint`: mu itself, as if the worst cases of both could meet.
    """
    return finite_mu(budget) / math.sqrt(joint_share(share, weighted=weighted) if joint else 1.0)


def level_prices(mu: float, nodes: tuple[float, ...]) -> tuple[float, ...]:
    """Split a price over levels of which `nodes` m_j are summed: mu_j^2 proportional to sqrt(m_j).

    Minimises sum m_j / mu_j^2 subject to sum mu_j^2 = mu^2; the variance is then (sum sqrt m_j)^2 / mu^2.
    """
    roots = [math.sqrt(require.positive("nodes", m)) for m in nodes]
    return tuple(mu * math.sqrt(root / math.fsum(roots)) for root in roots)


def _checked(sensitivity: float, dim: int, participations: int) -> tuple[float, int, int]:
    checked = require.positive("sensitivity", sensitivity), require.whole("dim", dim)
    return *checked, require.whole("participations", participations)


def _least_std(event: Callable[[float], events.Event], budget: Budget, *, start: float) -> float:
    high = start
    for _ in range(60):
        if accountant.satisfies(event(high), budget):
            return search.least(lambda std: accountant.satisfies(event(std), budget), start / 2, high, relative=1e-7)
        high *= 1.001 if high < 1.02 * start else 1.5
    raise CalibrationError(f"no noise up to {high:.3g} meets {budget}")
