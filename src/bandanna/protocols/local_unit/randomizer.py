"""Randomizer of the local sum of directions: runs on the user's device."""

from __future__ import annotations

from bandanna.core.domain import Domain
from bandanna.device import Direction
from bandanna.mechanisms.priv_unit import PrivUnit


def device(domain: Domain, mechanism: PrivUnit) -> Direction:
    """One direction for every statistic."""
    return mechanism.device(domain)
