"""Generalised linear policies that learn in every round: choose, earn, learn - one seed after the other.

The NumPy code is `act` and `learn` of GLOC and of ECOLog. The kernels return where a step leaves the ball |theta| <= S,
before anything of that round is learned: projections are NumPy's.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit

LOGISTIC, PROBIT, LINEAR, IDENTITY = 0, 1, 2, 3  # links; the last: the index is <x, theta> itself
_LARGEST = float(np.finfo(np.float32).max)


@jit
def gloc(
    contexts: Floats,  # (S, n, K, d)
    outcomes: Floats,  # (S, n, K)
    place: Ints,  # (2,): seed and round to go on with, changed
    actions: Ints,  # (S, n), filled
    rounds: int,
    matrix: Floats,  # (S, d, d), as all of the state changed
    inverse: Floats,
    theta: Floats,  # (S, d)
    vector: Floats,
    bound: Floats,  # (S,)
    published: bool,
    link: int,
    kappa: float,
    q: float,
    failure: float,
    most: float,  # S
) -> bool:
    """Whether the round at `place`, whose action is known, must be learned elsewhere."""
    seeds, n, _, d = contexts.shape
    work, centre, step, new = np.empty((d + 3, contexts.shape[2])), np.empty(d), np.empty(d), np.empty(d)
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            inside = 1 + 2 * kappa * bound[s] + 4 * (q * kappa) ** 4 / failure**2
            log = math.log(2 / failure) + 0.5 * math.log(inside)
            radius = math.sqrt(1 + 4 * kappa * bound[s] + 8 * (q * kappa) ** 2 * log)  # Jun et al. 2017, Theorem 1
            if published:
                arm = _best(contexts[s, t], theta[s], inverse[s], radius, link, work)
            else:
                _times(inverse[s], vector[s], centre)
                arm = _best(contexts[s, t], centre, inverse[s], radius, IDENTITY, work)
            actions[s, t] = arm
            x, z = contexts[s, t, arm], 0.0
            for i in range(d):
                z += x[i] * theta[s, i]
            residual = _mean(z, link) - outcomes[s, t, arm]
            _times(inverse[s], x, step)
            along = _inner(step, x)
            for i in range(d):
                step[i] /= 1 + along  # V^{-1} x with the new V
                new[i] = theta[s, i] - kappa * residual * step[i]
            length = math.sqrt(_inner(new, new))
            if not published and length > most:
                place[0], place[1] = s, t
                return True
            for i in range(d):
                theta[s, i] = most * new[i] / max(length, 1e-300) if published else new[i]
                vector[s, i] += z * x[i]
                for j in range(d):
                    inverse[s, i, j] -= (1 + along) * step[i] * step[j]
                    if not published:
                        matrix[s, i, j] += x[i] * x[j]
            bound[s] += residual * residual * _inner(step, x) * kappa / 2
    return False


@jit
def ecolog(
    contexts: Floats,  # (S, n, K, d)
    outcomes: Floats,  # (S, n, K)
    place: Ints,  # (2,): seed and round to go on with, changed
    actions: Ints,  # (S, n), filled
    rounds: int,
    matrix: Floats,  # (S, d, d), as all of the state changed
    inverse: Floats,
    theta: Floats,  # (S, d)
    correction: Floats,  # (S,)
    published: bool,
    ridge: float,
    failure: float,
    most: float,  # S
) -> bool:
    """Whether the round at `place`, whose action is known, must be learned elsewhere."""
    seeds, n, _, d = contexts.shape
    work, direction, one, two = np.empty((d + 3, contexts.shape[2])), np.empty(d), np.empty(d), np.empty(d)
    weight, root = 0.5 if published else 1 / (2 + 2 * most), math.sqrt(ridge)
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            log = math.log(2 / failure) + 0.5 * math.log(1 + (rounds + t + 1) / (4 * ridge))
            gamma = root / 2 + 2 / root * log
            radius = math.sqrt(2 * ridge * most**2 + (1 + most) ** 2 * gamma + correction[s])
            link = LOGISTIC if published else IDENTITY
            arm = _best(contexts[s, t], theta[s], inverse[s], radius, link, work)
            actions[s, t] = arm
            x, reward = contexts[s, t, arm], outcomes[s, t, arm]
            _times(inverse[s], x, direction)
            along = _inner(x, direction)
            _proximal(theta[s], direction, along, x, reward, 1 / (2 * weight), one)
            _proximal(one if published else theta[s], direction, along, x, 0.5, 2 / (2 * weight), two)
            if _inner(one, one) > most**2 or _inner(two, two) > most**2:
                place[0], place[1] = s, t
                return True
            z, other = _inner(x, one), _inner(x, two)
            gain = _softplus(other) - _softplus(z) - reward * (other - z)
            for i in range(d):
                two[i] = one[i] - two[i]
            square = 0.0
            for i in range(d):
                for j in range(d):
                    square += two[i] * matrix[s, i, j] * two[j]
            lost = math.sqrt(max(square, 0.0)) if published else square
            correction[s] = max(correction[s] + 2 * (1 + most) * gain - lost / 2, 0.0)
            slope = _mean(z, LOGISTIC) * _mean(-z, LOGISTIC)
            shrink = slope / (1 + slope * along)
            for i in range(d):
                theta[s, i] = one[i]
                for j in range(d):
                    matrix[s, i, j] += slope * x[i] * x[j]
                    inverse[s, i, j] -= shrink * direction[i] * direction[j]
    return False


@jit
def glm_ucb(
    contexts: Floats,  # (S, n, K, d)
    outcomes: Floats,  # (S, n, K)
    place: Ints,  # (2,): seed and round to go on with, changed
    actions: Ints,  # (S, n), filled
    rounds: int,
    inverse: Floats,  # (S, d, d), as all of the state changed
    theta: Floats,  # (S, d)
    anchor: Floats,  # (S, d): of an `Expansion`; so are reach and table
    reach: Floats,  # (S,)
    table: Floats,  # (S, M, d)
    longer: Ints,  # (L, d): of its `Monomials`; so are degrees and inverse factorials
    degrees: Ints,  # (M,)
    inverse_factorials: Floats,  # (M,)
    polynomials: Floats,  # of the link's derivatives
    bonuses: Floats,  # (n,)
    link: int,
    ridge: float,
    tolerance: float,
    refit: int,
    most: float,  # S, or infinite: no projection
) -> bool:
    """Whether the estimate after the round before `place` must be found from all rows, everything else being done."""
    seeds, n, n_arms, d = contexts.shape
    work, centre, step, matrix = np.empty((d + 3, n_arms)), np.empty(d), np.empty(d), np.empty((d, d))
    powers, slopes = np.empty(len(degrees)), np.empty(degrees.max() + 1)
    for s in range(place[0], seeds):
        for t in range(place[1] if s == place[0] else 0, n):
            shrink = min(1.0, most / max(math.sqrt(_inner(theta[s], theta[s])), 1e-300))
            for i in range(d):
                centre[i] = theta[s, i] * shrink
            arm = _best(contexts[s, t], centre, inverse[s], bonuses[t], link, work)
            actions[s, t] = arm
            x, reward = contexts[s, t, arm], outcomes[s, t, arm]
            _times(inverse[s], x, step)
            along = 1 / (1 + _inner(step, x))
            for i in range(d):
                for j in range(d):
                    inverse[s, i, j] -= along * step[i] * step[j]
            _derivatives(_inner(x, anchor[s]), link, polynomials, slopes)
            _powers(x, longer, powers)
            for m in range(len(degrees)):
                weight = slopes[degrees[m]] * powers[m] - (reward if m == 0 else 0.0)
                for i in range(d):
                    table[s, m, i] += weight * x[i]
            if (rounds + t + 1) % refit == 0:
                centre[:] = theta[s]
                if not _follow(
                    centre,
                    anchor[s],
                    reach[s],
                    table[s],
                    longer,
                    inverse_factorials,
                    link,
                    ridge,
                    tolerance,
                    powers,
                    step,
                    matrix,
                ):
                    place[0], place[1] = s, t + 1
                    return True
                theta[s] = centre
    return False


@jit
def _follow(
    theta: Floats,
    anchor: Floats,
    reach: float,
    table: Floats,
    longer: Ints,
    inverse_factorials: Floats,
    link: int,
    ridge: float,
    tolerance: float,
    powers: Floats,
    step: Floats,
    hessian: Floats,
) -> bool:
    """Newton's method on the polynomial, as `Expansion.minimise`; whether it ended within reach."""
    d = len(theta)
    for _ in range(6):
        for i in range(d):
            step[i] = theta[i] - anchor[i]
        _powers(step, longer, powers)
        hessian[:] = 0.0
        for i in range(d):
            step[i] = ridge * theta[i]
            hessian[i, i] = ridge
        for m in range(len(powers)):
            power = powers[m] * inverse_factorials[m]
            for i in range(d):
                step[i] += power * table[m, i]
            if m < len(longer):
                for j in range(d):
                    beyond = longer[m, j]
                    for i in range(j + 1):
                        hessian[j, i] += power * table[beyond, i]
        for j in range(d):
            for i in range(j):
                hessian[i, j] = hessian[j, i]
        if not _solve(hessian, step):
            return False
        for i in range(d):
            theta[i] -= step[i]
        length, size = math.sqrt(_inner(step, step)), math.sqrt(_inner(theta, theta))
        next_ = (1.0 if link == LOGISTIC else max(1.0, size)) * length  # the link's concordance
        if length * (next_ if next_ < 0.1 else 1.0) <= tolerance * (1 + size):
            away = 0.0
            for i in range(d):
                away += (theta[i] - anchor[i]) ** 2
            return math.sqrt(away) <= reach
    return False


@jit
def _solve(matrix: Floats, x: Floats) -> bool:
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
def _powers(x: Floats, longer: Ints, powers: Floats) -> None:
    """x^m of all multi-indices m: those of one degree from those of the degree below."""
    powers[0] = 1.0
    for m in range(len(longer)):
        for j in range(len(x)):
            powers[longer[m, j]] = powers[m] * x[j]


@jit
def _derivatives(z: float, link: int, polynomials: Floats, out: Floats) -> None:
    """mu(z), mu'(z), ...: polynomials of mu, or of z times the density."""
    out[:] = 0.0
    if link == LOGISTIC:
        power = value = _mean(z, link)
        for row in range(len(polynomials)):
            for k in range(len(out)):
                out[k] += power * polynomials[row, k]
            power *= value
    else:
        value = min(max(z, -40.0), 40.0)
        power = math.exp(-0.5 * value * value) / math.sqrt(2 * math.pi)
        for row in range(len(polynomials)):
            for k in range(len(out) - 1):
                out[k + 1] += power * polynomials[row, k]
            power *= value
        out[0] = _mean(z, link)


@jit
def _proximal(centre: Floats, direction: Floats, along: float, x: Floats, r: float, scale: float, out: Floats) -> None:
    """The free minimum on the line through `centre`, by Newton's method for z, as `ecolog._on_line`."""
    base, spread = _inner(x, centre), scale * along
    z = base - spread * (_mean(base, LOGISTIC) - r) / (1 + spread / 4)
    for _ in range(50):
        s = _mean(z, LOGISTIC)
        step = (z + spread * (s - r) - base) / (1 + spread * s * (1 - s))
        z -= step
        if not abs(step) > 1e-8:  # the next one would be below 1e-16
            break
    residual = _mean(z, LOGISTIC) - r
    for i in range(len(out)):
        out[i] = centre[i] - scale * residual * direction[i]


@jit
def _best(arms: Floats, theta: Floats, inverse: Floats, radius: float, link: int, work: Floats) -> int:
    """The first arm whose mu(<x, theta>) + radius |x|_{V^{-1}} is the largest in single precision; `work`: (d + 3, K).

    Arms stand side by side, so that many are scored at once.
    """
    n_arms, d = arms.shape
    z, square, across = work[d], work[d + 1], work[d + 2]
    for i in range(d):
        row = work[i]
        for k in range(n_arms):
            row[k] = arms[k, i]
    z[:] = 0.0
    square[:] = 0.0
    for i in range(d):
        row = work[i]
        across[:] = 0.0
        for j in range(i, d):
            weight, other = inverse[i, j] * (1.0 if i == j else 2.0), work[j]
            for k in range(n_arms):
                across[k] += weight * other[k]
        for k in range(n_arms):
            z[k] += theta[i] * row[k]
            square[k] += across[k] * row[k]
    if link < LINEAR:
        for k in range(n_arms):
            z[k] = _mean(z[k], link)
    for k in range(n_arms):
        z[k] += radius * math.sqrt(max(square[k], 0.0))
    peak = 0.0
    for k in range(n_arms):
        peak = max(peak, abs(z[k]))
    shift = 0 if peak <= _LARGEST else -math.frexp(peak)[1]
    best, found = np.float32(-np.inf), 0
    for k in range(n_arms):
        single = np.float32(z[k] if shift == 0 else math.ldexp(z[k], shift))
        if single > best:
            best, found = single, k
    return found


@jit
def _mean(z: float, link: int) -> float:
    """mu(z)."""
    if link == LOGISTIC:
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))
    if link == PROBIT:
        return 0.5 * math.erfc(-z * math.sqrt(0.5))
    return z


@jit
def _softplus(z: float) -> float:
    """log(1 + e^z)."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


@jit
def _times(matrix: Floats, x: Floats, out: Floats) -> None:
    """matrix x, (d,)."""
    for i in range(len(x)):
        out[i] = 0.0
        for j in range(len(x)):
            out[i] += matrix[i, j] * x[j]


@jit
def _inner(a: Floats, b: Floats) -> float:
    """<a, b>."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
