"""Environments: the worlds in which policies are simulated, with their arms, features and rewards."""

from __future__ import annotations

from bandanna.simulation.environments.base import Bernoulli, Bounded, Certain, Environment, RewardLaw, World
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms, FiniteWorld, Levels, TwoPoint
from bandanna.simulation.environments.glm import FreshGLM, GeneralisedLinear, GLMWorld, PublishedGLM
from bandanna.simulation.environments.linear import (
    DisjointLinear,
    DisjointWorld,
    DriftingContexts,
    DriftingWorld,
    FixedArms,
    FreshArms,
    LinearContextual,
    LinearWorld,
    PublishedLinear,
    SphereArms,
    SphereContexts,
    SphereContextsWorld,
    SphereWorld,
)
from bandanna.simulation.environments.population import OneClientPerRound, OneClientWorld, Population, PopulationWorld
from bandanna.simulation.environments.recorded import (
    ArrayEnvironment,
    ArrayWorld,
    CallableEnvironment,
    CallableWorld,
    Table,
    TableWorld,
)

__all__ = [
    "ArrayEnvironment",
    "ArrayWorld",
    "Bernoulli",
    "Bounded",
    "CallableEnvironment",
    "CallableWorld",
    "Certain",
    "ClippedGaussian",
    "DisjointLinear",
    "DisjointWorld",
    "DriftingContexts",
    "DriftingWorld",
    "Environment",
    "FiniteArms",
    "FiniteWorld",
    "FixedArms",
    "FreshArms",
    "FreshGLM",
    "GLMWorld",
    "GeneralisedLinear",
    "Levels",
    "LinearContextual",
    "LinearWorld",
    "OneClientPerRound",
    "OneClientWorld",
    "Population",
    "PopulationWorld",
    "PublishedGLM",
    "PublishedLinear",
    "RewardLaw",
    "SphereArms",
    "SphereContexts",
    "SphereContextsWorld",
    "SphereWorld",
    "Table",
    "TableWorld",
    "TwoPoint",
    "World",
]
