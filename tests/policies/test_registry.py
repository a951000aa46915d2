"""Algorithms by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.policies import algorithm as algorithm_module
from bandanna.policies import registry
from bandanna.policies.algorithm import ALGORITHMS, register_algorithm
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.registry import make
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.protocols.privacy_model import central, local

LINUCB = {
    "LinUCB": 1,
    "LinUCB-JDP": 1,
    "LinUCB-JDP-batched": 20,
    "LinUCB-LDP": 1,
    "LinUCB-LDP-batched": 89,
    "LinUCB-SDP-Amp": 36,
    "LinUCB-SDP-Vec": 36,
    "LinUCB-CSDP": 20,
}


@pytest.mark.parametrize("name", LINUCB)
def test_every_name_makes_what_it_says(name: str) -> None:
    budget = {} if name == "LinUCB" else {"epsilon": 1.0, "delta": 1e-5}
    policy = make(name, dim=2, horizon=400, **budget)
    assert policy.guarantee.trust == ALGORITHMS[name].trust
    assert policy._channel.sizes[0] == LINUCB[name]


def test_unknown_names_and_arguments() -> None:
    """A misspelt name or argument does not list what is allowed."""
    with pytest.raises(InvalidArgument, match=r"LinUCB-SDP-Vec"):
        make("LinUCB-SDP", dim=2, horizon=10)
    with pytest.raises(InvalidArgument, match=r"epsilon must be LinUCB has no such argument.*, got 1.0"):
        make("LinUCB", dim=2, horizon=10, epsilon=1.0)
    with pytest.raises(
        InvalidArgument, match=r"rho must be SDP-DPE has no .*: it takes epsilon, delta, calibration, dim.*, got 0.1"
    ):
        make("SDP-DPE", dim=2, horizon=10, rho=0.1)
    with pytest.raises(InvalidArgument, match=r"delta must be Laplace-DPE has no .* takes epsilon, dim.*, got 1e-05"):
        make("Laplace-DPE", dim=2, horizon=10, epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidArgument, match=r"alfa must be DPE has no .*, alpha, .*, got 0.5"):
        make("DPE", dim=2, horizon=10, alfa=0.5)
    with pytest.raises(InvalidArgument, match=r"delat = 1e-05 .*: LinUCB-JDP has no such .*: did you mean 'delta'\?"):
        make("LinUCB-JDP", dim=2, horizon=10, epsilon=1.0, delat=1e-5)
    with pytest.raises(InvalidArgument, match=r"name must be did you mean 'LinUCB-SDP-Amp'\?.*, got 'LinUCB-SPD'"):
        make("LinUCB-SPD", dim=2, horizon=10)
    with pytest.raises(InvalidArgument, match=r"name = \['LinUCB'\]"):
        make(["LinUCB"], dim=2, horizon=10)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"horizon must be DPE needs horizon: it takes.*, got None"):
        make("DPE", dim=2)
    with pytest.raises(InvalidArgument, match=r"dim must be GOPE needs dim and horizon.*, got None"):
        make("GOPE")
    with pytest.raises(InvalidArgument, match=r"noise must be left out: AdaC-GOPE-early says noise=.*, got 'late'"):
        make("AdaC-GOPE-early", dim=2, horizon=10, rho=1.0, noise="late")


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("AdaC-UCB", {}, r"budget = None .*: AdaC-UCB takes rho, or epsilon and delta, or alpha and epsilon"),
        ("AdaP-UCB", {"rho": 1.0}, r"budget = \{'rho': 1.0\} .*: AdaP-UCB takes epsilon"),
        ("DP-SE", {"budget": ZCDP(rho=1.0)}, r"budget = ZCDP\(rho=1.0\) .*: DP-SE takes epsilon"),
        ("AdaC-OFUL", {"budget": ZCDP(rho=1.0), "rho": 1.0}, r"budget = ZCDP.*: this, or rho, not both"),
        ("GLM-SDP", {}, r"budget = None .*: GLM-SDP takes epsilon and delta"),
        ("GLM-JDP", {"epsilon": 1.0}, r"budget = \{'epsilon': 1.0\} .*: GLM-JDP takes epsilon and delta, or rho"),
    ],
)
def test_a_missing_or_wrong_budget_is_answered_with_those_that_there_are(
    name: str, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidBudget, match=complaint):
        make(name, dim=2, horizon=100, **given)


def test_a_budget_may_be_given_whole() -> None:
    assert make("AdaC-UCB", n_arms=2, horizon=10, budget=ZCDP(rho=1.0)) == make("AdaC-UCB", n_arms=2, horizon=10, rho=1)
    whole = make("GLM-JDP", dim=2, horizon=10, budget=ApproxDP(epsilon=1.0, delta=1e-5))
    assert whole == make("GLM-JDP", dim=2, horizon=10, epsilon=1.0, delta=1e-5)


def test_a_line_above_a_class_is_all_that_a_name_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm_module, "ALGORITHMS", dict(ALGORITHMS))
    monkeypatch.setattr(registry, "ALGORITHMS", algorithm_module.ALGORITHMS)

    @register_algorithm("Own-UCB", paper="own", trust="central", guarantee="zCDP", budgets=(("rho",),), optimism=2.0)
    @dataclass(frozen=True, kw_only=True)
    class Own(UCBEpisodes):
        """UCB with another optimism."""

    policy = make("Own-UCB", n_arms=2, horizon=50, rho=1.0)
    assert isinstance(policy, Own)
    assert (policy.optimism, policy.privacy.budget) == (2.0, ZCDP(rho=1.0))
    assert list(algorithm_module.ALGORITHMS)[-1] == "Own-UCB"
    with pytest.raises(InvalidArgument, match=r"name must be a name of its own: UCB1 has this one.*, got 'UCB1'"):
        register_algorithm("UCB1", paper="own")(Own)


def test_the_folders_are_the_catalogue() -> None:
    assert list(ALGORITHMS)[16:23] == ["DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"]
    assert list(ALGORITHMS)[23:31] == [
        *("UCB1", "Thompson", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "LDP-UCB", "SDP-SE")
    ]
    assert len(ALGORITHMS) == 44


def test_privacy_may_be_given_whole() -> None:
    made = registry.make("AdaC-UCB", n_arms=3, horizon=100, privacy=central(rho=1.0))
    assert made == registry.make("AdaC-UCB", n_arms=3, horizon=100, rho=1.0)
    with pytest.raises(InvalidArgument, match=r"bd.central\(...\), which AdaC-UCB stands for"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, privacy=local(epsilon=1.0, delta=1e-5))
    with pytest.raises(InvalidArgument, match="left out"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, rho=1.0, privacy=central(rho=1.0))
