"""Journals of agents: whose they are, which noise they go on with, what else is in them; and who is one user."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.episodes import EpisodeSpan, OpenSlots, Slot, slot_count_of_member
from bandanna.agent.preflight import calibrations_by_phase
from bandanna.errors import BandannaError, BudgetExceeded
from bandanna.policies.base import FixedLength
from bandanna.policies.linear import base
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.registry import make_encoding, make_save_format
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.protocols import running_sum
from bandanna.storage import files

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


# Where an agent's files are: planted links, wrong modes, interrupted first saves, places that can only be read


SETS_PLACES = np.random.default_rng(0).normal(size=(60, 3, 2)) / 3


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
    act_each(agent, SETS_PLACES[:5])
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
    act_each(agent, SETS_PLACES[: 4 * released + 1])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_private_file", killed)
        with pytest.raises(KeyboardInterrupt):
            agent.save(tmp_path / "agent")
    assert (tmp_path / "agent.journal").exists()
    other = agent_of()  # a new process has a new agent
    act_each(other, SETS_PLACES[:9])
    other.save(tmp_path / "agent")
    act_each(other, SETS_PLACES[9:13])
    assert Agent.load(tmp_path / "agent").releases == other.releases == 3
    with pytest.raises(BandannaError, match="another"):  # the first one was declared dead
        act_each(agent, SETS_PLACES[20:24])
    with pytest.raises(BandannaError, match="another"):
        agent.save(tmp_path / "agent")


def test_an_agent_can_be_saved_after_an_interrupted_first_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agent.save(tmp_path / "agent")
    act_each(agent, SETS_PLACES[:5])
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
    act_each(agent, SETS_PLACES[:9])
    agent.save(tmp_path / "agent")
    act_each(agent, SETS_PLACES[9:13])
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    read_only(monkeypatch)
    again = Agent.load(tmp_path / "agent")
    assert again.recommend(SETS_PLACES[0]) == agent.recommend(SETS_PLACES[0])
    assert (again.releases, again.ledger.spent()) == (3, agent.ledger.spent())
    act_each(again, SETS_PLACES[13:16])
    with pytest.raises(BandannaError, match=r"can only be read.*nothing was released or spent"):
        act_each(again, SETS_PLACES[16:20])
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
    act_each(agent, SETS_PLACES[:9])
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


# Save, journal and rollback journal are one unit: what is lost or altered of it is noticed


ENCODING = make_encoding()

USERS = [f"user {i}" for i in range(200)]


def agent_of_unit_of_files(batch: int = 30) -> Agent:
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
    save, agent = tmp_path / "agent", agent_of_unit_of_files(batch=90)
    act_each(agent, SETS[:91], users=USERS[:91])
    agent.save(save)
    before = seen(Agent.load(save))
    states = spilled(agent, save, slice(91, 181))
    after = seen(Agent.load(save))
    assert before[0] + 1 == after[0]
    assert len(states) > 10
    refused = 0
    for written in states[::every]:
        put(save, written)
        assert seen(Agent.load(save)) in (before, after)
        put(save, {".journal": written[".journal"]})  # "move the two files together"
        found = loaded(save)
        assert found in (before, after) or "agent.journal" in found or "a batch without its members" in found
        refused += isinstance(found, str)
    assert refused > 10 // every  # pages were spilled: without the third file these states are half written


@pytest.mark.parametrize("flips", [40, pytest.param(100, marks=pytest.mark.full)])
def test_a_flipped_bit_is_noticed(flips: int, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of_unit_of_files(batch=20)
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
    save, agent = tmp_path / "agent", agent_of_unit_of_files(batch=20)
    act_each(agent, SETS[:61], users=USERS[:61])
    agent.save(save)
    sql = sqlite3.connect(f"{save}.journal", isolation_level=None)
    assert sql.execute(statement).rowcount or "table" in statement or "index" in statement
    sql.close()
    with pytest.raises(BandannaError, match=r"agent\.journal is damaged"):
        Agent.load(save)


def test_an_error_about_a_lost_file_names_it(tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of_unit_of_files()
    agent.save(save)
    (tmp_path / "agent.journal").unlink()
    with pytest.raises(BandannaError, match=r"agent\.journal does not exist.*agent.journal-journal"):
        Agent.load(save)


@pytest.mark.parametrize(
    "privacy", [bd.none(), bd.shuffle(**BUDGET, participations=3), bd.shuffle(epsilon=2.0, delta=1e-5)]
)
def test_the_budget_is_the_journals(privacy: Any, tmp_path: Path) -> None:
    save, agent = tmp_path / "agent", agent_of_unit_of_files()
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


# What a journal holds of those who took part: no more than it takes to count them


PRIVACY = bd.shuffle(epsilon=1.0, delta=1e-5)


def run(path: Path, users: list[Any] | None, batches: int, **options: Any) -> bd.Agent:
    """A saved agent after batches of 100."""
    policy = bd.LinUCB(dim=2, horizon=10_000, batch=100, privacy=options.pop("privacy", PRIVACY))
    agent = bd.Agent(policy=policy, test=True, seed=0)
    agent.save(path)
    agent.act_many(np.zeros((100 * batches, 1, 2)), users)
    agent.close()
    agent.save(path)
    return agent


def rows(path: Path, query: str) -> list[Any]:
    """Straight from the journal."""
    with closing(sqlite3.connect(f"{path}.journal")) as sql:
        return sql.execute(query).fetchall()


def test_unnamed_decisions_take_a_row_for_each_batch(tmp_path: Path) -> None:
    agent = run(tmp_path / "agent", None, batches=5)
    assert rows(tmp_path / "agent", "select count(*) from members") == [(5,)]
    assert [len(entry.members) for entry in agent._runner.journals.entries()] == [1] * 5
    assert bd.Agent.load(tmp_path / "agent").releases == 5


def test_named_users_take_32_bytes_and_are_counted_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    run(path, [f"user {i}" for i in range(200)], batches=2)
    assert rows(path, "select distinct typeof(member), length(member) from members") == [("blob", 32)]
    _refused_if_known(path)


def _refused_if_known(path: Path) -> None:
    loaded, arms = bd.Agent.load(path), np.zeros((1, 2))
    loaded._runner.over = False
    with pytest.raises(BudgetExceeded, match="has taken part 1 times"):
        loaded.act(arms, user="user 17")
    loaded.act(arms, user="user 200")


def test_a_batch_of_named_and_unnamed_users_is_saved_with_all_of_them(tmp_path: Path) -> None:
    users = [None if i % 10 < 4 else f"user {i}" for i in range(300)]
    agent = run(tmp_path / "agent", users, batches=3)
    members = [entry.members for entry in agent._runner.journals.entries()]
    assert [sum(map(slot_count_of_member, batch)) for batch in members] == [100] * 3
    assert [len(batch) for batch in members] == [60 + 10] * 3
    assert len({member for batch in members for member in batch}) == 210
    assert bd.Agent.load(tmp_path / "agent").releases == 3


def test_slots_without_a_user_stand_together() -> None:
    slots = OpenSlots(1)
    for number, user in enumerate(["a" * 64, None, None, "b" * 64, None], start=7):
        slots.record(number, Slot(batch=0, session="s", features=np.zeros(1), arm=0, group=-1, user=user))
    batch = EpisodeSpan(episode=FixedLength(number=0, users=5), begin=7, users=5)
    members = slots.members(batch)
    assert members == ["a" * 64, "slots 8-9", "b" * 64, "slots 11-11"]
    assert [slot_count_of_member(member) for member in members] == [1, 2, 1, 1]
