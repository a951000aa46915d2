"""Aggregate law of the continual protocol: the noise of all prefixes of a stream at once, exact in law.

The estimates are A x + B z with z_i ~ N(0, std^2 I) whatever the stream is, so a simulation may add B z to the exact
prefix sums. B z is a sum of decaying sums for a BLT and sums of blocks for a tree: O(T), without a loop over steps.
"""

from __future__ import annotations

import numpy as np

from bandanna.accounting.factorisation import BLT, BinaryTree
from bandanna.core import trees
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.continual.blt import Blocks
from bandanna.mechanisms.sources import NoiseSource

_STEPS = 32  # L, in a block of a BLT's noise


def prefixes(values: Floats, mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """Noisy prefix sums after every step: (..., steps, dim) -> (..., steps, dim)."""
    return np.asarray(np.cumsum(values, axis=-2) + noise(values.shape, mechanism, source))


def noise(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """B z alone, for simulation: of such a shape (..., steps, dim)."""
    factors = mechanism.factorisation
    if isinstance(factors, BLT):
        return _blt(_drawn(shape, mechanism, source), factors)
    if isinstance(factors, BinaryTree):
        return _tree(shape, mechanism, source)
    raise InvalidArgument("factorisation", factors.name, "a BLT or a tree")


def _drawn(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    return source.gaussian(np.broadcast_to(0.0, shape), std=mechanism.std, grid=mechanism.spacing)


def _blt(z: Floats, factors: BLT) -> Floats:
    """B z by `Blocks` of L steps, all of them at once."""
    from scipy import signal  # here, since it is slow to load, and only simulations of streams need it

    by = Blocks.of(factors, _STEPS)
    rows = np.swapaxes(z, -2, -1)  # (..., dim, steps)
    steps = rows.shape[-1]
    if steps % _STEPS:
        rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -steps % _STEPS)])
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // _STEPS, _STEPS)
    left = blocks @ by.left.T
    before = [  # s_i
        signal.lfilter([0.0, 1.0], [1.0, -decay], own, axis=-1)
        for decay, own in zip(by.decay, np.moveaxis(left, -1, 0), strict=True)
    ]
    summed = blocks @ by.within.T
    summed += np.stack(before, axis=-1) @ by.after.T
    return np.swapaxes(summed.reshape(rows.shape)[..., :steps], -2, -1)


def _tree(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """B z: noise of all complete blocks, summed over a prefix's blocks."""
    steps = shape[-2]
    levels = steps.bit_length()
    own = [_drawn((*shape[:-2], steps >> level, shape[-1]), mechanism, source) for level in range(levels)]
    return trees.prefixes(own, (2,) * (levels - 1))
