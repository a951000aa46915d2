"""Analyzer of the tree: estimates of full batches, averaged with their parts, and the maximal ones added up.

Kept are, for each level, the sum of the estimates of the batches that have no full batch above them yet: O(k) memory,
since siblings are only ever added. When a batch fills, its own total and the sum of its parts' estimates are averaged
by inverse variances, and the parts are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.concurrent_shuffle.split import node_variances
from bandanna.protocols.shuffle_binomial import analyzer as vectors
from bandanna.protocols.shuffle_bits import analyzer as bits

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """For each level: variance of a batch's estimate, and the weight of its own release in it."""

    variances: tuple[float, ...]
    own: tuple[float, ...]


def weights(tree: BatchTree, stds: Sequence[float], *, averaging: bool) -> Weights:
    """From the standard deviations of the releases; weight v_j / w_j (1 without averaging)."""
    releases = [std**2 for std in stds]
    variances = node_variances(tree, releases, averaging)
    shares = (v / w if averaging else 1.0 for v, w in zip(variances, releases, strict=True))
    return Weights(variances=tuple(variances), own=tuple(shares))


def batch_estimate(totals: NDArray[np.int64], noise: BinomialNoise, domain: Domain) -> Floats:
    """Unbiased sum of one full batch from its totals, (..., dim)."""
    if isinstance(domain, Bits):
        return bits.analyze(totals, noise).total
    return vectors.analyze(totals, noise, domain).total


def take_in(sums: Sequence[Floats], level: int, release: Floats, own: Sequence[float]) -> list[Floats]:
    """The sums of maximal batches after a batch of `level` (from 0) was released; its parts are taken out."""
    following = list(sums)
    estimate = release
    if level > 0:
        if own[level] < 1.0:  # without averaging the parts are only dropped
            estimate = own[level] * release + (1 - own[level]) * sums[level - 1]
        following[level - 1] = np.zeros_like(sums[level - 1])
    following[level] = sums[level] + estimate
    return following
