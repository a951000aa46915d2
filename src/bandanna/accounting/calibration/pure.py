"""The largest epsilon of a pure release that a budget allows, made once or several times by one user."""

from __future__ import annotations

from collections.abc import Callable

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.accounting.events import Event, RepetitionEvent
from bandanna.core import require, search
from bandanna.errors import CalibrationError, InvalidBudget


def largest_epsilon(
    event: Callable[[float], Event], budget: Budget, participations: int, *, least: float, most: float
) -> float:
    """The largest epsilon in [least, most] at which `participations` releases of `event(epsilon)` meet the budget.

    One release is pure: for (epsilon, delta) it spends epsilon and no delta. Several, and other kinds of budgets, are
    left to the accountant.
    """
    if not isinstance(budget, Budget):
        raise InvalidBudget("budget", budget, "PureDP, ApproxDP, ZCDP or RenyiDP")
    if require.whole("participations", participations, most=100_000) == 1 and isinstance(budget, PureDP | ApproxDP):
        return min(budget.epsilon, most)

    def meets(epsilon: float) -> bool:
        return accountant.satisfies(RepetitionEvent(event=event(epsilon), times=participations), budget)

    if not meets(least):
        raise CalibrationError(f"no answer is noisy enough for {participations} participations at {budget}")
    return search.greatest(meets, least, most, relative=1e-7)


def spends_delta(budget: Budget, participations: int) -> bool:
    """Whether the promise of releases calibrated above is stated at a delta: not where they are pure in all."""
    return not (isinstance(budget, PureDP) or (participations == 1 and isinstance(budget, ApproxDP)))
