"""Analyzer of the central Gaussian protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held, exact_total


@dataclass(frozen=True, kw_only=True)
class NoisySum(Analyzer):
    """sum_i x_i + N(0, std^2 I), noised relative to the domain's public origin."""

    domain: Domain
    mechanism: Gaussian

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        total, rest = exact_total(view.numbers, self.domain)
        released = self.mechanism.release(total, source, rest=rest) + view.users * self.domain.origin
        return state, Estimate(total=released, count=view.users, variance=self.mechanism.variance)


def noisy(total: Floats, users: int, mechanism: Gaussian, source: NoiseSource) -> Estimate:
    """A total plus its noise, (..., dim)."""
    return Estimate(total=mechanism.release(total, source), count=users, variance=mechanism.variance)
