"""GLM-UCB, one seed after the other: the NumPy code is `act` and `learn` of the policy."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, part
from bandanna.kernels.playing import earned, optimistic, room
from bandanna.kernels.polynomial import add, estimate, follow, slopes_of, tabulate
from bandanna.kernels.scene import Scene
from bandanna.kernels.scoring import copy, inner, times


@jit
def glm_ucb(
    scene: Scene,
    place: Ints,  # (2,): seed and round to go on with, changed
    rounds: int,
    features: Floats,  # (S, T, d): rows of all rounds, those of these filled; so are rewards
    rewards: Floats,  # (S, T)
    inverse: Floats,  # (S, d, d), as all of the state changed
    theta: Floats,  # (S, d)
    anchor: Floats,  # (S, d): of the loss near a point, as in `polynomial`; so are the next
    reach: Floats,  # (S,)
    gradient: Floats,  # (S, d)
    table: Floats,  # (S, d (d + 1) / 2, L)
    indices: Ints,  # (N, 3)
    inverse_factorials: Floats,  # (L,)
    beyond: Ints,  # (L, d (d + 1) / 2)
    polynomials: Floats,  # of the link's derivatives
    ratios: Floats,  # of |theta| + 1: a polynomial that is 1 / reach^(p + 1)
    bonuses: Floats,  # (n,)
    link: int,
    ridge: float,
    tolerance: float,
    refit: int,
    most: float,  # S, or infinite: no projection
) -> bool:
    """Whether the estimate after the round before `place` must be found elsewhere, everything else being done."""
    contexts, outcomes, words, truth, law, actions, earnings, losses, x = scene
    (seeds, n), (n_arms, d) = actions.shape, contexts.shape[2:]
    arms, work = room(n_arms, d)
    order = indices[-1, 0]  # p + 1
    centre, step, hessian = np.empty(d), np.empty(d), np.empty((d, d))
    powers, slopes, z, spare = np.empty(len(beyond)), np.empty((order, 1)), np.empty(1), np.empty((2, 1))
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            shrink = min(1.0, most / max(math.sqrt(inner(theta[s], theta[s])), 1e-300))
            for i in range(d):
                centre[i] = theta[s, i] * shrink
            arm = optimistic(contexts, words, s, t, centre, inverse[s], bonuses[t], link, arms, work)
            reward, losses[s, t] = earned(outcomes, words, truth, law, s, t, arm, arms, work[1])
            actions[s, t], earnings[s, t], done = arm, reward, rounds + t + 1
            rewards[s, done - 1] = reward
            for i in range(d):
                x[i] = arms[i, arm]
            copy(x, features[s, done - 1])
            times(inverse[s], x, step)
            shrink = 1 / (1 + inner(step, x))
            for i in range(d):
                for j in range(d):
                    inverse[s, i, j] -= shrink * step[i] * step[j]
            z[0] = inner(x, anchor[s])
            slopes_of(z, rewards[s, done - 1 : done], link, polynomials, spare, slopes)
            add(gradient[s], table[s], x, slopes[:, 0], indices, powers)
            if done % refit:
                continue
            copy(theta[s], centre)
            if not follow(
                centre,
                anchor[s],
                reach[s],
                gradient[s],
                table[s],
                indices,
                inverse_factorials,
                link,
                ridge,
                tolerance,
                powers,
                step,
                hessian,
            ):
                rows, results = features[s, :done], rewards[s, :done]
                copy(theta[s], centre)
                if not estimate(centre, rows, results, link, ridge, tolerance, polynomials, step, hessian):
                    place[0], place[1] = s, t + 1
                    return True
                tabulate(centre, rows, results, link, polynomials, indices, beyond, gradient[s], table[s])
                copy(centre, anchor[s])
                reach[s] = _reach(math.sqrt(inner(centre, centre)) + 1, ratios, order)
            copy(centre, theta[s])
    return False


@part
def _reach(bound: float, ratios: Floats, order: int) -> float:
    """How far from an anchor, as `Expansion.move` has it."""
    ratio = 0.0
    for k in range(len(ratios) - 1, -1, -1):
        ratio = ratio * bound + ratios[k]
    return min(1.0, math.pow(max(ratio, 1e-300), -1 / order))
