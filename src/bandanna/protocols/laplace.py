"""Discrete Laplace noise in the central model: pure differential privacy, delta = 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna import validation
from bandanna.device.domain import Domain, Estimate
from bandanna.device.noise import LARGEST_PARAMETER, NoiseSource
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.mechanisms.noise import DiscreteLaplaceMechanism
from bandanna.numeric.exact_sums import count_grid_steps
from bandanna.privacy.budgets import ApproxDP, Budget, PureDP
from bandanna.privacy.events import DiscreteLaplaceEvent
from bandanna.protocols.base import TrustedSumProtocol, check_domain
from bandanna.protocols.mixers import Analyzer, MixerState, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

FINEST = 2**20  # lattice steps
_MOST = 2**61  # steps of a sum, which with its noise is a 64-bit integer


@stored_as("CentralLaplace")
@dataclass(frozen=True, kw_only=True)
class CentralLaplace(TrustedSumProtocol):
    """The sum on a lattice plus discrete Laplace noise, h (round(sum_i x_i / h) + Z), added by a trusted server.

    The lattice has `steps` steps in the domain's widest coordinate: h = reach / steps. Every source draws integers, so
    simulations are pure too. Rounding moves the sum by at most h/2.

    Privacy: epsilon = M shift / scale with delta = 0 for M participations, with the shift of `l1_sensitivity`.

    Parameters
    ----------
    scale
        Scale of the noise Z in lattice steps.
    steps
        Steps of the lattice in the widest coordinate.
    """

    scale: float
    steps: int = FINEST
    delta: float = 0.0

    name: ClassVar[str] = "central_laplace"
    trust: ClassVar[str] = "central"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "scale")
        validation.set_validated(self, validation.integer, "steps")

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, users: int = 1, steps: int | None = None
    ) -> CentralLaplace:
        """Find the least noise for a pure budget. The delta of (epsilon, delta) stays unspent.

        Parameters
        ----------
        users
            Largest number of users in a batch: by default the lattice is the finest that holds their sum.
        steps
            Steps of the lattice.
        """
        steps = finest_lattice(users) if steps is None else steps
        scale = calibrate_laplace(domain, budget, participations, steps)
        return cls(domain=domain, scale=scale, steps=steps, participations=participations)

    @cached_property
    def step(self) -> float:
        """Width h of a lattice step."""
        return self.domain.reach / self.steps

    @cached_property
    def mechanism(self) -> DiscreteLaplaceMechanism:
        shift = l1_sensitivity(self.domain, self.steps)
        return DiscreteLaplaceMechanism(scale=self.scale, shift=shift, dim=self.domain.dim)

    @property
    def event(self) -> DiscreteLaplaceEvent:
        return self.mechanism.event

    @cached_property
    def analyzer(self) -> LatticeSumAnalyzer:
        return LatticeSumAnalyzer(domain=self.domain, step=self.step, mechanism=self.mechanism)

    @property
    def laplace(self) -> tuple[float, float]:
        return self.scale, self.step

    def std(self, users: int) -> float:
        return self.step * math.sqrt(self.mechanism.variance)

    def check_users(self, users: int) -> None:
        if users > (most := most_users(self.steps)):
            raise InvalidArgument("batch", users, f"at most {most} users on a lattice of {self.steps} steps")

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        self.check_users(users)
        offset = users * self.domain.origin
        counts = np.rint((total - offset) / self.step).astype(np.int64)
        return self.analyzer.estimate(counts, users, source)


# Analyzer


@dataclass(frozen=True, kw_only=True)
class LatticeSumAnalyzer(Analyzer):
    """Computes h (round(sum_i x_i / h) + Z), relative to the domain's origin."""

    domain: Domain
    step: float
    mechanism: DiscreteLaplaceMechanism

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        counts = count_grid_steps(*sum_plain_statistics(view.numbers, self.domain), self.step)
        return state, self.estimate(counts, view.users, source)

    def estimate(self, counts: Ints, users: int, source: NoiseSource) -> Estimate:
        """Add noise to a total (..., dim) in lattice steps from the origin."""
        released = self.step * self.mechanism.release(counts, source)
        return Estimate(total=released + users * self.domain.origin, count=users, variance=self._variance)

    @cached_property
    def _variance(self) -> float:
        return self.step**2 * self.mechanism.variance


# Privacy


def l1_sensitivity(domain: Domain, steps: int) -> float:
    """Return the most by which one user changes the rounded sum, in l1 and in lattice steps.

    |round(a) - round(b)| <= |a - b| + 1 gives Delta_1 / h + dim; no coordinate leaves its range. Sums and this number
    are exact.
    """
    step = Fraction(domain.reach / validation.integer("steps", steps))
    spare = Fraction(domain.reach) / 2**61  # where `exact_sum` cuts a statistic
    ends = np.stack([domain.lower - domain.origin, domain.upper - domain.origin])  # what is summed
    (lows, highs), counts = np.unique(ends, axis=1, return_counts=True)
    ranges = (Fraction(high) - Fraction(low) + spare for low, high in zip(lows.tolist(), highs.tolist(), strict=True))
    apart = sum(count * math.floor(width / step) for width, count in zip(ranges, counts.tolist(), strict=True))
    longest = Fraction(domain.l1_sensitivity) * (1 + Fraction(domain.dim + 16, 2**52))  # clipped up to rounding errors
    most = min(apart, math.floor(longest / step)) + domain.dim
    return float(most) if float(most) >= most else math.nextafter(float(most), math.inf)


def most_users(steps: int) -> int:
    """Return the most users whose sum fits into 64-bit integers."""
    return _MOST // steps


def finest_lattice(users: int) -> int:
    """Return the finest lattice's steps, at most 2^20, for `users` users."""
    if users > _MOST:
        raise InvalidArgument("users", users, f"at most {_MOST}: no lattice holds their sum")
    return min(FINEST, most_users(users))


def calibrate_laplace(domain: Domain, budget: Budget, participations: int, steps: int) -> float:
    """Return scale = M shift / epsilon in lattice steps (Ghosh, Roughgarden and Sundararajan 2009)."""
    check_domain(domain)
    if not isinstance(budget, PureDP | ApproxDP) or math.isinf(budget.epsilon):
        raise InvalidBudget("budget", budget, "PureDP(epsilon) with a finite epsilon")
    lost = validation.integer("participations", participations) * l1_sensitivity(domain, steps)
    if lost > LARGEST_PARAMETER * budget.epsilon:
        raise InvalidBudget(
            "budget", budget, f"epsilon >= {lost / LARGEST_PARAMETER:.3g} on a lattice of {steps} steps"
        )
    return lost / budget.epsilon * (1 + 1e-15)  # rounded up: what is stated is never above the budget
