"""Vectors of uniform direction, drawn and scaled in one pass; the NumPy code is `environments.linear.pointing`."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit
from bandanna.kernels.ziggurat import Words, normals

_TOGETHER = 64  # vectors between draw and place: numbers of one after the other would wait for the last norm


@jit
def pointing(words: Words, lengths: Floats, dim: int, last: float, out: Floats) -> None:
    """Vectors (n, d), of one length or of n; entries beyond `dim` are `last`. The numbers are NumPy's bit for bit, of
    the SFC64 whose state is `words`, changed."""
    n, width = out.shape
    drawn = np.empty(_TOGETHER * dim)
    for begin in range(0, n, _TOGETHER):
        count = min(_TOGETHER, n - begin)
        normals(words, drawn[: count * dim])
        for k in range(count):
            square, row, length = 0.0, out[begin + k], lengths[begin + k if len(lengths) > 1 else 0]
            for i in range(dim):
                square += drawn[k * dim + i] * drawn[k * dim + i]
            norm = max(math.sqrt(square), 1e-300)
            for i in range(dim):
                row[i] = drawn[k * dim + i] / norm * length
            for i in range(dim, width):
                row[i] = last
