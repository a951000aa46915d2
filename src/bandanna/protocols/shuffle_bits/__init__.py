"""Shuffle model for bits: every user sends its value bit in some copies and some fair bits, forwarded as one total."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.accounting.events import BinomialEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.shapes import Bits
from bandanna.device import Copies
from bandanna.device.inversion import words_for
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, stated_delta
from bandanna.protocols.roles import enough
from bandanna.protocols.shuffle_bits import law, privacy, randomizer
from bandanna.protocols.shuffle_bits.analyzer import BitSum
from bandanna.protocols.shuffle_bits.shuffler import BitMixer


@dataclass(frozen=True, kw_only=True)
class ShuffleBits(BatchProtocol):
    """Each user sends c copies of its bit and b fair bits; the analyzer sees how many ones a batch sent.

        total = c sum_i x_i + Bin(B b, 1/2),      estimate = (total - B b / 2) / c

    Symbols: c `noise.scale`, b `noise.trials`, B `noise.users`. Privacy: neighbours' totals differ by c; the profile of
    Bin(B b, 1/2) against its shift is computed exactly, so no sum of this form has less noise at the same budget.
    Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2021, Algorithm 3 (value bit and noise bits). Deviations: fair
    bits for every user and exact calibration instead of printed constants; copies, so that large batches are tight.
    """

    domain: Domain = Bits()
    noise: BinomialNoise

    name: ClassVar[str] = "shuffle_bits"
    trust: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.whole("batch", self.noise.users, least=2)
        privacy.check(self.noise)
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "Bits()")

    @classmethod
    def calibrate(cls, *, budget: Budget, batch: int, participations: int = 1) -> ShuffleBits:
        """Least noise for batches of at least `batch` users."""
        noise = privacy.calibrate(budget, batch, participations)
        return cls(noise=noise, participations=participations, delta=stated_delta(budget))

    @property
    def batch(self) -> int:
        """Users for whom the noise is calibrated: a batch has as many, or more."""
        return self.noise.users

    @property
    def event(self) -> BinomialEvent:
        """What the analyzer sees of one batch."""
        return privacy.event(self.noise)

    @property
    def local_event(self) -> BinomialEvent:
        """What the shuffler sees of one user."""
        return privacy.local_event(self.noise)

    @property
    def exposed(self) -> float:
        """How often the shuffler is sure."""
        return privacy.exposed(self.noise)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The shuffler is trusted to forget, and to add."""
        return (
            ("the shuffler", "every user's noisy count"),
            ("the analyzer and everybody else", "the total of a batch"),
        )

    @cached_property
    def device(self) -> Copies:
        """How many ones a user sends."""
        return randomizer.device(self.noise)

    @cached_property
    def mixer(self) -> BitMixer:
        """Forwards totals only."""
        return BitMixer(domain=self.domain, least=self.batch, noise=self.noise)

    @cached_property
    def analyzer(self) -> BitSum:
        """Totals, recentred and rescaled."""
        return BitSum(noise=self.noise)

    @property
    def bits_per_user(self) -> int:
        """One integer count: as many bits as the largest one, c + b, has."""
        return (int(self.noise.scale) + self.noise.trials).bit_length()

    @property
    def unary_bits_per_user(self) -> int:
        """The same message as single bits, the paper's form."""
        return int(self.noise.scale) + self.noise.trials

    def draws(self, users: int) -> Draws:
        """Coins on every bit."""
        return Draws(words=users * self.domain.dim * words_for(self.noise.trials), numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """sqrt(n b) / (2 c) for n >= B users."""
        enough(self.batch, users)
        return bit_std(self.noise.for_users(users))

    def check_users(self, users: int) -> None:
        """The calibrated batch, or more."""
        enough(self.batch, users)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """One binomial for the whole batch."""
        totals = law.totals(statistic, self.noise.for_users(statistic.users), source)
        return self.analyzer.estimate(totals, statistic.users)
