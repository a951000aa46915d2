"""Noise on sums of rewards, exactly: what a release asks of its source, against how far one reward moves it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.mechanisms.laplace import Laplace
from bandanna.policies.elimination import Elimination
from bandanna.policies.gope import GOPE
from bandanna.policies.ucb_episodes import UCBEpisodes

from .scripted_noise import Scripted

RANGES = ((0.0, 1.0), (-3.0, 7.0), (1000.0, 1001.0))
BUDGETS = (PureDP(epsilon=0.5), ZCDP(rho=0.125), ApproxDP(epsilon=1.0, delta=1e-6))


def elimination(budget: Budget, ends: tuple[float, float], reward: float) -> Scripted:
    """One epoch of DP-SE whose first reward is `reward` and all others are at the low end."""
    policy, source = Elimination(n_arms=2, horizon=10**5, budget=budget, reward_range=ends), Scripted()
    epoch = policy.next(policy.init())
    low = ends[0] * epoch.users
    policy.learn(policy.init(), np.array([low - ends[0] + reward, low]), source)
    return source


def episodes(budget: Budget, ends: tuple[float, float], reward: float) -> Scripted:
    """The first episode of AdaC-UCB or AdaP-UCB, of one reward."""
    policy, source = UCBEpisodes(n_arms=2, horizon=1000, budget=budget, reward_range=ends), Scripted()
    policy.learn(policy.init((1,)), np.array([reward]), source)
    return source


def design(budget: Budget, ends: tuple[float, float], reward: float) -> Scripted:
    """The first phase of AdaC-GOPE; one of the rewards of the first arm is replaced."""
    policy, source = GOPE(dim=2, horizon=10**5, budget=budget, reward_range=ends), Scripted()
    begun = policy.init(np.eye(2))
    phase = policy.next(begun)
    totals = ends[0] * phase.plays.astype(float)
    totals[0] += reward - ends[0]
    policy.learn(begun, phase, totals, source)
    return source


def stated(budget: Budget) -> float:
    """The largest ratio of change to noise that a budget allows: epsilon for Laplace noise, mu for Gaussian."""
    return budget.epsilon if isinstance(budget, PureDP) else budget.mu()


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "approx"])
@pytest.mark.parametrize("release", [elimination, episodes, design])
def test_a_reward_moves_a_release_by_no_more_than_its_noise_is_made_for(
    release: Callable[..., Scripted], budget: Budget, ends: tuple[float, float]
) -> None:
    """A release would have less noise than its budget needs, by any share; or more than 0.1 % too much."""
    if release is design and isinstance(budget, PureDP):
        return  # Gaussian only
    one, other = (release(budget, ends, reward) for reward in ends)
    moved = [abs(a - b) for (a, _), (b, _) in zip(one.releases, other.releases, strict=True)]
    noise = {float(spread) for _, spread in one.releases}
    assert len(noise) == 1
    change = math.sqrt(sum(float(np.sum(step**2)) for step in moved))
    assert 0.999 * stated(budget) <= change / noise.pop() <= stated(budget)


@pytest.mark.parametrize("share", [0.98, 1.02])
@pytest.mark.parametrize("raw", [0.0, 0.5, 1.0])
def test_elimination_decides_by_what_was_released(raw: float, share: float) -> None:
    """Raw sums have a part in the decision, as if there were less noise on them."""
    policy = Elimination(n_arms=2, horizon=10**5, budget=PureDP(epsilon=0.5))
    users, gap = policy.next(policy.init()).users, 2 * share * policy.width(1)
    source = Scripted([users * np.array([[0.5], [0.5 - gap]])])
    after = policy.learn(policy.init(), np.full(2, raw * users), source)
    assert after.active.tolist() == [True, share < 1]


def test_laplace_noise_is_used_for_pure_budgets_only() -> None:
    """The ratio above would be read off another kind of noise."""
    for budget in BUDGETS:
        noise = Elimination(n_arms=2, horizon=1000, budget=budget).noise
        assert isinstance(noise.mechanism, Laplace) == isinstance(budget, PureDP)
