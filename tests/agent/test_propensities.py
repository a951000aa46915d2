"""Probabilities that take an integral are computed when somebody looks: the same number, whenever that is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.episodes import Decision
from bandanna.errors import InvalidArgument
from bandanna.policies.linear import lints

SETS = np.random.default_rng(0).normal(size=(40, 6, 3)) / 3


def sampler(**changes: Any) -> Agent:
    """Draws among six arms; batches of five."""
    return Agent(policy=bd.LinTS(dim=3, horizon=400, batch=5, **{"privacy": bd.none(), **changes}), test=True, seed=1)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every computation."""
    found: list[int] = []
    genuine = lints.shared_draw_probabilities

    def noted(*given: Any, **how: Any) -> Any:
        found.append(1)
        return genuine(*given, **how)

    monkeypatch.setattr(lints, "shared_draw_probabilities", noted)
    return found


def test_nobody_waits_for_a_probability(looked: list[int]) -> None:
    agent = sampler()
    decisions = [agent.act(one) for one in SETS[:5]]
    for decision in decisions:
        agent.observe(decision, 1.0)
    assert not looked
    assert 0 < decisions[3].probability <= 1
    assert decisions[3].probability == decisions[3].probability
    assert len(looked) == 1


def test_it_is_that_of_the_moment() -> None:
    agent, policy = (
        sampler(explore=bd.policies.uniform(then=0.1)),
        bd.LinTS(dim=3, horizon=400, batch=5, privacy=bd.none()),
    )
    mine = SETS[0].copy()
    late, snapshot = agent.act(mine), agent.snapshot
    action = np.array([late.arm])
    mine[:] = 0.0
    for one in SETS[1:20]:
        agent.observe(agent.act(one), 1.0)
    assert agent.releases > 0
    expected = policy.probabilities(snapshot, policy.clip_features(SETS[:1]), action)[0][0]
    assert (
        late.probability
        == expected
        != policy.probabilities(agent.snapshot, policy.clip_features(SETS[:1]), action)[0][0]
    )


def test_decisions_together_have_the_probabilities_of_single_ones(looked: list[int]) -> None:
    alone, together = sampler(), sampler()
    many = together.act_many(SETS[:5])
    one_by_one = [alone.act(one).probability for one in SETS[:5]]
    assert len(looked) == 5
    assert [decision.probability for decision in many] == one_by_one
    assert len(looked) == 6


def test_a_decision_is_a_value(looked: list[int]) -> None:
    one, two = sampler().act(SETS[0]), sampler().act(SETS[0])
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one) == dataclasses.replace(one)
    assert dataclasses.asdict(one)["probability"] == one.probability
    assert set(vars(one)) == {"id", "arm", "probability", "episode"}  # no features are kept any more
    assert (one == two, hash(one) == hash(two), repr(one) == repr(two)) == (True, True, True)
    with pytest.raises(AttributeError, match="chance"):
        _ = one.chance  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.probability = 1.0  # type: ignore[misc]
    assert Decision(id="1", arm=2, probability=0.5, episode=0).probability == 0.5


def test_many_threads_see_one_number() -> None:
    for one in SETS[:5]:
        decision, seen = sampler().act(one), []
        threads = [threading.Thread(target=lambda: seen.append(decision.probability)) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [decision.probability] * 4


def test_after_a_save_decisions_have_theirs(tmp_path: Path) -> None:
    agent = sampler()
    before = agent.act(SETS[0])
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    assert before.probability == sampler().act(SETS[0]).probability
    assert loaded.act(SETS[1]).probability == agent.act(SETS[1]).probability


def test_decisions_that_nobody_looked_at_are_a_log() -> None:
    agent, again = sampler(), sampler()
    decisions, rewards = [agent.act(one) for one in SETS[:8]], [0.5] * 8
    log = bd.Log.from_decisions(decisions, rewards=rewards, contexts=SETS[:8], arms=range(6))
    assert log.propensities.tolist() == [again.act(one).probability for one in SETS[:8]]


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.full)])
def test_an_arm_that_was_drawn_is_not_impossible(seeds: int) -> None:
    rng, missed = np.random.default_rng(0), 0
    policy = bd.LinTS(dim=5, horizon=1000, privacy=bd.none())
    for seed in range(seeds):
        arms = rng.standard_normal((1000, 5))
        arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
        agent = Agent(policy=policy, test=True, seed=seed)
        decision = agent.act(arms)
        known = policy.probabilities(agent.snapshot, arms[None], np.array([decision.arm]))[0][0]
        missed += known == 0
        assert decision.probability == known or (known == 0 and 0 < decision.probability < 2 / lints.DIRECTIONS)
    assert missed


def test_what_a_policy_of_ones_own_says_later_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lints, "shared_draw_probabilities", lambda *given, **how: (np.array([1.5]), np.zeros(1)))
    decision = sampler().act(SETS[0])
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"LinTS\.act: probabilities"):
            _ = decision.probability
