from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments import population
from bandanna.simulation.environments.finite import TwoPoint
from bandanna.simulation.environments.population import OneClientPerRound, Population, clipped_normal_moments

ARMS = np.array([[0.8, 0.0], [0.3, 0.5], [0.0, 0.0]])
THETA = np.array([0.9, -0.3])


def averages(seed: int, clients: int, *, each: bool, sigma: float = 0.3) -> np.ndarray:
    """Reports of fresh clients on all three arms."""
    world = Population(arms=ARMS, theta=THETA, sigma=sigma).begin(Streams([seed]))
    return np.concatenate(list(world.clients(0, ARMS, np.array([1, 5, 40]), clients, each=each)))


def test_clients_have_the_law_of_their_rewards() -> None:
    """Averages drawn at once differ in law from averages of rewards drawn one by one.

    Two-sample Kolmogorov-Smirnov on each arm's averages and on a mixture of them, which sees their dependence; false
    alarm 1e-4 each.
    """
    law, plain = averages(1, 6000, each=False), averages(2, 6000, each=True)
    for direction in (*np.eye(3), np.array([1.0, 1.0, 0.3])):
        assert stats.ks_2samp(law @ direction, plain @ direction).pvalue > 1e-4
    assert np.all(np.abs(law) <= 1)
    np.testing.assert_allclose(np.unique(law[:, 0]), [-1, 1])


def test_clients_differ_by_sigma() -> None:
    """Clients' models are not N(theta*, sigma^2 I): the variance between them is another (within 5 standard errors)."""
    world = Population(arms=ARMS, theta=THETA, sigma=0.2).begin(Streams([5]))
    plays = np.full(3, 10**6)
    reports = np.concatenate(list(world.clients(0, ARMS, plays, 20_000)))
    spread = 0.2 * np.linalg.norm(ARMS, axis=1)
    lower, upper, inside = clipped_normal_moments(ARMS @ THETA, spread, 1.0)
    mean = upper - lower + (1 - lower - upper) * inside
    np.testing.assert_allclose(np.mean(reports, axis=0), mean, atol=5 * 0.2 / math.sqrt(20_000))
    assert np.std(reports[:, 1]) == pytest.approx(spread[1], rel=5 / math.sqrt(40_000))
    assert np.corrcoef(reports[:, 0], reports[:, 1])[0, 1] == pytest.approx(0.3 / math.hypot(0.3, 0.5), abs=0.05)


def test_strangers_have_the_law_of_one_client_a_reward() -> None:
    plays, arm = np.array([12]), ARMS[:1]
    world = Population(arms=ARMS, theta=THETA, sigma=0.6).begin(Streams([7]))
    law = [world.strangers(0, arm, plays) for _ in range(3000)]
    single = world.clients(0, arm, np.ones(1, dtype=np.int64), 12 * 3000, each=True)
    plain = np.concatenate(list(single)).reshape(3000, 12).mean(axis=1)
    drawn = np.array([2 * int(ones[0]) / 12 - 1 for ones, _ in law])
    assert stats.ks_2samp(np.round(drawn, 9), np.round(plain, 9)).pvalue > 1e-4  # equal values are ties
    rate = single.clipped / (12 * 3000)
    seen = np.mean([clipped for _, clipped in law]) / 12
    assert 0.2 < rate < 0.4
    assert seen == pytest.approx(rate, abs=5 * math.sqrt(2 * rate / 36_000))


def test_clients_do_not_depend_on_blocks_or_company(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = averages(3, 100, each=False)
    monkeypatch.setattr(population, "_BLOCK", 21)
    np.testing.assert_array_equal(averages(3, 100, each=False), alone)
    world = Population(arms=ARMS, theta=THETA, sigma=0.3).begin(Streams([9, 3]))
    both = np.concatenate(list(world.clients(1, ARMS, np.array([1, 5, 40]), 100)))
    np.testing.assert_array_equal(both, alone)


def test_clients_whose_mean_is_clipped_are_counted() -> None:
    world = Population(arms=[[1.0]], theta=[1.0], sigma=1.0).begin(Streams([1]))
    clients = world.clients(0, np.ones((1, 1)), np.array([3]), 10_000)
    list(clients)
    assert clients.clipped / 10_000 == pytest.approx(0.5 + stats.norm.cdf(-2), abs=0.025)
    world = Population(arms=[[1.0]], theta=[1.0], sigma=0.0).begin(Streams([1]))
    certain = world.clients(0, np.ones((1, 1)), np.array([3]), 10)
    np.testing.assert_allclose(np.concatenate(list(certain)), 1.0)
    assert certain.clipped == 0


def test_drawn_instances_are_unit_vectors_of_their_own() -> None:
    world = Population(dim=5, n_arms=7).begin(Streams([0, 1]))
    np.testing.assert_allclose(np.linalg.norm(world.arms, axis=-1), 1)
    np.testing.assert_allclose(np.linalg.norm(world.theta, axis=-1), 1)
    assert not np.allclose(world.theta[0], world.theta[1])
    np.testing.assert_allclose(world.global_means(), np.einsum("skd,sd->sk", world.arms, world.theta))


def test_populations_are_equal_and_hashable_by_value() -> None:
    one, other = (Population(arms=ARMS, theta=THETA) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert (one.dim, one.n_arms, one.bound) == (2, 3, 1.0)


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        ([0.5, math.nan], r"theta\[1\] must be .*, got a float that is not finite"),
        ([1.0, 1.0], r"norm of theta must be at most 1, got 1.41"),
        ([[0.5, 0.5]], "shape of theta"),
        ([0.5], "shape of theta"),
        ("north", "theta"),
    ],
)
def test_models_are_refused_by_name(theta: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Population(arms=ARMS, theta=theta)
    alike = Population(arms=ARMS, theta=[0.0, 0.0]).begin(Streams([0]))
    np.testing.assert_array_equal(alike.global_means(), 0.0)


def test_one_client_per_round_sees_the_means_of_fresh_clients() -> None:
    people = Population(arms=ARMS, theta=THETA, sigma=0.5)
    env = OneClientPerRound(population=people)
    world = env.begin(Streams([4]))
    contexts = world.contexts(0, 1)
    assert contexts.shape == (1, 1, 3, 3)
    assert np.max(np.linalg.norm(contexts, axis=-1)) <= 1 + 1e-12
    users = np.random.default_rng(1).normal(THETA, 0.5, (400_000, 2))
    expected = np.mean(np.clip(users @ ARMS.T, -1, 1), axis=0)
    np.testing.assert_allclose(world.means(contexts)[0, 0], (1 + expected) / 2, atol=5 * 0.25 / math.sqrt(400_000))
    result = simulate(LinUCB(dim=3, horizon=200, privacy=none()), env, n_seeds=2)
    assert result.regret.shape == (2, 200)
    with pytest.raises(InvalidArgument, match="OneClientPerRound"):
        simulate(LinUCB(dim=2, horizon=200, privacy=none()), people)


def test_one_client_per_round_needs_as_many_users() -> None:
    people = Population(arms=ARMS, theta=THETA, size=199)
    with pytest.raises(InvalidArgument, match=r"population.size must be at least 200, .* got 199"):
        simulate(LinUCB(dim=3, horizon=200, privacy=none()), OneClientPerRound(population=people))
    env = OneClientPerRound(population=dataclasses.replace(people, size=200))
    assert simulate(LinUCB(dim=3, horizon=200, privacy=none()), env).horizon == 200
    assert simulate(LinUCB(dim=3, horizon=500, privacy=none()), env, horizon=200).horizon == 200


@pytest.mark.parametrize(
    "arguments",
    [
        {"dim": 3},
        {"dim": 3, "n_arms": 2, "sigma": -0.1},
        {"dim": 3, "n_arms": 2, "size": 0},
        {"dim": 3, "n_arms": 2, "theta": [1.0, 0.0]},
        {"dim": 3, "n_arms": 2, "theta": [1.0, 1.0, 0.0]},
        {"dim": 3, "arms": [[1.0, 0.0]]},
        {"arms": [[1.0, 0.1]]},
        {"arms": [[math.nan, 0.1]]},
        {"dim": 3, "n_arms": 2, "reward": TwoPoint(low=0.0, high=1.0)},
    ],
)
def test_bad_populations_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BandannaError):
        Population(**arguments)


def test_a_contextual_policy_is_told_what_to_do() -> None:
    crowd = Population(arms=np.eye(5)[np.zeros(200, dtype=int)], theta=np.eye(5)[0])
    with pytest.raises(InvalidArgument, match=r"DPE.*OneClientPerRound") as caught:
        simulate(LinUCB(dim=5, horizon=20, batch=10, privacy=none()), crowd)
    assert len(str(caught.value)) < 200
