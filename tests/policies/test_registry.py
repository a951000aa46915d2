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


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("LinUCB-SDP", {}, r"LinUCB-SDP-Vec"),
        ("LinUCB-SPD", {"horizon": 10}, r"got 'LinUCB-SPD'. Did you mean 'LinUCB-SDP-Amp'\?"),
        (["LinUCB"], {}, r"name must be one of LinTS, .*, got \['LinUCB'\]"),
        ("LinUCB", {"epsilon": 1.0}, r"epsilon is not an argument of LinUCB. It takes dim"),
        ("SDP-DPE", {"rho": 0.1}, r"rho is not an argument of SDP-DPE. * It takes epsilon, delta, calibration, dim"),
        ("Laplace-DPE", {"delta": 1e-5}, r"delta is not an argument of Laplace-DPE. * It takes epsilon, dim"),
        ("DPE", {"alfa": 0.5}, r"alfa is not an argument of DPE. Did you mean 'alpha'\?"),
        ("LinUCB-JDP", {"delat": 1e-5}, r"delat is not an argument of LinUCB-JDP. Did you mean 'delta'\?"),
        ("DPE", {"horizon": None}, r"horizon must be given, got None. DPE needs horizon; it takes"),
        ("GOPE", {"dim": None, "horizon": None}, r"dim must be given, got None. GOPE needs dim and horizon"),
        ("AdaC-GOPE-early", {"rho": 1.0, "noise": "late"}, r"noise must be left out, got 'late'. .* is noise='beg"),
    ],
)
def test_an_unknown_or_missing_argument_is_refused_with_what_there_is(
    name: Any, given: dict[str, Any], complaint: str
) -> None:
    arguments = {key: value for key, value in {"dim": 2, "horizon": 10, **given}.items() if value is not None}
    with pytest.raises(InvalidArgument, match=complaint):
        make(name, **arguments)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("AdaC-UCB", {}, r"rho, or epsilon and delta, or alpha and epsilon, got None. Pass it to make\('AdaC-UCB'"),
        ("AdaP-UCB", {"rho": 1.0}, r"budget must be epsilon, got \{'rho': 1.0\}. Pass it to make\('AdaP-UCB'"),
        ("DP-SE", {"budget": ZCDP(rho=1.0)}, r"budget must be epsilon, got ZCDP\(rho=1.0\)"),
        ("AdaC-OFUL", {"budget": ZCDP(rho=1.0), "rho": 1.0}, r"budget must be left out, got ZCDP.*rho is given, too"),
        ("GLM-SDP", {}, r"budget must be epsilon and delta, got None"),
        ("GLM-JDP", {"epsilon": 1.0}, r"budget must be epsilon and delta, or rho, got \{'epsilon': 1.0\}"),
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
    with pytest.raises(InvalidArgument, match=r"name must be a new name, got 'UCB1'. UCB1 has this one"):
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
    with pytest.raises(InvalidArgument, match=r"privacy must be bd.central\(...\), got 'local'. AdaC-UCB"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, privacy=local(epsilon=1.0, delta=1e-5))
    with pytest.raises(InvalidArgument, match="left out"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, rho=1.0, privacy=central(rho=1.0))
