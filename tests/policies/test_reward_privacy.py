"""Policies whose rewards are private, at the edges: finite coins, far ranges, what is not finite, extreme budgets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, Size, to_shape
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.numeric.exact_sums import exact_sum
from bandanna.policies.base import PlayedRounds, RunnerState, SumQuery, drive_learning
from bandanna.policies.finite.elimination import Elimination, EliminationState
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import LDPUCB, UCB1, UCBEpisodes
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.privacy.budgets import ZCDP, PureDP
from bandanna.protocols.base import Protocol
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import central, local, none, shuffle

from .answering import Teacher, device_coins

COINS = device_coins()
STEPS = 2**53  # values that a uniform number can take


def ones(policy: LDPUCB, reward: float) -> int:
    """For how many of the 2^53 values of its coin a device sends a 1, found by bisection through the device's code.

    A reward inside of its range was made a 0 or a 1 by another coin before: it cannot tell more than the ends do.
    """
    report = policy.report(policy.query, PlayedRounds(rewards=np.array([reward])), COINS)

    class Coin(FastNoise):
        def __init__(self, step: int) -> None:
            super().__init__(np.random.default_rng(0))
            self.step = step

        def uniform(self, size: Size) -> NDArray[np.float64]:
            return np.full(to_shape(size), self.step / STEPS)

    low, high = 0, STEPS  # a 1 is sent below some step, never above
    while low < high:
        middle = (low + high) // 2
        sent = bool(policy.protocol.device.message(report, Coin(middle))[0, 0])
        low, high = (middle + 1, high) if sent else (low, middle)
    return low


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 20.0, 34.0, 36.0, 36.5, 40.0, 800.0])
def test_bits_of_finite_coins_are_as_private_as_stated(epsilon: float) -> None:
    policy = LDPUCB(n_arms=2, horizon=10, privacy=local(epsilon=epsilon, delta=0.0), reward_range=(-0.1, 0.2))
    counts = [ones(policy, reward) for reward in (-0.1, 0.2, 0.05, 0.1)]
    assert 0 < min(counts) <= max(counts) < STEPS
    apart = max(counts) - min(counts)
    worst = max(math.log1p(apart / min(counts)), math.log1p(apart / (STEPS - max(counts))))  # of a 1, and of a 0
    assert worst <= policy.guarantee.epsilon <= epsilon
    assert policy.guarantee.epsilon >= min(epsilon * (1 - 5e-3), 34.0)


def test_an_epsilon_below_the_coins_resolution_is_refused() -> None:
    for wrong in (1e-13, 1e-300, math.inf):
        with pytest.raises(InvalidBudget, match="epsilon"):
            LDPUCB(n_arms=2, horizon=10, privacy=local(epsilon=wrong, delta=0.0))


@pytest.mark.parametrize("low", [0.0, 1e9, -1e9])
def test_a_reward_outside_of_a_far_range_does_not_enter(low: float) -> None:
    policy = UCBEpisodes(n_arms=2, horizon=9, privacy=central(rho=1.0), reward_range=(low, low + 1))
    for wrong in (low - 1e-10 * (abs(low) + 1), low + 1 + 1e-10 * (abs(low) + 1)):
        report = policy.report(policy.query, PlayedRounds(rewards=np.array([wrong])), COINS)
        assert low <= float(report.values[0, 0]) <= low + 1


def test_noise_covers_the_rounding_of_sums_far_from_0() -> None:
    low, width, users = 2.0**30, 0.3, 2**15  # float sums near 2^45: multiples of 1/128
    ends, privacy, arms = (low, low + width), central(rho=1.0), np.zeros(users, dtype=np.int64)
    episodes = UCBEpisodes(n_arms=2, horizon=users, privacy=privacy, reward_range=ends)
    elimination = Elimination(n_arms=2, horizon=users, privacy=privacy, reward_range=ends)
    phases = GOPE(dim=2, horizon=users, privacy=privacy, reward_range=ends)
    begun = phases.init(np.eye(2))
    queries = (
        episodes.query,
        SumQuery(protocol=elimination.protocol(users), at=0),
        next(phases.learn(begun, phases.episode(begun))),
    )
    rest = np.random.default_rng(0).uniform(*ends, users - 1)
    for policy, query in zip((episodes, elimination, phases), queries, strict=True):
        one, two = (policy.report(query, PlayedRounds(rewards=np.append(rest, end), arms=arms), COINS) for end in ends)
        pairs = [exact_sum(each.values - one.domain.origin, one.domain.reach) for each in (one, two)]
        moved = [
            (two_high - one_high) + (two_rest - one_rest) for (one_high, one_rest), (two_high, two_rest) in [pairs]
        ]
        assert 0.99 * width <= np.linalg.norm(moved) <= priced(query.protocol)
        assert priced(query.protocol) <= width * (1 + 1e-5)
    near = UCBEpisodes(n_arms=2, horizon=10**7, privacy=privacy)
    assert priced(near.protocol) <= 1 + 1e-8  # nothing to speak of in [0, 1]


def priced(protocol: Protocol) -> float:
    """By how much one user moves a sum, as the accountant is told."""
    assert isinstance(protocol, CentralGaussian)
    return protocol.event.sensitivity


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["features", "rewards"])
def test_a_value_that_is_not_finite_is_refused_before_it_is_summed(place: str, wrong: float) -> None:
    given: dict[str, NDArray[np.float64]] = {"features": np.eye(2), "rewards": np.ones(2)}
    given[place].flat[1] = wrong
    public, joint = (
        OFUL(dim=2, horizon=10, privacy=central(rho=1.0)),
        OFULJDP(dim=2, horizon=10, batch=2, privacy=central(rho=1.0)),
    )
    with pytest.raises(InvalidStatistic, match=place):
        public.report(public.query, PlayedRounds(**given), COINS)
    for gram in (np.zeros(3), np.array([1e6, 1e6, 0.0])):  # the vector is asked for if the matrix has grown
        asked: list[SumQuery] = []

        def answer(query: SumQuery, asked: list[SumQuery] = asked, gram: NDArray[np.float64] = gram) -> Estimate:
            asked.append(query)
            return Estimate(total=gram if len(asked) == 1 else np.zeros(2), count=2, variance=0.0)

        drive_learning(joint.learn(joint.init(), joint.episode(joint.init())), answer)
        with pytest.raises(InvalidStatistic, match=place):
            joint.report(asked[-1], PlayedRounds(**given), COINS)
    assert len(asked) == 2


@pytest.mark.parametrize("policy", [UCB1(n_arms=2, horizon=9), Thompson(n_arms=2, horizon=9)])
def test_policies_without_privacy_refuse_values_that_are_not_finite(policy: Any) -> None:
    with pytest.raises(InvalidStatistic, match="rewards"):
        policy.report(policy.query, PlayedRounds(rewards=np.array([math.nan]), arms=np.zeros(1, dtype=np.int64)), COINS)


def test_batches_of_the_joint_variant_have_the_public_size() -> None:
    policy = OFULJDP(dim=2, horizon=12, batch=3, privacy=central(rho=1.0))
    for users in (0, 2, 4):
        with pytest.raises(InvalidArgument, match=r"rows must be .*, one for each user of the episode"):
            Teacher(policy).learn(np.zeros((users, 2)), np.zeros(users))


def test_numbers_of_ones_that_a_batch_cannot_have_are_refused() -> None:
    policy = Elimination(n_arms=2, horizon=10**4, privacy=shuffle(epsilon=1.0, delta=1e-3))
    query, source = SumQuery(protocol=policy.protocol(3), arm=0), FastNoise(np.random.default_rng(0))
    rows = PlayedRounds(rewards=np.array([-1.0, 5.0, 1e9]), arms=np.zeros(3, dtype=np.int64))
    report = policy.report(query, rows, COINS)
    assert report.values[:, 0].tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(InvalidArgument, match="3 users"):
        policy.protocol(3).release(policy.report(query, rows.at(slice(2)), COINS), source)
    with pytest.raises(InvalidStatistic, match="rewards"):
        policy.report(query, PlayedRounds(rewards=np.full(3, math.nan), arms=rows.arms), COINS)


@pytest.mark.parametrize("privacy", [central(epsilon=1.0, delta=0.0), none()])
def test_an_epoch_has_one_batch_for_every_active_arm(privacy: Any) -> None:
    policy, source = Elimination(n_arms=3, horizon=10**4, privacy=privacy), FastNoise(np.random.default_rng(0))
    state = EliminationState(epoch=2, active=np.array([True, False, True]))
    asked: list[SumQuery] = []

    def answer(query: SumQuery) -> Estimate:
        asked.append(query)
        return policy.protocol(4).release(np.ones((4, 1)), source)

    learned = drive_learning(policy.learn(state, policy.episode(state)), answer)
    assert [(query.arm, query.step) for query in asked] == [(0, 0), (2, 1)]
    assert not learned.active[1]
    rows = PlayedRounds(rewards=np.array([0.25, 0.5, 1.0]), arms=np.array([0, 1, 2]))
    assert [float(policy.report(query, RunnerState().rows(query, rows), COINS).total()[0]) for query in asked] == [
        0.25,
        1.0,
    ]


@pytest.mark.parametrize("budget", [ZCDP(rho=1e-100), PureDP(epsilon=1e-300), PureDP(epsilon=1e300), ZCDP(rho=1e-31)])
def test_budgets_beyond_what_floats_can_price_are_refused_by_name(budget: Any) -> None:
    with pytest.raises(InvalidBudget, match="budget"):
        UCBEpisodes(n_arms=2, horizon=10, privacy=central(budget=budget))
    assert UCBEpisodes(n_arms=2, horizon=10, privacy=central(rho=1e-30)).guarantee.rho <= 1e-30


def test_public_contexts_are_stated() -> None:
    assert "Everybody sees every user's features" in str(OFUL(dim=2, horizon=10, privacy=central(rho=1.0)).guarantee)
