"""Concurrent shufflers: a tree of batches with one shuffler per level, for running sums in the shuffle model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.accounting.events import CompositionEvent
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.shapes import Bits
from bandanna.device.inversion import words_for
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import Floats, StreamProtocol, a_domain, checked_path, stated_delta
from bandanna.protocols.concurrent_shuffle import analyzer, law, privacy, randomizer, shuffler, whole
from bandanna.protocols.concurrent_shuffle.plan import plan_tree
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.shuffle_bits import privacy as bits

__all__ = ["BatchTree", "ConcurrentShuffle", "Running", "plan_tree"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Running:
    """After `users` users: what the shufflers hold (never published), and the analyzer's sums of maximal batches.

    `owed`: of how many users the coins are not yet in `held`, since path="law" draws those of a batch when it is full.
    """

    users: int
    held: tuple[NDArray[np.int64], ...]  # k times (*R, dim)
    sums: tuple[Floats, ...]  # k times (*R, dim)
    owed: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ConcurrentShuffle(StreamProtocol):
    """Every user sends one randomized message to each of k shufflers; a full batch is released as totals.

        estimate(t) = sum of the estimates of the maximal full batches up to t              [002, Definition 3.1]

    `tree` says which users share a batch; `noises` are the lattice and coins of each level; with `averaging` the
    estimate of a batch combines its own release with those of its parts. Users of the unfinished lowest batch are
    missing from the estimate (at most `tree.delay`), and unfinished batches are never released, not even at the end.

    Privacy: one user is in one batch of each level; the k releases compose (`privacy`), whatever later users do.
    k = 1 is the sequential shuffle model; degree 2 and k = log2(n) - 1 is Algorithm 2.
    Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Algorithm 3. Deviations: composition in Gaussian DP
    with a price for each level instead of epsilon/k, averaging, integer degrees for any horizon, tight noise.
    """

    tree: BatchTree
    noises: tuple[BinomialNoise, ...]
    averaging: bool = True

    name: ClassVar[str] = "concurrent_shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.participations != 1:
            raise InvalidArgument("participations", self.participations, "1: a returning user may be in a batch twice")
        if tuple(noise.users for noise in self.noises) != self.tree.sizes:
            sizes = tuple(noise.users for noise in self.noises)
            raise InvalidArgument("noises", sizes, f"one for each level, for batches of {self.tree.sizes}")
        if isinstance(self.domain, Bits):
            for noise in self.noises:
                bits.check(noise)

    @classmethod
    def calibrate(
        cls,
        *,
        domain: Domain,
        budget: Budget,
        horizon: int,
        shufflers: int | str = "best",
        degrees: str | tuple[int, ...] = "best",
        calibration: str = "tight",
        averaging: bool | None = None,
        lowest: int | None = None,
    ) -> ConcurrentShuffle:
        """Least noise over `horizon` users with k `shufflers` ("best" chooses k).

        degrees      "best": least (std of the worst prefix + (d_low - 1) times the value bound); "paper": n^{1/(2k+1)}
                     and n^{2/(2k+1)}; or (d_low, d_2, ..., d_k)
        calibration  "tight": prices compose in Gaussian DP; "paper": (epsilon/k, delta/k) per level, no averaging
        averaging    combine a batch with its parts; by default in tight mode only
        lowest       fix d_low, with degrees="best"
        """
        require.one_of("calibration", calibration, ("tight", "paper"))
        average = calibration == "tight" if averaging is None else averaging
        tree = plan_tree(
            a_domain(domain), budget, horizon, shufflers=shufflers, degrees=degrees, averaging=average, lowest=lowest
        )
        noises = privacy.calibrate(domain, budget, tree, averaging=average, calibration=calibration)
        return cls(domain=domain, tree=tree, noises=noises, averaging=average, delta=stated_delta(budget))

    @property
    def shufflers(self) -> int:
        """k."""
        return self.tree.levels

    @property
    def delay(self) -> int:
        """Most users who have arrived and are not yet in the estimate."""
        return self.tree.delay

    @property
    def event(self) -> CompositionEvent:
        """All that the stream releases about one user: one batch of every level."""
        return privacy.event(self.domain, self.noises)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Shuffle differential privacy under continual observation, and what is left against the shufflers."""
        return privacy.guarantee(self.domain, self.noises, self.delta)

    @property
    def bits_per_user(self) -> int:
        """The messages to all shufflers together, as integer counts."""
        return randomizer.message_bits(self.noises, self.domain)

    def draws(self, users: int) -> Draws:
        """Coins on every number of every message to each shuffler."""
        words = sum(words_for(noise.trials) for noise in self.noises)
        return Draws(words=users * self.domain.dim * words, numbers=users * self.domain.dim * self.shufflers)

    def level_stds(self) -> tuple[float, ...]:
        """Standard deviation of a coordinate of a batch's own release on each level, rounding included."""
        return tuple(bit_std(noise) if isinstance(self.domain, Bits) else noise.std() for noise in self.noises)

    @cached_property
    def weights(self) -> analyzer.Weights:
        """How a batch is combined with its parts, and how noisy it is then."""
        return analyzer.weights(self.tree, self.level_stds(), averaging=self.averaging)

    def prefix_variance(self, users: ArrayLike) -> Floats:
        """Variance of each coordinate of the estimate after so many users."""
        return np.asarray(self.tree.covering(users) @ np.asarray(self.weights.variances))

    def prefix_std(self) -> Floats:
        """After 1, 2, ... lowest batches."""
        low = self.tree.sizes[0]
        return np.asarray(np.sqrt(self.prefix_variance(np.arange(low, self.tree.horizon + 1, low))))

    def std(self) -> float:
        """Standard deviation of each coordinate of the worst prefix."""
        return float(np.sqrt(np.max(self.prefix_variance(self.tree.worst_steps))))

    def begin(self, replicates: tuple[int, ...] = ()) -> Running:
        """Empty shufflers, nothing released."""
        shape = (*replicates, self.domain.dim)
        held = tuple(np.zeros(shape, dtype=np.int64) for _ in self.noises)
        sums = tuple(np.zeros(shape) for _ in self.noises)
        return Running(users=0, held=held, sums=sums, owed=(0,) * self.shufflers)

    def release(
        self,
        state: Running,
        statistics: Statistic | ArrayLike,
        source: NoiseSource,
        *,
        path: str = "messages",
        clip: bool = True,
    ) -> tuple[Running, Estimate]:
        """Some more users, (..., users, dim), in any number: the next state and the estimate of all full batches."""
        checked_path(path, source)
        if not isinstance(state, Running):
            raise InvalidArgument("state", state, "what begin() or the last release returned")
        statistic = self.admit(statistics, clip=clip)
        self._check_room(state.users, statistic.users)
        if statistic.values.shape[:-2] != state.sums[0].shape[:-1]:
            allowed = f"replicates {state.sums[0].shape[:-1]}, as the stream began with"
            raise InvalidStatistic("statistics", f"array of shape {statistic.values.shape}", allowed)
        for part in self._parts(state.users, statistic):
            state = self._collect(state, part, source, path)
        count = state.users // self.tree.sizes[0] * self.tree.sizes[0]
        variance = float(self.prefix_variance(state.users))
        return state, Estimate(total=np.sum(state.sums, axis=0), count=count, variance=variance)

    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """A whole stream at once, in the law of `release` user by user: (..., users, dim) -> the same shape."""
        checked_path(path, source)
        values = self.admit(statistics, clip=clip).rows()
        self._check_room(0, values.shape[-2])
        return whole.prefixes(values, self.tree, self.noises, self.weights.own, self.domain, source, path)

    def _check_room(self, users: int, more: int) -> None:
        if users + more > self.tree.horizon:
            raise InvalidArgument("users", users + more, f"at most the horizon {self.tree.horizon}")

    def _parts(self, users: int, statistic: Statistic) -> Iterator[Statistic]:
        """The statistic cut where lowest batches fill."""
        low = self.tree.sizes[0]
        room = low - users % low
        if statistic.users <= room:
            yield statistic
            return
        values = statistic.rows()
        cuts = [0, *range(room, values.shape[-2], low), values.shape[-2]]
        for start, stop in pairwise(cuts):
            yield self.domain.sealed(values[..., start:stop, :], clipped=np.zeros_like(statistic.clipped))

    def _collect(self, state: Running, part: Statistic, source: NoiseSource, path: str) -> Running:
        """Users of one lowest batch: their messages to all shufflers, and the release of every batch that is full."""
        owed = list(state.owed)
        if path == "law":
            added = law.encoded(part, self.noises, self.domain, source)
            held = [before + more for before, more in zip(state.held, added, strict=True)]
            owed = [before + part.users for before in owed]
        else:
            messages = randomizer.randomize(part, self.noises, self.domain, source)
            held = [shuffler.collect(before, counts) for before, counts in zip(state.held, messages, strict=True)]
        users, sums = state.users + part.users, list(state.sums)
        for level, size in enumerate(self.tree.sizes):
            if users % size:
                break  # sizes divide each other: no higher batch is full either
            totals, held[level] = shuffler.forward(held[level])
            if owed[level]:
                totals = totals + law.coins(owed[level], self.noises[level], totals.shape, source)
                owed[level] = 0
            batch = analyzer.batch_estimate(totals, self.noises[level], self.domain)
            sums = analyzer.take_in(sums, level, batch, self.weights.own)
        return Running(users=users, held=tuple(held), sums=tuple(sums), owed=tuple(owed))
