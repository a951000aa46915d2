"""Fewer arms for the same design matrix, after Caratheodory: r(r+1)/2 of them always suffice."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.linalg import upper

_TIED = 1e-9  # more than rounding, less than any difference that matters


def prune(z: Floats, weights: Floats) -> Floats:
    """Weights with the same V(pi), up to a factor that only raises it, on at most r(r+1)/2 arms: (K, r), (K,) -> (K,).

    The entries of V(pi) are r(r+1)/2 equations for the weights, so with more arms there are directions in which the
    weights can move without changing V. One moves along one of them, its sum not negative, until the first weight is
    used up, and goes on in the directions that leave that arm alone. The sum of the weights can only fall: scaled back
    to 1 they raise V, that is lower g. Which direction, which way and which arm is told apart from its like by the
    order of the arms, not by rounding: machines agree.
    """
    rows, columns = upper(z.shape[1])
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
        free = _without(free, free[first])
        free[first] = 0.0
    pruned = np.zeros_like(weights)
    pruned[held] = kept
    return np.asarray(pruned / pruned.sum())


def _without(basis: Floats, row: Floats) -> Floats:
    """An orthonormal basis of those combinations of an orthonormal one in which this row is 0 (Householder)."""
    mirror = row / np.linalg.norm(row)
    mirror[0] += 1.0 if mirror[0] >= 0 else -1.0
    return np.asarray(basis - np.outer(basis @ mirror, mirror / abs(mirror[0])))[:, 1:]
