"""Aggregate law of the vector sum: the noise of a whole batch in one draw."""

from __future__ import annotations

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain, Statistic
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial.encoding import Integers, encode, encode_groups


def totals(statistic: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Integers:
    """Sum of the encoded statistics plus one Bin(B b, p) per coordinate: (..., users, dim) -> (..., dim)."""
    if statistic.counts is None:
        encoded = np.sum(encode(statistic.values, noise, domain, source), axis=-2)
    else:
        encoded = encode_groups(statistic.values, statistic.counts, noise, domain, source)
    coins = source.binomial(trials=noise.users * noise.trials, probability=noise.probability, size=encoded.shape)
    return np.asarray(encoded + coins)
