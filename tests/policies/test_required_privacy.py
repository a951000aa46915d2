"""A policy that can protect is told how it protects, and a budget that protects little gives a warning."""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument, InvalidBudget, WeakPrivacyWarning
from bandanna.policies.registry import ALGORITHMS

KINDS = {entry.kind.__name__: entry.kind for entry in ALGORITHMS.values()}
BASELINES = {"UCB1", "Thompson", "GLMUCB", "GLOC", "ECOLog", "RSGLinUCB", "BGLinUCB"}
SIZES: dict[str, dict[str, Any]] = {"UCBEpisodes": {"n_arms": 2}, "Elimination": {"n_arms": 2}, "LDPUCB": {"n_arms": 2}}
PRIVATE = sorted(KINDS.keys() - BASELINES)


def sizes(name: str) -> dict[str, Any]:
    """The arguments that every policy of this class needs beside its privacy."""
    return {"horizon": 100, **SIZES.get(name, {"dim": 3})}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_policy_without_privacy_is_refused_with_what_to_write(name: str) -> None:
    kind = KINDS[name]
    with pytest.raises(InvalidArgument) as refused:
        kind(**sizes(name))
    assert refused.value.argument == "privacy"
    for trust in kind.trusts:
        assert f"bd.{trust}({'...' * (trust != 'none')})" in str(refused.value)
    assert ("bd.none() for no protection" in str(refused.value)) == ("none" in kind.trusts)


def test_baselines_are_the_policies_that_cannot_protect() -> None:
    assert {name for name, kind in KINDS.items() if kind.trusts == ("none",)} == BASELINES
    for name in BASELINES - {"UCB1", "Thompson"}:
        assert KINDS[name](dim=2, horizon=50).privacy == bd.none()
    assert {KINDS[name](n_arms=2, horizon=50).privacy for name in ("UCB1", "Thompson")} == {bd.none()}


def test_copies_of_a_policy_are_made_without_arguments() -> None:
    policy = bd.LinTS(dim=3, horizon=100, privacy=bd.none())
    assert copy.copy(policy) == copy.deepcopy(policy) == pickle.loads(pickle.dumps(policy)) == policy


def test_a_policy_of_a_module_is_refused_without_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unsaid_here.py").write_text("from bandanna import LinTS\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r'trust must be one of "none", "central", "local".*got None'):
        bd.make("unsaid_here:LinTS", dim=3, horizon=100)
    experiment = {
        "title": "unsaid",
        "horizon": 100,
        "seeds": 1,
        "environment": {"name": "LinearContextual", "dim": 3, "n_arms": 2},
        "algorithm": [{"name": "unsaid_here:LinTS"}],
    }
    with pytest.raises(InvalidArgument, match=r'algorithm\[1\]\.trust must be one of "none", "central", "local"'):
        bd.experiments.Experiment.from_dict(experiment)


@pytest.mark.parametrize("trust", ["central", "local", "shuffle", "concurrent"])
@pytest.mark.parametrize("epsilon", [10.01, 1e6, math.inf])
def test_an_epsilon_above_10_gives_a_warning(trust: str, epsilon: float) -> None:
    make = getattr(bd, trust)
    with pytest.warns(WeakPrivacyWarning, match=re.escape(f"epsilon = {epsilon:g} protects little")) as said:
        make(epsilon=epsilon, delta=1e-5)
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(epsilon=10.0, delta=1e-5)


def test_a_whole_budget_above_10_gives_a_warning() -> None:
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 "):
        bd.central(budget=bd.privacy.PureDP(epsilon=11.0))
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 ") as said:
        bd.make("DP-SE", n_arms=2, horizon=100, epsilon=11.0)
    assert [each.filename for each in said] == [__file__]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rho": 2.0}, "rho = 2, which is epsilon = 11 at delta = 1e-06, protects little"),
        (
            {"alpha": 1.5, "epsilon": 8.0},
            "alpha = 1.5, epsilon = 8, which is epsilon = 20.24 at delta = 1e-06, protects",
        ),
        ({"alpha": 100.0, "epsilon": 10.5}, "epsilon = 10.5 protects little"),
    ],
)
def test_other_budgets_are_compared_by_their_epsilon(given: dict[str, float], told: str) -> None:
    with pytest.warns(WeakPrivacyWarning, match=re.escape(told)) as said:
        made = bd.central(**given)
    assert [each.filename for each in said] == [__file__]
    if "which is" in told:
        stated = bd.LinTS(dim=2, horizon=100, batch=100, privacy=made).guarantee.epsilon
        assert stated > 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.central(**{**given, "rho" if "rho" in given else "epsilon": 0.5})


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "concurrent"])
def test_a_trust_model_without_a_budget_is_refused(model: str) -> None:
    with pytest.raises(InvalidBudget, match=r"budget must be .*bd\.none\(\) for no protection, got None"):
        bd.protocols.Privacy(model=model)
    with pytest.raises(InvalidBudget, match='model="none" keeps no budget'):
        bd.protocols.Privacy(model="none", budget=bd.privacy.ZCDP(rho=1.0))


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "concurrent"])
def test_a_trust_model_made_by_its_fields_warns_as_well(model: str) -> None:
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 protects little") as said:
        made = bd.protocols.Privacy(model=model, budget=bd.privacy.ApproxDP(epsilon=11.0, delta=1e-5))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace(made)


def test_a_counter_warns_as_a_policy_does() -> None:
    with pytest.warns(WeakPrivacyWarning, match=r"delta = 0.2 is more than 1/horizon = 0.125") as said:
        bd.agent.ContinualSum(horizon=8, privacy=bd.central(epsilon=1.0, delta=0.2))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.agent.ContinualSum(horizon=8, privacy=bd.central(epsilon=1.0, delta=0.125))


@pytest.mark.parametrize("name", sorted(set(PRIVATE) - {"LDPUCB"}))
def test_a_delta_above_one_in_the_horizon_gives_a_warning(name: str) -> None:
    kind = KINDS[name]
    trust = getattr(bd, next(each for each in ("central", "shuffle") if each in kind.trusts))
    with pytest.warns(WeakPrivacyWarning, match=r"delta = 0.011 is more than 1/horizon = 0.01") as said:
        policy = kind(**sizes(name), privacy=trust(epsilon=1.0, delta=0.011))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(**sizes(name), privacy=trust(epsilon=1.0, delta=0.01))
        replace(policy)  # a copy says nothing new


def test_no_privacy_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.LinTS(dim=3, horizon=10**9, privacy=bd.none())
