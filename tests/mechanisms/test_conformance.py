"""What every one-shot mechanism must do, with every noise source: add a mechanism to `MECHANISMS` and it is held to it.

The secure source cannot be seeded; statements about its draws raise a false alarm with probability below 1e-9 each.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import InvalidArgument, InvalidStatistic, UnknownEvent
from bandanna.mechanisms.noise import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
)
from bandanna.privacy.events import Event

REAL = [GaussianMechanism(std=2.0, sensitivity=1.0, dim=3), LaplaceMechanism(scale=2.0, sensitivity=1.0, dim=3)]
WHOLE = [
    DiscreteGaussianMechanism(std=2.0, shift=1.0, dim=3),
    DiscreteLaplaceMechanism(scale=2.0, shift=1.0, dim=3),
    BinomialMechanism(trials=16, shift=1.0, reach=1, dim=3),
    BinomialMechanism(trials=20, shift=1.0, reach=1, dim=3, probability=0.25, rounded=False),
]
MECHANISMS = REAL + WHOLE
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)


@pytest.fixture(params=["fast", "secure"])
def source(request: pytest.FixtureRequest) -> NoiseSource:
    return FastNoise(np.random.default_rng(99)) if request.param == "fast" else SecureNoise()


def zeros(mechanism: Mechanism, *replicates: int) -> Any:
    return np.zeros((*replicates, mechanism.dim), dtype=float if mechanism in REAL else np.int64)


@each
def test_it_is_one_frozen_value(mechanism: Mechanism) -> None:
    assert dataclasses.is_dataclass(mechanism)
    assert mechanism == copy.copy(mechanism) == pickle.loads(pickle.dumps(mechanism))
    assert hash(mechanism) == hash(copy.copy(mechanism))
    assert all(field.kw_only for field in dataclasses.fields(mechanism))
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.dim = 5


@each
def test_it_states_its_event(mechanism: Mechanism) -> None:
    event = mechanism.event
    assert isinstance(event, Event)
    stated = {name: value for name, value in dataclasses.asdict(mechanism).items() if value is not None}
    assert stated.items() <= dataclasses.asdict(event).items()


@each
@pytest.mark.parametrize("replicates", [(), (1,), (2, 4), (0,)])
def test_leading_axes_are_replicates(mechanism: Mechanism, replicates: tuple[int, ...], source: NoiseSource) -> None:
    released = mechanism.release(zeros(mechanism, *replicates), source)
    assert released.shape == (*replicates, mechanism.dim)
    assert released.dtype == (np.float64 if mechanism in REAL else np.int64)


@each
def test_the_value_is_left_alone(mechanism: Mechanism, source: NoiseSource) -> None:
    value = zeros(mechanism, 50)
    released = mechanism.release(value, source)
    assert not value.any()
    assert not np.shares_memory(value, released)


@each
def test_noise_is_centred_and_of_the_stated_variance(mechanism: Mechanism, source: NoiseSource) -> None:
    n = 18_000 if source.secure else 90_000
    noise = mechanism.release(zeros(mechanism, n // 3), source) - getattr(mechanism, "mean", 0.0)
    assert abs(noise.mean()) < 10 * math.sqrt(mechanism.variance / n)
    error = math.sqrt(((noise**2).var()) / n)
    assert abs((noise**2).mean() - mechanism.variance) < 10 * error
    assert (noise**2).mean() - 0.64 * mechanism.variance > 10 * error  # a std 20 % too small would be seen


@each
def test_noise_is_fresh_everywhere(mechanism: Mechanism, source: NoiseSource) -> None:
    """|r| sqrt(n) below 7.5."""
    n = 2_000 if source.secure else 20_000
    noise = np.concatenate([mechanism.release(zeros(mechanism, n), source) for _ in range(2)], axis=1)  # (n, 6)
    columns = np.concatenate([noise[1:], noise[:-1]], axis=1).astype(float)  # and the row before: (n - 1, 12)
    correlation = np.corrcoef(columns, rowvar=False)
    assert np.abs(correlation - np.eye(12)).max() * math.sqrt(n) < 7.5


@each
def test_the_value_is_shifted_and_nothing_else(mechanism: Mechanism) -> None:
    value = zeros(mechanism, 5) + 7
    first = mechanism.release(zeros(mechanism, 5), FastNoise(np.random.default_rng(1)))
    second = mechanism.release(value, FastNoise(np.random.default_rng(1)))
    assert np.allclose(second - first, 7, rtol=0, atol=1e-12)


@each
@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (4,)])
def test_other_shapes_are_refused(mechanism: Mechanism, shape: tuple[int, ...], source: NoiseSource) -> None:
    with pytest.raises(InvalidStatistic, match=r"\(\.\.\., 3\)"):
        mechanism.release(np.zeros(shape, dtype=zeros(mechanism).dtype), source)


@pytest.mark.parametrize("mechanism", REAL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(mechanism: Mechanism, bad: float, source: NoiseSource) -> None:
    with pytest.raises(InvalidStatistic, match="finite") as caught:
        mechanism.release([0.123456, bad, 0.0], source)
    assert "0.123456" not in str(caught.value)


@pytest.mark.parametrize("mechanism", WHOLE, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "bad", [[0.0, 1.0, 2.0], [True, False, True], ["1", "2", "3"], [0, 1, 2**62], [0, 1, -(2**62)]]
)
def test_values_that_are_not_small_integers_are_refused(mechanism: Mechanism, bad: Any, source: NoiseSource) -> None:
    with pytest.raises(InvalidStatistic):
        mechanism.release(bad, source)


@each
@pytest.mark.parametrize("bad", [None, 0, np.random.default_rng(0)])
def test_only_noise_sources_are_sources(mechanism: Mechanism, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="NoiseSource"):
        mechanism.release(zeros(mechanism), bad)


def test_a_mechanism_without_an_event_cannot_be_built() -> None:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Free(DiscreteGaussianMechanism):
        @property
        def event(self) -> Any:
            return None

    with pytest.raises(UnknownEvent, match="price"):
        Free(std=1.0, shift=1.0)
