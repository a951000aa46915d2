"""G-optimal designs, nets and pruning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.design import (
    Design,
    ball_net,
    epsilon_net,
    near_optimal_design,
    optimal_design,
    prune_design,
    support_limit,
)


def sphere(arms: int, dim: int, seed: int) -> NDArray[np.float64]:
    rows = np.random.default_rng(seed).standard_normal((arms, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def measured_g(arms: NDArray[np.float64], design: Design) -> float:
    """g by a second route: the pseudo-inverse of V in the original coordinates."""
    chosen = arms[design.support]
    inverse = np.linalg.pinv((chosen * design.weights[:, None]).T @ chosen, hermitian=True, rcond=1e-12)
    return float(np.max(np.einsum("ij,jk,ik->i", arms, inverse, arms)))


@pytest.mark.parametrize(("arms", "dim"), [(1000, 20), (300, 50), (200, 2), (40, 7), (7, 7), (3, 9), (50, 1)])
def test_designs_keep_their_bounds(arms: int, dim: int) -> None:
    x = sphere(arms, dim, seed=arms)
    rank = min(arms, dim)
    near, best = near_optimal_design(x), optimal_design(x)
    assert near.rank == best.rank == rank
    assert near.g <= 2 * rank * (1 + 1e-8)
    assert len(near.support) <= support_limit(rank)
    assert best.g <= rank * 1.001
    assert len(best.support) <= max(rank, rank * (rank + 1) // 2)
    for design in (near, best):
        assert design.g >= rank * (1 - 1e-9)  # Kiefer and Wolfowitz: no design is better
        assert np.sum(design.weights) == pytest.approx(1, abs=1e-12)
        assert np.all(design.weights > 0)
        assert measured_g(x, design) == pytest.approx(design.g, rel=1e-6)


def test_the_designs_of_axes_and_polygons_are_the_known_ones() -> None:
    axes = optimal_design(np.eye(4))
    np.testing.assert_allclose(axes.weights, 0.25)
    turns = np.pi * np.arange(5) / 5
    polygon = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    assert optimal_design(polygon, tolerance=1e-6).g == pytest.approx(2, rel=2e-6)


@given(
    rank=st.integers(1, 4), extra=st.integers(0, 4), copies=st.integers(1, 3), seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-6, 1.0, 1e3]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_sets_that_do_not_span(rank: int, extra: int, copies: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    low = rng.standard_normal((rank + 3, rank))
    basis = np.linalg.qr(rng.standard_normal((rank + extra, rank)))[0].T  # (rank, rank + extra)
    x = scale * np.vstack([low @ basis] * copies + [np.zeros((1, rank + extra))])
    for design, limit in ((near_optimal_design(x), 2.0), (optimal_design(x), 1.001)):
        assert design.rank == rank
        assert rank * (1 - 1e-9) <= design.g <= limit * rank * (1 + 1e-8)


def test_designs_do_not_depend_on_the_basis() -> None:
    x = sphere(60, 3, seed=5)
    stretched = x @ np.diag([1.0, 1e-4, 1e-8])
    assert near_optimal_design(stretched).rank == 3
    assert near_optimal_design(stretched).g == pytest.approx(near_optimal_design(x).g, rel=0.6)
    assert optimal_design(stretched).g <= 3 * 1.001


def test_plays_are_rounded_up() -> None:
    design = Design(support=np.arange(3), weights=np.array([0.5, 0.3, 0.2]), g=1.0, rank=1, coordinates=np.ones((3, 1)))
    np.testing.assert_array_equal(design.plays(10), [5, 3, 2])
    np.testing.assert_array_equal(design.plays(11), [6, 4, 3])


def test_the_support_limit_is_the_printed_one() -> None:
    """4 d log log d + 16, never below d."""
    assert support_limit(20) == math.floor(80 * math.log(math.log(20)) + 16) == 103
    assert [support_limit(d) for d in (1, 2, 3)] == [16, 16, 17]


@pytest.mark.parametrize("arms", [np.zeros((3, 2)), np.zeros((0, 2)), [[1.0, math.nan]], [1.0, 2.0], "arms"])
def test_bad_arms_are_refused(arms: object) -> None:
    with pytest.raises(BandannaError, match="arms"):
        near_optimal_design(arms)  # type: ignore[arg-type]


def test_bad_targets_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="factor"):
        near_optimal_design(np.eye(2), factor=1.0)
    with pytest.raises(InvalidArgument, match="tolerance"):
        optimal_design(np.eye(2), tolerance=0.0)


@pytest.mark.parametrize(("arms", "dim"), [(60, 3), (300, 5), (200, 1)])
def test_fewer_arms_carry_the_same_matrix(arms: int, dim: int) -> None:
    rng = np.random.default_rng(arms)
    z, weights = rng.normal(size=(arms, dim)), rng.dirichlet(np.ones(arms))
    pruned = prune_design(z, weights)
    assert np.min(pruned) >= 0
    assert np.sum(pruned) == pytest.approx(1.0)
    assert np.count_nonzero(pruned) <= dim * (dim + 1) // 2
    before, after = ((z * each[:, None]).T @ z for each in (weights, pruned))
    factor = float(np.trace(after) / np.trace(before))
    assert factor >= 1 - 1e-12
    np.testing.assert_allclose(after, factor * before, atol=1e-9)


@pytest.mark.parametrize("dim", [2, 3])
def test_rounding_does_not_choose_among_arms(dim: int) -> None:
    rng = np.random.default_rng(dim)
    arms = rng.normal(size=(30, dim))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    here = optimal_design(arms)
    for _ in range(5):
        there = optimal_design(arms * (1 + 1e-15 * rng.integers(-2, 3, size=arms.shape)))
        assert there.support.tolist() == here.support.tolist()
        np.testing.assert_allclose(there.weights, here.weights, atol=1e-8)


@pytest.mark.parametrize(("dim", "radius"), [(1, 0.1), (2, 0.2), (3, 0.4), (2, 1.0), (4, 0.8)])
def test_ball_net_covers_the_ball(dim: int, radius: float) -> None:
    net = ball_net(dim, radius=radius)
    rng = np.random.default_rng(1)
    points = rng.standard_normal((2000, dim))
    points *= (rng.random((2000, 1)) ** (1 / dim)) / np.linalg.norm(points, axis=1, keepdims=True)
    points[:200] /= np.linalg.norm(points[:200], axis=1, keepdims=True)  # the boundary too
    nearest = np.min(np.linalg.norm(points[:, None] - net[None], axis=2), axis=1)
    assert np.max(nearest) <= radius + 1e-12
    assert np.max(np.linalg.norm(net, axis=1)) <= 1 + 1e-12
    assert len(net) <= (3 / radius) ** dim


def test_a_net_covers_every_point_with_points_farther_apart_than_its_radius() -> None:
    points = np.random.default_rng(2).standard_normal((500, 3))
    net = epsilon_net(points, radius=0.7)
    distances = np.linalg.norm(points[:, None] - net[None], axis=2)
    assert np.max(np.min(distances, axis=1)) <= 0.7
    apart = np.linalg.norm(net[:, None] - net[None], axis=2) + 9 * np.eye(len(net))
    assert np.min(apart) > 0.7


def test_too_fine_a_net_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="dim, radius"):
        ball_net(10, radius=0.1)
    with pytest.raises(InvalidArgument, match="radius"):
        epsilon_net(np.eye(2), radius=0.0)
