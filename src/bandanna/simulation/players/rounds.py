"""Rounds with contexts, read in parts: what devices see, and what every arm would earn.

Drawing the outcomes of arms that nobody plays changes no law, and a run does not depend on how rounds are grouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import all_finite
from bandanna.environments.base import World
from bandanna.simulation.tally import Tally

_BYTES = 64 << 20  # of a chunk
_NOTHING = np.zeros((1, 1, 1), dtype=bool)  # was moved


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Rounds `start` to `stop` of all seeds: what can be seen, and what would be earned by every arm."""

    start: int
    stop: int
    contexts: Floats  # (S, n, K, d), as the policy's devices see them
    means: Floats  # (S, n, K)
    outcomes: Floats  # (S, n, K), in the policy's range
    clips: Ints | None  # (S, n, K): 1 where an arm's features or reward were clipped; None: nothing anywhere

    def played(self, actions: Ints, tally: Tally) -> tuple[Floats, Floats, Ints]:
        """All rounds with these actions (S, n), in the tally: features (S, n, d), rewards (S, n), clips (S,)."""
        arms = actions[..., None]
        features = np.take_along_axis(self.contexts, arms[..., None], axis=2)[:, :, 0]
        rewards = np.take_along_axis(self.outcomes, arms, axis=2)[..., 0]
        tally.chose(actions)
        tally.varying(self.means.max(axis=2) - np.take_along_axis(self.means, arms, axis=2)[..., 0])
        tally.rewards += rewards.sum(axis=1)
        if self.clips is None:
            return features, rewards, np.zeros(len(actions), dtype=np.int64)
        return features, rewards, np.sum(np.take_along_axis(self.clips, arms, axis=2), axis=(1, 2))


def chunks(world: World, rounds: int, seeds: int, *, beside: int = 0, held: int | None = None) -> list[range]:
    """Ranges of rounds whose outcomes fit in memory, with `beside` more numbers for every round of a seed."""
    numbers = world.n_arms * (world.environment.dim + 2) + beside
    size = max(1, (_BYTES if held is None else held) // (8 * seeds * numbers))
    return [range(begin, min(begin + size, rounds)) for begin in range(0, rounds, size)]


def read_all_arms(world: World, span: range, policy: Any) -> Chunk:
    """Contexts, means and the outcomes of all arms, `policy.seen` and clipped into `policy.domain`."""
    contexts = world.contexts(span.start, len(span))
    means = world.means(contexts)
    if world.fixed:  # one round stands for all of them; rewards are drawn for each
        contexts = np.broadcast_to(contexts, (contexts.shape[0], len(span), *contexts.shape[2:]))
        means = np.broadcast_to(means, contexts.shape[:-1])
    drawn = world.rewards(means)
    outcomes, moved = _earned(drawn, policy), _NOTHING
    features = contexts
    if not (world.unit and getattr(policy, "sees_unit", False)):
        features, moved = _seen(contexts, policy)
    clips = None
    if outcomes is not drawn or moved.any():
        clips = np.asarray((np.abs(outcomes - drawn) > 1e-9) | moved, dtype=np.int64)  # a report is counted once
    return Chunk(start=span.start, stop=span.stop, contexts=features, means=means, outcomes=outcomes, clips=clips)


def _earned(drawn: Floats, policy: Any) -> Floats:
    """Rewards in the policy's range; the array itself where all of them are."""
    domain = policy.domain
    if drawn.size and drawn.min() >= domain.low and drawn.max() <= domain.high:  # not where one is no number
        return drawn
    all_finite("rewards", drawn)
    outcomes: Floats = domain.project(drawn)
    return outcomes


def _seen(contexts: Floats, policy: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Features as the policy takes them, and which are others: (S, n, K, d) -> the same, (S or 1, n, K)."""
    shared = contexts.strides[0] == 0  # the same for all seeds
    once = contexts[:1] if shared else contexts
    all_finite("contexts", once)
    features = policy.seen(once)
    unmoved = np.zeros((1, *once.shape[1:-1]), dtype=bool)
    moved = unmoved if features is once else np.any(np.abs(features - once) > 1e-9, axis=-1)
    return (np.broadcast_to(features, contexts.shape) if shared else features), moved
