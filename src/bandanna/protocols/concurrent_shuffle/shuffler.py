"""Shufflers of the tree, one per level: each adds up counts, forwards the total of a full batch and starts afresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Bools
from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.device import Messages, NoiseSource
from bandanna.device.levels import level_source
from bandanna.errors import InvalidArgument
from bandanna.protocols.concurrent_shuffle.views import Full, HeldLevels
from bandanna.protocols.roles import Counting, Held, Mixer, batch_coins, same_replicates
from bandanna.protocols.shuffle_binomial.shuffler import VectorMixer
from bandanna.protocols.shuffle_bits.shuffler import BitMixer
from bandanna.storage.declared import stored_as


@stored_as("LevelMixer")
@dataclass(frozen=True, kw_only=True)
class LevelMixer(Mixer):
    """The k shufflers side by side; each has its own block of a message. A batch that is not full has no way out.

    Where shufflers draw the coins, each owes those of the users that it has, until its batch is full.
    """

    levels: tuple[Counting, ...]

    @property
    def length(self) -> int:
        """k blocks."""
        return len(self.levels) * self.domain.dim

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Users in a batch of each level."""
        return tuple(level.least for level in self.levels)

    def full(self, users: int) -> int:
        """How many levels have a full batch after so many users: sizes divide each other, so the lowest ones."""
        full = 0
        while users and full < len(self.sizes) and users % self.sizes[full] == 0:
            full += 1
        return full

    @property
    def draws(self) -> bool:
        """Whether shufflers draw the coins."""
        return self.levels[0].coins == "mixer"

    def unlikely(self, messages: Messages) -> Bools:
        """Whose counts for some level an honest device hardly ever sends: (..., users, k dim) -> (..., users)."""
        found = [level.unlikely(block) for level, block in zip(self.levels, self._blocks(messages), strict=True)]
        return np.asarray(np.any(found, axis=0))

    def check_range(self, messages: Messages) -> None:
        """Every block by its level."""
        for level, block in zip(self.levels, self._blocks(messages), strict=True):
            level.check_range(block)

    def empty(self, replicates: tuple[int, ...] = ()) -> HeldLevels:
        """Empty shufflers."""
        totals = tuple(np.zeros((*replicates, self.domain.dim), dtype=np.int64) for _ in self.levels)
        return HeldLevels(users=0, totals=totals, owed=(0,) * len(self.levels))

    def add(self, held: HeldLevels, messages: Messages) -> HeldLevels:
        """Some more users of one lowest batch: (..., users, k dim)."""
        same_replicates(messages, held.totals[0].shape[:-1])
        pairs = zip(held.totals, self._blocks(messages), strict=True)
        totals = tuple(before + block.sum(axis=-2) for before, block in pairs)
        more = messages.shape[-2]
        owed = tuple(before + more for before in held.owed) if self.draws else held.owed
        return HeldLevels(users=held.users + more, totals=totals, owed=owed)

    def drawn(self, held: HeldLevels, source: NoiseSource) -> HeldLevels:
        """The coins that full levels owe, each from a stream of its own; what is not owed is not drawn again."""
        full = self.full(held.users)
        if not self.draws or not any(held.owed[:full]):
            return held
        totals = list(held.totals)
        for number, (level, owed) in enumerate(zip(self.levels[:full], held.owed[:full], strict=True)):
            own = level_source(source, number)
            totals[number] = totals[number] + batch_coins(level.noise, owed, totals[number].shape, own)
        return replace(held, totals=tuple(totals), owed=(0,) * full + held.owed[full:])

    def close(self, held: HeldLevels) -> Full:
        """The totals of full batches, of none where the lowest is not full."""
        full = self.full(held.users)
        if any(held.owed[:full]):
            raise InvalidArgument("held", f"without the coins of {held.owed[:full]} users", "all coins of a full batch")
        pairs = zip(self.sizes[:full], held.totals[:full], strict=True)
        return Full(users=held.users, levels=tuple(Held(users=size, numbers=totals) for size, totals in pairs))

    def forget(self, held: HeldLevels) -> HeldLevels:
        """Full shufflers are emptied and used again."""
        if not (full := self.full(held.users)):
            return held
        return replace(held, totals=(*map(np.zeros_like, held.totals[:full]), *held.totals[full:]))

    def portions(self, held: HeldLevels, messages: Messages) -> Iterator[Messages]:
        """Cut where lowest batches fill."""
        for start, stop in cuts(held.users, messages.shape[-2], self.sizes[0]):
            yield messages[..., start:stop, :]

    def _blocks(self, messages: Messages) -> Iterator[Messages]:
        dim = self.domain.dim
        return (messages[..., start : start + dim] for start in range(0, self.length, dim))


def mixer(domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device") -> LevelMixer:
    """Shufflers for the levels' batches."""
    kind = BitMixer if isinstance(domain, Bits) else VectorMixer
    levels = tuple(kind(domain=domain, least=one.users, noise=one, coins=coins) for one in noises)
    return LevelMixer(domain=domain, levels=levels)


def cuts(users: int, more: int, low: int) -> Iterator[tuple[int, int]]:
    """`more` users after `users` as spans that end where batches of `low` fill."""
    return pairwise([0, *range(low - users % low, more, low), more])
