"""Runs rarely switching policies in blocks.

Between two events nothing that decides changes, so whole blocks of rounds are decided at once and accepted up to the
first event; seeds stand at rounds of their own. An event is an explored round (V changes) or a renewed estimate. What
is decided in a block after its first event is thrown away and decided anew: the decisions are exactly those of a loop
over rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.domain import all_finite, clip_norm
from bandanna.environments.base import World
from bandanna.policies.glm.base import GLMPolicy
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LONGEST = 256  # rounds decided at once, per seed
_BYTES = 64 << 20  # of a chunk


@dataclass(kw_only=True)
class Chunk:
    """Rounds `start` to `stop` of all seeds: what can be seen, and what would be earned by every arm."""

    start: int
    stop: int
    contexts: Floats  # (S, n, K, d), features clipped to the unit ball
    means: Floats  # (S, n, K)
    best: Floats  # (S, n): the largest mean
    outcomes: Floats  # (S, n, K)
    clips: Ints | None  # (S, n, K): 1 where an arm's features or reward were clipped; None: nothing anywhere

    def clipped(self, seeds: Ints, places: Ints, arms: Ints) -> Ints:
        """Of what was played: (m,), (m,), (m,) -> (m,)."""
        return np.zeros(len(arms), dtype=np.int64) if self.clips is None else self.clips[seeds, places, arms]


class History:
    """Played features and rewards of every seed, and which rounds explored."""

    def __init__(self, seeds: int, rounds: int, dim: int) -> None:
        self.features = np.zeros((seeds, rounds, dim))
        self.rewards = np.zeros((seeds, rounds))
        self.explored = np.zeros((seeds, rounds), dtype=bool)
        self.losses = np.zeros((seeds, rounds))
        self.clipped = np.zeros(seeds, dtype=np.int64)


def chunks(policy: GLMPolicy, world: World, rounds: int, seeds: int, *, beside: int = 0) -> list[range]:
    """Ranges of rounds whose outcomes fit in memory, with `beside` more numbers for every round of a seed."""
    size = max(1, _BYTES // (8 * seeds * (world.n_arms * (policy.dim + 2) + beside)))
    return [range(begin, min(begin + size, rounds)) for begin in range(0, rounds, size)]


def read(world: World, span: range, reward_bound: float) -> Chunk:
    """Contexts, means and the outcomes of all arms: drawing those that nobody will see changes no law."""
    contexts = world.contexts(span.start, len(span))
    means = world.means(contexts)
    if world.fixed:  # one round stands for all of them; rewards are drawn for each
        contexts = np.broadcast_to(contexts, (contexts.shape[0], len(span), *contexts.shape[2:]))
        means = np.broadcast_to(means, contexts.shape[:-1])
    drawn = world.rewards(means)
    all_finite("rewards", drawn)
    outcomes = np.clip(drawn, 0.0, reward_bound)
    features, long = _clipped(contexts)
    clips = None
    if np.any(long) or not np.array_equal(outcomes, drawn):
        clips = np.asarray((np.abs(outcomes - drawn) > 1e-9) | long, dtype=np.int64)
    return Chunk(
        start=span.start,
        stop=span.stop,
        contexts=features,
        means=means,
        best=np.max(means, axis=2),
        outcomes=outcomes,
        clips=clips,
    )


def _clipped(contexts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Features in the unit ball, and which were not: (S, n, K, d) -> the same, (S or 1, n, K)."""
    shared = contexts.strides[0] == 0  # the same for all seeds
    once = contexts[:1] if shared else contexts
    all_finite("contexts", once)
    features = clip_norm(once, 1.0)
    long = np.any(np.abs(features - once) > 1e-9, axis=-1)
    return (np.broadcast_to(features, contexts.shape) if shared else features), long


@dataclass(kw_only=True)
class Block:
    """The next rounds of every seed, from its own position: B rounds, those with `valid` False do not exist."""

    seeds: Ints  # (s,): which seeds
    rounds: Ints  # (s, B)
    valid: NDArray[np.bool_]  # (s, B)
    contexts: Floats  # (s, B, K, d)


def block(chunk: Chunk, seeds: Ints, position: Ints, length: int) -> Block:
    """`length` rounds of the given seeds from their positions (s,)."""
    rounds = position[:, None] + np.arange(length)
    valid = rounds < chunk.stop
    places = np.minimum(rounds, chunk.stop - 1) - chunk.start
    shared = chunk.contexts.strides[0] == 0
    contexts = chunk.contexts[0][places] if shared else chunk.contexts[seeds[:, None], places]
    return Block(seeds=seeds, rounds=rounds, valid=valid, contexts=contexts)


def norms_of(contexts: Floats, inverse: Floats) -> Floats:
    """|x|^2_{V^{-1}}: (s, B, K, d), (s, 1 or B, d, d) -> (s, B, K)."""
    return np.asarray(np.einsum("...i,...i->...", contexts @ inverse, contexts))


def first_true(flags: NDArray[np.bool_]) -> Ints:
    """Index of the first True in each row, the row's length where there is none: (s, B) -> (s,)."""
    found = np.argmax(flags, axis=1)
    return np.asarray(np.where(flags[np.arange(len(flags)), found], found, flags.shape[1]), dtype=np.int64)


def record(
    history: History,
    chunk: Chunk,
    played: Block,
    actions: Ints,
    taken: Ints,
    *,
    explored: bool | NDArray[np.bool_] = False,
) -> None:
    """Keep the first `taken` (s,) rounds of a block with their actions (s, B); `explored`: for all, or by seed (s,)."""
    rows, columns = np.nonzero(np.arange(actions.shape[1]) < taken[:, None])
    seeds, rounds, arms = played.seeds[rows], played.rounds[rows, columns], actions[rows, columns]
    places = rounds - chunk.start
    history.features[seeds, rounds] = played.contexts[rows, columns, arms]
    history.rewards[seeds, rounds] = chunk.outcomes[seeds, places, arms]
    np.add.at(history.clipped, seeds, chunk.clipped(seeds, places, arms))
    history.explored[seeds, rounds] = np.broadcast_to(explored, taken.shape)[rows]
    history.losses[seeds, rounds] = chunk.best[seeds, places] - chunk.means[seeds, places, arms]


def play(
    policy: GLMPolicy,
    world: World,
    tally: Tally,
    rounds: int,
    advance: Callable[[History, Chunk, Ints, Ints, int], Ints],
    beside: int = 0,
) -> History:
    """Advance all seeds to the end of every chunk; `advance` moves the given seeds by at least a round or an event.

    beside: numbers that `advance` keeps for every round of a chunk and a seed.
    """
    history = History(tally.n_seeds, rounds, policy.dim)
    for span in chunks(policy, world, rounds, tally.n_seeds, beside=beside):
        chunk = read(world, span, policy.model.reward_bound)
        position, length = np.full(tally.n_seeds, span.start), 16
        while True:
            seeds = np.flatnonzero(position < span.stop)
            if not len(seeds):
                break
            before = position[seeds]
            position[seeds] = advance(history, chunk, seeds, before, length)
            typical = float(np.median(position[seeds] - before))
            length = int(np.clip(1.5 * typical, 8, _LONGEST))
        tally.varying(history.losses[:, span.start : span.stop])
        tally.rewards += np.sum(history.rewards[:, span.start : span.stop], axis=1)
    return history
