"""Analyzer of the continual protocol: the trusted server's stream."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.continual import ContinualGaussian, State
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held, exact_total
from bandanna.storage.declared import stored_as


@stored_as("CentralContinualState")
@dataclass(frozen=True, kw_only=True)
class Running:
    """The stream so far, and how many users are in it. It holds raw sums and stays with the server."""

    stream: State
    count: int


@dataclass(frozen=True, kw_only=True)
class PrefixSums(Analyzer):
    """Adds a step's sum to the stream of statistics minus the domain's public origin.

    Sums are exact: rounding errors could tell a user apart. Simulations along path="law" do without (`step`).
    """

    domain: Domain
    mechanism: ContinualGaussian

    def begin(self, replicates: tuple[int, ...] = ()) -> Running:
        """Before the first step."""
        return Running(stream=self.mechanism.begin(replicates), count=0)

    def analyze(self, state: Running, view: Held, source: NoiseSource) -> tuple[Running, Estimate]:
        """A step of one or more users, (..., users, dim) -> the estimate of the prefix (..., dim)."""
        total, rest = exact_total(view.numbers, self.domain)
        return self.step(state, total, view.users, source, rest=rest)

    def step(
        self, state: Running, total: ArrayLike, users: int, source: NoiseSource, *, rest: ArrayLike = 0.0
    ) -> tuple[Running, Estimate]:
        """The sum of a step, relative to the origin."""
        stream, prefix = self.mechanism.step(state.stream, total, source, rest=rest)
        count = state.count + users
        variance = float(self.mechanism.variances[stream.step - 1])
        estimate = Estimate(total=prefix + count * self.domain.origin, count=count, variance=variance)
        return Running(stream=stream, count=count), estimate
