"""Local model: every device adds Gaussian noise to its own statistic; users trust it alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import GaussianEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.report import entrywise
from bandanna.device import Noisy
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, stated_delta
from bandanna.protocols.local_gaussian import law, privacy, randomizer
from bandanna.protocols.local_gaussian.analyzer import ReportSum
from bandanna.protocols.roles import Gathering
from bandanna.storage.declared import stored_as


@dataclass(frozen=True, kw_only=True)
class GaussianReports(BatchProtocol):
    """sum_i (x_i + N(0, std^2 I)), every term noised on the device; who sees the terms is left open."""

    noise_std: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "noise_std")

    @cached_property
    def mechanism(self) -> Gaussian:
        """Sampler and price of the noise on one report."""
        return Gaussian(std=self.noise_std, sensitivity=self.domain.sensitivity, dim=self.domain.dim)

    def draws(self, users: int) -> Draws:
        """Noise on every number of every report."""
        return Draws(gaussians=users * self.domain.dim, numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """sqrt(users) times that of a report."""
        return math.sqrt(require.whole("users", users)) * self.noise_std

    @cached_property
    def device(self) -> Noisy:
        """Statistic plus noise."""
        return randomizer.device(self.domain, self.mechanism)

    @cached_property
    def analyzer(self) -> ReportSum:
        """Sum of the reports."""
        return ReportSum(domain=self.domain, mechanism=self.mechanism)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """One Gaussian for the whole batch."""
        return law.sample(statistic.total(), statistic.users, self.mechanism, source)


@stored_as("LocalGaussian")
@dataclass(frozen=True, kw_only=True)
class LocalGaussian(GaussianReports):
    """Noisy reports sent straight to the server.

    Privacy: each report is mu-GDP on its own, mu = sqrt(M) Delta_2 / std for M reports of one user.
    """

    name: ClassVar[str] = "local_gaussian"
    trust: ClassVar[str] = "local"

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> LocalGaussian:
        """Least noise per report for the budget (`tight`), or the papers' printed one on every entry (`paper`)."""
        domain = (
            entrywise(domain) if require.one_of("calibration", calibration, ("tight", "paper")) == "paper" else domain
        )
        std = privacy.calibrate(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @property
    def event(self) -> GaussianEvent:
        """One report."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is not trusted."""
        return (("the server", "every user's noisy report"),)

    @cached_property
    def mixer(self) -> Gathering:
        """The server keeps the reports."""
        return Gathering(domain=self.domain, std=self.noise_std, grid=self.mechanism.step)
