"""Analyzer of the local sum of directions: unit vectors are added, in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import exact_sum
from bandanna.device import Messages
from bandanna.device.caps import FARTHEST, units
from bandanna.errors import InvalidStatistic
from bandanna.mechanisms.priv_unit import PrivUnit
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Gathering, Held, refuse
from bandanna.storage.declared import stored_as


@stored_as("Directions")
@dataclass(frozen=True, kw_only=True)
class Directions(Gathering):
    """Keeps every user's direction."""

    steps: int

    @property
    def largest(self) -> int:
        """No coordinate of a message is larger."""
        return math.ceil(FARTHEST * self.steps)

    def check_range(self, messages: Messages) -> None:
        """Integers that a device can draw."""
        if messages.dtype != np.int64:
            raise InvalidStatistic("messages", messages, "64-bit integers")
        wrong = (messages > self.largest) | (messages < -self.largest)
        refuse("messages", messages, wrong, f"steps from {-self.largest} to {self.largest}")


@dataclass(frozen=True, kw_only=True)
class DirectionSum(Analyzer):
    """n centre + (radius / m) sum_i u_i: unbiased."""

    domain: Domain
    mechanism: PrivUnit

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        high, rest = exact_sum(units(np.asarray(view.numbers, dtype=np.int64)), 1.0)
        return state, self.estimate(high + rest, view.users)

    def estimate(self, leaning: Floats, users: int) -> Estimate:
        """Of a sum of unit vectors, (..., dim)."""
        centre, radius = self.domain.ball
        total = users * centre + radius / self.mechanism.lean * leaning
        return Estimate(total=total, count=users, variance=users * radius**2 * self.mechanism.variance)
