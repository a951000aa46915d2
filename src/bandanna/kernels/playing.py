"""A round of a `Scene`: its arms, side by side, and what the chosen one earns.

The parts take arrays, not the scene: to hand on a tuple of nine takes longer than to choose among twenty arms.
"""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.choosing import most, tied
from bandanna.kernels.jit import part
from bandanna.kernels.pointing import pointing_columns
from bandanna.kernels.scene import MORE
from bandanna.kernels.scoring import along, columns, indices, mean
from bandanna.kernels.ziggurat import Words, one_of

_TOGETHER = 16  # arms of which loops take a multiple: a few that are left over would be taken one by one


@part
def room(n_arms: int, d: int) -> tuple[Floats, Floats]:
    """For arms in columns (d + 2, N), zero beyond the last, and for what is computed of them (4, N)."""
    wide = -(-n_arms // _TOGETHER) * _TOGETHER
    return np.zeros((d + MORE, wide)), np.empty((4, wide))


@part
def optimistic(
    contexts: Floats,  # of the scene, as words
    words: Words,
    s: int,
    t: int,
    theta: Floats,
    inverse: Floats,
    radius: float,
    link: int,
    x: Floats,  # filled with the arms of round t of seed s
    work: Floats,
) -> int:
    """The first arm of a round whose mu(<x, theta>) + radius |x|_{V^{-1}} is the largest in single precision."""
    n_arms, d = contexts.shape[2:]
    if contexts.shape[1] > 0:
        columns(contexts[s, t], x)
    else:
        pointing_columns(words[s, 0], n_arms, 1.0, len(x), 0.0, work[0], x)
    indices(x[:d], theta, inverse, radius, link, work)
    return tied(work[0, :n_arms])[1]


@part
def earned(
    outcomes: Floats,  # of the scene, as words, truth and link
    words: Words,
    truth: Floats,
    link: int,
    s: int,
    t: int,
    arm: int,
    x: Floats,
    values: Floats,  # room for N numbers
) -> tuple[float, float]:
    """The reward of this arm and, where it is drawn here, what it loses."""
    if outcomes.shape[1] > 0:
        return outcomes[s, t, arm], 0.0
    n_arms = outcomes.shape[2]
    along(x[: truth.shape[1]], truth[s], values)
    own, best = _cut(mean(values[arm], link)), _cut(mean(most(values[:n_arms]), link))  # mu increases
    return (1.0 if one_of(words[s, 1], arm, n_arms) < own else 0.0), best - own


@part
def _cut(value: float) -> float:
    """In [0, 1], as `GLMWorld.means` has it."""
    return min(max(value, 0.0), 1.0)
