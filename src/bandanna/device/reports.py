"""Reports on a public grid: integers with a secure source, `value = origin + steps * grid`; reals in simulations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core import require, sums
from bandanna.core.arrays import Floats
from bandanna.device.base import Device, Messages
from bandanna.device.noise import NoiseSource, on_grid
from bandanna.storage.declared import stored_as


@stored_as("Plain")
@dataclass(frozen=True, kw_only=True)
class Plain(Device):
    """The statistic itself, for a server that is trusted with it.

    Privacy: none against the receiver. On the wire it is steps of `sums.finest(reach)` from the domain's public origin,
    where an exact sum cuts it anyway.
    """

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """Steps of a grid so fine that nothing is lost in a sum."""
        if not source.secure:
            return values
        return sums.steps_of(values - self.domain.origin, self.domain.reach)


@stored_as("Noisy")
@dataclass(frozen=True, kw_only=True)
class Noisy(Device):
    """x + N(0, std^2 I), relative to the domain's public origin.

        steps = round((x - origin) / grid) + discrete Gaussian(std / grid)                  (secure source)

    Privacy: each report is Gaussian DP by itself, mu = Delta_2 / std and the grid's price (`mechanisms.gaussian`).
    """

    std: float
    grid: float

    def __post_init__(self) -> None:
        require.store(self, require.positive, "std", "grid")

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """Fresh noise in every entry."""
        centred = values - self.domain.origin
        if not source.secure:
            return np.asarray(source.gaussian(centred, std=self.std, grid=self.grid) + self.domain.origin)
        return source.gaussian_steps(on_grid(centred, self.grid), std=self.std, grid=self.grid)
