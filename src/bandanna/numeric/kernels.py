"""The compiled kernel of LinUCB that learns in every round (`optimist`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from bandanna.numeric.compiled import DONE, INDEFINITE, OUTSIDE
from bandanna.types import Floats, Ints

# Compilation


Function = TypeVar("Function", bound=Callable[..., object])

_INTERNAL_OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FOUND = Path(__file__).stat()
STAMP = (_FOUND.st_mtime, _FOUND.st_size)


def jit(function: Function) -> Function:
    """Compile a function at its first call, and keep the machine code beside the source or in the user's cache.

    Sums are not reordered and products not fused; division by zero gives infinity. Kernels call `copy_into` instead of
    assigning to slices, for which Numba would compile messages about shapes.
    """
    return cast(Function, _compile(function))


def jit_internal(function: Function) -> Function:
    """Compile a function that only kernels call, faster because Python cannot enter it."""
    return cast(Function, _compile(function, **_INTERNAL_OPTIONS))


def _compile(function: Callable[..., object], **flags: Any) -> Any:
    try:
        made = numba.njit(cache=True, error_model="numpy", **flags)(function)
    except RuntimeError:  # there is no folder that can be written
        return numba.njit(error_model="numpy", **flags)(function)
    cache_file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if cache_file is not None:  # Numba looks at the function's own file: what it calls stands in others of this folder
        own = Path(function.__code__.co_filename).stat()  # a kernel may be defined elsewhere
        cache_file._source_stamp = (*STAMP, own.st_mtime, own.st_size)
    return made


# Arms and small matrices


@jit_internal
def copy_into(numbers: Floats, out: Floats) -> None:
    """Copy n numbers; it compiles faster than out[:] = numbers."""
    for i in range(len(out)):
        out[i] = numbers[i]


@jit_internal
def transpose_arms(arms: Floats, out: Floats) -> None:
    """Write arms (K, d) as columns (d, K), to score many at once."""
    n_arms, d = arms.shape
    for i in range(d):
        row = out[i]
        for k in range(n_arms):
            row[k] = arms[k, i]


@jit_internal
def compute_scores(x: Floats, theta: Floats, out: Floats) -> None:
    """Compute <x, theta> of arms in columns, (K,)."""
    out[:] = 0.0
    for i in range(len(theta)):
        weight, row = theta[i], x[i]
        for k in range(len(out)):
            out[k] += weight * row[k]


@jit_internal
def compute_squared_norms(x: Floats, inverse: Floats, across: Floats, out: Floats) -> None:
    """Compute |x|^2_{V^{-1}} of arms in columns, (K,); `across` is workspace of that size."""
    d, n_arms = x.shape
    out[:] = 0.0
    for i in range(d):
        row, weight, j = x[i], inverse[i, i], i + 1
        if (d - j) % 2 == 1:
            one, first = 2.0 * inverse[i, j], x[j]
            for k in range(n_arms):
                across[k] = weight * row[k] + one * first[k]
            j += 1
        else:
            for k in range(n_arms):
                across[k] = weight * row[k]
        while j < d:
            one, two, first, second = 2.0 * inverse[i, j], 2.0 * inverse[i, j + 1], x[j], x[j + 1]
            for k in range(n_arms):
                across[k] = across[k] + one * first[k] + two * second[k]
            j += 2
        for k in range(n_arms):
            out[k] += across[k] * row[k]


@jit_internal
def multiply_vector(matrix: Floats, x: Floats, out: Floats) -> None:
    """Compute matrix x, (d,)."""
    for i in range(len(x)):
        out[i] = 0.0
        for j in range(len(x)):
            out[i] += matrix[i, j] * x[j]


@jit_internal
def inner(a: Floats, b: Floats) -> float:
    """Return <a, b> of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@jit
def invert_by_sweeps(a: Floats, column: Floats) -> bool:
    """Invert in place as `linalg.positive_inverse`; return False if a pivot is not positive."""
    d = len(a)
    for k in range(d):
        pivot = a[k, k]
        if not pivot > 0:
            return False
        for i in range(d):
            column[i] = a[i, k]
        for j in range(d):
            a[k, j] /= pivot
        for i in range(d):
            if i != k:
                for j in range(d):
                    a[i, j] -= column[i] * a[k, j]
        for i in range(d):
            a[i, k] = a[k, i]
        a[k, k] = -1 / pivot
    for i in range(d):
        for j in range(d):
            a[i, j] = -a[i, j]
    return True


# Estimates from sums


@jit_internal
def initialize_inverse(total: Floats, ridge: float, known: Floats, column: Floats) -> None:
    """Compute A^{-1} = (G + lambda I)^{-1} of exact sums."""
    _unpack(total, known)
    for i in range(len(known)):
        known[i, i] += ridge
    invert_by_sweeps(known, column)


@jit_internal
def update_rank_one(known: Floats, x: Floats, step: Floats) -> None:
    """Update A^{-1} for A + x x^T (Sherman and Morrison 1950)."""
    multiply_vector(known, x, step)
    grown = 1 + inner(step, x)
    for i in range(len(x)):
        for j in range(len(x)):
            known[i, j] -= step[i] * step[j] / grown


@jit_internal
def estimate_from_exact_sums(
    total: Floats,
    scale: float,
    floor: float,
    weight: float,
    known: Floats,
    column: Floats,
    vector: Floats,
    theta: Floats,
    inverse: Floats,
) -> None:
    """Compute theta and P^{-1} of an `OptimismTables` from exact sums and A^{-1}, with one inverse a round.

    With A = G + lambda I, lambda = weight, or floor / scale, P = A if scale is 0; else, with M = s^2 P,

        M = G + lambda^2 A^{-1} + (s^2 weight - lambda) I,  theta = M^{-1} (v - lambda A^{-1} v),  P^{-1} = s^2 M^{-1}.
    """
    d = len(theta)
    multiply_vector(known, total[:d], theta)
    if scale == 0:
        for i in range(d):
            copy_into(known[i], inverse[i])
        return
    ridge = floor / scale
    _unpack(total, inverse)
    for i in range(d):
        vector[i] = total[i] - ridge * theta[i]
        inverse[i, i] += scale * weight - ridge
        for j in range(d):
            inverse[i, j] += ridge * ridge * known[i, j]
    _positive_inverse(inverse, column)
    multiply_vector(inverse, vector, theta)
    for i in range(d):
        for j in range(d):
            inverse[i, j] *= scale


@jit_internal
def _positive_inverse(a: Floats, column: Floats) -> bool:
    d = len(a)
    for k in range(d):
        if not a[k, k] > 0:
            return False
        pivot = 1 / a[k, k]
        for i in range(d):
            column[i] = a[i, k] if i < k else a[k, i]
        for i in range(d):
            factor = column[i] * pivot
            for j in range(i, d):
                a[i, j] -= factor * column[j]
        for i in range(d):
            if i < k:
                a[i, k] = column[i] * pivot
            else:
                a[k, i] = column[i] * pivot
        a[k, k] = -pivot
    for i in range(d):
        for j in range(i, d):
            a[i, j] = a[j, i] = -a[i, j]
    return True


@jit_internal
def _unpack(total: Floats, gram: Floats) -> None:
    d = len(gram)
    place = 2 * d
    for i in range(d):
        gram[i, i] = total[d + i]
        for j in range(i + 1, d):
            gram[i, j] = gram[j, i] = total[place] * math.sqrt(0.5)
            place += 1


@jit
def estimate_from_released_sums(
    released: Floats,
    scale: float,
    floor: float,
    weight: float,
    system: Floats,  # (d, 2 d + 1), room for numbers, as are the next
    vector: Floats,
    column: Floats,
    theta: Floats,
    inverse: Floats,
) -> bool:
    """Compute theta and P^{-1} of an `OptimismTables`; return False if a matrix is indefinite."""
    d = len(theta)
    _unpack(released, inverse)
    for i in range(d):
        vector[i] = released[i]
    if scale > 0 and not _gain(scale, floor, system, column, vector, inverse):
        return False
    for i in range(d):
        inverse[i, i] += weight
    if not _positive_inverse(inverse, column):
        return False
    multiply_vector(inverse, vector, theta)
    return True


@jit_internal
def _gain(scale: float, floor: float, system: Floats, over: Floats, vector: Floats, gram: Floats) -> bool:
    """Replace v by G R^{-1} v and G by G R^{-1} G, above the diagonal; return False if R is not positive definite.

    Elimination with R = L D L^T makes W = L^{-1} G, w = L^{-1} v, so these are sum_k W_k w_k / D_k and sum_k W_k W_k^T
    / D_k. `over` is room for 1 / D.
    """
    d = len(vector)
    for i in range(d):
        for j in range(d):
            system[i, j], system[i, d + j] = scale * gram[i, j], gram[i, j]
            gram[i, j] = 0.0
        system[i, i] += floor
        system[i, 2 * d], vector[i] = vector[i], 0.0
    for k in range(d):
        if not system[k, k] > 0:
            return False
        over[k] = 1 / system[k, k]
        for i in range(k + 1, d):
            factor = system[k, i] * over[k]
            for j in range(i, 2 * d + 1):
                system[i, j] -= factor * system[k, j]
    for k in range(d):
        for i in range(d):
            factor = system[k, d + i] * over[k]
            vector[i] += factor * system[k, 2 * d]
            for j in range(i, d):
                gram[i, j] += factor * system[k, d + j]
    return True


# Tied arms


_LARGEST = float(np.finfo(np.float32).max)


@jit
def find_largest(values: Floats) -> float:
    """Return the largest value, eight at a time for speed."""
    n, p = len(values), values[0]
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = p
    for k in range(7, n, 8):
        p0, p1 = max(p0, values[k - 7]), max(p1, values[k - 6])
        p2, p3 = max(p2, values[k - 5]), max(p3, values[k - 4])
        p4, p5 = max(p4, values[k - 3]), max(p5, values[k - 2])
        p6, p7 = max(p6, values[k - 1]), max(p7, values[k])
    for k in range(n - n % 8, n):
        p0 = max(p0, values[k])
    peak: float = max(max(max(p0, p1), max(p2, p3)), max(max(p4, p5), max(p6, p7)))
    return peak


@jit
def count_tied_arms(index: Floats) -> tuple[int, int]:
    """Return how many arms are tied, and the first of them, as `linalg.find_best_arms`.

    A row beyond single precision is scaled in place first.
    """
    n, beyond = len(index), 0
    for k in range(n):
        beyond += 0 if abs(index[k]) <= _LARGEST else 1
    if beyond > 0:
        _scale_below_one(index)
    peak, count, first = np.float32(find_largest(index)), 0, n
    for k in range(n):
        equal = np.float32(index[k]) == peak
        count += 1 if equal else 0
        first = min(first, k if equal else n)
    return count, first % n


@jit
def _scale_below_one(index: Floats) -> None:
    """Divide by a power of two until the largest is below 1."""
    size = 0.0
    for k in range(len(index)):
        size = max(size, abs(index[k]))
    shift = -math.frexp(size)[1]
    for k in range(len(index)):
        index[k] = math.ldexp(index[k], shift)


@jit
def find_tied_arm(index: Floats, rank: int, first: int) -> int:
    """Return the tied arm of this rank, from the first tied arm on."""
    peak = np.float32(index[first])
    for k in range(first, len(index)):
        if np.float32(index[k]) == peak:
            if rank == 0:
                return k
            rank -= 1
    return first


# The kernel


_ABOVE = math.sqrt(2.0)
_TOGETHER = 16  # arms of which loops take a multiple: a few that are left over would be taken one by one
_TABLE = 1 << 17  # numbers in a table of products; of more arms they are made in every round


@jit
def optimist(
    begin: int,
    end: int,
    arms: Floats,  # (S, n or 1, K, d): of the rounds from `begin` to `end`, or of all of them
    means: Floats,  # (S, n or 1, K)
    uniforms: Floats,  # (S, N): a reward is 1 where its number is below the mean
    coins: Floats,  # (S, N): the next numbers for ties, of which a seed has used `used`
    noise: Floats,  # (S, N, dim), or empty: of the running sums after each round
    total: Floats,  # (S, dim): exact sums, changed
    released: Floats,  # (S, dim): with their noise, changed
    scale: float,  # s^2 of an `OptimismTables`, and its tables, (N,)
    floors: Floats,
    weights: Floats,
    radii: Floats,
    reported: Floats,  # (2,): what is reported of rewards 0 and 1
    by_coins: bool,  # whether coins decide about ties
    place: Ints,  # (3,): seed and round to go on with, and whether theta and inverse are given; changed
    theta: Floats,  # (d,)
    inverse: Floats,  # (d, d)
    used: Ints,  # (S,), changed
    actions: Ints,  # (S, N), filled; so are rewards and losses
    rewards: Floats,
    losses: Floats,
) -> int:
    """Run rounds `begin` to `end` of one seed after the other: estimate, choose, observe, add, release.

    Returns DONE, or INDEFINITE or OUTSIDE: the matrix, or an arm of the round at `place`, has to be repaired first.
    Estimates and indices differ from those of the NumPy code by some units in the last place.
    """
    seeds, blocks, n_arms, d = arms.shape
    fresh, exact, pairs = blocks > 1 or end - begin == 1, noise.size == 0, d * (d + 1) // 2
    tabled = not fresh and pairs * n_arms <= _TABLE
    wide = -(-n_arms // _TOGETHER) * _TOGETHER
    x, table = np.zeros((d, wide)), np.empty((pairs if tabled else 0, wide))
    values, spread, scores, best = np.zeros(wide), np.empty(wide), np.empty(wide), 0.0
    worth, index = values[:n_arms], scores[:n_arms]
    own, column, known = np.empty(d), np.empty(d), np.empty((d, d))
    system = np.empty((d, 2 * d + 1))
    for s in range(place[0], seeds):
        start = place[1] if s == place[0] else begin
        sums, noisy = total[s], released[s]
        if exact:
            initialize_inverse(sums, floors[begin] / scale if scale > 0 else weights[begin], known, column)
        for t in range(start, end):
            if fresh or t == start:
                transpose_arms(arms[s, t - begin if fresh else 0], x)
                copy_into(means[s, t - begin if fresh else 0], worth)
                best = find_largest(worth)
                if not _fits_unit_ball(x, spread):
                    place[0], place[1], place[2] = s, t, 0
                    return OUTSIDE
                if tabled:
                    _tabulate_squares(x, table)
            if exact:
                estimate_from_exact_sums(sums, scale, floors[t], weights[t], known, column, own, theta, inverse)
            elif place[2] == 1:
                place[2] = 0
            elif not estimate_from_released_sums(
                noisy, scale, floors[t], weights[t], system, own, column, theta, inverse
            ):
                place[0], place[1] = s, t
                return INDEFINITE
            if tabled:
                _compute_tabulated_norms(inverse, table, spread)
            else:
                compute_squared_norms(x, inverse, scores, spread)
            compute_scores(x, theta, scores)
            for k in range(wide):
                scores[k] += radii[t] * math.sqrt(max(spread[k], 0.0))
            count, arm = count_tied_arms(index)
            if by_coins and count > 1:
                arm = find_tied_arm(index, int(coins[s, used[s]] * count), arm)
                used[s] += 1
            mean = worth[arm]
            reward = 1.0 if uniforms[s, t] < mean else 0.0
            actions[s, t], rewards[s, t], losses[s, t] = arm, reward, best - mean
            _add_report(x[:, arm], reported[0] + (reported[1] - reported[0]) * reward, own, sums)
            if exact:
                update_rank_one(known, own, column)
            else:
                for i in range(len(sums)):
                    noisy[i] = sums[i] + noise[s, t, i]
    return DONE


@jit
def _fits_unit_ball(x: Floats, length: Floats) -> bool:
    """Return whether no arm (d, K) is longer than 1, beyond rounding errors."""
    d, n_arms = x.shape
    length[:] = 0.0
    for i in range(d):
        row = x[i]
        for k in range(n_arms):
            length[k] += row[k] * row[k]
    limit = 1 + (d + 8) * 2.0**-52
    outside = 0
    for k in range(n_arms):
        outside += 0 if length[k] <= limit * limit else 1  # nor what is not a number
    return outside == 0


@jit
def _tabulate_squares(x: Floats, table: Floats) -> None:
    """Compute x_i x_j of fixed arms (d, K), doubled above the diagonal."""
    d, n_arms = x.shape
    place = 0
    for i in range(d):
        one = x[i]
        for j in range(i, d):
            two, products, times = x[j], table[place], 1.0 if i == j else 2.0
            for k in range(n_arms):
                products[k] = one[k] * two[k] * times
            place += 1


@jit
def _compute_tabulated_norms(inverse: Floats, table: Floats, spread: Floats) -> None:
    place = 0
    spread[:] = 0.0
    for i in range(len(inverse)):
        for j in range(i, len(inverse)):
            weight, row = inverse[i, j], table[place]
            for k in range(len(spread)):
                spread[k] += weight * row[k]
            place += 1


@jit
def _add_report(features: Floats, reward: float, x: Floats, total: Floats) -> None:
    """Add one report: x y, x_i^2, sqrt 2 x_i x_j, with features scaled into the unit ball."""
    d, length = len(x), 0.0
    for i in range(d):
        length += features[i] * features[i]
    length = math.sqrt(length)
    for i in range(d):
        x[i] = features[i] * (1 / length) if length > 1 else features[i]
    place = 2 * d
    for i in range(d):
        total[i] += x[i] * reward
        total[d + i] += x[i] * x[i]
        for j in range(i + 1, d):
            total[place] += _ABOVE * x[i] * x[j]
            place += 1
