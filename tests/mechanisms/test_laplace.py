"""Laplace mechanisms: law, variance and exact pure privacy by enumeration.

Laws: DKW bands, false alarm at most 1e-6 for the seeded fast source and 1e-9 for the secure one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.noise import FastNoise, SecureNoise, laplace_grid_distance, round_to_grid
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import DiscreteLaplaceMechanism, LaplaceMechanism
from bandanna.privacy.events import DiscreteLaplaceEvent, LaplaceEvent


def mass(scale: float, reach: int) -> NDArray[np.float64]:
    q = math.exp(-1 / scale)
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1)))


def hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def joint(scale: float, shifts: tuple[int, ...], reach: int = 60) -> NDArray[np.float64]:
    """The law of shifts + noise on the box [-reach/2, reach/2]^dim."""
    inside = slice(reach // 2, 3 * reach // 2 + 1)
    law = np.ones(())
    for shift in shifts:
        law = np.multiply.outer(law, np.roll(mass(scale, reach), shift)[inside])
    return law


def band(n: int, alarm: float) -> float:
    return math.sqrt(math.log(2 / alarm) / (2 * n))


@pytest.mark.parametrize(("scale", "shift", "dim"), [(1.0, 1, 1), (2.0, 3, 1), (0.6, 1, 1), (2.0, 2, 2), (1.5, 3, 2)])
def test_discrete_laplace_is_pure_as_claimed(scale: float, shift: int, dim: int) -> None:
    event = DiscreteLaplaceMechanism(scale=scale, shift=shift, dim=dim).event
    epsilon = event.shift / event.scale
    for change in itertools.product(range(-shift, shift + 1), repeat=dim):
        if sum(map(abs, change)) == shift:
            still, moved = joint(scale, (0,) * dim), joint(scale, change)
            assert hockey_stick(moved, still, epsilon) < 1e-12
            assert hockey_stick(still, moved, epsilon) < 1e-12
            weak_still, weak_moved = joint(0.8 * scale, (0,) * dim), joint(0.8 * scale, change)
            assert hockey_stick(weak_moved, weak_still, epsilon) > 1e-3


def test_rounding_to_the_grid_must_be_charged() -> None:
    mechanism = LaplaceMechanism(scale=1.0, sensitivity=1.1, grid=0.5)
    values = np.linspace(-1, 1, 401)
    steps = round_to_grid(values, mechanism.step) - round_to_grid(values - mechanism.sensitivity, mechanism.step)
    worst, ratio = int(steps.max()), mechanism.scale / mechanism.step
    charged = (mechanism.event.sensitivity + mechanism.event.grid * mechanism.event.dim) / mechanism.event.scale
    assert hockey_stick(joint(ratio, (worst,)), joint(ratio, (0,)), charged) < 1e-12
    assert hockey_stick(joint(ratio, (worst,)), joint(ratio, (0,)), mechanism.sensitivity / mechanism.scale) > 1e-3
    assert hockey_stick(joint(0.8 * ratio, (worst,)), joint(0.8 * ratio, (0,)), charged) > 1e-3


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 5.0])
def test_discrete_laplace_variance_is_exact(scale: float) -> None:
    reach = math.ceil(80 * scale) + 5
    exact = (mass(scale, reach) * np.arange(-reach, reach + 1) ** 2).sum()
    assert DiscreteLaplaceMechanism(scale=scale, shift=1).variance == pytest.approx(exact, rel=1e-12)


def test_variance_of_real_noise_is_that_of_the_grid_within_the_stated_bound() -> None:
    for grid in (1.0, 0.5, 0.1):
        secure = grid**2 * DiscreteLaplaceMechanism(scale=1 / grid, shift=1).variance
        assert 0 < 1 - secure / LaplaceMechanism(scale=1.0, sensitivity=1.0, grid=grid).variance < grid**2 / 12


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_discrete_release_has_the_law_of_its_event(kind: str) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (30_000, 1e-9)
    source = FastNoise(np.random.default_rng(11)) if kind == "fast" else SecureNoise()
    mechanism = DiscreteLaplaceMechanism(scale=1.7, shift=1, dim=3)
    value = np.tile([5, -3, 10**12], (n // 3, 1))

    def gap(used: DiscreteLaplaceMechanism) -> float:
        noise = np.sort((used.release(value, source) - value).ravel())
        seen = np.searchsorted(noise, np.arange(-100, 101), side="right") / noise.size
        return float(np.abs(seen - np.cumsum(mass(mechanism.event.scale, 100))).max())

    assert gap(mechanism) <= band(n - 2, alarm)
    assert gap(dataclasses.replace(mechanism, scale=0.8 * mechanism.scale)) > band(n - 2, alarm)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_real_release_is_laplace(kind: str) -> None:
    """Both sources are Laplace to 5e-7; a scale 20 % too small is seen."""
    n, alarm = (200_000, 1e-6) if kind == "fast" else (30_000, 1e-9)
    source = FastNoise(np.random.default_rng(12)) if kind == "fast" else SecureNoise()
    mechanism = LaplaceMechanism(scale=3.0, sensitivity=1.0)
    weaker = dataclasses.replace(mechanism, scale=2.4)
    noise, less = ((used.release(np.full((n, 1), 0.1), source) - 0.1).ravel() for used in (mechanism, weaker))
    slack = laplace_grid_distance(scale=3.0, grid=mechanism.step)
    assert stats.kstest(noise, "laplace", args=(0, 3.0)).statistic <= band(n, alarm) + slack
    assert stats.kstest(less, "laplace", args=(0, 3.0)).statistic > band(n, alarm) + slack


def test_laplace_events_repeat_the_parameters() -> None:
    assert LaplaceMechanism(scale=3.0, sensitivity=2.0, dim=4).event == LaplaceEvent(
        scale=3.0, sensitivity=2.0, dim=4, grid=3.0 * 2.0**-20
    )
    assert DiscreteLaplaceMechanism(scale=3.0, shift=2.0, dim=4).event == DiscreteLaplaceEvent(
        scale=3.0, shift=2.0, dim=4
    )


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("scale", lambda: LaplaceMechanism(scale=0.0, sensitivity=1.0)),
        ("sensitivity", lambda: LaplaceMechanism(scale=1.0, sensitivity=math.inf)),
        ("dim", lambda: LaplaceMechanism(scale=1.0, sensitivity=1.0, dim=1.5)),
        ("grid", lambda: LaplaceMechanism(scale=1.0, sensitivity=1.0, grid=1.5)),
        ("scale", lambda: DiscreteLaplaceMechanism(scale=2.0**53, shift=1.0)),
        ("shift", lambda: DiscreteLaplaceMechanism(scale=1.0, shift=-1.0)),
    ],
)
def test_a_mechanism_without_a_sound_event_cannot_be_built(argument: str, build: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument
