"""Central model, pure: a trusted server sums the users' statistics on a lattice and adds discrete Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.laplace import DiscreteLaplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.central_laplace import privacy
from bandanna.protocols.central_laplace.analyzer import LatticeSum
from bandanna.protocols.trusted import TrustedSum
from bandanna.storage.declared import stored_as


@stored_as("CentralLaplace")
@dataclass(frozen=True, kw_only=True)
class CentralLaplace(TrustedSum):
    """h (round(sum_i x_i / h) + Z), Z_k discrete Laplace of `scale` lattice steps, added by the server.

    The lattice has `steps` steps in the domain's widest coordinate: h = reach / steps. Noise is drawn as integers by
    every source, so the release is pure in simulations too, and the rounding moves the sum by at most h/2.
    Privacy: epsilon = M shift / scale with delta = 0, for M participations; `shift` is the most by which one user
    changes the rounded sum in l1 (see `privacy.shift`).
    """

    scale: float
    steps: int = privacy.FINEST
    delta: float = 0.0

    name: ClassVar[str] = "central_laplace"
    trust: ClassVar[str] = "central"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "scale")
        require.store(self, require.whole, "steps")

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, users: int = 1, steps: int | None = None
    ) -> CentralLaplace:
        """Least noise for a pure budget; one of (epsilon, delta) is kept as epsilon alone.

        The lattice has so many steps, or is the finest that holds sums of so many users.
        """
        steps = privacy.finest(users) if steps is None else steps
        scale = privacy.calibrate(domain, budget, participations, steps)
        return cls(domain=domain, scale=scale, steps=steps, participations=participations)

    @cached_property
    def step(self) -> float:
        """h."""
        return self.domain.reach / self.steps

    @cached_property
    def mechanism(self) -> DiscreteLaplace:
        """Sampler and price of the noise, in lattice steps."""
        shift = privacy.shift(self.domain, self.steps)
        return DiscreteLaplace(scale=self.scale, shift=shift, dim=self.domain.dim)

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """One discrete Laplace release."""
        return self.mechanism.event

    @cached_property
    def analyzer(self) -> LatticeSum:
        """Sum, rounding and noise."""
        return LatticeSum(domain=self.domain, step=self.step, mechanism=self.mechanism)

    @property
    def laplace(self) -> tuple[float, float]:
        """Scale and h."""
        return self.scale, self.step

    def std(self, users: int) -> float:
        """The same for every batch size."""
        return self.step * math.sqrt(self.mechanism.variance)

    def check_users(self, users: int) -> None:
        """So few that 64-bit integers hold their sum on the lattice."""
        if users > (most := privacy.most_users(self.steps)):
            raise InvalidArgument("batch", users, f"at most {most} users on a lattice of {self.steps} steps")

    def of_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum and its noise."""
        self.check_users(users)
        offset = users * self.domain.origin
        counts = np.rint((total - offset) / self.step).astype(np.int64)
        return self.analyzer.estimate(counts, users, source)
