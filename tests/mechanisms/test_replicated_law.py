"""Noise of many seeds side by side: its law is the one that is asked for, and every draw is fresh."""

from __future__ import annotations

import numpy as np
from scipy import stats

from bandanna.core.streams import Streams
from bandanna.mechanisms.sources.replicated import ReplicatedNoise

SEEDS, DRAWS = 200, 50


def test_gaussian_and_laplace_noise_have_the_scale_that_is_asked_for() -> None:
    """Simulations of private policies run with other noise than is priced; Kolmogorov-Smirnov, false alarms 1e-6."""
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, DRAWS))
    for draw, law in (
        (source.gaussian(zeros, std=3.0, grid=0.0), stats.norm(0, 3)),
        (source.laplace(zeros, scale=3.0, grid=0.0), stats.laplace(0, 3)),
    ):
        assert stats.kstest(draw.ravel(), law.cdf).pvalue > 1e-6
        assert stats.kstest(0.8 * draw.ravel(), law.cdf).pvalue < 1e-9  # 20 % less would show


def test_draws_are_fresh_in_every_call_and_for_every_seed() -> None:
    """Noise is used twice: two releases with the same noise tell the difference of their data exactly."""
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, 1))
    for draw in (
        lambda: source.gaussian(zeros, std=1.0, grid=0.0),
        lambda: source.laplace(zeros, scale=1.0, grid=0.0),
        lambda: source.uniform((SEEDS, 1)),
    ):
        drawn = np.concatenate([draw() for _ in range(DRAWS)], axis=1)
        assert len(np.unique(drawn)) == drawn.size
