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

Every mistake is refused before anything runs, by an error that names the key with its table (the first [[algorithm]]
is `algorithm[1]`) and what is allowed there.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.core.spelling import did_you_mean
from bandanna.core.tables import inside, keys, read_toml, typed
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
from bandanna.environments.rewards import Bernoulli, Bounded, RewardLaw
from bandanna.environments.sphere import SphereArms, SphereContexts
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.elsewhere import importable, is_place
from bandanna.policies.registry import ALGORITHMS, known_as
from bandanna.policies.tabled import make_from, types_of

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
    )
}
REWARDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Bernoulli, Bounded, TwoPoint, ClippedGaussian)}
_GIVEN = ("dim", "n_arms", "horizon", "budget", "privacy")  # by the experiment, or by the numbers of a budget
_TOP = ("title", "horizon", "seeds", "seed", "path", "checkpoints", "environment", "algorithm")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One algorithm at one setting; `table` is where the file speaks of it."""

    label: str
    algorithm: str
    arguments: Mapping[str, Any]
    table: str = field(compare=False)

    def policy(self, *, dim: int, horizon: int) -> Any:
        """The algorithm for this problem; errors name the table."""
        return make_from(self.table, self.algorithm, {"dim": dim, "horizon": horizon, **self.arguments})

    def calibrated(self, *, dim: int, horizon: int) -> Policy[Any]:
        """The same with its noise, radii and guarantee computed, ready to be sent to other processes."""
        policy: Policy[Any] = self.policy(dim=dim, horizon=horizon)
        with inside(f"{self.table}."):
            policy.prepare()
        return policy


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison, complete: the same experiment gives the same numbers on any number of processes.

    seeds        how many runs of every curve; they have the seeds seed, seed + 1, ...
    environment  name and arguments
    path         "law" draws aggregates where their law is known exactly, "messages" runs every message
    checkpoints  how many points of a curve are kept
    """

    title: str
    horizon: int
    seeds: int
    seed: int = 0
    path: str = "law"
    checkpoints: int = 200
    environment: Mapping[str, Any]
    curves: tuple[Curve, ...]

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
        given = keys(document, "", _TOP, needed=("title", "horizon", "seeds", "environment", "algorithm"))
        horizon, tables = require.whole("horizon", given["horizon"]), given["algorithm"]
        if not isinstance(tables, list) or not tables:
            raise InvalidArgument("algorithm", tables, "one table [[algorithm]] or more")
        environment = _Table(given["environment"], "environment", ENVIRONMENTS, "environments").of_environment(horizon)
        made = cls(
            title=typed("title", given["title"], str),
            horizon=horizon,
            seeds=require.whole("seeds", given["seeds"]),
            seed=require.whole("seed", given.get("seed", 0), least=0, most=require.SEEDS),
            path=require.one_of("path", given.get("path", "law"), ("law", "messages")),
            checkpoints=require.whole("checkpoints", given.get("checkpoints", 200)),
            environment=environment,
            curves=tuple(itertools.chain.from_iterable(_curves(table, i) for i, table in enumerate(tables, start=1))),
        )
        made._check()
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values, one algorithm table per curve; `from_dict` gives the same experiment back."""
        plain = {name: getattr(self, name) for name in _TOP[:-2]}
        tables = [{"name": curve.algorithm, "label": curve.label, **curve.arguments} for curve in self.curves]
        return {**plain, "environment": dict(self.environment), "algorithm": tables}

    def world(self) -> Environment:
        """The environment."""
        chosen = {**self.environment}
        kind = ENVIRONMENTS[chosen.pop("name")]
        if "reward" in chosen:
            chosen["reward"] = _reward(chosen["reward"])
        with inside("environment."):
            return kind(**chosen)

    def _check(self) -> None:
        world, seen = self.world(), dict[str, str]()
        if isinstance(world, ArrayEnvironment) and world.rounds is not None and world.rounds < self.horizon:
            raise InvalidArgument("horizon", self.horizon, f"at most the {world.rounds} rounds of environment's arrays")
        for curve in self.curves:
            if curve.label in seen:
                other = f"another than that of {seen[curve.label]}: give each curve a label of its own"
                raise InvalidArgument(f"{curve.table}.label", curve.label, other)
            seen[curve.label] = curve.table
            policy = curve.policy(dim=world.dim, horizon=self.horizon)
            if getattr(policy, "n_arms", None) not in (None, world.n_arms):
                if "n_arms" in curve.arguments:
                    allowed = f"{world.n_arms}, as many as the environment has"
                    raise InvalidArgument(f"{curve.table}.n_arms", policy.n_arms, allowed)
                # made for unit vectors, one for each arm
                allowed = f"one that reads features, as {self.environment['name']} has them; this one is for FiniteArms"
                raise InvalidArgument(f"{curve.table}.name", curve.algorithm, allowed)


class _Table:
    """A table with a `name` and the arguments of what is named."""

    def __init__(self, table: Any, where: str, known: Iterable[str], what: str) -> None:
        if not isinstance(table, Mapping):
            raise InvalidArgument(where, table, f"a table [{where}]")
        if "name" not in table:
            raise BandannaError(f"{where}.name is missing: one of the {what} {', '.join(known)}")
        self.where, self.name, self.given = where, table["name"], dict(table)
        if self.name not in list(known) and not (where.startswith("algorithm") and is_place(self.name)):
            allowed = f"{did_you_mean(self.name, known)}one of {', '.join(known)}"
            raise InvalidArgument(f"{where}.name", self.name, allowed)

    def of_environment(self, horizon: int) -> dict[str, Any]:
        """Checked arguments; an environment that has to know the horizon is told."""
        kind = ENVIRONMENTS[self.name]
        types = typing.get_type_hints(kind)
        known = {f.name: types[f.name] for f in fields(kind) if f.init}
        needed = [name for name, p in inspect.signature(kind).parameters.items() if p.default is p.empty]
        if "horizon" in known:
            self.given.setdefault("horizon", horizon)
        given = keys(self.given, self.where, ("name", *known), needed=needed)
        for name, value in given.items():
            typed(f"{self.where}.{name}", value, str if name == "name" else known[name])
        return given

    def of_algorithm(self) -> dict[str, Any]:
        """Checked arguments, lists of values still unexpanded."""
        with inside(f"{self.where}."):
            entry = known_as(self.name)
        types = {**types_of(self.name), "name": str, "label": str}
        names = [f.name for f in fields(entry.kind) if f.init]
        per_arm = ("n_arms",) * ("features" in names)  # says that arms have models of their own
        own = [name for name in names if name not in _GIVEN or name in per_arm]
        spent = [name for name in ("epsilon", "delta") if name in entry.options]
        chosen = entry.whole or is_place(self.name) or "rho" in self.given  # another way to give a budget
        return self._of(types, ("name", "label", *entry.options, *own), needed=() if chosen else tuple(spent))

    def _of(self, types: Mapping[str, Any], known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Any]:
        given = keys(self.given, self.where, known, needed=needed)
        for name, value in given.items():
            several = isinstance(value, list) and name not in ("name", "label")
            if several and not value:
                raise InvalidArgument(f"{self.where}.{name}", value, "a value, or a list of one or more")
            for entry in value if several else [value]:
                typed(f"{self.where}.{name}", entry, types[name])
        return given


def _curves(table: Any, number: int) -> Iterator[Curve]:
    """One curve for every combination of listed values; the label names what differs."""
    read = _Table(table, f"algorithm[{number}]", ALGORITHMS, "algorithms")
    given = read.of_algorithm()
    label = given.pop("label", given.pop("name"))
    swept = [name for name, value in given.items() if isinstance(value, list)]
    for values in itertools.product(*(given[name] for name in swept)):
        chosen = dict(zip(swept, values, strict=True))
        parts = [f"{name} = {_short(value)}" for name, value in chosen.items()]
        yield Curve(
            label=", ".join([label, *parts]),
            algorithm=read.name,
            arguments={**given, **chosen},
            table=read.where,
        )


def _reward(given: Any) -> RewardLaw:
    """A law of rewards: its name, or a table with name and arguments."""
    table = given if isinstance(given, Mapping) else {"name": given}
    kind = REWARDS[_Table(table, "environment.reward", REWARDS, "laws").name]
    allowed = {"name", *(f.name for f in fields(kind))}
    chosen = keys(table, "environment.reward", sorted(allowed))
    with inside("environment.reward."):
        law: RewardLaw = kind(**{name: value for name, value in chosen.items() if name != "name"})
        return law


def _short(value: Any) -> str:
    """A swept value in a label."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_short(entry)}" for name, entry in value.items())
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
