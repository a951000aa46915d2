"""Batched linear policies: schedules, exploration, warm starts and running sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import ActionSelector, Choice, pick_tied_arms
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.linear_report import LinearReport, RegressionReport
from bandanna.device.statistics import RegressionStatistic
from bandanna.errors import InvalidArgument, ValueSummary
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.linalg import find_best_arms, positive_inverse
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies.base import FixedLength, PlayedRounds, Policy, RunningSumPolicy, State, SumQuery
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.running_sum import RunningSumProtocol, running_sum_protocol_for
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints
from bandanna.validation import checked_keywords

# Schedules


_MOST = 10**5  # growing batches, which are listed one by one
_AROUND = 3  # steps of a quarter: a factor of 1.95
_OFTEN = 3  # participations from which on independent batches need less noise than a stream


class Schedule(ABC):
    """A rule that divides a horizon into batches. A last batch that does not fit is not released."""

    @abstractmethod
    def sizes(self, horizon: int) -> RunLengthSizes:
        """Return the sizes of the complete batches."""


@stored_as("FixedBatches")
@dataclass(frozen=True, kw_only=True)
class FixedBatches(Schedule):
    """Batches of equal size, in users."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", validation.integer("batch", self.size))

    def sizes(self, horizon: int) -> RunLengthSizes:
        times = horizon // self.size
        if times > validation.LARGEST_EXACT_INTEGER:
            allowed = f"so large that there are at most {validation.LARGEST_EXACT_INTEGER:,} batches"
            raise InvalidArgument("batch", self.size, allowed)
        return RunLengthSizes(((self.size, times),) if times else ())


@stored_as("GeometricBatches")
@dataclass(frozen=True, kw_only=True)
class GeometricBatches(Schedule):
    """Growing batches of ceil(first ratio^i) users: the noise of log T releases adds up, not of T/B.

    Use them for contexts that are fresh in every round. With fixed arms, fixed batches are better.
    """

    first: int
    ratio: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "first")
        validation.set_validated(self, validation.bounded_factor, "ratio")
        if self.ratio < 1:
            raise InvalidArgument("ratio", self.ratio, "a number >= 1")

    def sizes(self, horizon: int) -> RunLengthSizes:
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
                allowed = f"such that at most {_MOST:,} batches fill {horizon} rounds"
                raise InvalidArgument("first, ratio", (self.first, self.ratio), allowed)
            sizes.append(size)
            left, step = left - size, step + 1
        return RunLengthSizes.of(sizes)


def geometric(*, first: int, ratio: float) -> GeometricBatches:
    """Return a schedule of batches of first, first ratio, first ratio^2, ... users.

    Parameters
    ----------
    first
        Users in the first batch.
    ratio
        Growth, at least 1.

    Returns
    -------
    GeometricBatches
        For the argument `batch` of linear policies.
    """
    return GeometricBatches(first=first, ratio=ratio)


def find_best_batch_size(bound: Callable[[int], Any], *, least: int, most: int, known: int | None = None) -> int:
    """Return the batch size with the least `bound`, of all doublings, sizes near the best of them, and `known`."""
    # Bounds have several valleys, and the noise of a tree falls in leaps of a factor 2 of the size: try every doubling.
    of = lru_cache(maxsize=None)(bound)
    doublings = {min(most, least << step) for step in range(math.ceil(math.log2(most / least)) + 1)}
    first = min(sorted(doublings), key=of)
    near = {min(most, max(least, round(first * 1.25**step))) for step in range(-_AROUND, _AROUND + 1)}
    return min(sorted(near | ({known} if known is not None else set())), key=of)


def compute_concurrent_batch_size(horizon: int, shufflers: int | str) -> int:
    """Return the users in a lowest batch of k concurrent shufflers: B = T^{(2k+1)/(4k+1)}, or T^{1/2} for "best".

    Where k levels would not fill, B is smaller. Derivation: docs/appendix/papers.md.
    """
    if isinstance(shufflers, str):
        return min(horizon, max(2, round(math.sqrt(horizon))))
    rate = (2 * shufflers + 1) / (4 * shufflers + 1)
    return max(2, min(round(math.pow(horizon, rate)), horizon >> (shufflers - 1)))


@stored_as("InformedBatches")
@dataclass(frozen=True, kw_only=True)
class InformedBatches(Schedule):
    """Batches that grow from `first` by `ratio` to `most`, while at least half as many users are still to come."""

    first: int
    ratio: float
    most: int | None = None

    def sizes(self, horizon: int) -> RunLengthSizes:
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
    """Plan `batch="auto"`: growing batches, the first large enough for d features to stand out of the noise.

        first = min(T/8, max(2 d, 3 (d - 1)^{3/2} r)),     r = sqrt(1.5) std

    with std that of one batch's noise, and at least 7 d users for each of several `blocks` (docs/concepts/lints.md).
    All numbers are public.
    """
    least, returning = 2 * dim * blocks, privacy.participations if privacy.model != "local" else 1
    ratio = 1.5 if returning == 1 else 2.0 if returning < 5 else 3.0
    if privacy.noisy and privacy.model != "local":
        assert privacy.budget is not None
        often = min(returning, max(1, math.ceil(math.log(max(2, horizon / least), ratio))))
        std = CentralGaussian.calibrate(domain=domain, budget=privacy.budget, participations=often).noise_std
        needed = 3 * max(1, dim - 1) ** 1.5 * math.sqrt(1.5) * std
        needed = max(needed, 7 * dim * blocks) if blocks > 1 else needed
        least = round(min(max(least, needed), 2.0**62))
    first = max(2, min(horizon // 8, least))
    doubling = privacy.model == "shuffle" and horizon > 500 * first
    return InformedBatches(first=first, ratio=max(ratio, 2.0) if doubling else ratio)


# Policies: `LinearPolicy` is the base for authors, `BatchedLinearPolicy` that of LinTS and LinUCB.


class ScheduledLinearPolicy(Policy[State]):
    """A policy that queries one sum of (x y, x x^T) for every batch."""

    trusts: ClassVar[tuple[str, ...]] = ("none", "central", "local", "shuffle", "concurrent")
    dim: int
    horizon: int
    privacy: Privacy
    batch: int | str | Schedule | None

    @property
    def guarantee(self) -> Guarantee:
        return self._channel.guarantee

    @cached_property
    def batch_sizes(self) -> RunLengthSizes:
        """Sizes of the complete batches: public, fixed before the first round."""
        sizes = self._schedule.sizes(self._planned_rounds)
        if not len(sizes):
            raise InvalidArgument(
                "batch", self.batch, f"a schedule whose first batch is not larger than {self.horizon}, the horizon"
            )
        return sizes

    def episode(self, state: Any) -> FixedLength | None:
        return self._episode(state.batches)

    def next_episode(self, episode: FixedLength) -> FixedLength | None:
        return self._episode(episode.number + 1)

    def _episode(self, number: int) -> FixedLength | None:
        sizes = self._channel.sizes
        if number < len(sizes):
            return FixedLength(number=number, users=sizes[number])
        left = self._planned_rounds - sizes.users
        return FixedLength(number=number, users=left, released=False) if left and number == len(sizes) else None

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        assert played.features is not None
        arms = played.arms
        if arms is not None and played.answered is not None:
            arms = np.where(played.answered, arms, -1)  # their report is zero
        return self._form_statistic(played.features, played.rewards, arms)

    def _form_statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        return self._report_statistic.statistic(self._domain, features, rewards, arms, NoRandomness())

    def _query(self, episode: FixedLength) -> SumQuery:
        return SumQuery(protocol=self._channel.protocols[episode.users])

    @cached_property
    def _channel(self) -> RunningSumProtocol:
        return running_sum_protocol_for(self._batch_privacy, domain=self._domain, sizes=self.batch_sizes)

    @cached_property
    def _domain(self) -> RegressionReport:
        return LinearReport(features=self.dim, isometric=self.privacy.isometric)

    @cached_property
    def _report_statistic(self) -> RegressionStatistic:
        return RegressionStatistic()

    @property
    def _batch_privacy(self) -> Privacy:
        """The privacy that batches are calibrated for."""
        # A user is in a batch at most once. Users who return often need less noise if every batch has noise of its own
        # than in one stream. Local reports take the protocol with less noise.
        often = min(self.privacy.participations, len(self.batch_sizes))
        apart = self.privacy.model == "central" and often >= _OFTEN and self.privacy.calibration == "tight"
        mechanism = "independent" if apart else self.privacy.mechanism
        return replace(self.privacy, participations=often, mechanism=mechanism).with_default_protocol("auto")

    @cached_property
    def _schedule(self) -> Schedule:
        return self._plan_batches(dim=self.dim)

    def _plan_batches(self, *, dim: int, domain: Domain | None = None, blocks: int = 1) -> Schedule:
        """Return the batches of `batch`; None and "auto" plan them for `blocks` parameters of `dim` numbers."""
        batch = self.batch
        if isinstance(batch, Schedule):
            return batch
        if batch is not None and not isinstance(batch, str):
            return self._fixed_batches(batch)
        if batch not in (None, "auto"):
            raise InvalidArgument("batch", batch, 'a whole number, a schedule or "auto"')
        horizon = self._planned_rounds
        if self.privacy.model == "concurrent" and self.privacy.noisy:
            return FixedBatches(size=compute_concurrent_batch_size(horizon, self.privacy.shufflers))
        planned = self._domain if domain is None else domain
        return plan_informed_batches(self.privacy, domain=planned, dim=dim, horizon=horizon, blocks=blocks)

    def _fixed_batches(self, size: Any) -> FixedBatches:
        least = 2 if self.privacy.model in ("shuffle", "concurrent") else 1
        if validation.integer("batch", size, least=least) > self._planned_rounds:
            raise InvalidArgument("batch", size, f"at most {self.horizon}, the horizon")
        return FixedBatches(size=size)

    @property
    def _planned_rounds(self) -> int:
        return self.horizon

    @property
    def _bits_per_user(self) -> int:
        return self._channel.bits_per_user

    def _check_arguments(self, *, endless: bool = False) -> None:
        validation.set_validated(self, validation.integer, "dim", most=1_000)
        if not endless or self.horizon is not None:  # phases of an anytime policy double
            validation.set_validated(self, validation.integer, "horizon", most=10**20)
        self._check_privacy_model()


@stored_as("LinearSums")
@dataclass(frozen=True, kw_only=True)
class LinearSums:
    """Released sums over `users` devices in `batches` batches, noise included. R = replicate axes.

    Attributes
    ----------
    vector
        Sum of x y.
    gram
        Sum of x x^T, symmetric, and positive definite only where it outweighs the noise.
    noise_std
        Standard deviation of the noise in an entry of `vector` and in the diagonal of `gram`.
    """

    vector: Floats  # (*R, d)
    gram: Floats  # (*R, d, d)
    users: int = 0
    batches: int = 0
    noise_std: float = 0.0

    def ridge(self, regularizer: float) -> Floats:
        """Return the ridge estimate (G + rho I)^{-1} v, (*R, d), with rho = regularizer + noise_std sqrt(2 d).

        A matrix that is not positive definite all the same is shifted until its least eigenvalue is `regularizer`.
        """
        dim = self.vector.shape[-1]
        size = regularizer + self.noise_std * math.sqrt(2 * dim)
        inverse, _ = positive_inverse(self.gram + size * np.eye(dim), floor=regularizer)
        return np.asarray((inverse @ self.vector[..., None])[..., 0])


@dataclass(frozen=True, kw_only=True)
class LinearPolicy(ScheduledLinearPolicy[LinearSums]):
    """Base for your own linear policy: write `publish(sums)` and `act(snapshot, contexts, rng)`.

    1. The server publishes what devices need, computed from the released sums (`publish`).
    2. Each device of a batch chooses an arm (`act`) and reports (x y, x x^T) of it, clipped.
    3. The server queries the sum of the batch's reports and adds it to the others (`learn`).

    The guarantee is that of the releases: everything else is post-processing.

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of users.
    privacy
        A privacy model, such as `bd.central(...)`.
    batch
        Users of a batch, a schedule such as `bd.policies.geometric(first=100, ratio=1.5)`, or None: growing batches,
        the first of a size that stands out of the noise.
    """

    dim: int
    horizon: int
    privacy: Privacy
    batch: int | str | Schedule | None = None

    def __post_init__(self) -> None:
        self._check_arguments()
        _ = self._schedule

    @abstractmethod
    def publish(self, state: LinearSums) -> Any:
        """Return all that devices need, computed from the released sums."""

    @abstractmethod
    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """Device: choose an arm for every row of clipped features, (n, K, d)."""

    def learn(self, state: LinearSums, episode: FixedLength) -> Generator[SumQuery, Estimate, LinearSums]:
        released = yield self._query(episode)
        batches = state.batches + 1
        users = self.batch_sizes.before(batches)
        vector, gram = self._domain.sums(released.total, users)
        if self._channel.stream is None:  # else it is the sum of all users so far
            vector, gram = state.vector + vector, state.gram + gram
        noise_std = float(self._noise_stds[batches - 1])
        return LinearSums(vector=vector, gram=gram, users=users, batches=batches, noise_std=noise_std)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> LinearSums:
        vector, gram = self._domain.sums(np.zeros((*replicates, self._domain.dim)), 0)
        return LinearSums(vector=vector, gram=gram)

    def clip_features(self, contexts: Floats) -> Floats:
        return self._domain.clip_features(contexts)

    @cached_property
    def _noise_stds(self) -> Floats:
        return self._channel.prefix_std()


def argmax(scores: Floats, rng: DeviceRandomness) -> Choice:
    """Choose the arm with the largest score.

    Parameters
    ----------
    scores
        Scores of the arms, (..., K), which tie if they are equal in single precision.
    rng
        Decides between tied arms with equal probabilities.

    Returns
    -------
    Choice
        The arms, (...), and their probabilities.
    """
    return pick_tied_arms(*find_best_arms(np.asarray(scores)), rng)


class LinearSnapshot:
    """All that a device needs to act; public, because it is computed from releases only."""


@stored_as("LinearState")
@dataclass(frozen=True, kw_only=True)
class LinearState:
    """The released sum of all reports so far, a count of repaired matrices, and the snapshot. R = replicate axes."""

    total: Floats  # (*R, dim)
    batches: int
    repairs: Ints  # (*R)
    snapshot: LinearSnapshot


@dataclass(frozen=True, kw_only=True)
class BatchedLinearPolicy(ScheduledLinearPolicy[LinearState], RunningSumPolicy[LinearState]):
    """Base of LinTS and LinUCB, for which the simulator and light clients have shortcuts."""

    dim: int
    horizon: int
    privacy: Privacy
    batch: int | str | Schedule | None = None

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> LinearState:
        total = np.zeros((*replicates, self._domain.dim))
        snapshot, repairs = self._estimate(total, 0)
        return LinearState(total=total, batches=0, repairs=repairs, snapshot=snapshot)

    def _update(self, state: LinearState, released: Estimate) -> LinearState:
        """Return the state after one more release; matrices that noise made indefinite are repaired and counted."""
        total = released.total if self._channel.stream is not None else state.total + released.total
        batches = state.batches + 1
        snapshot, repaired = self._estimate(total, batches)
        used = self._episode(batches) is not None  # the snapshot after the last round is never used
        return LinearState(total=total, batches=batches, repairs=state.repairs + used * repaired, snapshot=snapshot)

    @abstractmethod
    def _estimate(self, total: Floats, batches: int) -> tuple[Any, NDArray[np.int64]]:
        """Return a snapshot of released sums (*R, dim) of so many batches, and which matrices were repaired (*R)."""

    @property
    @abstractmethod
    def _selector(self) -> ActionSelector:
        """The rule by which devices choose from a snapshot."""

    def _run_counts(self, state: LinearState) -> dict[str, Ints]:
        return {"repairs": state.repairs}

    def _centre_rewards(self, rewards: Floats) -> tuple[Floats, Bools]:
        return self._report_statistic.centred(rewards)

    def _iterate_phases(self) -> Iterator[Self]:
        yield self

    def _for_phase(self, doublings: int) -> Self:
        """Return the policy for a phase of `Anytime`, its horizon doubled so often."""
        return replace(self, horizon=self.horizon << doublings)

    def _calibrated_channels(self) -> dict[int, RunningSumProtocol]:
        return {0: self._channel} if "_channel" in vars(self) else {}

    def _use_channel(self, phase: int, channel: RunningSumProtocol) -> None:
        vars(self).setdefault("_channel", channel)


# Warm starts


@stored_as("Start")
@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """A released sum of earlier users' reports. All numbers are public.

    `variance` is that of the noise in each coordinate. The guarantee (epsilon, delta, trust) is that of those users,
    who must be others than the policy's own.
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
        """Refuse impossible sums, and sums of other reports than the policy's."""
        if len(self.total) != dim:
            raise InvalidArgument(
                "start.total", ValueSummary(f"{len(self.total)} numbers"), f"{dim} numbers, as many as a report has"
            )
        if max(map(abs, self.total)) > 1e30 or self.variance > 1e60 or math.isnan(self.delta):
            raise InvalidArgument("start", ValueSummary("numbers of extreme size"), "a sum of reports")

    def plus(self, total: Floats) -> Floats:
        return np.asarray(total + np.array(self.total))


# Exploration


@stored_as("Uniform")
@dataclass(frozen=True, kw_only=True)
class UniformExploration:
    """Uniform exploration by a public rule: whole episodes before `first` users, later a share `then` of the users."""

    first: int = 0
    then: float = 0.0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "first", least=0)
        validation.set_validated(self, validation.unit_interval, "then")

    def share(self, users: int) -> float:
        """Return the share of exploring users in an episode after so many users."""
        return 1.0 if users < self.first else self.then

    def rounds(self, horizon: int, longest: int) -> float:
        """Bound the mean number of exploring rounds, for episodes of up to `longest` users."""
        alone = min(horizon, self.first + longest - 1) if self.first else 0
        return alone + self.then * (horizon - alone)


@checked_keywords("bd.policies.uniform")
def uniform(*, first: int = 0, then: float = 0.0) -> UniformExploration:
    """Return a rule of uniform exploration, for the argument `explore` of linear policies.

    Parameters
    ----------
    first
        Every user of an episode that begins before so many users explores.
    then
        Probability with which each later user explores.

    Returns
    -------
    UniformExploration
        The public rule.
    """
    return UniformExploration(first=first, then=then)
