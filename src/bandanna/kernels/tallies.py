"""Optimism on tallies of finite arms, one seed after the other; the NumPy code is `policies.arms.finite.optimistic`."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit


@jit
def tallies(
    means: Floats,  # (S, K)
    uniforms: Floats,  # (S, n): a reward is 1 where its number is below the mean
    bonuses: Floats,  # (n,): scale log t
    rounds: int,  # before these
    sums: Floats,  # (S, K), changed; so are pulls
    pulls: Floats,
    actions: Ints,  # (S, n), filled; so are rewards
    rewards: Floats,
) -> None:
    """Every arm once, then the first whose sums/N + sqrt(bonus / N) is the largest in single precision."""
    seeds, n_arms = means.shape
    index = np.empty(n_arms, dtype=np.float32)
    for s in range(seeds):
        for t in range(uniforms.shape[1]):
            arm = rounds + t
            if arm >= n_arms:
                for k in range(n_arms):
                    inverse = 1 / pulls[s, k]
                    index[k] = np.float32(sums[s, k] * inverse + math.sqrt(bonuses[t] * inverse))
                arm = 0
                for k in range(n_arms):
                    if index[k] > index[arm]:
                        arm = k
            reward = 1.0 if uniforms[s, t] < means[s, arm] else 0.0
            sums[s, arm] += reward
            pulls[s, arm] += 1
            actions[s, t], rewards[s, t] = arm, reward
