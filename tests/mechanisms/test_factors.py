"""Factors of noise whose loss no other test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import GaussianMechanism, LaplaceMechanism, RandomizedResponse
from bandanna.numeric.rng import Streams
from bandanna.privacy.factorisation import BLT, factorise
from bandanna.privacy.prices import fine_grid

SMALL = BLT(horizon=8, theta=(0.9,), theta_hat=(0.5,))
OCTAVES = [2000 * 2 ** (step / 9) for step in range(9)]  # grids are powers of two: one of them sees a tenth


@pytest.mark.parametrize("scale", OCTAVES)
def test_grids_are_as_fine_as_the_noise_was_calibrated_for(scale: float) -> None:
    assert GaussianMechanism(std=scale, sensitivity=2.0, dim=3).step == fine_grid(scale, 2.0, 3)
    assert LaplaceMechanism(scale=scale, sensitivity=2.0, dim=3).step == fine_grid(scale, 2.0, 9)
    for participations in (1, 3):
        for factors in (factorise("tree", horizon=8), SMALL):
            stream = ContinualGaussian(
                factorisation=factors, std=scale, sensitivity=2.0, dim=3, participations=participations
            )
            touched = 3 * factors.releases(participations)
            assert stream.spacing == fine_grid(scale, participations * 2.0 * factors.sensitivity(), touched)


def test_variances_of_a_stream_are_those_of_its_prefixes() -> None:
    tree = factorise("tree", horizon=8)
    stream = ContinualGaussian(factorisation=tree, std=3.0, sensitivity=1.0)
    np.testing.assert_allclose(stream.variances, [9.0 * t.bit_count() for t in range(1, 9)])


def test_noise_without_data_is_that_of_a_stream_of_zeros() -> None:
    stream = ContinualGaussian(factorisation=SMALL, std=3.0, sensitivity=1.0, dim=2, grid=0.0)
    source, again = (FastNoise(np.random.default_rng(5)) for _ in range(2))
    state = stream.begin()
    for prefix in stream.prefix_noise(source):
        state, stepped = stream.step(state, np.zeros(2), again)
        np.testing.assert_allclose(prefix, stepped, atol=1e-12)
    assert math.isclose(float(stream.variances[0]), 9.0)


def test_answers_in_several_coordinates_say_so() -> None:
    event = RandomizedResponse(dim=3, epsilon=1.0).event
    assert (event.dim, event.shift) == (3, 3.0)


def test_seeds_side_by_side_draw_what_is_asked_for() -> None:
    source, size = ReplicatedNoise(Streams(range(20))), (20, 500)
    geometric = 2 * math.exp(-1 / 5) / math.expm1(-1 / 5) ** 2
    for draws, variance in (
        (source.gaussian(np.zeros(size), std=5.0, grid=0.0), 25.0),
        (source.laplace(np.zeros(size), scale=5.0, grid=0.0), 50.0),
        (source.discrete_gaussian(std=5.0, size=size), 25.0),
        (source.discrete_laplace(scale=5.0, size=size), geometric),
        (source.binomial(trials=100, probability=0.5, size=size) - 50, 25.0),
    ):
        assert float(np.mean(draws)) == pytest.approx(0.0, abs=0.05 * math.sqrt(variance))
        assert float(np.std(draws)) == pytest.approx(math.sqrt(variance), rel=0.05)
