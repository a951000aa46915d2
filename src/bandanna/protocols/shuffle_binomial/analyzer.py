"""Analyzer of the vector sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.protocols.shuffle_binomial.encoding import Integers, decode


def analyze(totals: Integers, noise: BinomialNoise, domain: Domain) -> Estimate:
    """Unbiased estimate from the batch's totals, (..., dim)."""
    return Estimate(total=decode(totals, noise, domain), count=noise.users, variance=noise.std() ** 2)


def count_bits(bits: list[NDArray[np.bool_]]) -> Integers:
    """Totals of shuffled bits: per coordinate (..., users * length) -> (..., dim)."""
    return np.stack([np.sum(labelled, axis=-1, dtype=np.int64) for labelled in bits], axis=-1)
