"""Saves of before matrix and vector were priced together: they go on with the noise with which they were begun."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.accounting.events import RecordEvent
from bandanna.agent import Agent
from bandanna.agent.kinds import ENCODING
from bandanna.agent.releases import as_begun

from .test_several_asks import POLICIES, play

OLD = Path(__file__).parent / "fixtures" / "separate-prices"
each = pytest.mark.parametrize("name", ["AdaC-OFUL-JDP", "GLM-JDP", "GLM-SDP"])


@pytest.mark.parametrize("name", ["AdaC-OFUL-JDP", "GLM-JDP"])
def test_an_old_save_goes_on_with_its_noise(name: str, tmp_path: Path) -> None:
    """Half a run of one noise and half of another, a ledger that does not know its entries, or one that refuses."""
    for file in OLD.glob(f"{name}*"):
        shutil.copy(file, tmp_path / file.name)
        (tmp_path / file.name).chmod(0o600)
    arguments, rounds = POLICIES[name]
    old = Agent.load(tmp_path / name)
    before = old._loop.journals.entries()
    now = bd.make(name, **arguments, pricing="separate")  # its search may end in other digits than on that machine
    fresh = Agent(policy=as_begun(now, [entry.event for entry in before]), test=True, seed=2)
    assert old.policy == fresh.policy
    for agent in (old, fresh):
        play(agent, rounds)
    encoded, entries = old._encoding.dumps, old._loop.journals.entries()
    assert len(entries) > len(before) > 0
    assert encoded([entry.event for entry in entries]) == encoded(
        [entry.event for entry in fresh._loop.journals.entries()]
    )
    assert encoded(old._loop.progress.note()) == encoded(fresh._loop.progress.note())
    assert "RecordEvent" not in encoded([entry.event for entry in entries])
    assert old.ledger.spent() <= old.policy.guarantee.epsilon * (1 + 1e-6)


@each
def test_a_new_save_says_how_it_is_priced(name: str, tmp_path: Path) -> None:
    """A policy of now would be read as one of before, and have other noise after it was saved."""
    arguments, rounds = POLICIES[name]
    agent = Agent(policy=bd.make(name, **arguments), test=True, seed=2)
    play(agent, rounds // 2)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.policy == agent.policy
    assert again.policy.pricing == "joint"  # type: ignore[attr-defined]
    play(again, rounds)
    kinds = {type(event) for entry in again._loop.journals.entries() for event in _parts(entry.event)}
    assert kinds == {RecordEvent}
    assert again.ledger.spent() <= again.policy.guarantee.epsilon * (1 + 1e-6)
    stripped = ENCODING.dumps(agent.policy).replace(',"pricing":"joint"', "")
    assert ENCODING.loads(stripped) == bd.make(name, **arguments, pricing="separate")


def _parts(event: Any) -> Any:
    return getattr(event, "events", (event,))
