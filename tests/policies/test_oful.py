"""Rarely switching OFUL: prices of its releases, when it switches, and its confidence."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.mechanisms.noise import GaussianMechanism
from bandanna.policies.base import FixedLength, PlayedRounds, Policy, SumQuery
from bandanna.policies.linear.oful import OFUL, OFULJDP, RankOneDomain
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, ContinualEvent, GaussianEvent
from bandanna.protocols.privacy_model import central, none

from .answering import COINS, Scripted, Teacher, learn_from

Floats = NDArray[np.float64]


def spent(policy: OFUL, features: Floats, user: int) -> float:
    """rho that an episode's release really spends on one reward, moved from one end of the range to the other."""
    released = []
    for end in (policy.domain.low, policy.domain.high):
        rewards = np.zeros(len(features))
        rewards[user] = end
        source = Scripted()
        Teacher(policy, source).learn(features, rewards)
        released += source.releases
    (one, std), (two, _) = released
    return float(np.linalg.norm(one - two) ** 2 / (2 * std**2))


def test_an_episode_costs_rho_and_noise_20_percent_smaller_more() -> None:
    features = np.array([[1.0, 0.0], [0.3, 0.4], [3.0, 4.0]])  # the last one is clipped to norm 1
    for ends in ((-1.0, 1.0), (0.0, 6.0)):
        policy = OFUL(dim=2, horizon=10, privacy=central(rho=0.3), reward_range=ends)
        assert 0.3 * (1 - 1e-3) <= spent(policy, features, 0) <= 0.3
        assert spent(policy, features, 1) <= 0.3 / 4
        assert spent(policy, features, 2) <= 0.3
        assert spent(replace(policy, privacy=central(rho=0.3 / 0.64)), features, 0) > 0.3 * 1.5
        assert policy.guarantee.rho <= 0.3
        assert policy.guarantee.protects == "a user's reward"


def drifting(first: float) -> Floats:
    """Rewards whose plain float sums depend on the first one: after 2^10 ones, at 2^10 or at 2^10 - 2, floats are 2^-42
    or 2^-43 apart, and every value just above 2^-43 is rounded up to the double in one case only."""
    rewards = np.full(2**11, 2.0**-43 + 2.0**-54)
    rewards[: 2**10], rewards[0] = 1.0, first
    return rewards


def exact_sum_of(policy: Policy, query: SumQuery, rewards: Floats, chunk: int) -> Fraction:
    """What an query's noise is added to along the messages, if rows with features 1 have come in chunks."""
    seen: list[Fraction] = []

    def release(noise: GaussianMechanism, value: Floats, source: FastNoise, *, rest: Floats = 0.0) -> Floats:
        seen.append(Fraction(float(value[0])) + Fraction(float(rest[0])))
        return value

    parts = [rewards[begin : begin + chunk] for begin in range(0, len(rewards), chunk)]
    rows = PlayedRounds.joined([PlayedRounds(features=np.ones((len(part), 1)), rewards=part) for part in parts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", release)
        query.protocol.release(policy.report(query, rows, COINS), FastNoise(np.random.default_rng(0)), path="messages")
    return seen[0]


@pytest.mark.parametrize("chunk", [1, 37, 2**11])
def test_neighbours_sums_differ_by_the_replaced_reward_only(chunk: int) -> None:
    policy = OFUL(dim=1, horizon=2**11, privacy=central(rho=0.3))
    one, two = (exact_sum_of(policy, policy.query, drifting(first), chunk) for first in (1.0, -1.0))
    assert one - two == 2


def test_neighbours_sums_of_private_contexts_differ_by_one_user_only() -> None:
    policy = OFULJDP(dim=1, horizon=2**10, privacy=central(rho=0.3), batch=64)
    _, vector = asked(policy, np.full(1, 1e9))
    rewards = [np.append(drifting(first)[: 2**9], np.full(2**9, 2.0**-44 + 2.0**-55)) for first in (1.0, -1.0)]
    one, two = (exact_sum_of(policy, vector, each, 64) for each in rewards)
    assert one - two == 2


def asked(policy: OFULJDP, gram: Floats) -> list[SumQuery]:
    """The queries of the first batch, if this matrix is released."""
    steps = policy.learn(policy.init(), policy.episode(policy.init()))
    queries, answers = [next(steps)], iter([gram, np.zeros(policy.dim)])
    try:
        while True:
            queries.append(steps.send(Estimate(total=next(answers), count=1, variance=0.0)))
    except StopIteration:
        return queries


def test_a_range_far_from_zero_is_priced_with_the_rounding_of_its_products() -> None:
    policy = OFUL(dim=2, horizon=10, privacy=central(rho=0.3), reward_range=(2.0**45, 2.0**45 + 1))
    rng = np.random.default_rng(1)
    for _ in range(200):
        x = rng.normal(size=(1, 2))
        rows = [PlayedRounds(features=x / np.linalg.norm(x), rewards=np.array([end])) for end in (2.0**45, 2.0**46)]
        one, two = (policy.report(policy.query, each, COINS).total() for each in rows)
        assert np.linalg.norm(one - two) <= policy.protocol.domain.sensitivity


def test_clipped_features_and_rewards_are_counted() -> None:
    policy, x = OFUL(dim=2, horizon=10, privacy=none()), np.array([[3.0, 4.0], [0.6, 0.8]])
    report = policy.report(policy.query, PlayedRounds(features=x, rewards=np.array([0.5, -7.0])), COINS)
    assert report.clipped == 2
    assert np.allclose(report.total(), 0.5 * np.array([0.6, 0.8]) - np.array([0.6, 0.8]))
    assert np.allclose(policy.advance_public(policy.init(), x).gram, np.eye(2) + 2 * np.outer([0.6, 0.8], [0.6, 0.8]))


def test_switches_come_from_the_features_alone_and_at_the_first_crossing() -> None:
    policy, rng = OFUL(dim=3, horizon=10**4, growth=0.7, privacy=none()), np.random.default_rng(0)
    state, x = policy.init(), rng.normal(size=(200, 3)) / 3
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    grams = np.eye(3) + np.cumsum(x[:, :, None] * x[:, None, :], axis=0)
    first = int(np.argmax(np.linalg.det(grams) > 1.7)) + 1
    assert policy.stopping_round(state, x) == first
    assert policy.stopping_round(state, x[: first - 1]) is None
    assert policy.stopping_round(replace(state, vector=np.full(3, 9.0)), x) == first


def test_the_radius_holds_the_truth() -> None:
    policy = OFUL(dim=3, horizon=10**4, privacy=central(rho=0.01), failure=0.1)
    rng, theta, misses = np.random.default_rng(5), np.array([0.6, 0.0, -0.8]), 0
    for _ in range(200):
        teacher = Teacher(policy, FastNoise(rng))
        for _ in range(4):
            x = rng.normal(size=(60, 3))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            rewards = np.where(rng.random(60) < (1 + x @ theta) / 2, 1.0, -1.0)
            state = teacher.learn(x, rewards)
            away = state.snapshot.theta - theta
            misses += math.sqrt(away @ state.gram @ away) > state.snapshot.radius
    assert misses <= 0.1 * 200


def test_paper_confidence_is_never_below_the_ridge() -> None:
    printed = OFUL(dim=3, horizon=10**6, privacy=central(rho=1.0), confidence="paper", eigenvalue=0.1)
    assert printed._smallest(np.eye(3), 10) == 1.0
    log = math.log((10**6 + 3) * 3 / 1e-3)
    expected = 1 + 0.1 * 10**6 / 4 - 8 * log - 2 * math.sqrt(10**6 * log)
    assert printed._smallest(np.eye(3), 10**6) == pytest.approx(expected)
    with pytest.raises(InvalidArgument, match="eigenvalue"):
        OFUL(dim=3, horizon=10, confidence="paper", privacy=none())


def test_outer_products_differ_by_at_most_sqrt_2() -> None:
    outer, rng = RankOneDomain(size=3), np.random.default_rng(0)
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in rng.normal(size=(2, 2000, 3)))
    packed = [outer.pack(v[:, :, None] * v[:, None, :]) for v in (x, y)]
    assert np.max(np.linalg.norm(packed[0] - packed[1], axis=1)) <= outer.sensitivity
    ends = outer.pack(np.array([np.diag([1.0, 0, 0]), np.diag([0, 1.0, 0])]))
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(outer.sensitivity)
    assert np.allclose(outer.project(packed[0]), packed[0])
    assert np.allclose(outer.project(3 * packed[0]), packed[0])
    assert np.allclose(outer.project(-packed[0][:1]), 0, atol=1e-12)


def test_matrix_and_vector_compose_to_the_budget() -> None:
    policy = OFULJDP(dim=2, horizon=400, privacy=central(rho=0.5), share=0.3)
    assert 0.5 * (1 - 1e-3) <= policy.guarantee.rho <= 0.5
    matrix, vector = policy.matrix.event, policy.vector.event
    assert isinstance(vector, GaussianEvent)
    assert isinstance(matrix, ContinualEvent)
    for weak in (
        (replace(matrix, std=0.8 * matrix.std), vector),
        (matrix, replace(vector, std=0.8 * vector.std)),
    ):
        assert accountant.rho(CompositionEvent(events=weak)) > 0.5 * 1.1
    approx = OFULJDP(dim=2, horizon=400, privacy=central(epsilon=1.0, delta=1e-5))
    assert approx.guarantee.epsilon <= 1.0 + 1e-6
    assert approx.guarantee.delta == 1e-5
    assert approx.guarantee.protects == "a user's features and reward"


def test_the_vector_moves_by_at_most_its_sensitivity_when_a_user_is_replaced() -> None:
    policy = OFULJDP(dim=2, horizon=400, privacy=central(rho=0.5), reward_range=(-2.0, 1.0))
    _, vector = asked(policy, np.array([1e6, 1e6, 0.0]))
    rng, sensitivity = np.random.default_rng(0), policy.vector.domain.sensitivity
    x, y = rng.normal(size=(2, 4000, 2)), rng.uniform(-5, 5, size=(2, 4000))
    sums = [policy.report(vector, PlayedRounds(features=a, rewards=b), COINS).values for a, b in zip(x, y, strict=True)]
    assert np.max(np.linalg.norm(sums[0] - sums[1], axis=-1)) <= sensitivity
    assert sensitivity == 4.0  # reached by x = -x', r = r' = -2
    assert math.isclose(policy.vector.noise_std, 4 * math.sqrt(0.78125) / math.sqrt(2 * 0.25), rel_tol=1e-3)


def test_switching_looks_at_released_matrices_only() -> None:
    policy = OFULJDP(dim=2, horizon=100, privacy=central(rho=0.5), batch=10)
    begun, first = policy.init(), FixedLength(number=0, users=10)
    for gram, due in ((np.diag([1e6, 1e6]), True), (np.diag([-1e6, 1.0]), False), (np.zeros((2, 2)), False)):
        released = policy.matrix.domain.pack(gram)  # type: ignore[attr-defined]
        assert [query.group for query in asked(policy, released)] == ["episode", *policy.execution.retained_groups][
            : 1 + due
        ]
        for vector in (np.zeros(2), np.full(2, 9.0)):
            after = learn_from(policy, replace(begun, vector=vector), first, released, vector)
            assert after.switches == due


def test_bad_budgets_shares_and_batches_are_refused() -> None:
    for wrong in (central(epsilon=1.0, delta=0.0), central(rho=math.inf)):
        with pytest.raises(InvalidBudget):
            OFULJDP(dim=2, horizon=10, privacy=wrong)
    with pytest.raises(InvalidArgument, match="privacy"):
        OFULJDP(dim=2, horizon=10, privacy=none())
    with pytest.raises(InvalidArgument, match="batch"):
        OFULJDP(dim=2, horizon=10, privacy=central(rho=1.0), batch=0)
    with pytest.raises(InvalidArgument, match="share"):
        OFULJDP(dim=2, horizon=10, privacy=central(rho=1.0), share=1.0)
    with pytest.raises(InvalidArgument, match="privacy"):
        OFUL(dim=2, horizon=10, privacy=central(epsilon=1.0, delta=0.0))
