"""Randomizer of the local sum of bits: runs on the user's device."""

from __future__ import annotations

from bandanna.device import Answer
from bandanna.mechanisms.randomized_response import RandomizedResponse


def device(mechanism: RandomizedResponse) -> Answer:
    """One answer for every bit."""
    return Answer(lie=mechanism.lie)
