"""The world: contexts and rewards."""

from __future__ import annotations

from bandanna.environments.arrays import ArrayEnvironment, ArrayWorld, CallableEnvironment, CallableWorld
from bandanna.environments.base import Environment, World
from bandanna.environments.disjoint import DisjointLinear, DisjointWorld
from bandanna.environments.drifting import DriftingContexts, DriftingWorld
from bandanna.environments.finite import FiniteArms, FiniteWorld
from bandanna.environments.glm import FreshGLM, GeneralisedLinear, GLMWorld, PublishedGLM
from bandanna.environments.levels import ClippedGaussian, Levels, TwoPoint
from bandanna.environments.linear import FixedArms, FreshArms, LinearContextual, LinearWorld
from bandanna.environments.one_client import OneClientPerRound, OneClientWorld
from bandanna.environments.population import Population, PopulationWorld
from bandanna.environments.published import PublishedLinear
from bandanna.environments.rewards import Bernoulli, Bounded, Certain, RewardLaw
from bandanna.environments.sphere import SphereArms, SphereContexts, SphereContextsWorld, SphereWorld
from bandanna.environments.table import Table, TableWorld

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
