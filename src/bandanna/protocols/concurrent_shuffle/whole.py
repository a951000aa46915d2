"""A whole stream at once, in the law of user by user: every level's batches are released together."""

from __future__ import annotations

import numpy as np

from bandanna.core import trees
from bandanna.core.arrays import Floats
from bandanna.core.shapes import Bits
from bandanna.device import Levels
from bandanna.device.levels import level_source
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.concurrent_shuffle import law
from bandanna.protocols.concurrent_shuffle.analyzer import TreeSums
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.roles import Held

_CHUNK = 1 << 22  # numbers held at a time


def prefixes(
    values: Floats, device: Levels, mixer: LevelMixer, analyzer: TreeSums, source: NoiseSource, path: str
) -> Floats:
    """Estimates after every user, (..., users, dim) -> the same shape; 0 before the first batch is full."""
    tree = analyzer.tree
    users, low = values.shape[-2], tree.sizes[0]
    filled = sum(size <= users for size in tree.sizes)  # levels with a full batch
    estimates = np.zeros(values.shape)
    if not filled:
        return estimates
    if path == "law" and isinstance(device.domain, Bits):
        batch = values[..., : users // low * low, 0].reshape(*values.shape[:-2], users // low, low)
        counts = np.cumsum(np.rint(np.sum(batch, axis=-1)), axis=-1)  # whole numbers below 2^53: exact
        after = counts[..., None] + noise_of_bits(counts.shape, analyzer, source)
    else:
        after = _after(
            [batches(values, level, device, mixer, analyzer, source, path) for level in range(filled)], analyzer
        )
    held = np.repeat(after, low, axis=-2)[..., : users - low + 1, :]  # an estimate stands until the next batch fills
    estimates[..., low - 1 :, :] = held
    return estimates


def noise_of_bits(shape: tuple[int, ...], analyzer: TreeSums, source: NoiseSource) -> Floats:
    """Estimates less true counts after every lowest batch of bits: (..., N_1) -> (..., N_1, 1).

    A release is linear in its total, a batch and its parts have the same ones, and their weights add up to 1: so the
    estimate of a stream is its count plus that of a stream of zeros, whose totals are coins alone.
    """
    tree, released, users = analyzer.tree, [], shape[-1] * analyzer.tree.sizes[0]
    for level, size in enumerate(tree.sizes):
        if size > users:
            break
        noise = analyzer.levels[level].noise
        totals = law.coins(size, noise, (*shape[:-1], users // size, 1), source)
        released.append(analyzer.release(level, Held(users=size, numbers=totals)))
    return _after(released, analyzer)


def _after(released: list[Floats], analyzer: TreeSums) -> Floats:
    """The sum of the maximal batches after every lowest one, from the releases by level: (..., N_1, dim)."""
    degrees = analyzer.tree.degrees[1 : len(released)]
    return trees.prefixes(trees.averaged(released, degrees, analyzer.weights.own[: len(released)]), degrees)


def batches(
    values: Floats, level: int, device: Levels, mixer: LevelMixer, analyzer: TreeSums, source: NoiseSource, path: str
) -> Floats:
    """Releases of all full batches of a level, (..., users, dim) -> (..., N_j, dim), in chunks."""
    size, replicates, dim = analyzer.tree.sizes[level], values.shape[:-2], values.shape[-1]
    count = values.shape[-2] // size
    step = max(1, _CHUNK // (size * dim * int(np.prod(replicates, dtype=np.int64))))
    released = np.empty((*replicates, count, dim))
    for start in range(0, count, step):
        stop = min(start + step, count)
        rows = values[..., start * size : stop * size, :].reshape(*replicates, stop - start, size, dim)
        if path == "law":
            domain, noise = device.domain, analyzer.levels[level].noise
            totals = law.totals(
                domain.sealed(rows, clipped=np.zeros(rows.shape[:-2], dtype=np.int64)), noise, domain, source
            )
            view = Held(users=size, numbers=totals)
        else:
            own, one = level_source(source, level), mixer.levels[level]
            messages = device.levels[level].encode(rows, own)
            view = one.close(one.drawn(one.add(one.empty(rows.shape[:-2]), messages), own))
        released[..., start:stop, :] = analyzer.release(level, view)
    return released
