"""Optimism on tallies of finite arms, one seed after the other; the NumPy code is `policies.arms.finite.optimistic`."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.choosing import tied
from bandanna.kernels.jit import jit


@jit
def tallies(
    means: Floats,  # (S, K)
    uniforms: Floats,  # (S, n): a reward is 1 where its number is below the mean
    coins: Floats,  # (S, n), or empty: an answer is 1 where its number is below the chance of the reward
    chances: Floats,  # (2,): of an answer 1 about rewards 0 and 1
    told: Floats,  # (2,): what is learned from rewards 0 and 1, or from answers
    bonuses: Floats,  # (n,): scale log t
    rounds: int,  # before these
    sums: Floats,  # (S, K), changed; so are pulls
    pulls: Floats,
    actions: Ints,  # (S, n), filled; so are rewards
    rewards: Floats,
) -> None:
    """Every arm once, then the first whose sums/N + sqrt(bonus / N) is the largest in single precision."""
    seeds, n_arms = means.shape
    index = np.empty(n_arms)
    for s in range(seeds):
        for t in range(uniforms.shape[1]):
            arm = rounds + t
            if arm >= n_arms:
                for k in range(n_arms):
                    inverse = 1 / pulls[s, k]
                    index[k] = sums[s, k] * inverse + math.sqrt(bonuses[t] * inverse)
                arm = tied(index)[1]
            reward = 1 if uniforms[s, t] < means[s, arm] else 0
            answer = reward if coins.size == 0 else (1 if coins[s, t] < chances[reward] else 0)
            sums[s, arm] += told[answer]
            pulls[s, arm] += 1
            actions[s, t], rewards[s, t] = arm, reward
