"""Shuffle model for bits: every user sends its value bit in some copies and some fair bits, forwarded as one total."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.accounting.events import BinomialEvent, ClearEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.shapes import Bits
from bandanna.device import Copies, Rounded
from bandanna.device.inversion import words_for
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, stated_delta
from bandanna.protocols.roles import COINS, enough, shuffler_sees
from bandanna.protocols.shuffle_bits import law, privacy, randomizer
from bandanna.protocols.shuffle_bits.analyzer import BitSum
from bandanna.protocols.shuffle_bits.shuffler import BitMixer
from bandanna.storage.declared import stored_as


@stored_as("ShuffleBits")
@dataclass(frozen=True, kw_only=True)
class ShuffleBits(BatchProtocol):
    """Each user sends c copies of its bit and b fair bits; the analyzer sees how many ones a batch sent.

        total = c sum_i x_i + Bin(B b, 1/2),      estimate = (total - B b / 2) / c

    Symbols: c `noise.scale`, b `noise.trials`, B `noise.users`. Privacy: neighbours' totals differ by c; the profile of
    Bin(B b, 1/2) against its shift is computed exactly, so no sum of this form has less noise at the same budget.
    Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2021, Algorithm 3 (value bit and noise bits). Deviations: fair
    bits for every user and exact calibration instead of printed constants; copies, so that large batches are tight.

    coins  "device": as above. "checked": the shuffler also refuses counts that honest devices hardly ever send, which
           is priced (calibration.md A.9). "mixer": devices send c copies of their bit or none, and the shuffler draws
           the fair bits of all users when it closes a batch: the same total, but it sees every bit.
    """

    domain: Domain = Bits()
    noise: BinomialNoise
    coins: str = "device"

    name: ClassVar[str] = "shuffle_bits"
    trust: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.whole("batch", self.noise.users, least=2)
        privacy.check(self.noise)
        require.one_of("coins", self.coins, COINS)
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "Bits()")

    @classmethod
    def calibrate(cls, *, budget: Budget, batch: int, participations: int = 1, coins: str = "device") -> ShuffleBits:
        """Least noise for batches of at least `batch` users."""
        require.one_of("coins", coins, COINS)
        noise = privacy.calibrate(budget, batch, participations, coins)
        return cls(noise=noise, participations=participations, delta=stated_delta(budget), coins=coins)

    @property
    def batch(self) -> int:
        """Users for whom the noise is calibrated: a batch has as many, or more."""
        return self.noise.users

    @cached_property
    def event(self) -> BinomialEvent:
        """What the analyzer sees of one batch."""
        return privacy.event(self.noise, self.coins)

    @property
    def local_event(self) -> BinomialEvent | ClearEvent:
        """What the shuffler sees of one user."""
        return privacy.local_event(self.noise, self.coins)

    @property
    def exposed(self) -> float:
        """How often the shuffler is sure."""
        return privacy.exposed(self.noise, self.coins)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The shuffler is trusted to forget, and to add; perhaps to draw the noise."""
        return (
            ("the shuffler", shuffler_sees(self.coins, "count", "bit")),
            ("the analyzer and everybody else", "the total of a batch"),
        )

    @cached_property
    def device(self) -> Copies | Rounded:
        """How many ones a user sends."""
        return randomizer.device(self.noise, self.coins)

    @cached_property
    def mixer(self) -> BitMixer:
        """Forwards totals only."""
        return BitMixer(domain=self.domain, least=self.batch, noise=self.noise, coins=self.coins)

    @cached_property
    def analyzer(self) -> BitSum:
        """Totals, recentred and rescaled."""
        return BitSum(noise=self.noise)

    @property
    def bits_per_user(self) -> int:
        """One integer count: as many bits as the largest one, c + b or c, has."""
        return self.unary_bits_per_user.bit_length()

    @property
    def unary_bits_per_user(self) -> int:
        """The same message as single bits, the paper's form."""
        return int(self.mixer.largest[0])

    def draws(self, users: int) -> Draws:
        """Coins on every bit, or on the total."""
        drawn = self.coins == "mixer"
        words = words_for(users * self.noise.trials) if drawn else users * words_for(self.noise.trials)
        return Draws(words=words, numbers=users)

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
