"""Interrupts and failing disks: whatever a call was doing, the agent reads what its journal says and goes on."""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.errors import BandannaError, ConflictingRelease
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.registry import make_encoding
from bandanna.privacy.stores.sqlite import SQLiteStore

from ..trouble import Disk, Failure, Interrupt, Signal
from .stepping import act_each

ENCODING = make_encoding()

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # rewards are late on purpose

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(64, 3, 2)) / 3
REWARDS = np.random.default_rng(1).uniform(-0.2, 1.2, size=64)
USERS = 2  # in a batch
ROUNDS = 8000


def linucb(privacy: bd.protocols.Privacy, horizon: int = ROUNDS) -> bd.LinUCB:
    """A release after every second user."""
    return bd.LinUCB(dim=2, horizon=horizon, batch=USERS, privacy=privacy)


POLICIES: dict[str, Callable[[], Any]] = {
    "central": lambda: linucb(bd.central(**BUDGET)),
    "local": lambda: linucb(bd.local(**BUDGET)),
    "shuffle": lambda: linucb(bd.shuffle(epsilon=20.0, delta=1e-2)),  # few coins
    "concurrent": lambda: linucb(bd.concurrent(epsilon=20.0, delta=1e-2, shufflers=2)),
    "none": lambda: linucb(bd.none()),
    "anytime": lambda: Anytime(first=linucb(bd.central(**BUDGET), horizon=16)),
}
_MADE: dict[str, Any] = {}


def policy(name: str) -> Any:
    """Calibrated once: what an agent changes is not in its policy."""
    return _MADE.setdefault(name, POLICIES[name]())


class Run:
    """An agent whose calls are interrupted, beside one whose calls are not."""

    def __init__(self, name: str, paths: Sequence[Path] = ()) -> None:
        self.agent, self.whole = (Agent(policy=policy(name), grace=1, test=True, seed=7) for _ in range(2))
        self.paths = paths
        for path in paths:
            self.agent.save(path)
        self.waiting: list[str] = []

    def step(self, trouble: Any) -> bool:
        """One decision and an earlier one's reward; whether there was trouble. The caller does nothing about it."""
        number = self.whole.decisions
        context, user = SETS[number % len(SETS)], f"user {number}"
        expected = self.whole.act(context, user=user)
        try:
            with trouble:
                assert self.agent.act(context, user=user) == expected
        except KeyboardInterrupt:
            pass
        except BandannaError as cause:
            if "disk I/O error" not in str(cause):
                raise
        if self.agent.decisions == number:
            assert self.agent.act(context, user=user) == expected
        self.waiting.append(expected.id)
        if number % 5 and len(self.waiting) > 1:
            given = self.waiting.pop(0), REWARDS[number % len(REWARDS)]
            assert self.whole.observe(*given) == self.agent.observe(*given)
        self.agree()
        return bool(getattr(trouble, "fired", False))

    def agree(self) -> None:
        """Nothing was lost, drawn twice or counted otherwise."""
        one, other = self.agent, self.whole
        counts = [(a.decisions, a.releases, a.late, a.missing, a.clipped) for a in (one, other)]
        assert counts[0] == counts[1]
        assert one._runner.journals.count() == (0 if other.ledger is None else other.releases)

    def end(self) -> None:
        """States, slots, releases, what was spent, what the journals hold; and no lock is held."""
        one, other = self.agent._runner, self.whole._runner
        assert same(one.progress.note(), other.progress.note())
        assert same(one.slots.to_columns(), other.slots.to_columns())
        assert (one.slots.people, one.filling) == (other.slots.people, other.filling)
        if other.ledger is not None:
            assert one.ledger.spent() == other.ledger.spent()
            assert one.ledger.store.tasks() == other.ledger.store.tasks()
            expected = [(e.batch, e.event, e.fingerprint, e.members, e.release) for e in other.ledger.store.entries()]
            stores = [one.ledger.store, *(SQLiteStore(f"{path}.journal", encoding=ENCODING) for path in self.paths)]
            for store in stores:
                found = [(e.batch, e.event, e.fingerprint, e.members, e.release) for e in store.entries()]
                assert same(found, expected)
        beside = threading.Thread(target=self.agent.close, daemon=True)
        beside.start()
        beside.join(timeout=600)
        assert not beside.is_alive()
        assert self.agent._runner.over


def same(one: Any, other: Any) -> bool:
    """Equal values, arrays bit for bit."""
    return ENCODING.dumps(one) == ENCODING.dumps(other)


def sweep(run: Run, trouble: Callable[[int], Any], *, first: int = 1, stride: int = 1) -> int:
    """Trouble at the first place of one call, later in the next, until no call has as many places; how many have."""
    k, calm = first, 0
    while calm < 4:
        run.step(nullcontext())  # does not release
        calm = 0 if run.step(trouble(k)) else calm + 1
        k += stride
    run.end()
    return k


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are on the disk that can fail."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Disk))


@pytest.mark.often(of=lambda name, saved: saved == (name not in ("local", "none")))
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(("name", "first"), [(name, place) for place, name in enumerate(POLICIES, start=1)])
def test_an_agent_goes_on_after_an_interrupt_at_any_line(name: str, first: int, saved: bool, tmp_path: Path) -> None:
    run = Run(name, [tmp_path / "agent"] * saved)
    assert sweep(run, Interrupt, first=first, stride=83) > 250


@pytest.mark.full
@pytest.mark.parametrize("journals", [0, 1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_an_interrupt_at_every_line(name: str, journals: int, tmp_path: Path) -> None:
    assert sweep(Run(name, [tmp_path / f"agent {number}" for number in range(journals)]), Interrupt) > 250


OFTEN = {("local", "after"), ("shuffle", "gone")}


@pytest.mark.often(of=lambda name, how: name == "central" or (name, how) in OFTEN)
@pytest.mark.parametrize("how", ["before", "after", "gone"])
@pytest.mark.parametrize(("name", "journals"), [("central", 1), ("local", 1), ("shuffle", 2), ("concurrent", 2)])
def test_an_agent_goes_on_after_a_failing_statement_and_names_the_cause(
    name: str, journals: int, how: str, tmp_path: Path
) -> None:
    run = Run(name, [tmp_path / f"agent {number}" for number in range(journals)])
    assert sweep(run, partial(Failure, how)) > 12 * journals


def but_interrupts(tell: Callable[[Any], None], unraisable: Any) -> None:
    """A signal in a callback that cannot raise (Hypothesis has one for garbage collection) interrupts no call."""
    if unraisable.exc_type is not KeyboardInterrupt:
        tell(unraisable)


@pytest.mark.parametrize("name", ["central", "shuffle"])
def test_an_agent_goes_on_after_real_signals(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", partial(but_interrupts, sys.unraisablehook))
    run = Run(name, [tmp_path / "agent"])
    before = signal.getsignal(signal.SIGALRM)
    came = 0
    try:
        for k in range(60):
            run.step(nullcontext())
            came += run.step(Signal(20 + 61 * k))
    finally:
        signal.signal(signal.SIGALRM, before)
    run.step(nullcontext())
    run.end()
    assert came > 10


def test_another_process_is_no_interruption(tmp_path: Path) -> None:
    run = Run("local", [tmp_path / "agent"])
    for _ in range(3):
        run.step(nullcontext())
    second = Agent.load(tmp_path / "agent")
    with pytest.raises(KeyboardInterrupt), Interrupt(60):
        run.agent.act(SETS[3], user="x")  # releases nothing
    act_each(second, SETS[:4], users=list("abcd"))
    assert (second.releases, run.agent.releases) == (1, 0)
    with pytest.raises(ConflictingRelease, match="another process"):
        run.agent.act(SETS[3], user="x")
    assert (run.agent.decisions, run.agent.releases) == (3, 0)
