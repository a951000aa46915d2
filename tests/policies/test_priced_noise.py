"""Noise on sums of rewards, exactly: what is released, against how far one reward moves it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.policies.arms.gope import GOPE
from bandanna.policies.arms.successive_elimination import Elimination
from bandanna.policies.arms.ucb_episodes import UCBEpisodes
from bandanna.policies.base import Ask, Played, Policy
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.central_laplace import CentralLaplace
from bandanna.protocols.trust import central

from .answering import device_coins

RANGES = ((0.0, 1.0), (-3.0, 7.0), (1000.0, 1001.0))
BUDGETS = (PureDP(epsilon=0.5), ZCDP(rho=0.125), ApproxDP(epsilon=1.0, delta=1e-6))


def policies(budget: Budget, ends: tuple[float, float]) -> list[tuple[Policy[Any], Any]]:
    """Those that release sums of rewards by a trusted server, and their states before anything is released."""
    shared: dict[str, Any] = {"privacy": central(budget=budget), "reward_range": ends}
    finite = [kind(n_arms=2, horizon=10**5, **shared) for kind in (Elimination, UCBEpisodes)]
    found: list[tuple[Policy[Any], Any]] = [(policy, policy.init()) for policy in finite]
    if not isinstance(budget, PureDP):  # Gaussian only
        for noise in ("intermediate", "beginning"):
            linear = GOPE(dim=2, horizon=10**5, noise=noise, **shared)
            found.append((linear, linear.init(np.eye(2))))
    return found


def stated(budget: Budget) -> float:
    """The largest ratio of change to noise that a budget allows: epsilon for Laplace noise, mu for Gaussian."""
    return budget.epsilon if isinstance(budget, PureDP) else budget.mu()


def spread(ask: Ask) -> float:
    """Of the noise: the scale of Laplace, the standard deviation of Gaussian."""
    if isinstance(ask.protocol, CentralLaplace):
        return ask.protocol.scale * ask.protocol.step
    assert isinstance(ask.protocol, CentralGaussian)
    return ask.protocol.noise_std


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "approx"])
def test_a_reward_moves_a_release_by_no_more_than_its_noise_is_made_for(
    budget: Budget, ends: tuple[float, float]
) -> None:
    """A release would have less noise than its budget needs, by any share; or more than 0.1 % too much."""
    for policy, state in policies(budget, ends):
        ask = next(policy.learn(state, policy.episode(state)))
        arms, rest = np.zeros(9, dtype=np.int64), np.full(8, ends[0])
        one, two = (policy.report(ask, Played(rewards=np.append(rest, end), arms=arms), device_coins()) for end in ends)
        change = float(np.linalg.norm((two.values - one.values).sum(axis=0)))
        assert 0.999 * stated(budget) <= change / spread(ask) <= stated(budget)


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
        noise = Elimination(n_arms=2, horizon=1000, privacy=central(budget=budget)).protocol(2)
        assert isinstance(noise, CentralLaplace) == isinstance(budget, PureDP)
        assert math.isfinite(noise.guarantee.epsilon)
