"""Projected descent along noisy gradient sums: what the central and the shuffle-private optimisers share.

    theta_{j+1} = Proj( theta_j - A (g_j + ridge theta_j) ),       g_j a noisy sum of gradients at theta_j

A is (eta/t) I with eta = 2S/(L sqrt N), L = G + ridge S/t, the rule of Lemma U.4 [003], and the answer the mean of
theta_1..theta_N; or A is the inverse of a public matrix (noisy Newton steps) and the answer the mean of the later half
of the iterates. Nothing here reads data: everything is post-processing of the sums g_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bandanna.glm.projections import onto_ball

Floats = NDArray[np.float64]
Project = Callable[[Floats], Floats]


def descend(
    noisy_sum: Callable[[Floats], Floats],
    start: Floats,
    *,
    steps: int,
    ridge: float,
    count: int,
    residual_bound: float,
    parameter_bound: float,
    matrix: Floats | None = None,
    project: Project | None = None,
) -> Floats:
    """theta (*R, d) after `steps` steps from `start`; `count` t, `residual_bound` G, `parameter_bound` S as above."""
    onto: Project = project if project is not None else (lambda point: onto_ball(point, parameter_bound))
    eta = 2 * parameter_bound / (lipschitz(residual_bound, ridge, parameter_bound, count) * math.sqrt(steps))
    inverse = None if matrix is None else np.linalg.inv(matrix)
    theta, total, kept = start, np.zeros_like(start), 0
    for step in range(steps):
        if inverse is None:
            total, kept = total + theta, kept + 1
        gradient = noisy_sum(theta) + ridge * theta
        move = eta / count * gradient if inverse is None else (inverse @ gradient[..., None])[..., 0]
        theta = onto(theta - move)
        if inverse is not None and 2 * (step + 1) > steps:
            total, kept = total + theta, kept + 1
    return np.asarray(onto(total / kept))


def lipschitz(residual_bound: float, ridge: float, parameter_bound: float, count: int) -> float:
    """L of the mean loss on |theta| <= S: G + ridge S/t."""
    return residual_bound + ridge * parameter_bound / count
