"""Thompson sampling with Beta posteriors, one seed after the other; the NumPy code is `act` of the policy."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.choosing import tied
from bandanna.kernels.jit import jit


@jit
def thompson(
    means: Floats,  # (S, K)
    uniforms: Floats,  # (S, n): a reward is 1 where its number is below the mean
    normals: Floats,  # (S, n, 2 K, p): proposals for gamma numbers, of successes, then of failures; so are acceptances
    acceptances: Floats,
    place: Ints,  # (3,): seed and round to go on with, and whether its gamma numbers are given; changed
    gammas: Floats,  # (2 K,)
    sums: Floats,  # (S, K), changed; so are pulls
    pulls: Floats,
    actions: Ints,  # (S, n), filled; so are rewards
    rewards: Floats,
) -> bool:
    """Whether all proposals for a number of the round at `place` were refused: then its numbers are drawn elsewhere."""
    seeds, n_arms = means.shape
    index = np.empty(n_arms)
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, uniforms.shape[1]):
            if place[2] == 1:
                place[2] = 0
            else:
                for g in range(2 * n_arms):
                    k = g % n_arms
                    shape = 1 + (sums[s, k] if g < n_arms else pulls[s, k] - sums[s, k])
                    gammas[g] = _first(shape - 1 / 3, normals[s, t, g], acceptances[s, t, g])
                    if gammas[g] < 0:
                        place[0], place[1] = s, t
                        return True
            for k in range(n_arms):
                index[k] = gammas[k] / (gammas[k] + gammas[n_arms + k])
            arm = tied(index)[1]
            reward = 1.0 if uniforms[s, t] < means[s, arm] else 0.0
            sums[s, arm] += reward
            pulls[s, arm] += 1
            actions[s, t], rewards[s, t] = arm, reward
    return False


@jit
def _first(d: float, normals: Floats, uniforms: Floats) -> float:
    """The first proposal that is accepted, as `coins.gamma`; -1 where none is. The first test implies the second."""
    for p in range(len(normals)):
        x, u = normals[p], uniforms[p]
        root = max(1 + x / math.sqrt(9 * d), 1e-90)
        v = root * root * root
        if u < 1 - 0.0331 * (x * x) * (x * x) or math.log(max(u, 1e-300)) < 0.5 * x * x + d * (1 - v + math.log(v)):
            found: float = d * v
            return found
    return -1.0
