"""Shuffle model by vector summation (P_Vec of paper 000): integer counts with binomial noise, forwarded as totals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.events import BinomialEvent, ClearEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.report import entrywise
from bandanna.device import Counts, Rounded
from bandanna.device.inversion import words_for
from bandanna.errors import CommunicationWarning
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, stated_delta
from bandanna.protocols.roles import COINS, enough, shuffler_sees
from bandanna.protocols.shuffle_binomial import law, privacy, randomizer
from bandanna.protocols.shuffle_binomial.analyzer import VectorSum
from bandanna.protocols.shuffle_binomial.encoding import largest_counts
from bandanna.protocols.shuffle_binomial.shuffler import VectorMixer
from bandanna.storage.declared import stored_as


@stored_as("ShuffleBinomial")
@dataclass(frozen=True, kw_only=True)
class ShuffleBinomial(BatchProtocol):
    """Each user sends, per coordinate, its statistic on a lattice plus Bin(b, 1/2); the analyzer sees totals.

    Totals are equivalent to the labelled bits in random order of the paper's protocol: bits with one label are
    exchangeable.
    Privacy: Theorem A for Bin(B b, 1/2) with the price of rounding (`privacy`), within 2 % of the central mechanism's
    noise.

    coins  "device": as above. "checked": the shuffler also refuses counts that honest devices hardly ever send, which
           is priced (calibration.md A.9). "mixer": devices send rounded statistics, and the shuffler adds the
           Bin(n b, 1/2) of all n users when it closes a batch. The same totals at the same price; but the shuffler sees
           every statistic and is trusted to draw, and a hostile client cannot pass its choice off as coins.
    """

    noise: BinomialNoise
    coins: str = "device"

    name: ClassVar[str] = "shuffle_binomial"
    trust: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.whole("batch", self.noise.users, least=2)
        require.one_of("coins", self.coins, COINS)

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
        coins: str = "device",
    ) -> ShuffleBinomial:
        """Least noise for batches of at least `batch` users (`tight`), or the printed one on every entry (`paper`).

        Warns if a user's message would be longer than `bits_limit` bits.
        """
        limit = require.positive("bits_limit", bits_limit, infinite=True)
        require.one_of("coins", coins, COINS)
        domain = (
            entrywise(domain) if require.one_of("calibration", calibration, ("tight", "paper")) == "paper" else domain
        )
        noise = privacy.calibrate(domain, budget, batch, participations, calibration, coins)
        protocol = cls(
            domain=domain, noise=noise, participations=participations, delta=stated_delta(budget), coins=coins
        )
        if protocol.bits_per_user > limit:
            warnings.warn(
                f"a user's message has {protocol.bits_per_user} bits, above the limit of {limit:.0f}",
                CommunicationWarning,
                stacklevel=2,
            )
        return protocol

    @property
    def batch(self) -> int:
        """Users for whom the noise is calibrated: a batch has as many, or more."""
        return self.noise.users

    @cached_property
    def event(self) -> BinomialEvent:
        """What the analyzer sees of one batch."""
        return privacy.event(self.domain, self.noise, self.coins)

    @property
    def local_event(self) -> BinomialEvent | ClearEvent:
        """What the shuffler sees of one user."""
        return privacy.local_event(self.domain, self.noise, self.coins)

    @property
    def exposed(self) -> float:
        """How often the shuffler is sure."""
        return privacy.exposed(self.domain, self.noise, self.coins)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The shuffler is trusted to forget, and to add; perhaps to draw the noise."""
        return (
            ("the shuffler", shuffler_sees(self.coins, "counts", "statistic")),
            ("the analyzer and everybody else", "the totals of a batch"),
        )

    @cached_property
    def device(self) -> Counts | Rounded:
        """Integer counts."""
        return randomizer.device(self.domain, self.noise, self.coins)

    @cached_property
    def mixer(self) -> VectorMixer:
        """Forwards totals only."""
        return VectorMixer(domain=self.domain, least=self.batch, noise=self.noise, coins=self.coins)

    @cached_property
    def analyzer(self) -> VectorSum:
        """Totals, recentred and rescaled."""
        return VectorSum(domain=self.domain, noise=self.noise)

    @property
    def bits_per_user(self) -> int:
        """One integer count per coordinate: as many bits as the largest count has."""
        return sum(int(most).bit_length() for most in largest_counts(self.noise, self.domain, self.coins))

    @property
    def unary_bits_per_user(self) -> int:
        """The same message as labelled bits, the paper's form."""
        return int(sum(int(most) for most in largest_counts(self.noise, self.domain, self.coins)))

    def draws(self, users: int) -> Draws:
        """Coins on every number of every message, or on every total."""
        dim, each = self.domain.dim, words_for(self.noise.trials)
        words = dim * words_for(users * self.noise.trials) if self.coins == "mixer" else users * dim * each
        return Draws(words=words, numbers=users * dim)

    def std(self, users: int) -> float:
        """sqrt(n b p (1-p) + n/4) / s for n >= B users, rounding included."""
        enough(self.batch, users)
        return self.noise.for_users(users).std()

    def check_users(self, users: int) -> None:
        """The calibrated batch, or more."""
        enough(self.batch, users)

    @property
    def rounds_rows(self) -> bool:
        """Every statistic is rounded to the lattice at random."""
        return True

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """One binomial for the whole batch."""
        totals = law.totals(statistic, self.noise.for_users(statistic.users), self.domain, source)
        return self.analyzer.estimate(totals, statistic.users)
