"""Vectors of uniform direction, drawn and scaled in one pass; the NumPy code is `environments.linear.pointing`."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit
from bandanna.kernels.ziggurat import Words, normals

_TOGETHER = 64  # vectors between draw and place: numbers of one after the other would wait for the last norm


@jit
def pointing(words: Words, length: float, dim: int, last: float, out: Floats) -> None:
    """Vectors (n, width) from `dim` numbers each, of which the first entries are kept; those beyond are `last`. The
    numbers are NumPy's bit for bit, of the SFC64 whose state is `words`, changed."""
    n, width = out.shape
    kept = min(dim, width)
    drawn = np.empty((_TOGETHER * dim, 1))
    for begin in range(0, n, _TOGETHER):
        count = min(_TOGETHER, n - begin)
        normals(words, drawn.shape[1], drawn[: count * dim])
        for k in range(count):
            square, row = 0.0, out[begin + k]
            for i in range(dim):
                square += drawn[k * dim + i, 0] * drawn[k * dim + i, 0]
            norm = max(math.sqrt(square), 1e-300)
            for i in range(kept):
                row[i] = drawn[k * dim + i, 0] / norm * length
            for i in range(kept, width):
                row[i] = last


@jit
def pointing_columns(words: Words, n: int, length: float, dim: int, last: float, norms: Floats, out: Floats) -> None:
    """The same n vectors side by side, in the first columns of (d, N), all of one length; `norms`: room for N numbers.

    Columns beyond them are zero, and stay so but for the last entries.
    """
    normals(words, n, out[:dim])
    norms[:] = 0.0
    for i in range(dim):
        row = out[i]
        for k in range(len(norms)):
            norms[k] += row[k] * row[k]
    for k in range(len(norms)):
        norms[k] = max(math.sqrt(norms[k]), 1e-300)
    for i in range(dim):
        row = out[i]
        for k in range(len(norms)):
            row[k] = row[k] / norms[k] * length
    for i in range(dim, len(out)):
        out[i] = last
