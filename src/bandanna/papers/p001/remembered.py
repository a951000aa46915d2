"""A population whose clients several policies ask the same, one after the other: they are drawn once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.core.streams import Streams
from bandanna.environments.population import ClientBlocks, Population, PopulationWorld

_FEW, _KEPT = 4096, 192 << 20  # numbers that are drawn anew; bytes of those that are kept


@dataclass(frozen=True, kw_only=True)
class Remembered(Population):
    """The same users, with what clients answered kept, as much of it as fits, the oldest forgotten first.

    Policies that differ in their budget or horizon alone ask the same until one of them leaves an action out. Answers
    follow from the state of the seed's generators, the actions, and how often each is played: where these are the same,
    so are the answers, and the generators go on from where they would have come to.
    """

    _kept: OrderedDict[Any, tuple[Ints, int, list[Any]]] = field(
        default_factory=OrderedDict, init=False, repr=False, compare=False
    )

    def begin(self, streams: Streams) -> RememberedWorld:
        """The same worlds."""
        world = super().begin(streams)
        return RememberedWorld(environment=self, streams=streams, theta=world.theta, arms=world.arms)

    def answered(self, asked: RememberedBlocks) -> tuple[Ints, int, list[Any]]:
        """Counts of rewards, how many means had left the range, and where the generators stand afterwards."""
        key = asked.key
        if key not in self._kept:
            self._kept[key] = asked.drawn()
            while sum(counts.nbytes for counts, _, _ in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class RememberedWorld(PopulationWorld):
    """Worlds of `Remembered`."""

    environment: Remembered

    def clients(self, index: int, arms: Floats, plays: Ints, count: int, *, each: bool = False) -> ClientBlocks:
        """As they were drawn; anew where they are few, too many, or every reward is drawn by itself."""
        kept = not each and _FEW <= count * len(plays) <= _KEPT // 32
        return (RememberedBlocks if kept else ClientBlocks)(self, index, arms, plays, count, each=each)


class RememberedBlocks(ClientBlocks):
    """Averages of clients who may have been asked before."""

    def counts(self) -> Iterator[Ints]:
        """In the same blocks."""
        assert isinstance(self.population, Remembered)
        counts, self.clipped, states = self.population.answered(self)
        for rng, state in zip((self.models, self.rewards), states, strict=True):
            rng.bit_generator.state = state
        for begin in range(0, self.count, self.size):
            yield counts[begin : begin + self.size]

    @property
    def key(self) -> tuple[Any, ...]:
        """All that the answers follow from."""
        states: list[Any] = [rng.bit_generator.state for rng in (self.models, self.rewards)]
        words = (state["state"]["state"].tobytes() for state in states)
        return (*words, self.count, self.plays.tobytes(), self.arms.tobytes(), self.centres.tobytes())

    def drawn(self) -> tuple[Ints, int, list[Any]]:
        """Counts (clients, s) in as few bytes as hold them."""
        small = np.min_scalar_type(int(self.plays.max()))
        counts = np.concatenate([block.astype(small) for block in super().counts()])
        return counts, self.clipped, [rng.bit_generator.state for rng in (self.models, self.rewards)]
