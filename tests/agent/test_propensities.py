"""Probabilities that take an integral are computed when somebody looks: the same number, whenever that is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.episodes import Decision, next_span, to_span
from bandanna.errors import InvalidArgument, SlowReleaseWarning
from bandanna.policies.linear import lints
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import central, none

company_warnings = pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")  # contexts here are huge

SETS = np.random.default_rng(0).normal(size=(40, 6, 3)) / 3


def sampler(**changes: Any) -> Agent:
    """Draws among six arms; batches of five."""
    return Agent(policy=bd.LinTS(dim=3, horizon=400, batch=5, **{"privacy": bd.none(), **changes}), test=True, seed=1)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every computation."""
    found: list[int] = []
    genuine = lints.shared_draw_probabilities

    def noted(*given: Any, **how: Any) -> Any:
        found.append(1)
        return genuine(*given, **how)

    monkeypatch.setattr(lints, "shared_draw_probabilities", noted)
    return found


def test_nobody_waits_for_a_probability(looked: list[int]) -> None:
    agent = sampler()
    decisions = [agent.act(one) for one in SETS[:5]]
    for decision in decisions:
        agent.observe(decision, 1.0)
    assert not looked
    assert 0 < decisions[3].probability <= 1
    assert decisions[3].probability == decisions[3].probability
    assert len(looked) == 1


def test_it_is_that_of_the_moment() -> None:
    agent, policy = (
        sampler(explore=bd.policies.uniform(then=0.1)),
        bd.LinTS(dim=3, horizon=400, batch=5, privacy=bd.none()),
    )
    mine = SETS[0].copy()
    late, snapshot = agent.act(mine), agent.snapshot
    action = np.array([late.arm])
    mine[:] = 0.0
    for one in SETS[1:20]:
        agent.observe(agent.act(one), 1.0)
    assert agent.releases > 0
    expected = policy.probabilities(snapshot, policy.clip_features(SETS[:1]), action)[0][0]
    assert (
        late.probability
        == expected
        != policy.probabilities(agent.snapshot, policy.clip_features(SETS[:1]), action)[0][0]
    )


def test_decisions_together_have_the_probabilities_of_single_ones(looked: list[int]) -> None:
    alone, together = sampler(), sampler()
    many = together.act_many(SETS[:5])
    one_by_one = [alone.act(one).probability for one in SETS[:5]]
    assert len(looked) == 5
    assert [decision.probability for decision in many] == one_by_one
    assert len(looked) == 6


def test_a_decision_is_a_value(looked: list[int]) -> None:
    one, two = sampler().act(SETS[0]), sampler().act(SETS[0])
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one) == dataclasses.replace(one)
    assert dataclasses.asdict(one)["probability"] == one.probability
    assert set(vars(one)) == {"id", "arm", "probability", "episode"}  # no features are kept any more
    assert (one == two, hash(one) == hash(two), repr(one) == repr(two)) == (True, True, True)
    with pytest.raises(AttributeError, match="chance"):
        _ = one.chance  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.probability = 1.0  # type: ignore[misc]
    assert Decision(id="1", arm=2, probability=0.5, episode=0).probability == 0.5


def test_many_threads_see_one_number() -> None:
    for one in SETS[:5]:
        decision, seen = sampler().act(one), []
        threads = [threading.Thread(target=lambda: seen.append(decision.probability)) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [decision.probability] * 4


def test_after_a_save_decisions_have_theirs(tmp_path: Path) -> None:
    agent = sampler()
    before = agent.act(SETS[0])
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    assert before.probability == sampler().act(SETS[0]).probability
    assert loaded.act(SETS[1]).probability == agent.act(SETS[1]).probability


def test_decisions_that_nobody_looked_at_are_a_log() -> None:
    agent, again = sampler(), sampler()
    decisions, rewards = [agent.act(one) for one in SETS[:8]], [0.5] * 8
    log = bd.Log.from_decisions(decisions, rewards=rewards, contexts=SETS[:8], arms=range(6))
    assert log.propensities.tolist() == [again.act(one).probability for one in SETS[:8]]


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.full)])
def test_an_arm_that_was_drawn_is_not_impossible(seeds: int) -> None:
    rng, missed = np.random.default_rng(0), 0
    policy = bd.LinTS(dim=5, horizon=1000, privacy=bd.none())
    for seed in range(seeds):
        arms = rng.standard_normal((1000, 5))
        arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
        agent = Agent(policy=policy, test=True, seed=seed)
        decision = agent.act(arms)
        known = policy.probabilities(agent.snapshot, arms[None], np.array([decision.arm]))[0][0]
        missed += known == 0
        assert decision.probability == known or (known == 0 and 0 < decision.probability < 2 / lints.DIRECTIONS)
    assert missed


def test_what_a_policy_of_ones_own_says_later_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lints, "shared_draw_probabilities", lambda *given, **how: (np.array([1.5]), np.zeros(1)))
    decision = sampler().act(SETS[0])
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"LinTS\.act: probabilities"):
            _ = decision.probability


# An agent says how long its releases take before the first one, and warns where that is long


BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def test_a_slow_release_is_announced() -> None:
    policy = bd.LinUCB(dim=5, horizon=1_000_000, batch=500_000, privacy=bd.local(**BUDGET))
    with pytest.warns(SlowReleaseWarning, match=r"about 3\.5 seconds"):
        agent = bd.Agent(policy=policy)
    assert agent.release_seconds == pytest.approx(500_000 * 20 * 3.5e-7, rel=0.01)


def test_a_quick_release_is_not() -> None:
    quick = bd.Agent(policy=bd.LinUCB(dim=3, horizon=1000, batch=100, privacy=bd.shuffle(**BUDGET)))
    assert 0 < quick.release_seconds < 0.01
    many = bd.LinUCB(dim=5, horizon=100_000, batch=50_000, privacy=bd.local(**BUDGET))
    assert bd.Agent(policy=many, test=True, seed=0).release_seconds < 1


def test_the_estimate_is_that_of_the_largest_batch_so_far() -> None:
    grows = bd.LinUCB(
        dim=2, horizon=1000, batch=bd.policies.geometric(first=10, ratio=3.0), privacy=bd.shuffle(**BUDGET)
    )
    protocols = grows._channel.protocols
    largest = max(protocols)
    expected = protocols[largest].draws(largest).seconds(secure=True)
    assert bd.Agent(policy=grows).release_seconds == expected
    first = bd.LinUCB(dim=2, horizon=100, batch=50, privacy=bd.shuffle(**BUDGET))
    same = bd.Agent(policy=bd.policies.Anytime(first=first)).release_seconds
    assert same == bd.Agent(policy=first).release_seconds


@pytest.mark.parametrize("name", ["LinUCB", "LinTS", "LinUCB-JDP"])
def test_a_decision_costs_the_same_at_any_horizon(name: str) -> None:
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5} if name.endswith("JDP") else {}

    def calls(horizon: int) -> int:
        made = bd.Agent(policy=bd.make(name, dim=2, horizon=horizon, **budget), arms=np.eye(2), test=True, seed=0)
        count = 0

        def counted(*_: Any) -> None:
            nonlocal count
            count += 1

        for _ in range(4):  # what is found out once is known then
            made.observe(made.act(), 1.0)
        try:
            sys.setprofile(counted)
            for _ in range(8):
                made.observe(made.act(), 1.0)
        finally:
            sys.setprofile(None)
        return count

    assert calls(10**6) < 1.1 * calls(10**3)


# Ties in an agent: the device's coins decide, and the decision says with which probability


TREATMENTS = np.eye(4)  # no features of their own: tied until something is known


def policy(**changes: Any) -> LinUCB:
    """One batch for all decisions."""
    return LinUCB(**{"dim": 4, "horizon": 4000, "batch": 4000, "privacy": bd.none(), **changes})


@pytest.mark.parametrize("made", [policy(), Anytime(first=policy())], ids=["LinUCB", "Anytime"])
@pytest.mark.parametrize("test", [{}, {"test": True, "seed": 5}], ids=["secure", "seeded"])
def test_the_first_batch_is_shared_by_all_arms(made: Any, test: dict[str, Any]) -> None:
    """A batch in which nothing is known is not uniform over the tied arms, or its users are correlated.

    False alarms: below 1e-9, both tests together (secure coins cannot be seeded).
    """
    decisions = Agent(policy=made, **test).act_many([TREATMENTS] * 3000)
    arms = np.array([decision.arm for decision in decisions])
    assert {decision.probability for decision in decisions} == {0.25}
    assert stats.chisquare(np.bincount(arms, minlength=4)).pvalue > 1e-10
    pairs = np.bincount(4 * arms[:-1:2] + arms[1::2], minlength=16)
    assert stats.chisquare(pairs).pvalue > 1e-10


def test_the_probability_is_one_over_the_number_of_tied_arms() -> None:
    agent = Agent(policy=policy(), test=True, seed=0)
    two = np.array([[0.1, 0, 0, 0], [0, 0.9, 0, 0], [0, 0, 0, 0.9]])
    one = agent.act(two)
    assert (one.probability, one.arm in (1, 2)) == (0.5, True)
    alone = agent.act(two[:2])
    assert (alone.probability, alone.arm) == (1.0, 1)
    first = Agent(policy=policy(ties="first"), test=True, seed=0).act(two)
    assert (first.probability, first.arm) == (1.0, 1)


def test_coins_of_a_test_follow_from_its_seed(tmp_path: Path) -> None:
    sets: list[Any] = [TREATMENTS[: 2 + i % 3] for i in range(40)]
    whole, parts, other = (Agent(policy=policy(), test=True, seed=seed) for seed in (1, 1, 2))
    expected = [decision.arm for decision in whole.act_many(sets)]
    given = [parts.act(one).arm for one in sets[:7]]
    assert parts.recommend(TREATMENTS) == 0  # flips nothing
    parts.save(tmp_path / "agent")
    given += [decision.arm for decision in Agent.load(tmp_path / "agent").act_many(sets[7:])]
    assert given == expected
    assert [decision.arm for decision in other.act_many(sets)] != expected


def test_a_save_keeps_the_radius_and_the_exploration(tmp_path: Path) -> None:
    rule = bd.policies.uniform(first=3, then=0.5)
    new = Agent(policy=policy(batch=4, explore=rule, reward_centre=0.5), test=True, seed=1)
    for _ in range(9):
        new.observe(new.act(TREATMENTS).id, 1.0)
    new.save(tmp_path / "new")
    loaded = Agent.load(tmp_path / "new")
    assert loaded.policy == new.policy
    assert (loaded.policy.confidence, loaded.policy.explore) == ("exact", rule)
    np.testing.assert_array_equal(loaded.theta, new.theta)
    assert loaded.act(TREATMENTS).probability == new.act(TREATMENTS).probability >= 0.125


# An agent decides for everybody alone: what other users send changes no bit of it


POLICIES = {
    "LinUCB": LinUCB(dim=3, horizon=300, batch=6, ties="first", privacy=none()),
    "LinUCB, coins": LinUCB(dim=3, horizon=300, batch=6, privacy=none()),
    "LinUCB, central": LinUCB(dim=3, horizon=300, batch=6, ties="first", privacy=central(epsilon=1.0, delta=1e-5)),
    "Anytime": Anytime(first=LinUCB(dim=3, horizon=12, batch=6, ties="first", privacy=none())),
}


def experienced(policy: Any) -> Agent:
    """An agent that has learned from one batch."""
    agent, rng = Agent(policy=policy, test=True, seed=1), np.random.default_rng(2)
    for decision in agent.act_many(rng.normal(size=(6, 5, 3)) / 2):
        agent.observe(decision.id, rng.random())
    agent.act(np.eye(3))  # closes the batch
    return agent


def near_tied(rng: np.random.Generator, arms: int) -> Any:
    """Features of arms, many of which differ in their last digits only."""
    features = rng.normal(size=(arms, 3)) / 2
    return features[rng.integers(arms, size=arms)] * (1 + rng.integers(-2, 3, size=(arms, 1)) * 2.0**-25)


def same(policy: Any, one: Decision, other: Decision) -> bool:
    """Whether two decisions are; where a coin decides between tied arms it is every decision's own."""
    by_rule = policy is not POLICIES["LinUCB, coins"]
    return one.probability == other.probability and (one.arm == other.arm or not by_rule)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@company_warnings
def test_huge_contexts_decide_for_nobody_else(policy: Any) -> None:
    bob = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]])
    bob[1] *= 1 + 1e-10
    alone = experienced(policy).act(bob)
    for size in (1.0, 1e30, 1e50, 1e100):
        _, decision = experienced(policy).act_many([np.full((2, 3), size), bob])
        assert same(policy, decision, alone)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.sampled_from([1.0, 1e-30, 1e3, 1e50, 1e99]), min_size=1, max_size=4),
    place=st.integers(0, 3),
    arms=st.integers(1, 6),
)
@settings(max_examples=25)
@company_warnings
def test_a_decision_is_the_same_in_any_company(
    policy: Any, seed: int, sizes: list[float], place: int, arms: int
) -> None:
    rng = np.random.default_rng(seed)
    bob, first = near_tied(rng, arms), min(place, len(sizes) - 1)
    others = [near_tied(rng, int(rng.integers(1, 7))) * size for size in sizes[1:]]
    alone, company = experienced(policy), experienced(policy)
    one = alone.act(np.asfortranarray(bob))
    many = company.act_many([*others[:first], bob, *others[first:]])[first]
    assert same(policy, one, many)
    reports = [
        agent.policy._form_statistic(np.array(agent._runner.slots.to_columns()["features"]), np.ones(count))
        for agent, count in ((alone, 2), (company, 1 + len(sizes)))
    ]
    if one.arm == many.arm:  # a coin may choose another of two tied arms
        assert reports[0].values[1].tobytes() == reports[1].values[1 + first].tobytes()


# The public schedule: computed batch by batch, and the same as if all batches were written down


def written_down(policy: Any, phases: int) -> list[tuple[int, int, Any, int, bool]]:
    """All batches of so many phases, one after the other: first decision, users, event, begun streams, released."""
    batches: list[tuple[int, int, Any, int, bool]] = []
    begun: dict[object, int] = {}
    end = 0
    for _, phase in zip(range(phases), policy._iterate_phases(), strict=False):
        channel = phase._channel
        if channel.continual is not None:
            begun[channel.continual.event] = begun.get(channel.continual.event, 0) + 1
        for size in channel.sizes:
            event = channel.protocols[size].event
            batches.append((end, size, event, begun.get(event, 1), True))
            end += size
    if policy.horizon is not None and end < policy.horizon:
        batches.append((end, policy.horizon - end, None, 1, False))
    return batches


def planned(policy: Any, count: int) -> list[tuple[int, int, Any, int, bool]]:
    """The first batches as an agent sees them."""
    found, batch = [], to_span(policy.episode(policy.init()), 0)
    while batch is not None and len(found) < count:
        assert batch.number == len(found)
        released = batch.episode.released
        query = policy._query(batch.episode) if released else None
        event, begun = (query.protocol.event, query.begun) if query else (None, 1)
        found.append((batch.begin, batch.users, event, begun, released))
        batch = next_span(policy, batch)
    return found


@pytest.mark.parametrize(
    ("privacy", "batch"),
    [
        (bd.none(), 1),
        (bd.none(), 7),
        (bd.central(**BUDGET), 10),
        (bd.shuffle(**BUDGET), bd.policies.geometric(first=10, ratio=1.5)),
        (bd.concurrent(**BUDGET, shufflers=2, degrees=(5, 4)), 5),
    ],
)
@pytest.mark.parametrize("anytime", [False, True])
def test_batches_are_those_written_down(privacy: bd.protocols.Privacy, batch: object, anytime: bool) -> None:
    policy = bd.LinUCB(dim=2, horizon=100, privacy=privacy, batch=batch)
    run = Anytime(first=policy) if anytime else policy
    expected = written_down(run, 3 if anytime else 1)
    assert planned(run, len(expected)) == expected
    assert len(planned(run, len(expected) + 1)) == len(expected) + anytime


def test_a_decision_without_privacy_costs_the_same_at_any_horizon(tmp_path: Path) -> None:
    warm = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10, privacy=bd.none()))
    arms = np.eye(2)
    warm.observe(warm.act(arms).id, 1.0)
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10**9, privacy=bd.none()))
        for _ in range(3):
            agent.observe(agent.act(arms).id, 1.0)
        agent.save(tmp_path / "agent")
        agent = bd.Agent.load(tmp_path / "agent")
        agent.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agent.releases == 3
    assert peak < 1_000_000  # a table of 10^9 numbers would be 8 GB


def test_many_releases_keep_tables_of_numbers_only() -> None:
    rounds = 200_000
    bd.Agent(policy=bd.LinUCB(dim=2, horizon=10, privacy=bd.central(**BUDGET)), test=True, seed=0)
    policy = bd.LinUCB(dim=2, horizon=rounds, privacy=bd.central(**BUDGET))
    _ = policy._channel
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=policy, test=True, seed=0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agent.releases == 0
    assert held / rounds < 26  # three tables of 8 bytes a release
