"""Shuffled Gaussian reports: the exact laws of a statistic of all reports in no order, nearly the best there is.

Among n reports of which nobody knows whose they are, and of which the others have the neighbour's mean, the likelihood
ratio of the neighbours is the mean of those of single reports. On a grid,

    T = min(sum_i floor(Z_i / h), K),     Z_i = exp(m (y_i - m/2) / std^2),

y_i being the report's coordinate on the line from the one neighbour (at 0) to the other (at m). T does not depend on
the order of the reports, so tests of T are tests of the shuffled view, and its law is that of a sum of independent
integers: computed by convolutions, whatever means the others have. What is found is a lower bound; it is the best where
all others are at 0, but for the grid.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft, special

from bandanna.audit.exact import Pair
from bandanna.core.arrays import Floats
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian

_CELLS = 2**15  # K
_USERS = 1000
_BEYOND = 4.0  # times the sum at which the stated epsilon is reached


def shuffled_pairs(protocol: ShuffleGaussian, one: Floats, two: Floats) -> list[Pair] | None:
    """Of one batch's statistics, (users, dim) each: one pair; None where several people differ, or many are in it."""
    moved = np.flatnonzero(np.any(one != two, axis=-1))
    users, epsilon = len(one), protocol.guarantee.epsilon
    if len(moved) != 1 or users > _USERS or not math.isfinite(epsilon):
        return None
    origin = two[moved[0]]
    line = one[moved[0]] - origin
    length = float(np.linalg.norm(line))
    places = (two - origin) @ (line / length)  # (users,): of the person 0
    step = _BEYOND * users * math.exp(min(epsilon, 50.0)) / _CELLS
    others = np.ones(_CELLS + 1)
    others[1:] = 0.0
    for place in np.delete(places, moved[0]):
        others = _summed(others, _cells(float(place), length, protocol.noise_std, step))
    laws = [_summed(others, _cells(mean, length, protocol.noise_std, step)) for mean in (length, 0.0)]
    return [(laws[0], laws[1])]


def _cells(mean: float, length: float, std: float, step: float) -> Floats:
    """The law of min(floor(Z / h), K) of a report with this mean."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(_CELLS + 1) * step)
    edges = logs * std**2 / length + length / 2
    above = special.ndtr((mean - edges) / std)  # P(Z >= k h)
    above[0] = 1.0
    return np.asarray(above - np.append(above[1:], 0.0))


def _summed(one: Floats, two: Floats) -> Floats:
    """Of two independent sums; what is larger than K is K."""
    size = fft.next_fast_len(2 * _CELLS + 1, real=True)
    whole = np.maximum(fft.irfft(fft.rfft(one, size) * fft.rfft(two, size), size)[: 2 * _CELLS + 1], 0.0)
    kept = whole[: _CELLS + 1].copy()
    kept[-1] += whole[_CELLS + 1 :].sum()
    return np.asarray(kept / kept.sum())
