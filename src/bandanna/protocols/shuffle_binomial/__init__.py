"""Shuffle model by vector summation (P_Vec of paper 000): integer counts with binomial noise, forwarded as totals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.events import BinomialEvent
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.device.inversion import words_for
from bandanna.errors import CommunicationWarning
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, exact_batch, stated_delta
from bandanna.protocols.shuffle_binomial import analyzer, law, privacy, randomizer, shuffler
from bandanna.protocols.shuffle_binomial.encoding import Integers, largest_counts


@dataclass(frozen=True, kw_only=True)
class ShuffleBinomial(BatchProtocol):
    """Each user sends, per coordinate, its statistic on a lattice plus Bin(b, 1/2); the analyzer sees totals.

    Totals are equivalent to the labelled bits in random order of the paper's protocol: bits with one label are
    exchangeable.
    Privacy: Theorem A for Bin(B b, 1/2) with the price of rounding (`privacy`), within 2 % of the central mechanism's
    noise.
    """

    noise: BinomialNoise

    name: ClassVar[str] = "shuffle_binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.whole("batch", self.noise.users, least=2)

    @classmethod
    def calibrate(
        cls,
        *,
        domain: Domain,
        budget: Budget,
        batch: int,
        participations: int = 1,
        calibration: str = "tight",
        bits_limit: float = 1e6,
    ) -> ShuffleBinomial:
        """Least noise for batches of exactly `batch` users (`tight`), or the paper's printed one (`paper`).

        Warns if a user's message would be longer than `bits_limit` bits.
        """
        limit = require.positive("bits_limit", bits_limit, infinite=True)
        noise = privacy.calibrate(domain, budget, batch, participations, calibration)
        protocol = cls(domain=domain, noise=noise, participations=participations, delta=stated_delta(budget))
        if protocol.bits_per_user > limit:
            warnings.warn(
                f"a user's message has {protocol.bits_per_user} bits, above the limit of {limit:.0f}",
                CommunicationWarning,
                stacklevel=2,
            )
        return protocol

    @property
    def batch(self) -> int:
        """Users per batch."""
        return self.noise.users

    @property
    def event(self) -> BinomialEvent:
        """What the analyzer sees of one batch."""
        return privacy.event(self.domain, self.noise)

    @property
    def guarantee(self) -> Guarantee:
        """Shuffle differential privacy, and what is left against the shuffler."""
        return privacy.guarantee(self.domain, self.noise, self.delta, self.participations)

    @property
    def bits_per_user(self) -> int:
        """One integer count per coordinate: as many bits as the largest count has."""
        return sum(int(most).bit_length() for most in largest_counts(self.noise, self.domain))

    @property
    def unary_bits_per_user(self) -> int:
        """The same message as labelled bits, the paper's form."""
        return int(sum(int(most) for most in largest_counts(self.noise, self.domain)))

    def draws(self, users: int) -> Draws:
        """Coins on every number of every message."""
        return Draws(words=users * self.domain.dim * words_for(self.noise.trials), numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """sqrt(B b p (1-p) + B/4) / s, rounding included."""
        exact_batch(self.batch, users)
        return self.noise.std()

    def check_users(self, users: int) -> None:
        """Exactly the calibrated batch."""
        exact_batch(self.batch, users)

    def randomize(self, statistic: Statistic, source: NoiseSource) -> Integers:
        """Device: integer counts."""
        return randomizer.randomize(statistic.rows(), self.noise, self.domain, source)

    def shuffle(self, messages: Integers, source: NoiseSource) -> Integers:
        """Shuffler: totals only."""
        return shuffler.totals(messages)

    def analyze(self, view: Integers, source: NoiseSource) -> Estimate:
        """Totals, recentred and rescaled."""
        return analyzer.analyze(view, self.noise, self.domain)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """One binomial for the whole batch."""
        return analyzer.analyze(law.totals(statistic, self.noise, self.domain, source), self.noise, self.domain)
