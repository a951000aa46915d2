"""Nearest points of balls, ellipsoids and their intersection, for many points at once."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.domain import clip_norm


def onto_ball(points: Floats, radius: float) -> Floats:
    """The nearest point of {|y| <= radius}: (..., d) -> (..., d)."""
    return clip_norm(points, radius)


def onto_ball_in_norm(points: Floats, matrix: Floats, radius: float) -> Floats:
    """argmin |y - p|_A over |y| <= radius, A = `matrix` positive definite: (..., d), (..., d, d) -> (..., d).

    (A + nu I) y = A p; in the eigenvectors of A, y_i = a_i p_i / (a_i + nu), with nu >= 0 the root of |y| = radius.
    """
    values, vectors = np.linalg.eigh(matrix)
    rotated = _rotate(vectors, points)
    return _back(vectors, _secular(values, np.ones_like(values), rotated, np.asarray(radius, dtype=float)))


def onto_ellipsoid(points: Floats, centre: Floats, matrix: Floats, radius: float | Floats) -> Floats:
    """The nearest point of {|y - centre|_A <= radius}: (..., d), (..., d), (..., d, d), (...) -> (..., d).

    y - c = (I + nu A)^{-1} (p - c), with nu >= 0 the root of |y - c|_A = radius.
    """
    values, vectors = np.linalg.eigh(matrix)
    rotated = _rotate(vectors, points - centre)
    return np.asarray(
        centre + _back(vectors, _secular(np.ones_like(values), values, rotated, np.asarray(radius, dtype=float)))
    )


def onto_both(
    points: Floats, *, ball: float, centre: Floats, matrix: Floats, radius: float | Floats, sweeps: int = 100
) -> Floats:
    """The nearest point of a ball around 0 and an ellipsoid at once, by Dykstra's alternating projections.

    The last projection is onto the ball, so the answer lies in the ball in any case; where the two do not meet it is
    the ball's point near the ellipsoid.
    """
    away = points - centre
    far = np.einsum("...i,...ij,...j->...", away, matrix, away) > np.square(radius)
    moving = far | (np.sum(points**2, axis=-1) > ball**2)  # (...): each stops by itself, in any company
    y, p, q = np.array(points), np.zeros_like(points), np.zeros_like(points)
    for _ in range(sweeps):
        if not moving.any():
            break
        inside = onto_ellipsoid(y + p, centre, matrix, radius)
        p = y + p - inside
        nearer = onto_ball(inside + q, ball)
        q = inside + q - nearer
        y, before = np.where(moving[..., None], nearer, y), y
        moving &= np.max(np.abs(y - before), axis=-1) > 1e-13 * ball
    return y


def _rotate(vectors: Floats, points: Floats) -> Floats:
    return np.asarray((points[..., None, :] @ vectors)[..., 0, :])


def _back(vectors: Floats, points: Floats) -> Floats:
    return np.asarray((vectors @ points[..., None])[..., 0])


def _secular(p: Floats, q: Floats, t: Floats, radius: Floats) -> Floats:
    """argmin sum p_i (y_i - t_i)^2 over sum q_i y_i^2 <= radius^2: y_i = p_i t_i / (p_i + nu q_i).

    nu is the root of the secular equation |y|_q = radius, by Newton's method on 1/|y|_q, which climbs to it from 0
    without passing it (More and Sorensen 1983). The answer is scaled into the set at the end: rounding
    never leaves it outside.
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
