"""Randomizer of the vector sum: runs on the user's device."""

from __future__ import annotations

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Bools, Ints
from bandanna.core.domain import Domain
from bandanna.device import Counts, Rounded
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial.encoding import largest_counts


def device(domain: Domain, noise: BinomialNoise, coins: str = "device") -> Counts | Rounded:
    """Integer counts: the encoded statistic plus Bin(b, p) per coordinate, or without if the mixer draws the coins."""
    if coins == "mixer":
        return Rounded(domain=domain, scale=noise.scale)
    return Counts(domain=domain, scale=noise.scale, trials=noise.trials, probability=noise.probability)


def to_bits(counts: Ints, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> list[Bools]:
    """The same message in unary: per coordinate, (..., users, length) bits of which `count` are 1, in random order."""
    bits = []
    for k, length in enumerate(largest_counts(noise, domain)):
        order = source.permutation(int(length), size=counts.shape[:-1])  # (..., users, length)
        bits.append(order < counts[..., k, None])
    return bits
