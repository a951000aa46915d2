"""Where an agent's files are: planted links, wrong modes, interrupted first saves, places that can only be read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.errors import BandannaError
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.storage import files

from .stepping import act_each

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(60, 3, 2)) / 3


def agent_of(privacy: Any = None, **rest: Any) -> Agent:
    """A small one."""
    return Agent(policy=bd.LinUCB(dim=2, horizon=60, batch=4, privacy=privacy or bd.shuffle(**BUDGET)), **rest)


@pytest.mark.parametrize("end", [".journal", ".journal-journal"])
def test_a_planted_link_is_not_followed(end: str, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / f"agent{end}").symlink_to(tmp_path / "victim")
    with pytest.raises(BandannaError, match=f"agent{end} is a symbolic link"):
        agent_of().save(tmp_path / "agent")
    assert (tmp_path / "victim").read_bytes() == b""
    assert not (tmp_path / "agent").exists()
    agent_of().save(tmp_path / "real")
    for name in ("agent.journal", "agent.journal-journal"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "agent").symlink_to(tmp_path / "real")
    (tmp_path / "agent.journal").symlink_to(tmp_path / "real.journal")
    with pytest.raises(BandannaError, match="agent is a symbolic link"):
        Agent.load(tmp_path / "agent")
    (tmp_path / "agent").unlink()
    os.replace(tmp_path / "real", tmp_path / "agent")
    with pytest.raises(BandannaError, match=r"agent\.journal is a symbolic link"):
        Agent.load(tmp_path / "agent")


def test_a_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "short").symlink_to(tmp_path / "real")
    agent = agent_of()
    agent.save(tmp_path / "real" / "agent")
    agent.save(tmp_path / "short" / "agent")
    act_each(agent, SETS[:5])
    assert Agent.load(tmp_path / "short" / "agent").releases == 1


def test_files_that_others_can_read_are_closed_to_them(tmp_path: Path) -> None:
    agent = agent_of()
    agent.save(tmp_path / "agent")
    names = "agent", "agent.journal", "agent.journal-journal"
    for name in names:
        (tmp_path / name).chmod(0o666)
    Agent.load(tmp_path / "agent")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names] == [0o600] * 3
    (tmp_path / "agent.journal").chmod(0o666)
    SQLiteStore(tmp_path / "agent.journal")
    assert stat.S_IMODE((tmp_path / "agent.journal").stat().st_mode) == 0o600


def test_a_journal_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_of().save(tmp_path / "agent")
    (tmp_path / "agent.journal").chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BandannaError, match=r"agent\.journal belongs to another user"):
        Agent.load(tmp_path / "agent")


@pytest.mark.parametrize("released", [0, 2])
def test_an_interrupted_first_save_blocks_nothing(
    released: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of()
    act_each(agent, SETS[: 4 * released + 1])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_private_file", killed)
        with pytest.raises(KeyboardInterrupt):
            agent.save(tmp_path / "agent")
    assert (tmp_path / "agent.journal").exists()
    other = agent_of()  # a new process has a new agent
    act_each(other, SETS[:9])
    other.save(tmp_path / "agent")
    act_each(other, SETS[9:13])
    assert Agent.load(tmp_path / "agent").releases == other.releases == 3
    with pytest.raises(BandannaError, match="another"):  # the first one was declared dead
        act_each(agent, SETS[20:24])
    with pytest.raises(BandannaError, match="another"):
        agent.save(tmp_path / "agent")


def test_an_agent_can_be_saved_after_an_interrupted_first_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agent.save(tmp_path / "agent")
    act_each(agent, SETS[:5])
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").releases == 1
    with pytest.raises(BandannaError, match="another agent"):
        agent_of().save(tmp_path / "agent")


def test_a_lost_save_is_not_an_interrupted_one(tmp_path: Path) -> None:
    agent = agent_of()
    agent.save(tmp_path / "agent")
    os.replace(tmp_path / "agent", tmp_path / "moved")
    with pytest.raises(BandannaError, match="another agent"):
        agent_of().save(tmp_path / "agent")
    with pytest.raises(BandannaError, match="belongs to a save with a promise"):
        agent_of(bd.none()).save(tmp_path / "agent")


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place is read-only, for whoever asks the operating system, also for root."""
    genuine, asked = os.open, os.access

    def guarded(name: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(30, "Read-only file system")
        return genuine(name, flags, *rest, **named)

    monkeypatch.setattr(os, "open", guarded)
    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK and asked(name, mode))


def test_on_a_read_only_disk_an_agent_loads_and_refuses_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of()
    act_each(agent, SETS[:9])
    agent.save(tmp_path / "agent")
    act_each(agent, SETS[9:13])
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    read_only(monkeypatch)
    again = Agent.load(tmp_path / "agent")
    assert again.recommend(SETS[0]) == agent.recommend(SETS[0])
    assert (again.releases, again.ledger.spent()) == (3, agent.ledger.spent())
    act_each(again, SETS[13:16])
    with pytest.raises(BandannaError, match=r"can only be read.*nothing was released or spent"):
        act_each(again, SETS[16:20])
    assert (again.releases, again.decisions) == (3, 16)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    with pytest.raises(BandannaError, match="agent"):
        again.save(tmp_path / "agent")


def test_a_ledger_in_a_read_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = bd.Ledger(budget=bd.privacy.ApproxDP(**BUDGET), store=bd.privacy.SQLiteStore(tmp_path / "l"))
    event = bd.privacy.events.GaussianEvent(std=8.0, sensitivity=1.0, grid=0.1)
    ledger.release(event, task="t", batch=1, data=b"1", draw=lambda: 2.5)
    read_only(monkeypatch)
    store = bd.privacy.SQLiteStore(tmp_path / "l")
    assert bd.Ledger(budget=bd.privacy.ApproxDP(**BUDGET), store=store).spent() == ledger.spent()
    assert store.find("t", "1").release == (2.5,)
    with pytest.raises(BandannaError, match="can only be read"):
        bd.Ledger(budget=bd.privacy.ApproxDP(**BUDGET), store=store).release(
            event, task="t", batch=2, data=b"2", draw=lambda: 1.0
        )


def test_a_half_release_in_a_read_only_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of()
    act_each(agent, SETS[:9])
    agent.save(tmp_path / "agent")
    sql = next(iter(agent._runner.journals._files.values()))._sql
    sql.execute("pragma cache_size = 1")
    sql.execute("begin immediate")
    sql.execute("update members set member = member || 'x'")
    sql.execute("update meta set value = value || zeroblob(9000)")  # spills pages, after syncing the rollback journal
    hot = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    sql.execute("rollback")
    assert hot["agent.journal"] != (tmp_path / "agent.journal").read_bytes()
    (tmp_path / "copy").mkdir()
    for name, content in hot.items():
        (tmp_path / "copy" / name).write_bytes(content)
        (tmp_path / "copy" / name).chmod(0o600)
    with monkeypatch.context() as patch:
        read_only(patch)
        with pytest.raises(BandannaError, match=r"agent\.journal"):
            Agent.load(tmp_path / "copy" / "agent")
    assert Agent.load(tmp_path / "copy" / "agent").releases == agent.releases
