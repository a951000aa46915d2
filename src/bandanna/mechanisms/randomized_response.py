"""Randomized response: one bit about a number in [0, 1], true with probability q; pure DP on the user's own device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.device.counts import answers, chance_of_one
from bandanna.device.noise import noise_source
from bandanna.errors import InvalidBudget, InvalidStatistic, Summary
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.sources import NoiseSource

_STEP = 2.0**-53  # of a uniform number
LEAST = 1e-12  # an epsilon of many steps


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """One bit for every number x in [0, 1].

        P(bit = 1 | x) = (1 - q) + (2q - 1) x,   q = e^epsilon / (1 + e^epsilon),   E[(bit - (1 - q)) / (2q - 1)] = x

    A number between 0 and 1 is rounded to a bit at random (unbiased) and the bit is answered with; both in one coin.
    A coin has 53 binary places: 1 - q is rounded up to them, so that every bit can lie, however large epsilon is.
    Privacy: pure epsilon for each number, dim epsilon for all `dim` of a user. The answer to a bit is "x + Z >= 1" with
    Z two-sided geometric, P(Z >= 0) = q: that release, of which it is a function, is the event.
    Reference: Warner 1965.
    """

    epsilon: float
    dim: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require.epsilon(self.epsilon))
        if not LEAST <= self.epsilon < math.inf:
            allowed = f"a finite number >= {LEAST}: a coin of 53 binary places"
            raise InvalidBudget("epsilon", self.epsilon, allowed)
        require.store(self, require.whole, "dim")
        super().__post_init__()

    @cached_property
    def lie(self) -> float:
        """1 - q = 1 / (1 + e^epsilon), a little above it: a whole number of the coin's steps, at least one."""
        odds = math.exp(-self.epsilon)
        return (math.floor(odds / (1 + odds) / _STEP * (1 + 1e-15)) + 1) * _STEP  # 1e-15: more than rounding errors

    @property
    def truth(self) -> float:
        """2q - 1, at most tanh(epsilon/2): how much of the bit survives."""
        return 1 - 2 * self.lie

    @cached_property
    def event(self) -> DiscreteLaplaceEvent:
        """Bits with two-sided geometric noise, of which answers are functions; neighbours may differ in all `dim`."""
        loss = 2 * math.atanh(self.truth) * (1 + 1e-15)  # log(q / (1 - q)) <= epsilon
        scale = max(math.nextafter(1 / self.epsilon, math.inf), 1 / loss)  # so that 1 / scale is never above epsilon
        return DiscreteLaplaceEvent(scale=scale, shift=float(self.dim), dim=self.dim)

    @property
    def variance(self) -> float:
        """q (1 - q) / (2q - 1)^2, of an answer about a bit after `decode`."""
        return self.lie * (1 - self.lie) / self.truth**2

    def chance(self, value: Floats) -> Floats:
        """Device: the probability of a 1, never outside of [1 - q, q]."""
        return chance_of_one(value, self.lie)

    def release(self, value: ArrayLike, source: NoiseSource) -> Floats:
        """Device: bits about numbers in [0, 1], (..., dim) -> (..., dim)."""
        x = self.reals(value)
        if x.size and not (x.min() >= 0.0 and x.max() <= 1.0):
            raise InvalidStatistic(
                "value", Summary("a number outside of [0, 1]"), "numbers in [0, 1]: clip before the release"
            )
        return answers(x, self.lie, noise_source(source)).astype(float)

    def decode(self, ones: Floats, answers: int | Floats = 1) -> Floats:
        """Unbiased estimates of sums from the number of ones among so many answers."""
        return np.asarray((ones - self.lie * answers) / self.truth)
