"""A whole stream at once, in the law of user by user: every level's batches are released together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core import trees
from bandanna.core.domain import Domain
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.concurrent_shuffle import analyzer, law, randomizer, shuffler
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree

Floats = NDArray[np.float64]

_CHUNK = 1 << 22  # numbers held at a time


def prefixes(
    values: Floats,
    tree: BatchTree,
    noises: Sequence[BinomialNoise],
    own: Sequence[float],
    domain: Domain,
    source: NoiseSource,
    path: str,
) -> Floats:
    """Estimates after every user, (..., users, dim) -> the same shape; 0 before the first batch is full."""
    users, low = values.shape[-2], tree.sizes[0]
    filled = sum(size <= users for size in tree.sizes)  # levels with a full batch
    estimates = np.zeros(values.shape)
    if not filled:
        return estimates
    degrees = tree.degrees[1:filled]
    released = [batches(values, noises[level], domain, source, path) for level in range(filled)]
    after = trees.prefixes(trees.averaged(released, degrees, own[:filled]), degrees)  # (..., N_1, dim)
    held = np.repeat(after, low, axis=-2)[..., : users - low + 1, :]  # an estimate stands until the next batch fills
    estimates[..., low - 1 :, :] = held
    return estimates


def batches(values: Floats, noise: BinomialNoise, domain: Domain, source: NoiseSource, path: str) -> Floats:
    """Releases of all full batches of a level, (..., users, dim) -> (..., N_j, dim), in chunks."""
    size, replicates, dim = noise.users, values.shape[:-2], values.shape[-1]
    count = values.shape[-2] // size
    step = max(1, _CHUNK // (size * dim * int(np.prod(replicates, dtype=np.int64))))
    released = np.empty((*replicates, count, dim))
    for start in range(0, count, step):
        stop = min(start + step, count)
        rows = values[..., start * size : stop * size, :].reshape(*replicates, stop - start, size, dim)
        part = domain.sealed(rows, clipped=np.zeros(rows.shape[:-2], dtype=np.int64))
        if path == "law":
            totals = law.totals(part, noise, domain, source)
        else:
            (counts,) = randomizer.randomize(part, [noise], domain, source)
            totals = shuffler.collect(np.zeros((*rows.shape[:-2], dim), dtype=np.int64), counts)
        released[..., start:stop, :] = analyzer.batch_estimate(totals, noise, domain)
    return released
