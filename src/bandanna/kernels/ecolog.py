"""ECOLog, one seed after the other: the NumPy code is `act` and `learn` of the policy."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, part
from bandanna.kernels.playing import earned, optimistic, room
from bandanna.kernels.scene import Scene
from bandanna.kernels.scoring import IDENTITY, LOGISTIC, inner, mean, times


@jit
def ecolog(
    scene: Scene,
    place: Ints,  # (2,): seed and round to go on with, changed
    rounds: int,
    matrix: Floats,  # (S, d, d), as all of the state changed
    inverse: Floats,
    theta: Floats,  # (S, d)
    correction: Floats,  # (S,)
    published: bool,
    ridge: float,
    failure: float,
    most: float,  # S
) -> bool:
    """Whether the round at `place`, which was played, must be learned elsewhere: a minimum is beyond the ball."""
    contexts, outcomes, words, truth, law, actions, rewards, losses, x = scene
    (seeds, n), (n_arms, d) = actions.shape, contexts.shape[2:]
    arms, work = room(n_arms, d)
    direction, one, two = np.empty(d), np.empty(d), np.empty(d)
    weight, root = 0.5 if published else 1 / (2 + 2 * most), math.sqrt(ridge)
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            log = math.log(2 / failure) + 0.5 * math.log(1 + (rounds + t + 1) / (4 * ridge))
            gamma = root / 2 + 2 / root * log
            radius = math.sqrt(2 * ridge * most**2 + (1 + most) ** 2 * gamma + correction[s])
            link = LOGISTIC if published else IDENTITY
            arm = optimistic(contexts, words, s, t, theta[s], inverse[s], radius, link, arms, work)
            reward, losses[s, t] = earned(outcomes, words, truth, law, s, t, arm, arms, work[1])
            actions[s, t], rewards[s, t] = arm, reward
            for i in range(d):
                x[i] = arms[i, arm]
            times(inverse[s], x, direction)
            spread = inner(x, direction)
            _proximal(theta[s], direction, spread, x, reward, 1 / (2 * weight), one)
            _proximal(one if published else theta[s], direction, spread, x, 0.5, 2 / (2 * weight), two)
            if inner(one, one) > most**2 or inner(two, two) > most**2:
                place[0], place[1] = s, t
                return True
            z, other = inner(x, one), inner(x, two)
            gain = _softplus(other) - _softplus(z) - reward * (other - z)
            for i in range(d):
                two[i] = one[i] - two[i]
            square = 0.0
            for i in range(d):
                for j in range(d):
                    square += two[i] * matrix[s, i, j] * two[j]
            lost = math.sqrt(max(square, 0.0)) if published else square
            correction[s] = max(correction[s] + 2 * (1 + most) * gain - lost / 2, 0.0)
            slope = mean(z, LOGISTIC) * mean(-z, LOGISTIC)
            shrink = slope / (1 + slope * spread)
            for i in range(d):
                theta[s, i] = one[i]
                for j in range(d):
                    matrix[s, i, j] += slope * x[i] * x[j]
                    inverse[s, i, j] -= shrink * direction[i] * direction[j]
    return False


@part
def _proximal(centre: Floats, direction: Floats, spread: float, x: Floats, r: float, scale: float, out: Floats) -> None:
    """The free minimum on the line through `centre`, by Newton's method for z, as `ecolog._on_line`."""
    base, spread = inner(x, centre), scale * spread
    z = base - spread * (mean(base, LOGISTIC) - r) / (1 + spread / 4)
    for _ in range(50):
        s = mean(z, LOGISTIC)
        step = (z + spread * (s - r) - base) / (1 + spread * s * (1 - s))
        z -= step
        if not abs(step) > 1e-8:  # the next one would be below 1e-16
            break
    residual = mean(z, LOGISTIC) - r
    for i in range(len(out)):
        out[i] = centre[i] - scale * residual * direction[i]


@part
def _softplus(z: float) -> float:
    """log(1 + e^z)."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
