"""A BLT as a stream: n running sums make C x, n more undo C, and the memory does not grow with the horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.factorisation import BLT
from bandanna.core.sums import Pair, add, two_product
from bandanna.storage.declared import stored_as

Array = NDArray[np.float64]

_STEPS = 16  # of a block of noise, for any number of seeds: so that a seed is the same run in any company


@stored_as("BLTState")
@dataclass(frozen=True, kw_only=True, eq=False)
class BLTState:
    """After `step` elements. `sums` and `carry` are raw data and stay with the analyzer; the rest is public."""

    step: int
    sums: Array  # (*R, dim, n): s_i of C, of the data
    carry: Array  # (*R, dim, n): what they have beyond their floats
    pulls: Array  # (*R, dim, n): the same of C^{-1}, of the released numbers
    total: Array  # (*R, dim): the estimate of the prefix sum


def begin(factorisation: BLT, shape: tuple[int, ...]) -> BLTState:
    """Nothing has arrived; `shape` = (*R, dim)."""
    empty = np.zeros((*shape, factorisation.buffers))
    return BLTState(step=0, sums=empty, carry=empty, pulls=empty, total=np.zeros(shape))


def advance(factorisation: BLT, state: BLTState, value: Pair, release: Callable[[Pair], Array]) -> BLTState:
    """One element in, one number per coordinate released, one prefix estimated: B y = prefix sums of C^{-1} y."""
    sums, carry, mixed = _decay(factorisation, state, value)
    released = release(mixed)  # y_t = (C x)_t + z_t
    increment = released - state.pulls @ factorisation.inverse_weights  # (C^{-1} y)_t
    pulls = np.asarray(factorisation.theta_hat) * state.pulls + released[..., None]
    total = state.total + increment
    return BLTState(step=state.step + 1, sums=sums, carry=carry, pulls=pulls, total=total)


def modes(factorisation: BLT) -> tuple[Array, Array]:
    """a and r, (n + 1,), of b_k = sum_i a_i r_i^k, the entries of B.

    Prefix sums of 1/C(x) = 1 - sum_i w_hat_i x / (1 - theta_hat_i x) have r = (1, theta_hat),
    a_i = w_hat_i / (1 - theta_hat_i), a_0 = 1/C(1) = prod_i (1 - theta_i) / (1 - theta_hat_i).
    """
    rate, rate_hat = 1 - np.asarray(factorisation.theta), 1 - np.asarray(factorisation.theta_hat)
    a = np.append(np.prod(rate / rate_hat), factorisation.inverse_weights / rate_hat)
    return a, np.append(1.0, factorisation.theta_hat)


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """B z by blocks of L steps: b_{t-u} z_u within a block, and s_i, decaying sums of all blocks before it.

    b_k = sum_i a_i r_i^k, by `modes`. Only s_i is recurrent.
    """

    within: Array  # (L, L): b_{t-u}, lower triangular
    after: Array  # (L, n + 1): a_i r_i^{t+1}, what s_i adds to step t of a block
    left: Array  # (n + 1, L): r_i^{L-1-u}, what step u of a block leaves to s_i
    decay: Array  # (n + 1,): r_i^L

    @classmethod
    def of(cls, factorisation: BLT, steps: int) -> Blocks:
        """With L = `steps`."""
        a, r = modes(factorisation)
        powers: Array = np.power(r[:, None], np.arange(steps + 1.0))  # (n + 1, L + 1)
        lags = np.subtract.outer(np.arange(steps), np.arange(steps))  # t - u
        within = np.where(lags >= 0, (a @ powers[:, :-1])[np.maximum(lags, 0)], 0.0)
        return cls(
            within=within,
            after=np.ascontiguousarray((a[:, None] * powers[:, 1:]).T),
            left=np.ascontiguousarray(powers[:, -2::-1]),
            decay=powers[:, -1],
        )


def noise_blocks(factorisation: BLT, draw: Callable[[int], Array]) -> Iterator[Array]:
    """What `advance` makes of noise z alone, B z, and `draw` gives the next of: (*R, steps, dim) each."""
    blocks, sums = Blocks.of(factorisation, _STEPS), np.zeros(())
    for begin in range(0, factorisation.horizon, _STEPS):
        count = min(_STEPS, factorisation.horizon - begin)
        z = draw(count)
        noise = blocks.within[:count, :count] @ z
        if begin:
            noise += blocks.after[:count] @ sums  # (*R, n + 1, dim)
        if count == _STEPS:
            sums = blocks.decay[:, None] * sums + blocks.left @ z
        yield noise


def _decay(factorisation: BLT, state: BLTState, value: Pair) -> tuple[Array, Array, Pair]:
    """s_i <- theta_i s_i + x_t, and (C x)_t = x_t + sum_i w_i s_i of the old ones, as pairs of floats.

    The price assumes linear C x. Plain rounding errors would add up over 1/(1 - theta_i) steps; here a step adds parts
    in 2^100 of s_i.
    """
    factors = np.stack([factorisation.theta, factorisation.weights])  # (2, n)
    sums, carry = state.sums[..., None, :], state.carry[..., None, :]  # (*R, dim, 1, n)
    high, rest = two_product(factors, sums)  # (*R, dim, 2, n)
    rest = rest + factors * carry
    decayed = add((high[..., 0, :], rest[..., 0, :]), (value[0][..., None], value[1][..., None]))
    mixed = value
    for buffer in range(factorisation.buffers):
        mixed = add(mixed, (high[..., 1, buffer], rest[..., 1, buffer]))
    return *decayed, mixed
