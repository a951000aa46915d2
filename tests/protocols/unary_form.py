"""The paper's form of shuffled counts: labelled bits in random order, which say as much as their totals."""

from __future__ import annotations

import numpy as np

from bandanna.device.domain import Domain
from bandanna.device.noise import NoiseSource
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.shuffle_binomial import largest_counts
from bandanna.types import Bools, Ints


def expand_counts(counts: Ints, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> list[Bools]:
    """Write counts in unary: per coordinate, (..., users, length) bits in random order, of which `count` are 1."""
    orders = (source.permutation(int(length), size=counts.shape[:-1]) for length in largest_counts(noise, domain))
    return [order < counts[..., k, None] for k, order in enumerate(orders)]


def expand_ones(ones: Ints, noise: BinomialNoise, source: NoiseSource) -> Bools:
    """Write a message as c + b single bits in random order: (..., users, 1) -> (..., users, c + b)."""
    order = source.permutation(int(noise.scale) + noise.trials, size=ones.shape[:-1])
    return np.asarray(order < ones)


def shuffle_labelled_bits(bits: list[Bools], source: NoiseSource) -> list[Bools]:
    """Return the bits of a batch with one label in random order, (..., users, length) -> (..., users * length)."""
    mixed = []
    for labelled in bits:
        flat = labelled.reshape(*labelled.shape[:-2], -1)
        order = source.permutation(flat.shape[-1], size=flat.shape[:-1])
        mixed.append(np.take_along_axis(flat, order, axis=-1))
    return mixed


def sum_shuffled_bits(bits: list[Bools]) -> Ints:
    """Count the ones per coordinate, (..., users * length) -> (..., dim)."""
    return np.stack([np.sum(labelled, axis=-1, dtype=np.int64) for labelled in bits], axis=-1)
