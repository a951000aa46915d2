"""Fewer arms for the same design matrix, after Caratheodory: r(r+1)/2 of them always suffice."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.linalg import upper


def prune(z: Floats, weights: Floats) -> Floats:
    """Weights with the same V(pi), up to a factor that only raises it, on at most r(r+1)/2 arms: (K, r), (K,) -> (K,).

    The entries of V(pi) are r(r+1)/2 equations for the weights, so with more arms there are directions in which the
    weights can move without changing V. One moves along one of them, its sum not negative, until the first weight is
    used up, and goes on in the directions that leave that arm alone. The sum of the weights can only fall: scaled back
    to 1 they raise V, that is lower g.
    """
    rows, columns = upper(z.shape[1])
    held = np.flatnonzero(weights > 0)
    if len(held) <= len(rows):
        return weights
    products = z[held][:, rows] * z[held][:, columns]  # (n, r(r+1)/2)
    left, sizes, _ = np.linalg.svd(products * len(z))  # whitened coordinates have squares of about 1/K
    free = left[:, np.count_nonzero(sizes > 1e-10 * sizes[0]) :].copy()  # (n, q): directions that do not change V
    kept = weights[held].copy()
    while free.shape[1]:
        along = free[:, 0] / np.max(np.abs(free[:, 0])) * (1 if np.sum(free[:, 0]) >= 0 else -1)
        steps = np.where(along > 1e-12, kept / np.maximum(along, 1e-12), np.inf)
        first = int(np.argmin(steps))
        kept = np.maximum(kept - steps[first] * along, 0.0)
        kept[first] = 0.0
        free = free[:, 1:] - np.outer(free[:, 0] / free[first, 0], free[first, 1:])
    pruned = np.zeros_like(weights)
    pruned[held] = kept
    return np.asarray(pruned / pruned.sum())
