"""Exact attacks: divergences of laws that can be enumerated, and Gaussian separations that follow from what was drawn.

    H(P, Q; epsilon) = sum_x (P(x) - e^epsilon Q(x))+        (hockey stick)

is the least delta at which P and Q are within epsilon: no test does better, and one reaches it.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core import search
from bandanna.core.arrays import Floats

_MOST = 600.0
_LEAST = 1e-9


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """Of two laws on one support, in this direction."""
    return float(np.maximum(p - math.exp(min(epsilon, 700.0)) * q, 0.0).sum())


def least_epsilon(p: Floats, q: Floats, delta: float) -> float:
    """The epsilon at delta of two enumerated laws, whichever way round; infinity where there is none."""

    def exceeds(epsilon: float) -> bool:
        return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) > delta

    if delta == 0.0:
        if np.any((p > 0) != (q > 0)):
            return math.inf
        seen = p > 0
        return float(np.max(np.abs(np.log(p[seen]) - np.log(q[seen])))) if seen.any() else 0.0
    if not exceeds(_LEAST):
        return 0.0
    return math.inf if exceeds(_MOST) else search.greatest(exceeds, _LEAST, _MOST, relative=1e-12)


def product(one: tuple[Floats, Floats], two: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Two independent releases about the same person, as one law of pairs."""
    return np.outer(one[0], two[0]).ravel(), np.outer(one[1], two[1]).ravel()


def separation(moves: list[tuple[Floats, float]]) -> float:
    """mu of Gaussian releases whose means move by so much under noise of this std: the root of sum |move|^2 / std^2."""
    return math.sqrt(math.fsum(float(np.sum(move * move)) / std**2 for move, std in moves))
