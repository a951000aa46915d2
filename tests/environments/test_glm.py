from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.links import Binomial, TruncatedPoisson
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM


@pytest.mark.often(of=lambda kappa: kappa in (18.39, 33.76))  # of both links, and both dimensions
@pytest.mark.parametrize(
    ("link", "dim", "norm", "rounds", "kappa"),
    [
        ("probit", 3, 2.0, 5000, 18.39),
        ("probit", 3, 2.5, 5000, 56.44),
        ("probit", 3, 3.0, 5000, 222.15),
        ("logistic", 5, 3.5, 15000, 33.76),
        ("probit", 5, 3.0, 5000, 193.18),
    ],
)
def test_published_instances_have_their_kappa(link: str, dim: int, norm: float, rounds: int, kappa: float) -> None:
    env = PublishedGLM(dim=dim, link=link, norm=norm, rounds=rounds)
    assert round(env.kappa, 2) == kappa
    assert env.least_kappa == pytest.approx(4.0 if link == "logistic" else np.sqrt(2 * np.pi), rel=1e-6)
    assert np.linalg.norm(env.theta) == pytest.approx(norm)
    assert np.max(np.linalg.norm(env.arms, axis=-1)) <= 1 + 1e-12


def test_a_seed_is_the_same_world_in_any_company() -> None:
    env = GeneralisedLinear(dim=4, n_arms=5, link="probit", norm=2.0)
    alone, both = env.begin(Streams([3])), env.begin(Streams([2, 3]))
    x = alone.contexts(0, 6)
    y = np.concatenate([both.contexts(0, 2), both.contexts(2, 4)], axis=1)
    np.testing.assert_array_equal(x[0], y[1])
    np.testing.assert_array_equal(
        alone.rewards(alone.means(x))[0],
        np.concatenate([both.rewards(both.means(y[:, :4])), both.rewards(both.means(y[:, 4:]))], axis=1)[1],
    )


@pytest.mark.parametrize("dim", [1, 2, 5, 9])
def test_arms_are_uniform_in_the_ball(dim: int) -> None:
    """Arms are denser in the middle or at the edge, or in some direction (false alarms below 1e-6 in all, as each p
    value is uniform; d + 1 or d + 3 entries of a direction in place of d + 2 give p < 1e-200)."""
    world = GeneralisedLinear(dim=dim, n_arms=50).begin(Streams([7]))
    arms = world.contexts(0, 400).reshape(-1, dim)
    radii = np.linalg.norm(arms, axis=1)
    assert radii.max() <= 1 + 1e-15
    assert stats.kstest(radii**dim, "uniform").pvalue > 1e-7  # P(|x| <= r) = r^d
    for entries in arms.T:  # 2 Beta((d + 1)/2, (d + 1)/2) - 1
        assert stats.kstest((entries + 1) / 2, stats.beta((dim + 1) / 2, (dim + 1) / 2).cdf).pvalue > 1e-7


@pytest.mark.parametrize("link", [Binomial(trials=3), TruncatedPoisson(most=4), "linear"])
def test_rewards_stay_in_their_range_and_have_their_mean(link: Binomial | TruncatedPoisson | str) -> None:
    env = GeneralisedLinear(dim=2, n_arms=3, link=link, norm=1.0)
    world = env.begin(Streams([1]))
    means = world.means(world.contexts(0, 5000))
    rewards = world.rewards(means)
    bound = world.link.reward_bound
    assert rewards.min() >= 0
    assert rewards.max() <= bound
    assert abs(float(np.mean(rewards - means))) < 5 * bound / 2 / np.sqrt(rewards.size)


def test_an_instance_ends_after_its_published_rounds() -> None:
    world = PublishedGLM(rounds=10).begin(Streams([0]))
    with pytest.raises(InvalidArgument, match="at most 10"):
        world.contexts(5, 6)
    with pytest.raises(InvalidArgument, match="link"):
        GeneralisedLinear(dim=2, n_arms=3, link="tobit")
