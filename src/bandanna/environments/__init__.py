"""The world: contexts and rewards."""

from __future__ import annotations

from bandanna.environments.arrays import ArrayEnvironment, ArrayWorld, CallableEnvironment, CallableWorld
from bandanna.environments.base import Environment, World
from bandanna.environments.drifting import DriftingContexts, DriftingWorld
from bandanna.environments.hard_bits import HardBits
from bandanna.environments.linear import FixedArms, FreshArms, LinearContextual, LinearWorld
from bandanna.environments.published import PublishedLinear
from bandanna.environments.rewards import Bernoulli, Bounded, RewardLaw

__all__ = [
    "ArrayEnvironment",
    "ArrayWorld",
    "Bernoulli",
    "Bounded",
    "CallableEnvironment",
    "CallableWorld",
    "DriftingContexts",
    "DriftingWorld",
    "Environment",
    "FixedArms",
    "FreshArms",
    "HardBits",
    "LinearContextual",
    "LinearWorld",
    "PublishedLinear",
    "RewardLaw",
    "World",
]
