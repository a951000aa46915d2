"""An agent decides for everybody alone: what other users send changes no bit of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.agent.agent import Agent
from bandanna.agent.episodes import Decision
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import central, none

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")  # contexts here are huge

POLICIES = {
    "LinUCB": LinUCB(dim=3, horizon=300, batch=6, ties="first", privacy=none()),
    "LinUCB, coins": LinUCB(dim=3, horizon=300, batch=6, privacy=none()),
    "LinUCB, central": LinUCB(dim=3, horizon=300, batch=6, ties="first", privacy=central(epsilon=1.0, delta=1e-5)),
    "Anytime": Anytime(first=LinUCB(dim=3, horizon=12, batch=6, ties="first", privacy=none())),
}


def experienced(policy: Any) -> Agent:
    """An agent that has learned from one batch."""
    agent, rng = Agent(policy=policy, test=True, seed=1), np.random.default_rng(2)
    for decision in agent.act_many(rng.normal(size=(6, 5, 3)) / 2):
        agent.observe(decision.id, rng.random())
    agent.act(np.eye(3))  # closes the batch
    return agent


def near_tied(rng: np.random.Generator, arms: int) -> Any:
    """Features of arms, many of which differ in their last digits only."""
    features = rng.normal(size=(arms, 3)) / 2
    return features[rng.integers(arms, size=arms)] * (1 + rng.integers(-2, 3, size=(arms, 1)) * 2.0**-25)


def same(policy: Any, one: Decision, other: Decision) -> bool:
    """Whether two decisions are; where a coin decides between tied arms it is every decision's own."""
    by_rule = policy is not POLICIES["LinUCB, coins"]
    return one.probability == other.probability and (one.arm == other.arm or not by_rule)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_huge_contexts_decide_for_nobody_else(policy: Any) -> None:
    bob = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]])
    bob[1] *= 1 + 1e-10
    alone = experienced(policy).act(bob)
    for size in (1.0, 1e30, 1e50, 1e100):
        _, decision = experienced(policy).act_many([np.full((2, 3), size), bob])
        assert same(policy, decision, alone)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.sampled_from([1.0, 1e-30, 1e3, 1e50, 1e99]), min_size=1, max_size=4),
    place=st.integers(0, 3),
    arms=st.integers(1, 6),
)
@settings(max_examples=25)
def test_a_decision_is_the_same_in_any_company(
    policy: Any, seed: int, sizes: list[float], place: int, arms: int
) -> None:
    rng = np.random.default_rng(seed)
    bob, first = near_tied(rng, arms), min(place, len(sizes) - 1)
    others = [near_tied(rng, int(rng.integers(1, 7))) * size for size in sizes[1:]]
    alone, company = experienced(policy), experienced(policy)
    one = alone.act(np.asfortranarray(bob))
    many = company.act_many([*others[:first], bob, *others[first:]])[first]
    assert same(policy, one, many)
    reports = [
        agent.policy._form_statistic(np.array(agent._runner.slots.to_columns()["features"]), np.ones(count))
        for agent, count in ((alone, 2), (company, 1 + len(sizes)))
    ]
    if one.arm == many.arm:  # a coin may choose another of two tied arms
        assert reports[0].values[1].tobytes() == reports[1].values[1 + first].tobytes()
