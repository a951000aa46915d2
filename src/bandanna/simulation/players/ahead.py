"""The noise of running sums as a kernel takes it: drawn ahead, or a rule by which it draws the same numbers itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.protocols.channel import Channel
from bandanna.simulation.players.noise import Decaying, noise_blocks

_NOTHING = np.empty((0, 0, 0))


class Ahead:
    """Of a channel, from its first batch on, for as many seeds and numbers as `shape` says."""

    def __init__(
        self, shape: tuple[int, int], blocks: Iterator[Floats], source: ReplicatedNoise, rule: Decaying | None
    ) -> None:
        words = source.words() if rule else None  # None also where numbers were drawn before
        self.shape, self.blocks, self.source, self.words = shape, blocks, source, words
        self.rule = rule if words is not None else None
        self.next = None if self.rule else next(blocks, None)
        self.states = np.zeros((*shape, len(self.rule.decays) if self.rule else 0))

    @classmethod
    def of(cls, channel: Channel, source: ReplicatedNoise, shape: tuple[int, int], *, drawn: bool) -> Ahead | None:
        """drawn: by a rule, where there is one; None where noise depends on the data."""
        blocks = noise_blocks(channel, source, shape[:1])
        return None if blocks is None else cls(shape, blocks, source, Decaying.of(channel) if drawn else None)

    def take(self, count: int) -> tuple[Any, ...]:
        """Of the next rounds, (S, count, dim), or empty; then the rule: generators, std, decays, shares, states.

        With a rule, nobody else draws from these generators: between two calls `words` are what they have come to.
        """
        if self.rule is None:
            nobody = np.zeros((self.shape[0], 4), dtype=np.uint64)
            return self._given(count), nobody, 0.0, np.empty(0), np.empty(0), self.states
        return _NOTHING, self.words, self.rule.std, self.rule.decays, self.rule.shares, self.states

    def taken(self) -> None:
        """A kernel has drawn by the rule."""
        if self.words is not None:
            self.source.go_on(self.words)

    def _given(self, count: int) -> Floats:
        if self.next is None:
            return _NOTHING
        noise, done = np.empty((self.shape[0], count, self.shape[1])), 0
        while done < count:
            self.next = self.next if self.next.shape[1] else next(self.blocks)
            some = self.next[:, : count - done]
            noise[:, done : done + some.shape[1]] = some
            self.next, done = self.next[:, some.shape[1] :], done + some.shape[1]
        return noise
