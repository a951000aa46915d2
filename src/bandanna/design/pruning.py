"""Fewer arms for the same design matrix, after Caratheodory: r(r+1)/2 of them always suffice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.linalg import upper

Floats = NDArray[np.float64]


def prune(z: Floats, weights: Floats) -> Floats:
    """Weights with the same V(pi), up to a factor that only raises it, on at most r(r+1)/2 arms: (K, r), (K,) -> (K,).

    A vertex of {w >= 0: sum_x w(x) x x^T = V(pi)} has at most r(r+1)/2 positive entries, one for each equation. The
    one with the least sum has a sum of at most 1; scaled back to 1 it can only raise V, that is lower g.
    """
    rows, columns = upper(z.shape[1])
    held = np.flatnonzero(weights > 0)
    if len(held) <= len(rows):
        return weights
    from scipy.optimize import linprog  # slow to load, and rarely needed

    products = z[held][:, rows] * z[held][:, columns]  # (n, r(r+1)/2)
    scale = len(z)  # whitened coordinates have squares of about 1/K
    vertex = linprog(
        np.ones(len(held)), A_eq=scale * products.T, b_eq=scale * (weights[held] @ products), method="highs-ds"
    )
    if not vertex.success:
        return weights
    kept = np.argsort(vertex.x)[::-1][: len(rows)]
    pruned = np.zeros_like(weights)
    pruned[held[kept]] = np.maximum(vertex.x[kept], 0.0)
    return np.asarray(pruned / np.sum(pruned))
