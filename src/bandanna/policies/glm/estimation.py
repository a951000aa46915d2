"""Likelihood, polynomial expansion and projections of generalised linear models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.domain import clip_norm
from bandanna.errors import InvalidStatistic, ValueSummary
from bandanna.policies.glm.links import Link, link_of
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats


@dataclass(frozen=True, kw_only=True)
class LikelihoodEstimate:
    """The minimiser, the Newton steps made, and whether each replicate converged."""

    theta: Floats  # (*R, d)
    steps: int
    converged: NDArray[np.bool_]  # (*R)


def linear_parts(features: Floats, theta: Floats) -> Floats:
    """Return <x, theta>: (*R, n, d), (*R, d) -> (*R, n)."""
    return np.asarray((features @ theta[..., None])[..., 0])


def loss(
    link: Link, theta: Floats, features: Floats, rewards: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """Return L(theta) = sum_i w_i (b(<x_i, theta>) - r_i <x_i, theta>) + (ridge/2) |theta|^2, (*R)."""
    z = linear_parts(features, theta)
    each = link.potential(z) - rewards * z
    total = np.sum(each if weights is None else each * weights, axis=-1)
    return np.asarray(total + ridge / 2 * np.sum(theta**2, axis=-1))


def loss_gradient(
    link: Link, theta: Floats, features: Floats, rewards: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """Return sum w (mu(z) - r) x + ridge theta, (*R, d)."""
    residuals = link.mean(linear_parts(features, theta)) - rewards
    if weights is not None:
        residuals = residuals * weights
    return np.asarray((residuals[..., None, :] @ features)[..., 0, :] + ridge * theta)


def loss_hessian(
    link: Link, theta: Floats, features: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """Return sum w mu'(z) x x^T + ridge I, (*R, d, d)."""
    slopes = link.slope(linear_parts(features, theta))
    if weights is not None:
        slopes = slopes * weights
    weighted = np.swapaxes(features * slopes[..., None], -1, -2)
    return np.asarray(weighted @ features + ridge * np.eye(features.shape[-1]))


def maximum_likelihood(
    link: Link | str,
    features: Floats,
    rewards: Floats,
    *,
    ridge: float,
    start: Floats | None = None,
    weights: Floats | None = None,
    tolerance: float = 1e-9,
    most_steps: int = 200,
) -> LikelihoodEstimate:
    """Return argmin L by damped Newton steps N, until the next one would be below tolerance (1 + |theta|).

    t = 1 where M |N| <= 1/2 (M the self-concordance constant, |x| <= 1); elsewhere t is halved by Armijo's rule.
    `ridge` > 0 makes the minimum finite and unique on any data.
    """
    validation.positive("ridge", ridge)
    link, features, rewards = link_of(link), np.asarray(features, dtype=float), np.asarray(rewards, dtype=float)
    if features.ndim < 2 or rewards.shape != features.shape[:-1]:
        shapes = (features.shape, rewards.shape)
        raise InvalidStatistic("shapes of features and rewards", ValueSummary(shapes), "(..., n, d) and (..., n)")
    d, replicates = features.shape[-1], features.shape[:-2]
    begun = np.zeros((*replicates, d)) if start is None else np.array(start, dtype=float)
    theta, converged = begun.reshape(-1, d), np.ones(begun[..., 0].size, dtype=bool)
    if features.shape[-2] == 0:
        return LikelihoodEstimate(theta=np.zeros_like(begun), steps=0, converged=converged.reshape(replicates))
    rows = _RegressionData(link, features.reshape(-1, *features.shape[-2:]), rewards, weights, ridge)
    left, step = np.arange(len(theta)), 0
    converged[:] = False
    while len(left) and step < most_steps:
        step += 1
        newton, small = _newton_step(rows, theta[left], tolerance)
        theta[left] -= newton
        converged[left[small]] = True
        if small.any():
            left, rows = left[~small], rows.only(~small)
    if not np.all(np.isfinite(theta)):
        _refuse_what_is_not_finite(features=features, rewards=rewards, weights=weights, start=start)
    return LikelihoodEstimate(theta=theta.reshape(begun.shape), steps=step, converged=converged.reshape(replicates))


def _refuse_what_is_not_finite(**data: Floats | None) -> None:
    for name, values in data.items():
        if values is not None and not np.all(finite := np.isfinite(values)):
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise InvalidStatistic(f"{name}[{', '.join(map(str, place))}]", float(values[place]), "a finite number")


class _RegressionData:
    def __init__(self, link: Link, features: Floats, rewards: Floats, weights: Floats | None, ridge: float) -> None:
        self.link, self.ridge, self.features = link, ridge, features
        self.rewards = rewards.reshape(features.shape[:2])
        self.weights = None if weights is None else weights.reshape(features.shape[:2])

    def only(self, kept: NDArray[np.bool_]) -> _RegressionData:
        weights = None if self.weights is None else self.weights[kept]
        return _RegressionData(self.link, self.features[kept], self.rewards[kept], weights, self.ridge)

    def loss(self, theta: Floats) -> Floats:
        return loss(self.link, theta, self.features, self.rewards, ridge=self.ridge, weights=self.weights)


def _newton_step(rows: _RegressionData, theta: Floats, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
    link, x = rows.link, rows.features
    z = linear_parts(x, theta)
    residuals, slopes = link.mean(z) - rows.rewards, link.slope(z)
    if rows.weights is not None:
        residuals, slopes = residuals * rows.weights, slopes * rows.weights
    gradient = (residuals[..., None, :] @ x)[..., 0, :] + rows.ridge * theta
    hessian = np.swapaxes(x * slopes[..., None], -1, -2) @ x + rows.ridge * np.eye(x.shape[-1])
    newton = np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], dtype=float)
    reach, small = judge_newton_step(link, newton, theta, tolerance)
    if np.any(far := reach > 0.5):
        newton = np.where(far[:, None], _backtrack(rows, theta, newton, np.sum(gradient * newton, axis=-1)), newton)
    return newton, small


def judge_newton_step(link: Link, newton: Floats, theta: Floats, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return s = M |N| of Newton steps N (R, d), and where the next step is negligible."""
    length, size = np.sqrt((newton**2).sum(axis=-1)), np.sqrt((theta**2).sum(axis=-1))
    reach = np.array([link.concordance(bound) for bound in size.tolist()]) * length  # each by itself
    return reach, np.asarray(length * np.where(reach < 0.1, reach, 1.0) <= tolerance * (1 + size))


def _backtrack(rows: _RegressionData, theta: Floats, move: Floats, promised: Floats) -> Floats:
    """Halve the move until the loss falls by 1/10000 of the promise."""
    before, scale = rows.loss(theta), np.ones(len(theta))
    for _ in range(60):
        after = rows.loss(theta - scale[:, None] * move)
        worse = after > before - 1e-4 * scale * promised + 1e-12 * np.abs(before)
        if not worse.any():
            break
        scale = np.where(worse, scale / 2, scale)
    return scale[:, None] * move


# The gradient of a cumulative loss near a point, as a polynomial: an estimate follows new rows without the old ones.
#
#     g(a + D) = sum_i (mu(<x_i, a + D>) - r_i) x_i = sum_{|m| <= p} D^m / m! G_m + rest,
#     G_m      = sum_i mu^(|m|)(<x_i, a>) x_i^m x_i   (and - r_i x_i in G_0),
#
# over multi-indices m of d variables: a new row is added to G in constant time, and the Hessian's polynomial is that of
# g, differentiated. With C = sup |mu^(p+1) / mu'|, the rest moves the minimum by at most about C |D|^{p+1} / (p+1)!
# (times the square root of the Hessian's condition number): `reach` is the |D| at which this is 1e-7.


_ORDER = 5
_MOST = 4096  # numbers in a table
_ERROR = 1e-7


@dataclass(frozen=True, kw_only=True)
class Monomials:
    """The multi-indices of degree at most p: places of their factors, and their successors."""

    factors: NDArray[np.intp]  # (M, p): places in (1, x_1, ..., x_d)
    degrees: NDArray[np.intp]  # (M,)
    inverse_factorials: Floats  # (M,): 1 / m!
    longer: NDArray[np.intp]  # (L, d): the place of m + e_j, for the first L, those of degree below p

    def of(self, x: Floats) -> Floats:
        padded = np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1)
        return np.asarray(np.multiply.reduce(padded[..., self.factors], axis=-1))


@lru_cache(maxsize=16)
def monomials(dim: int, order: int = _ORDER) -> Monomials:
    """Return the multi-indices up to a degree, by increasing degree."""
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


def is_expandable(link: Link, dim: int) -> bool:
    """Return whether the link's derivatives are known and the table is small."""
    return math.comb(dim + _ORDER, dim) * dim <= _MOST and link.derivatives(np.zeros(1), 1) is not None


@stored_as("Expansion")
@dataclass(frozen=True, kw_only=True)
class Expansion:
    """Polynomials of R replicates, each around its own point."""

    anchor: Floats  # (R, d)
    reach: Floats  # (R,)
    table: Floats  # (R, M, d): G

    def add(self, link: Link, features: Floats, rewards: Floats) -> Expansion:
        terms = monomials(features.shape[-1])
        weights = _weights(link, terms, np.sum(features * self.anchor, axis=-1)) * terms.of(features)  # (R, M)
        weights[:, 0] -= rewards
        return replace(self, table=self.table + weights[..., None] * features[:, None, :])

    def move(
        self, link: Link, which: NDArray[np.int64], anchor: Floats, features: Floats, rewards: Floats
    ) -> Expansion:
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
        """Return Newton's minimum from theta (R, d), and whether it stayed within reach."""
        terms, eye = monomials(theta.shape[-1]), ridge * np.eye(theta.shape[-1])
        few, active = len(terms.longer), np.ones(len(theta), dtype=bool)
        rows = self.table[:, terms.longer].reshape(len(theta), few, -1)  # (R, L, d d)
        for _ in range(6):
            powers = terms.of(theta - self.anchor) * terms.inverse_factorials  # (R, M)
            gradient = (powers[:, None, :] @ self.table)[:, 0] + ridge * theta
            hessian = (powers[:, None, :few] @ rows)[:, 0].reshape(-1, *eye.shape) + eye
            newton = np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], dtype=float)
            theta = np.where(active[:, None], theta - newton, theta)
            active &= ~judge_newton_step(link, newton, theta, tolerance)[1]
            if not active.any():
                break
        away = np.sqrt(np.sum((theta - self.anchor) ** 2, axis=-1))
        return theta, np.asarray(~active & (away <= self.reach))


def make_empty_expansion(replicates: int, dim: int) -> Expansion:
    """Return expansions around 0 that reach nowhere."""
    table = np.zeros((replicates, len(monomials(dim).degrees), dim))
    return Expansion(anchor=np.zeros((replicates, dim)), reach=np.zeros(replicates), table=table)


def _weights(link: Link, terms: Monomials, z: Floats) -> Floats:
    return np.asarray(link.derivatives(z, _ORDER))[..., terms.degrees]


# Nearest points of balls, ellipsoids and their intersection, for many points at once.


def project_onto_ball(points: Floats, radius: float) -> Floats:
    """Return the nearest point of {|y| <= radius}: (..., d) -> (..., d)."""
    return clip_norm(points, radius)


def project_onto_ball_in_norm(points: Floats, matrix: Floats, radius: float) -> Floats:
    """Return argmin |y - p|_A over |y| <= radius, A = `matrix`: (..., d), (..., d, d) -> (..., d)."""
    values, vectors = np.linalg.eigh(matrix)
    rotated = _rotate(vectors, points)
    return _rotate_back(vectors, _solve_secular(values, np.ones_like(values), rotated, np.asarray(radius, dtype=float)))


def project_onto_ellipsoid(points: Floats, centre: Floats, matrix: Floats, radius: float | Floats) -> Floats:
    """Return the nearest point of {|y - centre|_A <= radius}: (..., d), (..., d), (..., d, d), (...) -> (..., d)."""
    values, vectors = np.linalg.eigh(matrix)
    rotated = _rotate(vectors, points - centre)
    return np.asarray(
        centre
        + _rotate_back(vectors, _solve_secular(np.ones_like(values), values, rotated, np.asarray(radius, dtype=float)))
    )


def project_onto_intersection(
    points: Floats, *, ball: float, centre: Floats, matrix: Floats, radius: float | Floats, sweeps: int = 100
) -> Floats:
    """Return the nearest point of a ball around 0 and an ellipsoid, by Dykstra's alternating projections.

    The result always lies in the ball, even where the two sets do not meet.
    """
    away = points - centre
    far = np.einsum("...i,...ij,...j->...", away, matrix, away) > np.square(radius)
    moving = far | (np.sum(points**2, axis=-1) > ball**2)  # (...): each stops by itself, in any company
    y, p, q = np.array(points), np.zeros_like(points), np.zeros_like(points)
    for _ in range(sweeps):
        if not moving.any():
            break
        inside = project_onto_ellipsoid(y + p, centre, matrix, radius)
        p = y + p - inside
        nearer = project_onto_ball(inside + q, ball)
        q = inside + q - nearer
        y, before = np.where(moving[..., None], nearer, y), y
        moving &= np.max(np.abs(y - before), axis=-1) > 1e-13 * ball
    return y


def _rotate(vectors: Floats, points: Floats) -> Floats:
    return np.asarray((points[..., None, :] @ vectors)[..., 0, :])


def _rotate_back(vectors: Floats, points: Floats) -> Floats:
    return np.asarray((vectors @ points[..., None])[..., 0])


def _solve_secular(p: Floats, q: Floats, t: Floats, radius: Floats) -> Floats:
    """Return argmin sum p_i (y_i - t_i)^2 over sum q_i y_i^2 <= radius^2: y_i = p_i t_i / (p_i + nu q_i).

    Newton's method on 1/|y|_q climbs to nu from 0 (More and Sorensen 1983). Rounding never leaves the result outside.
    """
    q = np.maximum(q, 0.0)
    outside = np.sqrt((q * t**2).sum(axis=-1)) > radius  # (...)
    bound, target = np.maximum(radius, 1e-300), p * t
    nu = np.zeros(outside.shape)
    for _ in range(101):
        scale = p + nu[..., None] * q
        y = target / scale
        length = np.sqrt((q * y**2).sum(axis=-1))
        excess = np.where(outside, length / bound - 1, 0.0)
        left = excess > 1e-12
        if not left.any():
            break
        slope = ((q * y) ** 2 / scale).sum(axis=-1)
        nu = nu + np.where(left, excess, 0.0) * length**2 / np.maximum(slope, 1e-300)
    return np.asarray(np.where(outside[..., None], y / np.maximum(length / bound, 1.0)[..., None], t))
