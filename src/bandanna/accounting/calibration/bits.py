"""Least noise for a private sum of bits in the shuffle model: c copies of the value bit and b fair bits per user.

A batch of B users sums to c (sum of bits) + Bin(B b, 1/2): neighbours differ by exactly c, values are never rounded,
and the privacy profile is known exactly (`exact.binomial_delta`). std = sqrt(B b) / (2 c); copies are there only
because b is a whole number: with c = 1 a large batch would have far more noise than it needs.
"""

from __future__ import annotations

import math

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.accounting.events import BinomialEvent, RepetitionEvent
from bandanna.core import require, search
from bandanna.errors import CalibrationError, InvalidBudget

_WITHIN = 1.002  # the fewest copies with a std within this factor of the Gaussian's are taken
_LATTICES = 24


def bit_std(noise: BinomialNoise) -> float:
    """sqrt(B b) / (2 c): no rounding."""
    return math.sqrt(noise.users * noise.trials) / (2 * noise.scale)


def bit_event(noise: BinomialNoise, users: int | None = None) -> BinomialEvent:
    """Totals of `users` (a whole batch unless told) whose neighbours differ by exactly c."""
    copies = int(noise.scale)
    return BinomialEvent(
        trials=(noise.users if users is None else users) * noise.trials,
        shift=copies,
        reach=copies,
        probability=noise.probability,
        rounded=False,
    )


def bit_noise(*, users: int, budget: Budget, participations: int = 1) -> BinomialNoise:
    """Least noise for a batch of `users`, a user being in at most `participations` batches of this size."""
    if not isinstance(budget, ApproxDP):
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta): binomial noise has bounded support")
    users, times = require.whole("batch", users, least=2), require.whole("participations", participations)
    central = math.sqrt(times) / finite_mu(budget)
    best: BinomialNoise | None = None
    for copies in _copies(users, central):
        noise = _least(copies, users, budget, times, central)
        if noise is not None and (best is None or bit_std(noise) < bit_std(best)):
            best = noise
            if bit_std(best) <= _WITHIN * central:
                return best
    if best is None:
        raise CalibrationError(f"no binomial noise meets {budget}, batch {users}")
    return best


def bit_noise_of_std(std: float, *, users: int) -> BinomialNoise:
    """The fewest copies with which some fair bits give a batch at least the std, and at most 0.1 % more."""
    least = math.ceil(
        max(math.sqrt(625) / std, 1)
    )  # 2500 coins: the price of Theorem A is within 1 % of the Gaussian's
    for copies in range(least, 64 * least + math.ceil(16 * math.sqrt(users) / std)):
        trials = math.ceil((2 * copies * std) ** 2 / users * (1 - 1e-12))
        noise = BinomialNoise(scale=float(copies), trials=trials, users=users)
        if bit_std(noise) <= (1 + 1e-3) * std:
            return noise
    raise CalibrationError(f"no coins give a batch of {users} a standard deviation of {std:.3g}")


def _copies(users: int, std: float) -> list[int]:
    """1, 2, 3, ... and, for large batches, enough for the coins of a user to be at least one."""
    first = max(1, math.floor(math.sqrt(users) / (2 * std)))
    return sorted({*range(1, 9), *(first * step for step in range(1, _LATTICES))})


def _least(copies: int, users: int, budget: ApproxDP, times: int, central: float) -> BinomialNoise | None:
    """Least b for so many copies, or None where twice the central std is not enough."""

    def noise(trials: int) -> BinomialNoise:
        return BinomialNoise(scale=float(copies), trials=trials, users=users)

    def meets(trials: int) -> bool:
        return accountant.satisfies(RepetitionEvent(event=bit_event(noise(trials)), times=times), budget)

    guess = math.ceil((2 * copies * central) ** 2 / users)
    trials = search.least_whole(meets, guess, most=4 * guess + 4)
    return None if trials is None else noise(trials)
