"""Privacy of the local sum of bits: every answer protects itself."""

from __future__ import annotations

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.pure import largest_epsilon, spends_delta
from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.mechanisms.randomized_response import LEAST, RandomizedResponse
from bandanna.protocols.base import stated_delta

_LARGEST = 36.0  # epsilon beyond which a coin of 53 places lies no less


def calibrate(budget: Budget, participations: int) -> tuple[float, float]:
    """The largest epsilon of an answer that meets the budget, and the delta at which the promise is stated."""
    epsilon = largest_epsilon(_event, budget, participations, least=LEAST, most=_LARGEST)
    return epsilon, stated_delta(budget) if spends_delta(budget, participations) else 0.0


def _event(epsilon: float) -> DiscreteLaplaceEvent:
    return RandomizedResponse(epsilon=epsilon).event
