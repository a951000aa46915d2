"""Counts: a statistic on a lattice, hidden among coins; bits, in copies among fair ones; answers: bits and signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core import require, sums
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.domain import Ball
from bandanna.core.shapes import Bits
from bandanna.device import lattice
from bandanna.device.base import Device, Messages
from bandanna.device.noise import NoiseSource
from bandanna.storage.declared import stored_as


@stored_as("Counts")
@dataclass(frozen=True, kw_only=True)
class Counts(Device):
    """One count per coordinate: the statistic on a lattice of `scale` steps to the unit, plus Bin(trials, probability).

        count = floor(s (x - lower)) + coin(rest) + Bin(b, p)

    Privacy: nothing by itself beyond the coins of one user; the totals of a batch are priced (`shuffle_binomial`).
    """

    scale: float
    trials: int
    probability: float = 0.5

    def __post_init__(self) -> None:
        require.store(self, require.positive, "scale")
        require.store(self, require.whole, "trials")
        require.store(self, require.chance, "probability")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        """Coins and rounding, fresh in every entry."""
        coins = source.binomial(trials=self.trials, probability=self.probability, size=values.shape)
        return np.asarray(lattice.encode(values, self.scale, self.domain, source) + coins)


@stored_as("Rounded")
@dataclass(frozen=True, kw_only=True)
class Rounded(Device):
    """One count per coordinate without coins: floor(s (x - lower)) + coin(rest), for a mixer that draws the noise.

    Privacy: none against whoever sees the message. The totals that the mixer forwards are priced, and it is trusted to
    draw their noise. Bits are sent in `scale` whole copies, without any chance.
    """

    scale: float

    def __post_init__(self) -> None:
        require.store(self, require.positive, "scale")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        """Rounding, fresh in every entry."""
        return lattice.encode(values, self.scale, self.domain, source)


@stored_as("Copies")
@dataclass(frozen=True, kw_only=True)
class Copies(Device):
    """How many ones are among c `copies` of a bit and b = `trials` fair bits: count = c x + Bin(b, 1/2).

    Privacy: as of counts; the total of a batch is priced exactly (`shuffle_bits`).
    """

    domain: Bits = Bits()
    copies: int
    trials: int

    def __post_init__(self) -> None:
        require.store(self, require.whole, "copies", "trials")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        """One count for each bit."""
        coins = source.binomial(trials=self.trials, probability=0.5, size=values.shape)
        return np.asarray(self.copies * values.astype(np.int64) + coins)


@stored_as("Answer")
@dataclass(frozen=True, kw_only=True)
class Answer(Device):
    """Randomized response: the bit itself, or a false one with probability `lie`.

    Privacy: pure, epsilon = log((1 - lie) / lie) for each answer, whoever sees it (`mechanisms.randomized_response`).
    """

    domain: Bits = Bits()
    lie: float

    def __post_init__(self) -> None:
        require.store(self, require.chance, "lie")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        """0 or 1 for each bit."""
        return answers(values, self.lie, source).astype(np.int64)


@stored_as("Sign")
@dataclass(frozen=True, kw_only=True)
class Sign(Device):
    """Randomized response about the sign of a public vector: the vector itself, or its negative with probability `lie`.

    Privacy: pure, epsilon = log((1 - lie) / lie) for the sign; none for the line on which the vector lies. Messages
    about v and about - v are the same two, since rounding to steps of a grid is odd (`protocols.local_bits.signs`).
    """

    domain: Ball
    lie: float

    def __post_init__(self) -> None:
        require.store(self, require.chance, "lie")

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """One coin for each user."""
        said = sums.steps_of(values, self.domain.reach) if source.secure else values
        lies = answers(np.zeros((*values.shape[:-1], 1)), self.lie, source)
        return np.where(lies, -said, said)


def chance_of_one(value: Floats, lie: float) -> Floats:
    """P(answer = 1 | x) = lie + (1 - 2 lie) x, never outside of [lie, 1 - lie]."""
    return np.minimum(np.maximum(lie + (1 - 2 * lie) * value, lie), 1 - lie)


def answers(value: Floats, lie: float, source: NoiseSource) -> Bools:
    """One coin for every number in [0, 1], which decides about rounding and lying at once."""
    return np.asarray(source.uniform(value.shape) < chance_of_one(value, lie))
