"""Noise on sums of rewards, exactly: what a release asks of its source, against how far one reward moves it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import central

from .answering import answered, device_coins
from .scripted_noise import Told

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


def released(policy: Policy[Any], ask: SumQuery, rewards: Any) -> tuple[Any, float]:
    """A sum of one arm's rewards without its noise, and what is asked of the source: scale or standard deviation."""
    source, rows = Told(), PlayedRounds(rewards=rewards, arms=np.zeros(len(rewards), dtype=np.int64))
    shown = ask.protocol.release(policy.report(ask, rows, device_coins()), source, path="messages").total
    (spread,) = source.asked
    return shown, spread * (ask.protocol.step if isinstance(ask.protocol, CentralLaplace) else 1.0)


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "approx"])
def test_a_reward_moves_a_release_by_no_more_than_its_noise_is_made_for(
    budget: Budget, ends: tuple[float, float]
) -> None:
    for policy, state in policies(budget, ends):
        ask = next(policy.learn(state, policy.episode(state)))
        rest = np.full(8, ends[0])
        (one, spread), (two, same) = (released(policy, ask, np.append(rest, end)) for end in ends)
        assert spread == same
        assert 0.999 * stated(budget) <= float(np.linalg.norm(two - one)) / spread <= stated(budget)


@pytest.mark.parametrize("share", [0.98, 1.02])
@pytest.mark.parametrize("raw", [0.0, 0.5, 1.0])
def test_elimination_decides_by_what_was_released(raw: float, share: float) -> None:
    policy = Elimination(n_arms=2, horizon=10**5, privacy=central(epsilon=0.5, delta=0.0))
    state = policy.init()
    epoch = policy.episode(state)
    users, gap = int(epoch.plays[0]), 2 * share * policy.width(1)
    step = policy.protocol(users).step
    noise = (0.5 - gap * np.arange(2) - raw) * users / step  # what is released: 1/2 and 1/2 - gap
    after = answered(policy, state, epoch, *np.full((2, 1), raw * users), source=Told(noise))
    assert after.active.tolist() == [True, share < 1]


def test_laplace_noise_is_used_for_pure_budgets_only() -> None:
    for budget in BUDGETS:
        noise = Elimination(n_arms=2, horizon=1000, privacy=central(budget=budget)).protocol(2)
        assert isinstance(noise, CentralLaplace) == isinstance(budget, PureDP)
        assert math.isfinite(noise.guarantee.epsilon)
