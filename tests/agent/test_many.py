"""`act_many` and `observe_many`: a batch that fills inside a call takes the rewards of that call."""

from __future__ import annotations

import threading
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.preflight import continue_streams
from bandanna.agent.runner import AgentRunner
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, LateRewardWarning
from bandanna.numeric.rng import Streams
from bandanna.policies.base import FixedLength
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.policies.registry import make_encoding
from bandanna.privacy import accountant, calibration_cache, factorisation
from bandanna.privacy.events import CompositionEvent, ContinualEvent, RecordEvent, unwrap_record
from bandanna.privacy.factorisation import BLT, use_factorisations

from ..policies.conformance.catalogue import CASES

ENCODING = make_encoding()

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
TRUSTS = {
    "none": bd.none(),
    "central": bd.central(**BUDGET),
    "local": bd.local(**BUDGET),
    "shuffle": bd.shuffle(**BUDGET),
}
each_trust = pytest.mark.parametrize("trust", TRUSTS)

# the arms of their next episode, or its length, follow from what they learn
ADAPTIVE = {
    "UCB1", "LDP-UCB", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "SDP-SE", "GOPE", "AdaC-GOPE",
    "AdaC-GOPE-early", "RS-OFUL", "AdaC-OFUL", "PE",
}  # fmt: skip
POPULATIONS = {"DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU"}  # clients answer, not users


def sets(users: int, seed: int = 0, arms: int = 4, dim: int = 3) -> NDArray[np.float64]:
    """Contexts of some users."""
    return np.random.default_rng(seed).normal(size=(users, arms, dim)) / 4


def linear(trust: str = "central", **changes: Any) -> bd.LinTS:
    """Batches of ten."""
    return bd.LinTS(**{"dim": 3, "horizon": 200, "batch": 10, "privacy": TRUSTS[trust], **changes})


def contexts_for(agent: Agent, users: int, seed: int) -> Any:
    """What `act_many` takes."""
    fixed, policy, rng = agent._runner.arms, agent.policy, np.random.default_rng(seed)
    if fixed is not None:
        return rng.normal(size=(users, policy.features)) / 5 if fixed.of_users else users  # type: ignore[attr-defined]
    drawn = rng.normal(size=(users, 4, policy.dim)) / 5  # type: ignore[attr-defined]
    drawn[..., -1] = np.where(getattr(policy, "intercept", False), 0.5, drawn[..., -1])
    return drawn


def agent_for(name: str, **how: Any) -> Agent:
    """Of the catalogue, for tests; arms that stay are given where the policy plans with them."""
    case = CASES[name]
    world, arms = case.env.begin(Streams([1])), None
    if isinstance(case.env, bd.environments.Population):
        arms = world.arms[0]  # type: ignore[attr-defined]
    elif isinstance(case.policy, bd.policies.GOPE):
        arms = world.contexts(0, 1)[0, 0]
    return Agent(policy=case.policy, arms=arms, test=True, seed=0, **how)


# Rewards of a call


@pytest.mark.parametrize("grace", [0, 7])
@each_trust
def test_every_reward_of_a_call_is_kept(trust: str, grace: int) -> None:
    agent = Agent(policy=linear(trust), grace=grace, test=True, seed=0)
    for call, users in enumerate((35, 5, 60, 1, 49)):
        kept = agent.observe_many(agent.act_many(sets(users, call)), [0.5] * users)
        assert kept == [True] * users
    agent.close()
    assert (agent.decisions, agent.releases, agent.late, agent.missing) == (150, 15, 0, 0)


def test_the_rewards_of_a_first_large_call_are_kept() -> None:
    agent = Agent(policy=bd.LinTS(dim=3, horizon=5_000, privacy=TRUSTS["central"]), test=True, seed=0)
    kept = [agent.observe(decision.id, 0.5) for decision in agent.act_many(sets(1_000))]
    assert sum(kept) == 1_000
    assert agent.releases == 0
    agent.act(sets(1)[0])
    assert (agent.releases > 1, agent.late, agent.missing) == (True, 0, 0)


@pytest.mark.parametrize("name", sorted(set(CASES) - ADAPTIVE - POPULATIONS))
def test_policies_with_a_public_schedule_keep_every_reward(name: str) -> None:
    agent, rounds = agent_for(name), CASES[name].rounds
    for call in range(rounds // 25):
        decisions = agent.act_many(contexts_for(agent, 25, call))
        assert all(agent.observe_many(decisions, np.random.default_rng(call).random(25)))
    agent.close()
    assert (agent.decisions, agent._runner.beside, agent.missing) == (rounds - rounds % 25, 0, 0)


@pytest.mark.parametrize("name", sorted(ADAPTIVE))
def test_adaptive_policies_keep_the_rewards_of_the_running_batch(name: str) -> None:
    """A call of at most `next_release` users keeps every reward; users beyond that are in no batch, and no zeros are
    learned for them.
    """
    agent, kept, asked, rounds = agent_for(name), 0, 0, min(CASES[name].rounds, 900)
    for call in range(40):
        count = min(max(1, agent.next_release or 1), rounds - agent.decisions)
        if count < 1:
            break
        decisions = agent.act_many(contexts_for(agent, count, call))
        kept, asked = kept + sum(agent.observe_many(decisions, [0.5] * count)), asked + count
    assert (kept, agent.missing, agent._runner.beside) == (asked, 0, 0)
    wide = agent_for(name)
    for call in range(3):
        decisions = wide.act_many(contexts_for(wide, 25, call))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LateRewardWarning)
            inside = sum(wide.observe_many(decisions, [0.5] * 25))
        assert inside >= 1
    assert (wide.missing, wide.late) == (0, wide._runner.beside)


def test_a_call_with_every_reward_learns_as_much_as_single_decisions() -> None:
    """With calls of 1,000 users the mean reward after the first call is that of single decisions, within 5 %.

    LinTS without noise, horizon 5,000; seeded, so that the test gives the same answer in every run.
    """
    theta, means = np.array([0.8, -0.4, 0.2]), {}
    for size in (1, 1_000):
        agent, rng, total = (
            Agent(policy=bd.LinTS(dim=3, horizon=5_000, privacy=bd.none()), test=True, seed=1),
            None,
            0.0,
        )
        rng = np.random.default_rng(5)
        for begin in range(0, 5_000, size):
            contexts = rng.uniform(-0.57, 0.57, size=(size, 4, 3))
            decisions = agent.act_many(contexts)
            chances = 0.5 + contexts[np.arange(size), [each.arm for each in decisions]] @ theta
            total += chances.sum() * (begin >= 1_000)
            agent.observe_many(decisions, (rng.random(size) < chances).astype(float))
        means[size] = total / 4_000
    assert means[1_000] > 0.95 * means[1] > 0.6


# One by one


@pytest.mark.parametrize("name", sorted(set(CASES) - POPULATIONS))
def test_a_call_for_one_user_is_an_act(name: str) -> None:
    one, many = agent_for(name), agent_for(name)
    for number in range(30):
        given = contexts_for(one, 1, number)
        first = one.act() if isinstance(given, int) else one.act(given[0])
        (second,) = many.act_many(given)
        assert (first.id, first.arm, first.episode) == (second.id, second.arm, second.episode)
        if number % 3:
            assert [one.observe(first, 0.5)] == many.observe_many([second], [0.5])
    encoded = one._encoding.dumps
    assert encoded(one._runner.progress.note()) == encoded(many._runner.progress.note())


# Who answers decides nothing


@each_trust
def test_batches_depend_on_decisions_and_calls_alone(trust: str) -> None:
    histories = []
    for answers in ("all", "none", "some"):
        agent, seen = Agent(policy=linear(trust), test=True, seed=0), []
        for call, users in enumerate((13, 1, 24, 2, 30)):
            decisions = agent.act_many(sets(users, call))
            seen.append((agent.releases, agent.next_release, [each.episode for each in decisions]))
            told = {"all": decisions, "none": [], "some": decisions[::3]}[answers]
            agent.observe_many(told, [1.0] * len(told))
            seen.append((agent.releases, agent.next_release))
        histories.append(seen)
    assert histories[0] == histories[1] == histories[2]


# observe_many


def test_observe_many_keeps_all_or_refuses_all() -> None:
    agent = Agent(policy=linear(), test=True, seed=0)
    decisions = agent.act_many(sets(4))
    ids = [each.id for each in decisions]
    with pytest.raises(InvalidArgument, match=r"4 numbers, .* got 3"):
        agent.observe_many(decisions, [1.0] * 3)
    with pytest.raises(InvalidStatistic, match=r"rewards\[2\]"):
        agent.observe_many(decisions, [1.0, 1.0, np.nan, 1.0])
    with pytest.raises(InvalidArgument, match=r"decisions\[0\]"):
        agent.observe_many([ids[1], ids[0], ids[1]], [1.0] * 3)
    with pytest.raises(InvalidStatistic, match=r"decisions\[1\]"):
        agent.observe_many([ids[0], "what"], [1.0] * 2)
    assert agent.observe(ids[3], 0.0)
    with pytest.raises(InvalidArgument, match=r"decisions\[3\] .*The first reward is kept"):
        agent.observe_many(ids, [1.0] * 4)
    assert agent.observe_many([decisions[0], *ids[1:3]], np.array([1.0, 0.0, 0.5])) == [True] * 3
    assert agent.observe_many([], []) == []


def test_observe_many_learns_what_observe_learns() -> None:
    one, many = (Agent(policy=linear(), test=True, seed=0) for _ in range(2))
    rewards = np.random.default_rng(1).random(25)
    for decision, reward in zip(one.act_many(sets(25)), rewards, strict=True):
        one.observe(decision.id, reward)
    many.observe_many(many.act_many(sets(25))[::-1], rewards[::-1])
    for agent in (one, many):
        agent.close()
    np.testing.assert_array_equal(one._runner.progress.state.total, many._runner.progress.state.total)


def test_the_first_late_reward_is_warned_of_once() -> None:
    agent = Agent(policy=linear(), grace=3, test=True, seed=0)
    decisions = agent.act_many(sets(13))
    agent.act(sets(1)[0])
    with pytest.warns(LateRewardWarning, match=r"grace = 3\).*agent\.late") as said:
        assert not agent.observe(decisions[0], 1.0)
    assert said[0].filename == __file__
    assert agent.observe_many(decisions[8:], [1.0] * 5) == [False] * 2 + [True] * 3  # warnings are errors here
    assert agent.late == 3
    other = Agent(policy=linear(), test=True, seed=0)
    decisions = other.act_many(sets(10))
    other.act(sets(1)[0])
    with pytest.warns(LateRewardWarning, match="grace = 0") as said:
        assert other.observe_many(decisions[:2], [1.0] * 2) == [False] * 2
    assert said[0].filename == __file__


def test_a_decision_in_no_batch_is_warned_of() -> None:
    agent = Agent(policy=bd.make("AdaC-UCB", n_arms=3, horizon=500, rho=1.0), test=True, seed=0)
    decisions = agent.act_many(20)
    with pytest.warns(LateRewardWarning, match=r"grace = 0.* 19 in no batch.*next_release"):
        assert agent.observe_many(decisions, [1.0] * 20) == [True] + [False] * 19


# Saves, crashes, threads


@each_trust
def test_a_full_batch_is_saved_open(trust: str, tmp_path: Path) -> None:
    whole = Agent(policy=linear(trust), test=True, seed=0)
    decisions, rewards = whole.act_many(sets(25)), np.random.default_rng(2).random(25)
    whole.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    del whole
    assert again.observe_many(decisions, rewards) == [True] * 25
    again.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    with pytest.raises(InvalidArgument, match="The first reward is kept"):
        again.observe_many(decisions, rewards)
    again.act_many(sets(2))
    assert (again.releases, again.missing, again.decisions) == (2, 0, 27)
    straight = Agent(policy=linear(trust), test=True, seed=0)
    straight.observe_many(straight.act_many(sets(25)), rewards)
    straight.act_many(sets(2))
    assert ENCODING.dumps(again._runner.progress.note()) == ENCODING.dumps(straight._runner.progress.note())


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_a_crash_after_the_release_releases_nothing_again(trust: str, tmp_path: Path) -> None:
    agent = Agent(policy=linear(trust))  # ids of a seeded agent come again
    agent.save(tmp_path / "agent")
    decisions = agent.act_many(sets(25))
    agent.observe_many(decisions, [1.0] * 25)
    (last,) = agent.act_many(sets(1))
    released = [(entry.batch, entry.release) for entry in agent._runner.ledger.store.entries()]
    again = Agent.load(tmp_path / "agent")
    assert ENCODING.dumps([(e.batch, e.release) for e in again._runner.ledger.store.entries()]) == ENCODING.dumps(
        released
    )
    assert (again.releases, again.decisions) == (2, 20)
    new = again.act_many(sets(15))
    with pytest.warns(LateRewardWarning):
        assert again.observe_many([*decisions, last], [1.0] * 26) == [False] * 26
    assert again.observe_many(new, [1.0] * 15) == [True] * 15
    again.act_many(sets(1))
    assert [entry.batch for entry in again._runner.ledger.store.entries()] == ["0", "1", "2"]


def test_in_the_background_a_call_may_be_answered() -> None:
    agent = Agent(policy=linear(), release="background", test=True, seed=0)
    decisions = agent.act_many(sets(25))
    agent._background.wake()  # type: ignore[union-attr]
    agent._release_closed()
    assert agent.observe_many(decisions, [1.0] * 25) == [True] * 25
    assert agent.releases == 0
    agent.act_many(sets(3))
    end = time.monotonic() + 600
    while agent.releases < 2 and time.monotonic() < end:
        time.sleep(0.002)
    assert (agent.releases, agent.missing) == (2, 0)


def test_by_hand_a_call_may_be_answered() -> None:
    agent = Agent(policy=linear(), release="manual", test=True, seed=0)
    decisions = agent.act_many(sets(25))
    agent.act_many(sets(8))
    assert agent.observe_many(decisions, [1.0] * 25) == [True] * 25
    assert agent.release_due()
    assert (agent.releases, agent.missing) == (3, 5)


def test_threads_that_decide_for_many_lose_no_decision() -> None:
    agent, failed = Agent(policy=linear(horizon=2_000), grace=1_000, test=True, seed=0), []

    def work(seed: int) -> None:
        for call in range(10):
            decisions = agent.act_many(sets(15, 10 * seed + call))
            if not all(agent.observe_many(decisions, [0.5] * 15)):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (agent.decisions, agent.late, failed) == (600, 0, [])


# Policies that learn after every round


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].policy.execution.learns_every_round])
def test_every_round_is_an_episode_of_one_user(name: str) -> None:
    agent = agent_for(name)
    for number in range(12):
        given = contexts_for(agent, 1, number)
        agent.observe(agent.act() if isinstance(given, int) else agent.act(given[0]), 0.5)
        agent.release_due()
        assert agent.policy.episode(agent._runner.progress.state) == FixedLength(number=number + 1, users=1)


@pytest.mark.parametrize("name", ["Thompson", "GLM-UCB", "GLOC", "ECOLog", "RS-GLinUCB", "GLM-JDP"])
def test_rounds_wait_for_late_rewards(name: str, tmp_path: Path) -> None:
    """With a grace of 3 such a policy learns from every decision, also from one whose reward comes 3 visitors later,
    and goes on after a save.
    """
    agent, waiting = agent_for(name, grace=3), []
    for number in range(30):
        given = contexts_for(agent, 1, number)
        waiting.append(agent.act() if isinstance(given, int) else agent.act(given[0]))
        if len(waiting) > 3:
            assert agent.observe(waiting.pop(0), 0.5)
        if number in (2, 17):
            agent.save(tmp_path / "agent")
            agent = Agent.load(tmp_path / "agent")
    assert (agent.releases, agent.missing, agent._runner.beside) == (26, 0, 0)


# Policies that ask more than once about an episode, or about users of before: one answer for each, at its price


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


@pytest.mark.often(when=lambda name, commits: commits in (1, 3) or (name == "GLM-JDP" and commits == 2))
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


# A save that is moved: on another processor searches end in other digits, and a stream has one noise all the same


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From the call on, the search for factorisations ends as on another machine."""
    genuine = factorisation.search_blt

    def search(horizon: int, buffers: int) -> Any:
        theta, theta_hat = genuine(horizon, buffers)
        return tuple(each * (1 - 1e-10) for each in theta), tuple(each * (1 - 1e-9) for each in theta_hat)

    def move() -> None:
        monkeypatch.setattr(factorisation, "search_blt", search)
        monkeypatch.setenv("BANDANNA_CACHE", "")
        calibration_cache.clear_memory()

    yield move
    calibration_cache.clear_memory()


def streams(agent: Agent) -> set[Any]:
    """The factorisations of all that was released."""
    events = [entry.event for entry in agent._runner.journals.entries()]
    atoms = [unwrap_record(atom) for event in events for atom in accountant.count_atoms(event)]
    return {atom.factorisation for atom in atoms if isinstance(atom, ContinualEvent)}


@pytest.mark.parametrize("name", ["AdaC-OFUL-JDP", "GLM-JDP"])
def test_a_stream_goes_on_with_its_own_noise(name: str, tmp_path: Path, elsewhere: Any) -> None:
    arguments, rounds = POLICIES[name]
    agent = Agent(policy=bd.make(name, **arguments), test=True, seed=2)
    play(agent, rounds // 2)
    agent.save(tmp_path / "agent")
    (used,) = streams(agent)
    elsewhere()
    assert BLT.optimal(horizon=used.horizon) != used
    again = Agent.load(tmp_path / "agent")
    before = again.releases
    play(again, rounds)
    assert again.releases > before
    assert streams(again) == {used}
    assert again.ledger.spent() <= again.policy.guarantee.epsilon * (1 + 1e-6)


def test_half_a_stream_of_another_noise_is_refused() -> None:
    policy = bd.make("AdaC-OFUL-JDP", **POLICIES["AdaC-OFUL-JDP"][0])
    one = unwrap_record(policy.matrix.event)
    blt_ = one.factorisation
    moved = replace(one, factorisation=replace(blt_, theta=tuple(each * (1 - 1e-10) for each in blt_.theta)))
    assert continue_streams(policy, [one, one]) is policy
    for other in (moved, replace(one, std=one.std * (1 + 1e-15))):
        with pytest.raises(BandannaError, match="no price"):
            continue_streams(policy, [one, other])


def test_a_stream_that_was_begun_is_believed_inside_alone() -> None:
    found = BLT.optimal(horizon=50)
    other = BLT(horizon=50, theta=(0.9, 0.5), theta_hat=(0.7, 0.2))
    with use_factorisations([other]):
        assert BLT.optimal(horizon=50) is other
        assert BLT.optimal(horizon=50, buffers=1).buffers == 1
        assert BLT.optimal(horizon=51).horizon == 51
    assert BLT.optimal(horizon=50) == found
