"""Environments made of arrays, functions and tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.domain import check_all_finite, read_real_array
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import ROUNDING, Certain, Environment, RewardLaw, World
from bandanna.types import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayEnvironment(Environment):
    """Arms and means given as arrays, the same for every seed; only the rewards are random.

    Parameters
    ----------
    arms : array_like
        Feature vectors (K, d), the same in every round, which is fast; or (T, K, d), one set for each of T rounds.
    theta : array_like, optional
        (d,): an arm with features x has the mean <x, theta>.
    means : array_like, optional
        (K,) or (T, K), given instead of `theta`: means in [0, 1], which need not be linear in the features.

    Examples
    --------
    >>> env = ArrayEnvironment(arms=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.4])
    >>> env
    ArrayEnvironment(dim=2, n_arms=2, reward=Bernoulli(), rounds=None)
    >>> env.true_means
    array([0.5 , 0.62])
    """

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    arms: ArrayLike = field(repr=False)
    theta: ArrayLike | None = field(default=None, repr=False)
    means: ArrayLike | None = field(default=None, repr=False)
    rounds: int | None = field(init=False)  # T
    true_means: Floats = field(init=False, repr=False)  # (K,) or (T, K)

    def __post_init__(self) -> None:
        shape = "(K, d) or (T, K, d), each at least 1"
        arms = _checked_copy("arms", self.arms, shape, ndims=(2, 3), error=InvalidStatistic)
        if (self.theta is None) == (self.means is None):
            given = "neither" if self.theta is None else "both"
            raise InvalidArgument("theta, means", ValueSummary(given), "exactly one of the two")
        if self.theta is not None:
            theta = _checked_copy("theta", self.theta, f"(d,) = ({arms.shape[-1]},)", ndims=(1,), tail=arms.shape[-1:])
            object.__setattr__(self, "theta", theta)
            means = _check_unit_means("arms @ theta", arms @ theta, InvalidStatistic)
        else:
            n_arms = arms.shape[-2]
            shape = f"(K,) or (T, K), K = {n_arms}"
            means = _checked_copy("means", self.means, shape, ndims=(1, 2), tail=(n_arms,), error=InvalidStatistic)
            means = _check_unit_means("means", means, InvalidStatistic)
            object.__setattr__(self, "means", means)
        lengths = {array.shape[0] for array, fixed_ndim in ((arms, 2), (means, 1)) if array.ndim > fixed_ndim}
        if len(lengths) > 1:
            raise InvalidArgument("means", means.shape, f"of {arms.shape[0]} rounds, as many as arms")
        derived = {"arms": arms, "true_means": means, "rounds": next(iter(lengths), None)}
        for name, value in {**derived, "dim": arms.shape[-1], "n_arms": arms.shape[-2]}.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def _key(self) -> tuple[Any, ...]:
        arms = np.asarray(self.arms)
        return arms.shape, arms.tobytes(), self.true_means.shape, self.true_means.tobytes(), self.reward

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayEnvironment) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def begin(self, streams: Streams) -> ArrayWorld:
        return ArrayWorld(environment=self, streams=streams)


class ArrayWorld(World):
    """World that `ArrayEnvironment` begins.

    Parameters
    ----------
    environment
        The `ArrayEnvironment` of this world.
    streams
        Random streams of S seeds, one world each.
    """

    def __init__(self, *, environment: ArrayEnvironment, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams, fixed=environment.rounds is None)
        self.arms: Floats = np.asarray(environment.arms)  # (K, d) or (T, K, d)
        self.table = environment.true_means  # (K,) or (T, K)
        self.length = environment.rounds
        self.block = slice(0, 1)  # the rounds that were read last

    def contexts(self, start: int, rounds: int) -> Floats:
        if self.length is not None and start + rounds > self.length:
            allowed = f"at most {self.length}, the rounds of the given arrays"
            raise InvalidArgument("round", start + rounds, allowed)
        self.block = slice(start, start + (1 if self.fixed else rounds))
        return self._block(self.arms, each=2)

    def means(self, contexts: Floats) -> Floats:
        return self._block(self.table, each=1)

    def _block(self, array: Floats, *, each: int) -> Floats:
        rows = array[self.block] if array.ndim > each else array[None]
        return np.broadcast_to(
            rows, (len(self.streams.seeds), self.block.stop - self.block.start, *array.shape[-each:])
        )


@dataclass(frozen=True, kw_only=True)
class CallableEnvironment(Environment):
    """Arms and means given as functions, called round by round for every seed: slow for long runs.

    Both must depend on their arguments only. Lambdas cannot be sent to other processes.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms.
    contexts : callable
        (round, rng) -> features (K, d) of rounds 0, 1, ... in order; `rng` is a `numpy` generator of the seed.
    mean : callable
        features (K, d) -> mean rewards (K,), in [0, 1].

    Examples
    --------
    >>> env = CallableEnvironment(
    ...     dim=2, n_arms=3,
    ...     contexts=lambda round, rng: rng.random((3, 2)) / 2,
    ...     mean=lambda features: features.sum(axis=-1) ** 2,
    ... )
    >>> world = env.begin(Streams([7]))
    >>> world.means(world.contexts(0, 10)).shape
    (1, 10, 3)
    """

    contexts: Callable[[int, np.random.Generator], ArrayLike]
    mean: Callable[[Floats], ArrayLike]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("contexts", "mean"):
            if not callable(getattr(self, name)):
                raise InvalidArgument(name, getattr(self, name), "a function")

    def begin(self, streams: Streams) -> CallableWorld:
        return CallableWorld(environment=self, streams=streams)


class CallableWorld(World):
    """World that `CallableEnvironment` begins.

    Parameters
    ----------
    environment
        The `CallableEnvironment` of this world.
    streams
        Random streams of S seeds, one world each.
    """

    def __init__(self, *, environment: CallableEnvironment, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.functions = environment

    def contexts(self, start: int, rounds: int) -> Floats:
        shape = (self.n_arms, self.environment.dim)
        expected = f"(n_arms, dim) = {shape}"
        features = np.empty((len(self.streams.seeds), rounds, *shape))
        for rng, own in zip(self.streams.generators("contexts"), features, strict=True):
            for t in range(rounds):
                given = self.functions.contexts(start + t, rng)
                name = f"contexts({start + t}, rng)"
                own[t] = _checked_copy(name, given, expected, ndims=(2,), tail=shape, error=InvalidStatistic)
        return features

    def means(self, contexts: Floats) -> Floats:
        means = np.empty(contexts.shape[:-1])
        for index in np.ndindex(*contexts.shape[:2]):
            given = self.functions.mean(contexts[index].copy())
            expected = f"(n_arms,) = ({self.n_arms},)"
            row = _checked_copy(
                "mean(features)", given, expected, ndims=(1,), tail=(self.n_arms,), error=InvalidStatistic
            )
            means[index] = _check_unit_means("mean(features)", row, InvalidStatistic)
        return means


def _checked_copy(
    argument: str,
    value: Any,
    expected: str,
    *,
    ndims: tuple[int, ...],
    tail: tuple[int, ...] = (),
    error: type[InvalidArgument] = InvalidArgument,
) -> Floats:
    try:
        array = read_real_array(argument, value, f"an array of numbers of shape {expected}").copy()
    except InvalidStatistic as refused:
        raise error(refused.argument, refused.value, refused.allowed) from None
    if array.ndim not in ndims or 0 in array.shape or array.shape[len(array.shape) - len(tail) :] != tail:
        raise error(f"{argument}: shape", ValueSummary(array.shape), expected)
    _refuse_entry(argument, array, ~np.isfinite(array), "a finite number", error)
    array.setflags(write=False)
    return array


def _check_unit_means(argument: str, means: Floats, error: type[InvalidArgument]) -> Floats:
    _refuse_entry(argument, means, (means < -ROUNDING) | (means > 1 + ROUNDING), "a mean in [0, 1]", error)
    cut = np.clip(means, 0.0, 1.0)
    cut.setflags(write=False)
    return cut


def _refuse_entry(argument: str, array: Floats, wrong: Any, allowed: str, error: type[InvalidArgument]) -> None:
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise error(f"{argument}[{', '.join(map(str, index))}]", float(array[index]), allowed)


# Tables of people


_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Environment):
    """A table with the features of n users and the reward of each arm. `from_labels` makes one of labelled data.

    Parameters
    ----------
    features : array_like
        (n, d), the same for every arm, for policies with a model for each arm; or (n, K, d).
    rewards : array_like
        (n, K), in [0, 1].
    resample : bool
        Draw a user anew in every round. If False, each seed has its own order of at most n rounds.
    reward : RewardLaw
        The law of rewards around those of the table; exactly those by default.

    Examples
    --------
    >>> env = Table.from_labels([[0.5, 0.1], [0.2, 0.8], [0.4, 0.4]], ["tea", "coffee", "tea"])
    >>> env
    Table(dim=2, n_arms=2, reward=Certain(), resample=True, people=3)
    >>> np.asarray(env.rewards).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    reward: RewardLaw = Certain()
    features: ArrayLike = field(repr=False, kw_only=False)
    rewards: ArrayLike = field(repr=False, kw_only=False)
    resample: bool = True
    people: int = field(init=False)  # n

    def __post_init__(self) -> None:
        rewards = _table_array("rewards", self.rewards, (2,), "(n, K)")
        if rewards.min() < -_ROUNDING or rewards.max() > 1 + _ROUNDING:
            raise InvalidStatistic("rewards", ValueSummary("numbers outside of it"), "in [0, 1]", "Scale them first")
        features = _table_array("features", self.features, (2, 3), "(n, d) or (n, K, d)")
        n, arms = rewards.shape
        if features.shape[:-1] not in ((n,), (n, arms)):
            raise InvalidStatistic(
                "shape of features", ValueSummary(features.shape), f"({n}, d) or ({n}, {arms}, d), to fit the rewards"
            )
        validation.set_validated(self, validation.boolean, "resample")
        kept = {"features": features, "rewards": np.clip(rewards, 0.0, 1.0), "dim": features.shape[-1]}
        for name, value in {**kept, "n_arms": arms, "people": n}.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def from_labels(cls, x: ArrayLike, y: Any, *, resample: bool = True) -> Table:
        """Make a table of features (n, d) and the right arm of each user; arms are the sorted labels."""
        labels = np.empty(0)
        with suppress(Exception):  # a foreign object may raise anything, and show what it holds
            labels = np.asarray(y)
        if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "biuUSO":
            raise InvalidStatistic("y", y, "a label for each row of x, integers or strings")
        rewards = None
        with suppress(TypeError):
            known, place = np.unique(labels, return_inverse=True)
            rewards = np.eye(len(known))[place.ravel()]
        if rewards is None:
            raise InvalidStatistic("y", ValueSummary("labels of several types"), "integers or strings")
        return cls(features=x, rewards=rewards, resample=resample)

    def _key(self) -> tuple[Any, ...]:
        tables = np.asarray(self.features), np.asarray(self.rewards)
        return *(part for table in tables for part in (table.shape, table.tobytes())), self.resample, self.reward

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def check_rounds(self, rounds: int) -> int:
        if not self.resample and rounds > self.people:
            allowed = f"at most {self.people:,}, the rows of the table"
            raise InvalidArgument("horizon", rounds, allowed, "Use resample=True for more rounds")
        return rounds

    def begin(self, streams: Streams) -> TableWorld:
        return TableWorld(environment=self, streams=streams)


class TableWorld(World):
    """World that `Table` begins.

    Parameters
    ----------
    environment
        The `Table` of this world.
    streams
        Random streams of S seeds, one world each.
    """

    def __init__(self, *, environment: Table, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.features: Floats = np.asarray(environment.features)
        self.table: Floats = np.asarray(environment.rewards)
        self.order: list[Ints] | None = None
        if not environment.resample:
            self.order = [rng.permutation(environment.people) for rng in streams.generators("order")]
        self.now: Ints = np.zeros((len(streams.seeds), 0), dtype=np.int64)  # who comes in the rounds read last

    def contexts(self, start: int, rounds: int) -> Floats:
        if self.order is None:
            n = len(self.table)
            drawn = (self.streams.uniform("people", (rounds,)) * n).astype(np.int64)
            self.now = np.minimum(drawn, n - 1)
        else:
            self.now = np.stack([order[start : start + rounds] for order in self.order])
        shown = self.features[self.now]
        return shown if shown.ndim == 4 else np.repeat(shown[:, :, None, :], self.n_arms, axis=2)

    def means(self, contexts: Floats) -> Floats:
        return self.table[self.now]


def _table_array(name: str, given: Any, ndims: tuple[int, ...], shape: str) -> Floats:
    array = np.array(read_real_array(name, given), dtype=float)
    if array.ndim not in ndims or 0 in array.shape:
        raise InvalidStatistic(f"shape of {name}", ValueSummary(array.shape), f"{shape}, each at least 1")
    check_all_finite(name, array)
    return array
