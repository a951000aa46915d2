"""Drifting contexts: the ladder of gaps, and the drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import DriftingContexts


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
