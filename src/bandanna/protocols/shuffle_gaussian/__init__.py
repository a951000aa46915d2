"""Shuffle model by amplification (P_Amp of paper 000): noisy reports in random order hide among each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import ClearEvent, GaussianEvent, ShuffledGaussianEvent
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.report import entrywise
from bandanna.protocols.base import stated_delta
from bandanna.protocols.local_gaussian import GaussianReports
from bandanna.protocols.roles import enough
from bandanna.protocols.shuffle_gaussian import privacy
from bandanna.protocols.shuffle_gaussian.shuffler import Sorting
from bandanna.storage.declared import stored_as


@stored_as("ShuffleGaussian")
@dataclass(frozen=True, kw_only=True)
class ShuffleGaussian(GaussianReports):
    """The local protocol with a shuffler: noisy reports of at least `batch` users, their order forgotten, then summed.

    Privacy: the analyzer's view by amplification (`privacy`), the shuffler's by the local Gaussian mechanism.
    Kept as a baseline: the binomial vector sum needs less noise at every setting.
    """

    batch: int

    name: ClassVar[str] = "shuffle_gaussian"
    trust: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.whole, "batch", least=2)

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, batch: int, participations: int = 1, calibration: str = "tight"
    ) -> ShuffleGaussian:
        """Least noise per report that the amplification bound allows (`tight`), or the printed one (`paper`)."""
        domain = (
            entrywise(domain) if require.one_of("calibration", calibration, ("tight", "paper")) == "paper" else domain
        )
        std = privacy.calibrate(domain, budget, batch, participations, calibration)
        delta = stated_delta(budget)
        return cls(domain=domain, batch=batch, noise_std=std, participations=participations, delta=delta)

    @cached_property
    def event(self) -> ShuffledGaussianEvent | ClearEvent:
        """One shuffled batch."""
        return privacy.event(self.mechanism.event, self.batch)

    @property
    def local_event(self) -> GaussianEvent:
        """One report, as in the local model."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The shuffler is trusted to forget who sent what."""
        return (
            ("the shuffler", "every user's noisy report"),
            ("the analyzer and everybody else", "the reports of a batch in random order"),
        )

    def std(self, users: int) -> float:
        """sqrt(users) times that of a report, for the calibrated batch or a larger one."""
        enough(self.batch, users)
        return super().std(users)

    def check_users(self, users: int) -> None:
        """The calibrated batch, or more."""
        enough(self.batch, users)

    @cached_property
    def mixer(self) -> Sorting:
        """Forgets who sent what."""
        return Sorting(domain=self.domain, least=self.batch, std=self.noise_std, grid=self.mechanism.step)
