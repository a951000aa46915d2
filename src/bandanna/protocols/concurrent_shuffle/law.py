"""Aggregate law of the concurrent shufflers: the coins of all users who arrived together in one draw per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain, Statistic
from bandanna.core.shapes import Bits
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial import law as vectors
from bandanna.protocols.shuffle_bits import law as bits

Integers = NDArray[np.int64]


def totals(
    statistic: Statistic, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Integers, ...]:
    """What the shufflers add for some m users of a batch, Bin(m b, 1/2) each: k times (..., dim)."""
    some = [replace(noise, users=statistic.users) for noise in noises]
    if isinstance(domain, Bits):
        return tuple(bits.totals(statistic, noise, source) for noise in some)
    return tuple(vectors.totals(statistic, noise, domain, source) for noise in some)
