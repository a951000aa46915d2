"""Faults that a review of the reward-private policies found: each test fails on the code before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.budgets import ZCDP, ApproxDP, PureDP
from bandanna.device.noise import Size, shape
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.elimination import Elimination
from bandanna.policies.gope import GOPE
from bandanna.policies.ldp_ucb import LDPUCB
from bandanna.policies.oful import OFUL
from bandanna.policies.oful_jdp import OFULJDP
from bandanna.policies.thompson import Thompson
from bandanna.policies.ucb1 import UCB1
from bandanna.policies.ucb_episodes import UCBEpisodes

from .scripted_noise import Scripted

STEPS = 2**53  # values that a uniform number can take


def ones(policy: LDPUCB, reward: float) -> int:
    """For how many of the 2^53 values of its coin a device sends a 1, found by bisection through the device's code."""

    class Coin(FastNoise):
        def __init__(self, step: int) -> None:
            super().__init__(np.random.default_rng(0))
            self.step = step

        def uniform(self, size: Size) -> NDArray[np.float64]:
            return np.full(shape(size), self.step / STEPS)

    low, high = 0, STEPS  # a 1 is sent below some step, never above
    while low < high:
        middle = (low + high) // 2
        sent = bool(policy.randomize(np.array([reward]), Coin(middle))[0])
        low, high = (middle + 1, high) if sent else (low, middle)
    return low


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 20.0, 34.0, 36.0, 36.5, 40.0, 800.0])
def test_bits_of_finite_coins_are_as_private_as_stated(epsilon: float) -> None:
    """A bit tells a reward for sure, or by more than the stated epsilon, where 1 - q is below what a coin resolves."""
    policy = LDPUCB(n_arms=2, horizon=10, epsilon=epsilon, reward_range=(-0.1, 0.2))
    counts = [ones(policy, reward) for reward in (-0.1, 0.2, 0.05, 0.1)]
    assert 0 < min(counts) <= max(counts) < STEPS
    apart = max(counts) - min(counts)
    worst = max(math.log1p(apart / min(counts)), math.log1p(apart / (STEPS - max(counts))))  # of a 1, and of a 0
    assert worst <= policy.guarantee.epsilon <= epsilon
    assert policy.guarantee.epsilon >= min(epsilon * (1 - 5e-3), 34.0)


def test_an_epsilon_below_the_coins_resolution_is_refused() -> None:
    """Means are divided by a share of truth that is 0, or rounded to something else."""
    for wrong in (1e-13, 1e-300, math.inf):
        with pytest.raises(InvalidBudget, match="epsilon"):
            LDPUCB(n_arms=2, horizon=10, epsilon=wrong)


@pytest.mark.parametrize("low", [0.0, 1e9, -1e9])
def test_a_reward_outside_of_a_far_range_does_not_enter(low: float) -> None:
    """The slack for rounding errors, relative to the ends, lets a reward in that is far outside of a narrow range."""
    policy = UCBEpisodes(n_arms=2, horizon=9, budget=ZCDP(rho=1.0), reward_range=(low, low + 1))
    for wrong in (low - 1e-10 * (abs(low) + 1), low + 1 + 1e-10 * (abs(low) + 1)):
        source = Scripted()
        policy.learn(policy.init(), np.asarray(wrong), source)
        assert low <= float(source.releases[0][0][0]) <= low + 1


def test_noise_covers_the_rounding_of_sums_far_from_0() -> None:
    """One reward moves a sum of floats by more than the width of its range, and the noise knows of the width only."""
    low, width, users = 2.0**30, 0.3, 2**19  # sums near 2^49: multiples of 1/8
    ends, horizon, budget = (low, low + width), users, ZCDP(rho=1.0)
    rest = [low + width / 2] * (users - 2)
    worst = 0.0
    for other in np.linspace(low, low + width, 9):
        one, two = (math.fsum([*rest, float(other), end]) for end in ends)
        worst = max(worst, two - one)
    assert worst > 1.2 * width
    episodes = UCBEpisodes(n_arms=2, horizon=horizon, budget=budget, reward_range=ends)
    elimination = Elimination(n_arms=2, horizon=horizon, budget=budget, reward_range=ends)
    phases = GOPE(dim=2, horizon=horizon, budget=budget, reward_range=ends)
    assert worst <= min(episodes.noise.sensitivity, width * elimination.noise.sensitivity, phases.mechanism.sensitivity)
    near = UCBEpisodes(n_arms=2, horizon=10**7, budget=budget)
    assert near.noise.sensitivity <= 1 + 1e-8  # nothing to speak of in [0, 1]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["features", "rewards"])
def test_what_is_not_finite_is_refused_before_it_meets_other_people(place: str, wrong: float) -> None:
    """One person's bad number spoils the sum of an episode, and everybody sees that its release fails."""
    given: dict[str, NDArray[np.float64]] = {"features": np.eye(2), "rewards": np.ones(2)}
    given[place].flat[1] = wrong
    public, joint = (
        OFUL(dim=2, horizon=10, budget=ZCDP(rho=1.0)),
        OFULJDP(dim=2, horizon=10, batch=2, budget=ZCDP(rho=1.0)),
    )
    with pytest.raises(InvalidStatistic, match=place):
        public.absorb(public.init(), **given)
    with pytest.raises(InvalidStatistic, match=place):
        joint.learn(joint.init(), **given, source=Scripted())


@pytest.mark.parametrize("policy", [UCB1(n_arms=2, horizon=9), Thompson(n_arms=2, horizon=9)])
def test_policies_without_privacy_refuse_what_is_not_finite(policy: Any) -> None:
    """A reward that is not a number stays in an arm's sum for ever."""
    with pytest.raises(InvalidStatistic, match="rewards"):
        policy.learn(policy.init((1,)), np.zeros(1, dtype=np.int64), np.array([math.nan]), Scripted())


def test_batches_of_the_joint_variant_have_the_public_size() -> None:
    """A batch that somebody closed early, by who answered, is released."""
    policy = OFULJDP(dim=2, horizon=12, batch=3, budget=ZCDP(rho=1.0))
    for users in (0, 2, 4):
        with pytest.raises(InvalidArgument, match="batches are public"):
            policy.learn(policy.init(), np.zeros((users, 2)), np.zeros(users), Scripted())


@pytest.mark.parametrize("totals", [[-1.0, 5.0], [5.0, 1e9], [math.nan, 5.0]])
def test_numbers_of_ones_that_a_batch_cannot_have_are_refused(totals: ArrayLike) -> None:
    """SDP-SE releases more ones than there are users: further apart than its noise is made for."""
    policy = Elimination(n_arms=2, horizon=10**4, budget=ApproxDP(epsilon=1.0, delta=1e-3), shuffled=True)
    with pytest.raises(InvalidStatistic, match="sums"):
        policy.learn(policy.init(), np.array(totals), FastNoise(np.random.default_rng(0)))


@pytest.mark.parametrize("budget", [PureDP(epsilon=1.0), None])
def test_an_epoch_has_one_batch_for_every_active_arm(budget: PureDP | None) -> None:
    """Batches of arms that were dropped are released."""
    policy = Elimination(n_arms=2, horizon=10**4, budget=budget)
    source = Scripted()
    for wrong in (np.zeros(3), np.zeros(1), np.zeros((2, 2))):
        with pytest.raises(InvalidArgument, match="totals"):
            policy.learn(policy.init(), wrong, source)
    assert not source.releases


@pytest.mark.parametrize("budget", [ZCDP(rho=1e-100), PureDP(epsilon=1e-300), PureDP(epsilon=1e300), ZCDP(rho=1e-31)])
def test_budgets_beyond_what_floats_can_price_are_refused_by_name(budget: Any) -> None:
    """A budget next to 0 ends in an overflow somewhere inside instead of an error that names it."""
    with pytest.raises(InvalidBudget, match="budget"):
        UCBEpisodes(n_arms=2, horizon=10, budget=budget)
    assert UCBEpisodes(n_arms=2, horizon=10, budget=ZCDP(rho=1e-30)).guarantee.rho <= 1e-30


def test_public_contexts_are_stated() -> None:
    """A reader of AdaC-OFUL's guarantee is not told that everybody sees the features."""
    assert "everybody: every user's features" in str(OFUL(dim=2, horizon=10, budget=ZCDP(rho=1.0)).guarantee)
