"""Noise of many seeds side by side: its law is the one that is asked for, and every draw is fresh."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.numeric.rng import Streams

SEEDS, DRAWS = 200, 50


def test_gaussian_and_laplace_noise_have_the_scale_that_is_asked_for() -> None:
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, DRAWS))
    for draw, law in (
        (source.gaussian(zeros, std=3.0, grid=0.0), stats.norm(0, 3)),
        (source.laplace(zeros, scale=3.0, grid=0.0), stats.laplace(0, 3)),
    ):
        assert stats.kstest(draw.ravel(), law.cdf).pvalue > 1e-6
        assert stats.kstest(0.8 * draw.ravel(), law.cdf).pvalue < 1e-9  # 20 % less would show


def test_draws_are_fresh_in_every_call_and_for_every_seed() -> None:
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, 1))
    for draw in (
        lambda: source.gaussian(zeros, std=1.0, grid=0.0),
        lambda: source.laplace(zeros, scale=1.0, grid=0.0),
        lambda: source.uniform((SEEDS, 1)),
    ):
        drawn = np.concatenate([draw() for _ in range(DRAWS)], axis=1)
        assert len(np.unique(drawn)) == drawn.size


def test_heads_have_the_law_of_every_users_coins() -> None:
    places, counts = 40_000, np.array([[3, 2], [1, 4]])
    chances = np.array([[0.3, 0.9], [0.71, 0.04]])
    given = np.broadcast_to(chances[..., None], (2, 2, places))
    drawn = ReplicatedNoise(Streams([5, 6])).heads(counts, given)
    for heads, many, p in zip(drawn, counts, chances, strict=True):
        law = np.convolve(*(stats.binom.pmf(np.arange(n + 1), n, q) for n, q in zip(many, p, strict=True)))
        found = np.bincount(heads, minlength=6) / places
        assert np.all(np.abs(found - law) < 6 * np.sqrt(law * (1 - law) / places) + 1e-12)
    plain = FastNoise(np.random.default_rng(7)).heads(counts, given)
    assert np.all(np.abs(np.mean(plain - drawn, axis=1)) < 6 * np.sqrt(2 * 5 / 4 / places))


def test_heads_that_the_first_bits_leave_open_are_decided_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    streams, places = Streams([1, 2]), 1000
    monkeypatch.setattr(streams, "sixteen_bits", lambda name, shape: np.full((2, *shape), 7, dtype=np.uint16))
    chances = np.full((2, 2, places), 7.25 / 2**16)
    heads = ReplicatedNoise(streams).heads(np.array([[1, 4], [5, 0]]), chances)
    assert np.all(np.abs(np.mean(heads, axis=1) / 5 - 0.25) < 6 * math.sqrt(0.25 * 0.75 / (5 * places)))


def test_a_seeds_heads_are_the_same_in_any_company() -> None:
    counts, chances = np.array([[9, 30], [20, 19]]), np.random.default_rng(3).random((2, 2, 3000))
    together, alone = ReplicatedNoise(Streams([4, 8])), ReplicatedNoise(Streams([8]))
    for _ in range(3):
        assert np.array_equal(together.heads(counts, chances)[1], alone.heads(counts[1:], chances[1:])[0])
