"""Sums of blocks of a tree over a sequence of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.types import Floats

_FEW = 8  # parts of a block: NumPy's sums are pairwise from here on
Numbers = TypeVar("Numbers", NDArray[np.float64], NDArray[np.int64])


def average_blocks(own: Sequence[Floats], degrees: Sequence[int], weights: Sequence[float]) -> list[Floats]:
    """Estimate the blocks bottom-up: a weight on the own release, the rest on the sum of the parts' estimates.

    own: for each level (..., N_j, dim); degrees d_2, ..., d_k; weights for each level, 1 on the lowest.
    """
    estimates = [own[0]]
    for release, degree, weight in zip(own[1:], degrees, weights[1:], strict=True):
        if weight == 1.0:
            estimates.append(release)
            continue
        combined = sum_parts(estimates[-1], release.shape[-2], degree)
        combined *= 1 - weight
        combined += weight * release
        estimates.append(combined)
    return estimates


def sum_parts(parts: Numbers, count: int, degree: int) -> Numbers:
    """Sum `count` groups of `degree` blocks: (..., N_j, dim) -> (..., count, dim)."""
    whole = parts[..., : count * degree, :]
    if degree < _FEW:  # NumPy's sums over few numbers take several times as long, and are the same to the last bit
        summed = whole[..., ::degree, :].copy()
        for place in range(1, degree):
            summed += whole[..., place::degree, :]
        return summed
    return np.asarray(np.sum(whole.reshape(*parts.shape[:-2], count, degree, parts.shape[-1]), axis=-2))


def compute_prefixes(blocks: Sequence[Floats], degrees: Sequence[int]) -> Floats:
    """Return, after every lowest block, the sum of the maximal complete blocks: blocks by level -> (..., N_1, dim)."""
    total = _cumulate(blocks[-1])  # (..., N_k + 1, dim): after 0, 1, ... blocks of the top level
    for level, degree in zip(reversed(blocks[:-1]), reversed(degrees), strict=True):
        total = _extend_prefixes(total, level, degree)
    return np.asarray(total[..., 1:, :])


def _extend_prefixes(total: Floats, blocks: Floats, degree: int) -> Floats:
    """Return, after 0, 1, ... blocks of a level, the total of their parents plus the blocks in the open parent."""
    *shape, count, dim = blocks.shape
    parents = count // degree
    after = np.empty((*shape, count + 1, dim))
    after[..., ::degree, :] = begun = total[..., : parents + 1, :]
    if degree >= _FEW:
        whole = parents * degree
        inside = np.cumsum(blocks[..., :whole, :].reshape(*shape, parents, degree, dim), axis=-2)[..., :-1, :]
        here = after[..., :whole, :].reshape(*shape, parents, degree, dim)[..., 1:, :]
        np.add(begun[..., :-1, None, :], inside, out=here)
        after[..., whole + 1 :, :] = begun[..., -1:, :] + np.cumsum(blocks[..., whole:, :], axis=-2)
        return after
    for place in range(1, degree):
        more, here = blocks[..., place - 1 :: degree, :], after[..., place::degree, :]
        begun = np.add(begun[..., : more.shape[-2], :], more, out=here)
    return after


def _cumulate(values: Floats) -> Floats:
    """Return cumulative sums along the blocks, from 0 on."""
    sums = np.zeros((*values.shape[:-2], values.shape[-2] + 1, values.shape[-1]))
    np.cumsum(values, axis=-2, out=sums[..., 1:, :])
    return sums
