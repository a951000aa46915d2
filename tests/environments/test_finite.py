"""Rewards on a scale, finite arms, and worlds with means in [-1, 1]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Bernoulli, Bounded
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms, Levels, TwoPoint
from bandanna.simulation.environments.linear import SphereArms, SphereContexts

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
        with pytest.raises(InvalidArgument, match=r"reward = .* a law of means in \[-1, 1\]"):
            kind(dim=3, n_arms=2, reward=law)
    assert kind(dim=3, n_arms=2, reward=ClippedGaussian(low=-7.0, high=7.0, std=1.0)).n_arms == 2
