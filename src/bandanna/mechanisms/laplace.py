"""Laplace noise: on a fine grid for real vectors, and discrete for integer vectors; both are pure DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.events import DiscreteLaplaceEvent, LaplaceEvent
from bandanna.accounting.grid import fine_grid
from bandanna.core import require
from bandanna.device.noise import noise_source, parameter
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Laplace(Mechanism):
    """Laplace noise on a real vector.

        release = g (round(x / g) + Z),   Z_k ~ discrete Laplace(scale / g) independent     (secure source)
        release = x + Laplace(scale)                                                        (fast source)

    Symbols: x value, g grid. `sensitivity` bounds the l1 distance of neighbouring values.
    Privacy: epsilon = (sensitivity + grid dim) / scale, pure; the second term is the rounding to the grid.
    grid = None takes a `fine_grid`, which raises epsilon by less than 1 part in 10^4.
    Reference: Dwork, McSherry, Nissim and Smith 2006; Ghosh, Roughgarden and Sundararajan 2009 (discrete form).
    """

    scale: float
    sensitivity: float
    dim: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        require.store(self, require.positive, "scale", "sensitivity")
        require.store(self, require.whole, "dim")
        if self.grid is not None:
            require.store(self, require.non_negative, "grid")
        super().__post_init__()
        if self.step > self.scale:
            raise InvalidArgument("grid", self.grid, f"at most scale = {self.scale!r}")

    @property
    def step(self) -> float:
        """The grid that is used: the given one, or the default for this noise; 0 is the ideal without a grid."""
        return fine_grid(self.scale, self.sensitivity, self.dim**2) if self.grid is None else self.grid

    @cached_property
    def event(self) -> LaplaceEvent:
        """One Laplace release, rounding to the grid included."""
        return LaplaceEvent(scale=self.scale, sensitivity=self.sensitivity, dim=self.dim, grid=self.step)

    @property
    def variance(self) -> float:
        """2 scale^2, the fast source's; the secure source's is below it by less than (grid / scale)^2 / 12 of it.

        Rounding to the grid moves the mean by at most grid / 2 and is not noise.
        """
        return 2 * self.scale**2

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.float64]:
        """The value plus Laplace noise: (..., dim) -> (..., dim)."""
        return noise_source(source).laplace(self.reals(value), scale=self.scale, grid=self.step)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(Mechanism):
    """Discrete Laplace (two-sided geometric) noise on an integer vector.

        release = x + Z,   P(Z_k = j) = (1 - q) / (1 + q) q^|j|,   q = exp(-1 / scale)

    Symbols: x integer value; `shift` bounds the l1 distance of neighbouring values.
    Privacy: epsilon = shift / scale, pure.
    Reference: Ghosh, Roughgarden and Sundararajan 2009.
    """

    scale: float
    shift: float
    dim: int = 1

    def __post_init__(self) -> None:
        require.store(self, parameter, "scale")
        require.store(self, require.positive, "shift")
        require.store(self, require.whole, "dim")
        super().__post_init__()

    @cached_property
    def event(self) -> DiscreteLaplaceEvent:
        """One discrete Laplace release."""
        return DiscreteLaplaceEvent(scale=self.scale, shift=self.shift, dim=self.dim)

    @property
    def variance(self) -> float:
        """Exact: 2 q / (1 - q)^2."""
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """The integers plus discrete Laplace noise: (..., dim) -> (..., dim)."""
        exact = self.integers(value)
        return np.asarray(exact + noise_source(source).discrete_laplace(scale=self.scale, size=exact.shape))
