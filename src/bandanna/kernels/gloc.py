"""GLOC, one seed after the other: the NumPy code is `act` and `learn` of the policy."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, part
from bandanna.kernels.playing import earned, optimistic, room
from bandanna.kernels.scene import Scene
from bandanna.kernels.scoring import IDENTITY, copy, inner, mean, solve, times


@jit
def gloc(
    scene: Scene,
    place: Ints,  # (2,): seed and round to begin with
    rounds: int,
    matrix: Floats,  # (S, d, d), as all of the state changed
    inverse: Floats,
    theta: Floats,  # (S, d)
    vector: Floats,
    bound: Floats,  # (S,)
    published: bool,
    link: int,
    kappa: float,
    q: float,
    failure: float,
    most: float,  # S
) -> None:
    """All rounds; V is not needed by the published rules, and left as it is."""
    contexts, outcomes, words, truth, law, actions, rewards, losses, chosen = scene
    (seeds, n), (n_arms, d) = actions.shape, contexts.shape[2:]
    x, work = room(n_arms, d)
    centre, step, new, own = np.empty(d), np.empty(d), np.empty(d), np.empty((d, d))
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            inside = 1 + 2 * kappa * bound[s] + 4 * (q * kappa) ** 4 / failure**2
            log = math.log(2 / failure) + 0.5 * math.log(inside)
            radius = math.sqrt(1 + 4 * kappa * bound[s] + 8 * (q * kappa) ** 2 * log)  # Jun et al. 2017, Theorem 1
            if published:
                copy(theta[s], centre)
            else:
                times(inverse[s], vector[s], centre)
            index = link if published else IDENTITY
            arm = optimistic(contexts, words, s, t, centre, inverse[s], radius, index, x, work)
            reward, losses[s, t] = earned(outcomes, words, truth, law, s, t, arm, x, work[1])
            actions[s, t], rewards[s, t] = arm, reward
            for i in range(d):
                chosen[i] = x[i, arm]
            z = inner(chosen, theta[s])
            residual = mean(z, link) - reward
            times(inverse[s], chosen, step)
            grown = 1 + inner(step, chosen)
            for i in range(d):
                step[i] /= grown  # V^{-1} x with the new V
                new[i] = theta[s, i] - kappa * residual * step[i]
                vector[s, i] += z * chosen[i]
                for j in range(d):
                    matrix[s, i, j] += 0.0 if published else chosen[i] * chosen[j]
            for i in range(d):
                for j in range(d):
                    inverse[s, i, j] -= grown * step[i] * step[j]
            bound[s] += residual * residual * inner(step, chosen) * kappa / 2
            length = math.sqrt(inner(new, new))
            if published:
                for i in range(d):
                    new[i] *= most / max(length, 1e-300)
            elif length > most:
                _onto_ball(new, matrix[s], most, step, centre, own)
            copy(new, theta[s])


@part
def _onto_ball(y: Floats, matrix: Floats, most: float, target: Floats, slope: Floats, own: Floats) -> None:
    """argmin |y - p|_V over |y| <= S, p in y, as `projections.onto_ball_in_norm`: (V + nu I) y = V p, without
    eigenvectors."""
    d, nu = len(y), 0.0
    times(matrix, y, target)
    for _ in range(101):
        copy(target, y)
        _solved(matrix, nu, y, own)
        length = math.sqrt(inner(y, y))
        if not length / most - 1 > 1e-12:
            break
        copy(y, slope)
        _solved(matrix, nu, slope, own)
        nu += (length / most - 1) * length**2 / max(inner(y, slope), 1e-300)
    for i in range(d):
        y[i] /= max(length / most, 1.0)


@part
def _solved(matrix: Floats, nu: float, x: Floats, own: Floats) -> None:
    """(V + nu I)^{-1} x, in place of x; `own`: room for the matrix."""
    for i in range(len(x)):
        copy(matrix[i], own[i])
        own[i, i] += nu
    solve(own, x)
