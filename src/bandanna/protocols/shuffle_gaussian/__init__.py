"""Shuffle model by amplification (P_Amp of paper 000): noisy reports in random order hide among each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import ClearEvent, ShuffledGaussianEvent
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import Floats, exact_batch, stated_delta
from bandanna.protocols.local_gaussian import GaussianReports
from bandanna.protocols.shuffle_gaussian import privacy, shuffler


@dataclass(frozen=True, kw_only=True)
class ShuffleGaussian(GaussianReports):
    """The local protocol with a shuffler: noisy reports of exactly `batch` users, permuted uniformly, then summed.

    Privacy: the analyzer's view by the clones bound (`privacy`), the shuffler's by the local Gaussian mechanism.
    Kept as a baseline: the binomial vector sum needs less noise at every setting.
    """

    batch: int

    name: ClassVar[str] = "shuffle_gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.whole, "batch", least=2)

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, batch: int, participations: int = 1, calibration: str = "tight"
    ) -> ShuffleGaussian:
        """Least noise per report that the exact amplification bound allows (`tight`), or the printed one (`paper`)."""
        std = privacy.calibrate(domain, budget, batch, participations, calibration)
        delta = stated_delta(budget)
        return cls(domain=domain, batch=batch, noise_std=std, participations=participations, delta=delta)

    @property
    def event(self) -> ShuffledGaussianEvent | ClearEvent:
        """One shuffled batch."""
        return privacy.event(self.mechanism.event, self.batch)

    @property
    def guarantee(self) -> Guarantee:
        """Shuffle differential privacy, and the local one left against the shuffler."""
        return privacy.guarantee(self.event, self.mechanism.event, self.delta, self.participations)

    def std(self, users: int) -> float:
        """sqrt(users) times that of a report, for the calibrated batch."""
        exact_batch(self.batch, users)
        return super().std(users)

    def check_users(self, users: int) -> None:
        """Exactly the calibrated batch."""
        exact_batch(self.batch, users)

    def shuffle(self, messages: Floats, source: NoiseSource) -> Floats:
        """Shuffler: a uniformly random order."""
        return shuffler.shuffle(messages, source)
