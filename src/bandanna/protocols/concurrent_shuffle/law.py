"""Aggregate law of the concurrent shufflers: encoded statistics as users arrive, the coins of a full batch in one draw.

Coins of different users and levels are independent, and nobody sees a batch before it is full: Bin(m b, 1/2) drawn when
it is released has the law of m users' coins added up one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Ints
from bandanna.core.domain import Domain, Statistic
from bandanna.core.shapes import Bits
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.concurrent_shuffle.views import HeldLevels
from bandanna.protocols.shuffle_binomial.encoding import encode_few, encode_groups, encode_sums

_FEW, _GROUPS = 100, 2  # users whose coins are drawn faster one by one than as two binomial numbers


def encoded(
    statistic: Statistic, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """What the shufflers add for some users, without their coins: k times (..., dim)."""
    if isinstance(domain, Bits):
        ones = np.rint(statistic.total()).astype(np.int64)
        return tuple(int(noise.scale) * ones for noise in noises)
    if statistic.counts is None:
        return encode_sums(statistic.values, noises, domain, source)
    if statistic.users <= _FEW and statistic.values.shape[-2] <= _GROUPS:
        return encode_few(statistic.values, statistic.counts, noises, domain, source)
    return encode_groups(statistic.values, statistic.counts, noises, domain, source)


def arrived(held: HeldLevels, users: int, added: Sequence[Ints]) -> HeldLevels:
    """Some more users, whose coins are owed."""
    totals = tuple(before + more for before, more in zip(held.totals, added, strict=True))
    return HeldLevels(users=held.users + users, totals=totals, owed=tuple(owed + users for owed in held.owed))


def settled(held: HeldLevels, noises: Sequence[BinomialNoise], source: NoiseSource, *, levels: int) -> HeldLevels:
    """The lowest levels with the coins that they are owed."""
    if not any(held.owed[:levels]):
        return held
    totals = list(held.totals)
    for level, (noise, owed) in enumerate(zip(noises[:levels], held.owed[:levels], strict=True)):
        if owed:
            totals[level] = totals[level] + coins(owed, noise, totals[level].shape, source)
    return replace(held, totals=tuple(totals), owed=(0,) * levels + held.owed[levels:])


def coins(users: int, noise: BinomialNoise, shape: tuple[int, ...], source: NoiseSource) -> Ints:
    """The coins of so many users: Bin(m b, 1/2)."""
    return source.binomial(trials=users * noise.trials, probability=noise.probability, size=shape)


def totals(statistic: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Ints:
    """A whole batch of one level, (..., dim)."""
    (added,) = encoded(statistic, [noise], domain, source)
    return np.asarray(added + coins(noise.users, noise, added.shape, source))
