"""Binomial noise on integer totals: what the fair bits of a whole batch add up to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.events import BinomialEvent
from bandanna.core import require
from bandanna.device.noise import noise_source
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Binomial(Mechanism):
    """Binomial noise on an integer vector, not centred: subtract `mean` from the release for an unbiased total.

        release = x + Z,   Z_k ~ Bin(trials, probability) independent

    Symbols: x integer total. `shift` bounds the l2 norm of a neighbour's change in lattice units, before its
    stochastic rounding if `rounded`; `reach` bounds the change of one coordinate after rounding.
    Privacy: with F(j) = P(Z_k < j), z_j = Phi^-1(F(j)) and mu_1 the largest step of z inside |z| <= zmax, the release
    is dominated by a Gaussian pair of mu_1 ||v||_2 up to a tail, v the change of the total; the accountant bounds
    ||v||_2 from `shift`, `dim` and `rounded`. It is not the price of a Gaussian of equal variance.
    Reference: Theorem A in bandanna.accounting.lattice (price); Cheu, Joseph, Mao and Peng 2021 (protocol).
    """

    trials: int
    shift: float
    reach: int
    dim: int = 1
    probability: float = 0.5
    rounded: bool = True

    def __post_init__(self) -> None:
        require.store(self, require.whole, "trials", "reach", "dim")
        require.store(self, require.positive, "shift")
        require.store(self, require.chance, "probability")
        super().__post_init__()

    @cached_property
    def event(self) -> BinomialEvent:
        """One release of totals."""
        return BinomialEvent(
            trials=self.trials,
            shift=self.shift,
            reach=self.reach,
            dim=self.dim,
            probability=self.probability,
            rounded=self.rounded,
        )

    @property
    def mean(self) -> float:
        """What the noise adds on average: trials probability."""
        return self.trials * self.probability

    @property
    def variance(self) -> float:
        """trials probability (1 - probability)."""
        return self.trials * self.probability * (1 - self.probability)

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """The integers plus binomial counts: (..., dim) -> (..., dim)."""
        exact = self.integers(value)
        noise = noise_source(source).binomial(trials=self.trials, probability=self.probability, size=exact.shape)
        return np.asarray(exact + noise)
