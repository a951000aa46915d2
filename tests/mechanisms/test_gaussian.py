"""Gaussian mechanisms: law, variance and exact privacy of the discrete Gaussian by enumeration.

Laws: DKW bands, false alarm at most 1e-6 for the seeded fast source and 1e-9 for the secure one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.noise import FastNoise, SecureNoise, gaussian_grid_distance, round_to_grid
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import DiscreteGaussianMechanism, GaussianMechanism
from bandanna.privacy.events import DiscreteGaussianEvent, GaussianEvent


def mass(std: float, reach: int) -> NDArray[np.float64]:
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / std) ** 2)
    return np.asarray(weights / weights.sum())


def renyi(order: float, std: float, shift: int) -> float:
    """The Renyi divergence of the shifted law from the unshifted one, by summation in logarithms."""
    k = np.arange(-400, 401)
    log_p, log_q = -0.5 * ((k - shift) / std) ** 2, -0.5 * (k / std) ** 2
    log_total = np.logaddexp.reduce(log_q)  # the same for both: the shift is an integer
    return float(np.logaddexp.reduce(order * log_p + (1 - order) * log_q) - log_total) / (order - 1)


def gap(draws: NDArray[Any], std: float) -> float:
    """Kolmogorov distance of integer draws from the discrete Gaussian."""
    reach = math.ceil(14 * std) + 1
    expected = np.cumsum(mass(std, reach))
    seen = np.searchsorted(np.sort(draws), np.arange(-reach, reach + 1), side="right") / draws.size
    return float(np.abs(seen - expected).max())


def band(n: int, alarm: float) -> float:
    return math.sqrt(math.log(2 / alarm) / (2 * n))


@pytest.mark.parametrize(("std", "shift"), [(1.0, 1), (2.5, 3), (0.7, 1), (4.0, 2)])
def test_discrete_gaussian_is_concentrated_as_claimed(std: float, shift: int) -> None:
    event = DiscreteGaussianMechanism(std=std, shift=shift).event
    rho = event.shift**2 / (2 * event.std**2)
    for order in (1.1, 1.5, 2.0, 2.7, 4.0, 8.0, 16.5):
        assert renyi(order, std, shift) <= rho * order * (1 + 1e-12)
        assert renyi(order, 0.8 * std, shift) > rho * order  # the same claim with less noise is false
    for order in (2.0, 4.0, 8.0):  # whole orders: the tilted law is centred on the lattice, and the bound is attained
        assert renyi(order, std, shift) == pytest.approx(rho * order, rel=1e-9)


def test_rounding_to_the_grid_must_be_charged() -> None:
    mechanism = GaussianMechanism(std=1.0, sensitivity=1.1, grid=0.5)
    values = np.linspace(-1, 1, 401)
    steps = round_to_grid(values, mechanism.step) - round_to_grid(values - mechanism.sensitivity, mechanism.step)
    worst = int(steps.max())  # 3 steps of 0.5 for a change of 1.1
    charged = (
        mechanism.event.sensitivity + mechanism.event.grid * math.sqrt(mechanism.event.dim)
    ) / mechanism.event.std
    truth = renyi(2.0, mechanism.std / mechanism.step, worst) / 2
    assert truth <= charged**2 / 2
    assert truth > (mechanism.sensitivity / mechanism.std) ** 2 / 2
    assert renyi(2.0, 0.8 * mechanism.std / mechanism.step, worst) / 2 > charged**2 / 2


@pytest.mark.parametrize("std", [0.2, 0.5, 0.9, 1.4, 1.99, 2.0, 7.0])
def test_discrete_gaussian_variance_is_exact(std: float) -> None:
    with mpmath.workdps(40):
        weights = {j: mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * mpmath.mpf(std) ** 2)) for j in range(1, 200)}
        exact = 2 * sum(j**2 * w for j, w in weights.items()) / (1 + 2 * sum(weights.values()))
        assert DiscreteGaussianMechanism(std=std, shift=1).variance == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_discrete_release_has_the_law_of_its_event(kind: str) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (20_000, 1e-9)
    source = FastNoise(np.random.default_rng(7)) if kind == "fast" else SecureNoise()
    mechanism = DiscreteGaussianMechanism(std=1.7, shift=1, dim=4)
    value = np.tile([5, -3, 0, 10**12], (n // 4, 1))
    noise = mechanism.release(value, source) - value  # (n / 4, 4)
    assert gap(noise.ravel(), mechanism.event.std) <= band(n, alarm)
    weaker = dataclasses.replace(mechanism, std=0.8 * mechanism.std).release(value, source) - value
    assert gap(weaker.ravel(), mechanism.event.std) > band(n, alarm)


def test_fast_release_is_within_the_stated_distance_of_the_events_law() -> None:
    mechanism, n = GaussianMechanism(std=2.0, sensitivity=1.0, grid=0.1), 200_000
    steps, expected = 0.1 * np.arange(-200, 201), np.cumsum(mass(20.0, 200))
    bound = gaussian_grid_distance(std=2.0, grid=0.1) + band(n, 1e-6)

    def distance(used: GaussianMechanism) -> float:
        noise = np.sort(used.release(np.zeros((n, 1)), FastNoise(np.random.default_rng(5))).ravel())
        return float(np.abs(np.searchsorted(noise, steps, side="right") / n - expected).max())

    assert distance(mechanism) <= bound
    finer = dataclasses.replace(mechanism, grid=None)
    assert distance(finer) == distance(mechanism)  # the fast source ignores the grid
    assert distance(dataclasses.replace(mechanism, std=1.6)) > bound


def test_secure_release_on_the_default_grid_is_gaussian() -> None:
    mechanism, n = GaussianMechanism(std=3.0, sensitivity=1.0, dim=2), 20_000
    weaker = dataclasses.replace(mechanism, std=2.4)
    noise, less = (used.release(np.full((n // 2, 2), 0.1), SecureNoise()) - 0.1 for used in (mechanism, weaker))
    assert stats.kstest(noise.ravel(), "norm", args=(0, 3.0)).statistic <= band(n, 1e-9) + 4e-7
    assert stats.kstest(less.ravel(), "norm", args=(0, 3.0)).statistic > band(n, 1e-9)


def test_gaussian_events_repeat_the_parameters() -> None:
    assert GaussianMechanism(std=3.0, sensitivity=2.0, dim=4).event == GaussianEvent(
        std=3.0, sensitivity=2.0, dim=4, grid=3.0 * 2.0**-20
    )
    assert GaussianMechanism(std=3.0, sensitivity=2.0, grid=0.0).event == GaussianEvent(std=3.0, sensitivity=2.0)
    assert DiscreteGaussianMechanism(std=3.0, shift=2.0, dim=4).event == DiscreteGaussianEvent(
        std=3.0, shift=2.0, dim=4
    )
    assert GaussianMechanism(std=3.0, sensitivity=2.0).variance == 9.0
    assert dataclasses.replace(GaussianMechanism(std=3.0, sensitivity=2.0), std=6.0).step == 6.0 * 2.0**-20


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("std", lambda: GaussianMechanism(std=0.0, sensitivity=1.0)),
        ("std", lambda: GaussianMechanism(std=math.nan, sensitivity=1.0)),
        ("sensitivity", lambda: GaussianMechanism(std=1.0, sensitivity=-1.0)),
        ("dim", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, dim=0)),
        ("grid", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, grid=-1.0)),
        ("grid", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, grid=1.5)),
        ("std", lambda: DiscreteGaussianMechanism(std=2.0**53, shift=1.0)),
        ("shift", lambda: DiscreteGaussianMechanism(std=1.0, shift=0.0)),
    ],
)
def test_a_mechanism_without_a_sound_event_cannot_be_built(argument: str, build: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument
