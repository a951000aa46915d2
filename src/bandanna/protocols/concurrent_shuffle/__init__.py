"""Concurrent shufflers: a tree of batches with one shuffler per level, for running sums in the shuffle model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.accounting.events import ClearEvent, CompositionEvent
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.report import entrywise
from bandanna.core.shapes import Bits
from bandanna.device import Levels
from bandanna.device.inversion import words_for
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import StreamProtocol, a_domain, checked_path, stated_delta
from bandanna.protocols.concurrent_shuffle import law, privacy, randomizer, shuffler, whole
from bandanna.protocols.concurrent_shuffle.analyzer import TreeSums, Weights, level_sum, weights
from bandanna.protocols.concurrent_shuffle.plan import plan_tree
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.concurrent_shuffle.views import HeldLevels
from bandanna.protocols.roles import COINS, same_replicates, shuffler_sees
from bandanna.protocols.shuffle_bits import privacy as bits
from bandanna.storage.declared import stored_as

__all__ = ["BatchTree", "ConcurrentShuffle", "HeldLevels", "Running", "plan_tree"]


@stored_as("ConcurrentShuffleState")
@dataclass(frozen=True, kw_only=True, eq=False)
class Running:
    """What the shufflers hold, one per level (never published), and the analyzer's sums of maximal batches."""

    held: HeldLevels
    sums: tuple[Floats, ...]  # k times (*R, dim)


@stored_as("ConcurrentShuffle")
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
    coins: str = "device"  # "checked", "mixer": as of each level's sum, see `ShuffleBinomial`

    name: ClassVar[str] = "concurrent_shuffle"
    trust: ClassVar[str] = "concurrent shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.one_of("coins", self.coins, COINS)
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
        coins: str = "device",
    ) -> ConcurrentShuffle:
        """Least noise over `horizon` users with k `shufflers` ("best" chooses k).

        degrees      "best": least (std of the worst prefix + (d_low - 1) times the value bound); "paper": n^{1/(2k+1)}
                     and n^{2/(2k+1)}; or (d_low, d_2, ..., d_k)
        calibration  "tight": prices compose in Gaussian DP; "paper": the printed noise of the vector sum for
                     (epsilon/k, delta/k) on each level, no averaging; for bits, whose noise is not printed, the least
        averaging    combine a batch with its parts; by default in tight mode only
        lowest       fix d_low, with degrees="best"
        coins        who draws them: "device", "checked" or "mixer"
        """
        require.one_of("coins", coins, COINS)
        require.one_of("calibration", calibration, ("tight", "paper"))
        average = calibration == "tight" if averaging is None else averaging
        domain = (
            entrywise(domain) if require.one_of("calibration", calibration, ("tight", "paper")) == "paper" else domain
        )
        tree = plan_tree(
            a_domain(domain), budget, horizon, shufflers=shufflers, degrees=degrees, averaging=average, lowest=lowest
        )
        noises = privacy.calibrate(domain, budget, tree, averaging=average, calibration=calibration, coins=coins)
        delta = stated_delta(budget)
        return cls(domain=domain, tree=tree, noises=noises, averaging=average, delta=delta, coins=coins)

    @property
    def shufflers(self) -> int:
        """k."""
        return self.tree.levels

    @property
    def delay(self) -> int:
        """Most users who have arrived and are not yet in the estimate."""
        return self.tree.delay

    @cached_property
    def event(self) -> CompositionEvent:
        """All that the stream releases about one user: one batch of every level."""
        return privacy.event(self.domain, self.noises, self.coins)

    @property
    def local_event(self) -> CompositionEvent | ClearEvent:
        """What all shufflers together see of one user."""
        return privacy.local_event(self.domain, self.noises, self.coins)

    @property
    def exposed(self) -> float:
        """How often one of the shufflers is sure."""
        return privacy.exposed(self.domain, self.noises, self.coins)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """A shuffler sees its level's counts."""
        shufflers = "the shuffler" if self.shufflers == 1 else f"each of the {self.shufflers} shufflers"
        return (
            (shufflers, shuffler_sees(self.coins, "counts for its level", "statistic")),
            ("the analyzer and everybody else", "the totals of every full batch of every level"),
        )

    @cached_property
    def device(self) -> Levels:
        """One message for each shuffler."""
        return randomizer.device(self.domain, self.noises, self.coins)

    @cached_property
    def mixer(self) -> LevelMixer:
        """The shufflers, one per level."""
        return shuffler.mixer(self.domain, self.noises, self.coins)

    @cached_property
    def analyzer(self) -> TreeSums:
        """Estimates of full batches, averaged with their parts."""
        levels = tuple(level_sum(self.domain, noise) for noise in self.noises)
        return TreeSums(tree=self.tree, levels=levels, weights=self.weights, dim=self.domain.dim)

    @property
    def bits_per_user(self) -> int:
        """The messages to all shufflers together, as integer counts."""
        return randomizer.message_bits(self.noises, self.domain, self.coins)

    def draws(self, users: int) -> Draws:
        """Coins on every number of every message to each shuffler, or on the totals of all levels."""
        dim = self.domain.dim
        if self.coins == "mixer":
            words = sum(words_for(noise.users * noise.trials) for noise in self.noises)
        else:
            words = users * sum(words_for(noise.trials) for noise in self.noises)
        return Draws(words=dim * words, numbers=users * dim * self.shufflers)

    def level_stds(self) -> tuple[float, ...]:
        """Standard deviation of a coordinate of a batch's own release on each level, rounding included."""
        return tuple(bit_std(noise) if isinstance(self.domain, Bits) else noise.std() for noise in self.noises)

    @cached_property
    def weights(self) -> Weights:
        """How a batch is combined with its parts, and how noisy it is then."""
        return weights(self.tree, self.level_stds(), averaging=self.averaging)

    def prefix_variance(self, users: ArrayLike) -> Floats:
        """Variance of each coordinate of the estimate after so many users."""
        return self.analyzer.variance(users)

    def prefix_std(self) -> Floats:
        """After 1, 2, ... lowest batches."""
        low = self.tree.sizes[0]
        return np.asarray(np.sqrt(self.prefix_variance(np.arange(low, self.tree.horizon + 1, low))))

    def std(self) -> float:
        """Standard deviation of each coordinate of the worst prefix."""
        return float(np.sqrt(np.max(self.prefix_variance(self.tree.worst_steps))))

    def begin(self, replicates: tuple[int, ...] = ()) -> Running:
        """Empty shufflers, nothing released."""
        return Running(held=self.mixer.empty(replicates), sums=self.analyzer.begin(replicates))

    def parted(self, state: Running) -> tuple[HeldLevels, tuple[Floats, ...]]:
        """The shufflers' and the analyzer's."""
        return state.held, state.sums

    def joined(self, held: HeldLevels, analyzed: tuple[Floats, ...]) -> Running:
        """Both together."""
        return Running(held=held, sums=analyzed)

    def check_users(self, state: Running, users: int) -> None:
        """As many as the horizon has."""
        if not isinstance(state, Running):
            raise InvalidArgument("state", type(state).__name__, "what begin() or the last release returned")
        self._check_room(state.held.users, users)

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
        by_law = self.coins != "mixer" and isinstance(state, Running) and any(state.held.owed)
        if path == "messages" and by_law:  # of earlier users
            state = replace(state, held=law.settled(state.held, self.noises, source, levels=self.shufflers))
        return super().release(state, statistics, source, path=path, clip=clip)

    def law(self, state: Running, statistic: Statistic, source: NoiseSource) -> tuple[Running, Estimate]:
        """Encoded statistics as users arrive, the coins of a batch when it is full."""
        held, sums = state.held, state.sums
        for part in self._parts(held.users, statistic):
            added = law.encoded(part, self.noises, self.domain, source)
            same_replicates(part.values, held.totals[0].shape[:-1])
            held = law.arrived(held, part.users, added)
            held = law.settled(held, self.noises, source, levels=self.mixer.full(held.users))
            sums, held = self.analyzer.taken(sums, self.mixer.close(held)), self.mixer.forget(held)
        return Running(held=held, sums=sums), self.analyzer.estimate(sums, held.users)

    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """A whole stream at once, in the law of `release` user by user: (..., users, dim) -> the same shape."""
        checked_path(path, source)
        values = self.admit(statistics, clip=clip).rows()
        self._check_room(0, values.shape[-2])
        return whole.prefixes(values, self.device, self.mixer, self.analyzer, source, path)

    def after_batches(self, ones: Ints, source: NoiseSource) -> Floats:
        """Whole streams of bits by how many ones each lowest batch has, for simulation: (..., N_1) -> the same shape.

        In the law of `release`, and draw for draw `prefixes(path="law")` at the end of every batch.
        """
        counts = np.asarray(ones, dtype=np.int64)
        noise = self.noise_of_bits(counts.shape, source)
        if np.any(counts < 0) or np.any(counts > self.tree.sizes[0]):
            raise InvalidStatistic("ones", counts, f"from 0 to {self.tree.sizes[0]}, the users of a batch")
        return np.asarray(np.cumsum(counts, axis=-1) + noise)

    def noise_of_bits(self, shape: tuple[int, ...], source: NoiseSource) -> Floats:
        """What `after_batches` adds to the true counts, whatever the bits are: (..., N_1)."""
        checked_path("law", source)
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "bd.Bits(): only of bits do counts tell everything")
        if len(shape) < 1 or not 1 <= shape[-1] <= self.tree.batches[0]:
            raise InvalidArgument("ones", shape, f"(..., batches), at most {self.tree.batches[0]} of them")
        return np.asarray(whole.noise_of_bits(shape, self.analyzer, source)[..., 0])

    def _check_room(self, users: int, more: int) -> None:
        if users + more > self.tree.horizon:
            raise InvalidArgument("users", users + more, f"at most the horizon {self.tree.horizon}")

    def _parts(self, users: int, statistic: Statistic) -> Iterator[Statistic]:
        """The statistic cut where lowest batches fill."""
        low = self.tree.sizes[0]
        if statistic.users <= low - users % low:
            yield statistic
            return
        values = statistic.rows()
        for start, stop in shuffler.cuts(users, values.shape[-2], low):
            yield self.domain.sealed(values[..., start:stop, :], clipped=np.zeros_like(statistic.clipped))
