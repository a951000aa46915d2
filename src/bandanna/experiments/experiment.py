"""Experiments as values: which algorithms run in which world, for how long, with which seeds; read from TOML.

    title = "What privacy costs"
    horizon = 20_000
    seeds = 20                                # how many; `seed` is the first one

    [environment]
    name = "LinearContextual"                 # any of ENVIRONMENTS, with its arguments
    dim = 5
    n_arms = 20

    [[algorithm]]
    name = "LinUCB-SDP-Vec"                   # any of `bandanna list`, or "my_module:MyPolicy", with its arguments
    epsilon = [0.5, 1.0]                      # a list of values means one curve for each
    delta = 1e-5
    batch = { first = 200, ratio = 1.5 }      # a number, "paper", or a geometric schedule

The name may be a list too, of algorithms that have all that is given in common. `horizon`, `path` and the keys of the
environment may be lists: a grid (`grid.py`), with a curve of every algorithm at every point. Title, seeds and
checkpoints are of the whole comparison.

Every mistake is refused before anything runs, by an error that names the key with its table (the first [[algorithm]]
is `algorithm[1]`) and what is allowed there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.core.tables import inside, keys, read_toml, typed
from bandanna.environments.arrays import ArrayEnvironment
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.experiments.grid import Point, points, several, short
from bandanna.experiments.worlds import named
from bandanna.policies.base import Policy
from bandanna.policies.elsewhere import importable, is_place
from bandanna.policies.registry import ALGORITHMS, known_as
from bandanna.policies.tabled import make_from, types_of

_GIVEN = ("dim", "n_arms", "horizon", "budget", "privacy")  # by the experiment, or by the numbers of a budget
_WHOLE = {  # what all curves share, and so is no list
    "title": "a word in quotes",
    "seeds": "a whole number >= 1, of runs",
    "seed": "a whole number >= 0, the first of them: seed, seed + 1, ...",
    "checkpoints": "a whole number >= 1, of points that are kept of a curve",
}
_TOP = ("title", "horizon", "seeds", "seed", "path", "checkpoints", "environment", "algorithm")


@dataclass(frozen=True, kw_only=True)
class Series:
    """One algorithm at one setting, wherever it runs; `table` is where the file speaks of it.

    label   as it is called, with what was varied
    called  the same without what was varied, which `varied` holds
    """

    label: str
    called: str
    algorithm: str
    arguments: Mapping[str, Any]
    varied: Mapping[str, Any]
    table: str = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A series at one point of the grid."""

    series: Series
    point: Point

    @property
    def label(self) -> str:
        """Of the series, and where the point is if there are several."""
        return ", ".join([self.series.label, *parts_of(self.point.varied)])

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.series.algorithm

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Of the algorithm."""
        return self.series.arguments

    @property
    def varied(self) -> dict[str, Any]:
        """What other curves of the experiment have otherwise, of algorithm and point."""
        return {**self.series.varied, **self.point.varied}

    def policy(self, *, dim: int, horizon: int) -> Any:
        """The algorithm for this problem; errors name the table, or where else a value was taken from."""
        with self._taken():
            return make_from(self.series.table, self.algorithm, {"dim": dim, "horizon": horizon, **self.arguments})

    def calibrated(self, *, dim: int, horizon: int) -> Policy[Any]:
        """The same with its noise, radii and guarantee computed, ready to be sent to other processes."""
        policy: Policy[Any] = self.policy(dim=dim, horizon=horizon)
        with self._taken(), inside(f"{self.series.table}."):
            policy.prepare()
        return policy

    @contextmanager
    def _taken(self) -> Iterator[None]:
        """Errors about a number that the table does not have name the key that it was taken from."""
        places = {"dim": "environment.dim", "n_arms": "environment.n_arms", "horizon": "horizon"}
        try:
            yield
        except InvalidArgument as error:
            key = error.argument.removeprefix(f"{self.series.table}.")
            if key not in places or key in self.arguments:
                raise
            raise type(error)(places[key], error.value, error.allowed) from error


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison, complete: the same experiment gives the same numbers on any number of processes.

    seeds        how many runs of every curve; they have the seeds seed, seed + 1, ...
    environment  name and arguments
    path         "law" draws aggregates where their law is known exactly, "messages" runs every message
    checkpoints  how many points of a curve are kept
    algorithms   tables as they were given, whose lists `series` expands
    points       the grid that horizon, path and environment span: one point, if none of them is a list
    curves       every series at every point
    """

    title: str
    horizon: int | list[int]
    seeds: int
    seed: int = 0
    path: str | list[str] = "law"
    checkpoints: int = 200
    environment: Mapping[str, Any]
    algorithms: tuple[Mapping[str, Any], ...]
    series: tuple[Series, ...]
    points: tuple[Point, ...]

    @classmethod
    def from_toml(cls, file: str | PathLike[str]) -> Experiment:
        """Read and check a file; errors begin with its name."""
        path = require.path("file", file)
        document = read_toml(path)
        importable(path.parent)  # policies of one's own may lie beside the file
        with inside(f"{path}: "):
            return cls.from_dict({"title": path.stem, **document})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Experiment:
        """The experiment that a TOML document describes, or `to_dict` wrote; everything is checked."""
        given = keys(document, "", _TOP, needed=("horizon", "seeds", "environment", "algorithm"))
        for key, words in _WHOLE.items():
            if isinstance(given.get(key), list | tuple):
                lists = "lists are for horizon, path, and the keys of [environment] and [[algorithm]]"
                raise InvalidArgument(key, given[key], f"{words}, the same for all curves: {lists}")
        tables = given["algorithm"]
        if not isinstance(tables, list) or not tables:
            raise InvalidArgument("algorithm", tables, "one table [[algorithm]] or more, in double brackets")
        grid = tuple(points(given["horizon"], given.get("path", "law"), given["environment"]))
        made = cls(
            title=typed("title", given.get("title", "experiment"), str),
            horizon=given["horizon"],
            seeds=require.whole("seeds", given["seeds"]),
            seed=require.whole("seed", given.get("seed", 0), least=0, most=require.SEEDS),
            path=given.get("path", "law"),
            checkpoints=require.whole("checkpoints", given.get("checkpoints", 200)),
            environment=dict(given["environment"]),
            algorithms=tuple(tables),
            series=tuple(itertools.chain.from_iterable(_series(table, i) for i, table in enumerate(tables, start=1))),
            points=grid,
        )
        made._check()
        return made

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Point by point."""
        return tuple(Curve(series=series, point=point) for point in self.points for series in self.series)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they were given; `from_dict` gives the same experiment back."""
        plain = {name: getattr(self, name) for name in _TOP[:-2]}
        tables = [dict(table) for table in self.algorithms]
        return {**plain, "environment": dict(self.environment), "algorithm": tables}

    def world(self) -> Environment:
        """The environment, of the first point."""
        return self.points[0].world()

    def _check(self) -> None:
        seen = dict[str, str]()
        for series in self.series:
            if series.label in seen:
                other = f"another than that of {seen[series.label]}: give each curve a label of its own"
                raise InvalidArgument(f"{series.table}.label", series.label, other)
            seen[series.label] = series.table
        for point in self.points:
            world = point.world()
            rounds = world.rounds if isinstance(world, ArrayEnvironment) else None
            if rounds is not None and rounds < point.horizon:
                allowed = f"at most the {rounds} rounds of environment's arrays"
                raise InvalidArgument("horizon", point.horizon, allowed)
            for series in self.series:
                _check_arms(Curve(series=series, point=point), world)


def _check_arms(curve: Curve, world: Environment) -> None:
    """The policy can be made, and is for such arms."""
    policy, table = curve.policy(dim=world.dim, horizon=curve.point.horizon), curve.series.table
    if getattr(policy, "n_arms", None) in (None, world.n_arms):
        return
    if "n_arms" in curve.arguments:
        raise InvalidArgument(f"{table}.n_arms", policy.n_arms, f"{world.n_arms}, as many as the environment has")
    kind = curve.point.environment["name"]  # the policy is made for unit vectors, one for each arm
    allowed = f"one that reads features, as {kind} has them; this one is for FiniteArms"
    raise InvalidArgument(f"{table}.name", curve.algorithm, allowed)


def _series(table: Any, number: int) -> Iterator[Series]:
    """One series for every combination of listed values; the label names what differs."""
    where = f"algorithm[{number}]"
    names = several(f"{where}.name", table.get("name")) if isinstance(table, Mapping) else None
    if names is None:
        yield from _series_of(table, where)
        return
    for name in names:
        yield from _series_of({**table, "name": name}, where, of_several=True)


def _series_of(table: Any, where: str, *, of_several: bool = False) -> Iterator[Series]:
    """Of one algorithm; of several under one label, each has its name behind it."""
    name = named(table, where, ALGORITHMS, "algorithms")
    given = _of_algorithm(dict(table), name, where)
    label = given.pop("label", given.pop("name"))
    if of_several and label != name:
        label = f"{label}, {name}"
    swept = [key for key, value in given.items() if isinstance(value, list)]
    for values in itertools.product(*(given[key] for key in swept)):
        chosen = dict(zip(swept, values, strict=True))
        yield Series(
            label=", ".join([label, *parts_of(chosen)]),
            called=label,
            algorithm=name,
            arguments={**given, **chosen},
            varied=chosen,
            table=where,
        )


def _of_algorithm(table: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """Checked arguments, lists of values still unexpanded."""
    with inside(f"{where}."):
        entry = known_as(name)
    types = {**types_of(name), "name": str, "label": str}
    names = [f.name for f in fields(entry.kind) if f.init]
    per_arm = ("n_arms",) * ("features" in names)  # says that arms have models of their own
    own = [each for each in names if each not in _GIVEN or each in per_arm]
    spent = [each for each in ("epsilon", "delta") if each in entry.options]
    chosen = entry.whole or is_place(name) or "rho" in table  # another way to give a budget
    given = keys(table, where, ("name", "label", *entry.options, *own), needed=() if chosen else tuple(spent))
    for key, value in given.items():
        listed = several(f"{where}.{key}", value) if isinstance(value, list) and key not in ("name", "label") else None
        for entry_ in [value] if listed is None else listed:
            typed(f"{where}.{key}", entry_, types[key])
    return given


def parts_of(varied: Mapping[str, Any]) -> list[str]:
    """Of a label."""
    return [f"{name} = {short(value)}" for name, value in varied.items()]
