"""A round of a `Scene`: its arms, side by side, and what the chosen one earns."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.choosing import most, tied
from bandanna.kernels.jit import part
from bandanna.kernels.pointing import pointing_columns
from bandanna.kernels.scene import Scene
from bandanna.kernels.scoring import along, columns, indices, mean
from bandanna.kernels.ziggurat import one_of

_TOGETHER = 16  # arms of which loops take a multiple: a few that are left over would be taken one by one
_MORE = 2  # entries of a direction beyond those of an arm, as in `environments.glm`


@part
def room(scene: Scene) -> tuple[Floats, Floats]:
    """For arms in columns (d + 2, N), zero beyond the last, and for what is computed of them (4, N)."""
    n_arms, d = scene.contexts.shape[2:]
    wide = -(-n_arms // _TOGETHER) * _TOGETHER
    return np.zeros((d + _MORE, wide)), np.empty((4, wide))


@part
def optimistic(
    scene: Scene, s: int, t: int, theta: Floats, inverse: Floats, radius: float, link: int, x: Floats, work: Floats
) -> int:
    """The first arm of a round whose mu(<x, theta>) + radius |x|_{V^{-1}} is the largest in single precision."""
    n_arms, d = scene.contexts.shape[2:]
    if scene.contexts.shape[1] > 0:
        columns(scene.contexts[s, t], x)
    else:
        pointing_columns(scene.words[s, 0], n_arms, 1.0, len(x), 0.0, work[0], x)
    indices(x[:d], theta, inverse, radius, link, work)
    return tied(work[0, :n_arms])[1]


@part
def earned(scene: Scene, s: int, t: int, arm: int, x: Floats, values: Floats) -> float:
    """The reward of this arm, of which the scene keeps what was played; values: room for N numbers."""
    n_arms, d = scene.contexts.shape[2:]
    scene.actions[s, t] = arm
    for i in range(d):
        scene.features[i] = x[i, arm]
    if scene.contexts.shape[1] > 0:
        reward: float = scene.outcomes[s, t, arm]
    else:
        along(x[:d], scene.truth[s], values)
        own = _cut(mean(values[arm], scene.link))
        scene.losses[s, t] = _cut(mean(most(values[:n_arms]), scene.link)) - own  # mu increases
        reward = 1.0 if one_of(scene.words[s, 1], arm, n_arms) < own else 0.0
    scene.rewards[s, t] = reward
    return reward


@part
def _cut(value: float) -> float:
    """In [0, 1], as `GLMWorld.means` has it."""
    return min(max(value, 0.0), 1.0)
