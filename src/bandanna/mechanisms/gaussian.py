"""Gaussian noise: on a fine grid for real vectors, and discrete for integer vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.events import DiscreteGaussianEvent, GaussianEvent
from bandanna.accounting.grid import fine_grid
from bandanna.core import require, sums
from bandanna.device.noise import finite, noise_source, parameter
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """Gaussian noise on a real vector.

        release = g (round(x / g) + Z),   Z_k ~ discrete Gaussian(std / g) independent      (secure source)
        release = x + N(0, std^2 I)                                                         (fast source)

    Symbols: x value, g grid. `sensitivity` bounds the l2 distance of neighbouring values.
    Privacy: mu = sensitivity / std in Gaussian DP for the ideal (grid = 0). On a grid neighbours differ by at most
    sensitivity + grid sqrt(dim) after rounding; this is what the event charges, so the guarantee covers both sources'
    laws. grid = None takes a `fine_grid`, which raises mu by less than 1 part in 10^4.
    Reference: Balle and Wang 2018 (exact profile); Canonne, Kamath and Steinke 2020 (discrete Gaussian).
    """

    std: float
    sensitivity: float
    dim: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        require.store(self, require.positive, "std", "sensitivity")
        require.store(self, require.whole, "dim")
        if self.grid is not None:
            require.store(self, require.non_negative, "grid")
        super().__post_init__()
        if self.step > self.std:
            raise InvalidArgument("grid", self.grid, f"at most std = {self.std!r}")

    @cached_property
    def step(self) -> float:
        """The grid that is used: the given one, or the default for this noise; 0 is the ideal without a grid."""
        return fine_grid(self.std, self.sensitivity, self.dim) if self.grid is None else self.grid

    @cached_property
    def event(self) -> GaussianEvent:
        """One Gaussian release, rounding to the grid included."""
        return GaussianEvent(std=self.std, sensitivity=self.sensitivity, dim=self.dim, grid=self.step)

    @property
    def variance(self) -> float:
        """std^2: also for the discrete Gaussian, to 1 part in 10^6 at grid = std and exactly below grid = std / 2.

        Rounding to the grid moves the mean by at most grid / 2 and is not noise.
        """
        return self.std**2

    def release(self, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0) -> NDArray[np.float64]:
        """The value plus Gaussian noise: (..., dim) -> (..., dim). `rest`: what an exact sum has beyond its float."""
        exact = self.reals(value)
        if noise_source(source).secure and self.step > 0:
            exact = sums.nearest((exact, np.broadcast_to(finite(rest), exact.shape)), self.step)
        return source.gaussian(exact, std=self.std, grid=self.step)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise on an integer vector.

        release = x + Z,   P(Z_k = j) = exp(-j^2 / (2 std^2)) / sum_i exp(-i^2 / (2 std^2))

    Symbols: x integer value; `shift` bounds the l2 distance of neighbouring values.
    Privacy: rho = shift^2 / (2 std^2) zCDP. It is not exactly Gaussian DP.
    Reference: Canonne, Kamath and Steinke 2020, Theorem 4 and its vector form (privacy), Algorithm 3 (sampler).
    """

    std: float
    shift: float
    dim: int = 1

    def __post_init__(self) -> None:
        require.store(self, parameter, "std")
        require.store(self, require.positive, "shift")
        require.store(self, require.whole, "dim")
        super().__post_init__()

    @cached_property
    def event(self) -> DiscreteGaussianEvent:
        """One discrete Gaussian release."""
        return DiscreteGaussianEvent(std=self.std, shift=self.shift, dim=self.dim)

    @property
    def variance(self) -> float:
        """Exact: sum_j j^2 P(j) for std below 2, and std^2 above, where they differ by less than 1 part in 10^30."""
        if self.std >= 2:
            return self.std**2
        weights = [math.exp(-0.5 * (j / self.std) ** 2) if j < 39 * self.std else 0.0 for j in range(1, 79)]
        second = 2 * math.fsum(j**2 * weight for j, weight in enumerate(weights, start=1))
        return second / (1 + 2 * math.fsum(weights))

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """The integers plus discrete Gaussian noise: (..., dim) -> (..., dim)."""
        exact = self.integers(value)
        return np.asarray(exact + noise_source(source).discrete_gaussian(std=self.std, size=exact.shape))
