"""Whose rows an agent's releases are about, from which states of streams, and under whose names the ledger has them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.policies.base import RunnerState

from ..policies.conformance.catalogue import CASES


def test_rows_streams_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is in two sums of rows that are forgotten, a stream does not go on from where it was, or somebody who is
    in a release is not in the ledger.
    """
    asked: list[tuple[Any, Any, Any, Any]] = []
    genuine = RunnerState.release

    def release(self: RunnerState, ask: Any, statistic: Any, source: Any, **how: Any) -> Any:
        desk, estimate = genuine(self, ask, statistic, source, **how)
        asked.append((ask, statistic.values.copy(), self.streams.get(0), desk.streams.get(0)))
        return desk, estimate

    monkeypatch.setattr(RunnerState, "release", release)
    policy = bd.make("AdaC-OFUL-JDP", dim=2, horizon=60, batch=5, growth=0.1, rho=50.0)
    agent, rng = Agent(policy=policy, test=True, seed=0), np.random.default_rng(0)
    for number in range(60):
        contexts = rng.normal(size=(1, 2))
        contexts /= 2 * np.linalg.norm(contexts)
        assert agent.observe(agent.act(contexts, user=number).id, 1.0)
    agent.close()
    vectors = Counter(tuple(row) for ask, rows, _, _ in asked if ask.of != "episode" for row in rows)
    assert len(vectors) > 20  # several episodes
    assert set(vectors.values()) == {1}
    steps = [(before, after) for ask, _, before, after in asked if ask.of == "episode"]
    assert len(steps) == 12
    assert steps[0][0] is None
    dumps = agent._encoding.dumps
    assert all(dumps(one[1]) == dumps(two[0]) for one, two in pairwise(steps))
    entries = [entry for entry in agent._runner.journals.entries() if entry.task == "agent"]
    assert [len(set(entry.members)) for entry in entries] == [5] * 12
    assert len({person for entry in entries for person in entry.members}) == 60


def test_everybody_of_an_arm_is_in_the_ledger_under_that_arm() -> None:
    policy = bd.make("DP-SE", n_arms=2, horizon=4000, failure=0.5, epsilon=20.0)
    agent = Agent(policy=policy, test=True, seed=0)
    users = agent.next_release
    assert users is not None
    agent.act_many(users, users=list(range(users)))
    agent.close()
    entries = agent._runner.journals.entries()
    assert [len(entry.members) for entry in entries] == [users // 2] * 2
    assert len({person for entry in entries for person in entry.members}) == users
    assert len({(entry.task, entry.batch) for entry in entries}) == 2


def test_a_client_is_in_the_ledger_and_comes_once() -> None:
    arms = np.eye(2)
    agent = Agent(policy=bd.make("CDP-DPE", dim=2, horizon=900, epsilon=5.0, delta=1e-3), arms=arms, test=True, seed=0)
    wanted = agent.clients_wanted
    assert agent.recruit("ann") is not None
    with pytest.raises(bd.errors.BudgetExceeded):
        agent.recruit("ann")
    for number in range(wanted - 1):
        assert agent.recruit(number) is not None
    while not agent.releases:
        agent.act()
    with pytest.raises(bd.errors.BudgetExceeded):
        agent.recruit("ann")
    assert len(agent._runner.journals.entries()[0].members) == wanted


@pytest.mark.parametrize("key", ["GLM-JDP", "GLM-SDP"])
def test_all_asks_of_a_person_are_charged(key: str) -> None:
    policy, rng = CASES[key].policy, np.random.default_rng(1)
    agent = Agent(policy=policy, test=True, seed=0)
    for number in range(CASES[key].rounds):
        assert agent.observe(agent.act(0.3 * rng.normal(size=(4, 2)), user=number).id, float(rng.random()))
    agent.close()
    assert agent.ledger is not None
    if key == "GLM-JDP":
        state, used = agent._runner.progress.state, policy.used  # type: ignore[attr-defined]
        assert state.calls_o == used.calls_o  # the dearest alternative is used up
    assert agent.ledger.spent() == pytest.approx(policy.guarantee.epsilon, rel=1e-6)
