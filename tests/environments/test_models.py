"""Linear worlds: their laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.links import Binomial, TruncatedPoisson
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bernoulli, Bounded
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms, Levels, TwoPoint
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.environments.linear import (
    DriftingContexts,
    FixedArms,
    FreshArms,
    LinearContextual,
    LinearWorld,
    PublishedLinear,
    SphereArms,
    SphereContexts,
    normalize_directions,
    scale_directions,
)

SEEDS = list(range(400))


def begin(env: LinearContextual | PublishedLinear) -> LinearWorld:
    """Worlds of 400 seeds."""
    return env.begin(Streams(SEEDS))


@pytest.mark.parametrize("fixed", [False, True])
def test_features_and_theta_have_norm_one(fixed: bool) -> None:
    world = begin(LinearContextual(dim=4, n_arms=6, fixed=fixed))
    for vectors in (world.theta, world.contexts(0, 3)):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-12)
        np.testing.assert_allclose(vectors[..., -1], np.sqrt(0.5))
    assert isinstance(world, FixedArms if fixed else FreshArms)


@pytest.mark.parametrize("env", [LinearContextual(dim=4, n_arms=6), PublishedLinear(dim=4, n_arms=10)])
def test_directions_are_uniform(env: LinearContextual | PublishedLinear) -> None:
    """Coordinates on the sphere of R^3 are not uniform on [-r, r] (Archimedes; KS, false alarm 1e-4 for each of 6)."""
    world = begin(env)
    arms = world.contexts(0, 1)[:, 0, -1, :-1]  # (S, 3): the last arm, which is random in both
    for vectors in (world.theta[:, :-1], arms):
        radius = np.linalg.norm(vectors[0])
        for coordinate in vectors.T / radius:
            assert stats.kstest(coordinate, stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_one_dimension_has_equal_arms() -> None:
    for env in (LinearContextual(dim=1, n_arms=3), PublishedLinear(dim=1, n_arms=3)):
        world = begin(env)
        np.testing.assert_allclose(world.means(world.contexts(0, 1)), 0.5)


def test_rounding_does_not_leave_the_unit_interval() -> None:
    world = begin(LinearContextual(dim=2, n_arms=8, fixed=True))
    means = world.means(world.contexts(0, 1))
    assert np.max(means) == 1
    np.testing.assert_array_equal(world.reward_sums(np.max(means, axis=(1, 2)), 10) <= 10, True)


def test_published_arms_are_those_of_the_paper() -> None:
    world = begin(PublishedLinear(dim=5))
    arms = world.contexts(0, 1)[:, 0]
    assert world.fixed
    assert world.binary
    assert arms.shape == (400, 100, 5)
    basis = np.eye(5)
    basis[:4, 4] = 1  # e_1 + e_5, ..., e_4 + e_5, and e_5
    np.testing.assert_array_equal(arms[:, :5], np.broadcast_to(basis, (400, 5, 5)))
    np.testing.assert_array_equal(arms[..., -1], 1)
    norms = np.linalg.norm(arms, axis=-1)
    np.testing.assert_allclose(np.delete(norms, 4, axis=1), np.sqrt(2))
    np.testing.assert_allclose(np.linalg.norm(world.theta[:, :-1], axis=-1), 0.5)
    np.testing.assert_array_equal(world.theta[:, -1], 0.5)
    exact = np.einsum("ski,si->sk", arms, world.theta)
    assert exact.min() > -1e-12
    assert exact.max() < 1 + 1e-12


def test_every_seed_has_its_own_published_instance() -> None:
    world = begin(PublishedLinear(dim=5))
    assert len(np.unique(world.theta, axis=0)) == len(SEEDS)
    assert len(np.unique(world.contexts(0, 1)[:, 0, 5:].reshape(-1, 5), axis=0)) == len(SEEDS) * 95


def test_normalised_is_the_same_instance() -> None:
    plain, normalised = begin(PublishedLinear(dim=5)), begin(PublishedLinear(dim=5, normalised=True))
    np.testing.assert_allclose(normalised.contexts(0, 1) * np.sqrt(2), plain.contexts(0, 1))
    np.testing.assert_allclose(normalised.theta, plain.theta * np.sqrt(2))
    np.testing.assert_allclose(np.linalg.norm(normalised.theta, axis=-1), 1)
    np.testing.assert_allclose(
        normalised.means(normalised.contexts(0, 1)), plain.means(plain.contexts(0, 1)), atol=1e-14
    )


def test_bad_dimensions_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="dim"):
        PublishedLinear(dim=0)


@pytest.mark.parametrize("dim", [0, 1, 4, 8, 9, 30])
def test_arms_in_one_pass_are_the_same_numbers(dim: int) -> None:
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(3, 50, 40, dim))  # more than fit in a cache
    kept = dim // 2
    np.testing.assert_array_equal(
        scale_directions(normals, 0.3, kept=kept), (normalize_directions(normals) * 0.3)[..., :kept]
    )
    arms = scale_directions(normals, 0.7, last=0.1)
    np.testing.assert_array_equal(arms[..., :-1], normalize_directions(normals) * 0.7)
    np.testing.assert_array_equal(arms[..., -1], 0.1)


# Drifting contexts: the ladder of gaps, and the drift


def rounds_of(env: DriftingContexts, rounds: int, n_seeds: int = 3) -> tuple[Any, Any]:
    """Contexts and means of the first rounds."""
    world = env.begin(Streams(range(n_seeds)))
    contexts = world.contexts(0, rounds)
    return contexts, world.means(contexts)


def test_gaps_have_angles_at_every_scale() -> None:
    """The best arm is not the last, or gaps are not 3/4 (1 - cos a) with angles halving from h in (1/2, 1]."""
    _, means = rounds_of(DriftingContexts(dim=4, n_arms=11, horizon=100), 100)
    np.testing.assert_allclose(means[..., -1], 0.75)
    angles = np.arccos(means[..., :-1] / 0.75)  # (S, rounds, 10)
    np.testing.assert_allclose(angles[..., 0::2], angles[..., 1::2], rtol=1e-6)  # both sides
    np.testing.assert_allclose(angles[..., 2::2], angles[..., 0:-2:2] / 2, rtol=1e-6)
    heights = -np.log2(angles[..., 0])
    assert np.all((heights >= -1e-9) & (heights < 1))
    assert stats.kstest(heights.ravel(), stats.uniform(0, 1).cdf).pvalue > 1e-4  # false alarm 1e-4


def test_features_have_norm_one() -> None:
    contexts, _ = rounds_of(DriftingContexts(dim=5, n_arms=8, horizon=50), 50)
    np.testing.assert_allclose(np.linalg.norm(contexts, axis=-1), 1)


def test_the_direction_turns_through_all_planes_and_back() -> None:
    env = DriftingContexts(dim=5, n_arms=3, horizon=400)
    weights = env.weights(np.arange(401))  # (rounds, 4)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1)
    np.testing.assert_allclose(weights[::100], np.eye(4)[[0, 1, 2, 3, 0]], atol=1e-12)
    assert np.max(np.linalg.norm(np.diff(weights, axis=0), axis=1)) < 0.5 * np.pi / 100 + 1e-9
    np.testing.assert_allclose(env.weights(np.array([450])), env.weights(np.array([50])), atol=1e-12)


def test_after_a_quarter_turn_the_arms_lie_in_another_plane() -> None:
    contexts, _ = rounds_of(DriftingContexts(dim=5, n_arms=3, horizon=400), 300)
    side = contexts[:, :, 0] - contexts[:, :, 1]  # along o(t)
    side /= np.linalg.norm(side, axis=-1, keepdims=True)
    np.testing.assert_allclose(np.sum(side[:, 0] * side[:, 100], axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(np.sum(side[:, 50] * side[:, 250], axis=-1), 0, atol=1e-12)


def test_the_frame_is_uniform() -> None:
    """A coordinate of the best direction or of o(0) in R^3 is not uniform on [-1, 1] (KS, false alarm 1e-4 each)."""
    contexts, _ = rounds_of(DriftingContexts(dim=3, n_arms=3, horizon=5), 1, n_seeds=500)
    side = contexts[:, 0, 0] - contexts[:, 0, 1]
    for vectors in (contexts[:, 0, -1], side / np.linalg.norm(side, axis=-1, keepdims=True)):
        for coordinate in vectors.T:
            assert stats.kstest(coordinate, stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_without_turns_the_arms_are_fixed() -> None:
    standing = DriftingContexts(dim=4, n_arms=7, horizon=50, turns=0).begin(Streams([1, 2]))
    turning = DriftingContexts(dim=4, n_arms=7, horizon=50).begin(Streams([1, 2]))
    assert standing.fixed
    assert not turning.fixed
    np.testing.assert_allclose(standing.contexts(0, 1), turning.contexts(0, 1))


def test_regret_grows_like_the_root_of_the_horizon() -> None:
    horizons = np.array([100_000, 1_000_000, 10_000_000])
    regrets = []
    for horizon in horizons:
        env = DriftingContexts(dim=3, n_arms=25, horizon=int(horizon), turns=0)
        policy = LinUCB(dim=3, horizon=int(horizon), batch=int(horizon) // 1000, privacy=none())
        regrets.append(np.mean(simulate(policy, env, n_seeds=10, checkpoints=10).final_regret))
    slope = np.polyfit(np.log(horizons), np.log(regrets), 1)[0]
    assert abs(slope - 0.5) < 0.08


@pytest.mark.parametrize("bad", [{"turns": -1}, {"turns": np.nan}, {"horizon": 0}, {"n_arms": 0}, {"dim": 1.5}])
def test_bad_arguments_of_drifting_contexts_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        DriftingContexts(**{"dim": 3, "n_arms": 5, "horizon": 10, **bad})


# Rewards on a scale, finite arms, and worlds with means in [-1, 1]


LAWS = (
    TwoPoint(low=-1, high=3),
    ClippedGaussian(),
    ClippedGaussian(std=0.2, low=-2, high=1, levels=7),
    ClippedGaussian(std=3.0, low=-1, high=1, levels=2),
)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_has_the_mean_that_it_is_given(law: Levels) -> None:
    means = np.linspace(law.low, law.high, 41)
    chances = law.chances(means)
    assert np.all(chances >= 0)
    assert np.allclose(np.sum(chances, axis=-1), 1)
    assert np.allclose(chances @ law.values, means, atol=1e-6 * (law.high - law.low))


@pytest.mark.parametrize("law", LAWS)
def test_single_draws_have_the_law_of_the_counts(law: Levels) -> None:
    mean = 0.3 * law.low + 0.7 * law.high
    draws = law.draw(np.full((2, 20_000), mean), Streams([1, 2])).ravel()
    expected = law.chances(np.array(mean)) * len(draws)
    counts = np.array([np.count_nonzero(np.isclose(draws, value)) for value in law.values])
    assert np.sum(counts) == len(draws)
    common = expected > 10
    assert (
        stats.chisquare(
            np.append(counts[common], np.sum(counts[~common])) + 1e-9,
            np.append(expected[common], np.sum(expected[~common])) + 1e-9,
            sum_check=False,
        ).pvalue
        > 1e-5
    )


def test_clipped_gaussian_noise_is_gaussian_far_from_the_ends() -> None:
    law = ClippedGaussian(std=1.0, low=-8, high=8, levels=1601)
    chances = law.chances(np.array(0.5))
    assert chances @ (law.values - 0.5) ** 2 == pytest.approx(1.0, rel=1e-4)
    assert chances @ (law.values - 0.5) ** 4 == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("wrong", [{"means": []}, {"means": [[0.1]]}, {"means": [0.5, 1.5]}, {"means": "two"}])
def test_means_outside_of_the_law_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="means"):
        FiniteArms(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="low"):
        TwoPoint(low=1.0, high=1.0)
    with pytest.raises(InvalidArgument, match="mean"):
        TwoPoint().chances(np.array(1.5))


def test_finite_arms_are_unit_vectors_with_the_given_means() -> None:
    env = FiniteArms(means=(0.2, 0.9, 0.4), reward=Bounded())
    world = env.begin(Streams([3, 4]))
    assert (env.dim, env.n_arms, world.fixed) == (3, 3, True)
    contexts = world.contexts(0, 5)
    assert np.array_equal(contexts[1, 0], np.eye(3))
    assert np.array_equal(world.means(contexts)[0, 0], [0.2, 0.9, 0.4])


@pytest.mark.parametrize("env", [SphereArms(dim=3, n_arms=4), SphereContexts(dim=3, n_arms=4)])
def test_worlds_on_the_sphere_are_the_same_in_any_company(env: SphereArms | SphereContexts) -> None:
    many, alone = env.begin(Streams([5, 6])), env.begin(Streams([6]))
    one = many.contexts(0, 8)[1]
    again = (
        alone.contexts(0, 3)[0]
        if env.__class__ is SphereArms
        else np.concatenate([alone.contexts(0, 3)[0], alone.contexts(3, 5)[0]])
    )
    assert np.array_equal(one, again)
    assert np.allclose(np.linalg.norm(one, axis=-1), 1)
    assert np.max(np.abs(many.means(many.contexts(8, 8)))) <= 1 + 1e-9


def test_contexts_as_published_leave_the_unit_ball() -> None:
    raw = SphereContexts(dim=3, n_arms=50, scaled=False).begin(Streams([0])).contexts(0, 400)[0]
    assert np.mean(np.linalg.norm(raw, axis=-1) > 1) > 0.3
    assert np.var(raw) == pytest.approx(0.1, rel=0.05)
    assert np.mean(raw) == pytest.approx(1 / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize("reward", ["Bernoulli", Bernoulli, None, 1.0])
def test_what_is_no_law_of_rewards_is_refused_by_name(reward: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"reward must be Bernoulli\(\), "):
        FiniteArms(means=(0.5, 0.6), reward=reward)


@pytest.mark.parametrize("kind", [SphereArms, SphereContexts])
def test_worlds_of_signed_means_refuse_laws_that_cannot_have_them(kind: Any) -> None:
    for law in (Bernoulli(), Bounded(width=0.25), TwoPoint(low=0.0, high=1.0), ClippedGaussian(low=-0.5, high=1.0)):
        with pytest.raises(InvalidArgument, match=r"reward must be TwoPoint\(...\) or ClippedGaussian"):
            kind(dim=3, n_arms=2, reward=law)
    assert kind(dim=3, n_arms=2, reward=ClippedGaussian(low=-7.0, high=7.0, std=1.0)).n_arms == 2


# glm


@pytest.mark.often(when=lambda kappa: kappa in (18.39, 33.76))  # of both links, and both dimensions
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
