"""Journals of agents: whose they are, which noise they go on with, what else is in them; and who is one user."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.preflight import calibrations_by_phase
from bandanna.errors import BandannaError, BudgetExceeded
from bandanna.policies.linear import base
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.registry import make_save_format
from bandanna.privacy.events import GaussianEvent
from bandanna.protocols import running_sum

from .stepping import act_each

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(200, 3, 2)) / 3


def policy(**changes: Any) -> bd.LinUCB:
    """A small policy."""
    return bd.LinUCB(**{"dim": 2, "horizon": 60, "batch": 4, "privacy": bd.shuffle(**BUDGET), **changes})


def search_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibration finds other noise than before, within the budget, as another version or machine may."""
    genuine, less = running_sum.running_sum_protocol_for, bd.privacy.ApproxDP(epsilon=0.99, delta=1e-5)
    monkeypatch.setattr(
        base, "running_sum_protocol_for", lambda privacy, **rest: genuine(replace(privacy, budget=less), **rest)
    )


@pytest.mark.parametrize("resaved", [False, True])
def test_a_stream_goes_on_with_its_own_noise(resaved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash, a phase that began since the save goes on with noise that was searched anew.

    A stream of which one half is C x + z and the other C' x + z' has no price.
    """
    agent = Agent(policy=Anytime(first=policy(horizon=8, batch=2, privacy=bd.central(**BUDGET))))
    agent.save(tmp_path / "agent")
    act_each(agent, SETS[:15])  # 4 batches of phase 0, 3 of the 8 of phase 1
    if resaved:
        agent.save(tmp_path / "other")
        act_each(agent, SETS[15:37])  # into phase 2
    before = agent.policy.phase(agent._runner.progress.state.phase)._channel
    search_elsewhere(monkeypatch)
    again = Agent.load(tmp_path / "agent")
    assert again.policy.phase(agent._runner.progress.state.phase)._channel == before
    act_each(again, SETS[40:45])
    events = [entry.event for entry in again._runner.ledger.store.entries()]
    assert len(set(events)) == (3 if resaved else 2)
    assert len(events) == again.releases == agent.releases + 2


@pytest.mark.parametrize(("edited", "message"), [("calibrations", "other noise"), ("policy", "another policy, budget")])
def test_a_journal_of_other_noise_is_refused(edited: str, message: str, tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    agent.save(tmp_path / "agent")
    act_each(agent, SETS[:5])
    changed = policy(privacy=bd.shuffle(epsilon=0.9, delta=1e-5))
    Agent(policy=changed)
    content = make_save_format().read(tmp_path / "agent") | {"calibrations": calibrations_by_phase(changed)}
    content |= {"policy": changed} if edited == "policy" else {}
    (tmp_path / "agent").write_text(make_save_format().text_of(content))
    with pytest.raises(BandannaError, match=message):
        Agent.load(tmp_path / "agent")


def test_equally_long_phases_are_streams_of_their_own(tmp_path: Path) -> None:
    schedule = bd.policies.geometric(first=4, ratio=3)
    run = Anytime(first=policy(horizon=4, batch=schedule, privacy=bd.central(**BUDGET)))
    assert [len(run.phase(j)._channel.sizes) for j in range(4)] == [1, 1, 2, 2]
    agent = Agent(policy=run)
    act_each(agent, SETS[:60])
    assert agent.releases == 5
    assert agent.ledger.spent() <= 1.0
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    again.act(SETS[60])
    assert again.releases == 6


def test_two_names_of_one_journal(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    agent = Agent(policy=policy())
    agent.save(tmp_path / "real" / "agent")
    agent.save(tmp_path / "link" / "agent")
    act_each(agent, SETS[:5])
    assert Agent.load(tmp_path / "link" / "agent").releases == agent.releases == 1


def test_a_second_path_that_another_agent_has_taken(tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    agent.save(tmp_path / "one")
    agent.save(tmp_path / "two")
    act_each(agent, SETS[:5])
    for name in ("two", "two.journal"):
        (tmp_path / name).unlink()
    Agent(policy=policy()).save(tmp_path / "two")
    assert Agent.load(tmp_path / "one").releases == 1
    assert Agent.load(tmp_path / "two").releases == 0


def test_releases_of_other_tasks_are_not_batches_of_the_agent(tmp_path: Path) -> None:
    agent = Agent(policy=policy(privacy=bd.shuffle(epsilon=0.5, delta=1e-6)))
    store = agent._runner.ledger.store
    agent.save(tmp_path / "agent")
    wider = bd.Ledger(budget=bd.privacy.ApproxDP(epsilon=9.0, delta=1e-5), store=store)
    wider.release(GaussianEvent(std=9.0, sensitivity=1.0), task="other", batch=0, data=[1.0], draw=lambda: 1.0)
    decision = agent.act_many(SETS[:2])[0]
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert (again.releases, again.decisions) == (0, 2)
    assert again.observe(decision.id, 1.0)


@pytest.mark.parametrize("privacy", [bd.local(**BUDGET), bd.shuffle(**BUDGET), bd.central(**BUDGET)])
def test_the_guarantee_says_that_the_process_sees_everything(privacy: bd.protocols.Privacy) -> None:
    run = policy(privacy=privacy)
    agent, rehearsal = Agent(policy=run), Agent(policy=run, test=True, seed=0)
    assert "that process and its files hold all data without noise" in str(agent.guarantee)
    assert str(agent.guarantee) == str(run.guarantee)
    assert agent.guarantee == run.guarantee
    assert "anyone who knows its seed sees everything" in str(rehearsal.guarantee)
    assert "test" in repr(rehearsal)
    assert "seed" not in str(agent.guarantee)


class Name(str, Enum):  # noqa: UP042 - the older way, whose members are formatted as "Name.ANN"
    """Users, as a program may list them."""

    ANN = "ann"


def test_equal_ids_are_one_user() -> None:
    agent = Agent(policy=policy(privacy=bd.local(**BUDGET), batch=2))
    agent.act(SETS[0], user=Name.ANN)
    with pytest.raises(BudgetExceeded):
        agent.act(SETS[1], user="ann")
    agent.act(SETS[2], user="\ud800")  # half a character, as careless programs pass on
