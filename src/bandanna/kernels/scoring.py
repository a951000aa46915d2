"""What kernels compute of arms and small matrices: products, squared norms, an inverse."""

from __future__ import annotations

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit, part


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
