"""What is left without learning: the regret of an arm at random in every round, in the same worlds."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment

_ROUNDS = 1_000  # of fresh contexts, of which a round's loss is the average
_AT_ONCE = 2_000_000  # numbers


def random_play(env: Environment, *, horizon: int, n_seeds: int, seed: int = 0) -> Floats:
    """Expected regret of every seed, (S,): exact where arms stay, else from the first 1,000 rounds of each seed.

    The worlds are those that `simulate` plays with the same seeds.
    """
    world = env.begin(Streams(range(seed, seed + n_seeds)))
    rounds = 1 if world.fixed else min(horizon, _ROUNDS)
    block = max(1, _AT_ONCE // (n_seeds * env.n_arms * env.dim))
    lost = np.zeros(n_seeds)
    for start in range(0, rounds, block):
        means = world.means(world.contexts(start, min(block, rounds - start)))  # (S, rounds, K)
        lost += np.sum(np.max(means, axis=-1) - np.mean(means, axis=-1), axis=-1)
    return np.asarray(horizon * lost / rounds)
