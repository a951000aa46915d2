"""What kernels of generalised linear policies have in common: indices of arms, means, small products."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit, part

LOGISTIC, PROBIT, LINEAR, IDENTITY = 0, 1, 2, 3  # links; the last: the index is <x, theta> itself
_PER_OCTAVE, _ROUND = 1.4426950408889634, 1.5 * 2.0**52  # 1/log 2; a number to which n is added by rounding
_OCTAVE, _REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log 2 in two parts (fdlibm)


@part
def copy(numbers: Floats, out: Floats) -> None:
    """out[:] = numbers, (n,), whose errors of shape would take Numba longer to compile than the loop."""
    for i in range(len(out)):
        out[i] = numbers[i]


@part
def columns(arms: Floats, out: Floats) -> None:
    """Arms (K, d) side by side, (d, K): many are scored at once."""
    n_arms, d = arms.shape
    for i in range(d):
        row = out[i]
        for k in range(n_arms):
            row[k] = arms[k, i]


@part
def along(x: Floats, theta: Floats, out: Floats) -> None:
    """<x, theta> of arms in columns (d, K), (K,)."""
    out[:] = 0.0
    for i in range(len(theta)):
        weight, row = theta[i], x[i]
        for k in range(len(out)):
            out[k] += weight * row[k]


@part
def squares(x: Floats, inverse: Floats, across: Floats, out: Floats) -> None:
    """|x|^2_{V^{-1}} of arms in columns (d, K), (K,); `across`: room for as many numbers.

    Two terms in one pass over the arms, each added in its order.
    """
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


@part
def indices(x: Floats, theta: Floats, inverse: Floats, radius: float, link: int, work: Floats) -> None:
    """mu(<x, theta>) + radius |x|_{V^{-1}} of arms in columns (d, K): the first row of `work` (4, K)."""
    z, square = work[0], work[1]
    along(x, theta, z)
    squares(x, inverse, work[2], square)
    if link == LOGISTIC:
        logistic(z, work[2], work[3])
    elif link == PROBIT:
        for k in range(len(z)):
            z[k] = mean(z[k], PROBIT)
    for k in range(len(z)):
        z[k] += radius * math.sqrt(max(square[k], 0.0))


@part
def logistic(z: Floats, whole: Floats, power: Floats) -> None:
    """1 / (1 + e^-z) in place, many at once, to two units in the last place: e^-|z| = 2^n e^r, |r| <= log(2)/2."""
    n_arms, bits = len(z), whole.view(np.int64)
    for k in range(n_arms):
        whole[k] = max(-abs(z[k]), -700.0) * _PER_OCTAVE + _ROUND  # n is in the last bits of it
    for k in range(n_arms):
        n = whole[k] - _ROUND
        r = (max(-abs(z[k]), -700.0) - n * _OCTAVE) - n * _REST
        p = 1.6059043836821613e-10 * r + 2.08767569878681e-09  # 1/13!, 1/12!, ...
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        power[k] = p * r + 1.0
    for k in range(n_arms):
        bits[k] = (bits[k] + 1023) << 52  # 2^n
    for k in range(n_arms):
        small = power[k] * whole[k]
        z[k] = (1.0 if z[k] >= 0 else small) / (1.0 + small)


@part
def mean(z: float, link: int) -> float:
    """mu(z)."""
    if link == LOGISTIC:
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))
    if link == PROBIT:
        return 0.5 * math.erfc(-z * math.sqrt(0.5))
    return z


@part
def times(matrix: Floats, x: Floats, out: Floats) -> None:
    """matrix x, (d,)."""
    for i in range(len(x)):
        out[i] = 0.0
        for j in range(len(x)):
            out[i] += matrix[i, j] * x[j]


@part
def inner(a: Floats, b: Floats) -> float:
    """<a, b>."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@part
def solve(matrix: Floats, x: Floats) -> bool:
    """matrix^{-1} x, in place of x; False if the matrix is not positive definite."""
    d = len(x)
    for k in range(d):
        if not matrix[k, k] > 0:
            return False
        for i in range(k + 1, d):
            factor = matrix[i, k] / matrix[k, k]
            for j in range(k, d):
                matrix[i, j] -= factor * matrix[k, j]
            x[i] -= factor * x[k]
    for k in range(d - 1, -1, -1):
        for j in range(k + 1, d):
            x[k] -= matrix[k, j] * x[j]
        x[k] /= matrix[k, k]
    return True


@jit
def swept(a: Floats, column: Floats) -> bool:
    """The inverse, in place, by the sweeps of `linalg.positive_inverse`; False if a pivot is not positive."""
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
