"""Privacy of the local sum of bits: every answer protects itself."""

from __future__ import annotations

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.accounting.events import RepetitionEvent
from bandanna.core import require, search
from bandanna.errors import CalibrationError, InvalidBudget
from bandanna.mechanisms.randomized_response import LEAST, RandomizedResponse
from bandanna.protocols.base import stated_delta

_LARGEST = 36.0  # epsilon beyond which a coin of 53 places lies no less


def calibrate(budget: Budget, participations: int) -> tuple[float, float]:
    """The largest epsilon of an answer that meets the budget, and the delta at which the promise is stated.

    One answer is pure: for (epsilon, delta) it spends epsilon and states delta = 0. Several, and other kinds of
    budgets, are left to the accountant.
    """
    if not isinstance(budget, Budget):
        raise InvalidBudget("budget", budget, "PureDP, ApproxDP, ZCDP or RenyiDP")
    if require.whole("participations", participations, most=100_000) == 1 and isinstance(budget, PureDP | ApproxDP):
        return min(budget.epsilon, _LARGEST), 0.0
    if not _meets(LEAST, budget, participations):
        raise CalibrationError(f"no answer is noisy enough for {participations} participations at {budget}")
    largest = search.greatest(lambda e: _meets(e, budget, participations), LEAST, _LARGEST, relative=1e-7)
    return largest, 0.0 if isinstance(budget, PureDP) else stated_delta(budget)


def _meets(epsilon: float, budget: Budget, participations: int) -> bool:
    answers = RepetitionEvent(event=RandomizedResponse(epsilon=epsilon).event, times=participations)
    return accountant.satisfies(answers, budget)
