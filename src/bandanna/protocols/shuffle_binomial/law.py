"""Aggregate law of the vector sum: the noise of a whole batch in one draw."""

from __future__ import annotations

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Ints
from bandanna.core.domain import Domain, Statistic
from bandanna.device import lattice
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial.encoding import encode_groups


def totals(statistic: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Ints:
    """Sum of the encoded statistics plus one Bin(B b, p) per coordinate: (..., users, dim) -> (..., dim)."""
    encoded = np.asarray(sum(_encoded(part, noise, domain, source) for part in statistic.parts()))
    coins = source.binomial(trials=noise.users * noise.trials, probability=noise.probability, size=encoded.shape)
    return np.asarray(encoded + coins)


def _encoded(part: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Ints:
    if part.counts is None:
        return np.asarray(np.sum(lattice.encode(part.values, noise.scale, domain, source), axis=-2))
    (added,) = encode_groups(part.values, part.counts, [noise], domain, source)
    return added
