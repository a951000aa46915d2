"""Running sums of a stream with Gaussian noise, by a BLT or a binary tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.noise import NoiseSource, check_noise_source, read_protected_values
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.numeric import exact_sums
from bandanna.numeric.exact_sums import Pair, add_pairs, two_product
from bandanna.privacy.events import ContinualEvent
from bandanna.privacy.factorisation import BLT, BinaryTree, Factorisation
from bandanna.privacy.prices import fine_grid
from bandanna.storage.encoding import stored_as

# A BLT as a stream


Array = NDArray[np.float64]

_STEPS = 16  # of a block of noise, for any number of seeds: a seed's run does not depend on the others


@stored_as("BLTState")
@dataclass(frozen=True, kw_only=True, eq=False)
class BLTState:
    """A stream after `step` elements. `sums` and `carry` are raw data and stay with the analyzer."""

    step: int
    sums: Array  # (*R, dim, n): s_i of C, of the data
    carry: Array  # (*R, dim, n): what they have beyond their floats
    pulls: Array  # (*R, dim, n): the same of C^{-1}, of the released numbers
    total: Array  # (*R, dim): the estimate of the prefix sum


def begin_blt(factorisation: BLT, shape: tuple[int, ...]) -> BLTState:
    """Return the state before the first element, for `shape` = (*R, dim)."""
    empty = np.zeros((*shape, factorisation.buffers))
    return BLTState(step=0, sums=empty, carry=empty, pulls=empty, total=np.zeros(shape))


def advance_blt(factorisation: BLT, state: BLTState, value: Pair, release: Callable[[Pair], Array]) -> BLTState:
    """Add one element, release one number per coordinate, and estimate a prefix: B y = prefix sums of C^{-1} y."""
    sums, carry, mixed = _decay_buffers(factorisation, state, value)
    released = release(mixed)  # y_t = (C x)_t + z_t
    increment = released - state.pulls @ factorisation.inverse_weights  # (C^{-1} y)_t
    pulls = np.asarray(factorisation.theta_hat) * state.pulls + released[..., None]
    total = state.total + increment
    return BLTState(step=state.step + 1, sums=sums, carry=carry, pulls=pulls, total=total)


def compute_decay_modes(factorisation: BLT) -> tuple[Array, Array]:
    """Return a and r, (n + 1,), of b_k = sum_i a_i r_i^k, the entries of B."""
    rate, rate_hat = 1 - np.asarray(factorisation.theta), 1 - np.asarray(factorisation.theta_hat)
    a = np.append(np.prod(rate / rate_hat), factorisation.inverse_weights / rate_hat)
    return a, np.append(1.0, factorisation.theta_hat)


@dataclass(frozen=True, kw_only=True, eq=False)
class BLTBlocks:
    """B z by blocks of L steps: b_{t-u} z_u within a block, and s_i, decaying sums of earlier blocks."""

    within: Array  # (L, L): b_{t-u}, lower triangular
    after: Array  # (L, n + 1): a_i r_i^{t+1}, what s_i adds to step t of a block
    left: Array  # (n + 1, L): r_i^{L-1-u}, what step u of a block leaves to s_i
    decay: Array  # (n + 1,): r_i^L

    @classmethod
    def of(cls, factorisation: BLT, steps: int) -> BLTBlocks:
        a, r = compute_decay_modes(factorisation)
        powers: Array = np.power(r[:, None], np.arange(steps + 1.0))  # (n + 1, L + 1)
        lags = np.subtract.outer(np.arange(steps), np.arange(steps))  # t - u
        within = np.where(lags >= 0, (a @ powers[:, :-1])[np.maximum(lags, 0)], 0.0)
        return cls(
            within=within,
            after=np.ascontiguousarray((a[:, None] * powers[:, 1:]).T),
            left=np.ascontiguousarray(powers[:, -2::-1]),
            decay=powers[:, -1],
        )


def blt_noise_blocks(factorisation: BLT, draw: Callable[[int], Array]) -> Iterator[Array]:
    """Yield B z, as `advance_blt` makes it; `draw` returns the next block of z: (*R, steps, dim)."""
    blocks, sums = BLTBlocks.of(factorisation, _STEPS), np.zeros(())
    for begin in range(0, factorisation.horizon, _STEPS):
        count = min(_STEPS, factorisation.horizon - begin)
        z = draw(count)
        noise = blocks.within[:count, :count] @ z
        if begin:
            noise += blocks.after[:count] @ sums  # (*R, n + 1, dim)
        if count == _STEPS:
            sums = blocks.decay[:, None] * sums + blocks.left @ z
        yield noise


def _decay_buffers(factorisation: BLT, state: BLTState, value: Pair) -> tuple[Array, Array, Pair]:
    """Return s_i <- theta_i s_i + x_t, and (C x)_t = x_t + sum_i w_i s_i of the old ones, as pairs of floats.

    The price assumes linear C x; errors of floats would add up.
    """
    factors = np.stack([factorisation.theta, factorisation.weights])  # (2, n)
    sums, carry = state.sums[..., None, :], state.carry[..., None, :]  # (*R, dim, 1, n)
    high, rest = two_product(factors, sums)  # (*R, dim, 2, n)
    rest = rest + factors * carry
    decayed = add_pairs((high[..., 0, :], rest[..., 0, :]), (value[0][..., None], value[1][..., None]))
    mixed = value
    for buffer in range(factorisation.buffers):
        mixed = add_pairs(mixed, (high[..., 1, buffer], rest[..., 1, buffer]))
    return *decayed, mixed


# A binary tree as a stream


@stored_as("TreeNode")
@dataclass(frozen=True, kw_only=True, eq=False)
class TreeNode:
    """A complete block of 2^level elements. `exact` and `rest` are raw data and must stay with the analyzer."""

    exact: Array  # (*R, dim): sum of the block, kept to build the block above
    rest: Array  # (*R, dim): what that sum has beyond its float
    estimate: Array  # (*R, dim): of that sum: this block's release


@stored_as("TreeState")
@dataclass(frozen=True, kw_only=True, eq=False)
class TreeState:
    """A stream after `step` elements: one node for each bit of `step`, largest block first."""

    step: int
    nodes: tuple[TreeNode, ...]
    total: Array  # (*R, dim): the estimate of the prefix sum


def begin_tree(shape: tuple[int, ...]) -> TreeState:
    """Return the state before the first element, for `shape` = (*R, dim)."""
    return TreeState(step=0, nodes=(), total=np.zeros(shape))


def advance_tree(state: TreeState, value: Pair, release: Callable[[Pair], Array]) -> TreeState:
    """Add one element. Every block that it completes is released once and replaces its two halves."""
    step = state.step + 1
    merges = (step & -step).bit_length() - 1  # trailing zeros: how many levels are completed above the leaf
    staying, closing = state.nodes[: len(state.nodes) - merges], state.nodes[len(state.nodes) - merges :][::-1]
    exact = [value]
    for left in closing:
        exact.append(add_pairs((left.exact, left.rest), exact[-1]))
    rows = np.stack([pair[0] for pair in exact], axis=-2), np.stack([pair[1] for pair in exact], axis=-2)
    released = release(rows)  # (*R, merges + 1, dim): one row for each completed block
    nodes = (*staying, TreeNode(exact=exact[-1][0], rest=exact[-1][1], estimate=released[..., -1, :]))
    return TreeState(step=step, nodes=nodes, total=np.sum([node.estimate for node in nodes], axis=0))


# The mechanism


State = BLTState | TreeState


@dataclass(frozen=True, kw_only=True)
class ContinualGaussian:
    """Releases y = C x + z with z_i ~ N(0, std^2) as the stream x arrives, and estimates every prefix sum by B y.

    Privacy: everything computed from y is mu-GDP for the replacement of one user, with mu = Delta C.sensitivity(M0) /
    std for ideal noise, also if elements are chosen after seeing earlier releases. With a grid the accountant adds the
    rounding to the sensitivity. The state holds raw sums: publish prefixes, never states. The caller clips: this class
    relies on `sensitivity`. The price needs exact sums (`numeric.exact_sums`).

    Parameters
    ----------
    factorisation
        A = B C.
    std
        Standard deviation of the noise on every released number.
    sensitivity
        Delta, the l2 change of one element x_t in R^dim (a user's clipped statistic).
    participations
        M0, the number of different elements that one user can change.
    grid
        None: a `fine_grid`, which raises mu by less than 1 part in 10^4. 0.0: ideal noise, for a fast source only.
    """

    factorisation: Factorisation
    std: float
    sensitivity: float
    dim: int = 1
    participations: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factorisation, BLT | BinaryTree):
            raise InvalidArgument("factorisation", self.factorisation, "a BLT or a BinaryTree")
        validation.set_validated(self, validation.positive, "std", "sensitivity")
        validation.set_validated(self, validation.integer, "dim", "participations")
        if self.grid is not None:
            validation.set_validated(self, validation.non_negative, "grid")
        if not self.event.grid <= self.std:  # stating the event checks every other parameter
            raise InvalidArgument("grid", self.grid, f"at most std = {self.std!r}")

    @cached_property
    def spacing(self) -> float:
        """The grid in use; 0 is the ideal."""
        if self.grid is not None:
            return self.grid
        change = self.participations * self.sensitivity * self.factorisation.sensitivity()
        return fine_grid(self.std, change, self.dim * self.factorisation.releases(self.participations))

    @cached_property
    def event(self) -> ContinualEvent:
        """The event of the whole stream; it is priced before the first step."""
        return ContinualEvent(
            factorisation=self.factorisation,
            std=self.std,
            sensitivity=self.sensitivity,
            participations=self.participations,
            dim=self.dim,
            grid=self.spacing,
        )

    @cached_property
    def variances(self) -> NDArray[np.float64]:
        """`prefix_variance` of every step."""
        return self.prefix_variance(np.arange(1, self.factorisation.horizon + 1))

    def prefix_variance(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Return the noise variance per coordinate of the prefix sums at (1-based) steps."""
        return np.asarray((self.std * self.factorisation.prefix_std(steps)) ** 2)

    def begin(self, replicates: tuple[int, ...] = ()) -> State:
        """Return the state before the first element, for independent streams side by side."""
        shape = (*replicates, self.dim)
        return begin_blt(self.factorisation, shape) if isinstance(self.factorisation, BLT) else begin_tree(shape)

    def step(
        self, state: State, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0
    ) -> tuple[State, NDArray[np.float64]]:
        """Take the next element, (*R, dim); return the next state and the noisy prefix sum, (*R, dim).

        Stepping twice from one state would release the same data twice, with fresh noise. `rest` is the rest of an
        exact sum beyond the float `value`.
        """
        if state.step >= self.factorisation.horizon:
            allowed, hint = f"at most the horizon {self.factorisation.horizon}", "The noise is priced for no more steps"
            raise InvalidArgument("step", state.step + 1, allowed, hint)
        element = read_protected_values(value).copy()  # (*R, dim)
        if element.shape != state.total.shape:
            raise InvalidStatistic("value", element, f"an array of shape {state.total.shape}")
        pair = element, np.broadcast_to(read_protected_values(rest), element.shape).copy()
        following = self._advance(state, pair, partial(self._release, check_noise_source(source)))
        return following, following.total.copy()

    def _release(self, source: NoiseSource, exact: exact_sums.Pair) -> NDArray[np.float64]:
        on_grid = source.secure and self.spacing > 0
        centre = exact_sums.find_nearest_grid_point(exact, self.spacing) if on_grid else exact[0]
        return source.gaussian(centre, std=self.std, grid=self.spacing)

    def prefix_noise(self, source: NoiseSource, replicates: tuple[int, ...] = ()) -> Iterator[NDArray[np.float64]]:
        """Yield the noise of the prefix sums, step by step, distributed as by `step`; a secure source is refused."""
        for block in self.noise_blocks(source, replicates):
            yield from np.moveaxis(block, -2, 0)

    def noise_blocks(self, source: NoiseSource, replicates: tuple[int, ...] = ()) -> Iterator[NDArray[np.float64]]:
        """Yield the same noise in blocks of steps: (*R, steps, dim)."""
        if check_noise_source(source).secure:
            raise InsecureSource("noise without its data is a shortcut for simulation; a secure source runs every step")
        if not isinstance(self.factorisation, BLT):
            state, nothing = self.begin(replicates), np.zeros((*replicates, self.dim))
            for _ in range(self.factorisation.horizon):
                state, prefix = self.step(state, nothing, source)
                yield prefix[..., None, :]
            return

        def draw(steps: int) -> NDArray[np.float64]:
            return source.gaussian(np.zeros((*replicates, steps, self.dim)), std=self.std, grid=0.0)

        yield from blt_noise_blocks(self.factorisation, draw)

    def _advance(self, state: State, element: exact_sums.Pair, release: Callable[[exact_sums.Pair], Array]) -> State:
        if isinstance(self.factorisation, BLT) and isinstance(state, BLTState):
            return advance_blt(self.factorisation, state, element, release)
        if isinstance(self.factorisation, BinaryTree) and isinstance(state, TreeState):
            return advance_tree(state, element, release)
        raise InvalidArgument(
            "state", type(state).__name__, f"a state that begin() made for {self.factorisation.name!r}"
        )
