"""Privacy of the bit sum: exact, since binomial noise on one integer has a profile that can be summed."""

from __future__ import annotations

from dataclasses import replace

from scipy import special

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_event, bit_noise
from bandanna.accounting.calibration.refusals import left_for_coins, refusal_tail
from bandanna.accounting.events import BinomialEvent, ClearEvent
from bandanna.core import require
from bandanna.errors import InvalidArgument


def calibrate(budget: Budget, batch: int, participations: int, coins: str = "device") -> BinomialNoise:
    """Fewest fair bits whose exact profile meets the budget, beside what refusals cost (calibration.md A.9)."""
    left = left_for_coins(budget, batch, 1, participations) if coins == "checked" else budget
    return bit_noise(users=batch, budget=left, participations=participations)


def check(noise: BinomialNoise) -> BinomialNoise:
    """Whole copies and fair coins: what the analyzer undoes."""
    require.whole("copies", noise.scale)
    if noise.probability != 0.5:
        raise InvalidArgument("probability", noise.probability, "1/2: bits are hidden among fair coins")
    return noise


def event(noise: BinomialNoise, coins: str = "device") -> BinomialEvent:
    """The analyzer's view of one batch: a total with Bin(B b, 1/2) noise, whoever has drawn it; A.9 where refused."""
    view = bit_event(noise)
    return replace(view, tail=refusal_tail(noise.users, 1)) if coins == "checked" else view


def local_event(noise: BinomialNoise, coins: str = "device") -> BinomialEvent | ClearEvent:
    """The shuffler's view of one user: a count with Bin(b, 1/2) noise only, or the bit itself."""
    return ClearEvent() if coins == "mixer" else bit_event(noise, users=1)


def exposed(noise: BinomialNoise, coins: str = "device") -> float:
    """With this probability the shuffler is sure of the bit: c + Bin(b, 1/2) lies above b, that is above all of a 0."""
    k, b = int(noise.scale), 0 if coins == "mixer" else noise.trials
    return 1.0 if k > b else float(special.betainc(b - k + 1.0, float(k), 0.5))  # P(Bin(b, 1/2) > b - k)
