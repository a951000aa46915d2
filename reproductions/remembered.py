"""Environments that several policies see one after the other: clients and contexts are drawn once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Environment, World
from bandanna.simulation.environments.population import ClientBlocks, Population, PopulationWorld
from bandanna.types import Floats, Ints

_FEW, _KEPT = 4096, 192 << 20  # numbers that are drawn anew; bytes of those that are kept


@dataclass(frozen=True, kw_only=True)
class RememberedPopulation(Population):
    """The same users, with what clients answered kept, as much of it as fits, the oldest forgotten first.

    Policies that differ in their budget or horizon alone ask the same until one of them leaves an action out. Answers
    follow from the state of the seed's generators, the actions, and how often each is played: where these are the same,
    so are the answers, and the generators go on from where they would have come to.
    """

    _kept: OrderedDict[Any, tuple[Ints, int, list[Any]]] = field(
        default_factory=OrderedDict, init=False, repr=False, compare=False
    )

    def begin(self, streams: Streams) -> RememberedPopulationWorld:
        """The same worlds."""
        world = super().begin(streams)
        return RememberedPopulationWorld(environment=self, streams=streams, theta=world.theta, arms=world.arms)

    def answered(self, asked: RememberedClients) -> tuple[Ints, int, list[Any]]:
        """Counts of rewards, how many means had left the range, and where the generators stand afterwards."""
        key = asked.key
        if key not in self._kept:
            self._kept[key] = asked.drawn()
            while sum(counts.nbytes for counts, _, _ in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class RememberedPopulationWorld(PopulationWorld):
    """Worlds of `Remembered`."""

    environment: RememberedPopulation

    def clients(self, index: int, arms: Floats, plays: Ints, count: int, *, each: bool = False) -> ClientBlocks:
        """As they were drawn; anew where they are few, too many, or every reward is drawn by itself."""
        kept = not each and _FEW <= count * len(plays) <= _KEPT // 32
        return (RememberedClients if kept else ClientBlocks)(self, index, arms, plays, count, each=each)


class RememberedClients(ClientBlocks):
    """Averages of clients who may have been asked before."""

    def counts(self) -> Iterator[Ints]:
        """In the same blocks."""
        assert isinstance(self.population, RememberedPopulation)
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


@dataclass(frozen=True, kw_only=True)
class RememberedContexts(Environment):
    """The worlds of `source`, for at most `rounds` rounds, with contexts and means kept for the seeds that began last.

    A stream is read as one long sequence: drawn at once or part by part, contexts are the same. Rewards, which depend
    on what is played, are drawn anew by every world.
    """

    source: Environment
    rounds: int
    _kept: dict[tuple[int, ...], tuple[Floats, Floats]] = field(default_factory=dict, init=False, compare=False)

    def begin(self, streams: Streams) -> RememberedContextsWorld:
        """What the seeds see is drawn when it is first looked at."""
        return RememberedContextsWorld(environment=self, streams=streams)

    def seen(self, seeds: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Contexts (S, rounds, K, d) and means (S, rounds, K)."""
        if seeds not in self._kept:
            self._kept.clear()
            world = self.source.begin(Streams(seeds))
            contexts = world.contexts(0, self.rounds)
            self._kept[seeds] = contexts, world.means(contexts)
        return self._kept[seeds]


class RememberedContextsWorld(World):
    """Worlds of `Remembered`."""

    def __init__(self, *, environment: RememberedContexts, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self._remembered, self._block = environment, slice(0)

    def contexts(self, start: int, rounds: int) -> Floats:
        """As they were drawn."""
        self._block = slice(start, start + rounds)
        return self._remembered.seen(self.streams.seeds)[0][:, self._block]

    def means(self, contexts: Floats) -> Floats:
        """Of the block that `contexts` returned last."""
        return self._remembered.seen(self.streams.seeds)[1][:, self._block]
