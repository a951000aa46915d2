"""The gradient of a cumulative loss near a point, as a polynomial: an estimate follows new rows without the old ones.

    g(a + D) = sum_i (mu(<x_i, a + D>) - r_i) x_i = sum_{|m| <= p} D^m / m! G_m + rest,
    G_m      = sum_i mu^(|m|)(<x_i, a>) x_i^m x_i   (and - r_i x_i in G_0),

over multi-indices m of d variables: a new row is added to G in constant time, and the Hessian's polynomial is that of
g, differentiated. With C = sup |mu^(p+1) / mu'|, the rest moves the minimum by at most about C |D|^{p+1} / (p+1)!
(times the square root of the Hessian's condition number): `reach` is the |D| at which this is 1e-7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats
from bandanna.glm.likelihood import judged
from bandanna.glm.links import Link
from bandanna.storage.declared import stored_as

_ORDER = 5
_MOST = 4096  # numbers in a table
_ERROR = 1e-7


@dataclass(frozen=True, kw_only=True)
class Monomials:
    """The multi-indices of degree at most p: where their factors stand, and which are one factor longer."""

    factors: NDArray[np.intp]  # (M, p): places in (1, x_1, ..., x_d)
    degrees: NDArray[np.intp]  # (M,)
    inverse_factorials: Floats  # (M,): 1 / m!
    longer: NDArray[np.intp]  # (L, d): the place of m + e_j, for the first L, those of degree below p

    def of(self, x: Floats) -> Floats:
        """x^m: (..., d) -> (..., M)."""
        padded = np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1)
        return np.asarray(np.multiply.reduce(padded[..., self.factors], axis=-1))


@lru_cache(maxsize=16)
def monomials(dim: int, order: int = _ORDER) -> Monomials:
    """All of degree at most `order`, by increasing degree."""
    each = [m for degree in range(order + 1) for m in combinations_with_replacement(range(1, dim + 1), degree)]
    place = {m: i for i, m in enumerate(each)}
    factorials = [math.prod(math.factorial(m.count(j)) for j in set(m)) for m in each]
    longer = [[place[tuple(sorted((*m, j)))] for j in range(1, dim + 1)] for m in each if len(m) < order]
    return Monomials(
        factors=np.array([m + (0,) * (order - len(m)) for m in each], dtype=np.intp).reshape(len(each), order),
        degrees=np.array([len(m) for m in each], dtype=np.intp),
        inverse_factorials=1 / np.array(factorials),
        longer=np.array(longer, dtype=np.intp),
    )


def expandable(link: Link, dim: int) -> bool:
    """Whether the link's derivatives are known and the table is small."""
    return math.comb(dim + _ORDER, dim) * dim <= _MOST and link.derivatives(np.zeros(1), 1) is not None


@stored_as("Expansion")
@dataclass(frozen=True, kw_only=True)
class Expansion:
    """Polynomials of R replicates, each around a point of its own."""

    anchor: Floats  # (R, d)
    reach: Floats  # (R,)
    table: Floats  # (R, M, d): G

    def add(self, link: Link, features: Floats, rewards: Floats) -> Expansion:
        """One more row each: (R, d), (R,)."""
        terms = monomials(features.shape[-1])
        weights = _weights(link, terms, np.sum(features * self.anchor, axis=-1)) * terms.of(features)  # (R, M)
        weights[:, 0] -= rewards
        return replace(self, table=self.table + weights[..., None] * features[:, None, :])

    def move(
        self, link: Link, which: NDArray[np.int64], anchor: Floats, features: Floats, rewards: Floats
    ) -> Expansion:
        """Around other points (s, d), from all rows so far: (s, n, d), (s, n)."""
        terms, held = monomials(features.shape[-1]), {name: array.copy() for name, array in vars(self).items()}
        weights = _weights(link, terms, (features @ anchor[..., None])[..., 0]) * terms.of(features)  # (s, n, M)
        weights[..., 0] -= rewards
        held["table"][which] = np.swapaxes(weights, -1, -2) @ features
        held["anchor"][which] = anchor
        size = np.sqrt(np.sum(anchor**2, axis=-1))
        for place, bound in zip(which, size, strict=True):
            ratio = link.derivative_ratio(_ORDER + 1, float(bound) + 1.0)
            reach = (_ERROR * math.factorial(_ORDER + 1) / max(ratio, 1e-300)) ** (1 / (_ORDER + 1))
            held["reach"][place] = min(1.0, reach)  # the ratio was taken that far
        return Expansion(**held)

    def minimise(self, link: Link, theta: Floats, ridge: float, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Newton's method from theta, (R, d), on loss plus (ridge/2) |theta|^2; and whether it stayed within reach."""
        terms, eye = monomials(theta.shape[-1]), ridge * np.eye(theta.shape[-1])
        few, active = len(terms.longer), np.ones(len(theta), dtype=bool)
        rows = self.table[:, terms.longer].reshape(len(theta), few, -1)  # (R, L, d d)
        for _ in range(6):
            powers = terms.of(theta - self.anchor) * terms.inverse_factorials  # (R, M)
            gradient = (powers[:, None, :] @ self.table)[:, 0] + ridge * theta
            hessian = (powers[:, None, :few] @ rows)[:, 0].reshape(-1, *eye.shape) + eye
            newton = np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], dtype=float)
            theta = np.where(active[:, None], theta - newton, theta)
            active &= ~judged(link, newton, theta, tolerance)[1]
            if not active.any():
                break
        away = np.sqrt(np.sum((theta - self.anchor) ** 2, axis=-1))
        return theta, np.asarray(~active & (away <= self.reach))


def no_rows(replicates: int, dim: int) -> Expansion:
    """Around 0, which reaches nowhere."""
    table = np.zeros((replicates, len(monomials(dim).degrees), dim))
    return Expansion(anchor=np.zeros((replicates, dim)), reach=np.zeros(replicates), table=table)


def _weights(link: Link, terms: Monomials, z: Floats) -> Floats:
    """mu^(|m|)(z): (...) -> (..., M)."""
    return np.asarray(link.derivatives(z, _ORDER))[..., terms.degrees]
