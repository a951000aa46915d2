"""Confidence of private linear estimates."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.policies import confidence
from bandanna.policies.confidence import noise_bounds, radii


def paths(batches: int, dim: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Norms |N_m| and |h_m| of sums of independent unit noise: (draws, batches) each."""
    rng = np.random.default_rng(1)
    raw = rng.standard_normal((draws, batches, dim, dim))
    sums = np.cumsum((raw + np.swapaxes(raw, 2, 3)) / 2, axis=1)
    vectors = np.cumsum(rng.standard_normal((draws, batches, dim)), axis=1)
    return np.max(np.abs(np.linalg.eigvalsh(sums)), axis=-1), np.linalg.norm(vectors, axis=-1)


@pytest.mark.parametrize("growing", [False, True], ids=["flat", "growing"])
@pytest.mark.parametrize("dim", [1, 4])
def test_noise_stays_within_its_bounds(dim: int, growing: bool) -> None:
    """More than failure/3 of the noise paths leave their bound (2000 paths; six standard errors, false alarm 1e-8)."""
    failure, batches, draws = 0.3, 16, 2000
    std = np.sqrt(np.arange(1.0, batches + 1))
    matrix, vector = noise_bounds(std, dim, failure, independent=True, growing=growing)
    norms, lengths = paths(batches, dim, draws)
    slack = 6 * np.sqrt(0.1 * 0.9 / draws)
    assert np.mean(np.any(norms > matrix, axis=1)) < failure / 3 + slack
    assert np.mean(np.any(lengths > vector, axis=1)) < failure / 3 + slack


def test_bounds_are_not_idle() -> None:
    """A bound for noise 20 % smaller than the real one would still hold: it says too little."""
    std = np.sqrt(np.arange(1.0, 17))
    _, vector = noise_bounds(0.8 * std, 4, 0.3, independent=True, growing=False)
    _, lengths = paths(16, 4, 2000)
    assert np.mean(np.any(lengths > vector, axis=1)) > 0.1


def test_growing_bounds_help_early_and_cost_late() -> None:
    """Dyadic blocks do not lower the first bounds, or lower the last one below the flat bound."""
    std = np.sqrt(np.arange(1.0, 65))
    flat, growing = (noise_bounds(std, 5, 0.05, independent=True, growing=g)[0] for g in (False, True))
    assert growing[0] < 0.3 * flat[0]
    assert flat[-1] < growing[-1] < 1.3 * flat[-1]
    assert np.all(np.diff(growing) >= 0)


def test_no_noise_leaves_ridge_regression() -> None:
    """Without noise the regulariser is not the ridge, or the radius not that of the clear policy."""
    got = radii(
        np.zeros(3),
        np.array([0.0, 10, 20, 30]),
        dim=2,
        failure=0.1,
        ridge=1.5,
        parameter_bound=2.0,
        reward_std=0.5,
        independent=True,
        growing=False,
    )
    np.testing.assert_array_equal(got.ridge, np.full(4, 1.5))
    expected = 0.5 * np.sqrt(2 * np.log(10) + 2 * np.log1p(np.array([0.0, 10, 20, 30]) / 3)) + 2 * np.sqrt(1.5)
    np.testing.assert_allclose(got.radius, expected)


def test_mean_norm_is_above_the_mean() -> None:
    """In one dimension E|N| is sqrt(2/pi); the constant in use is not above it, or is far above."""
    assert np.sqrt(2 / np.pi) < confidence.mean_norm(1) < np.sqrt(2 / np.pi) + 0.1
