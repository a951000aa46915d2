"""A world of one's own, from arrays or from functions. (For a subclass, see `base`.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.arrays import Floats
from bandanna.core.domain import reals
from bandanna.core.streams import Streams
from bandanna.environments.base import ROUNDING, Environment, World
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayEnvironment(Environment):
    """Arms and means given as arrays, the same for every seed; only the rewards are random.

    arms    feature vectors (K, d), the same in every round, or (T, K, d), one set per round
    theta   (d,): an arm with features x has mean <x, theta>; or, in its place,
    means   (K,) or (T, K): the means themselves, which need not be linear in the features
    reward  the law of the rewards: `Bernoulli()`, `Bounded(width=...)` or one's own

    `dim` and `n_arms` follow from the arms. Without a rounds axis (`rounds` is None) the world is fixed, which is fast;
    with one, a run of more than T rounds is refused. Means must lie in [0, 1]. Features of norm above 1 are allowed
    here; it is the policy that clips them, and counts it. Two environments are equal if arms, means and law are.

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
        arms = _array("arms", self.arms, shape, ndims=(2, 3), error=InvalidStatistic)
        if (self.theta is None) == (self.means is None):
            given = "neither" if self.theta is None else "both"
            raise InvalidArgument("theta, means", Summary(given), "exactly one of the two")
        if self.theta is not None:
            theta = _array("theta", self.theta, f"(d,) = ({arms.shape[-1]},)", ndims=(1,), tail=arms.shape[-1:])
            object.__setattr__(self, "theta", theta)
            means = _in_unit("arms @ theta", arms @ theta, InvalidStatistic)
        else:
            n_arms = arms.shape[-2]
            shape = f"(K,) or (T, K), K = {n_arms}"
            means = _array("means", self.means, shape, ndims=(1, 2), tail=(n_arms,), error=InvalidStatistic)
            means = _in_unit("means", means, InvalidStatistic)
            object.__setattr__(self, "means", means)
        lengths = {array.shape[0] for array, fixed_ndim in ((arms, 2), (means, 1)) if array.ndim > fixed_ndim}
        if len(lengths) > 1:
            raise InvalidArgument("means", means.shape, f"as many rounds as arms, {arms.shape[0]}")
        derived = {"arms": arms, "true_means": means, "rounds": next(iter(lengths), None)}
        for name, value in {**derived, "dim": arms.shape[-1], "n_arms": arms.shape[-2]}.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def _key(self) -> tuple[Any, ...]:
        arms = np.asarray(self.arms)
        return arms.shape, arms.tobytes(), self.true_means.shape, self.true_means.tobytes(), self.reward

    def __eq__(self, other: object) -> bool:
        """Equal arms, means and law of rewards."""
        return isinstance(other, ArrayEnvironment) and self._key() == other._key()

    def __hash__(self) -> int:
        """By value."""
        return hash(self._key())

    def begin(self, streams: Streams) -> ArrayWorld:
        """Nothing is drawn."""
        return ArrayWorld(environment=self, streams=streams)


class ArrayWorld(World):
    """Worlds of `ArrayEnvironment`."""

    def __init__(self, *, environment: ArrayEnvironment, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams, fixed=environment.rounds is None)
        self.arms: Floats = np.asarray(environment.arms)  # (K, d) or (T, K, d)
        self.table = environment.true_means  # (K,) or (T, K)
        self.length = environment.rounds
        self.block = slice(0, 1)  # the rounds that were read last

    def contexts(self, start: int, rounds: int) -> Floats:
        """The same for every seed; not a copy."""
        if self.length is not None and start + rounds > self.length:
            allowed = (
                f"at most {self.length}, the rounds of the given arrays: the policy's horizon is longer than they are"
            )
            raise InvalidArgument("round", start + rounds, allowed)
        self.block = slice(start, start + (1 if self.fixed else rounds))
        return self._block(self.arms, each=2)

    def means(self, contexts: Floats) -> Floats:
        """The table's rows of the rounds that were read last."""
        return self._block(self.table, each=1)

    def _block(self, array: Floats, *, each: int) -> Floats:
        """The rounds of the block, for every seed; an array without a rounds axis (`each` axes) is repeated."""
        rows = array[self.block] if array.ndim > each else array[None]
        return np.broadcast_to(
            rows, (len(self.streams.seeds), self.block.stop - self.block.start, *array.shape[-each:])
        )


@dataclass(frozen=True, kw_only=True)
class CallableEnvironment(Environment):
    """Arms and means given as functions, called round by round for every seed: simple, but slow for long runs.

    contexts  (round, rng) -> features (K, d) of rounds 0, 1, ..., in this order; `rng` is a `numpy` generator that
              belongs to the seed and to this purpose
    mean      features (K, d) -> mean rewards (K,), in [0, 1]

    Both must depend on nothing but their arguments (and `rng`): then a seed gives the same world alone and among
    others. Other shapes, numbers that are not finite and means outside [0, 1] are refused when they appear. Functions
    defined at the top level of a module can be sent to other processes, lambdas cannot.

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
        """One generator per seed, from the stream "contexts"."""
        return CallableWorld(environment=self, streams=streams)


class CallableWorld(World):
    """Worlds of `CallableEnvironment`."""

    def __init__(self, *, environment: CallableEnvironment, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.functions = environment

    def contexts(self, start: int, rounds: int) -> Floats:
        """One call per seed and round."""
        shape = (self.n_arms, self.environment.dim)
        wanted = f"(n_arms, dim) = {shape}"
        features = np.empty((len(self.streams.seeds), rounds, *shape))
        for rng, own in zip(self.streams.generators("contexts"), features, strict=True):
            for t in range(rounds):
                given = self.functions.contexts(start + t, rng)
                name = f"contexts({start + t}, rng)"
                own[t] = _array(name, given, wanted, ndims=(2,), tail=shape, error=InvalidStatistic)
        return features

    def means(self, contexts: Floats) -> Floats:
        """One call per seed and round."""
        means = np.empty(contexts.shape[:-1])
        for index in np.ndindex(*contexts.shape[:2]):
            given = self.functions.mean(contexts[index].copy())
            wanted = f"(n_arms,) = ({self.n_arms},)"
            row = _array("mean(features)", given, wanted, ndims=(1,), tail=(self.n_arms,), error=InvalidStatistic)
            means[index] = _in_unit("mean(features)", row, InvalidStatistic)
        return means


def _array(
    argument: str,
    value: Any,
    wanted: str,
    *,
    ndims: tuple[int, ...],
    tail: tuple[int, ...] = (),
    error: type[InvalidArgument] = InvalidArgument,
) -> Floats:
    """A read-only copy with finite entries, one of the numbers of axes, no axis empty, and these last axes."""
    try:
        array = reals(argument, value, f"an array of numbers of shape {wanted}").copy()
    except InvalidStatistic as refused:
        raise error(refused.argument, refused.value, refused.allowed) from None
    if array.ndim not in ndims or 0 in array.shape or array.shape[len(array.shape) - len(tail) :] != tail:
        raise error(f"{argument}: shape", Summary(array.shape), wanted)
    _refuse(argument, array, ~np.isfinite(array), "a finite number", error)
    array.setflags(write=False)
    return array


def _in_unit(argument: str, means: Floats, error: type[InvalidArgument]) -> Floats:
    """Means in [0, 1], read-only; rounding errors are cut off."""
    _refuse(argument, means, (means < -ROUNDING) | (means > 1 + ROUNDING), "a mean in [0, 1]", error)
    cut = np.clip(means, 0.0, 1.0)
    cut.setflags(write=False)
    return cut


def _refuse(argument: str, array: Floats, wrong: Any, allowed: str, error: type[InvalidArgument]) -> None:
    """Name the first wrong entry."""
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise error(f"{argument}[{', '.join(map(str, index))}]", float(array[index]), allowed)
