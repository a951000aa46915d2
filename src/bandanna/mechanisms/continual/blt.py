"""A BLT as a stream: n running sums make C x, n more undo C, and the memory does not grow with the horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.factorisation import BLT
from bandanna.core.sums import Pair, add, two_product

Array = NDArray[np.float64]


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


def prefix_noise(factorisation: BLT, draws: Iterable[Array]) -> Iterator[Array]:
    """What `advance` makes of noise z alone: prefix sums of C^{-1} z, (*R, dim) each."""
    weights, decay = factorisation.inverse_weights, np.asarray(factorisation.theta_hat)[:, None]
    total, pulls = np.zeros(()), np.zeros(())
    for z in draws:
        flat = z.reshape(-1)
        if not total.ndim:
            total, pulls = (
                np.zeros(z.shape),
                np.zeros((factorisation.buffers, flat.size)),
            )  # buffers first: few, long rows
        total = total + (flat - weights @ pulls).reshape(z.shape)
        pulls *= decay
        pulls += flat
        yield total


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
