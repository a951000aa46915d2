"""Many rounds of `unrepaired`, one after the other: choose, earn, add.

The NumPy code is `_singles` of `bandanna.papers.p000.published`, and makes the same sums to the last bit.
"""

from __future__ import annotations

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit
from bandanna.kernels.unrepaired import unrepaired


@jit
def unrepaired_rounds(
    statistic: Floats,  # (S, D), changed
    columns: Floats,  # (S, d, K): arms as columns
    reports: Floats,  # (S, K, D): of each arm, at reward 1
    means: Floats,  # (S, K)
    uniforms: Floats,  # (S, N): a reward is 1 where its number is below the mean
    noise: Floats,  # (S, N, D), or empty: added after each round
    ridge: float,
    radius: float,
    actions: Ints,  # (N, S), filled
) -> bool:
    """N rounds of all seeds; False if a matrix is singular."""
    seeds, d, _ = columns.shape
    for t in range(len(actions)):
        chosen = actions[t]
        if not unrepaired(statistic, columns, ridge, radius, chosen):
            return False
        for s in range(seeds):
            report, own = reports[s, chosen[s]], statistic[s]
            reward = 1.0 if uniforms[s, t] < means[s, chosen[s]] else 0.0
            for i in range(len(own)):
                added = report[i] * reward if i < d else report[i]
                own[i] += added + noise[s, t, i] if noise.size else added
    return True
