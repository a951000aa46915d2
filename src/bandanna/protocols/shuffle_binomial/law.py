"""Aggregate law of the vector sum: the noise of a whole batch in one draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial.encoding import Integers, encode


def totals(values: NDArray[np.float64], noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Integers:
    """Sum of the encoded statistics plus one Bin(B b, p) per coordinate: (..., users, dim) -> (..., dim)."""
    encoded = np.sum(encode(values, noise, domain, source), axis=-2)
    coins = source.binomial(trials=noise.users * noise.trials, probability=noise.probability, size=encoded.shape)
    return np.asarray(encoded + coins)
