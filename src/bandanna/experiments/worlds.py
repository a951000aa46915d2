"""Environments and laws of rewards by name, with arguments as files have them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from bandanna.core.spelling import did_you_mean
from bandanna.core.tables import inside, keys, typed
from bandanna.environments.arrays import ArrayEnvironment
from bandanna.environments.base import Environment
from bandanna.environments.disjoint import DisjointLinear
from bandanna.environments.drifting import DriftingContexts
from bandanna.environments.finite import FiniteArms
from bandanna.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.environments.levels import ClippedGaussian, TwoPoint
from bandanna.environments.linear import LinearContextual
from bandanna.environments.population import Population
from bandanna.environments.published import PublishedLinear
from bandanna.environments.rewards import Bernoulli, Bounded, Certain, RewardLaw
from bandanna.environments.sphere import SphereArms, SphereContexts
from bandanna.environments.table import Table
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.elsewhere import is_place

ENVIRONMENTS: dict[str, type[Environment]] = {
    kind.__name__: kind
    for kind in (
        LinearContextual,
        DisjointLinear,
        PublishedLinear,
        DriftingContexts,
        ArrayEnvironment,
        FiniteArms,
        Population,
        SphereArms,
        SphereContexts,
        GeneralisedLinear,
        PublishedGLM,
        Table,
    )
}
REWARDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Bernoulli, Bounded, Certain, TwoPoint, ClippedGaussian)
}


def named(table: Any, where: str, known: Iterable[str], what: str) -> str:
    """The `name` of a table that has the arguments of what is named."""
    if not isinstance(table, Mapping):
        shown = "[[algorithm]], with a name" if where.startswith("algorithm") else f"[{where}]"
        raise InvalidArgument(where, table, f"a table {shown}")
    if "name" not in table:
        raise BandannaError(f"{where}.name is missing: one of the {what} {', '.join(known)}")
    name = table["name"]
    if name not in list(known) and not (where.startswith("algorithm") and is_place(name)):
        allowed = f"{did_you_mean(name, known)}one of {', '.join(known)}"
        raise InvalidArgument(f"{where}.name", name, allowed)
    return str(name)


def checked(table: Any, horizon: int) -> dict[str, Any]:
    """The arguments of an environment; one that has to know the horizon is told."""
    kind = ENVIRONMENTS[named(table, "environment", ENVIRONMENTS, "environments")]
    types = typing.get_type_hints(kind)
    known = {f.name: types[f.name] for f in fields(kind) if f.init}
    needed = [name for name, p in inspect.signature(kind).parameters.items() if p.default is p.empty]
    told = {"horizon": horizon} if "horizon" in known else {}
    given = keys({**told, **table}, "environment", ("name", *known), needed=needed)
    for name, value in given.items():
        typed(f"environment.{name}", value, str if name == "name" else known[name])
    return given


def world_of(environment: Mapping[str, Any]) -> Environment:
    """The environment of checked arguments."""
    chosen = {**environment}
    kind = ENVIRONMENTS[chosen.pop("name")]
    if "reward" in chosen:
        chosen["reward"] = _reward(chosen["reward"])
    with inside("environment."):
        return kind(**chosen)


def _reward(given: Any) -> RewardLaw:
    """A law of rewards: its name, or a table with name and arguments."""
    table = given if isinstance(given, Mapping) else {"name": given}
    kind = REWARDS[named(table, "environment.reward", REWARDS, "laws")]
    allowed = {"name", *(f.name for f in fields(kind))}
    chosen = keys(table, "environment.reward", sorted(allowed))
    with inside("environment.reward."):
        law: RewardLaw = kind(**{name: value for name, value in chosen.items() if name != "name"})
        return law
