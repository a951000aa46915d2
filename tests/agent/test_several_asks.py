"""Policies that ask more than once about an episode, or about users of before: one answer for each, at its price."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.runner import AgentRunner
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.privacy.events import CompositionEvent, RecordEvent

CONSTANTS = GLMJDPConstants(  # refits after few rounds, until all calls that are paid for are made
    share=0.4, steps=2, calls_o=2, calls_tau=2, regulariser_v=4.0, regulariser_h=1.0, ridge=1.0, threshold=1 / 16,
    elimination=9.0, bonus=1.0,
)  # fmt: skip
POLICIES: dict[str, tuple[dict[str, Any], int]] = {
    "GLM-SDP": ({"dim": 2, "horizon": 80, "warmup": 20, "epsilon": 20.0, "delta": 0.01}, 45),
    "GLM-JDP": ({"dim": 2, "horizon": 80, "epsilon": 50.0, "delta": 0.1, "constants": CONSTANTS}, 40),
    "DP-SE": ({"n_arms": 2, "horizon": 4000, "epsilon": 20.0, "failure": 0.5}, 1500),
    "AdaC-OFUL-JDP": ({"dim": 2, "horizon": 100, "rho": 2000.0}, 60),
}
each = pytest.mark.parametrize("name", POLICIES)
SETS = np.random.default_rng(1).normal(size=(2000, 4, 2)) / 3


def play(agent: Agent, until: int) -> None:
    """Decide and observe; every fifth user does not answer."""
    while agent.decisions < until:
        number = agent.decisions
        decision = agent.act(None if agent._runner.arms is not None else SETS[number])
        if number % 5:
            agent.observe(decision.id, float(number % 3 == 0))


@pytest.mark.often(of=lambda name, commits: commits in (1, 3) or (name == "GLM-JDP" and commits == 2))
@each
@pytest.mark.parametrize("commits", [1, 2, 3, 5])
def test_after_a_crash_between_two_answers_the_written_ones_are_used(
    name: str, commits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, rounds = POLICIES[name]
    agent = Agent(policy=bd.make(name, **arguments), test=True, seed=2)
    play(agent, rounds // 3)
    agent.save(tmp_path / "agent")
    genuine, left = AgentRunner.commit, [commits]

    def commit(self: AgentRunner, *how: Any) -> Any:
        progress = genuine(self, *how)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return progress

    with monkeypatch.context() as patch:
        patch.setattr(AgentRunner, "commit", commit)
        with suppress(KeyboardInterrupt):
            play(agent, rounds)
    before = agent._runner.journals.entries()
    again = Agent.load(tmp_path / "agent")
    found = again._runner.journals.entries()
    encoded = again._encoding.dumps
    assert encoded([e.release for e in found]) == encoded([e.release for e in before])
    play(again, max(rounds, again.decisions + 20))
    again.close()
    after = again._runner.journals.entries()
    assert encoded([e.release for e in after[: len(before)]]) == encoded([e.release for e in before])
    assert len({(e.task, e.batch) for e in after}) == len(after) >= len(before)
    assert again.ledger.spent() <= again.policy.guarantee.epsilon * (1 + 1e-6)


@each
def test_an_interrupt_between_two_answers_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, rounds = POLICIES[name]
    whole, agent = (Agent(policy=bd.make(name, **arguments), test=True, seed=2) for _ in range(2))
    play(whole, rounds)
    genuine, count = AgentRunner.commit, [0]

    def commit(self: AgentRunner, *how: Any) -> Any:
        progress = genuine(self, *how)
        count[0] += 1
        if count[0] % 2:
            raise KeyboardInterrupt
        return progress

    monkeypatch.setattr(AgentRunner, "commit", commit)
    while agent.decisions < rounds:
        try:
            play(agent, rounds)
        except KeyboardInterrupt:
            continue
    encoded = agent._encoding.dumps
    assert encoded(agent._runner.progress.note()) == encoded(whole._runner.progress.note())
    assert count[0] > 1


def test_what_a_batch_is_asked_is_one_price() -> None:
    arguments, rounds = POLICIES["GLM-SDP"]
    agent = Agent(policy=bd.make("GLM-SDP", **arguments), test=True, seed=0)
    play(agent, rounds)
    entries = agent._runner.journals.entries()
    assert [entry.task for entry in entries] == ["agent"] * len(entries)
    for entry in entries:
        assert isinstance(entry.event, CompositionEvent)
        assert len(entry.event.events) == len(entry.release[0]) == agent.policy.steps + 1
    assert agent.ledger.spent() <= 20.0


def test_everybody_pays_for_what_is_asked_about_everybody() -> None:
    arguments, _ = POLICIES["GLM-JDP"]
    agent = Agent(policy=bd.make("GLM-JDP", **arguments | {"horizon": 400}), test=True, seed=0)
    play(agent, 400)
    tasks = {entry.task for entry in agent._runner.journals.entries()}
    for group in ("explored", "rest"):  # all calls that were paid for are made
        assert sum(group in task for task in tasks) == CONSTANTS.steps * 2
    assert agent.ledger.spent() == pytest.approx(agent.policy.guarantee.epsilon, rel=1e-6)


def test_kept_rows_are_those_that_are_there_now(tmp_path: Path) -> None:
    policy = bd.make("GLM-UCB", dim=2, horizon=60)
    whole, begun = (bd.Agent(policy=policy, test=True, seed=3) for _ in range(2))
    play(whole, 40)
    play(begun, 20)
    begun.save(tmp_path / "agent")
    again = bd.Agent.load(tmp_path / "agent")
    play(again, 40)
    assert again._runner.now.snapshot.theta.tolist() == whole._runner.now.snapshot.theta.tolist()
    runner = again._runner
    assert list(runner.kept) == sorted(runner.kept)
    assert len(runner.kept) > 20
    last, name = max(runner.kept), runner.policy.execution.retained_groups[0]
    before = runner.kept_rows_with(last, runner.kept[last]).kept[name]
    assert [part.rewards.tolist() for part in before] == [rows.rewards.tolist() for rows in runner.kept.values()]
    other = replace(runner.kept[0], rewards=np.array([0.25]))
    runner.kept[0] = other
    after = runner.kept_rows_with(last, runner.kept[last]).kept[name]
    assert after[0].rewards.tolist() == [0.25]
    assert [part.rewards.tolist() for part in after[1:]] == [part.rewards.tolist() for part in before[1:]]


@pytest.mark.parametrize("name", ["AdaC-OFUL-JDP", "GLM-JDP", "GLM-SDP"])
def test_a_loaded_policy_goes_on_with_its_joint_price(name: str, tmp_path: Path) -> None:
    arguments, rounds = POLICIES[name]
    agent = Agent(policy=bd.make(name, **arguments), test=True, seed=2)
    play(agent, rounds // 2)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.policy == agent.policy
    play(again, rounds)
    events = [entry.event for entry in again._runner.journals.entries()]
    assert {type(part) for event in events for part in getattr(event, "events", (event,))} == {RecordEvent}
    assert again.ledger.spent() <= again.policy.guarantee.epsilon * (1 + 1e-6)
