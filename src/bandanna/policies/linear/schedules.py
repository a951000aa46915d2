"""When a policy learns: public schedules of batch sizes, fixed in advance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.sizes import Sizes
from bandanna.errors import InvalidArgument
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as

_MOST = 10**5  # growing batches, which are listed one by one
_AROUND = 3  # steps of a quarter: a factor of 1.95


class Schedule(ABC):
    """A rule that divides a horizon into batches. A last batch that does not fit is not released."""

    @abstractmethod
    def sizes(self, horizon: int) -> Sizes:
        """Sizes of the complete batches."""


@stored_as("FixedBatches")
@dataclass(frozen=True, kw_only=True)
class FixedBatches(Schedule):
    """Batches of `size` users."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", require.whole("batch", self.size))

    def sizes(self, horizon: int) -> Sizes:
        """floor(horizon / size) equal batches."""
        times = horizon // self.size
        if times > require.EXACT:
            raise InvalidArgument("batch", self.size, f"larger ones: at most {require.EXACT:,} fit into a horizon")
        return Sizes(((self.size, times),) if times else ())


@stored_as("GeometricBatches")
@dataclass(frozen=True, kw_only=True)
class GeometricBatches(Schedule):
    """Batches that grow: ceil(first ratio^i). The noise of log T releases adds up, not of T/B.

    Right for stochastic contexts that are fresh in every round; with fixed arms, fixed batches are better.
    """

    first: int
    ratio: float

    def __post_init__(self) -> None:
        require.store(self, require.whole, "first")
        require.store(self, require.moderate, "ratio")
        if self.ratio < 1:
            raise InvalidArgument("ratio", self.ratio, "a number >= 1")

    def sizes(self, horizon: int) -> Sizes:
        """Growing batches, the last one stretched to the horizon if what is left would be smaller than it."""
        sizes: list[int] = []
        left, step = horizon, 0
        while left > 0:
            size = math.ceil(self.first * self.ratio**step)
            following = math.ceil(self.first * self.ratio ** (step + 1))
            if left < size:
                break
            if left - size < following:
                size = left
            if len(sizes) == _MOST:
                allowed = f"one that fills {horizon} rounds with at most {_MOST:,} batches"
                raise InvalidArgument("first, ratio", (self.first, self.ratio), allowed)
            sizes.append(size)
            left, step = left - size, step + 1
        return Sizes.of(sizes)


def geometric(*, first: int, ratio: float) -> GeometricBatches:
    """Batches of first, first ratio, first ratio^2, ... users."""
    return GeometricBatches(first=first, ratio=ratio)


def best_batch(bound: Callable[[int], Any], *, least: int, most: int, known: int | None = None) -> int:
    """The batch size with the least `bound`: of doublings from `least` to `most`, of steps of a quarter around the best
    of them, and of a `known` size.

    Bounds have several valleys, and the noise of a tree falls in leaps of a factor 2 of the size: so every doubling is
    looked at. No size is asked for twice.
    """
    of = lru_cache(maxsize=None)(bound)
    doublings = {min(most, least << step) for step in range(math.ceil(math.log2(most / least)) + 1)}
    first = min(sorted(doublings), key=of)
    near = {min(most, max(least, round(first * 1.25**step))) for step in range(-_AROUND, _AROUND + 1)}
    return min(sorted(near | ({known} if known is not None else set())), key=of)


def concurrent_batch(horizon: int, shufflers: int | str) -> int:
    """Users in a lowest batch of k concurrent shufflers, for a bandit: B = T^{(2k+1)/(4k+1)}, or T^{1/2} for "best".

    A bandit plays about d B rounds with an old estimate, and noise of std sigma' in its sums costs sqrt(T sigma'), with
    sigma' ~ (T/B)^{1/(2k)} for k levels above batches of B: B + T^{1/2 + 1/(4k)} B^{-1/(4k)} is least at this B. It is
    T^{3/5} for k = 1, as in [000], and regret is of that order, less than [002, Theorem 5.1] has for batches that suit
    a counter, T^{(k+1)/(2k+1)}. Where k levels would not fill, B is made smaller.
    """
    if isinstance(shufflers, str):
        return min(horizon, max(2, round(math.sqrt(horizon))))
    rate = (2 * shufflers + 1) / (4 * shufflers + 1)
    return max(2, min(round(math.pow(horizon, rate)), horizon >> (shufflers - 1)))


@stored_as("InformedBatches")
@dataclass(frozen=True, kw_only=True)
class InformedBatches(Schedule):
    """Batches that grow from `first` by `ratio` to `most`, released while half as many users are still to come."""

    first: int
    ratio: float
    most: int | None = None

    def sizes(self, horizon: int) -> Sizes:
        """Those that somebody learns from; one at least."""
        sizes: list[int] = []
        left, size = horizon, self.first
        while left >= 1.5 * size or not sizes:
            if self.most is not None and size >= self.most:  # and so on
                often = max(1, (left - self.most // 2) // self.most)
                return Sizes((*Sizes.of(sizes).runs, (self.most, often)))
            sizes.append(min(size, left))
            left, size = left - size, math.ceil(self.first * self.ratio ** len(sizes))
        return Sizes.of(sizes)


def informed(privacy: Privacy, *, domain: Domain, dim: int, horizon: int, blocks: int = 1) -> InformedBatches:
    """`batch="auto"`: a first batch in which d features can be told from the noise, then batches 1.5 times as large.

        first = min(T/8, max(2 d, 3 (d - 1)^{3/2} r)),     r = sqrt(1.5) std

    with std that of one batch's noise: a fresh batch must outweigh its matrix of noise, whose norm is about r sqrt d,
    in each of d directions. In the shuffle model, where every batch pays anew, batches double if there are many; where
    users return, they pay in all of them, and few batches are better: then they double or grow threefold. Local noise
    does not depend on the batches. With `blocks`, at least 7 d users for each. Public numbers only.
    """
    least, returning = 2 * dim * blocks, privacy.participations if privacy.model != "local" else 1
    ratio = 1.5 if returning == 1 else 2.0 if returning < 5 else 3.0
    if privacy.noisy and privacy.model != "local":
        assert privacy.budget is not None
        often = min(returning, max(1, math.ceil(math.log(max(2, horizon / least), ratio))))
        std = CentralGaussian.calibrate(domain=domain, budget=privacy.budget, participations=often).noise_std
        wanted = 3 * max(1, dim - 1) ** 1.5 * math.sqrt(1.5) * std
        wanted = max(wanted, 7 * dim * blocks) if blocks > 1 else wanted
        least = round(min(max(least, wanted), 2.0**62))
    first = max(2, min(horizon // 8, least))
    doubling = privacy.model == "shuffle" and horizon > 500 * first
    return InformedBatches(first=first, ratio=max(ratio, 2.0) if doubling else ratio)
