"""Derivatives of the links' means, to any order: what a polynomial of the loss near a point is made of.

logistic           mu^(k) = P_k(s),   P_1 = s - s^2,   P_{k+1} = (s - s^2) P_k'
probit             mu^(k) = (-1)^{k-1} He_{k-1}(z) phi(z),   He the Hermite polynomials
an exponential family: the cumulants, here from central moments
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial, hermite_e
from scipy import special

from bandanna.core.arrays import Floats


@lru_cache(maxsize=16)
def _logistic_polynomials(order: int) -> tuple[Polynomial, ...]:
    slope = Polynomial([0.0, 1.0, -1.0])
    found = [Polynomial([0.0, 1.0])]
    for _ in range(order):
        found.append(slope * found[-1].deriv())
    return tuple(found)


@lru_cache(maxsize=16)
def _logistic_table(order: int) -> Floats:
    """Coefficients of s, s^2, ...: (order + 1, order + 1)."""
    rows = [np.pad(each.coef[1:], (0, order + 2 - len(each.coef))) for each in _logistic_polynomials(order)]
    return np.array(rows, dtype=float).T  # powers by derivatives


def logistic(z: Floats, order: int) -> Floats:
    """s, s', ..., s^(order) at z: (...) -> (..., order + 1)."""
    s = special.expit(z)[..., None]
    return np.asarray(s ** np.arange(1, order + 2) @ _logistic_table(order))


@lru_cache(maxsize=16)
def logistic_ratio(order: int) -> float:
    """sup |s^(order) / s'|."""
    ratio = _logistic_polynomials(order)[order] // Polynomial([0.0, 1.0, -1.0])
    return 1.01 * float(np.max(np.abs(ratio(np.linspace(0.0, 1.0, 1001)))))


@lru_cache(maxsize=16)
def _hermite_table(order: int) -> Floats:
    """Coefficients of 1, z, ..., of (-1)^{k-1} He_{k-1}, k = 1, ..., order: (order, order)."""
    rows = [(-1) ** k * hermite_e.herme2poly([0.0] * k + [1.0]) for k in range(order)]
    return np.array([np.pad(row, (0, order - len(row))) for row in rows]).T


def probit(z: Floats, order: int) -> Floats:
    """Phi, phi, ...: (...) -> (..., order + 1)."""
    tame = np.clip(z, -40.0, 40.0)[..., None]  # beyond it phi and all its derivatives vanish
    density = np.exp(-0.5 * tame**2) / math.sqrt(2 * math.pi)
    rest = density * (tame ** np.arange(order) @ _hermite_table(order))
    return np.concatenate([special.ndtr(z)[..., None], rest], axis=-1)


def probit_ratio(order: int, bound: float) -> float:
    """At least sup |mu^(order) / mu'| over |z| <= bound."""
    return float(np.abs(_hermite_table(order)[:, -1]) @ bound ** np.arange(order))


def cumulants(chances: Floats, values: Floats, order: int) -> Floats:
    """Of a law on `values` (V,), chances (..., V): kappa_1, ..., kappa_{order+1}, (..., order + 1)."""
    mean = chances @ values
    centred = values - mean[..., None]
    moment = [np.ones(mean.shape), np.zeros(mean.shape)]
    moment += [np.sum(chances * centred**n, axis=-1) for n in range(2, order + 2)]
    kappa = [mean, mean]  # the first is never read
    for n in range(2, order + 2):
        kappa.append(moment[n] - sum(math.comb(n - 1, k - 1) * kappa[k] * moment[n - k] for k in range(2, n - 1)))
    return np.stack(kappa[1:], axis=-1)
