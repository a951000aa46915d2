"""Randomizer of the local Gaussian protocol."""

from __future__ import annotations

from bandanna.core.domain import Domain
from bandanna.device import Noisy
from bandanna.mechanisms.gaussian import Gaussian


def device(domain: Domain, mechanism: Gaussian) -> Noisy:
    """x_i + N(0, std^2 I), fresh for every user, on the grid of the mechanism."""
    return Noisy(domain=domain, std=mechanism.std, grid=mechanism.step)
