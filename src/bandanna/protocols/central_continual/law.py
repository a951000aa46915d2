"""Aggregate law of the continual protocol: the noise of all prefixes of a stream at once, exact in law.

The estimates are A x + B z with z_i ~ N(0, std^2 I) whatever the stream is, so a simulation may add B z to the exact
prefix sums. B z is a recurrence for a BLT and sums of blocks for a tree: O(T), without a loop over steps.
"""

from __future__ import annotations

import numpy as np

from bandanna.accounting.factorisation import BLT, BinaryTree
from bandanna.core import trees
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.sources import NoiseSource


def prefixes(values: Floats, mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """Noisy prefix sums after every step: (..., steps, dim) -> (..., steps, dim)."""
    exact = np.cumsum(values, axis=-2)
    factors = mechanism.factorisation
    if isinstance(factors, BLT):
        return np.asarray(exact + _blt(values.shape, factors, mechanism, source))
    if isinstance(factors, BinaryTree):
        return np.asarray(exact + _tree(values.shape, factors, mechanism, source))
    raise InvalidArgument("factorisation", factors.name, "a BLT or a tree")


def _noise(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    return source.gaussian(np.zeros(shape), std=mechanism.std, grid=mechanism.spacing)


def _blt(shape: tuple[int, ...], factors: BLT, mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """B z: prefix sums of C^{-1} z, with C^{-1} z = z - sum_i w_hat_i s_i and s_i <- theta_hat_i s_i + z."""
    from scipy import signal  # here, since it is slow to load and only simulations of whole streams need it

    z = _noise(shape, mechanism, source)
    increments = z.copy()
    for theta_hat, weight in zip(factors.theta_hat, factors.inverse_weights, strict=True):
        increments -= weight * signal.lfilter([0.0, 1.0], [1.0, -theta_hat], z, axis=-2)
    return np.asarray(np.cumsum(increments, axis=-2))


def _tree(shape: tuple[int, ...], factors: BinaryTree, mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """B z: noise of all complete blocks, averaged with their halves' (Honaker), summed over a prefix's blocks."""
    steps = shape[-2]
    levels = steps.bit_length()
    own = [_noise((*shape[:-2], steps >> level, shape[-1]), mechanism, source) for level in range(levels)]
    halves = (2,) * (levels - 1)
    return trees.prefixes(trees.averaged(own, halves, factors.node_variance[:levels]), halves)
