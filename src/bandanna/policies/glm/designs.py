"""Near-G-optimal designs of many small sets of arms at once: one distribution for every context.

    g(pi) = max_x |x|^2_{V(pi)^{-1}} <= 2 r,     V(pi) = sum_x pi(x) x x^T,     r the dimension of the span

Start and steps as in `design.optimal` (Fedorov and Wynn with the exact line search), for all sets side by side and with
some arms left out of each. Arms that do not span are kept in their span by a tiny multiple of the identity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats

_TINY = 1e-10


def designs(arms: Floats, alive: NDArray[np.bool_], *, factor: float = 2.0, most_steps: int = 200) -> Floats:
    """Weights (n, K) of sum 1 on the living arms of sets (n, K, d); g <= factor r unless the steps run out."""
    weights, rank = _start(arms, alive)
    open_ = np.arange(len(arms))
    for _ in range(most_steps):
        squares = np.where(alive[open_], _leverages(arms[open_], weights[open_]), 0.0)
        worst = np.argmax(squares, axis=1)
        top = squares[np.arange(len(open_)), worst]
        going = top > factor * rank[open_]
        if not np.any(going):
            break
        open_, worst, top = open_[going], worst[going], top[going]
        step = (top / rank[open_] - 1) / np.maximum(top - 1, 1e-12)  # exact line search
        weights[open_] *= (1 - step)[:, None]
        weights[open_, worst] += step
    return weights


def _start(arms: Floats, alive: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """Equal weights on up to d arms, each the farthest from the span of those before; and how many: the rank."""
    n, _, d = arms.shape
    rest, weights, index = np.where(alive[..., None], arms, 0.0), np.zeros(arms.shape[:2]), np.arange(n)
    scale = np.max(np.sum(rest**2, axis=2), axis=1)
    rank = np.zeros(n, dtype=np.int64)
    for _ in range(d):
        lengths = np.sum(rest**2, axis=2)
        chosen = np.argmax(lengths, axis=1)
        length = lengths[index, chosen]
        new = length > 1e-12 * np.maximum(scale, 1e-300)
        weights[index[new], chosen[new]] += 1.0
        rank += new
        axis = rest[index, chosen] / np.sqrt(np.maximum(length, 1e-300))[:, None]
        rest = rest - (rest @ axis[:, :, None]) * axis[:, None, :]
    lost = rank == 0  # all arms are zero: any of them will do
    weights[lost] = alive[lost]
    return weights / np.sum(weights, axis=1, keepdims=True), np.maximum(rank, 1)


def _leverages(arms: Floats, weights: Floats) -> Floats:
    """|x|^2_{V^{-1}} of every arm, (n, K)."""
    matrix = np.swapaxes(arms * weights[..., None], 1, 2) @ arms
    trace = np.trace(matrix, axis1=1, axis2=2)[:, None, None]
    inverse = np.linalg.inv(matrix + (_TINY * trace + 1e-200) * np.eye(arms.shape[2]))
    return np.asarray(np.einsum("nkd,nkd->nk", arms @ inverse, arms))
