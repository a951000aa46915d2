"""Analyzer of the tree: estimates of full batches, averaged with their parts, and the maximal ones added up.

Kept are, for each level, the sum of the estimates of the batches that have no full batch above them yet: O(k) memory,
since siblings are only ever added. When a batch fills, its own total and the sum of its parts' estimates are averaged
by inverse variances, and the parts are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.shapes import Bits
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.concurrent_shuffle.split import node_variances
from bandanna.protocols.concurrent_shuffle.views import Full
from bandanna.protocols.roles import Analyzer, Held
from bandanna.protocols.shuffle_binomial.analyzer import VectorSum
from bandanna.protocols.shuffle_bits.analyzer import BitSum

Sums = tuple[Floats, ...]  # for each level, (*R, dim)


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


@dataclass(frozen=True, kw_only=True)
class TreeSums(Analyzer):
    """The sums of maximal full batches; its state is made of released numbers only."""

    tree: BatchTree
    levels: tuple[VectorSum | BitSum, ...]
    weights: Weights
    dim: int

    def begin(self, replicates: tuple[int, ...] = ()) -> Sums:
        """Nothing released."""
        return tuple(np.zeros((*replicates, self.dim)) for _ in self.levels)

    def analyze(self, state: Sums, view: Full, source: NoiseSource) -> tuple[Sums, Estimate]:
        """The full batches of a view, lowest first, and the sum of everything released."""
        following = self.taken(state, view)
        return following, self.estimate(following, view.users)

    def taken(self, state: Sums, view: Full) -> Sums:
        """The sums with the batches that are full."""
        for level, batch in enumerate(view.levels):
            state = take_in(state, level, self.release(level, batch), self.weights.own)
        return state

    def release(self, level: int, batch: Held) -> Floats:
        """Unbiased sum of one full batch from its totals, (..., dim)."""
        return self.levels[level].estimate(np.asarray(batch.numbers, dtype=np.int64), batch.users).total

    def estimate(self, state: Sums, users: int) -> Estimate:
        """After so many users."""
        low = self.tree.sizes[0]
        total, variance = reduce(np.add, state[1:], state[0].copy()), float(self.variance(users))
        return Estimate(total=total, count=users // low * low, variance=variance)

    def variance(self, users: ArrayLike) -> Floats:
        """Of each coordinate of the estimate after so many users."""
        return np.asarray(self.tree.covering(users) @ self._variances)

    @cached_property
    def _variances(self) -> Floats:
        return np.asarray(self.weights.variances)


def level_sum(domain: Domain, noise: BinomialNoise) -> VectorSum | BitSum:
    """Analyzer of one level's batches."""
    return BitSum(noise=noise) if isinstance(domain, Bits) else VectorSum(domain=domain, noise=noise)


def take_in(sums: Sums, level: int, release: Floats, own: Sequence[float]) -> Sums:
    """The sums of maximal batches after a batch of `level` (from 0) was released; its parts are taken out."""
    following = list(sums)
    estimate = release
    if level > 0:
        if own[level] < 1.0:  # without averaging the parts are only dropped
            estimate = own[level] * release + (1 - own[level]) * sums[level - 1]
        following[level - 1] = np.zeros_like(sums[level - 1])
    following[level] = sums[level] + estimate
    return tuple(following)
