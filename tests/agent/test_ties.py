"""Ties in an agent: the device's coins decide, and the decision says with which probability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB

TREATMENTS = np.eye(4)  # no features of their own: tied until something is known


def policy(**changes: Any) -> LinUCB:
    """One batch for all decisions."""
    return LinUCB(**{"dim": 4, "horizon": 4000, "batch": 4000, "privacy": bd.none(), **changes})


@pytest.mark.parametrize("made", [policy(), Anytime(first=policy())], ids=["LinUCB", "Anytime"])
@pytest.mark.parametrize("test", [{}, {"test": True, "seed": 5}], ids=["secure", "seeded"])
def test_the_first_batch_is_shared_by_all_arms(made: Any, test: dict[str, Any]) -> None:
    """A batch in which nothing is known is not uniform over the tied arms, or its users are correlated.

    False alarms: below 1e-9, both tests together (secure coins cannot be seeded).
    """
    decisions = Agent(policy=made, **test).act_many([TREATMENTS] * 3000)
    arms = np.array([decision.arm for decision in decisions])
    assert {decision.probability for decision in decisions} == {0.25}
    assert stats.chisquare(np.bincount(arms, minlength=4)).pvalue > 1e-10
    pairs = np.bincount(4 * arms[:-1:2] + arms[1::2], minlength=16)
    assert stats.chisquare(pairs).pvalue > 1e-10


def test_the_probability_is_one_over_the_number_of_tied_arms() -> None:
    agent = Agent(policy=policy(), test=True, seed=0)
    two = np.array([[0.1, 0, 0, 0], [0, 0.9, 0, 0], [0, 0, 0, 0.9]])
    one = agent.act(two)
    assert (one.probability, one.arm in (1, 2)) == (0.5, True)
    alone = agent.act(two[:2])
    assert (alone.probability, alone.arm) == (1.0, 1)
    first = Agent(policy=policy(ties="first"), test=True, seed=0).act(two)
    assert (first.probability, first.arm) == (1.0, 1)


def test_coins_of_a_test_follow_from_its_seed(tmp_path: Path) -> None:
    sets: list[Any] = [TREATMENTS[: 2 + i % 3] for i in range(40)]
    whole, parts, other = (Agent(policy=policy(), test=True, seed=seed) for seed in (1, 1, 2))
    expected = [decision.arm for decision in whole.act_many(sets)]
    given = [parts.act(one).arm for one in sets[:7]]
    assert parts.recommend(TREATMENTS) == 0  # flips nothing
    parts.save(tmp_path / "agent")
    given += [decision.arm for decision in Agent.load(tmp_path / "agent").act_many(sets[7:])]
    assert given == expected
    assert [decision.arm for decision in other.act_many(sets)] != expected


def test_a_save_keeps_the_radius_and_the_exploration(tmp_path: Path) -> None:
    rule = bd.policies.uniform(first=3, then=0.5)
    new = Agent(policy=policy(batch=4, explore=rule, reward_centre=0.5), test=True, seed=1)
    for _ in range(9):
        new.observe(new.act(TREATMENTS).id, 1.0)
    new.save(tmp_path / "new")
    loaded = Agent.load(tmp_path / "new")
    assert loaded.policy == new.policy
    assert (loaded.policy.confidence, loaded.policy.explore) == ("exact", rule)
    np.testing.assert_array_equal(loaded.theta, new.theta)
    assert loaded.act(TREATMENTS).probability == new.act(TREATMENTS).probability >= 0.125
