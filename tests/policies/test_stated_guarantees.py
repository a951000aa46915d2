"""What a policy states where batches have several sizes, or phases follow one another: the worst of them all."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.population import check_promise, compute_promised_guarantee, phase_protocol_for
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, shuffle

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
GROWING = geometric(first=50, ratio=2)


@pytest.mark.often(when=lambda horizon: horizon == 300)
@pytest.mark.parametrize("protocol", ["binomial", "gaussian"])
@pytest.mark.parametrize("horizon", [300, 4000])
def test_what_the_shuffler_learns_from_the_least_protected_batch(protocol: str, horizon: int) -> None:
    policy = LinUCB(dim=2, horizon=horizon, privacy=shuffle(**BUDGET, protocol=protocol), batch=GROWING)
    each = [one.guarantee for one in policy._channel.protocols.values()]
    left = [math.inf if one.shuffler is None else one.shuffler.epsilon for one in each]
    stated = policy.guarantee
    assert len(set(left)) > 1
    assert (math.inf if stated.shuffler is None else stated.shuffler.epsilon) == max(left)
    assert stated.exposed == max(one.exposed for one in each)
    assert stated.epsilon == max(one.epsilon for one in each)


def test_nothing_is_stated_against_the_shuffler_where_nothing_is_computed() -> None:
    sizes = geometric(first=20, ratio=2)
    once, twice = (
        LinUCB(dim=2, horizon=60, privacy=shuffle(**BUDGET, participations=m), batch=sizes).guarantee for m in (1, 2)
    )
    assert once.shuffler is not None
    assert twice.shuffler is None


@pytest.mark.often(when=lambda protocol, batch: protocol == "binomial" or batch == 20)
@pytest.mark.parametrize("batch", [None, GROWING, 20])
@pytest.mark.parametrize("protocol", ["binomial", "gaussian"])
def test_a_later_phase_shows_the_shuffler_no_more_than_is_stated(protocol: str, batch: Any) -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=100, batch=batch, privacy=shuffle(**BUDGET, protocol=protocol)))
    stated = policy.guarantee.shuffler
    assert (stated is not None) == (batch == 20)
    if stated is not None:
        for j in range(3):
            later = policy.phase(j).guarantee.shuffler
            assert later is not None
            assert later.epsilon <= stated.epsilon


def test_later_phases_of_concurrent_shufflers_state_nothing_against_them() -> None:
    assert Anytime(first=LinUCB(dim=2, horizon=32, batch=4, privacy=concurrent(**BUDGET))).guarantee.shuffler is None


@pytest.mark.parametrize(
    "privacy", [central(rho=0.1), central(rho=0.1, mechanism="tree"), local(rho=0.1), local(rho=0.1, participations=3)]
)
def test_no_phase_costs_more_than_the_stated_zcdp_budget(privacy: Privacy) -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=100, batch=20, privacy=privacy))
    stated = policy.guarantee
    assert stated.rho == 0.1
    assert stated.epsilon == ZCDP(rho=0.1).to_approx(stated.delta).epsilon
    for j in range(5):
        assert policy.phase(j).guarantee.rho <= stated.rho
        assert policy.phase(j).guarantee.epsilon <= stated.epsilon


@pytest.mark.parametrize("privacy", [central(**BUDGET), local(**BUDGET)])
def test_the_stated_rho_covers_later_phases(privacy: Privacy) -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=100, batch=20, privacy=privacy))
    for j in range(5):
        assert policy.phase(j).guarantee.rho <= policy.guarantee.rho


@pytest.mark.parametrize("budget", [{"epsilon": 0.2, "delta": 1e-5}, {"epsilon": 10.0, "delta": 0.1}])
def test_shuffled_elimination_states_the_worst_batch(budget: dict[str, float]) -> None:
    policy = Elimination(n_arms=5, horizon=30_000, privacy=shuffle(**budget))
    each = [policy.protocol(size).guarantee for size in policy.sizes]
    assert len(each) > 1
    left = [math.inf if one.shuffler is None else one.shuffler.epsilon for one in each]
    stated = policy.guarantee
    assert (math.inf if stated.shuffler is None else stated.shuffler.epsilon) == max(left)
    assert stated.exposed == max(one.exposed for one in each)
    assert stated.epsilon == max(one.epsilon for one in each)


PHASED = [
    *(model(epsilon=e, delta=d) for model in (central, local, shuffle) for e in (0.2, 10.0) for d in (1e-5, 0.1)),
    *(model(epsilon=1.0, delta=d, calibration="paper") for model in (central, local, shuffle) for d in (1e-5, 0.1)),
    shuffle(epsilon=10.0, delta=1e-5, calibration="paper"),
    central(epsilon=1.0, delta=0.0),
    central(rho=0.1),
    local(rho=0.1),
]


def _at_an_end(privacy: Privacy) -> bool:
    """Small budgets, and large ones: of epsilon and delta, not of one of them."""
    size = getattr(privacy.budget, "epsilon", 1.0), getattr(privacy.budget, "delta", 0.0)
    if privacy.calibration == "paper":
        return privacy.model != "shuffle" or size != (1.0, 0.1)
    return size not in ((0.2, 0.1), (10.0, 1e-5))


@pytest.mark.often(when=_at_an_end)
@pytest.mark.parametrize("privacy", PHASED, ids=str)
def test_every_phase_keeps_the_promise(privacy: Privacy) -> None:
    promised = compute_promised_guarantee(privacy, most_actions=40, most_clients=3000, bound=1.0)
    assert promised.shuffler is None
    assert not math.isnan(promised.exposed)
    for actions, clients in ((1, 2), (40, 2), (3, 100), (1, 3000), (40, 3000)):
        protocol = phase_protocol_for(privacy, actions=actions, clients=clients, bound=1.0)
        check_promise(protocol, privacy, promised)
        assert accountant.epsilon(protocol.event, promised.delta) <= promised.epsilon
        assert accountant.rho(protocol.event) <= promised.rho


def test_no_phase_promises_more_against_the_shuffler_than_is_left() -> None:
    privacy = shuffle(epsilon=10.0, delta=1e-5, calibration="paper")
    promised = compute_promised_guarantee(privacy, most_actions=40, most_clients=3000, bound=1.0).shuffler
    left = phase_protocol_for(privacy, actions=40, clients=3000, bound=1.0).guarantee.shuffler
    assert left is not None
    assert promised is None or promised.epsilon >= left.epsilon
