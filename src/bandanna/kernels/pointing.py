"""Vectors of uniform direction, drawn and scaled in one pass; the NumPy code is `environments.linear.pointing`."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit


@jit
def pointing(rng: np.random.Generator, lengths: Floats, dim: int, last: float, out: Floats) -> None:
    """Vectors (n, d), of one length or of n; entries beyond `dim` are `last`. The numbers are NumPy's bit for bit."""
    n, width = out.shape
    for k in range(n):
        square, row, length = 0.0, out[k], lengths[k if len(lengths) > 1 else 0]
        for i in range(dim):
            drawn = rng.standard_normal()
            row[i] = drawn
            square += drawn * drawn
        norm = max(math.sqrt(square), 1e-300)
        for i in range(dim):
            row[i] = row[i] / norm * length
        for i in range(dim, width):
            row[i] = last
