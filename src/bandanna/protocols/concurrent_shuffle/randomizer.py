"""Randomizer of the concurrent shufflers: runs on the user's device, one message for each level's shuffler."""

from __future__ import annotations

from collections.abc import Sequence

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.device import Device, Levels
from bandanna.protocols.shuffle_binomial import randomizer as vectors
from bandanna.protocols.shuffle_binomial.encoding import largest_counts
from bandanna.protocols.shuffle_bits import randomizer as bits


def device(domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device") -> Levels:
    """Integer counts for each level, with fresh rounding and fresh coins: k blocks of `dim` numbers."""
    return Levels(domain=domain, levels=tuple(_level(domain, noise, coins) for noise in noises))


def _level(domain: Domain, noise: BinomialNoise, coins: str) -> Device:
    return bits.device(noise, coins) if isinstance(domain, Bits) else vectors.device(domain, noise, coins)


def message_bits(noises: Sequence[BinomialNoise], domain: Domain, coins: str = "device") -> int:
    """Length of the messages to all shufflers together, as integers: as many bits as the largest counts have."""
    return sum(int(most).bit_length() for noise in noises for most in largest_counts(noise, domain, coins))
