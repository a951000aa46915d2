"""Batched linear policies: schedules, exploration, warm starts and running sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import ActionSelector
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.linear_report import LinearReport, RegressionReport
from bandanna.device.statistics import RegressionStatistic
from bandanna.errors import InvalidArgument
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies.base import FixedLength, PlayedRounds, RunningSumPolicy, SumQuery
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.running_sum import RunningSumProtocol, running_sum_protocol_for
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints
from bandanna.validation import checked_keywords

# When a policy learns: public schedules of batch sizes, fixed in advance.


_MOST = 10**5  # growing batches, which are listed one by one
_AROUND = 3  # steps of a quarter: a factor of 1.95


class Schedule(ABC):
    """A rule that divides a horizon into batches. A last batch that does not fit is not released."""

    @abstractmethod
    def sizes(self, horizon: int) -> RunLengthSizes:
        """Sizes of the complete batches."""


@stored_as("FixedBatches")
@dataclass(frozen=True, kw_only=True)
class FixedBatches(Schedule):
    """Batches of `size` users."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", validation.integer("batch", self.size))

    def sizes(self, horizon: int) -> RunLengthSizes:
        """floor(horizon / size) equal batches."""
        times = horizon // self.size
        if times > validation.LARGEST_EXACT_INTEGER:
            raise InvalidArgument(
                "batch", self.size, f"larger ones: at most {validation.LARGEST_EXACT_INTEGER:,} fit into a horizon"
            )
        return RunLengthSizes(((self.size, times),) if times else ())


@stored_as("GeometricBatches")
@dataclass(frozen=True, kw_only=True)
class GeometricBatches(Schedule):
    """Batches that grow: ceil(first ratio^i). The noise of log T releases adds up, not of T/B.

    Right for stochastic contexts that are fresh in every round; with fixed arms, fixed batches are better.
    """

    first: int
    ratio: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "first")
        validation.set_validated(self, validation.bounded_factor, "ratio")
        if self.ratio < 1:
            raise InvalidArgument("ratio", self.ratio, "a number >= 1")

    def sizes(self, horizon: int) -> RunLengthSizes:
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
        return RunLengthSizes.of(sizes)


def geometric(*, first: int, ratio: float) -> GeometricBatches:
    """Batches of first, first ratio, first ratio^2, ... users."""
    return GeometricBatches(first=first, ratio=ratio)


def find_best_batch_size(bound: Callable[[int], Any], *, least: int, most: int, known: int | None = None) -> int:
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


def compute_concurrent_batch_size(horizon: int, shufflers: int | str) -> int:
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

    def sizes(self, horizon: int) -> RunLengthSizes:
        """Those that somebody learns from; one at least."""
        sizes: list[int] = []
        left, size = horizon, self.first
        while left >= 1.5 * size or not sizes:
            if self.most is not None and size >= self.most:  # and so on
                often = max(1, (left - self.most // 2) // self.most)
                return RunLengthSizes((*RunLengthSizes.of(sizes).runs, (self.most, often)))
            sizes.append(min(size, left))
            left, size = left - size, math.ceil(self.first * self.ratio ** len(sizes))
        return RunLengthSizes.of(sizes)


def plan_informed_batches(
    privacy: Privacy, *, domain: Domain, dim: int, horizon: int, blocks: int = 1
) -> InformedBatches:
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


# What policies on running linear sums share: a schedule, a channel, one ask a batch, an estimate of its answers.
#
# Subclasses say how they estimate (`estimate`) and choose (`act`); everything that is released is released here.


class LinearSnapshot:
    """All that a device needs to act; public, because it is computed from releases only."""


@stored_as("LinearState")
@dataclass(frozen=True, kw_only=True)
class LinearState:
    """What was released: the sum of the reports of so many batches, and what follows from it. R = replicate axes."""

    total: Floats  # (*R, dim)
    batches: int
    repairs: Ints  # (*R): how often a released matrix had to be made positive
    snapshot: LinearSnapshot


@dataclass(frozen=True, kw_only=True)
class BatchedLinearPolicy(RunningSumPolicy[LinearState]):
    """A policy with `dim` features over `horizon` rounds that learns from released sums of (x y, x x^T)."""

    trusts = ("none", "central", "local", "shuffle", "concurrent")
    dim: int
    horizon: int
    privacy: Privacy
    batch: int | str | Schedule | None = None

    @property
    @abstractmethod
    def choose(self) -> ActionSelector:
        """How devices choose from a snapshot."""

    @cached_property
    def tell(self) -> RegressionStatistic:
        """How devices report what came of it."""
        return RegressionStatistic()

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """When the policy learns."""

    @abstractmethod
    def estimate(self, total: Floats, batches: int) -> tuple[Any, NDArray[np.int64]]:
        """A snapshot from the released sums (*R, dim) of so many batches, and which matrices were repaired (*R)."""

    @property
    def span(self) -> int:
        """How many rounds are planned for."""
        return self.horizon

    @property
    def spends(self) -> Privacy:
        """What batches are calibrated for."""
        return self.privacy

    def again(self, doublings: int) -> Self:
        """The same policy for a later phase of an anytime one: a horizon that was doubled so often."""
        return replace(self, horizon=self.horizon << doublings)

    @cached_property
    def domain(self) -> RegressionReport:
        """Reports of x y and x x^T, y in [0, 1]."""
        return LinearReport(features=self.dim, isometric=self.privacy.isometric)

    @cached_property
    def channel(self) -> RunningSumProtocol:
        """The calibrated protocols for the schedule."""
        return running_sum_protocol_for(self.spends, domain=self.domain, sizes=self._sizes)

    @cached_property
    def _sizes(self) -> RunLengthSizes:
        sizes = self.schedule.sizes(self.span)
        if not len(sizes):
            raise InvalidArgument("batch", self.batch, f"a first batch of at most the horizon, {self.horizon} rounds")
        return sizes

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom."""
        return self.channel.guarantee

    @property
    def bits_per_user(self) -> int:
        """The longest message."""
        return self.channel.bits_per_user

    def phases(self) -> Iterator[Self]:
        """Itself alone."""
        yield self

    def calibrated(self) -> dict[int, RunningSumProtocol]:
        """Its own, if it was needed."""
        return {0: self.channel} if "channel" in vars(self) else {}

    def recalibrate(self, phase: int, channel: RunningSumProtocol) -> None:
        """Where its cached property looks first."""
        vars(self).setdefault("channel", channel)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> LinearState:
        """Nothing released yet."""
        total = np.zeros((*replicates, self.domain.dim))
        snapshot, repairs = self.estimate(total, 0)
        return LinearState(total=total, batches=0, repairs=repairs, snapshot=snapshot)

    def episode(self, state: LinearState) -> FixedLength | None:
        """The next batch of the schedule, then what is left of the horizon; None when there is nothing left."""
        return self._episode(state.batches)

    def following(self, episode: FixedLength) -> FixedLength | None:
        """The schedule is public."""
        return self._episode(episode.number + 1)

    def _episode(self, number: int) -> FixedLength | None:
        sizes = self.channel.sizes
        if number < len(sizes):
            return FixedLength(number=number, users=sizes[number])
        left = self.span - sizes.users
        return FixedLength(number=number, users=left, released=False) if left and number == len(sizes) else None

    def publish(self, state: LinearState) -> Any:
        """The estimate after the batches so far, and how sure it is."""
        return state.snapshot

    def report(self, ask: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        """The report of the arm that was given."""
        assert played.features is not None
        arms = played.arms
        if arms is not None and played.answered is not None:
            arms = np.where(played.answered, arms, -1)  # whose report is nothing
        return self.statistic(played.features, played.rewards, arms)

    def statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        """Reports (*R, n, dim); those whose features or reward had to be clipped are counted."""
        return self.tell.statistic(self.domain, features, rewards, arms, NoRandomness())

    def centred(self, rewards: Floats) -> tuple[Floats, Bools]:
        """Rewards as they are reported, and which had to be clipped to [0, 1]."""
        return self.tell.centred(rewards)

    def learn(self, state: LinearState, episode: FixedLength) -> Generator[SumQuery, Estimate, LinearState]:
        """One batch, by the protocol of its size."""
        return self.learned(state, (yield self.ask(episode)))

    def ask(self, episode: FixedLength) -> SumQuery:
        """For the sum of a batch; of a stream, for that of everybody so far."""
        return SumQuery(protocol=self.channel.protocols[episode.users])

    def learned(self, state: LinearState, released: Estimate) -> LinearState:
        """The state after one more release; a matrix that noise made indefinite is repaired, counted, reported."""
        total = released.total if self.channel.stream is not None else state.total + released.total
        batches = state.batches + 1
        snapshot, repaired = self.estimate(total, batches)
        used = self._episode(batches) is not None  # after the last round nobody asks for the snapshot
        return LinearState(total=total, batches=batches, repairs=state.repairs + used * repaired, snapshot=snapshot)

    def counts(self, state: LinearState) -> dict[str, Ints]:
        """How often a released matrix was repaired."""
        return {"repairs": state.repairs}

    def fixed_batches(self, size: Any) -> FixedBatches:
        """Batches of so many users, as `batch` says it by a number."""
        least = 2 if self.privacy.model in ("shuffle", "concurrent") else 1
        if validation.integer("batch", size, least=least) > self.span:
            raise InvalidArgument("batch", size, f"at most the horizon, {self.horizon} rounds")
        return FixedBatches(size=size)

    def check_batch(self, *, endless: bool = False) -> None:
        """The arguments that all of them have; `endless`: a horizon may be None."""
        validation.set_validated(self, validation.integer, "dim", most=1_000)
        if not endless or self.horizon is not None:
            validation.set_validated(
                self, validation.integer, "horizon", most=10**20
            )  # phases of an anytime policy double
        self.check_trust()


# What a policy begins with: released sums of the reports of earlier people.


@stored_as("Start")
@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """The sum of `users` reports, released before, with noise of this variance in each coordinate: public numbers.

    epsilon, delta, trust  what was promised to those people, who are others than the policy's own
    """

    total: tuple[float, ...] = field(repr=False)
    users: int
    variance: float
    epsilon: float
    delta: float
    trust: str

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "users")
        validation.set_validated(self, validation.non_negative, "variance")
        total = validation.list_entries("total", self.total, "the numbers of a released sum")
        object.__setattr__(self, "total", tuple(validation.finite("total", each) for each in total))

    def check(self, dim: int) -> None:
        """Refuse sums of other reports than the policy's, and such as no sum of people has."""
        if len(self.total) != dim:
            raise InvalidArgument("start.total", f"{len(self.total)} numbers", f"{dim}, as a report of the policy has")
        if max(map(abs, self.total)) > 1e30 or self.variance > 1e60 or math.isnan(self.delta):
            raise InvalidArgument("start", "numbers of extreme size", "a sum of reports")

    def plus(self, total: Floats) -> Floats:
        """With the sums (*R, dim) of the policy's own users."""
        return np.asarray(total + np.array(self.total))


# Exploration by a public rule: whole episodes at random, or some users of every episode.


@stored_as("Uniform")
@dataclass(frozen=True, kw_only=True)
class UniformExploration:
    """Arms uniformly at random: for everybody in episodes that begin before the `first` users, then with a chance."""

    first: int = 0
    then: float = 0.0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "first", least=0)
        validation.set_validated(self, validation.unit_interval, "then")

    def share(self, users: int) -> float:
        """Of those who explore in an episode that so many users are before."""
        return 1.0 if users < self.first else self.then

    def rounds(self, horizon: int, longest: int) -> float:
        """How many rounds of a horizon explore, on average and at most: episodes have up to `longest` users."""
        alone = min(horizon, self.first + longest - 1) if self.first else 0
        return alone + self.then * (horizon - alone)


@checked_keywords("bd.policies.uniform")
def uniform(*, first: int = 0, then: float = 0.0) -> UniformExploration:
    """Arms at random in episodes that begin before the `first` users, later with probability `then` for each user."""
    return UniformExploration(first=first, then=then)
