"""Linear worlds: their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.linear import (
    FixedArms,
    FreshArms,
    LinearContextual,
    LinearWorld,
    PublishedLinear,
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
