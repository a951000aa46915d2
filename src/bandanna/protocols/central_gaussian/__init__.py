"""Central model, one release: a trusted server sums the users' statistics and adds Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import GaussianEvent
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import LARGEST_SUM
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import stated_delta
from bandanna.protocols.central_gaussian import analyzer, privacy
from bandanna.protocols.central_gaussian.analyzer import NoisySum
from bandanna.protocols.trusted import TrustedSum
from bandanna.storage.declared import stored_as


@stored_as("CentralGaussian")
@dataclass(frozen=True, kw_only=True)
class CentralGaussian(TrustedSum):
    """sum_i x_i + N(0, std^2 I), added by the server.

    Privacy: mu = sqrt(M) Delta_2 / std for M participations in separate batches (see `privacy.calibrate`).
    """

    noise_std: float

    name: ClassVar[str] = "central_gaussian"
    trust: ClassVar[str] = "central"
    of_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "noise_std")

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> CentralGaussian:
        """Least noise for the budget (`tight`), or the papers' printed one (`paper`)."""
        std = privacy.calibrate(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @cached_property
    def mechanism(self) -> Gaussian:
        """Sampler and price of the noise."""
        return Gaussian(std=self.noise_std, sensitivity=self.domain.sensitivity, dim=self.domain.dim)

    @property
    def event(self) -> GaussianEvent:
        """One Gaussian release."""
        return self.mechanism.event

    @cached_property
    def analyzer(self) -> NoisySum:
        """Sum and noise."""
        return NoisySum(domain=self.domain, mechanism=self.mechanism)

    def std(self, users: int) -> float:
        """The same for every batch size."""
        return self.noise_std

    @cached_property
    def most_users(self) -> int:
        """So few that their sum is on the grid whatever their statistics are: a refusal must tell nothing of them."""
        return math.floor(LARGEST_SUM * (self.mechanism.step / self.domain.reach) * (1 - 1e-9))

    def check_users(self, users: int) -> None:
        """At most so many."""
        if users > self.most_users:
            raise InvalidArgument("batch", users, f"at most {self.most_users} users with noise as fine as this")

    def check_horizon(self, horizon: int) -> None:
        """For sums over a group whose size is private: refuse before anything is known of it, by what is public."""
        if horizon > self.most_users:
            allowed = f"at most {self.most_users}: a group of all users is the largest that noise as fine as this takes"
            raise InvalidArgument("horizon", horizon, allowed)

    def of_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum and its noise."""
        return analyzer.noisy(total, users, self.mechanism, source)
