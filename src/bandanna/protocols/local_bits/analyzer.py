"""Analyzer of the local sum of bits: the server counts the answers itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Adding, Analyzer, Held
from bandanna.storage.declared import stored_as


@stored_as("Answers")
@dataclass(frozen=True, kw_only=True)
class Answers(Adding):
    """Adds answers."""

    @property
    def largest(self) -> Ints:
        """An answer is 0 or 1."""
        return np.ones(1, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class AnswerSum(Analyzer):
    """(ones - (1 - q) n) / (2q - 1): unbiased."""

    mechanism: RandomizedResponse

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """The ones among the answers, (..., 1)."""
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, ones: Ints, users: int) -> Estimate:
        """Of so many answers."""
        total = self.mechanism.decode(ones.astype(float), users)
        return Estimate(total=total, count=users, variance=users * self.mechanism.variance)
