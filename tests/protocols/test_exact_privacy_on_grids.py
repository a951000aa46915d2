"""Exact privacy of releases on a grid, rounding included: central Gaussian, Laplace and continual sums.

A source that rounds as the secure one does, and adds nothing, tells on which grid points the noise is centred and how
much of it was asked for. The rest of the law is the discrete Gaussian or Laplace law, so that the divergence of
neighbours is a finite sum. Grids are chosen coarse, and so that rounding can really add the whole step that the price
charges: there the claims are tight, and must be false for noise with 20 % less standard deviation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.noise import FastNoise, divide_rounding_up, round_to_grid
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import GaussianMechanism, LaplaceMechanism
from bandanna.numeric import search
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import laplace_scale
from bandanna.privacy.events import ContinualEvent, Event
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian

Array = NDArray[Any]


class Rounding(FastNoise):
    """Rounds as the secure source does and adds nothing; keeps the grid points and the noise that was asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.points: list[Array] = []
        self.spread: set[float] = set()  # std or scale, in grid steps

    def gaussian(self, value: Any, *, std: float, grid: float) -> Array:
        """The grid points."""
        return self._keep(value, divide_rounding_up("std", std, grid), grid)

    def laplace(self, value: Any, *, scale: float, grid: float) -> Array:
        """The grid points."""
        return self._keep(value, divide_rounding_up("scale", scale, grid), grid)

    def _keep(self, value: Any, spread: float, grid: float) -> Array:
        self.points.append(round_to_grid(value, grid))
        self.spread.add(spread)
        return np.asarray(self.points[-1] * grid)


def gaussian_divergence(shift: tuple[int, ...], std: float, epsilon: float) -> float:
    """Hockey-stick divergence of a discrete Gaussian vector and the same moved by integers; equal in both directions.

    The loss at shift + z is (2 <z, shift> + |shift|^2) / (2 std^2): all that counts is the integer t = <z, shift>.
    """
    reach = math.ceil(13 * std)
    single = np.exp(-0.5 * (np.arange(-reach, reach + 1) / std) ** 2)
    single /= single.sum()
    law = np.ones(1)
    for k in (abs(k) for k in shift if k):
        spaced = np.zeros(2 * reach * k + 1)
        spaced[::k] = single
        law = np.maximum(signal.fftconvolve(law, spaced), 0.0)  # rounding errors below 1e-15
    t = np.arange(len(law)) - (len(law) - 1) // 2
    loss = (2 * t + sum(k * k for k in shift)) / (2 * std**2)
    return float(np.sum(law * -np.expm1(np.minimum(epsilon - loss, 0.0))))


@dataclass(frozen=True, kw_only=True)
class CoarseGaussian(CentralGaussian):
    """The central protocol on a grid of our choice."""

    grid: float

    @property
    def mechanism(self) -> GaussianMechanism:
        """On the given grid."""
        return replace(super().mechanism, grid=self.grid)


@dataclass(frozen=True, kw_only=True)
class CoarseContinual(CentralContinual):
    """The continual protocol on a grid of our choice."""

    grid: float

    @property
    def mechanism(self) -> ContinualGaussian:
        """On the given grid."""
        return replace(super().mechanism, grid=self.grid)

    @property
    def event(self) -> ContinualEvent:
        """Priced on that grid."""
        return self.mechanism.event


def least_std(event: Callable[[float], Event], budget: ApproxDP) -> float:
    """The least noise with which the accountant accepts the event."""
    return search.find_least(lambda std: accountant.satisfies(event(std), budget), 0.4, 1e3, relative=1e-9)


def spread(points: Array) -> set[tuple[int, ...]]:
    """All differences, up to sign, of the rows of integer points (n, numbers)."""
    points = np.unique(points, axis=0)
    steps = (points[:, None] - points[None]).reshape(-1, points.shape[-1])
    return {tuple(row) for row in np.unique(np.abs(steps), axis=0).tolist()}


def worst_sum(protocol: CoarseGaussian, mesh: Array, epsilon: float) -> float:
    """Largest divergence of releases of a two-user batch whose first user is replaced, beside any second user."""
    source = Rounding()
    for offset in np.linspace(0, protocol.grid, 26):  # where the second user puts the sum between grid points
        batch = np.stack([mesh, np.full(mesh.shape, offset)], axis=-2)  # (n, 2, dim)
        protocol.release(batch, source, clip=False)
    (std,) = source.spread
    shifts = set().union(*(spread(points) for points in source.points))
    return max(gaussian_divergence(shift, std, epsilon) for shift in shifts)


CASES = [
    (*place, *budget)
    for place in ((Box(dim=1), 1.0, 3), (Box(dim=1), 1.0, 8), (Ball(dim=2), math.sqrt(2), 6))
    for budget in ((1.0, 1e-2), (0.3, 1e-5), (4.0, 1e-3))
]


@pytest.mark.parametrize(("domain", "width", "steps", "epsilon", "delta"), CASES)
@pytest.mark.often(of=lambda steps, epsilon: (steps, epsilon) in ((3, 1.0), (8, 0.3), (6, 4.0)))
def test_a_noisy_sum_is_as_private_as_promised(
    domain: Domain, width: float, steps: int, epsilon: float, delta: float
) -> None:
    """Sums of neighbours on a coarse grid diverge by at most the claim, rounding included; with 20 % less noise more.

    The widest change of a coordinate is just over a whole number of steps, and rounding makes it one step more.
    """
    grid = width / (steps + 0.05)
    if isinstance(domain, Ball):
        radius, angle = np.meshgrid([1.0, 0.97, 0.4], np.pi * np.array([0.0, 0.25, 0.3, 1.0, 1.25, 1.3]))
        mesh = np.stack([(radius * np.cos(angle)).ravel(), (radius * np.sin(angle)).ravel()], axis=-1)
    else:
        mesh = np.linspace(0, 1, 97)[:, None]
    budget = ApproxDP(epsilon=epsilon, delta=delta)

    def make(std: float) -> CoarseGaussian:
        return CoarseGaussian(domain=domain, noise_std=std, grid=grid, delta=delta)

    protocol = make(least_std(lambda std: make(std).event, budget))
    weaker = replace(protocol, noise_std=0.8 * protocol.noise_std)
    stated = protocol.guarantee
    assert stated.epsilon <= epsilon * (1 + 1e-9)
    assert worst_sum(protocol, mesh, epsilon) <= delta
    assert worst_sum(protocol, mesh, stated.epsilon) <= delta
    assert worst_sum(weaker, mesh, epsilon) > delta
    assert worst_sum(weaker, mesh, stated.epsilon) > delta


@pytest.mark.parametrize("participations", [2, 3])
def test_noisy_sums_compose_as_promised(participations: int) -> None:
    """A person in several batches is protected as the composed law says; with 20 % less noise the claim is false."""
    domain, epsilon, delta = Box(dim=1), 1.0, 1e-2
    budget = ApproxDP(epsilon=epsilon, delta=delta)

    def make(std: float) -> CoarseGaussian:
        return CoarseGaussian(domain=domain, noise_std=std, grid=1 / 8.001, delta=delta, participations=participations)

    def stated(std: float) -> float:
        return make(std).guarantee.epsilon

    std = search.find_least(lambda std: stated(std) <= epsilon, 0.5, 50.0, relative=1e-6)
    assert accountant.Accountant().compose(make(std).event, participations).satisfies(budget)
    source = Rounding()
    make(std).release([[[0.0], [0.5 / 8.001]], [[1.0], [0.5 / 8.001]]], source)
    shift = (int(np.ptp(source.points[0])),) * participations
    assert shift[0] == 9
    assert gaussian_divergence(shift, std * 8.001, epsilon) <= delta
    assert gaussian_divergence(shift, 0.8 * std * 8.001, epsilon) > delta


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_noise_is_pure_as_promised(dim: int, epsilon: float) -> None:
    steps, domain = 8, Box(dim=dim)
    mechanism = LaplaceMechanism(
        scale=(domain.l1_sensitivity + dim / (steps + 1e-3)) / epsilon,
        sensitivity=domain.l1_sensitivity,
        dim=dim,
        grid=1 / (steps + 1e-3),
    )
    stated = accountant.epsilon(mechanism.event, 0.0)
    assert stated == pytest.approx(epsilon)
    assert accountant.delta(mechanism.event, stated * (1 + 1e-12)) == pytest.approx(0.0, abs=1e-13)

    def loss(used: LaplaceMechanism) -> float:
        source = Rounding()
        corners = np.array(list(itertools.product(np.linspace(0, 1, 49 if dim == 1 else 7), repeat=dim)))
        for offset in np.linspace(0, 1, 9):
            used.release(corners + offset / (steps + 1e-3), source)
        (scale,) = source.spread
        outcomes = np.arange(-60, 61)
        most = 0.0
        for shift in set().union(*(spread(points) for points in source.points)):
            most = max(most, sum(np.max(np.abs(outcomes) - np.abs(outcomes - k)) / scale for k in shift))
        return most

    assert loss(mechanism) <= stated
    assert loss(replace(mechanism, scale=0.8 * mechanism.scale)) > stated


def test_calibrated_laplace_noise_is_the_least() -> None:
    budget = ApproxDP(epsilon=0.7, delta=0.0)
    scale = laplace_scale(sensitivity=2.0, dim=2, budget=budget, participations=3)
    assert scale == pytest.approx(3 * 2.0 / 0.7, rel=1e-3)
    made = LaplaceMechanism(scale=scale, sensitivity=2.0, dim=2)
    assert 3 * accountant.epsilon(made.event, 0.0) <= 0.7
    assert 3 * accountant.epsilon(replace(made, scale=0.999 * scale).event, 0.0) > 0.7


def stream_points(protocol: CoarseContinual, streams: Array) -> tuple[Array, float]:
    """All released numbers of streams (n, horizon, dim), before noise, in grid steps: (n, numbers); and the noise."""
    source, state = Rounding(), protocol.begin((len(streams),))
    for t in range(streams.shape[1]):
        state, _ = protocol.release(state, streams[:, t, None], source, clip=False)
    (std,) = source.spread
    return np.concatenate([points.reshape(len(streams), -1) for points in source.points], axis=1), std


@pytest.mark.parametrize("participations", [1, 2])
@pytest.mark.parametrize("name", ["tree", "blt"])
def test_a_stream_is_as_private_as_promised(name: str, participations: int) -> None:
    domain, epsilon, delta = Box(dim=1, low=-1.0, high=1.0), 1.0, 1e-2
    factors = factorise(name, horizon=3)

    def make(std: float) -> CoarseContinual:
        return CoarseContinual(
            domain=domain,
            factorisation=factors,
            noise_std=std,
            grid=std / 48,
            delta=delta,
            participations=participations,
        )

    protocol = make(least_std(lambda std: make(std).event, ApproxDP(epsilon=epsilon, delta=delta)))
    assert protocol.guarantee.epsilon <= epsilon * (1 + 1e-9)
    ends = [-1.0, -0.317, 0.2041, 1.0]

    def worst(used: CoarseContinual) -> float:
        found = 0.0
        for steps in itertools.combinations(range(3), participations):  # in which the person takes part
            streams = np.full((len(ends) ** participations, 3, 1), 0.123)
            streams[:, list(steps), 0] = list(itertools.product(ends, repeat=participations))
            points, std = stream_points(used, streams)
            shifts = sorted(spread(points), key=lambda k: -sum(j * j for j in k))[:5]
            found = max(found, *(gaussian_divergence(k, std, epsilon) for k in shifts))
        return found

    assert worst(protocol) <= delta
    if participations == 1:  # of several, the price adds the changes as if all moved the same numbers: not tight
        assert worst(replace(protocol, noise_std=0.8 * protocol.noise_std)) > delta
