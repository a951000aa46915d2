"""Cumulative losses of a generalised linear model, and their minimum by damped Newton steps.

    L(theta) = sum_i w_i (b(<x_i, theta>) - r_i <x_i, theta>) + (ridge/2) |theta|^2

Leading axes are replicates; `weights` of 0 leave a row out, so that replicates may have different numbers of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidStatistic, Summary
from bandanna.glm.links import Link, link_of


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """The minimiser, the Newton steps made, and whether each replicate's Newton step became negligible."""

    theta: Floats  # (*R, d)
    steps: int
    converged: NDArray[np.bool_]  # (*R)


def linear_parts(features: Floats, theta: Floats) -> Floats:
    """z = <x, theta>: (*R, n, d), (*R, d) -> (*R, n)."""
    return np.asarray((features @ theta[..., None])[..., 0])


def loss(
    link: Link, theta: Floats, features: Floats, rewards: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """L(theta), (*R)."""
    z = linear_parts(features, theta)
    each = link.potential(z) - rewards * z
    total = np.sum(each if weights is None else each * weights, axis=-1)
    return np.asarray(total + ridge / 2 * np.sum(theta**2, axis=-1))


def loss_gradient(
    link: Link, theta: Floats, features: Floats, rewards: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """sum w (mu(z) - r) x + ridge theta, (*R, d)."""
    residuals = link.mean(linear_parts(features, theta)) - rewards
    if weights is not None:
        residuals = residuals * weights
    return np.asarray((residuals[..., None, :] @ features)[..., 0, :] + ridge * theta)


def loss_hessian(
    link: Link, theta: Floats, features: Floats, *, ridge: float = 0.0, weights: Floats | None = None
) -> Floats:
    """sum w mu'(z) x x^T + ridge I, (*R, d, d)."""
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
) -> Estimated:
    """argmin L by theta <- theta - t N, N the Newton step, until the next one would be below tolerance (1 + |theta|).

    t = 1 where s = M |N| <= 1/2 (M the self-concordance constant, |x| <= 1): there the loss is nearly its parabola and
    the next step is about s |N|. Elsewhere t is halved until the loss falls by a part of what the slope promises
    (Armijo's rule). `ridge` > 0 makes the minimum finite and unique on any data, separable or none at all.
    """
    require.positive("ridge", ridge)
    link, features, rewards = link_of(link), np.asarray(features, dtype=float), np.asarray(rewards, dtype=float)
    if features.ndim < 2 or rewards.shape != features.shape[:-1]:
        shapes = (features.shape, rewards.shape)
        raise InvalidStatistic("shapes of features and rewards", Summary(shapes), "(..., n, d) and (..., n)")
    d, replicates = features.shape[-1], features.shape[:-2]
    begun = np.zeros((*replicates, d)) if start is None else np.array(start, dtype=float)
    theta, converged = begun.reshape(-1, d), np.ones(begun[..., 0].size, dtype=bool)
    if features.shape[-2] == 0:
        return Estimated(theta=np.zeros_like(begun), steps=0, converged=converged.reshape(replicates))
    rows = _Rows(link, features.reshape(-1, *features.shape[-2:]), rewards, weights, ridge)
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
    return Estimated(theta=theta.reshape(begun.shape), steps=step, converged=converged.reshape(replicates))


def _refuse_what_is_not_finite(**data: Floats | None) -> None:
    """Name the place: one such number makes a whole estimate meaningless."""
    for name, values in data.items():
        if values is not None and not np.all(finite := np.isfinite(values)):
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise InvalidStatistic(f"{name}[{', '.join(map(str, place))}]", float(values[place]), "a finite number")


class _Rows:
    """The data of some replicates: features (R, n, d), rewards and weights (R, n)."""

    def __init__(self, link: Link, features: Floats, rewards: Floats, weights: Floats | None, ridge: float) -> None:
        self.link, self.ridge, self.features = link, ridge, features
        self.rewards = rewards.reshape(features.shape[:2])
        self.weights = None if weights is None else weights.reshape(features.shape[:2])

    def only(self, kept: NDArray[np.bool_]) -> _Rows:
        """The rows of some of the replicates."""
        weights = None if self.weights is None else self.weights[kept]
        return _Rows(self.link, self.features[kept], self.rewards[kept], weights, self.ridge)

    def loss(self, theta: Floats) -> Floats:
        """L(theta) of every replicate."""
        return loss(self.link, theta, self.features, self.rewards, ridge=self.ridge, weights=self.weights)


def _newton_step(rows: _Rows, theta: Floats, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
    """t N of every replicate (R, d), and where it was the last that is needed (R)."""
    link, x = rows.link, rows.features
    z = linear_parts(x, theta)
    residuals, slopes = link.mean(z) - rows.rewards, link.slope(z)
    if rows.weights is not None:
        residuals, slopes = residuals * rows.weights, slopes * rows.weights
    gradient = (residuals[..., None, :] @ x)[..., 0, :] + rows.ridge * theta
    hessian = np.swapaxes(x * slopes[..., None], -1, -2) @ x + rows.ridge * np.eye(x.shape[-1])
    newton = np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0], dtype=float)
    reach, small = judged(link, newton, theta, tolerance)
    if np.any(far := reach > 0.5):
        newton = np.where(far[:, None], _backtracked(rows, theta, newton, np.sum(gradient * newton, axis=-1)), newton)
    return newton, small


def judged(link: Link, newton: Floats, theta: Floats, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
    """s = M |N| of Newton steps N from theta, (R, d) each, and where the next one, of about s |N|, may be left out."""
    length, size = np.sqrt((newton**2).sum(axis=-1)), np.sqrt((theta**2).sum(axis=-1))
    reach = np.array([link.concordance(bound) for bound in size.tolist()]) * length  # each by itself
    return reach, np.asarray(length * np.where(reach < 0.1, reach, 1.0) <= tolerance * (1 + size))


def _backtracked(rows: _Rows, theta: Floats, move: Floats, promised: Floats) -> Floats:
    """The move, halved in every replicate until the loss falls by 1/10000 of what the slope promises."""
    before, scale = rows.loss(theta), np.ones(len(theta))
    for _ in range(60):
        after = rows.loss(theta - scale[:, None] * move)
        worse = after > before - 1e-4 * scale * promised + 1e-12 * np.abs(before)
        if not worse.any():
            break
        scale = np.where(worse, scale / 2, scale)
    return scale[:, None] * move
