"""G-optimal designs: the distribution over arms whose least-squares estimate is least uncertain for every arm.

    V(pi) = sum_x pi(x) x x^T,     g(pi) = max_x |x|^2_{V(pi)^{-1}},     min g = r, the dimension of the span

Minimising g is maximising log det V (Kiefer and Wolfowitz 1960). Start: r arms, one for each of r orthogonal
directions, each the farthest along it (Kumar and Yildirim 2005, with the longest residual as direction). Steps: mass
towards the arm with the largest |x|^2 (Fedorov 1972, Wynn 1970) and, for the optimal design, away from the one with
the smallest (Atwood 1973; linear convergence),

    pi <- (1 - t) pi + t e_x,     t = (|x|^2/r - 1) / (|x|^2 - 1)  the exact line search, in either direction,

with V^{-1} and all |x|^2 updated by the rank-one formula. At the end g is computed anew: it is a certificate, not an
estimate.

References: Lattimore, Szepesvari and Weisz 2020, Prop. 3.7 (near-optimal, small support); Todd 2016, Minimum-volume
ellipsoids, chapter 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.design.pruning import prune
from bandanna.design.span import span_coordinates
from bandanna.errors import CalibrationError, InvalidArgument
from bandanna.storage.declared import stored_as

_REFRESH = 50  # steps after which the rank-one updates begin anew
_STEPS = 200_000
_FEW = 1 << 12  # numbers of arms whose designs are kept
_TIED = 1e-9  # shares of the largest: more than rounding, less than any difference that matters


@stored_as("Design")
@dataclass(frozen=True, kw_only=True)
class Design:
    """`weights` on the arms `support`; `g` is max_x |x|^2_{V^{-1}} over all arms of the set, of span `rank`.

    `coordinates` are those of all arms in their span, as `span_coordinates` gives them.
    """

    support: NDArray[np.int64]  # (s,): places in the set, increasing
    weights: Floats  # (s,), positive, of sum 1
    g: float
    rank: int
    coordinates: Floats = field(repr=False)  # (K, r)

    def plays(self, total: float) -> NDArray[np.int64]:
        """ceil(total pi(x)) for every arm of the support."""
        return np.ceil(total * self.weights * (1 - 1e-12)).astype(np.int64)


def support_limit(dim: int) -> int:
    """4 d log log d + 16, log log d taken as 0 where it is negative; never below d."""
    d = require.whole("dim", dim)
    return max(d, math.floor(4 * d * max(0.0, math.log(math.log(d)) if d > 1 else 0.0) + 16))


def near_optimal_design(arms: ArrayLike, *, factor: float = 2.0) -> Design:
    """g <= `factor` r, on at most `support_limit(r)` arms for factor = 2: few arms, most of them by the start alone."""
    if not factor > 1:
        raise InvalidArgument("factor", factor, "a number > 1")
    z = span_coordinates(arms)  # (K, r)
    weights = _walk(z, _start(z), target=factor * z.shape[1], away=False)
    return _certified(z, weights)


def optimal_design(arms: ArrayLike, *, tolerance: float = 1e-3) -> Design:
    """g <= (1 + `tolerance`) r, on at most r(r+1)/2 arms."""
    require.positive("tolerance", tolerance)
    z = span_coordinates(arms)
    weights = _walk(z, _start(z), target=(1 + 0.99 * tolerance) * z.shape[1], away=True)
    return _certified(z, prune(z, weights))


def remembered(find: Callable[[Floats], Design], arms: Floats) -> Design:
    """find(arms), once for these numbers where they are few: runs and horizons that have the same arms ask again."""
    if arms.size > _FEW:
        return find(arms)
    return _found(find, arms.shape, np.ascontiguousarray(arms).tobytes())


@lru_cache(maxsize=1 << 12)
def _found(find: Callable[[Floats], Design], shape: tuple[int, ...], numbers: bytes) -> Design:
    design = find(np.frombuffer(numbers).reshape(shape))
    for shared in (design.support, design.weights, design.coordinates):
        shared.flags.writeable = False
    return design


def _start(z: Floats) -> Floats:
    """Equal weights on r arms: each the farthest from the span of those before it; (K, r) -> (K,)."""
    rest, chosen = z.copy(), []
    for _ in range(z.shape[1]):
        chosen.append(_largest(np.einsum("ij,ij->i", rest, rest)))
        axis = rest[chosen[-1]] / np.linalg.norm(rest[chosen[-1]])
        rest -= np.outer(rest @ axis, axis)
    weights = np.zeros(len(z))
    weights[chosen] = 1 / len(chosen)
    return weights


def _walk(z: Floats, weights: Floats, *, target: float, away: bool) -> Floats:
    """Fedorov-Wynn steps until g <= target; with `away`, also steps that take mass from the least useful arm."""
    r = z.shape[1]
    for step in range(_STEPS):
        if step % _REFRESH == 0:
            inverse, squares = _leverages(z, weights)
        most = _largest(squares)
        if squares[most] <= target:
            inverse, squares = _leverages(z, weights)  # without the rounding of the updates
            if squares.max() <= target:
                return weights
            most = _largest(squares)
        place = most
        if away:
            held = np.where(weights > 0, squares, np.inf)
            least = int(np.argmax(held <= (1 + _TIED) * held.min()))
            place = most if squares[most] - r >= r - squares[least] else least
        t = _line_search(float(squares[place]), r, float(weights[place]))
        if t == 0:
            return weights
        weights = (1 - t) * weights
        weights[place] = max(0.0, weights[place] + t) if t > 0 or weights[place] + t > 1e-14 else 0.0
        column = inverse @ z[place]  # V^{-1} x
        along = z @ column
        share = t / (1 - t + t * squares[place])
        inverse = (inverse - share * np.outer(column, column)) / (1 - t)  # Sherman and Morrison
        squares = (squares - share * along**2) / (1 - t)
    raise CalibrationError(f"no design with g <= {target:.6g} after {_STEPS} steps")


def _largest(values: Floats) -> int:
    """The first of those that are the largest up to rounding: arms of one length are tied on every machine."""
    return int(np.argmax(values >= (1 - _TIED) * values.max()))


def _line_search(square: float, r: int, weight: float) -> float:
    """The step along e_x that maximises log det V; away from x at most so far that its weight is used up."""
    if r == 1 or square <= 1 + 1e-12:
        best = 1.0 - 1e-12 if square > r else -math.inf
    else:
        best = (square / r - 1) / (square - 1)
    return best if best >= 0 else max(best, -weight / (1 - weight) if weight < 1 else 0.0)


def _leverages(z: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """V^{-1} and |x|^2_{V^{-1}} of every arm, from the weights alone."""
    held = np.flatnonzero(weights)
    inverse: Floats = np.asarray(np.linalg.inv((z[held] * weights[held, None]).T @ z[held]), dtype=float)
    return inverse, np.einsum("ij,ij->i", z @ inverse, z)


def _certified(z: Floats, weights: Floats) -> Design:
    weights = weights / weights.sum()
    _, squares = _leverages(z, weights)
    support = np.flatnonzero(weights)
    return Design(
        support=support,
        weights=weights[support],
        g=float(squares.max()) * (1 + 1e-9),
        rank=int(z.shape[1]),
        coordinates=z,
    )
