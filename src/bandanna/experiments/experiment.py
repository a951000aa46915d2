"""Experiments from TOML files: algorithms, an environment, horizon and seeds.

    title = "What privacy costs"
    horizon = 20_000
    n_seeds = 20                              # how many; `seed` is the first one

    [environment]
    name = "LinearContextual"                 # any of ENVIRONMENTS, with its arguments
    dim = 5
    n_arms = 20

    [[algorithm]]
    name = "LinUCB-SDP-Vec"                   # any of `bandanna list`, or "my_module:MyPolicy", with its arguments
    epsilon = [0.5, 1.0]                      # a list of values means one curve for each
    delta = 1e-5
    batch = { first = 200, ratio = 1.5 }      # a number, "paper", or a geometric schedule

The name may be a list of algorithms with the same arguments. `horizon`, `path` and the keys of the environment may be
lists too, for a curve of every algorithm at every point of the grid. Several arrays are written `means = { each =
[[...], [...]] }`. Errors name key and table (the first [[algorithm]] is `algorithm[1]`), before anything runs.
"""

from __future__ import annotations

import inspect
import itertools
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument, did_you_mean
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.algorithm import ALGORITHMS, add_import_folder, is_import_path
from bandanna.policies.base import Policy
from bandanna.policies.registry import find_algorithm, find_argument_types, make, make_from_table
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bernoulli, Bounded, Certain, Environment, RewardLaw
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms, TwoPoint
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.environments.linear import (
    DisjointLinear,
    DriftingContexts,
    LinearContextual,
    PublishedLinear,
    SphereArms,
    SphereContexts,
)
from bandanna.simulation.environments.population import Population
from bandanna.simulation.environments.recorded import ArrayEnvironment, Table
from bandanna.simulation.result import Result
from bandanna.validation import check_keys, check_type, prefix_errors, read_toml

# Environments


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


def check_name(table: Any, where: str, known: Iterable[str], what: str) -> str:
    """Return the known `name` in a table."""
    if not isinstance(table, Mapping):
        shown = "[[algorithm]], with a name" if where.startswith("algorithm") else f"[{where}]"
        raise InvalidArgument(where, table, f"a table {shown}")
    if "name" not in table:
        raise BandannaError(f"{where}.name is missing. The {what} are {', '.join(known)}")
    name = table["name"]
    if name not in list(known) and not (where.startswith("algorithm") and is_import_path(name)):
        raise InvalidArgument(f"{where}.name", name, f"one of {', '.join(known)}", did_you_mean(name, known))
    return str(name)


def check_environment(table: Any, horizon: int) -> dict[str, Any]:
    """Return checked arguments of an environment, with the horizon where it needs one."""
    kind = ENVIRONMENTS[check_name(table, "environment", ENVIRONMENTS, "environments")]
    types = typing.get_type_hints(kind)
    known = {f.name: types[f.name] for f in fields(kind) if f.init}
    needed = [name for name, p in inspect.signature(kind).parameters.items() if p.default is p.empty]
    preset = {"horizon": horizon} if "horizon" in known else {}
    given = check_keys({**preset, **table}, "environment", ("name", *known), needed=needed)
    for name, value in given.items():
        check_type(f"environment.{name}", value, str if name == "name" else known[name])
    return given


def make_environment(environment: Mapping[str, Any]) -> Environment:
    """Make the environment of checked arguments."""
    chosen = {**environment}
    kind = ENVIRONMENTS[chosen.pop("name")]
    if "reward" in chosen:
        chosen["reward"] = _make_reward_law(chosen["reward"])
    with prefix_errors("environment."):
        return kind(**chosen)


def _make_reward_law(given: Any) -> RewardLaw:
    """Make a law of rewards from its name, or from a table."""
    table = given if isinstance(given, Mapping) else {"name": given}
    kind = REWARDS[check_name(table, "environment.reward", REWARDS, "laws")]
    allowed = {"name", *(f.name for f in fields(kind))}
    chosen = check_keys(table, "environment.reward", sorted(allowed))
    with prefix_errors("environment.reward."):
        law: RewardLaw = kind(**{name: value for name, value in chosen.items() if name != "name"})
        return law


# Grids


_ARRAYS = ("arms", "theta", "means", "features", "rewards")  # keys of environments whose values are lists
_PATHS = ("law", "messages")


@dataclass(frozen=True, kw_only=True)
class GridPoint:
    """A point of the grid: environment, horizon and path; `varied` holds its differences from other points."""

    horizon: int
    path: str
    environment: Mapping[str, Any]
    varied: Mapping[str, Any]

    def world(self) -> Environment:
        return make_environment(self.environment)


def list_grid_points(horizon: Any, path: Any, environment: Any) -> Iterator[GridPoint]:
    """Yield all checked grid points, the last key varying fastest."""
    table = environment if isinstance(environment, Mapping) else {}
    axes = {"horizon": list_values("horizon", horizon), "path": list_values("path", path)}
    axes |= {f"environment.{key}": _list_axis_values(key, value) for key, value in table.items()}
    swept = {key: values for key, values in axes.items() if values is not None}
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        rounds = validation.integer("horizon", chosen.get("horizon", horizon))
        world = {key: chosen.get(f"environment.{key}", value) for key, value in table.items()}
        yield GridPoint(
            horizon=rounds,
            path=validation.one_of("path", chosen.get("path", path), _PATHS),
            environment=check_environment(world if table else environment, rounds),
            varied={key.removeprefix("environment."): value for key, value in chosen.items()},
        )


def list_values(where: str, value: Any) -> list[Any] | None:
    """Return the values of a list that is not empty; None for a single value."""
    if isinstance(value, Mapping) and set(value) == {"each"}:
        value = value["each"]
        if not isinstance(value, list | tuple):
            raise InvalidArgument(f"{where}.each", value, "a list of one or more values")
    if not isinstance(value, list | tuple):
        return None
    if not value:
        raise InvalidArgument(where, value, "a value, or a list of one or more")
    return list(value)


def _list_axis_values(key: str, value: Any) -> list[Any] | None:
    if key in _ARRAYS and not isinstance(value, Mapping):
        return None
    return list_values(f"environment.{key}", value)


def format_varied(value: Any) -> str:
    """Format a varied value for a label."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {format_varied(entry)}" for name, entry in value.items())
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


# Experiments


_GIVEN = ("dim", "n_arms", "horizon", "budget", "privacy")  # by the experiment, or by the numbers of a budget
_WHOLE = {  # what all curves share, and so is no list
    "title": "a word in quotes",
    "n_seeds": "a whole number >= 1",
    "seed": "a whole number >= 0",
    "checkpoints": "a whole number >= 1",
}
_TOP = ("title", "horizon", "n_seeds", "seed", "path", "checkpoints", "environment", "algorithm")


@dataclass(frozen=True, kw_only=True)
class AlgorithmSetting:
    """An algorithm at one setting, for all grid points.

    `table` is the place in the file; `called` is the label without `varied`.
    """

    label: str
    called: str
    algorithm: str
    arguments: Mapping[str, Any]
    varied: Mapping[str, Any]
    table: str = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class ExperimentCurve:
    """An algorithm's setting at one grid point."""

    series: AlgorithmSetting
    point: GridPoint

    @property
    def label(self) -> str:
        """The label of the setting, with the grid point if there are several."""
        return ", ".join([self.series.label, *label_parts(self.point.varied)])

    @property
    def algorithm(self) -> str:
        return self.series.algorithm

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.series.arguments

    @property
    def varied(self) -> dict[str, Any]:
        """The settings, of algorithm and grid point, in which curves differ."""
        return {**self.series.varied, **self.point.varied}

    def policy(self, *, dim: int, horizon: int) -> Any:
        """Make the algorithm for this problem; errors name the table or the value's other place."""
        with self._with_file_keys():
            return make_from_table(
                self.series.table, self.algorithm, {"dim": dim, "horizon": horizon, **self.arguments}
            )

    def calibrated(self, *, dim: int, horizon: int) -> Policy[Any]:
        """Make the algorithm with noise, radii and guarantee computed, ready for other processes."""
        policy: Policy[Any] = self.policy(dim=dim, horizon=horizon)
        with self._with_file_keys(), prefix_errors(f"{self.series.table}."):
            policy._prepare()
        return policy

    @contextmanager
    def _with_file_keys(self) -> Iterator[None]:
        """Make errors about a number from elsewhere name its key."""
        places = {"dim": "environment.dim", "n_arms": "environment.n_arms", "horizon": "horizon"}
        try:
            yield
        except InvalidArgument as error:
            key = error.argument.removeprefix(f"{self.series.table}.")
            if key not in places or key in self.arguments:
                raise
            raise error.rename(places[key]) from error


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison of algorithms, with the same numbers on any number of processes.

    Parameters
    ----------
    horizon
        Rounds, or a list of them.
    n_seeds, seed : int
        Runs of every curve, and the first seed.
    path : {"law", "messages"}
        "law" draws released sums by their exact law where it is known; "messages" runs every message.
    checkpoints : int
        The number of points of a curve.
    environment : mapping
        Its name and arguments.
    algorithms : tuple of mappings
        Tables as given.
    series : tuple of AlgorithmSetting
        The algorithms with lists expanded.
    points : tuple of GridPoint
        The grid of horizon, path and environment.
    """

    title: str
    horizon: int | list[int]
    n_seeds: int
    seed: int = 0
    path: str | list[str] = "law"
    checkpoints: int = 200
    environment: Mapping[str, Any]
    algorithms: tuple[Mapping[str, Any], ...]
    series: tuple[AlgorithmSetting, ...]
    points: tuple[GridPoint, ...]

    @classmethod
    def from_toml(cls, file: str | PathLike[str]) -> Experiment:
        """Read and check a TOML file; errors begin with its name."""
        path = validation.path("file", file)
        document = read_toml(path)
        add_import_folder(path.parent)  # with the user's own policies
        with prefix_errors(f"{path}: "):
            return cls.from_dict({"title": path.stem, **document})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Experiment:
        """Make the experiment of a TOML document, or of `to_dict`, after checks."""
        given = check_keys(document, "", _TOP, needed=("horizon", "n_seeds", "environment", "algorithm"))
        for key, words in _WHOLE.items():
            if isinstance(given.get(key), list | tuple):
                hint = "Lists are allowed for horizon, path, and the keys of [environment] and [[algorithm]]"
                raise InvalidArgument(key, given[key], f"{words}, the same for all curves", hint)
        tables = given["algorithm"]
        if not isinstance(tables, list) or not tables:
            raise InvalidArgument("algorithm", tables, "one or more tables [[algorithm]], in double brackets")
        grid = tuple(list_grid_points(given["horizon"], given.get("path", "law"), given["environment"]))
        made = cls(
            title=check_type("title", given.get("title", "experiment"), str),
            horizon=given["horizon"],
            n_seeds=validation.integer("n_seeds", given["n_seeds"]),
            seed=validation.integer("seed", given.get("seed", 0), least=0, most=validation.SEED_LIMIT),
            path=given.get("path", "law"),
            checkpoints=validation.integer("checkpoints", given.get("checkpoints", 200)),
            environment=dict(given["environment"]),
            algorithms=tuple(tables),
            series=tuple(
                itertools.chain.from_iterable(_expand_table(table, i) for i, table in enumerate(tables, start=1))
            ),
            points=grid,
        )
        made._check()
        return made

    @property
    def curves(self) -> tuple[ExperimentCurve, ...]:
        """Every series at every grid point, point by point."""
        return tuple(ExperimentCurve(series=series, point=point) for point in self.points for series in self.series)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values from which `from_dict` makes the same experiment."""
        plain = {name: getattr(self, name) for name in _TOP[:-2]}
        tables = [dict(table) for table in self.algorithms]
        return {**plain, "environment": dict(self.environment), "algorithm": tables}

    def world(self) -> Environment:
        """Return the environment of the first point."""
        return self.points[0].world()

    def _check(self) -> None:
        seen = dict[str, str]()
        for series in self.series:
            if series.label in seen:
                other = f"different from the label of {seen[series.label]}"
                raise InvalidArgument(f"{series.table}.label", series.label, other)
            seen[series.label] = series.table
        for point in self.points:
            world = point.world()
            rounds = world.rounds if isinstance(world, ArrayEnvironment) else None
            if rounds is not None and rounds < point.horizon:
                allowed = f"at most {rounds}, the rounds of the environment's arrays"
                raise InvalidArgument("horizon", point.horizon, allowed)
            for series in self.series:
                _check_arms(ExperimentCurve(series=series, point=point), world)


def _check_arms(curve: ExperimentCurve, world: Environment) -> None:
    policy, table = curve.policy(dim=world.dim, horizon=curve.point.horizon), curve.series.table
    if getattr(policy, "n_arms", None) in (None, world.n_arms):
        return
    if "n_arms" in curve.arguments:
        raise InvalidArgument(f"{table}.n_arms", policy.n_arms, f"{world.n_arms}, as many as the environment has")
    kind = curve.point.environment["name"]  # the policy is made for unit vectors, one for each arm
    allowed = f"an algorithm with features for {kind}"
    raise InvalidArgument(f"{table}.name", curve.algorithm, allowed, "This one is for FiniteArms")


def _expand_table(table: Any, number: int) -> Iterator[AlgorithmSetting]:
    """Yield a setting for every combination of listed values."""
    where = f"algorithm[{number}]"
    names = list_values(f"{where}.name", table.get("name")) if isinstance(table, Mapping) else None
    if names is None:
        yield from _expand_algorithm(table, where)
        return
    for name in names:
        yield from _expand_algorithm({**table, "name": name}, where, of_several=True)


def _expand_algorithm(table: Any, where: str, *, of_several: bool = False) -> Iterator[AlgorithmSetting]:
    """Yield the settings of one algorithm; `of_several` appends its name to labels."""
    name = check_name(table, where, ALGORITHMS, "algorithms")
    given = _check_algorithm(dict(table), name, where)
    label = given.pop("label", given.pop("name"))
    if of_several and label != name:
        label = f"{label}, {name}"
    swept = [key for key, value in given.items() if isinstance(value, list)]
    for values in itertools.product(*(given[key] for key in swept)):
        chosen = dict(zip(swept, values, strict=True))
        yield AlgorithmSetting(
            label=", ".join([label, *label_parts(chosen)]),
            called=label,
            algorithm=name,
            arguments={**given, **chosen},
            varied=chosen,
            table=where,
        )


def _check_algorithm(table: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    with prefix_errors(f"{where}."):
        entry = find_algorithm(name)
    types = {**find_argument_types(name), "name": str, "label": str}
    names = [f.name for f in fields(entry.kind) if f.init]
    per_arm = ("n_arms",) * ("features" in names)  # says that arms have models of their own
    own = [each for each in names if each not in _GIVEN or each in per_arm]
    spent = [each for each in ("epsilon", "delta") if each in entry.options]
    chosen = entry.whole or is_import_path(name) or "rho" in table  # another way to give a budget
    given = check_keys(table, where, ("name", "label", *entry.options, *own), needed=() if chosen else tuple(spent))
    for key, value in given.items():
        listed = (
            list_values(f"{where}.{key}", value) if isinstance(value, list) and key not in ("name", "label") else None
        )
        for entry_ in [value] if listed is None else listed:
            check_type(f"{where}.{key}", entry_, types[key])
    return given


def label_parts(varied: Mapping[str, Any]) -> list[str]:
    """Return the parts of a label from varied values."""
    return [f"{name} = {format_varied(value)}" for name, value in varied.items()]


# Privacy models side by side


POLICIES: dict[str, dict[str, str]] = {
    "LinTS": {"no privacy": "LinTS", "central": "LinTS-JDP", "shuffle": "LinTS-SDP", "local": "LinTS-LDP"},
    "LinUCB": {
        "no privacy": "LinUCB",
        "central": "LinUCB-JDP-batched",
        "shuffle": "LinUCB-SDP-Vec",
        "local": "LinUCB-LDP-batched",
    },
}
_SETTINGS: dict[str, dict[str, Any]] = {  # the last feature of the world is a constant
    "LinTS": {"intercept": True},
    "LinUCB": {"batch": "paper", "width": 0.2, "confidence": "lemma"},
}


@dataclass(frozen=True, kw_only=True)
class PrivacyModelRun:
    """The run of one privacy model, and the standard deviation of noise in its last sum."""

    result: Result
    noise_std: float


def compare_privacy_models(
    *,
    policy: str = "LinTS",
    dim: int = 5,
    n_arms: int = 100,
    horizon: int = 20_000,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    n_seeds: int = 20,
    seed: int = 0,
    progress: ProgressCallback = ignore_progress,
) -> dict[str, PrivacyModelRun]:
    """Run one algorithm under no privacy, the central, the shuffle and the local model, in the same worlds.

    "LinTS" runs with its defaults and an intercept. "LinUCB" has width 0.2, the papers' batches - T^{1/2} without
    privacy and centrally, T^{3/5} shuffled, T^{3/4} locally - and the radii of the papers' lemma. Arms are fixed.
    """
    names = POLICIES[validation.one_of("policy", policy, tuple(POLICIES))]
    env = make_problem(dim=dim, n_arms=n_arms)
    outcomes = {}
    for done, (trust, name) in enumerate(names.items()):
        progress(done, len(names), trust)
        budget = {} if trust == "no privacy" else {"epsilon": epsilon, "delta": delta}
        made = make(name, dim=dim, horizon=horizon, **_SETTINGS[policy], **budget)
        result = simulate(made, env, n_seeds=n_seeds, seed=seed)
        outcomes[trust] = PrivacyModelRun(result=result, noise_std=float(made._channel.prefix_std()[-1]))
    return outcomes


def make_problem(*, dim: int = 5, n_arms: int = 100) -> LinearContextual:
    """Return the environment of `compare_privacy_models`."""
    return LinearContextual(dim=dim, n_arms=n_arms, fixed=True)


# Tables


_LENGTH = 60  # of a text that says what a setting was


def result_columns(
    experiment: Experiment, results: Mapping[str, Result], *, rounds: str = "last"
) -> dict[str, list[Any]]:
    """Return the columns of all curves, a row for every seed; with `rounds="all"` for every checkpoint.

    They are those of `Result.to_frame`, with epsilon and delta as guaranteed, and

    * series: the label without what was varied;
    * algorithm: its name;
    * algorithm.KEY: settings as in the file, among them the requested `algorithm.epsilon`;
    * environment.KEY: arguments of the environment; and path.
    """
    parts = [_column_entry(curve, results[curve.label].columns(rounds=rounds)) for curve in experiment.curves]
    names = dict.fromkeys(name for part in parts for name in part)
    lengths = [len(part["label"]) for part in parts]
    return {
        name: [each for part, n in zip(parts, lengths, strict=True) for each in part.get(name, [None] * n)]
        for name in names
    }


def _column_entry(curve: ExperimentCurve, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    rows = len(table["label"])
    known = {"series": curve.series.called, "algorithm": curve.algorithm, "path": curve.point.path}
    known |= {f"algorithm.{key}": _plain(value) for key, value in curve.arguments.items()}
    known |= {f"environment.{key}": _plain(value) for key, value in curve.point.environment.items()}
    return {**table, **{name: [value] * rows for name, value in known.items()}}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    text = format_varied(value)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]} ..."
