"""Save, journal and rollback journal are one unit: what is lost or altered of it is noticed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.preflight import calibrations_by_phase
from bandanna.errors import BandannaError
from bandanna.policies.registry import make_encoding, make_save_format

from .stepping import act_each

ENCODING = make_encoding()

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(200, 3, 2)) / 3
USERS = [f"user {i}" for i in range(200)]


def agent_of(batch: int = 30) -> Agent:
    """An agent whose batches fill several pages of its journal."""
    privacy = bd.shuffle(**BUDGET, participations=2)
    return Agent(policy=bd.LinUCB(dim=2, horizon=200, batch=batch, privacy=privacy), test=True, seed=0)


def seen(agent: Agent) -> tuple[Any, ...]:
    """Everything that a journal decides: releases, their members, the state, and how often everybody took part."""
    entries = agent._runner.journals.entries()
    return (
        agent.releases,
        ENCODING.dumps(agent._runner.progress.state),
        [(one.members, one.fingerprint) for one in entries],
    )


def loaded(save: Path) -> Any:
    """What is seen of an agent that is loaded, or why it is refused."""
    try:
        return seen(Agent.load(save))
    except BandannaError as error:
        return str(error)


def spilled(agent: Agent, save: Path, users: slice) -> list[dict[str, bytes]]:
    """The files at every statement of a release, with a cache so small that pages are written before the commit."""
    journal = next(iter(agent._runner.journals._files.values()))
    journal._sql.execute("pragma cache_size = 1")
    states: dict[tuple[bytes, ...], dict[str, bytes]] = {}

    def copy(*_: Any) -> None:
        files = {end: save.with_name(save.name + end).read_bytes() for end in (".journal", ".journal-journal")}
        states[tuple(files.values())] = files

    journal._sql.set_trace_callback(copy)
    act_each(agent, SETS[users], users=USERS[users])
    journal._sql.set_trace_callback(None)
    return list(states.values())


def put(save: Path, files: dict[str, bytes]) -> None:
    """These files and no others beside the save."""
    for end in (".journal", ".journal-journal"):
        save.with_name(save.name + end).unlink(missing_ok=True)
    for end, content in files.items():
        save.with_name(save.name + end).write_bytes(content)


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.full)])
def test_half_a_release_is_refused_after_a_crash_and_a_move(every: int, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of(batch=90)
    act_each(agent, SETS[:91], users=USERS[:91])
    agent.save(save)
    before = seen(Agent.load(save))
    states = spilled(agent, save, slice(91, 181))
    after = seen(Agent.load(save))
    assert before[0] + 1 == after[0]
    assert len(states) > 10
    refused = 0
    for files in states[::every]:
        put(save, files)
        assert seen(Agent.load(save)) in (before, after)
        put(save, {".journal": files[".journal"]})  # "move the two files together"
        found = loaded(save)
        assert found in (before, after) or "agent.journal" in found or "a batch without its members" in found
        refused += isinstance(found, str)
    assert refused > 10 // every  # pages were spilled: without the third file these states are half written


@pytest.mark.parametrize("flips", [40, pytest.param(100, marks=pytest.mark.full)])
def test_a_flipped_bit_is_noticed(flips: int, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of(batch=20)
    act_each(agent, SETS[:61], users=USERS[:61])
    agent.save(save)
    whole = (tmp_path / "agent.journal").read_bytes()
    before, rng = seen(Agent.load(save)), np.random.default_rng(0)
    for _ in range(flips):
        damaged = bytearray(whole)
        damaged[rng.integers(100, len(damaged))] ^= 1 << int(rng.integers(8))
        put(save, {".journal": bytes(damaged)})
        found = loaded(save)
        assert found == before or "agent.journal" in found


@pytest.mark.parametrize(
    "statement",
    [
        "update members set member = 'nobody' where entry = 2 and place = 3",
        "delete from members where entry = 2 and place = 19",
        "delete from members where entry = 2",
        "update entries set fingerprint = 'f' where number = 1",
        "update entries set release = null where number = 3",
        "delete from entries where number = 3",
        "update tallies set count = count - 1",
        "update events set event = replace(event, '0.5', '0.4')",
        "update meta set value = replace(value, '\"repairs\":0', '\"repairs\":1') where key = 'state'",
        "delete from meta where key = 'terms'",
        "drop index people",
        "create table more (x)",
    ],
)
def test_an_altered_row_is_noticed(statement: str, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of(batch=20)
    act_each(agent, SETS[:61], users=USERS[:61])
    agent.save(save)
    sql = sqlite3.connect(f"{save}.journal", isolation_level=None)
    assert sql.execute(statement).rowcount or "table" in statement or "index" in statement
    sql.close()
    with pytest.raises(BandannaError, match=r"agent\.journal is damaged"):
        Agent.load(save)


def test_an_error_about_a_lost_file_names_it(tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of()
    agent.save(save)
    (tmp_path / "agent.journal").unlink()
    with pytest.raises(BandannaError, match=r"agent\.journal does not exist.*agent.journal-journal"):
        Agent.load(save)


@pytest.mark.parametrize(
    "privacy", [bd.none(), bd.shuffle(**BUDGET, participations=3), bd.shuffle(epsilon=2.0, delta=1e-5)]
)
def test_the_budget_is_the_journals(privacy: Any, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of()
    agent.save(save)
    other = bd.LinUCB(dim=2, horizon=180, batch=30, privacy=privacy)
    state = other.init()
    edited = make_save_format().read(save) | {
        "policy": other,
        "calibrations": calibrations_by_phase(other),
        "state": state,
    }
    save.write_text(make_save_format().text_of(edited))
    with pytest.raises(BandannaError, match=r"agent\.journal"):
        Agent.load(save)
