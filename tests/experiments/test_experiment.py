"""Experiments: what a TOML file means, and how mistakes in it are named."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget
from bandanna.experiments.experiment import ENVIRONMENTS, Experiment
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.policies.linear.base import FixedBatches, geometric, uniform
from bandanna.policies.registry import ALGORITHMS
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded
from bandanna.simulation.environments.linear import DriftingContexts, LinearContextual
from bandanna.simulation.environments.recorded import ArrayEnvironment

EXAMPLE = Path(__file__).parents[2] / "examples" / "first.toml"
GOOD: dict[str, Any] = {
    "title": "small",
    "horizon": 200,
    "n_seeds": 3,
    "environment": {"name": "LinearContextual", "dim": 3, "n_arms": 4},
    "algorithm": [{"name": "LinUCB"}, {"name": "LinUCB-JDP", "epsilon": 1.0, "delta": 1e-5}],
}


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The good document with one entry set, or removed if the value is None."""
    document = deepcopy(GOOD)
    table: Any = document
    for step in place[:-1]:
        table = table[step]
    if value is None:
        del table[place[-1]]
    else:
        table[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("horizont",), 5, ("horizont is not an argument of", "Did you mean 'horizon'?", "seeds, seed")),
        (("horizon",), "long", ("horizon must be ", "got 'long'", "whole number >= 1")),
        (("horizon",), True, ("horizon must be ", "got True", "whole number")),
        (("n_seeds",), 0, ("n_seeds must be ", "got 0", ">= 1")),
        (("seed",), -1, ("seed must be ", "got -1", ">= 0")),
        (("path",), "laws", ("path must be ", "got 'laws'", "'law', 'messages'")),
        (("title",), 3, ("title must be ", "got 3", "a word in quotes")),
        (("algorithm",), [], ("algorithm must be ", "got []", "[[algorithm]]")),
        (("algorithm",), {"name": "LinUCB"}, ("algorithm must be ", "[[algorithm]]")),
        (("algorithm", 0), "LinUCB", ("algorithm[1] must be ", "got 'LinUCB'", "a table")),
        (("environment",), 5, ("environment must be ", "got 5", "a table")),
        (
            ("environment", "name"),
            "Linear",
            ("environment.name must be ", "got 'Linear'", "LinearContextual", "DriftingContexts"),
        ),
        (("environment", "n_arm"), 4, ("environment.n_arm is not an argument of", "Did you mean 'n_arms'?", "dim")),
        (("environment", "dim"), "3", ("environment.dim must be ", "got '3'", "a whole number")),
        (("environment", "dim"), 2.5, ("environment.dim must be ", "got 2.5", "a whole number")),
        (("environment", "dim"), 0, ("environment.dim must be ", "got 0", ">= 1")),
        (("environment", "fixed"), 1, ("environment.fixed must be ", "got 1", "true or false")),
        (
            ("environment", "reward"),
            "Normal",
            ("environment.reward.name must be ", "got 'Normal'", "Bernoulli, Bounded"),
        ),
        (("environment", "reward"), {"name": "Bounded", "widht": 1}, ("environment.reward.widht", "mean 'width'?")),
        (
            ("environment", "reward"),
            {"name": "Bounded", "width": 3},
            ("environment.reward.width must be ", "got 3", "1/2"),
        ),
        (
            ("algorithm", 1, "name"),
            "LinUCB-JPD",
            ("algorithm[2].name must be ", "got 'LinUCB-JPD'", "LinUCB-JDP", "LinUCB-SDP-Vec"),
        ),
        (("algorithm", 1, "name"), ["LinUCB-JDP", 3], ("algorithm[2].name must be ", "got 3", "LinUCB-JDP")),
        (
            ("algorithm", 1, "name"),
            ["LinUCB-JDP", ["LinUCB"]],
            ("algorithm[2].name must be ", "got ['LinUCB']", "LinUCB-JDP"),
        ),
        (("algorithm", 1, "name"), ["LinUCB"], ("algorithm[2].epsilon is not an argument of", "argument of LinUCB.")),
        (
            ("algorithm", 1, "epsilom"),
            1.0,
            ("algorithm[2].epsilom is not an argument of", "Did you mean 'epsilon'?", "width"),
        ),
        (("algorithm", 0, "epsilon"), 1.0, ("algorithm[1].epsilon is not an argument of", "batch")),
        (("algorithm", 1, "protocol"), "binomial", ("algorithm[2].protocol",)),
        (("algorithm", 1, "epsilon"), "one", ("algorithm[2].epsilon must be ", "got 'one'", "a number")),
        (("algorithm", 1, "epsilon"), [1.0, "two"], ("algorithm[2].epsilon must be ", "got 'two'", "a number")),
        (("algorithm", 1, "epsilon"), [], ("algorithm[2].epsilon must be ", "got []", "one or more")),
        (("algorithm", 1, "epsilon"), math.nan, ("algorithm[2].epsilon must be ", "got nan", "a number")),
        (("algorithm", 1, "epsilon"), -1.0, ("algorithm[2].epsilon must be ", "got -1.0", "> 0")),
        (("algorithm", 1, "rho"), 1.0, ("algorithm[2].rho must be ", "got 1.0", "without epsilon")),
        (("algorithm", 1, "label"), 7, ("algorithm[2].label must be ", "got 7", "a word in quotes")),
        (("algorithm", 1, "label"), "LinUCB", ("algorithm[2].label must be ", "got 'LinUCB'", "algorithm[1]")),
        (("algorithm", 1, "width"), True, ("algorithm[2].width must be ", "got True", "a number")),
        (("algorithm", 1, "mechanism"), "oak", ("algorithm[2].mechanism must be ", "got 'oak'", "'blt', 'tree'")),
        (("algorithm", 1, "batch"), 0, ("algorithm[2].batch must be ", "got 0", ">= 1")),
        (("algorithm", 1, "batch"), "big", ("algorithm[2].batch must be ", "got 'big'", '"paper"')),
        (
            ("algorithm", 1, "batch"),
            {"first": 5, "ratoi": 2},
            ("algorithm[2].batch.ratoi is not an argument of", "mean 'ratio'?"),
        ),
        (
            ("algorithm", 1, "batch"),
            {"first": 5, "ratio": 0.5},
            ("algorithm[2].batch.ratio must be ", "got 0.5", ">= 1"),
        ),
    ],
)
def test_a_mistake_is_named_with_its_table(place: tuple[Any, ...], value: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Experiment.from_dict(changed(place, value))
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("horizon",), ("horizon is missing", "n_seeds")),
        (("n_seeds",), ("n_seeds is missing", "horizon")),
        (("environment",), ("environment is missing",)),
        (("algorithm",), ("algorithm is missing",)),
        (("environment", "name"), ("environment.name is missing", "LinearContextual")),
        (("environment", "dim"), ("environment.dim is missing", "n_arms")),
        (("algorithm", 0, "name"), ("algorithm[1].name is missing", "LinUCB-LDP")),
        (("algorithm", 1, "delta"), ("algorithm[2].delta is missing", "epsilon")),
    ],
)
def test_a_missing_key_is_named(place: tuple[Any, ...], words: tuple[str, ...]) -> None:
    with pytest.raises(BandannaError) as refused:
        Experiment.from_dict(changed(place, None))
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("horizon = 5\nseeds = = 3\n", ("line 2", "bad TOML")),
        ("horizon = 5\nseeds = [1,\n", ("line 2", "bad TOML")),
        ("horizon = 5\nhorizon = 6\n", ("line 2", "bad TOML")),
        ("horizon = 5\n", ("n_seeds is missing. Required keys: horizon, n_seeds, environment, algorithm",)),
        ("", ("horizon is missing. Required keys: horizon, n_seeds, environment, algorithm",)),
        ("horizont = 5\n", ("horizont is not an argument of", "Did you mean 'horizon'?")),
    ],
)
def test_a_bad_file_is_named_with_the_line(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BandannaError) as refused:
        Experiment.from_toml(file)
    assert str(refused.value).startswith(str(file))
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    noise = tmp_path / "noise.toml"
    noise.write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "absent.toml", tmp_path, noise):
        with pytest.raises(BandannaError) as refused:
            Experiment.from_toml(file)
        assert str(refused.value).startswith(str(file))


def test_a_title_is_not_needed() -> None:
    assert Experiment.from_dict(changed(("title",), None)).title == "experiment"
    with pytest.raises(
        BandannaError, match=r"n_seeds is missing. Required keys: horizon, n_seeds, environment, algorithm$"
    ):
        bd.experiments.run({"horizon": 10})


def test_a_number_of_the_world_is_named_where_it_stands() -> None:
    table = [{"name": "LinTS"}]
    with pytest.raises(InvalidArgument, match=r"^environment.dim must be .* at most 1,000.*, got 100000"):
        Experiment.from_dict({**changed(("environment", "dim"), 100_000), "algorithm": table})
    rewards = [{"name": "LinTS-LDP-rewards", "epsilon": 1.0, "public_contexts": True}]
    with pytest.raises(InvalidArgument, match=r"^horizon must be .* at most.*, got 2000000000000000"):
        Experiment.from_dict({**changed(("horizon",), 2 * 10**15), "algorithm": rewards})
    own = [{"name": "LinTS", "n_arms": 1, "features": 3}]
    with pytest.raises(InvalidArgument, match=r"^algorithm\[1\].n_arms must be .*, got 1"):
        Experiment.from_dict({**changed(("title",), None), "algorithm": own})


def test_a_budget_that_cannot_be_met_is_named_before_anything_runs() -> None:
    experiment = Experiment.from_dict(changed(("algorithm", 1, "delta"), 0.0))
    with pytest.raises(InvalidBudget, match=r"algorithm\[2\]\.delta must be .*, got 0"):
        experiment.curves[1].calibrated(dim=3, horizon=200)


def test_names_may_be_a_list() -> None:
    tables = [{"name": ["LinTS-JDP", "LinTS-SDP"], "epsilon": [1.0, 4.0], "delta": 1e-5}]
    found = Experiment.from_dict({**GOOD, "algorithm": tables})
    assert [series.algorithm for series in found.series] == ["LinTS-JDP"] * 2 + ["LinTS-SDP"] * 2
    assert [series.label for series in found.series][1:3] == ["LinTS-JDP, epsilon = 4", "LinTS-SDP, epsilon = 1"]
    assert Experiment.from_dict(found.to_dict()) == found
    named = Experiment.from_dict({**GOOD, "algorithm": [{**tables[0], "label": "ours", "epsilon": 1.0}]})
    assert [series.called for series in named.series] == ["ours, LinTS-JDP", "ours, LinTS-SDP"]
    with pytest.raises(InvalidArgument, match=r"algorithm\[1\].name must be .*, got 'LinTs'. Did you mean 'LinTS'"):
        Experiment.from_dict({**GOOD, "algorithm": [{"name": ["LinUCB", "LinTs"]}]})
    with pytest.raises(BandannaError, match="epsilon"):
        Experiment.from_dict({**GOOD, "algorithm": [{"name": ["LinTS", "LinTS-JDP"], "epsilon": 1.0, "delta": 1e-5}]})
    with pytest.raises(InvalidArgument, match=r"algorithm\[1\].name must be .* got \[\]"):
        Experiment.from_dict({**GOOD, "algorithm": [{"name": []}]})


@pytest.mark.parametrize("key", ["title", "n_seeds", "seed", "checkpoints"])
def test_what_all_curves_share_is_no_list(key: str) -> None:
    with pytest.raises(
        InvalidArgument, match=rf"^{key} must be .*the same for all curves, got \[1, 2\]. Lists are allowed for horizon"
    ):
        Experiment.from_dict({**GOOD, key: [1, 2]})


def test_a_list_means_one_curve_for_each() -> None:
    table = {"name": "LinUCB-JDP", "label": "mine", "epsilon": [0.5, math.inf], "delta": 1e-5, "batch": [5, "paper"]}
    experiment = Experiment.from_dict({**GOOD, "algorithm": [table]})
    assert [curve.label for curve in experiment.curves] == [
        "mine, epsilon = 0.5, batch = 5",
        "mine, epsilon = 0.5, batch = paper",
        "mine, epsilon = inf, batch = 5",
        "mine, epsilon = inf, batch = paper",
    ]
    policy = experiment.curves[0].policy(dim=3, horizon=200)
    assert policy._schedule == FixedBatches(size=5)
    assert getattr(policy.privacy.budget, "epsilon", None) == 0.5
    assert not experiment.curves[2].policy(dim=3, horizon=200).privacy.noisy


def test_a_table_of_first_and_ratio_is_a_geometric_schedule() -> None:
    experiment = Experiment.from_dict(changed(("algorithm", 0, "batch"), {"first": 10, "ratio": 1.5}))
    assert experiment.curves[0].policy(dim=3, horizon=200)._schedule == geometric(first=10, ratio=1.5)


def test_environments_get_their_arguments() -> None:
    bounded = {"name": "LinearContextual", "dim": 3, "n_arms": 4, "reward": {"name": "Bounded", "width": 0.1}}
    assert Experiment.from_dict({**GOOD, "environment": bounded}).world() == LinearContextual(
        dim=3, n_arms=4, reward=Bounded(width=0.1)
    )
    drifting = {"name": "DriftingContexts", "dim": 3, "n_arms": 4}
    assert Experiment.from_dict({**GOOD, "environment": drifting}).world() == DriftingContexts(
        dim=3, n_arms=4, horizon=200
    )
    arrays = {"name": "ArrayEnvironment", "arms": [[1.0, 0.0], [0.0, 1.0]], "means": [0.2, 0.7]}
    own = Experiment.from_dict({**GOOD, "environment": arrays}).world()
    assert own == ArrayEnvironment(arms=np.eye(2), means=[0.2, 0.7])


def test_arrays_shorter_than_the_horizon_are_refused_at_once() -> None:
    arrays = {"name": "ArrayEnvironment", "arms": [[[1.0]]] * 20, "theta": [0.5]}
    with pytest.raises(InvalidArgument, match=r"horizon must be at most 20, .* got 200"):
        Experiment.from_dict({**GOOD, "environment": arrays})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_can_be_named(name: str) -> None:
    entry = ALGORITHMS[name]
    budget = {} if entry.trust == "none" else {"epsilon": 1.0, "delta": 1e-5}
    if entry.kind is not None and "delta" not in entry.options:
        budget.pop("delta", None)  # pure
    names = {each.name for each in fields(entry.kind)}
    finite = "n_arms" in names and "features" not in names
    world = {"environment": {"name": "FiniteArms", "means": [0.2, 0.5, 0.7]}} if finite else {}
    experiment = Experiment.from_dict({**GOOD, **world, "algorithm": [{"name": name, **budget}]})
    assert experiment.curves[0].policy(dim=3, horizon=200).guarantee.trust == entry.trust


def test_policies_of_finite_arms_are_refused_where_arms_have_features() -> None:
    world = {"name": "LinearContextual", "dim": 3, "n_arms": 4}
    with pytest.raises(
        InvalidArgument, match=r"algorithm\[1\].name must be .* LinearContextual, got 'UCB1'. .* FiniteArms"
    ):
        Experiment.from_dict({**GOOD, "environment": world, "algorithm": [{"name": "UCB1"}]})


def test_a_file_sets_finite_arms_their_law_and_arguments() -> None:
    world = {"name": "FiniteArms", "means": [-0.5, 0.5], "reward": {"name": "ClippedGaussian", "low": -1, "high": 1}}
    table = {"name": "AdaC-UCB", "rho": [0.1, 1.0], "optimism": 3.5, "reward_range": [[-1, 1]]}
    experiment = Experiment.from_dict({**GOOD, "environment": world, "algorithm": [table]})
    assert [curve.policy(dim=2, horizon=200).privacy.budget.rho for curve in experiment.curves] == [0.1, 1.0]
    assert experiment.curves[0].calibrated(dim=2, horizon=200).guarantee.rho <= 0.1
    shuffled = {"name": "SDP-SE", "epsilon": 1.0, "delta": 1e-5, "shuffled": False}
    with pytest.raises(InvalidArgument, match="shuffled"):
        Experiment.from_dict({**GOOD, "environment": world, "algorithm": [shuffled]})
    with pytest.raises(InvalidArgument, match=r"algorithm\[1\]"):
        Experiment.from_dict({**GOOD, "environment": world, "algorithm": [{"name": "AdaC-UCB", "rho": -1.0}]})


def test_plain_values_give_the_same_experiment_back() -> None:
    table = {"name": "LinUCB-SDP-Vec", "epsilon": [0.5, 1.0], "delta": 1e-5, "batch": {"first": 20, "ratio": 1.5}}
    experiment = Experiment.from_dict({**GOOD, "algorithm": [table], "seed": 7, "checkpoints": 10, "path": "messages"})
    assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment
    assert Experiment.from_dict({**experiment.to_dict(), "seed": 8}) != experiment


def test_the_example_is_an_experiment() -> None:
    assert len(Experiment.from_toml(EXAMPLE).curves) == 5
    assert all(name in EXAMPLE.read_text(encoding="utf-8") for name in ENVIRONMENTS)


def test_a_file_sets_populations_and_printed_noise() -> None:
    spent = {"epsilon": [0.5, 1.0], "delta": 1e-5}
    document = {
        **GOOD,
        "environment": {"name": "Population", "dim": 3, "n_arms": 6},
        "algorithm": [
            {"name": "CDP-DPE", **spent, "calibration": "paper"},
            {"name": "LDP-DPE", **spent, "calibration": "tight"},
        ],
    }
    printed, *_, tight = (curve.policy(dim=3, horizon=200) for curve in Experiment.from_dict(document).curves)
    assert printed.privacy.calibration == "paper"
    assert tight.privacy.calibration == "tight"
    document["algorithm"][0]["calibration"] = 3.0
    with pytest.raises(InvalidArgument, match=r"algorithm\[1\]\.calibration"):
        Experiment.from_dict(document)


def test_a_file_sets_models_for_each_arm() -> None:
    document = changed(("environment",), {"name": "DisjointLinear", "dim": 2, "n_arms": 3})
    document["algorithm"] = [{"name": "LinTS-SDP", "n_arms": 3, "features": 2, "epsilon": 3.0, "delta": 1e-5}]
    experiment = Experiment.from_dict(document)
    assert experiment.curves[0].policy(dim=2, horizon=200)._domain.n_arms == 3
    document["algorithm"][0]["n_arms"] = 4
    with pytest.raises(InvalidArgument, match="n_arms"):
        Experiment.from_dict(document)


def test_a_file_sets_exploration() -> None:
    document = changed(("algorithm",), [{"name": "LinTS", "explore": {"first": 50, "then": 0.1}}])
    assert Experiment.from_dict(document).curves[0].policy(dim=3, horizon=200).explore == uniform(first=50, then=0.1)
    document["algorithm"][0]["explore"]["often"] = 1
    with pytest.raises(InvalidArgument, match=r"algorithm\[1\].explore"):
        Experiment.from_dict(document)


# glm_experiment


FILE = {
    "title": "Clicks",
    "horizon": 60,
    "n_seeds": 2,
    "environment": {"name": "GeneralisedLinear", "dim": 2, "n_arms": 4, "link": "probit", "norm": 1.5},
    "algorithm": [
        {"name": "RS-GLinUCB", "link": "probit", "parameter_bound": 1.5, "constants": "published"},
        {"name": "GLM-JDP", "link": "probit", "parameter_bound": 1.5, "epsilon": [2.0, 8.0], "delta": 1e-3},
        {"name": "GLM-SDP", "link": "probit", "parameter_bound": 1.5, "epsilon": 2.0, "delta": 1e-3},
    ],
}


def test_a_file_sets_generalised_linear_policies() -> None:
    made = Experiment.from_dict(FILE)
    policies = [curve.policy(dim=2, horizon=60) for curve in made.curves]
    assert [type(policy) for policy in policies] == [RSGLinUCB, GLMJDP, GLMJDP, GLMSDP]
    assert policies[2].privacy.budget.epsilon == 8.0
    assert Experiment.from_dict(made.to_dict()) == made
    for policy in policies:
        assert np.all(np.isfinite(simulate(policy, made.world(), n_seeds=2).regret))


def test_wrong_tables_are_refused() -> None:
    base = {**FILE, "algorithm": [{"name": "GLM-JDP", "epsilon": 1.0, "delta": 1e-3, "stepz": 3}]}
    with pytest.raises(InvalidArgument, match="stepz"):
        Experiment.from_dict(base)
    for wrong in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3, "constants": "large"}):
        with pytest.raises(BandannaError):
            Experiment.from_dict({**FILE, "algorithm": [{"name": "GLM-JDP", **wrong}]})
