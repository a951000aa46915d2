"""Exact attacks: divergences of laws that can be enumerated, and Gaussian separations that follow from what was drawn.

    H(P, Q; epsilon) = sum_x (P(x) - e^epsilon Q(x))+        (hockey stick)

is the least delta at which P and Q are within epsilon: no test does better, and one reaches it.

Independent releases j = 1, ..., m about one person, of laws P_j and Q_j, are told apart by the sum of their losses. Of
that sum we take the part that fits on a grid,

    T = sum_j round(L_j / h),     L_j = log P_j(x_j) / Q_j(x_j),

a function of what was released: its laws under P and Q are convolutions, and tests of T are tests of the releases. So
whatever is found is a lower bound, exact but for rounding errors, however coarse h is; a fine h loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import signal, special

from bandanna.core import search
from bandanna.core.arrays import Floats

Pair = tuple[Floats, Floats]  # two laws on one support

ROUNDING = 1e-10  # more than what rounding errors add to a probability here
_MOST = 600.0
_LEAST = 1e-9
_STEP = 1 / 512  # of a loss
_LARGEST = 30.0  # loss; what is larger is as good as certain
_DIRECT = 2 * 10**7  # products, above which convolutions are by Fourier transforms
_RARE = 1e-16  # mass at either end that is gathered in one place
_FAR = 12.0  # standard deviations


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


def best_tests(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Powers and levels of the most powerful tests of P against Q, at every likelihood ratio (Neyman and Pearson)."""
    p, q = (law[(p > 0) | (q > 0)] for law in (p, q))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(q) - np.log(p), kind="stable")
    power, level = np.cumsum(p[order]), np.cumsum(q[order])
    return power / power[-1], level / level[-1]


def pure_loss(pairs: Sequence[Pair]) -> float:
    """The largest loss of independent releases together, whichever way round."""
    return max(sum(_largest(p, q) for p, q in pairs), sum(_largest(q, p) for p, q in pairs), 0.0)


def _largest(p: Floats, q: Floats) -> float:
    seen = p > 0
    return math.inf if np.any(q[seen] == 0) else float(np.max(np.log(p[seen]) - np.log(q[seen])))


def composed(pairs: Sequence[Pair]) -> Pair:
    """The laws of the sum of all losses, on a grid; of one release, the laws themselves."""
    if len(pairs) == 1:
        return pairs[0]
    total: Pair = (np.ones(1), np.ones(1))
    for one in pairs:
        total = _ends(*(_convolved(a, b) for a, b in zip(total, _losses(*one), strict=True)))
    return total


def _losses(p: Floats, q: Floats) -> Pair:
    """The laws of round(L / h), from the least one on."""
    seen = (p > 0) | (q > 0)
    p, q = p[seen], q[seen]
    with np.errstate(divide="ignore"):
        losses = np.clip(np.log(p) - np.log(q), -_LARGEST, _LARGEST)
    places = np.rint(losses / _STEP).astype(np.int64)
    places -= places.min()
    one, two = (np.asarray(np.bincount(places, weights=law), dtype=float) for law in (p, q))
    return one, two


def _convolved(one: Floats, two: Floats) -> Floats:
    if one.size * two.size <= _DIRECT:
        return np.asarray(np.convolve(one, two))
    return np.asarray(np.maximum(signal.fftconvolve(one, two), 0.0))


def _ends(p: Floats, q: Floats) -> Pair:
    """What is rare under both at either end is gathered there: a function of what it was, and shorter."""
    both = np.maximum(p, q)
    begin = int(np.searchsorted(np.cumsum(both), _RARE))
    end = len(both) - int(np.searchsorted(np.cumsum(both[::-1]), _RARE))
    if end - begin < 2:
        return p, q
    kept = []
    for law in (p, q):
        cut = law[begin:end].copy()
        cut[0] += law[:begin].sum()
        cut[-1] += law[end:].sum()
        kept.append(cut)
    return kept[0], kept[1]


def gaussian_pair(mu: float) -> Pair:
    """N(mu, 1) and N(0, 1), in cells whose losses are a step of the grid apart."""
    width = min(_STEP / mu, 0.01) if mu > 0 else 1.0
    edges = np.arange(-_FAR, _FAR + mu + width, width)
    below = [np.concatenate([[0.0], special.ndtr(edges - by), [1.0]]) for by in (mu, 0.0)]
    return np.diff(below[0]), np.diff(below[1])


def product(one: Pair, two: Pair) -> Pair:
    """Two independent releases about the same person, as one law of pairs."""
    return np.outer(one[0], two[0]).ravel(), np.outer(one[1], two[1]).ravel()


def separation(moves: list[tuple[Floats, float]]) -> float:
    """mu of Gaussian releases whose means move by so much under noise of this std: the root of sum |move|^2 / std^2."""
    return math.sqrt(math.fsum(float(np.sum(move * move)) / std**2 for move, std in moves))


def l1_loss(moves: list[tuple[Floats, float]]) -> float:
    """The largest loss of Laplace releases whose values move by so much under noise of this scale."""
    return math.fsum(float(np.sum(np.abs(move))) / scale for move, scale in moves)
