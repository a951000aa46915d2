"""Factors of policies with finitely many arms, by hand: lengths of epochs, widths, indices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.policies.finite.base import ArmSums, select_optimistic_arm
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import LDPUCB, UCB1, UCBEpisodes, UCBEpisodesState
from bandanna.privacy import gdp
from bandanna.protocols.privacy_model import central, local, none, shuffle

from .answering import device_coins, told

K, FAILURE = 4, 0.02


def log(factor: float, epoch: int) -> float:
    """log(factor K e^2 / b)."""
    return math.log(factor * K * epoch**2 / FAILURE)


def test_epochs_of_laplace_elimination() -> None:
    """R, h + c and the sizes of DP-SE, with Q = l L' + a lattice step."""
    policy = Elimination(
        n_arms=K, horizon=10**7, reward_range=(0.0, 2.0), failure=FAILURE, privacy=central(epsilon=0.001, delta=0.0)
    )
    quantile = 2.0 / 0.001 * log(4, 2) / 2.0  # noise of scale (high - low) / epsilon, in units of the range
    assert policy._noise_quantile(2, math.nan) == pytest.approx(quantile, rel=1e-3)
    assert policy.users(2) == pytest.approx(8 * quantile / 0.25, rel=1e-3)
    users = policy.users(2)
    assert policy.width(2) == pytest.approx(math.sqrt(log(8, 2) / (2 * users)) + quantile / users, rel=1e-3)


def test_epochs_of_gaussian_elimination() -> None:
    """Q = s sqrt(2 L), and R = 8 Q / D where noise rules."""
    policy = Elimination(n_arms=K, horizon=10**7, reward_range=(1.0, 3.0), failure=FAILURE, privacy=central(rho=1e-7))
    std = 1 / math.sqrt(2 * 1e-7)  # width / mu, in units of the width
    quantile = std * math.sqrt(2 * log(8, 1))
    assert policy._std(17) == pytest.approx(std, rel=1e-3)
    assert policy.users(1) == pytest.approx(8 * quantile / 0.5, rel=1e-3)
    users = policy.users(1)
    assert policy.width(1) == pytest.approx(math.sqrt(log(8, 1) / (2 * users)) + quantile / users, rel=1e-3)
    long = Elimination(n_arms=K, horizon=3 * 10**4, failure=FAILURE, privacy=none())
    sizes = [math.ceil(32 * log(8, epoch) * 4**epoch) for epoch in (1, 2, 3)]
    assert 2 * (sizes[0] + sizes[1]) + sizes[2] > 3 * 10**4 > 2 * sizes[0] + sizes[1]  # two arms are left at least
    assert long.sizes == tuple(sizes[:2])


def test_epochs_of_shuffled_elimination_are_planned_for_all_participations() -> None:
    planned = [
        Elimination(
            n_arms=K,
            horizon=1000,
            failure=FAILURE,
            privacy=shuffle(epsilon=1.0, delta=1e-5, participations=often),
        )._planned_std
        for often in (1, 9)
    ]
    mu = gdp.mu(1.0, 1e-5)
    assert planned == [pytest.approx(1.05 / mu), pytest.approx(3.15 / mu)]  # 5 % above the central Gaussian


@pytest.mark.parametrize(("gap", "left"), [(1.99, 2), (2.01, 1)])
def test_arms_leave_where_their_means_are_two_widths_below(gap: float, left: int) -> None:
    policy = Elimination(n_arms=2, horizon=10**5, failure=FAILURE, privacy=none())
    state = policy.init()
    episode = policy.episode(state)
    means = np.array([0.9, 0.9 - gap * policy.width(1)])
    after = told(policy, state, episode, *(means * episode.plays)[:, None])
    assert int(np.sum(after.active)) == left


def test_the_indices_of_episodes_have_the_printed_bonus() -> None:
    """[004, (14)] for Gaussian noise, computed by hand."""
    state = UCBEpisodesState(
        estimates=np.array([0.5, 0.25]),
        lengths=np.array([4, 16]),
        pulls=np.array([4, 16]),
        rounds=np.asarray(20),
        episodes=np.asarray(2),
    )
    n, log_t = np.array([4.0, 16.0]), 3.0 * math.log(21.0)
    given = {"n_arms": 2, "horizon": 1000, "reward_range": (0.0, 2.0), "optimism": 3.0}
    gaussian = UCBEpisodes(**given, privacy=central(rho=0.02))  # std = 2 / sqrt(2 rho) = 10
    bonus = np.sqrt((4 / (2 * n) + 2 * 100 / n**2) * log_t)
    np.testing.assert_allclose(gaussian.index(state), state.estimates + bonus, rtol=1e-3)
    pure = UCBEpisodes(**given, privacy=central(epsilon=0.5, delta=0.0))  # scale = 2 / epsilon = 4
    bonus = 2 * np.sqrt(log_t / (2 * n)) + 4 * log_t / n
    np.testing.assert_allclose(pure.index(state), state.estimates + bonus, rtol=1e-3)


def test_the_indices_of_every_round_have_the_printed_bonus() -> None:
    """sqrt(w^2 b log t / (2 N)), and sqrt(b log t / (2 (2q - 1)^2 N)) for bits."""
    clear = UCB1(n_arms=3, horizon=100, reward_range=(-1.0, 2.0), optimism=4.0)
    assert clear.scale == 9 * 4 / 2
    lying = LDPUCB(n_arms=3, horizon=100, optimism=4.0, privacy=local(epsilon=1.0, delta=0.0))
    assert lying.scale == pytest.approx(4 / (2 * math.tanh(0.5) ** 2), rel=1e-9)  # 2q - 1 = tanh(epsilon / 2)


@pytest.mark.parametrize(("excess", "chosen"), [(1.02, 1), (0.98, 0)])
def test_the_arm_of_a_round_has_the_largest_index(excess: float, chosen: int) -> None:
    rounds, scale = 104, 18.0
    bonus = np.sqrt(scale * math.log(rounds + 1) / np.array([100.0, 4.0]))
    gap = (bonus[1] - bonus[0]) / excess
    state = ArmSums(sums=np.array([100 * gap, 0.0]), pulls=np.array([100.0, 4.0]), rounds=rounds)
    assert select_optimistic_arm(state, scale) == chosen
    policy = UCB1(n_arms=2, horizon=1000, reward_range=(-1.0, 2.0), optimism=4.0)
    assert policy.episode(state).arms == [chosen]


def test_thompson_counts_successes_and_plays_of_every_arm() -> None:
    policy = Thompson(n_arms=5, horizon=10)
    assert policy.query.protocol.domain.dim == 10
    assert policy.act(policy.init(), np.zeros((3, 5, 1)), device_coins()).actions.shape == (3,)


@pytest.mark.parametrize("noise", ["intermediate", "beginning"])
def test_phases_of_gope_have_the_printed_length(noise: str) -> None:
    """c_l of [004, (4)]."""
    policy = GOPE(dim=2, horizon=1000, reward_range=(0.0, 3.0), failure=0.1, noise=noise, privacy=central(rho=0.5))
    state = policy.init(arms=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    assert policy.protocol.domain.dim == (3 if noise == "beginning" else 2)
    assert policy.subgaussian == 1.5
    share = 0.1 / (3 * 1 * 2)
    chi = 2 + 2 * math.sqrt(2 * math.log(2 / share)) + 2 * math.log(2 / share)
    assert state.geometry is not None
    g = 2.0 if noise == "intermediate" else state.geometry.early  # the optimal design of an orthonormal basis has g = d
    learning = 8 * 2.0 * 1.5**2 / 0.75**2 * math.log(4 / share)
    released = 2 * g * 3.0 / 0.75 * math.sqrt(chi)  # std = width / sqrt(2 rho) = 3
    assert policy.length(state) == pytest.approx(learning + released, rel=3e-3)


@pytest.mark.parametrize(("gap", "left"), [(1.99, 2), (2.01, 1)])
def test_gope_drops_arms_two_thresholds_below(gap: float, left: int) -> None:
    policy = GOPE(dim=2, horizon=10_000, privacy=none())
    state = policy.init(arms=np.eye(2))
    episode = policy.episode(state)
    means = np.array([0.9, 0.9 - gap * policy.threshold(1)])  # of both arms, which are orthogonal
    steps = policy.learn(state, episode)
    ask = next(steps)
    total = (np.asarray(ask.at)[episode.arms] * (means * episode.plays)[:, None]).sum(axis=0)
    after = told(policy, state, episode, total)
    assert len(after.active) == left
