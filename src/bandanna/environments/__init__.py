"""The world: contexts and rewards."""

from __future__ import annotations

from bandanna.environments.base import Environment, World
from bandanna.environments.linear import LinearContextual, LinearWorld
from bandanna.environments.rewards import Bernoulli, Bounded, RewardLaw

__all__ = ["Bernoulli", "Bounded", "Environment", "LinearContextual", "LinearWorld", "RewardLaw", "World"]
