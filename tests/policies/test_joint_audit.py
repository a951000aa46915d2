"""AdaC-OFUL-JDP with releases that are given: what a person's data move over all releases, and that nothing else shows.

Every release is a Gaussian around an exact value. If all outputs are given, public things must not depend on data, and
the price of a person is the sum over releases of |move of the exact value|^2 / (2 std^2), adaptive episodes included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from bandanna.policies.linear.oful import OFULJDP, OFULJDPState
from bandanna.protocols.privacy_model import central

from .answering import Teacher
from .scripted_noise import Scripted

Floats = NDArray[np.float64]
Person = tuple[tuple[float, float], float]  # features and reward

POLICY = OFULJDP(dim=2, horizon=60, batch=5, privacy=central(rho=0.5), share=0.3, growth=0.2, reward_range=(-1.0, 2.0))
BATCHES = 12


class Given(Scripted):
    """Outputs of any length: growing matrices (3 numbers) and some vector (2)."""

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> Floats:
        """The next numbers, whatever the value."""
        exact = np.asarray(value, dtype=float)
        self.releases.append((exact, std))
        return np.asarray(next(self.outputs))[: exact.size].reshape(exact.shape)


def outputs(seed: int) -> Iterator[Floats]:
    """Random releases around a matrix that grows by some of the regulariser in every batch."""
    rng = np.random.default_rng(seed)
    while True:
        yield POLICY.regulariser * (np.array([0.1, 0.1, 0.0]) + 0.05 * rng.normal(size=3))


def run(persons: dict[int, Person], seed: int) -> tuple[list[OFULJDPState], Given]:
    """All batches, with some persons' data replaced: states after every batch, and the releases."""
    rng, source = np.random.default_rng(0), Given(outputs(seed))
    features, rewards = rng.normal(size=(5 * BATCHES, 2)) / 2, rng.uniform(-1, 2, size=5 * BATCHES)
    for place, (x, y) in persons.items():
        features[place], rewards[place] = x, y
    teacher, states = Teacher(POLICY, source), []
    for batch in range(BATCHES):
        here = slice(5 * batch, 5 * batch + 5)
        states.append(teacher.learn(features[here], rewards[here]))
    return states, source


def spent(place: int, one: Person, two: Person, seed: int) -> tuple[float, float]:
    """rho of the matrices and rho of the vectors, for one person replaced."""
    released = [run({place: person}, seed)[1].releases for person in (one, two)]
    price = {3: 0.0, 2: 0.0}
    for (exact, std), (other, _) in zip(*released, strict=True):
        price[exact.size] += float(np.sum((exact - other) ** 2)) / (2 * std**2)
    return price[3], price[2]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_public_follows_from_releases_alone(seed: int) -> None:
    big: dict[int, Person] = dict.fromkeys(range(30), ((9.0, -9.0), 5.0))
    (one, first), (two, second) = run({}, seed), run(big, seed)
    assert 1 < one[-1].switches < BATCHES
    assert len(first.releases) == len(second.releases) == BATCHES + one[-1].switches
    for mine, other in zip(one, two, strict=True):
        assert mine.switches == other.switches
        assert mine.log_det == other.log_det
        assert np.array_equal(mine.released, other.released)
        assert np.array_equal(mine.vector, other.vector)
        assert np.array_equal(mine.snapshot.theta, other.snapshot.theta)
        assert np.array_equal(mine.snapshot.inverse, other.snapshot.inverse)
        assert mine.snapshot.radius == other.snapshot.radius


@pytest.mark.parametrize("place", [0, 7, 20])
def test_a_person_costs_rho_over_all_releases(place: int) -> None:
    far = 40.0  # features and rewards outside of their bounds are clipped
    matrix, vector = spent(place, ((1.0, 0.0), 1.0), ((0.0, far), 1.0), seed=1)
    both = 0.5 / (1.3 / 2 + 0.7**2 / (16 * 0.3))  # 0.3 of it for the matrix, if worst cases could meet
    assert 0.9 * 0.3 * both < matrix <= 0.3 * both
    assert matrix + vector <= 0.5
    matrix, vector = spent(place, ((1.0, 0.0), far), ((-far, 0.0), 2.0), seed=1)
    assert 0.99 * 0.7 * both < vector <= 0.7 * both <= 0.5
    assert matrix < 1e-9  # x and -x have one matrix
    cosine = 0.7 / (4 * 0.3)
    worst = sum(spent(place, ((1.0, 0.0), 2.0), ((-cosine, math.sqrt(1 - cosine**2)), 2.0), seed=1))
    assert 0.95 * 0.5 < worst <= 0.5
    assert worst / 0.8**2 > 1.4 * 0.5
