"""Estimates of the kernel of optimists are those of its equations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.numeric.kernels import estimate_from_released_sums
from bandanna.types import Floats


def packed(gram: Floats, vector: Floats) -> Floats:
    above = gram[np.triu_indices(len(gram), 1)]
    return np.concatenate([vector, np.diag(gram), math.sqrt(2) * above])


@pytest.mark.parametrize("scale", [0.0, 1.7])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 12])
def test_estimates_are_those_of_the_equations(d: int, scale: float) -> None:
    rng, definite, (floor, weight) = np.random.default_rng(d), 0, (0.3, 0.2)
    system, own, column, theta, inverse = np.empty((d, 2 * d + 1)), *np.empty((3, d)), np.empty((d, d))
    for _ in range(60):
        half, vector = rng.standard_normal((d, d)), rng.standard_normal(d)
        gram = half @ half.T + rng.uniform(-1.0, 0.5) * np.eye(d)
        gain = gram @ np.linalg.inv(scale * gram + floor * np.eye(d)) if scale else np.eye(d)
        matrix = (gain @ gram if scale else gram) + weight * np.eye(d)
        least = [np.linalg.eigvalsh(each)[0] for each in (scale * gram + floor * np.eye(d), (matrix + matrix.T) / 2)]
        found = estimate_from_released_sums(
            packed(gram, vector), scale, floor, weight, system, own, column, theta, inverse
        )
        assert found == (min(least) > 0)
        definite += found
        if found and min(least) > 1e-3:
            np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(theta, np.linalg.inv(matrix) @ gain @ vector, rtol=1e-8, atol=1e-8)
    assert 0 < definite < 60
