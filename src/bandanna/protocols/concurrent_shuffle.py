"""Concurrent shufflers: running sums in the shuffle model by a tree of batches with one shuffler per level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Bits, Domain, Estimate, Statistic
from bandanna.device.linear_report import drop_isometry
from bandanna.device.noise import NoiseSource, ReleaseCost
from bandanna.device.randomizers import LevelRandomizers, level_source
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric import exact_sums
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import ClearEvent, CompositionEvent
from bandanna.protocols import batch_tree
from bandanna.protocols.base import StreamProtocol, check_domain, check_path, stated_delta
from bandanna.protocols.batch_tree import BatchTree, node_variances, plan_tree
from bandanna.protocols.mixers import (
    COIN_SOURCES,
    Analyzer,
    CountingMixer,
    FullBatches,
    LevelMixerState,
    Mixer,
    MixerState,
    check_replicates,
    describe_shuffler_view,
    draw_batch_coins,
)
from bandanna.protocols.shuffle_binomial import (
    ShuffleBinomial,
    VectorSumAnalyzer,
    encode_groups,
    encode_small_groups,
    encode_sums,
)
from bandanna.protocols.shuffle_bits import BitSumAnalyzer, ShuffleBits
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

_FEW, _GROUPS = 100, 2  # users whose coins are drawn faster one by one than as two binomial numbers

_CHUNK = 1 << 22  # numbers held at a time

Sums = tuple[Floats, ...]  # for each level, (*R, dim)


@stored_as("ConcurrentShuffleState")
@dataclass(frozen=True, kw_only=True, eq=False)
class ConcurrentState:
    """One shuffler's state per level (never published), and the analyzer's sums."""

    held: LevelMixerState
    sums: tuple[Floats, ...]  # k times (*R, dim)


@stored_as("ConcurrentShuffle")
@dataclass(frozen=True, kw_only=True)
class ConcurrentShuffle(StreamProtocol):
    """Every user sends one randomized message to each of k shufflers; a full batch is released as totals.

        estimate(t) = sum of the estimates of the maximal full batches up to t              [002, Definition 3.1]

    Users of the unfinished lowest batch are missing (at most `tree.delay`). Unfinished batches are never released.

    Privacy: a user is in one batch of each level, and the k releases compose (`batch_tree`). k = 1 is the sequential
    shuffle model. Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Algorithm 3. Deviations: a price for
    each level in Gaussian DP instead of epsilon/k, averaging, integer degrees for any horizon, tight noise.

    Parameters
    ----------
    tree
        Which users share a batch.
    noises
        Lattice and coins of each level.
    averaging
        Combine a batch's release with those of its parts.
    coins
        As in `ShuffleBinomial`, for each level's sum.
    """

    tree: BatchTree
    noises: tuple[BinomialNoise, ...]
    averaging: bool = True
    coins: str = "device"  # "checked", "mixer": as of each level's sum, see `ShuffleBinomial`

    name: ClassVar[str] = "concurrent_shuffle"
    trust: ClassVar[str] = "concurrent shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.participations != 1:
            raise InvalidArgument("participations", self.participations, "1: a returning user may be in a batch twice")
        if tuple(noise.users for noise in self.noises) != self.tree.sizes:
            sizes = tuple(noise.users for noise in self.noises)
            raise InvalidArgument("noises", sizes, f"one for each level, for batches of {self.tree.sizes}")
        _ = self.levels

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
        """Find the least noise over `horizon` users.

        Parameters
        ----------
        shufflers
            Number of levels k, or "best" for the k with the least error.
        degrees
            "best": least (std of the worst prefix + (d_low - 1) times the value bound). "paper": n^{1/(2k+1)} and
            n^{2/(2k+1)}. Or (d_low, d_2, ..., d_k).
        calibration
            "tight": prices compose in Gaussian DP. "paper": the printed noise for (epsilon/k, delta/k) on each level,
            without averaging; for bits, whose noise is not printed, the least noise.
        averaging
            Combine a batch with its parts. By default in tight mode only.
        lowest
            Fixes d_low, with degrees="best".
        coins
            As in `ShuffleBinomial`.
        """
        validation.one_of("coins", coins, COIN_SOURCES)
        if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
            domain = drop_isometry(domain)
        average = calibration == "tight" if averaging is None else averaging
        tree = plan_tree(
            check_domain(domain),
            budget,
            horizon,
            shufflers=shufflers,
            degrees=degrees,
            averaging=average,
            lowest=lowest,
        )
        noises = batch_tree.calibrate_levels(
            domain, budget, tree, averaging=average, calibration=calibration, coins=coins
        )
        delta = stated_delta(budget)
        return cls(domain=domain, tree=tree, noises=noises, averaging=average, delta=delta, coins=coins)

    @cached_property
    def levels(self) -> tuple[ShuffleBinomial | ShuffleBits, ...]:
        if isinstance(self.domain, Bits):
            return tuple(ShuffleBits(noise=noise, coins=self.coins) for noise in self.noises)
        return tuple(ShuffleBinomial(domain=self.domain, noise=noise, coins=self.coins) for noise in self.noises)

    @property
    def shufflers(self) -> int:
        return self.tree.levels

    @property
    def delay(self) -> int:
        return self.tree.delay

    @cached_property
    def event(self) -> CompositionEvent:
        return batch_tree.all_levels_event(self.domain, self.noises, self.coins)

    @property
    def local_event(self) -> CompositionEvent | ClearEvent:
        return batch_tree.local_levels_event(self.domain, self.noises, self.coins)

    @property
    def exposed(self) -> float:
        return max(level.exposed for level in self.levels)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        shufflers = "the shuffler" if self.shufflers == 1 else f"each of the {self.shufflers} shufflers"
        return (
            (shufflers, describe_shuffler_view(self.coins, "counts for its level", "statistic")),
            ("the analyzer and the public", "the totals of every full batch of every level"),
        )

    @cached_property
    def device(self) -> LevelRandomizers:
        return LevelRandomizers(domain=self.domain, levels=tuple(level.device for level in self.levels))

    @cached_property
    def mixer(self) -> LevelMixer:
        return LevelMixer(domain=self.domain, levels=tuple(level.mixer for level in self.levels))

    @cached_property
    def analyzer(self) -> TreeSumAnalyzer:
        levels = tuple(level.analyzer for level in self.levels)
        return TreeSumAnalyzer(tree=self.tree, levels=levels, weights=self.weights, dim=self.domain.dim)

    @property
    def bits_per_user(self) -> int:
        return sum(level.bits_per_user for level in self.levels)

    def draws(self, users: int) -> ReleaseCost:
        words = sum(level.draws(level.batch if self.coins == "mixer" else users).words for level in self.levels)
        return ReleaseCost(words=words, numbers=users * self.domain.dim * self.shufflers)

    def level_stds(self) -> tuple[float, ...]:
        """Return each level's std of a batch's own release."""
        return tuple(level.std(level.batch) for level in self.levels)

    @cached_property
    def weights(self) -> LevelWeights:
        """Return batches' variances, and weights of their own releases (1 without averaging)."""
        releases = [std**2 for std in self.level_stds()]
        variances = node_variances(self.tree, releases, self.averaging)
        shares = (v / w if self.averaging else 1.0 for v, w in zip(variances, releases, strict=True))
        return LevelWeights(variances=tuple(variances), own=tuple(shares))

    def prefix_variance(self, users: ArrayLike) -> Floats:
        """Return the variance per coordinate after `users` users."""
        return self.analyzer.variance(users)

    def prefix_std(self) -> Floats:
        low = self.tree.sizes[0]
        return np.asarray(np.sqrt(self.prefix_variance(np.arange(low, self.tree.horizon + 1, low))))

    def std(self) -> float:
        """Return the std per coordinate of the worst prefix."""
        return float(np.sqrt(np.max(self.prefix_variance(self.tree.worst_steps))))

    def begin(self, replicates: tuple[int, ...] = ()) -> ConcurrentState:
        return ConcurrentState(held=self.mixer.empty(replicates), sums=self.analyzer.begin(replicates))

    def parted(self, state: ConcurrentState) -> tuple[LevelMixerState, tuple[Floats, ...]]:
        return state.held, state.sums

    def joined(self, held: LevelMixerState, analyzed: tuple[Floats, ...]) -> ConcurrentState:
        return ConcurrentState(held=held, sums=analyzed)

    def check_users(self, state: ConcurrentState, users: int) -> None:
        if not isinstance(state, ConcurrentState):
            raise InvalidArgument("state", type(state).__name__, "what begin() or the last release returned")
        self._check_room(state.held.users, users)

    def release(
        self,
        state: ConcurrentState,
        statistics: Statistic | ArrayLike,
        source: NoiseSource,
        *,
        path: str = "messages",
        clip: bool = True,
    ) -> tuple[ConcurrentState, Estimate]:
        """Add any number of users, and estimate the sum of all full batches."""
        by_law = self.coins != "mixer" and isinstance(state, ConcurrentState) and any(state.held.owed)
        if path == "messages" and by_law:  # of earlier users
            state = replace(state, held=settle_coins(state.held, self.noises, source, levels=self.shufflers))
        return super().release(state, statistics, source, path=path, clip=clip)

    def law(
        self, state: ConcurrentState, statistic: Statistic, source: NoiseSource
    ) -> tuple[ConcurrentState, Estimate]:
        """Add encoded statistics as users arrive, and a batch's coins when it is full."""
        held, sums = state.held, state.sums
        for part in self._parts(held.users, statistic):
            added = encode_levels(part, self.noises, self.domain, source)
            check_replicates(part.values, held.totals[0].shape[:-1])
            totals = tuple(before + more for before, more in zip(held.totals, added, strict=True))
            owed = tuple(owed + part.users for owed in held.owed)
            held = LevelMixerState(users=held.users + part.users, totals=totals, owed=owed)
            held = settle_coins(held, self.noises, source, levels=self.mixer.full(held.users))
            sums, held = self.analyzer.taken(sums, self.mixer.close(held)), self.mixer.forget(held)
        return ConcurrentState(held=held, sums=sums), self.analyzer.estimate(sums, held.users)

    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """Release a whole stream at once, distributed as `release` user by user."""
        check_path(path, source)
        values = self.admit(statistics, clip=clip).rows()
        self._check_room(0, values.shape[-2])
        return estimate_prefixes(values, self.device, self.mixer, self.analyzer, source, path)

    def estimate_bit_prefixes(self, ones: Ints, source: NoiseSource) -> Floats:
        """Simulate streams of bits from the ones in each lowest batch: (..., N_1) -> same shape.

        Draw for draw equal to `prefixes(path="law")` at batches' ends.
        """
        counts = np.asarray(ones, dtype=np.int64)
        noise = self.noise_of_bits(counts.shape, source)
        if np.any(counts < 0) or np.any(counts > self.tree.sizes[0]):
            raise InvalidStatistic("ones", counts, f"from 0 to {self.tree.sizes[0]}, the users of a batch")
        return np.asarray(np.cumsum(counts, axis=-1) + noise)

    def noise_of_bits(self, shape: tuple[int, ...], source: NoiseSource) -> Floats:
        """Draw what `estimate_bit_prefixes` adds to true counts: (..., N_1)."""
        check_path("law", source)
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "bd.device.Bits(): only of bits do counts tell everything")
        if len(shape) < 1 or not 1 <= shape[-1] <= self.tree.batches[0]:
            raise InvalidArgument("ones", shape, f"(..., batches), at most {self.tree.batches[0]} of them")
        return np.asarray(sample_bit_noise(shape, self.analyzer, source)[..., 0])

    def _check_room(self, users: int, more: int) -> None:
        if users + more > self.tree.horizon:
            raise InvalidArgument("users", users + more, f"at most the horizon {self.tree.horizon}")

    def _parts(self, users: int, statistic: Statistic) -> Iterator[Statistic]:
        low = self.tree.sizes[0]
        if statistic.users <= low - users % low:
            yield statistic
            return
        values = statistic.rows()
        for start, stop in cut_spans(users, values.shape[-2], low):
            yield self.domain.sealed(values[..., start:stop, :], clipped=np.zeros_like(statistic.clipped))


# Mixer


@stored_as("LevelMixer")
@dataclass(frozen=True, kw_only=True)
class LevelMixer(Mixer):
    """The k shufflers side by side; each has a block of a message and forwards full batches only."""

    levels: tuple[CountingMixer, ...]

    @property
    def length(self) -> int:
        return len(self.levels) * self.domain.dim

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(level.least for level in self.levels)

    def full(self, users: int) -> int:
        """Return how many levels, from the lowest, have a full batch."""
        full = 0
        while users and full < len(self.sizes) and users % self.sizes[full] == 0:
            full += 1
        return full

    @property
    def draws(self) -> bool:
        return self.levels[0].coins == "mixer"

    def flag_unlikely(self, messages: Messages) -> Bools:
        """Flag users with improbable counts: (..., users, k dim) -> (..., users)."""
        found = [level.flag_unlikely(block) for level, block in zip(self.levels, self._blocks(messages), strict=True)]
        return np.asarray(np.any(found, axis=0))

    def check_range(self, messages: Messages) -> None:
        for level, block in zip(self.levels, self._blocks(messages), strict=True):
            level.check_range(block)

    def empty(self, replicates: tuple[int, ...] = ()) -> LevelMixerState:
        totals = tuple(np.zeros((*replicates, self.domain.dim), dtype=np.int64) for _ in self.levels)
        return LevelMixerState(users=0, totals=totals, owed=(0,) * len(self.levels))

    def add(self, held: LevelMixerState, messages: Messages) -> LevelMixerState:
        check_replicates(messages, held.totals[0].shape[:-1])
        pairs = zip(held.totals, self._blocks(messages), strict=True)
        totals = tuple(before + block.sum(axis=-2) for before, block in pairs)
        more = messages.shape[-2]
        owed = tuple(before + more for before in held.owed) if self.draws else held.owed
        return LevelMixerState(users=held.users + more, totals=totals, owed=owed)

    def drawn(self, held: LevelMixerState, source: NoiseSource) -> LevelMixerState:
        """Add the coins that full levels owe, once, each from its own random stream."""
        full = self.full(held.users)
        if not self.draws or not any(held.owed[:full]):
            return held
        totals = list(held.totals)
        for number, (level, owed) in enumerate(zip(self.levels[:full], held.owed[:full], strict=True)):
            own = level_source(source, number)
            totals[number] = totals[number] + draw_batch_coins(level.noise, owed, totals[number].shape, own)
        return replace(held, totals=tuple(totals), owed=(0,) * full + held.owed[full:])

    def close(self, held: LevelMixerState) -> FullBatches:
        """Return full batches' totals; none below a lowest batch."""
        full = self.full(held.users)
        if any(held.owed[:full]):
            raise InvalidArgument("held", f"without the coins of {held.owed[:full]} users", "all coins of a full batch")
        pairs = zip(self.sizes[:full], held.totals[:full], strict=True)
        return FullBatches(
            users=held.users, levels=tuple(MixerState(users=size, numbers=totals) for size, totals in pairs)
        )

    def forget(self, held: LevelMixerState) -> LevelMixerState:
        if not (full := self.full(held.users)):
            return held
        return replace(held, totals=(*map(np.zeros_like, held.totals[:full]), *held.totals[full:]))

    def split_portions(self, held: LevelMixerState, messages: Messages) -> Iterator[Messages]:
        for start, stop in cut_spans(held.users, messages.shape[-2], self.sizes[0]):
            yield messages[..., start:stop, :]

    def _blocks(self, messages: Messages) -> Iterator[Messages]:
        dim = self.domain.dim
        return (messages[..., start : start + dim] for start in range(0, self.length, dim))


def cut_spans(users: int, more: int, low: int) -> Iterator[tuple[int, int]]:
    """Yield `more` users after `users` as spans that end where lowest batches fill."""
    return pairwise([0, *range(low - users % low, more, low), more])


# Analyzer


@dataclass(frozen=True, kw_only=True)
class LevelWeights:
    """Each level's variance of a batch's estimate, and weight of its own release."""

    variances: tuple[float, ...]
    own: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TreeSumAnalyzer(Analyzer):
    """Adds the estimates of the maximal full batches. Its state holds released numbers only.

    Per level it sums the batches without a full batch above them. When a batch fills, its own total and its parts' sum
    are averaged by inverse variances.
    """

    tree: BatchTree
    levels: tuple[VectorSumAnalyzer | BitSumAnalyzer, ...]
    weights: LevelWeights
    dim: int

    def begin(self, replicates: tuple[int, ...] = ()) -> Sums:
        return tuple(np.zeros((*replicates, self.dim)) for _ in self.levels)

    def analyze(self, state: Sums, view: FullBatches, source: NoiseSource) -> tuple[Sums, Estimate]:
        following = self.taken(state, view)
        return following, self.estimate(following, view.users)

    def taken(self, state: Sums, view: FullBatches) -> Sums:
        sums, own = list(state), self.weights.own
        for level, batch in enumerate(view.levels):
            estimate = self.release(level, batch)
            if level > 0:
                if own[level] < 1.0:  # without averaging the parts are only dropped
                    estimate = own[level] * estimate + (1 - own[level]) * sums[level - 1]
                sums[level - 1] = np.zeros_like(sums[level - 1])
            sums[level] = sums[level] + estimate
        return tuple(sums)

    def release(self, level: int, batch: MixerState) -> Floats:
        """Return a full batch's unbiased sum from its totals."""
        return self.levels[level].estimate(np.asarray(batch.numbers, dtype=np.int64), batch.users).total

    def estimate(self, state: Sums, users: int) -> Estimate:
        low = self.tree.sizes[0]
        total, variance = reduce(np.add, state[1:], state[0].copy()), float(self.variance(users))
        return Estimate(total=total, count=users // low * low, variance=variance)

    def variance(self, users: ArrayLike) -> Floats:
        return np.asarray(self.tree.covering(users) @ self._variances)

    @cached_property
    def _variances(self) -> Floats:
        return np.asarray(self.weights.variances)


# Law


def encode_levels(
    statistic: Statistic, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """Draw what the shufflers add for some users, without coins."""
    if isinstance(domain, Bits):
        ones = np.rint(statistic.total()).astype(np.int64)
        return tuple(int(noise.scale) * ones for noise in noises)
    if statistic.counts is None:
        return encode_sums(statistic.values, noises, domain, source)
    if statistic.users <= _FEW and statistic.values.shape[-2] <= _GROUPS:
        return encode_small_groups(statistic.values, statistic.counts, noises, domain, source)
    return encode_groups(statistic.values, statistic.counts, noises, domain, source)


def settle_coins(
    held: LevelMixerState, noises: Sequence[BinomialNoise], source: NoiseSource, *, levels: int
) -> LevelMixerState:
    """Add the owed coins to the lowest `levels` levels.

    Coins are invisible before a batch is full, so Bin(m b, 1/2) is distributed as the coins of m users.
    """
    if not any(held.owed[:levels]):
        return held
    totals = list(held.totals)
    for level, (noise, owed) in enumerate(zip(noises[:levels], held.owed[:levels], strict=True)):
        if owed:
            totals[level] = totals[level] + draw_coins(owed, noise, totals[level].shape, source)
    return replace(held, totals=tuple(totals), owed=(0,) * levels + held.owed[levels:])


def draw_coins(users: int, noise: BinomialNoise, shape: tuple[int, ...], source: NoiseSource) -> Ints:
    """Draw the coins of `users` users, Bin(m b, 1/2)."""
    return source.binomial(trials=users * noise.trials, probability=noise.probability, size=shape)


def estimate_prefixes(
    values: Floats,
    device: LevelRandomizers,
    mixer: LevelMixer,
    analyzer: TreeSumAnalyzer,
    source: NoiseSource,
    path: str,
) -> Floats:
    """Return the estimates after every user (..., users, dim); 0 before the first batch is full."""
    tree = analyzer.tree
    users, low = values.shape[-2], tree.sizes[0]
    filled = sum(size <= users for size in tree.sizes)  # levels with a full batch
    estimates = np.zeros(values.shape)
    if not filled:
        return estimates
    if path == "law" and isinstance(device.domain, Bits):
        batch = values[..., : users // low * low, 0].reshape(*values.shape[:-2], users // low, low)
        counts = np.cumsum(np.rint(np.sum(batch, axis=-1)), axis=-1)  # whole numbers below 2^53: exact
        after = counts[..., None] + sample_bit_noise(counts.shape, analyzer, source)
    else:
        after = _sum_maximal_batches(
            [release_level(values, level, device, mixer, analyzer, source, path) for level in range(filled)], analyzer
        )
    held = np.repeat(after, low, axis=-2)[..., : users - low + 1, :]  # an estimate stands until the next batch fills
    estimates[..., low - 1 :, :] = held
    return estimates


def sample_bit_noise(shape: tuple[int, ...], analyzer: TreeSumAnalyzer, source: NoiseSource) -> Floats:
    """Draw estimates less true counts after every lowest batch of bits: (..., N_1) -> (..., N_1, 1).

    Releases are linear in their totals, so this is the estimate of a stream of zeros.
    """
    tree, released, users = analyzer.tree, [], shape[-1] * analyzer.tree.sizes[0]
    for level, size in enumerate(tree.sizes):
        if size > users:
            break
        noise = analyzer.levels[level].noise
        totals = draw_coins(size, noise, (*shape[:-1], users // size, 1), source)
        released.append(analyzer.release(level, MixerState(users=size, numbers=totals)))
    return _sum_maximal_batches(released, analyzer)


def _sum_maximal_batches(released: list[Floats], analyzer: TreeSumAnalyzer) -> Floats:
    degrees = analyzer.tree.degrees[1 : len(released)]
    return exact_sums.compute_prefixes(
        exact_sums.average_blocks(released, degrees, analyzer.weights.own[: len(released)]), degrees
    )


def release_level(
    values: Floats,
    level: int,
    device: LevelRandomizers,
    mixer: LevelMixer,
    analyzer: TreeSumAnalyzer,
    source: NoiseSource,
    path: str,
) -> Floats:
    """Release a level's full batches in chunks: (..., N_j, dim)."""
    size, replicates, dim = analyzer.tree.sizes[level], values.shape[:-2], values.shape[-1]
    count = values.shape[-2] // size
    step = max(1, _CHUNK // (size * dim * int(np.prod(replicates, dtype=np.int64))))
    released = np.empty((*replicates, count, dim))
    for start in range(0, count, step):
        stop = min(start + step, count)
        rows = values[..., start * size : stop * size, :].reshape(*replicates, stop - start, size, dim)
        if path == "law":
            domain, noise = device.domain, analyzer.levels[level].noise
            batch = domain.sealed(rows, clipped=np.zeros(rows.shape[:-2], dtype=np.int64))
            (added,) = encode_levels(batch, [noise], domain, source)
            view = MixerState(users=size, numbers=added + draw_coins(noise.users, noise, added.shape, source))
        else:
            own, one = level_source(source, level), mixer.levels[level]
            messages = device.levels[level].encode(rows, own)
            view = one.close(one.drawn(one.add(one.empty(rows.shape[:-2]), messages), own))
        released[..., start:stop, :] = analyzer.release(level, view)
    return released
