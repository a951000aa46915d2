"""Explored rounds of policies that rarely switch, one seed after the other; the NumPy code is `RSGLinUCB._explored`."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit
from bandanna.kernels.scoring import columns, squares, swept


@jit
def exploring(
    contexts: Floats,  # (S or 1, n, K, d)
    begun: Ints,  # (S,): the first round of each seed
    v: Floats,  # (S, d, d), changed; so is the inverse
    inverse: Floats,
    threshold: float,
    published: bool,  # whether an arm counts 1 / (1 + |x|^2) times
    actions: Ints,  # (S, n), filled from column 0 on
    taken: Ints,  # (S,), filled
) -> None:
    """As long as max |x|^2_{V^{-1}} >= threshold: play the argmax, V += x x^T."""
    shared, n, n_arms, d = contexts.shape
    work, pivots = np.empty((d + 2, n_arms)), np.empty(d)
    norms = work[d]
    for s in range(len(begun)):
        taken[s] = 0
        own = contexts[s if shared > 1 else 0]
        for t in range(begun[s], n):
            columns(own[t], work)
            squares(work[:d], inverse[s], work[d + 1], norms)
            arm = 0
            for k in range(n_arms):
                if norms[k] > norms[arm]:
                    arm = k
            if not norms[arm] >= threshold:
                break
            x, weight = own[t, arm], 1 / (1 + norms[arm]) if published else 1.0
            for i in range(d):
                for j in range(d):
                    v[s, i, j] += weight * x[i] * x[j]
                    inverse[s, i, j] = v[s, i, j]
            swept(inverse[s], pivots)
            actions[s, taken[s]] = arm
            taken[s] += 1
