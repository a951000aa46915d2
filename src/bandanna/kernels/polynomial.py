"""The loss of a generalised linear model near a point, as `glm.expansion` has it, by the polynomial of its Hessian:

    H_ij(a + D) = sum_m D^m / m! T_{m + e_i + e_j},     T_n = sum_i mu^(|n| - 1)(<x_i, a>) x_i^n,

over multi-indices m of degree below p. G_m of `Expansion` has T_{m + e_i}; with H_k the part of degree k of the
Hessian, the gradient's part of degree k + 1 is H_k D / (k + 1) (Euler): of G itself only the gradient at a is needed.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, jit_reordering
from bandanna.kernels.scoring import LOGISTIC, copy, inner, logistic, mean, solve

_ROWS = 64  # side by side
_SQRT_TAU = math.sqrt(2 * math.pi)


@jit
def powers_of(x: Floats, indices: Ints, powers: Floats) -> None:
    """x^m of the first multi-indices, each from the one that is a factor shorter."""
    powers[0] = 1.0
    for m in range(1, len(powers)):
        powers[m] = powers[indices[m, 1]] * x[indices[m, 2]]


@jit
def add(
    gradient: Floats,  # (d,): at the anchor, changed
    table: Floats,  # (d (d + 1) / 2, L): T_{m + e_i + e_j}, i <= j, changed
    x: Floats,
    slopes: Floats,  # mu - r, mu', ... of the row's <x, a>
    indices: Ints,  # (N, 3): of each multi-index its degree, which is a factor shorter, and by which variable
    powers: Floats,
) -> None:
    """One more row."""
    d, pair = len(x), 0
    powers_of(x, indices, powers)
    for m in range(len(powers)):
        powers[m] *= slopes[indices[m, 0] + 1]
    for i in range(d):
        gradient[i] += slopes[0] * x[i]
        for j in range(i, d):
            factor, row = x[i] * x[j], table[pair]
            for m in range(len(powers)):
                row[m] += factor * powers[m]
            pair += 1


@jit
def _derivatives(values: Floats, powers: Floats, polynomials: Floats, out: Floats) -> None:
    """mu', mu'', ... of n rows, out[1:]: polynomials of mu or of z (n,); their first terms are in `powers`, changed."""
    out[1:] = 0.0
    for degree in range(len(polynomials)):
        for k in range(1, len(out)):
            row, factor = out[k], polynomials[degree, k]
            for r in range(len(values)):
                row[r] += powers[r] * factor
        for r in range(len(values)):
            powers[r] *= values[r]


@jit
def slopes_of(z: Floats, rewards: Floats, link: int, polynomials: Floats, work: Floats, out: Floats) -> None:
    """mu - r, mu', ... of n rows, (order, n), from z and rewards (n,); `work`: (2, n)."""
    n, values, density = len(z), out[0], work[0]
    if link == LOGISTIC:
        copy(z, values)
        logistic(values, work[0], work[1])
        copy(values, density)
        _derivatives(values, density, polynomials, out)
    else:
        for r in range(n):
            z[r] = min(max(z[r], -40.0), 40.0)
            density[r] = math.exp(-0.5 * z[r] * z[r]) / _SQRT_TAU
            values[r] = mean(z[r], link)
        _derivatives(z, density, polynomials, out)
    for r in range(n):
        values[r] -= rewards[r]


@jit_reordering
def tabulate(
    anchor: Floats,
    features: Floats,  # (n, d)
    rewards: Floats,
    link: int,
    polynomials: Floats,
    indices: Ints,
    beyond: Ints,  # (L, d (d + 1) / 2): the places of m + e_i + e_j
    gradient: Floats,  # filled; so is the table
    table: Floats,
) -> None:
    """Gradient and table of all rows around the anchor."""
    (count, d), order = features.shape, indices[-1, 0]
    x, results, z, work = np.empty((d, _ROWS)), np.empty(_ROWS), np.empty(_ROWS), np.empty((2, _ROWS))
    slopes, powers, totals = np.empty((order, _ROWS)), np.ones((len(indices), _ROWS)), np.zeros(len(indices))
    for begin in range(0, count, _ROWS):
        _side_by_side(features, rewards, begin, anchor, x, results, z)
        slopes_of(z, results, link, polynomials, work, slopes)
        slopes[:, count - begin :] = 0.0  # nobody's
        for n in range(1, len(indices)):
            product, parent, factor = powers[n], powers[indices[n, 1]], x[indices[n, 2]]
            slope, total = slopes[indices[n, 0] - 1], 0.0
            for r in range(_ROWS):
                value = parent[r] * factor[r]
                product[r] = value
                total += slope[r] * value
            totals[n] += total
    copy(totals[1:], gradient)
    for m in range(len(beyond)):
        for pair in range(len(table)):
            table[pair, m] = totals[beyond[m, pair]]


@jit
def _side_by_side(
    features: Floats, rewards: Floats, begin: int, theta: Floats, x: Floats, results: Floats, z: Floats
) -> None:
    """Rows from `begin` on as columns, with <x, theta>; zeros beyond the last."""
    x[:] = 0.0
    results[:] = 0.0
    for r in range(min(_ROWS, len(features) - begin)):
        results[r] = rewards[begin + r]
        for i in range(len(theta)):
            x[i, r] = features[begin + r, i]
    z[:] = 0.0
    for i in range(len(theta)):
        for r in range(_ROWS):
            z[r] += theta[i] * x[i, r]


@jit
def follow(
    theta: Floats,  # (d,): where to begin, changed
    anchor: Floats,
    reach: float,
    gradient: Floats,
    table: Floats,
    indices: Ints,
    inverse_factorials: Floats,  # (L,)
    link: int,
    ridge: float,
    tolerance: float,
    powers: Floats,
    step: Floats,
    hessian: Floats,
) -> bool:
    """Newton's method on the polynomial, as `Expansion.minimise`; whether it ended within reach."""
    d, away, parts, shares = len(theta), np.empty(len(theta)), np.empty(len(powers)), np.empty(len(powers))
    for m in range(len(powers)):
        shares[m] = 1 / (indices[m, 0] + 1)
    for _ in range(6):
        for i in range(d):
            away[i] = theta[i] - anchor[i]
            step[i] = gradient[i] + ridge * theta[i]
        powers_of(away, indices, powers)
        for m in range(len(powers)):
            powers[m] *= inverse_factorials[m]
            parts[m] = powers[m] * shares[m]
        pair = 0
        for i in range(d):
            for j in range(i, d):
                hessian[i, j], along = _two(powers, parts, table[pair])
                step[i] += along * away[j]
                if i != j:
                    step[j] += along * away[i]
                pair += 1
        if not _newton(hessian, step, ridge):
            return False
        for i in range(d):
            theta[i] -= step[i]
            away[i] = theta[i] - anchor[i]
        if _reached(link, step, theta, tolerance)[1]:
            return math.sqrt(inner(away, away)) <= reach
    return False


@jit_reordering
def _dot(a: Floats, b: Floats) -> float:
    """<a, b>, added up in any order."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@jit_reordering
def _two(a: Floats, b: Floats, row: Floats) -> tuple[float, float]:
    """<a, row> and <b, row>, added up in any order."""
    one, two = 0.0, 0.0
    for i in range(len(row)):
        one += a[i] * row[i]
        two += b[i] * row[i]
    return one, two


@jit
def estimate(
    theta: Floats,  # (d,): where to begin, changed
    features: Floats,  # (n, d)
    rewards: Floats,
    link: int,
    ridge: float,
    tolerance: float,
    polynomials: Floats,
    step: Floats,
    hessian: Floats,
) -> bool:
    """Newton's method on all rows, as `maximum_likelihood`; False where a step is so long that it would be damped."""
    d = len(theta)
    x, results, z, work = np.empty((d, _ROWS)), np.empty(_ROWS), np.empty(_ROWS), np.empty((2, _ROWS))
    slopes = np.empty((2, _ROWS))
    for _ in range(200):
        hessian[:] = 0.0
        for i in range(d):
            step[i] = ridge * theta[i]
        for begin in range(0, len(features), _ROWS):
            _side_by_side(features, rewards, begin, theta, x, results, z)
            slopes_of(z, results, link, polynomials, work, slopes)
            slopes[0, len(features) - begin :] = 0.0  # nobody's; their x is 0
            for i in range(d):
                step[i] += _dot(slopes[0], x[i])
                for r in range(_ROWS):
                    z[r] = slopes[1, r] * x[i, r]
                for j in range(i, d):
                    hessian[i, j] += _dot(z, x[j])
        if not _newton(hessian, step, ridge):
            return False
        away, small = _reached(link, step, theta, tolerance)
        if away > 0.5:
            return False
        for i in range(d):
            theta[i] -= step[i]
        if small:
            return True
    return False


@jit
def _newton(hessian: Floats, step: Floats, ridge: float) -> bool:
    """The step from the gradient in its place, and the Hessian of the loss above the diagonal."""
    for i in range(len(step)):
        hessian[i, i] += ridge
        for j in range(i):
            hessian[i, j] = hessian[j, i]
    return solve(hessian, step)


@jit
def _reached(link: int, step: Floats, theta: Floats, tolerance: float) -> tuple[float, bool]:
    """As `likelihood.judged`: s, and whether the next step may be left out."""
    length, size = math.sqrt(inner(step, step)), math.sqrt(inner(theta, theta))
    away = (1.0 if link == LOGISTIC else max(1.0, size)) * length  # by the link's concordance
    return away, length * (away if away < 0.1 else 1.0) <= tolerance * (1 + size)
