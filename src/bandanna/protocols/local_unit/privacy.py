"""Privacy of the local sum of directions: every message protects itself."""

from __future__ import annotations

import math

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.caps import LARGEST, LEAST
from bandanna.accounting.calibration.pure import largest_epsilon, spends_delta
from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.core import require, search
from bandanna.core.domain import Domain
from bandanna.device.caps import few_coordinates
from bandanna.errors import CalibrationError
from bandanna.mechanisms.priv_unit import PrivUnit
from bandanna.protocols.base import a_domain, stated_delta


def calibrate(domain: Domain, budget: Budget, participations: int) -> tuple[PrivUnit, float]:
    """The best direction for the largest epsilon that meets the budget, and the delta where the promise is stated.

    The accountant prices several directions by their pure epsilon alone, as anything of that epsilon; so the search is
    over a plain pure event, and the direction is found once.
    """
    a_domain(domain)
    epsilon = largest_epsilon(_pure, budget, participations, least=LEAST, most=LARGEST)
    if epsilon < LEAST:
        raise CalibrationError(f"no direction is as private as {budget}: epsilon is at least {LEAST:g} a report")
    mechanism = PrivUnit.calibrate(dim=domain.dim, epsilon=epsilon)
    return mechanism, stated_delta(budget) if spends_delta(budget, participations) else 0.0


def of_std(domain: Domain, std: float) -> PrivUnit:
    """The most private direction whose report has at most this standard deviation."""
    few_coordinates(a_domain(domain).dim)
    radius, wanted = domain.ball[1], require.positive("std", std)

    def meets(epsilon: float) -> bool:
        found = PrivUnit.calibrate(dim=domain.dim, epsilon=epsilon)
        return radius * math.sqrt(found.variance) <= wanted

    if not meets(LARGEST) or meets(LEAST):
        raise CalibrationError(
            f"no direction has a standard deviation of {wanted:.3g} in a ball of radius {radius:.3g}"
        )
    return PrivUnit.calibrate(dim=domain.dim, epsilon=search.least(meets, LEAST, LARGEST, relative=1e-9))


def _pure(epsilon: float) -> DiscreteLaplaceEvent:
    return DiscreteLaplaceEvent(scale=math.nextafter(1 / epsilon, 0.0), shift=1.0)  # at least epsilon
