"""What honest devices hardly ever send, counts and noisy numbers; and what refusing it costs (calibration.md A.9)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from scipy import special  # scipy.stats would take a second to load, in every process

from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.errors import InvalidBudget

REFUSED = 2.0**-60  # an honest device's count of one coordinate, at most
_SIDE = REFUSED / 2 * (1 - 1e-6)  # at either end, and what floats may lose


@lru_cache(maxsize=1024)
def likely_coins(noise: BinomialNoise) -> tuple[int, int]:
    """Low and high with P(Bin(b, p) < low) <= 2^-61 and P(Bin(b, p) > high) <= 2^-61, the closest such.

    About 8.85 standard deviations from the mean, fewer of few fair coins, whose tails are lighter than the Gaussian's.
    """
    b, p = noise.trials, noise.probability
    return _least(b, p), b - _least(b, 1 - p)  # what is above for p is below for 1 - p


def _least(trials: int, probability: float) -> int:
    """The largest k with P(Bin(b, p) < k) <= 2^-61."""
    lost = 1 - probability
    low, high = 0, math.ceil(trials * probability)  # P(X < low) is small enough, P(X < high + 1) is not
    while low < high:
        middle = (low + high + 1) // 2
        below = special.betainc(trials - middle + 1, middle, lost)  # P(Bin(b, p) < middle)
        low, high = (middle, high) if below <= _SIDE else (low, middle - 1)
    return low


@lru_cache(maxsize=1024)
def likely_reach(dim: int) -> float:
    """Give t with P(some of dim standard normal numbers has a size above t) <= 2^-60, the least such but for 1e-9.

    8.85 for one number, 9.59 for a thousand. A discrete Gaussian of parameter s is beyond ceil(t s) with no greater
    probability: P(Z >= m) <= P(N(0, s^2) >= m - 1) (Canonne, Kamath and Steinke 2020, Proposition 25).

    Parameters
    ----------
    dim
        How many numbers a report has.

    Returns
    -------
    float
        The bound, in standard deviations.
    """
    return float(-special.ndtri(_SIDE / dim)) * (1 + 1e-9)


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
