"""Linear algebra of small symmetric matrices, and the tie rule between arms.

Arms with equal indices in single precision are tied, because rounding errors separate equal arms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.types import Floats

_FEW, _MODERATE = 1_000, 1e38  # numbers that are looked at one by one; the size of those that single precision has
_SWEPT = 64  # dimensions up to which sweeps over all matrices at once are faster

_plain: Callable[..., Any] = getattr(np.einsum, "_implementation", np.einsum)
einsum: Callable[..., Any] = getattr(_plain, "__globals__", {}).get("c_einsum", _plain)  # of arrays, in half the time


def inner(a: Floats, b: Floats) -> Floats:
    """Return <a, b> over the last axis: (..., d), (..., d) -> (...)."""
    return np.asarray((a[..., None, :] @ b[..., :, None])[..., 0, 0])


def positive_inverse(matrices: Floats, floor: float) -> tuple[Floats, NDArray[np.int64]]:
    """Invert symmetric matrices, (*R, d, d); those not positive definite are shifted by a multiple of I first.

    A shifted matrix has no eigenvalue below `floor` > 0; the second result counts shifts, (*R). An inverse does not
    depend on the matrices beside it.
    """
    shape, d = matrices.shape, matrices.shape[-1]
    flat = matrices.reshape(-1, d, d)
    if d > _SWEPT:
        alone = [_large_inverse(each, floor) for each in flat]
        repairs = np.array([shifted for _, shifted in alone], dtype=np.int64)
        return np.array([found for found, _ in alone]).reshape(shape), repairs.reshape(shape[:-2])
    if len(flat) == 1 and (found := _sweep_single(flat[0])) is not None:
        return found.reshape(shape), np.zeros(shape[:-2], dtype=np.int64)
    inverse, pivots = _sweep(np.array(flat.transpose(1, 2, 0), order="C"))  # replicates last: whole rows at once
    repaired = np.zeros(len(flat), dtype=np.int64)
    if not pivots.min(initial=1.0) > 0:
        for i in np.flatnonzero(~(pivots > 0).all(axis=0)):
            inverse[..., i], repaired[i] = _shifted_inverse(flat[i], floor), 1
    side_by_side = np.ascontiguousarray(inverse.transpose(2, 0, 1))  # products with one of many take the same route
    return side_by_side.reshape(shape), repaired.reshape(shape[:-2])


@np.errstate(all="ignore")  # indefinite matrices are dealt with by the caller
def _sweep(a: Floats) -> tuple[Floats, Floats]:
    """Sweep every pivot (Gauss-Jordan): (d, d, R) -> inverses (d, d, R), pivots (d, R)."""
    pivots, product = np.empty(a.shape[1:]), np.empty(a.shape)
    for k, pivot in enumerate(pivots):
        pivot[:] = a[k, k]
        row = a[k] / pivot  # (d, R)
        a -= np.multiply(a[:, k, None], row, out=product)
        a[k] = a[:, k] = row
        a[k, k] = -1 / pivot
    return np.negative(a, out=a), pivots


@np.errstate(all="ignore")
def _sweep_single(matrix: Floats) -> Floats | None:
    """Invert one matrix by the same sweeps, bit for bit; None if it is not definite."""
    a, product = np.array(matrix, order="C"), np.empty(matrix.shape)
    for k in range(len(a)):
        pivot = a.item(k, k)
        if not pivot > 0:
            return None
        row = a[k] / pivot
        a -= np.multiply(a[:, k, None], row, out=product)
        a[k] = a[:, k] = row
        a[k, k] = -1 / pivot
    return np.negative(a, out=a)


def _large_inverse(matrix: Floats, floor: float) -> tuple[Floats, bool]:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return _shifted_inverse(matrix, floor), True
    inverse = np.linalg.inv(matrix)
    return (inverse + inverse.T) / 2, False


def _shifted_inverse(matrix: Floats, floor: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    shift = max(0.0, floor - float(values[0])) * (1 + 1e-9)
    return np.asarray((vectors / (values + shift)) @ vectors.T)


def first_best(index: Floats) -> NDArray[np.int64]:
    """Return the first arm whose index is the largest in single precision: (..., K) -> (...)."""
    return np.asarray(round_to_single(index).argmax(axis=-1))


def find_best_arms(index: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return the first of the tied best arms, (...), and all, (..., K), or None without a tie."""
    single = round_to_single(index)
    first = np.asarray(single.argmax(axis=-1))
    if first.size == 1:  # one row: whether the largest of those after the first is less
        row, place = single.reshape(-1), first.item()
        later = row[place + 1 :]
        if not later.size or later[later.argmax()] < row[place]:
            return first, None
    below = single < np.maximum.reduce(single, axis=-1, keepdims=True)
    if np.count_nonzero(below) == below.size - first.size:  # all but one in every row
        return first, None
    return first, ~below


def find_best_arms_single(single: NDArray[np.float32]) -> tuple[int, NDArray[np.intp] | None]:
    """Return `find_best_arms` of one rounded row, (K,), with all of them by their places."""
    first = int(single.argmax())
    later = single[first + 1 :]
    if not later.size or later.item(later.argmax()) < single.item(first):
        return first, None
    return first, (~(single < single[first])).nonzero()[0]


def round_to_single(index: Floats) -> NDArray[np.float32]:
    """Round indices to single precision.

    A row beyond single precision is divided by a power of two of its own.
    """
    if 0 < index.size <= _FEW and index.item(index.argmin()) > -_MODERATE and index.item(index.argmax()) < _MODERATE:
        return index.astype(np.float32)  # nothing is beyond it, and to say so takes less time than to be warned
    try:
        with np.errstate(over="raise"):
            return index.astype(np.float32)
    except FloatingPointError:
        numbers = np.isfinite(index)
        with np.errstate(over="ignore"):
            beyond = np.any(numbers & np.isinf(index.astype(np.float32)), axis=-1, keepdims=True)
        peak = np.max(np.abs(index), axis=-1, keepdims=True, where=numbers, initial=1.0)
        return np.ldexp(index, -np.where(beyond, np.frexp(peak)[1], 0)).astype(np.float32)


@lru_cache(maxsize=64)
def upper_triangle(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the upper triangle, diagonal included."""
    rows, columns = np.triu_indices(dim)
    return rows, columns
