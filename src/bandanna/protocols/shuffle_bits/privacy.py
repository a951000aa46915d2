"""Privacy of the bit sum: exact, since binomial noise on one integer has a profile that can be summed."""

from __future__ import annotations

from scipy import special

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_event, bit_noise
from bandanna.accounting.events import BinomialEvent
from bandanna.core import require
from bandanna.errors import InvalidArgument


def calibrate(budget: Budget, batch: int, participations: int) -> BinomialNoise:
    """Fewest fair bits whose exact profile meets the budget."""
    return bit_noise(users=batch, budget=budget, participations=participations)


def check(noise: BinomialNoise) -> BinomialNoise:
    """Whole copies and fair coins: what the analyzer undoes."""
    require.whole("copies", noise.scale)
    if noise.probability != 0.5:
        raise InvalidArgument("probability", noise.probability, "1/2: bits are hidden among fair coins")
    return noise


def event(noise: BinomialNoise) -> BinomialEvent:
    """The analyzer's view of one batch: a total with Bin(B b, 1/2) noise."""
    return bit_event(noise)


def local_event(noise: BinomialNoise) -> BinomialEvent:
    """The shuffler's view of one user: a count with Bin(b, 1/2) noise only."""
    return bit_event(noise, users=1)


def exposed(noise: BinomialNoise) -> float:
    """With this probability the shuffler is sure of the bit: c + Bin(b, 1/2) lies above b, that is above all of a 0."""
    k, b = int(noise.scale), noise.trials
    return 1.0 if k > b else float(special.betainc(b - k + 1.0, float(k), 0.5))  # P(Bin(b, 1/2) > b - k)
