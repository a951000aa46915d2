"""Epsilon-nets: a finite set of actions in place of an infinite one (remark 3.1 of paper 001).

A net of radius h leaves every action within h of one of its own, so with |theta| <= S the best action of the net
loses at most h S a round. A greedy net is a packing too: its points are farther than h from each other, so a set in
the unit ball of d dimensions has one of at most (1 + 2/h)^d points, which is at most (3/h)^d for h <= 1.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.design.span import arms_matrix
from bandanna.errors import InvalidArgument

_MOST = 2_000_000  # points of a lattice
_SHARE = 0.25  # of the radius, for the lattice that is thinned out


def epsilon_net(points: ArrayLike, *, radius: float) -> Floats:
    """Some of the points, such that each point is within `radius` of one of them: (n, d) -> (m, d).

    Farthest point first (Gonzalez 1985). For an infinite set give a sample so dense that it covers the set within h':
    then the net covers the set within radius + h'.
    """
    require.positive("radius", radius)
    rows = arms_matrix(points)
    chosen = [0]
    distance = _squared(rows, rows[0])
    while True:
        farthest = int(np.argmax(distance))
        if distance[farthest] <= radius**2:
            return np.ascontiguousarray(rows[chosen])
        chosen.append(farthest)
        np.minimum(distance, _squared(rows, rows[farthest]), out=distance)


def ball_net(dim: int, *, radius: float) -> Floats:
    """A net of the unit ball of `dim` dimensions, inside the ball, on at most (1 + 8/(3 radius))^dim points.

    A lattice that covers the ball within radius/4, moved into the ball and thinned out to 3/4 of the radius.
    """
    dim, radius = require.whole("dim", dim), require.positive("radius", radius)
    if radius >= 1:
        return np.zeros((1, dim))
    spacing = 2 * _SHARE * radius / math.sqrt(dim)  # the farthest point of a cell is spacing sqrt(dim)/2 from a corner
    side = math.ceil(1 / spacing)
    if (2 * side + 1) ** dim > _MOST:
        allowed = f"one with at most {_MOST} lattice points, or a sample of one's own and epsilon_net"
        raise InvalidArgument("dim, radius", (dim, radius), allowed)
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
