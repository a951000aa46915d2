"""Saving and loading: nothing is lost, nothing is noised twice, whatever is loaded and whoever was killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import Schedule
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make_encoding
from bandanna.privacy.stores.sqlite import SQLiteStore

from ..trouble import in_a_fork
from .stepping import act_each

ENCODING = make_encoding()

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # rewards are late on purpose

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
POLICIES: dict[str, Any] = {
    "none": {},
    "central-blt": {"privacy": bd.central(**BUDGET)},
    "central-tree": {"privacy": bd.central(**BUDGET, mechanism="tree"), "growing": True},
    "local": {"privacy": bd.local(**BUDGET, participations=2)},
    "shuffle": {"privacy": bd.shuffle(**BUDGET)},
    "shuffle-gaussian": {"privacy": bd.shuffle(**BUDGET, protocol="gaussian")},
    "concurrent": {"privacy": bd.concurrent(**BUDGET, shufflers=2), "horizon": 64},
    "geometric": {"privacy": bd.shuffle(**BUDGET), "batch": bd.policies.geometric(first=4, ratio=1.5)},
}
each = pytest.mark.parametrize("name", [*POLICIES, "anytime"])
SETS = np.random.default_rng(0).normal(size=(200, 3, 2)) / 3
REWARDS = np.random.default_rng(1).uniform(-0.2, 1.2, size=200)


@cache
def policy(name: str = "local") -> Any:
    """A small policy."""
    if name == "anytime":
        return Anytime(first=bd.LinUCB(dim=2, horizon=8, batch=4, privacy=bd.central(**BUDGET)))
    return bd.LinUCB(**{"dim": 2, "horizon": 60, "batch": 4, "privacy": bd.none(), **POLICIES[name]})


def play(agent: Agent, count: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Decide for so many users, most of whom answer at once and some later; everything that can be seen of it."""
    seen, waiting = [], []
    for i in range(agent.decisions, agent.decisions + count):
        decision = agent.act(SETS[i], user=f"user {i}")
        seen.append((decision, agent.releases))
        if (i + seed) % 3:
            seen.append(agent.observe(decision.id, REWARDS[i]))
        else:
            waiting.append((decision.id, REWARDS[i]))
        if len(waiting) > 2:
            seen.append(agent.observe(*waiting.pop(0)))
    return [*seen, agent.late, agent.missing, agent.clipped]


def journal(path: Path) -> list[Any]:
    """The entries of a save's journal."""
    return SQLiteStore(f"{path}.journal", create=False, encoding=ENCODING).entries()


def same(one: Any, other: Any) -> bool:
    """Equal values, arrays bit for bit."""
    return ENCODING.dumps(one) == ENCODING.dumps(other)


# Without loss


@pytest.mark.often(when=lambda name, grace: grace == 6 or name in ("central-blt", "shuffle"))
@each
@pytest.mark.parametrize("grace", [0, 6])
def test_an_interrupted_run_is_an_uninterrupted_one(name: str, grace: int, tmp_path: Path) -> None:
    whole = Agent(policy=policy(name), grace=grace, test=True, seed=4)
    parts = Agent(policy=policy(name), grace=grace, test=True, seed=4)
    expected = [play(whole, count) for count in (10, 1, 17, 22)]
    got = [play(parts, 10)]
    for count in (1, 17, 22):
        parts.save(tmp_path / "agent")
        parts = Agent.load(tmp_path / "agent")
        got.append(play(parts, count))
    assert got == expected
    assert same(parts._runner.progress.state, whole._runner.progress.state)
    assert parts.guarantee == whole.guarantee
    if whole.ledger is not None:
        assert parts.ledger.spent() == whole.ledger.spent()
        assert same([one.release for one in parts.ledger.releases], [one.release for one in whole.ledger.releases])


@each
def test_a_loaded_agent_equals_the_saved_one(name: str, tmp_path: Path) -> None:
    agent = Agent(policy=policy(name), grace=3, test=True, seed=4)
    play(agent, 21)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.policy == agent.policy
    assert again._runner.now.batch == agent._runner.now.batch
    assert same(again._runner.slots.to_columns(), agent._runner.slots.to_columns())
    assert repr(again) == repr(agent)
    for name_ in ("late", "missing", "clipped", "decisions", "releases"):
        assert getattr(again, name_) == getattr(agent, name_)


def test_a_decision_from_before_the_save_is_answered_once(tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    decisions = agent.act_many(SETS[:3], users=list("abc"))
    agent.observe(decisions[0].id, 1.0)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.observe(decisions[1].id, 1.0)
    with pytest.raises(InvalidArgument, match="without a reward"):
        again.observe(decisions[0].id, 1.0)
    with pytest.raises(BudgetExceeded, match="in batch 0 already"):
        again.act(SETS[0], user="a")


def test_a_lost_decision_is_nobody_elses(tmp_path: Path) -> None:
    agent = Agent(policy=policy("none"))
    agent.save(tmp_path / "agent")
    lost = agent.act(SETS[0])
    again = Agent.load(tmp_path / "agent")
    other = again.act(SETS[1])
    assert lost.id.split("-")[0] == other.id.split("-")[0]
    assert not again.observe(lost.id, 1.0)
    assert again.late == 1
    assert again.observe(other.id, 0.0)


def test_calibration_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=policy("central-blt"), test=True, seed=0)
    play(agent, 9)
    agent.save(tmp_path / "agent")
    monkeypatch.setattr("bandanna.policies.linear.base.running_sum_protocol_for", lambda *_, **__: 1 / 0)
    again = Agent.load(tmp_path / "agent")
    assert again.policy._channel == agent.policy._channel
    play(again, 9)


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    for _ in range(2):
        agent.save(tmp_path / "agent")
    assert sorted(os.listdir(tmp_path))[:2] == ["agent", "agent.journal"]
    for name in os.listdir(tmp_path):
        assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600


def test_no_file_holds_a_user_id(tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    act_each(agent, SETS[:5], users=[f"ann{i}@example.org" for i in range(5)])
    agent.save(tmp_path / "agent")
    assert all(b"example.org" not in (tmp_path / name).read_bytes() for name in os.listdir(tmp_path))


def test_a_closed_agent_stays_closed(tmp_path: Path) -> None:
    agent = Agent(policy=policy("none"))
    act_each(agent, SETS[:5])
    agent.close()
    agent.save(tmp_path / "agent")
    with pytest.raises(BandannaError, match="closed"):
        Agent.load(tmp_path / "agent").act(SETS[0])


# Released once


@each
def test_an_older_save_never_noises_again(name: str, tmp_path: Path) -> None:
    if name == "none":
        return  # nothing is noised
    agent = Agent(policy=policy(name))
    play(agent, 6)
    agent.save(tmp_path / "agent")
    play(agent, 21)  # goes on, and is killed
    released, spent = journal(tmp_path / "agent"), agent.ledger.spent()
    assert len(released) == agent.releases > 2
    again = Agent.load(tmp_path / "agent")
    assert again.releases == agent.releases
    assert again.decisions == again._runner.now.batch.begin
    assert same(again._runner.progress.state, agent._runner.progress.state)
    assert again.ledger.spent() == spent
    play(again, 20, seed=1)
    after = journal(tmp_path / "agent")
    assert same([e.release for e in after[: len(released)]], [e.release for e in released])
    assert [e.batch for e in after] == [str(i) for i in range(len(after))]
    assert len(after) == again.releases > len(released)
    assert again.ledger.spent() <= again.guarantee.epsilon * (1 + 1e-6)


def test_open_slots_of_released_batches_are_closed(tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"), grace=2)
    decisions = act_each(agent, SETS[:6])
    agent.save(tmp_path / "agent")
    agent.act(SETS[6])
    again = Agent.load(tmp_path / "agent")
    assert not again.observe(decisions[0].id, 1.0)
    assert again.observe(decisions[4].id, 1.0)
    assert (again.releases, again.decisions, again.late) == (1, 6, 1)


def test_users_of_released_batches_are_remembered(tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"))
    agent.save(tmp_path / "agent")
    act_each(agent, SETS[:5], users=list("abcde"))
    again = Agent.load(tmp_path / "agent")
    with pytest.raises(BudgetExceeded, match="taken part 1"):
        again.act(SETS[0], user="a")
    again.act(SETS[0], user="e")  # was in no released batch


def test_two_processes_cannot_both_release(tmp_path: Path) -> None:
    Agent(policy=policy("shuffle")).save(tmp_path / "agent")
    first, second = Agent.load(tmp_path / "agent"), Agent.load(tmp_path / "agent")
    act_each(first, SETS[:5])
    act_each(second, SETS[100:104])
    with pytest.raises(ConflictingRelease, match="another process"):
        second.act(SETS[0])
    assert (second.releases, second.decisions, len(journal(tmp_path / "agent"))) == (0, 4, 1)
    with pytest.raises(ConflictingRelease):
        second.save(tmp_path / "elsewhere")
    again = Agent.load(tmp_path / "agent")
    act_each(again, SETS[:5])
    assert again.releases == 2


def test_every_save_has_a_journal(tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"))
    act_each(agent, SETS[:5])
    agent.save(tmp_path / "one")
    act_each(agent, SETS[5:9])
    agent.save(tmp_path / "two")
    act_each(agent, SETS[9:13])
    one, two = journal(tmp_path / "one"), journal(tmp_path / "two")
    assert same([e.release for e in one], [e.release for e in two])
    assert len(one) == 3
    again = Agent.load(tmp_path / "one")
    assert again.releases == 3
    act_each(again, SETS[12:17])
    assert len(journal(tmp_path / "two")) == 4  # they know each other
    with pytest.raises(ConflictingRelease):
        act_each(agent, SETS[13:17])
    (tmp_path / "two.journal").unlink()
    assert Agent.load(tmp_path / "one").releases == 4


def test_a_journal_that_lags_behind_is_brought_up(tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"))
    agent.save(tmp_path / "one")
    agent.save(tmp_path / "two")
    behind = (tmp_path / "two.journal").read_bytes()
    act_each(agent, SETS[:5])
    (tmp_path / "two.journal").write_bytes(behind)  # as if it had not been written
    again = Agent.load(tmp_path / "two")
    assert again.releases == 1
    assert same([e.release for e in journal(tmp_path / "two")], [e.release for e in journal(tmp_path / "one")])


def test_the_journal_of_another_agent_is_refused(tmp_path: Path) -> None:
    Agent(policy=policy("shuffle")).save(tmp_path / "one")
    other = Agent(policy=policy("shuffle"))
    with pytest.raises(BandannaError, match="another agent"):
        other.save(tmp_path / "one")
    other.save(tmp_path / "two")
    os.replace(tmp_path / "two.journal", tmp_path / "one.journal")
    with pytest.raises(BandannaError, match="another agent"):
        Agent.load(tmp_path / "one")


def test_without_its_journal_a_save_is_not_loaded(tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"))
    agent.save(tmp_path / "agent")
    act_each(agent, SETS[:5])
    before = (tmp_path / "agent.journal").read_bytes()
    act_each(agent, SETS[5:9])
    agent.save(tmp_path / "agent")
    (tmp_path / "agent.journal").write_bytes(before)
    with pytest.raises(BandannaError, match="lacks releases"):
        Agent.load(tmp_path / "agent")
    (tmp_path / "agent.journal").unlink()
    with pytest.raises(BandannaError, match="journal does not exist"):
        Agent.load(tmp_path / "agent")
    Agent(policy=policy("none")).save(tmp_path / "plain")
    assert not (tmp_path / "plain.journal").exists()
    Agent.load(tmp_path / "plain")


# Damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: "", "not a save"),
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: text.replace('"grace"', '"Grace"'), "damaged"),
        (lambda text: text.split("\n")[0], "damaged"),
        (lambda text: text.replace('"version": 1', '"version": 99'), "format 99"),
        (lambda text: "# a letter\n", "not a save"),
        (lambda text: "[1, 2]\n", "not a save"),
        (lambda text: json.dumps({"format": "bandanna result"}) + "\n", "not a save"),
        (lambda text: b"\xff\xfe\x00", "not a save"),
    ],
)
def test_damaged_and_foreign_files_are_refused(damage: Any, message: str, tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    agent.save(tmp_path / "agent")
    changed = damage((tmp_path / "agent").read_text())
    (tmp_path / "agent").write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(BandannaError, match=message):
        Agent.load(tmp_path / "agent")
    with pytest.raises(BandannaError, match="cannot be read"):
        Agent.load(tmp_path / "nowhere")


def test_a_save_with_unknown_parts_is_refused(tmp_path: Path) -> None:
    content = '{"dict": [["policy", {"kind": "TomorrowsPolicy", "fields": {}}]]}'
    header = {"format": "bandanna agent", "version": 1, "sha256": hashlib.sha256(content.encode()).hexdigest()}
    (tmp_path / "agent").write_text(json.dumps(header) + "\n" + content + "\n")
    with pytest.raises(BandannaError, match="TomorrowsPolicy"):
        Agent.load(tmp_path / "agent")


@pytest.mark.parametrize("keep", [0, 100, 9000])
def test_a_journal_that_was_cut_off_is_refused(keep: int, tmp_path: Path) -> None:
    agent = Agent(policy=policy("shuffle"))
    act_each(agent, SETS[:41])
    agent.save(tmp_path / "agent")
    whole = (tmp_path / "agent.journal").read_bytes()
    assert len(whole) > 9000
    (tmp_path / "agent.journal").write_bytes(whole[:keep])
    with pytest.raises(BandannaError, match="journal"):
        Agent.load(tmp_path / "agent")


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=policy("none"))
    agent.save(tmp_path / "agent")
    agent.act(SETS[0])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BandannaError, match="No space left"):
            agent.save(tmp_path / "agent")
    assert os.listdir(tmp_path) == ["agent"]
    assert Agent.load(tmp_path / "agent").decisions == 0
    with pytest.raises(BandannaError, match="cannot be"):
        agent.save(tmp_path / "no folder" / "agent")


class Odd(Schedule):
    """A schedule of somebody's own."""

    def sizes(self, horizon: int) -> tuple[int, ...]:
        """One, three."""
        return (1, 3)


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    agent = Agent(policy=bd.LinUCB(dim=2, horizon=4, batch=Odd(), privacy=bd.local(**BUDGET)))
    agent.act_many(SETS[:3])
    with pytest.raises(InvalidArgument, match="Odd"):
        agent.save(tmp_path / "agent")
    assert os.listdir(tmp_path) == []


# Processes and threads

CHILD = """
import sys, numpy as np, bandanna as bd
from bandanna.agent.agent import Agent
path, privacy = sys.argv[1], {"central": bd.central, "shuffle": bd.shuffle}[sys.argv[2]]
agent = Agent(policy=bd.LinUCB(dim=2, horizon=8000, batch=4, privacy=privacy(epsilon=1.0, delta=1e-5)))
agent.save(path)
sets = np.random.default_rng(0).normal(size=(1000, 3, 2)) / 3
for i in range(8000):
    decision = agent.act(sets[i % 1000])
    agent.observe(decision.id, 1.0)
    if i % 37 == 0:
        agent.save(path)
    print(agent.releases, flush=True)
"""


@pytest.mark.parametrize("model", ["central", pytest.param("shuffle", marks=pytest.mark.full)])
def test_after_a_kill_the_journal_holds_every_release_that_was_used(model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path / "agent"), model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        used = 0
        while used < 25 and (line := child.stdout.readline()):
            used = int(line)
        child.kill()  # SIGKILL, wherever it is now
        rest, said = child.communicate()
    assert child.returncode == -signal.SIGKILL, said
    used = max([used, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))])
    agent = Agent.load(tmp_path / "agent")
    before = journal(tmp_path / "agent")
    assert agent.releases == len(before) >= used
    assert all(entry.release is not None for entry in before)
    released = [entry.release[0].total for entry in before]
    np.testing.assert_array_equal(
        agent._runner.progress.state.total, released[-1] if model == "central" else sum(released)
    )
    act_each(agent, SETS[:9])
    after = journal(tmp_path / "agent")
    assert len(after) >= len(before) + 2
    assert same([e.release for e in after[: len(before)]], [e.release for e in before])
    assert agent.ledger.spent() <= 1.0 + 1e-9


def test_a_forked_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=policy())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BandannaError, match="process"):
        agent.act(SETS[0], user="a")


@pytest.mark.parametrize("saved", [False, True])
def test_a_fork_while_a_thread_is_at_work(saved: bool, tmp_path: Path) -> None:
    agent = Agent(policy=policy())
    if saved:
        agent.save(tmp_path / "agent")
    decision = agent.act(SETS[0], user="a")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with agent._runner.lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        refused = in_a_fork(
            lambda: agent.act(SETS[1], user="b"),
            lambda: agent.act_many(SETS[1:3], users=["b", "c"]),
            lambda: agent.observe(decision.id, 1.0),
            lambda: agent.recommend(SETS[0]),
            lambda: agent.save(tmp_path / "other"),
            agent.close,
            lambda: agent.ledger,
        )
        told = in_a_fork(
            lambda: repr(agent),
            lambda: (agent.decisions, agent.releases, agent.late, agent.missing, agent.clipped),
            lambda: (agent.policy, agent.guarantee),
        )
    finally:
        done.set()
        holder.join()
    assert refused == ["BandannaError"] * 7
    assert told == ["done"] * 3
    assert agent.observe(decision.id, 1.0)
    assert not (tmp_path / "other").exists()


def test_threads_share_an_agent_and_release_each_batch_once(tmp_path: Path) -> None:
    agent = Agent(policy=bd.LinUCB(dim=2, horizon=400, batch=10, privacy=bd.shuffle(**BUDGET)), grace=5)
    ids: list[str] = []

    def work(thread: int) -> None:
        for i in range(50):
            decision = agent.act(SETS[i], user=f"{thread} {i}")
            ids.append(decision.id)
            agent.observe(decision.id, 1.0)
            if i % 20 == 0:
                agent.save(tmp_path / "agent")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == agent.decisions == 200
    agent.close()
    assert agent.releases == len(journal(tmp_path / "agent")) == 20
    assert agent.late == agent.missing  # who was overtaken by five others


@bd.stored_as("Nameless")
@dataclass(frozen=True)
class Nameless:
    """What a policy below knows, which its `init` does not say."""

    inner: Any


@bd.stored_as("Silent")
class Silent(LinUCB):
    """A policy of one's own whose types are not told."""

    def init(self, arms=None, replicates=()):  # type: ignore[no-untyped-def]
        """No word about what it returns."""
        return Nameless(super().init(arms, replicates))

    def episode(self, state: Any) -> Any:
        """As always."""
        return super().episode(state.inner)

    def publish(self, state: Any) -> Any:
        """As always."""
        return super().publish(state.inner)

    def learn(self, state: Any, episode: Any) -> Any:
        """As always."""
        return Nameless((yield from super().learn(state.inner, episode)))


def test_a_state_that_cannot_be_saved_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match=r"Silent.init is annotated with its state"):
        Agent(policy=Silent(dim=2, horizon=20, batch=5, privacy=bd.none()))


@pytest.mark.parametrize("names", [["a", "b"], [10, 20], [0.5, 1.5]], ids=str)
def test_names_from_an_array_can_be_saved(names: list[Any], tmp_path: Path) -> None:
    policy = bd.make("DP-SE", n_arms=2, horizon=100, epsilon=1.0)
    Agent(policy=policy, arms=list(np.array(names))).save(tmp_path / "named.agent")
    assert Agent.load(tmp_path / "named.agent").arms == tuple(names)
