"""Releases inside the visitor's call, in the background, or by hand; and what an agent says about the next one."""

from __future__ import annotations

import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent, BackgroundWorker
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import BandannaError, ConflictingRelease, HorizonReached, InvalidArgument
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.registry import make_encoding
from bandanna.privacy.stores.sqlite import SQLiteStore

from ..policies.conformance.own_policy import Greedy
from ..trouble import Disk, Failure, Interrupt, Signal
from .stepping import act_each

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # rewards are late on purpose


BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(60, 3, 2)) / 4


def policy(**changes: Any) -> bd.LinUCB:
    """Batches of ten."""
    return bd.LinUCB(**{"dim": 2, "horizon": 60, "batch": 10, "privacy": bd.shuffle(**BUDGET), **changes})


def wait_for(what: Any) -> None:
    """Until it is true; a test that waits for a minute has failed."""
    end = time.monotonic() + 600
    while not what():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_manual_batches_are_released_by_release_due_only() -> None:
    agent = Agent(policy=policy(), release="manual", test=True, seed=0)
    ids = [agent.act(arms).id for arms in SETS[:25]]
    assert agent.releases == 0
    assert agent.observe(ids[3], 1.0)  # late rewards still count
    assert agent.release_due()
    assert (agent.releases, agent.decisions) == (2, 25)
    assert not agent.release_due()
    assert not agent.observe(ids[4], 1.0)
    assert agent.observe(ids[24], 1.0)


def test_by_hand_is_as_at_once() -> None:
    at_once, by_hand = (Agent(policy=policy(), release=how, test=True, seed=3) for how in ("now", "manual"))
    for arms in SETS[:21]:
        by_hand.release_due()
        one, other = at_once.act(arms), by_hand.act(arms)
        assert one == other
        assert at_once.observe(one.id, 0.5) == by_hand.observe(other.id, 0.5)
    np.testing.assert_array_equal(at_once.theta, by_hand.theta)
    assert at_once.ledger.spent() == by_hand.ledger.spent()


def test_in_the_background_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=policy(), release="background", test=True, seed=0)
    drawing, go_on = threading.Event(), threading.Event()
    genuine = FastNoise.binomial

    def slow(self: Any, **how: Any) -> Any:
        drawing.set()
        assert go_on.wait(600)
        return genuine(self, **how)

    monkeypatch.setattr(FastNoise, "binomial", slow)
    before = agent.theta
    agent.act_many(SETS[:10])
    agent.act(SETS[10])  # from here on the first batch is due
    assert drawing.wait(600)
    for arms in SETS[11:15]:  # answered while the noise of the first batch is drawn
        assert agent.observe(agent.act(arms).id, 1.0)
    assert agent.releases == 0
    np.testing.assert_array_equal(agent.theta, before)
    go_on.set()
    wait_for(lambda: agent.releases == 1)
    assert agent.decisions == 15
    assert not np.array_equal(agent.theta, before)


def test_trouble_in_the_background_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=policy(), release="background", test=True, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(FastNoise, "binomial", lambda *_, **__: 1 / 0)
        agent.act_many(SETS[:10])
        agent.act(SETS[10])
        wait_for(lambda: agent._background._failure is not None)
    with pytest.raises(BandannaError, match="background has failed"):
        agent.act(SETS[11])
    wait_for(lambda: agent.releases == 1)
    agent.act(SETS[11])
    assert agent.decisions == 12


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("HIV positive"), r"ValueError in line \d+ of test_release_modes.py"),
        (OSError("disk full"), "disk full"),
    ],
)
def test_trouble_in_the_background_shows_no_value(error: Exception, told: str) -> None:

    class Owner:
        def work(self) -> None:
            raise error

    owner = Owner()
    background = BackgroundWorker(owner.work)
    background.once()
    with pytest.raises(BandannaError, match=rf"background has failed: {told}$"):
        background.check()


def test_a_background_ends_with_its_agent() -> None:
    agent = Agent(policy=policy(), release="background", test=True, seed=0)
    thread = agent._background._thread
    del agent
    thread.join(timeout=600)
    assert not thread.is_alive()


@pytest.mark.parametrize("name", ["AdaC-UCB", "LDP-UCB", "SDP-SE"])
def test_an_episode_that_depends_on_the_last_waits_for_it(name: str) -> None:
    budget = {"AdaC-UCB": {"rho": 1.0}, "LDP-UCB": {"epsilon": 1.0}, "SDP-SE": BUDGET}[name]
    agent = Agent(policy=bd.make(name, n_arms=2, horizon=5_000, **budget), grace=3, test=True, seed=0)
    length = agent.next_release - 3
    decisions = [agent.act() for _ in range(length + 3)]
    assert agent.next_release == 0
    assert [agent.observe(each.id, 1.0) for each in decisions[-4:]] == [True, False, False, False]
    assert agent.act().episode == 1
    assert (agent.releases > 0, agent.late, agent._runner.beside) == (True, 3, 3)


def test_the_horizon_is_an_error_of_its_own() -> None:
    agent = Agent(policy=bd.policies.UCB1(n_arms=2, horizon=5), arms=["left", "right"])
    for _ in range(5):
        agent.observe(agent.act().id, 1.0)
    with pytest.raises(HorizonReached, match="at most 5"):
        agent.act()
    assert agent.decisions == 5
    assert agent.recommend() in ("left", "right")


def test_a_recommendation_is_greedy_unless_asked() -> None:
    agent = Agent(
        policy=bd.LinUCB(dim=2, horizon=60, batch=10, confidence="lemma", privacy=bd.none())
    )  # which explores more
    for _ in range(11):
        agent.observe(agent.act([[1.0, 0.0], [1.0, 0.0]]).id, 1.0)  # nothing is known of the second feature
    arms = {"known": [1.0, 0.0], "new": [0.3, 0.9]}
    assert agent.recommend(arms) == "known"
    assert agent.recommend(arms, explore=True) == "new"


def test_what_comes_next_is_public() -> None:
    agent = Agent(policy=policy(), grace=4, test=True, seed=0)
    assert agent.next_release == 14
    agent.act_many(SETS[:13])
    assert agent.next_release == 1
    act_each(agent, SETS[:2])
    assert (agent.releases, agent.next_release) == (1, 9)
    np.testing.assert_array_equal(agent.theta, agent.snapshot.theta)
    assert Agent(policy=bd.policies.UCB1(n_arms=2, horizon=5)).theta is None


def test_arms_without_features_have_names() -> None:
    agent = Agent(policy=bd.policies.UCB1(n_arms=3, horizon=50), arms=["a", "b", "c"])
    assert {agent.act().arm for _ in range(3)} == {"a", "b", "c"}
    assert Agent(policy=bd.policies.UCB1(n_arms=3, horizon=50)).act().arm == 0
    for wrong in (["a", "b"], ["a", "a", "b"], "abcd"):
        with pytest.raises(InvalidArgument, match="3 different names"):
            Agent(policy=bd.policies.UCB1(n_arms=3, horizon=50), arms=wrong)
    with pytest.raises(InvalidArgument, match="contexts"):
        agent.act([[1.0], [2.0]])
    with pytest.raises(InvalidArgument, match="contexts"):
        Agent(policy=bd.LinUCB(dim=2, horizon=5, privacy=bd.none())).act()


def test_arms_that_stay_need_no_contexts() -> None:
    arms = {"tea": [1.0, 0.0], "coffee": [0.0, 1.0]}
    agent = Agent(policy=bd.LinUCB(dim=2, horizon=20, privacy=bd.none()), arms=arms)
    assert {agent.act().arm for _ in range(20)} <= set(arms)
    with pytest.raises(InvalidArgument, match="arms"):
        Agent(policy=bd.policies.GOPE(dim=2, horizon=20, privacy=bd.none()))


@bd.stored_as("Tosses")
class Tosses(Greedy):
    """Says nothing about recommendations, and explores in half of all cases."""

    best = bd.Policy.best

    def act(self, snapshot: Any, contexts: Any, coins: Any) -> bd.device.Choice:
        """Any arm where a coin is small."""
        liked = np.argmax(contexts @ snapshot, axis=1)
        tossed = coins.uniform((len(contexts),), "whether") < 0.5
        chances = np.where(tossed, 0.1, 0.9)
        return bd.device.Choice(actions=np.where(tossed, 0, liked), probabilities=chances)


def test_without_best_the_most_likely_arm_is_recommended() -> None:
    policy = Tosses(dim=2, horizon=100, batch=10, privacy=bd.none())
    agent = Agent(policy=policy, test=True, seed=0)
    for _ in range(11):
        decision = agent.act([[1.0, 0.0], [0.0, 1.0]])
        agent.observe(decision.id, float(decision.arm == 1))
    for number in range(20):
        arms = np.random.default_rng(number).permuted([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], axis=0)
        assert agent.recommend(arms) == int(np.argmax(arms @ agent.snapshot))


@pytest.mark.parametrize("how", ["manual", "now"])
@pytest.mark.parametrize("key", ["LinUCB-SDP-Vec", "SDP-SE"])
def test_two_threads_release_a_batch_once(how: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread closes a batch while one draws, the first one's noise is dropped: the batch has one release."""
    ours = policy() if key.startswith("Lin") else bd.make(key, n_arms=2, horizon=2000, failure=0.5, **BUDGET)
    agent, drawing, go_on = Agent(policy=ours, release=how), threading.Event(), threading.Event()
    batch = agent.next_release
    assert batch is not None
    agent.act_many(SETS[:batch] if key.startswith("Lin") else batch)
    genuine, drawn = SecureNoise.binomial, [0]

    def slow(self: Any, **how: Any) -> Any:
        found, drawn[0] = genuine(self, **how), drawn[0] + 1
        if threading.current_thread() is not threading.main_thread() and drawn[0] >= (
            1 if key.startswith("Lin") else 2
        ):
            drawing.set()
            assert go_on.wait(600)
        return found

    monkeypatch.setattr(SecureNoise, "binomial", slow)
    thread = threading.Thread(target=agent.release_due)
    thread.start()
    assert drawing.wait(600)
    if how == "now":
        agent.act(*([SETS[20]] if key.startswith("Lin") else []))
    else:
        agent.close()
    released, snapshot = agent.releases, agent._encoding.dumps(agent._runner.progress.note())
    go_on.set()
    thread.join()
    assert drawn[0] == (2 if key.startswith("Lin") else 3)  # the thread's, which was dropped, and ours
    assert agent.releases == released == 1
    assert agent._encoding.dumps(agent._runner.progress.note()) == snapshot


def test_what_the_horizon_cuts_short_is_not_announced() -> None:
    agent = Agent(policy=bd.make("AdaC-UCB", n_arms=3, horizon=60, rho=1.0), test=True, seed=0)
    while agent.next_release is not None:
        agent.act_many(max(1, agent.next_release))
    assert agent.decisions < 60
    agent.close()
    assert agent.next_release is None
    assert Agent(policy=bd.policies.UCB1(n_arms=2, horizon=5)).next_release == 1


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (np.zeros(1), "a Choice"),
        (bd.device.Choice(actions=np.array([-1]), probabilities=np.ones(1)), "0 to 1"),
        (bd.device.Choice(actions=np.array([2]), probabilities=np.ones(1)), "0 to 1"),
        (bd.device.Choice(actions=np.array([0]), probabilities=np.array([2.0])), r"in \(0, 1\]"),
        (bd.device.Choice(actions=np.array([0]), probabilities=np.array([np.nan])), r"in \(0, 1\]"),
        (bd.device.Choice(actions=np.array([0.0]), probabilities=np.ones(1)), "integers"),
    ],
)
def test_a_choice_that_is_none_is_refused(choice: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(policy=Greedy(dim=2, horizon=100, batch=10, privacy=bd.none()))
    monkeypatch.setattr(Greedy, "act", lambda *_: choice)
    with pytest.raises(InvalidArgument, match=told):
        agent.act(np.eye(2))
    assert agent.decisions == 0


# Interrupts and failing disks: whatever a call was doing, the agent reads what its journal says and goes on


ENCODING = make_encoding()


SETS_INTERRUPTS = np.random.default_rng(0).normal(size=(64, 3, 2)) / 3
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


def policy_interrupts(name: str) -> Any:
    """Calibrated once: what an agent changes is not in its policy."""
    return _MADE.setdefault(name, POLICIES[name]())


class Run:
    """An agent whose calls are interrupted, beside one whose calls are not."""

    def __init__(self, name: str, paths: Sequence[Path] = ()) -> None:
        self.agent, self.whole = (Agent(policy=policy_interrupts(name), grace=1, test=True, seed=7) for _ in range(2))
        self.paths = paths
        for path in paths:
            self.agent.save(path)
        self.waiting: list[str] = []

    def step(self, trouble: Any) -> bool:
        """One decision and an earlier one's reward; whether there was trouble. The caller does nothing about it."""
        number = self.whole.decisions
        context, user = SETS_INTERRUPTS[number % len(SETS_INTERRUPTS)], f"user {number}"
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


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are on the disk that can fail."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Disk))


@pytest.mark.usefixtures("disk")
@pytest.mark.often(when=lambda name, saved: saved == (name not in ("local", "none")))
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(("name", "first"), [(name, place) for place, name in enumerate(POLICIES, start=1)])
def test_an_agent_goes_on_after_an_interrupt_at_any_line(name: str, first: int, saved: bool, tmp_path: Path) -> None:
    run = Run(name, [tmp_path / "agent"] * saved)
    assert sweep(run, Interrupt, first=first, stride=83) > 250


@pytest.mark.usefixtures("disk")
@pytest.mark.full
@pytest.mark.parametrize("journals", [0, 1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_an_interrupt_at_every_line(name: str, journals: int, tmp_path: Path) -> None:
    assert sweep(Run(name, [tmp_path / f"agent {number}" for number in range(journals)]), Interrupt) > 250


OFTEN = {("local", "after"), ("shuffle", "gone")}


@pytest.mark.usefixtures("disk")
@pytest.mark.often(when=lambda name, how: name == "central" or (name, how) in OFTEN)
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


@pytest.mark.usefixtures("disk")
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


@pytest.mark.usefixtures("disk")
def test_another_process_is_no_interruption(tmp_path: Path) -> None:
    run = Run("local", [tmp_path / "agent"])
    for _ in range(3):
        run.step(nullcontext())
    second = Agent.load(tmp_path / "agent")
    with pytest.raises(KeyboardInterrupt), Interrupt(60):
        run.agent.act(SETS_INTERRUPTS[3], user="x")  # releases nothing
    act_each(second, SETS_INTERRUPTS[:4], users=list("abcd"))
    assert (second.releases, run.agent.releases) == (1, 0)
    with pytest.raises(ConflictingRelease, match="another process"):
        run.agent.act(SETS_INTERRUPTS[3], user="x")
    assert (run.agent.decisions, run.agent.releases) == (3, 0)
