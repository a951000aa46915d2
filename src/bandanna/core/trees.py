"""Prefix sums from a tree of noisy block sums, all at once: shared by central trees and concurrent shufflers.

Level j = 1..k has N_j blocks, d_{j+1} of level j in one of level j + 1; blocks that are not complete do not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandanna.core.arrays import Floats


def averaged(own: Sequence[Floats], degrees: Sequence[int], weights: Sequence[float]) -> list[Floats]:
    """Estimates of the blocks, bottom-up: weight on the own release, the rest on the sum of the parts' estimates.

    own: for each level (..., N_j, dim); degrees d_2, ..., d_k; weights for each level, 1 on the lowest.
    """
    estimates = [own[0]]
    for release, degree, weight in zip(own[1:], degrees, weights[1:], strict=True):
        if weight == 1.0:
            estimates.append(release)
            continue
        parts = estimates[-1][..., : release.shape[-2] * degree, :]
        grouped = parts.reshape(*parts.shape[:-2], release.shape[-2], degree, parts.shape[-1])
        estimates.append(weight * release + (1 - weight) * np.sum(grouped, axis=-2))
    return estimates


def prefixes(blocks: Sequence[Floats], degrees: Sequence[int]) -> Floats:
    """After every lowest block, the sum of the maximal complete blocks: estimates by level -> (..., N_1, dim)."""
    total = _cumulated(blocks[-1])  # (..., N_k + 1, dim): after 0, 1, ... blocks of the top level
    for level, degree in zip(reversed(blocks[:-1]), reversed(degrees), strict=True):
        inside = _cumulated(level)
        parent = np.arange(inside.shape[-2]) // degree
        total = total[..., parent, :] + inside - inside[..., parent * degree, :]
    return np.asarray(total[..., 1:, :])


def _cumulated(values: Floats) -> Floats:
    """Cumulative sums along the blocks, from 0 on."""
    sums = np.zeros((*values.shape[:-2], values.shape[-2] + 1, values.shape[-1]))
    np.cumsum(values, axis=-2, out=sums[..., 1:, :])
    return sums
