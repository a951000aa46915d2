"""The papers' printed noise, for `calibration="paper"`: outside a theorem's range an error, inside it what was printed.

These are upper bounds of their time; what they really guarantee is computed by the accountant and stated beside them.
References: [000] Chowdhury and Zhou, Shuffle private linear contextual bandits; [001] Li, Zhou and Ji, Distributed
linear bandits with differential privacy; [004] Azize and Basu, Concentrated DP for bandits.
"""

from __future__ import annotations

import math

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core import require
from bandanna.errors import InvalidBudget, OutsideTheorem


def gaussian_std(*, sensitivity: float, budget: Budget, participations: int = 1) -> float:
    """Delta_2 sqrt(2 log(1.25/delta))/epsilon for epsilon <= 1, or Delta_2/sqrt(2 rho) [001, Thm 4.2; 004, Thm 18]."""
    sensitivity, participations = (
        require.positive("sensitivity", sensitivity),
        require.whole("participations", participations),
    )
    if isinstance(budget, ZCDP):
        return sensitivity * math.sqrt(participations / (2 * budget.rho))
    epsilon, delta = _share(_approximate(budget), participations)
    _within("epsilon", epsilon, epsilon <= 1, "at most 1: the classical Gaussian mechanism holds only there")
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def report_std(*, budget: Budget, participations: int = 1) -> float:
    """4 sqrt(2 log(2.5/delta)) / epsilon on vector and matrix of a report, epsilon <= 1 [000, Prop. F.1]."""
    epsilon, delta = _share(_approximate(budget), participations)
    _within("epsilon", epsilon, epsilon <= 1, "at most 1 [000, Prop. F.1]")
    return 4 * math.sqrt(2 * math.log(2.5 / delta)) / epsilon


def shuffled_report_std(*, users: int, budget: Budget, participations: int = 1) -> float:
    """Noise on every shuffled report, B users.

    4 sqrt(2 log(2.5 B/delta) log(2/delta)) / (epsilon sqrt B) for epsilon <= sqrt(log(2/delta)/B)   [000, Thm 3.2]
    16 log(2/delta) sqrt(T log(5 T/delta)) / (epsilon B) for epsilon <= (2/B) log(2/delta) sqrt(2 T)   [000, Thm E.3]

    with T = M B.
    """
    budget, participations = _approximate(budget), require.whole("participations", participations)
    epsilon, delta, b = budget.epsilon, budget.delta, require.whole("batch", users, least=2)
    log = math.log(2 / delta)
    if participations == 1:
        bound = math.sqrt(log / b)
        _within("epsilon", epsilon, epsilon <= bound, f"at most sqrt(log(2/delta)/B) = {bound:.4g} [000, Thm 3.2]")
        return 4 * math.sqrt(2 * math.log(2.5 * b / delta) * log) / (epsilon * math.sqrt(b))
    horizon = participations * b
    bound = 2 / b * log * math.sqrt(2 * horizon)
    _within("epsilon", epsilon, epsilon <= bound, f"at most (2/B) log(2/delta) sqrt(2T) = {bound:.4g} [000, Thm E.3]")
    return 16 * log * math.sqrt(horizon * math.log(5 * horizon / delta)) / (epsilon * b)


def binomial_noise(
    *, features: int, bound: float, users: int, budget: Budget, participations: int = 1
) -> BinomialNoise:
    """Noise of the vector sum, p = 1/4, g = max(2 sqrt B, d, 4) lattice steps per unit of `bound`.

    b = 24e4 g^2 log^2(4 (d^2+1)/delta) / (epsilon^2 B)                      [000, Thm C.1]
    b = 1e7 log(2/delta) g^2 T log^2(8 T (d^2+1)/(B delta)) / (epsilon^2 B^2), T = M B   [000, Thm E.5]

    both for epsilon <= 15, delta < 1/2. The printed range of the encoder is too short for shifted data; totals do not
    care (calibration.md 0.1), so the printed resolution bound/g is kept.
    """
    budget, participations = _approximate(budget), require.whole("participations", participations)
    epsilon, delta, users = budget.epsilon, budget.delta, require.whole("batch", users, least=2)
    _within("epsilon", epsilon, epsilon <= 15, "at most 15 [000, Thm C.1]")
    _within("delta", delta, delta < 0.5, "below 1/2 [000, Thm C.1]")
    g = max(2 * math.sqrt(users), features, 4)
    if participations == 1:
        log = math.log(4 * (features**2 + 1) / delta)
        trials = 24e4 * g**2 * log**2 / (epsilon**2 * users)
    else:
        horizon = participations * users
        log = math.log(8 * horizon * (features**2 + 1) / (users * delta))
        trials = 1e7 * math.log(2 / delta) * g**2 * horizon * log**2 / (epsilon**2 * users**2)
    return BinomialNoise(scale=g / bound, trials=math.ceil(trials), users=users, probability=0.25)


def _share(budget: ApproxDP, participations: int) -> tuple[float, float]:
    """Each of M releases by advanced composition: epsilon/(2 sqrt(2 M log(2/delta))), delta/(2M) [000, Thm E.2]."""
    m = require.whole("participations", participations)
    if m == 1:
        return budget.epsilon, budget.delta
    _within("epsilon", budget.epsilon, budget.epsilon < 1, "below 1 for advanced composition [000, Thm E.2]")
    return budget.epsilon / (2 * math.sqrt(2 * m * math.log(2 / budget.delta))), budget.delta / (2 * m)


def _approximate(budget: Budget) -> ApproxDP:
    if not isinstance(budget, ApproxDP) or budget.delta == 0.0:
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta) with delta > 0: the papers' form")
    return budget


def _within(argument: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise OutsideTheorem(argument, value, allowed + '; calibration="tight" has no such limit')
