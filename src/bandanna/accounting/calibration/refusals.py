"""Counts that honest devices hardly ever send: which they are, and what refusing them costs (calibration.md A.9)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from scipy import stats

from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.errors import InvalidBudget

REFUSED = 2.0**-60  # an honest device's count of one coordinate, at most
_SIDE = REFUSED / 2 * (1 - 1e-6)  # at either end, and what floats may lose


@lru_cache(maxsize=1024)
def likely_coins(noise: BinomialNoise) -> tuple[int, int]:
    """The least low and high with P(Bin(b, p) < low) <= 2^-61 and P(Bin(b, p) > high) <= 2^-61 of a device's coins.

    About 8.8 standard deviations, a little less for few coins, whose tails are lighter.
    """
    law = stats.binom(noise.trials, noise.probability)
    low, high = int(law.ppf(_SIDE)), int(law.isf(_SIDE))
    while low > 0 and law.cdf(low - 1) > _SIDE:
        low -= 1
    while high < noise.trials and law.sf(high) > _SIDE:
        high += 1
    return low, high


def refusal_tail(users: int, dim: int) -> float:
    """Total variation between the totals of a batch with and without refusals: B D 2^-60 at most."""
    return users * dim * REFUSED


def left_for_coins(budget: Budget, users: int, dim: int, participations: int = 1) -> Budget:
    """What refusals leave of a budget: delta - (1 + e^epsilon) M tail."""
    if not isinstance(budget, ApproxDP) or math.isinf(budget.epsilon):
        return budget
    cost = (1 + math.exp(min(budget.epsilon, 700.0))) * participations * refusal_tail(users, dim)
    if cost >= budget.delta / 2:
        allowed = f"above {2 * cost:.2g}, twice what refusing improbable counts costs, or noise drawn by the mixer"
        raise InvalidBudget("delta", budget.delta, allowed)
    return replace(budget, delta=budget.delta - cost * (1 + 1e-9))
