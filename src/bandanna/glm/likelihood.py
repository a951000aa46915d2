"""Cumulative losses of a generalised linear model, and their minimum by damped Newton steps.

    L(theta) = sum_i w_i (b(<x_i, theta>) - r_i <x_i, theta>) + (ridge/2) |theta|^2

Leading axes are replicates; `weights` of 0 leave a row out, so that replicates may have different numbers of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.glm.links import Link

Floats = NDArray[np.float64]


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
    link: Link,
    features: Floats,
    rewards: Floats,
    *,
    ridge: float,
    start: Floats | None = None,
    weights: Floats | None = None,
    tolerance: float = 1e-9,
    most_steps: int = 200,
) -> Estimated:
    """argmin L by theta <- theta - t N, N the Newton step, until the next one would be at most tolerance (1 + |theta|) everywhere.

    t = log(1 + s)/s with s = M |N| decreases a loss with |mu''| <= M mu' and |x| <= 1 in every step, without a line
    search (Sun and Tran-Dinh 2019, generalised self-concordance of order 2); it tends to 1 near the minimum. A step
    that does not decrease the loss all the same (the probit's M is taken at the present |z|) is halved. `ridge` > 0
    makes the minimum finite and unique on any data, separable or none at all.
    """
    require.positive("ridge", ridge)
    d = features.shape[-1]
    theta = np.zeros((*features.shape[:-2], d)) if start is None else np.array(start, dtype=float)
    if features.shape[-2] == 0:
        return Estimated(theta=np.zeros_like(theta), steps=0, converged=np.ones(theta.shape[:-1], dtype=bool))
    small = np.zeros(theta.shape[:-1], dtype=bool)
    for step in range(1, most_steps + 1):
        newton = _newton_step(link, theta, features, rewards, ridge, weights)
        length = np.sqrt(np.sum(newton**2, axis=-1))  # (*R)
        size = np.sqrt(np.sum(theta**2, axis=-1))
        reach = link.concordance(float(np.max(size, initial=0.0))) * length  # s = M |N|
        small = length * np.where(reach < 0.1, reach, 1.0) <= tolerance * (1 + size)  # near: the next step is s |N|
        damping = np.where(reach > 1e-6, np.log1p(reach) / np.maximum(reach, 1e-6), 1.0)
        move = damping[..., None] * newton
        if np.any(reach > 0.5):
            move = _halved(link, theta, move, features, rewards, ridge, weights)
        theta = theta - move
        if np.all(small):
            return Estimated(theta=theta, steps=step, converged=small)
    return Estimated(theta=theta, steps=most_steps, converged=small)


def _newton_step(
    link: Link, theta: Floats, features: Floats, rewards: Floats, ridge: float, weights: Floats | None
) -> Floats:
    """Hessian^{-1} gradient, both from one pass over the data."""
    z = linear_parts(features, theta)
    residuals, slopes = link.mean(z) - rewards, link.slope(z)
    if weights is not None:
        residuals, slopes = residuals * weights, slopes * weights
    gradient = (residuals[..., None, :] @ features)[..., 0, :] + ridge * theta
    hessian = np.swapaxes(features * slopes[..., None], -1, -2) @ features + ridge * np.eye(features.shape[-1])
    return np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0])


def _halved(
    link: Link, theta: Floats, move: Floats, features: Floats, rewards: Floats, ridge: float, weights: Floats | None
) -> Floats:
    """The move, halved in every replicate until its loss does not rise."""
    before = loss(link, theta, features, rewards, ridge=ridge, weights=weights)
    for _ in range(60):
        after = loss(link, theta - move, features, rewards, ridge=ridge, weights=weights)
        worse = after > before + 1e-12 * np.abs(before)
        if not np.any(worse):
            break
        move = np.where(worse[..., None], move / 2, move)
    return move
