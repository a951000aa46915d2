"""G-optimal designs, nets of the unit ball, and pruning of arms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.domain import read_real_array
from bandanna.errors import CalibrationError, InvalidArgument, ValueSummary
from bandanna.numeric.linalg import upper_triangle
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_RELATIVE = 1e-10  # singular values below this share of the largest are rounding errors


def check_arms_matrix(arms: ArrayLike) -> Floats:
    """Return finite arms, one per row, or raise."""
    rows = read_real_array("arms", arms)
    if rows.ndim != 2 or not rows.size:
        raise InvalidArgument("arms", ValueSummary.of(rows), "an array of shape (K, d) with K, d >= 1")
    if not np.all(np.isfinite(rows)):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise InvalidArgument(f"arms[{place[0]}, {place[1]}]", float(rows[place]), "a finite number")
    if not rows.any():
        raise InvalidArgument("arms", ValueSummary("zeros only"), "vectors that are not all zero")
    return rows


def check_unit_ball(name: str, rows: Floats) -> Floats:
    """Return rows of norm at most 1, or raise naming the longest."""
    norms = np.linalg.norm(rows, axis=1)
    if np.any(norms > 1 + 1e-9):
        place = int(np.argmax(norms))
        raise InvalidArgument(f"norm of {name}" + f"[{place}]" * (name == "arms"), float(norms[place]), "at most 1")
    return rows


def span_coordinates(arms: ArrayLike) -> Floats:
    """Return whitened coordinates of K arms in their span of r dimensions: (K, d) -> (K, r) with Z^T Z = I.

    Designs, leverages and least-squares predictions do not depend on the basis; this one, by the singular value
    decomposition, is the best conditioned.
    """
    rows = check_arms_matrix(arms)
    if len(rows) > 2 * rows.shape[1]:  # a triangle has the same singular values, and fewer rows
        q, triangle = np.linalg.qr(rows)
        left, values, _ = np.linalg.svd(triangle)
        left = q @ left
    else:
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
    return np.ascontiguousarray(left[:, values > _RELATIVE * values[0]])


# Epsilon-nets: a finite set of actions in place of an infinite one (remark 3.1 of [001]). With |theta| <= S the best
# action of a net of radius h loses at most h S in a round. A greedy net of the unit ball has at most (1 + 2/h)^d
# points.


_MOST = 2_000_000  # points of a lattice
_SHARE = 0.25  # of the radius, for the lattice that is thinned out


def epsilon_net(points: ArrayLike, *, radius: float) -> Floats:
    """Return some of the points, such that each point is within `radius` of one of them: (n, d) -> (m, d).

    Farthest-point-first traversal (Gonzalez 1985).
    """
    validation.positive("radius", radius)
    rows = check_arms_matrix(points)
    chosen = [0]
    distance = _squared(rows, rows[0])
    while True:
        farthest = int(np.argmax(distance))
        if distance[farthest] <= radius**2:
            return np.ascontiguousarray(rows[chosen])
        chosen.append(farthest)
        np.minimum(distance, _squared(rows, rows[farthest]), out=distance)


def ball_net(dim: int, *, radius: float) -> Floats:
    """Return a net of the unit ball, inside the ball, of at most (1 + 8/(3 radius))^dim points.

    A lattice within radius/4 is moved into the ball and thinned out.
    """
    dim, radius = validation.integer("dim", dim), validation.positive("radius", radius)
    if radius >= 1:
        return np.zeros((1, dim))
    spacing = 2 * _SHARE * radius / math.sqrt(dim)  # the farthest point of a cell is spacing sqrt(dim)/2 from a corner
    side = math.ceil(1 / spacing)
    if (2 * side + 1) ** dim > _MOST:
        allowed = f"such that the lattice has at most {_MOST:,} points"
        raise InvalidArgument("dim, radius", (dim, radius), allowed, "Use epsilon_net with a sample of your own")
    axis = spacing * np.arange(-side, side + 1)
    lattice = np.array(list(itertools.product(axis, repeat=dim)))
    norms = np.linalg.norm(lattice, axis=1)
    near = lattice[norms <= 1 + _SHARE * radius]
    norms = norms[norms <= 1 + _SHARE * radius]
    inside = near / np.maximum(norms, 1.0)[:, None]  # projections do not move away from points of the ball
    return epsilon_net(inside, radius=(1 - _SHARE) * radius)


def _squared(rows: Floats, centre: Floats) -> Floats:
    away = rows - centre
    return np.asarray(np.einsum("ij,ij->i", away, away))


def prune_design(z: Floats, weights: Floats) -> Floats:
    """Return weights with the same V(pi), up to a factor >= 1, on at most r(r+1)/2 arms: (K, r), (K,) -> (K,).

    Caratheodory: move the weights along a direction that keeps V, its sum not negative, until one is used up. Scaling
    back to 1 raises V. Ties are broken by the arms' order, so that machines agree.
    """
    rows, columns = upper_triangle(z.shape[1])
    held = np.flatnonzero(weights > 0)
    if len(held) <= len(rows):
        return weights
    products = z[held][:, rows] * z[held][:, columns]  # (n, r(r+1)/2)
    left, sizes, _ = np.linalg.svd(products * len(z))  # whitened coordinates have squares of about 1/K
    free = left[:, np.count_nonzero(sizes > 1e-10 * sizes[0]) :]  # (n, q): directions that do not change V
    kept = weights[held].copy()
    while free.shape[1]:
        mover = int(np.argmax(np.einsum("ij,ij->i", free, free) > _TIED))  # the first arm that can move
        along = free @ free[mover]  # its own direction, projected: the same for every basis of them
        along = along / np.max(np.abs(along)) * (1 if np.sum(along) >= -_TIED * len(along) else -1)
        steps = np.where(along > 1e-12, kept / np.maximum(along, 1e-12), np.inf)
        first = int(np.argmax(steps <= (1 + _TIED) * np.min(steps)))
        kept = np.maximum(kept - steps[first] * along, 0.0)
        kept[first] = 0.0
        free = _remove_direction(free, free[first])
        free[first] = 0.0
    pruned = np.zeros_like(weights)
    pruned[held] = kept
    return np.asarray(pruned / pruned.sum())


def _remove_direction(basis: Floats, row: Floats) -> Floats:
    mirror = row / np.linalg.norm(row)
    mirror[0] += 1.0 if mirror[0] >= 0 else -1.0
    return np.asarray(basis - np.outer(basis @ mirror, mirror / abs(mirror[0])))[:, 1:]


# G-optimal designs: minimising g is maximising log det V (Kiefer and Wolfowitz 1960). Start: r arms, each the farthest
# along one of r orthogonal directions (Kumar and Yildirim 2005). Steps: mass towards the arm with the largest |x|^2
# (Fedorov 1972, Wynn 1970) and, for the optimal design, away from the smallest (Atwood 1973), pi <- (1 - t) pi + t e_x
# with the exact line search t = (|x|^2/r - 1) / (|x|^2 - 1). Reference: Lattimore, Szepesvari and Weisz 2020, Prop.
# 3.7.


_REFRESH = 50  # steps after which the rank-one updates begin anew
_STEPS = 200_000
_FEW = 1 << 12  # numbers of arms whose designs are kept
_TIED = 1e-9  # shares of the largest: more than rounding, less than any difference that matters


@stored_as("Design")
@dataclass(frozen=True, kw_only=True)
class Design:
    """A distribution over arms for which g(pi) = max_x |x|^2_{V(pi)^{-1}} is small, V(pi) = sum_x pi(x) x x^T.

    Attributes
    ----------
    support, weights
        Indices of the arms with positive weights, and these.
    g, rank
        g(pi), and the dimension of the span, which is its least possible value.
    coordinates
        All arms by `span_coordinates`.
    """

    support: NDArray[np.int64]  # (s,): places in the set, increasing
    weights: Floats  # (s,), positive, of sum 1
    g: float
    rank: int
    coordinates: Floats = field(repr=False)  # (K, r)

    def plays(self, total: float) -> NDArray[np.int64]:
        """Return ceil(total pi(x)) on the support."""
        return np.ceil(total * self.weights * (1 - 1e-12)).astype(np.int64)


def support_limit(dim: int) -> int:
    """Return 4 d log log d + 16, at least d; a negative log log d counts as 0."""
    d = validation.integer("dim", dim)
    return max(d, math.floor(4 * d * max(0.0, math.log(math.log(d)) if d > 1 else 0.0) + 16))


def near_optimal_design(arms: ArrayLike, *, factor: float = 2.0) -> Design:
    """Return a design of g <= `factor` r, on at most `support_limit(r)` arms for factor = 2."""
    if not factor > 1:
        raise InvalidArgument("factor", factor, "a number > 1")
    z = span_coordinates(arms)  # (K, r)
    weights = _improve_weights(z, _start(z), target=factor * z.shape[1], away=False)
    return _make_design(z, weights)


def optimal_design(arms: ArrayLike, *, tolerance: float = 1e-3) -> Design:
    """Return a design of g <= (1 + `tolerance`) r, on at most r(r+1)/2 arms."""
    validation.positive("tolerance", tolerance)
    z = span_coordinates(arms)
    weights = _improve_weights(z, _start(z), target=(1 + 0.99 * tolerance) * z.shape[1], away=True)
    return _make_design(z, prune_design(z, weights))


def find_cached_design(find: Callable[[Floats], Design], arms: Floats) -> Design:
    """Return find(arms), cached if small."""
    if arms.size > _FEW:
        return find(arms)
    return _find_design(find, arms.shape, np.ascontiguousarray(arms).tobytes())


@lru_cache(maxsize=1 << 12)
def _find_design(find: Callable[[Floats], Design], shape: tuple[int, ...], numbers: bytes) -> Design:
    design = find(np.frombuffer(numbers).reshape(shape))
    for shared in (design.support, design.weights, design.coordinates):
        shared.flags.writeable = False
    return design


def _start(z: Floats) -> Floats:
    """Return equal weights on r spread arms: (K, r) -> (K,)."""
    rest, chosen = z.copy(), []
    for _ in range(z.shape[1]):
        chosen.append(_largest(np.einsum("ij,ij->i", rest, rest)))
        axis = rest[chosen[-1]] / np.linalg.norm(rest[chosen[-1]])
        rest -= np.outer(rest @ axis, axis)
    weights = np.zeros(len(z))
    weights[chosen] = 1 / len(chosen)
    return weights


def _improve_weights(z: Floats, weights: Floats, *, target: float, away: bool) -> Floats:
    """Make Fedorov-Wynn steps until g <= target; with `away`, also away steps."""
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
    """Return the first that is largest up to rounding, so that machines agree."""
    return int(np.argmax(values >= (1 - _TIED) * values.max()))


def _line_search(square: float, r: int, weight: float) -> float:
    """Return the step along e_x that maximises log det V; away at most `weight`."""
    if r == 1 or square <= 1 + 1e-12:
        best = 1.0 - 1e-12 if square > r else -math.inf
    else:
        best = (square / r - 1) / (square - 1)
    return best if best >= 0 else max(best, -weight / (1 - weight) if weight < 1 else 0.0)


def _leverages(z: Floats, weights: Floats) -> tuple[Floats, Floats]:
    held = np.flatnonzero(weights)
    inverse: Floats = np.asarray(np.linalg.inv((z[held] * weights[held, None]).T @ z[held]), dtype=float)
    return inverse, np.einsum("ij,ij->i", z @ inverse, z)


def _make_design(z: Floats, weights: Floats) -> Design:
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
