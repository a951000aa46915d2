"""Grids: wherever a key has a list of values, there is one point for each combination.

    horizon = [1_000, 10_000]
    [environment]
    name = "LinearContextual"
    dim = [2, 5, 10]                                  # six points: two horizons, three dimensions
    n_arms = 20

Arms, means and tables of people are lists themselves: several of them are `means = { each = [[...], [...]] }`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bandanna.core import require
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.experiments.worlds import checked, world_of

_ARRAYS = ("arms", "theta", "means", "features", "rewards")  # keys of environments whose values are lists
_PATHS = ("law", "messages")


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where an algorithm runs: a world, for how long, along which path; `varied` is what others have otherwise."""

    horizon: int
    path: str
    environment: Mapping[str, Any]
    varied: Mapping[str, Any]

    def world(self) -> Environment:
        """The environment."""
        return world_of(self.environment)


def points(horizon: Any, path: Any, environment: Any) -> Iterator[Point]:
    """All of them, the last key's values first; every value is checked."""
    table = environment if isinstance(environment, Mapping) else {}
    axes = {"horizon": several("horizon", horizon), "path": several("path", path)}
    axes |= {f"environment.{key}": _several(key, value) for key, value in table.items()}
    swept = {key: values for key, values in axes.items() if values is not None}
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        rounds = require.whole("horizon", chosen.get("horizon", horizon))
        world = {key: chosen.get(f"environment.{key}", value) for key, value in table.items()}
        yield Point(
            horizon=rounds,
            path=require.one_of("path", chosen.get("path", path), _PATHS),
            environment=checked(world if table else environment, rounds),
            varied={key.removeprefix("environment."): value for key, value in chosen.items()},
        )


def several(where: str, value: Any) -> list[Any] | None:
    """The values of a list, which must not be empty; None if there is one value."""
    if isinstance(value, Mapping) and set(value) == {"each"}:
        value = value["each"]
        if not isinstance(value, list | tuple):
            raise InvalidArgument(f"{where}.each", value, "a list of one or more")
    if not isinstance(value, list | tuple):
        return None
    if not value:
        raise InvalidArgument(where, value, "a value, or a list of one or more")
    return list(value)


def _several(key: str, value: Any) -> list[Any] | None:
    """Arrays are one value, unless `each` says otherwise."""
    if key in _ARRAYS and not isinstance(value, Mapping):
        return None
    return several(f"environment.{key}", value)


def short(value: Any) -> str:
    """A varied value in a label."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {short(entry)}" for name, entry in value.items())
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
