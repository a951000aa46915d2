"""Coordinates of arms in their own span: nothing else can be learned from playing them, and nothing else is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.arrays import Floats
from bandanna.core.domain import reals
from bandanna.errors import InvalidArgument

_RELATIVE = 1e-10  # singular values below this share of the largest are rounding errors


def arms_matrix(arms: ArrayLike) -> Floats:
    """Arms as finite numbers, one per row, at least one of them not zero; or an error that says what is wrong."""
    rows = reals("arms", arms)
    if rows.ndim != 2 or not rows.size:
        raise InvalidArgument("arms", f"array of shape {rows.shape}", "shape (K, d) with K, d >= 1")
    if not np.all(np.isfinite(rows)):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise InvalidArgument(f"arms[{place[0]}, {place[1]}]", float(rows[place]), "finite numbers")
    if not rows.any():
        raise InvalidArgument("arms", "zero vectors only", "at least one arm that is not zero")
    return rows


def in_unit_ball(name: str, rows: Floats) -> Floats:
    """Vectors of norm at most 1, one per row, or an error that names the longest."""
    norms = np.linalg.norm(rows, axis=1)
    if np.any(norms > 1 + 1e-9):
        place = int(np.argmax(norms))
        raise InvalidArgument(f"norm of {name}" + f"[{place}]" * (name == "arms"), float(norms[place]), "at most 1")
    return rows


def span_coordinates(arms: ArrayLike) -> Floats:
    """Whitened coordinates of K arms in their span of r dimensions: (K, d) -> (K, r) with Z^T Z = I.

    X = Z S W^T is the singular value decomposition without its zeros; Z is X in the basis S W^T of the span. Designs,
    leverages x^T V^{-1} b and least-squares predictions do not depend on the basis, and this one is the best
    conditioned.
    """
    rows = arms_matrix(arms)
    if len(rows) > 2 * rows.shape[1]:  # a triangle has the same singular values, and fewer rows
        q, triangle = np.linalg.qr(rows)
        left, values, _ = np.linalg.svd(triangle)
        left = q @ left
    else:
        left, values, _ = np.linalg.svd(rows, full_matrices=False)
    return np.ascontiguousarray(left[:, values > _RELATIVE * values[0]])
