"""Randomizer of the concurrent shufflers: runs on the user's device, one message for each level's shuffler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain, Statistic
from bandanna.core.shapes import Bits
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial import randomizer as vectors
from bandanna.protocols.shuffle_binomial.encoding import largest_counts
from bandanna.protocols.shuffle_bits import randomizer as bits

Integers = NDArray[np.int64]


def randomize(
    statistic: Statistic, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Integers, ...]:
    """Integer counts for each level, with fresh rounding and fresh coins: k times (..., users, dim)."""
    values = statistic.rows()
    if isinstance(domain, Bits):
        return tuple(bits.randomize(values, noise, source) for noise in noises)
    return tuple(vectors.randomize(values, noise, domain, source) for noise in noises)


def message_bits(noises: Sequence[BinomialNoise], domain: Domain) -> int:
    """Length of the messages to all shufflers together, as integers: as many bits as the largest counts have."""
    return sum(int(most).bit_length() for noise in noises for most in largest_counts(noise, domain))
