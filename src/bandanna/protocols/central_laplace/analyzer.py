"""Analyzer of the central Laplace protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bandanna.core.arrays import Ints
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import steps
from bandanna.mechanisms.laplace import DiscreteLaplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held, exact_total


@dataclass(frozen=True, kw_only=True)
class LatticeSum(Analyzer):
    """h (round(sum_i x_i / h) + Z), relative to the domain's public origin."""

    domain: Domain
    step: float
    mechanism: DiscreteLaplace

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        counts = steps(*exact_total(view.numbers, self.domain), self.step)
        return state, self.estimate(counts, view.users, source)

    def estimate(self, counts: Ints, users: int, source: NoiseSource) -> Estimate:
        """A total relative to the origin, in steps of the lattice, plus its noise, (..., dim)."""
        released = self.step * self.mechanism.release(counts, source)
        return Estimate(total=released + users * self.domain.origin, count=users, variance=self._variance)

    @cached_property
    def _variance(self) -> float:
        return self.step**2 * self.mechanism.variance
