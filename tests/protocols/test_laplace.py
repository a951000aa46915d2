"""Discrete Laplace noise in the central model is pure."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.device.domain import Ball, Box
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric import exact_sums
from bandanna.numeric.exact_sums import exact_sum
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.protocols.laplace import CentralLaplace


class Silent(FastNoise):
    """No noise: what is left is the part of a release that depends on data."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def discrete_laplace(self, *, scale: float, size: Any) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)


def worst_ratio(protocol: CentralLaplace, grid: np.ndarray, users: int) -> float:
    """Largest log ratio of output probabilities over all neighbours with entries on `grid`, exactly.

    The noise has independent coordinates with P(Z = j) proportional to exp(-|j|/scale): the log ratio at an output is
    a sum over coordinates, largest where every output lies beyond both totals.
    """
    rows = np.array(list(itertools.product(grid, repeat=protocol.domain.dim)))  # (n, dim)
    others = np.array(list(itertools.product(rows, repeat=users - 1)))  # (m, users - 1, dim)
    batches = [np.concatenate([np.broadcast_to(row, (len(others), 1, len(row))), others], axis=1) for row in rows]
    totals = [np.rint(protocol.release(batch, Silent()).total / protocol.step) for batch in batches]  # n times (m, dim)
    outputs = np.arange(np.min(totals) - 3, np.max(totals) + 4)[:, None, None]
    away = [np.abs(outputs - total) for total in totals]  # n times (outputs, m, dim)
    largest = (np.max(np.sum(np.max(b - a, axis=0), axis=-1)) for a, b in itertools.product(away, away))
    return float(max(largest)) / protocol.scale


@pytest.mark.parametrize("dim", [1, 2])
def test_noise_is_exactly_pure(dim: int) -> None:
    """Some output is more than e^epsilon times as likely for a neighbour: then the variant is not pure, delta = 0.

    Every pair of neighbours of two users on a fine grid of values; also fails if the noise were 20 % smaller.
    """
    protocol = CentralLaplace.calibrate(domain=Box(dim=dim, low=-1.0, high=1.0), budget=PureDP(epsilon=0.7), steps=8)
    grid = np.linspace(-1, 1, 33 if dim == 1 else 9)
    worst = worst_ratio(protocol, grid, users=2)
    assert worst <= protocol.guarantee.epsilon <= 0.7
    assert protocol.guarantee.delta == 0.0
    weaker = dataclasses.replace(protocol, scale=0.8 * protocol.scale)
    assert worst_ratio(weaker, grid, users=2) > 0.7
    assert weaker.guarantee.epsilon > 0.7


def test_fine_lattice_costs_nothing() -> None:
    """The lattice of the default makes the noise more than one part in 10^5 larger than 2 B s / epsilon."""
    protocol = CentralLaplace.calibrate(domain=Box(dim=25, low=-1.0, high=1.0), budget=PureDP(epsilon=2.0))
    assert protocol.step * protocol.scale == pytest.approx(50 / 2.0, rel=1e-5)
    assert protocol.std(10) == pytest.approx(math.sqrt(2) * 25, rel=1e-5)


def test_ball_uses_its_own_diameter() -> None:
    ball = CentralLaplace.calibrate(domain=Ball(dim=9), budget=PureDP(epsilon=1.0))
    assert ball.step * ball.scale == pytest.approx(2 * 3, rel=1e-4)


def test_noise_has_its_law() -> None:
    """The noise drawn is not discrete Laplace of the stated scale (Kolmogorov-Smirnov, false alarm 1e-4)."""
    protocol = CentralLaplace.calibrate(domain=Box(dim=1, low=-1.0, high=1.0), budget=PureDP(epsilon=1.0))
    values = np.full((20_000, 3, 1), 0.25)
    for path in ("messages", "law"):
        released = protocol.release(values, FastNoise(np.random.default_rng(3)), path=path)
        noise = released.total[:, 0] - 0.75
        assert stats.kstest(noise, stats.laplace(scale=2.0).cdf).pvalue > 1e-4
        assert stats.kstest(noise, stats.laplace(scale=1.6).cdf).pvalue < 1e-4
        assert released.variance == pytest.approx(8.0, rel=1e-5)


def test_a_secure_source_and_participations_are_stated() -> None:
    protocol = CentralLaplace.calibrate(
        domain=Box(dim=2, low=0.0, high=1.0), budget=PureDP(epsilon=1.0), participations=3
    )
    assert protocol.release(np.ones((4, 2)), SecureNoise()).total.shape == (2,)
    assert protocol.guarantee.epsilon == pytest.approx(1.0)
    assert protocol.guarantee.epsilon <= 1.0
    assert protocol.guarantee.unit == "user"


def test_only_pure_and_approximate_budgets_are_taken() -> None:
    with pytest.raises(InvalidBudget):
        CentralLaplace.calibrate(domain=Ball(dim=1), budget=ZCDP(rho=1.0))
    with pytest.raises(InvalidBudget):
        CentralLaplace.calibrate(domain=Ball(dim=1), budget=PureDP(epsilon=math.inf))
    kept = CentralLaplace.calibrate(domain=Ball(dim=1), budget=ApproxDP(epsilon=1.0, delta=1e-5))
    assert kept.guarantee.delta == 0.0


def test_sums_of_half_a_million_users_are_pure() -> None:
    """Rounding errors of the users' sum let one replaced user be seen at more than epsilon.

    After 2^17 ones, sums on either side of a power of two round every small value differently: plain float sums differ
    by three lattice steps more in each coordinate, two more than the price allows.
    """
    protocol = CentralLaplace.calibrate(domain=Box(dim=2, low=-1.0, high=1.0), budget=PureDP(epsilon=1.0))
    values = np.ones((2**19, 2))
    values[2**17 :] = 2.0**-36 + 2.0**-50
    totals = []
    for first in (1.0, -1.0):
        values[0] = first
        totals.append(protocol.release(values, Silent()).total / protocol.step)
    assert np.sum(np.abs(totals[0] - totals[1])) / protocol.scale <= protocol.guarantee.epsilon


def test_a_lattice_too_fine_for_the_users_is_refused() -> None:
    """A batch is released whose sum on the lattice leaves 64-bit integers."""
    protocol = CentralLaplace.calibrate(domain=Box(dim=1, low=-1.0, high=1.0), budget=PureDP(epsilon=1.0), steps=2**51)
    assert protocol.release(np.ones((1024, 1)), Silent()).total == 1024
    with pytest.raises(InvalidArgument, match="at most 1024 users"):
        protocol.release(np.ones((1025, 1)), Silent())


def test_rounding_of_every_coordinate_is_paid_for() -> None:
    """Both coordinates of a sum may be rounded apart by a step more than they differ: one is paid for in each.

    sqrt 2 is 7.07 steps, from -3.54 to 3.54, and becomes 8: 16 steps in l1, of a diameter of 14.14.
    """
    protocol = CentralLaplace.calibrate(domain=Ball(dim=2), budget=PureDP(epsilon=1.0), steps=10)
    half = np.full(2, math.sqrt(0.5))
    totals = [protocol.release(np.stack([sign * half, np.zeros(2)]), Silent()).total for sign in (1, -1)]
    moved = float(np.sum(np.abs(np.rint((totals[0] - totals[1]) / protocol.step))))
    assert moved == 16
    assert moved / protocol.scale <= protocol.guarantee.epsilon <= 1.0
    weaker = dataclasses.replace(protocol, scale=0.8 * protocol.scale)
    assert moved / weaker.scale > 1.0


@pytest.mark.parametrize("domain", [Box(dim=1), Box(dim=3, low=-1.0, high=0.1), Ball(dim=1), Ball(dim=3)])
@pytest.mark.parametrize("steps", [1, 3, 10, 2**20, 2**45, 2**50])
def test_every_step_of_a_fine_lattice_is_paid_for(domain: Box | Ball, steps: int) -> None:
    protocol = CentralLaplace(domain=domain, scale=1.0, steps=steps)
    ends = domain.project(np.stack([domain.lower, domain.upper]))
    between = domain.project(np.random.default_rng(0).uniform(domain.lower, domain.upper, (50, domain.dim)))
    moved = []
    for other in between:
        pairs = [exact_sum(np.stack([other, end]) - domain.origin, domain.reach) for end in ends]
        one, another = (exact_sums.count_grid_steps(*pair, protocol.step) for pair in pairs)
        moved.append(int(np.sum(np.abs(one - another))))
    assert max(moved) <= protocol.event.shift <= max(moved) + domain.dim + 4 * max(moved) * 2.0**-48
