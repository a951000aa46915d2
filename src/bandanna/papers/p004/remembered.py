"""A world whose contexts several policies see one after the other: they are drawn once."""

from __future__ import annotations

from dataclasses import dataclass, field

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World


@dataclass(frozen=True, kw_only=True)
class Remembered(Environment):
    """The worlds of `of`, for at most `rounds` rounds, with contexts and means kept for the seeds that began last.

    A stream is read as one long sequence: drawn at once or part by part, contexts are the same. Rewards, which depend
    on what is played, are drawn anew by every world.
    """

    of: Environment
    rounds: int
    _kept: dict[tuple[int, ...], tuple[Floats, Floats]] = field(default_factory=dict, init=False, compare=False)

    def begin(self, streams: Streams) -> RememberedWorld:
        """What the seeds see is drawn when it is first looked at."""
        return RememberedWorld(environment=self, streams=streams)

    def seen(self, seeds: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Contexts (S, rounds, K, d) and means (S, rounds, K)."""
        if seeds not in self._kept:
            self._kept.clear()
            world = self.of.begin(Streams(seeds))
            contexts = world.contexts(0, self.rounds)
            self._kept[seeds] = contexts, world.means(contexts)
        return self._kept[seeds]


class RememberedWorld(World):
    """Worlds of `Remembered`."""

    def __init__(self, *, environment: Remembered, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self._remembered, self._block = environment, slice(0)

    def contexts(self, start: int, rounds: int) -> Floats:
        """As they were drawn."""
        self._block = slice(start, start + rounds)
        return self._remembered.seen(self.streams.seeds)[0][:, self._block]

    def means(self, contexts: Floats) -> Floats:
        """Of the block that `contexts` returned last."""
        return self._remembered.seen(self.streams.seeds)[1][:, self._block]
