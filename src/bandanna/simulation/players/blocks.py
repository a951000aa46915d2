"""Plays policies that rarely switch in blocks of rounds; seeds stand at rounds of their own.

`policy.ahead` decides a block as long as nothing changes; what lies after the first event is decided anew. Decisions
are exactly those of the plain player. Where a stream's noise does not depend on the data, releases are the exact sums,
which the runner holds, plus that noise; along messages every step of the stream is run, for all seeds together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.coins import StreamCoins
from bandanna.core.estimate import Estimate
from bandanna.environments.base import World
from bandanna.loop import Desk, close
from bandanna.mechanisms.sources.fast import FastNoise
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Ask, Played, at, put
from bandanna.protocols.base import BatchProtocol
from bandanna.simulation.players.rounds import Chunk, chunks, read_all_arms
from bandanna.simulation.players.running import PrefixSums
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_LONGEST = 256  # rounds decided at once, per seed


def play(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; path="messages" runs every step of a stream."""
    stream, seeds = policy.stream, tally.n_seeds
    run, source = _Seeds(policy, world, seeds, rounds, path), ReplicatedNoise(world.streams)
    stepwise = stream is not None and path == "messages"
    sums = None if stream is None or stepwise else PrefixSums(stream, source, seeds)
    clipped = np.zeros(seeds, dtype=np.int64)
    for span in chunks(world, rounds, seeds, beside=0 if stream is None else stream.domain.dim):
        chunk = read_all_arms(world, span, policy)
        if stepwise:
            run.step_by_step(chunk, source)
        else:
            if sums is not None:
                sums.draw(span.stop)
            run.in_blocks(chunk, sums)
        clipped += chunk.played(run.actions[:, span.start : span.stop], tally)[2]
    counts = {"explorations": np.sum(run.groups == 0, axis=1)} | policy.counts(run.state)
    return Run(
        releases=0 if policy.privacy.model == "none" else rounds,
        users=rounds,
        reports=rounds,
        clipped=clipped,
        numbers_per_user=policy.numbers_per_user,
        counts=counts,
    )


def _following(length: int, moved: Any) -> int:
    """How many rounds to look at next: fewer while every run is stopped by its first, as those are that explore (group
    0), since the others were looked at in vain.
    """
    stopped = (moved.taken <= 1) & ((moved.groups[:, 0] == 0) | (length > 1))
    if stopped.all():
        return max(1, length // 2)
    return int(np.clip(1.5 * float(np.median(moved.taken)), 8, _LONGEST))


class _Seeds:
    """States of all seeds, and the rows that the runner keeps for later asks."""

    def __init__(self, policy: Any, world: World, seeds: int, rounds: int, path: str) -> None:
        self.policy, self.path, self.coins, self.desk = policy, path, StreamCoins(world.streams), Desk()
        self.sources = [FastNoise(rng) for rng in world.streams.generators(policy.noise_stream)]
        self.state = policy.init(replicates=(seeds,))
        self.position = np.zeros(seeds, dtype=np.int64)
        self.features, self.rewards = np.zeros((seeds, rounds, policy.dim)), np.zeros((seeds, rounds))
        self.actions = np.zeros((seeds, rounds), dtype=np.int64)
        self.groups = np.full((seeds, rounds), -1, dtype=np.int8)

    def in_blocks(self, chunk: Chunk, sums: PrefixSums | None) -> None:
        """All seeds to the end of the chunk."""
        length, shared = 16, chunk.contexts.strides[0] == 0
        while len(seeds := np.flatnonzero(self.position < chunk.stop)):
            begun = self.position[seeds]
            rounds = begun[:, None] + np.arange(length)
            places = np.minimum(rounds, chunk.stop - 1) - chunk.start
            contexts = chunk.contexts[0][places] if shared else chunk.contexts[seeds[:, None], places]
            whole = len(seeds) == len(self.position)
            state = self.state if whole else at(self.state, seeds)
            totals = None if sums is None else sums.before(seeds, rounds)
            moved = self.policy.ahead(state, contexts, rounds < chunk.stop, totals)
            self.state = moved.state if whole else put(self.state, seeds, moved.state)
            if sums is not None:
                sums.add(seeds, moved.added)
            self._record(chunk, seeds, rounds, moved.actions, moved.groups, moved.taken)
            self._settle(seeds[moved.due])
            length = _following(length, moved)

    def step_by_step(self, chunk: Chunk, source: ReplicatedNoise) -> None:
        """Round by round, every release by the protocol's own steps."""
        policy, everyone = self.policy, np.arange(len(self.position))
        once = np.ones(len(everyone), dtype=np.int64)
        for t in range(chunk.start, chunk.stop):
            choice = policy.act(policy.publish(self.state), chunk.contexts[:, t - chunk.start, None], self.coins)
            self._record(chunk, everyone, self.position[:, None], choice.actions, choice.groups, once)
            ask, rows = policy.round_ask(self.state), slice(t, t + 1)
            held = Played(features=self.features[:, rows], rewards=self.rewards[:, rows], groups=choice.groups)
            statistic = policy.report(ask, held, self.coins)
            self.desk, released = self.desk.release(ask, statistic, source, path=self.path)
            self.state = policy.noted(self.state, released.total)
            self._settle(np.flatnonzero(policy.due(self.state)))

    def _record(self, chunk: Chunk, seeds: Ints, rounds: Ints, actions: Ints, groups: Ints, taken: Ints) -> None:
        """Keep the first `taken` (s,) rounds of a block."""
        rows, columns = np.nonzero(np.arange(actions.shape[1]) < taken[:, None])
        which, when, arms = seeds[rows], rounds[rows, columns], actions[rows, columns]
        places = when - chunk.start
        self.features[which, when] = chunk.contexts[which, places, arms]
        self.rewards[which, when] = chunk.outcomes[which, places, arms]
        self.actions[which, when], self.groups[which, when] = arms, groups[rows, columns]
        self.position[seeds] += taken

    def _settle(self, seeds: Ints) -> None:
        """The estimates that are due: of all these seeds at once, or seed by seed where their noise is their own."""
        groups = [seeds] if self.policy.side_by_side and len(seeds) else seeds
        for each in groups:
            settled = close(self.policy.settled(at(self.state, each)), self._answers(each))
            self.state = put(self.state, each, settled)

    def _answers(self, seeds: Ints) -> Callable[[Ask], Estimate]:
        """About the rows that are kept of one seed or of several."""
        held: dict[str, Played] = {}

        def answer(ask: Ask) -> Estimate:
            assert isinstance(ask.protocol, BatchProtocol)
            if ask.of not in held:
                held[ask.of] = self._kept(seeds, self.policy.keeps.index(ask.of))
            statistic = self.policy.report(ask, held[ask.of], self.coins)
            source = self.sources[int(np.ravel(seeds)[0])]  # several seeds share none: there is no noise
            estimate = ask.protocol.release(statistic, source, path=self.path)
            return replace(estimate, count=0)  # how many are in a group is as private as who is

        return answer

    def _kept(self, seeds: Ints, group: int) -> Played:
        """Rows of a group: (n, d) of one seed, (s, n, d) of several; nobody's, of zeros, where there are no more."""
        which = np.atleast_1d(seeds)
        rows = [np.flatnonzero(self.groups[seed, : self.position[seed]] == group) for seed in which]
        counts = np.array([len(each) for each in rows])
        most = max(1, int(counts.max()))
        places = np.stack([np.pad(each, (0, most - len(each))) for each in rows])
        features, rewards = self.features[which[:, None], places], self.rewards[which[:, None], places]
        nobody = np.arange(most) >= counts[:, None]
        features[nobody], rewards[nobody] = 0.0, 0.0
        kept = Played(features=features, rewards=rewards)
        return kept if np.ndim(seeds) else kept.at(0)
