"""Sums with the secure source: neighbours' grid points differ by at most what is priced."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport, RegressionReport
from bandanna.device.noise import FastNoise, SecureNoise, divide_rounding_up, round_to_grid
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.privacy import gdp
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.privacy.events import ContinualEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, GaussianEvent
from bandanna.privacy.prices import gaussian_price
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

from ..drawn import examples
from .test_exact_privacy import Array, Pair, view, weaker

Floats = NDArray[np.float64]

BUDGET = ApproxDP(epsilon=0.01, delta=1e-9)
_PRICED = 1 + 1e-9  # what the price of a lattice has to spare (accounting/lattice.py)


class Centres(SecureNoise):
    """Rounds as the secure source does and adds nothing; keeps the grid points and the noise that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[NDArray[np.int64]] = []
        self.spread: set[float] = set()  # std in grid steps

    def gaussian(self, value: Any, *, std: float, grid: float) -> Floats:
        self.points.append(round_to_grid(value, grid))
        self.spread.add(divide_rounding_up("std", std, grid))
        return np.asarray(self.points[-1] * grid)

    def gaussian_steps(self, steps: NDArray[np.int64], *, std: float, grid: float) -> NDArray[np.int64]:
        self.points.append(steps)
        self.spread.add(divide_rounding_up("std", std, grid))
        return steps

    def discrete_laplace(self, *, scale: float, size: Any) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)


def centres(protocol: Any, users: Floats, steps: int = 1) -> NDArray[np.float64]:
    """All released grid points of these users (n, dim), who come in `steps` batches."""
    source = Centres()
    if isinstance(protocol, CentralLaplace):
        total = protocol.release(users, source).total - len(users) * protocol.domain.origin
        return np.asarray(np.rint(total / protocol.step))
    if isinstance(protocol, BatchProtocol):
        protocol.release(users, source)
    else:
        state = protocol.begin()
        for batch in np.array_split(users, steps):
            state, _ = protocol.release(state, batch, source)
    return np.concatenate([points.ravel() for points in source.points]).astype(float)


def priced(event: Any) -> float:
    """The change in grid steps that the price of an event assumes: l2, or l1 for Laplace noise."""
    if isinstance(event, GaussianEvent):
        return event.sensitivity / event.grid + math.sqrt(event.dim)
    if isinstance(event, DiscreteLaplaceEvent):
        return event.shift
    assert isinstance(event, ContinualEvent)
    touched = event.dim * event.factorisation.releases(event.participations)
    return event.sensitivity * event.factorisation.sensitivity(event.participations) / event.grid + math.sqrt(touched)


FAR = Box(dim=1, low=2.0**45, high=2.0**45 + 1.0078125)


@pytest.mark.parametrize("kind", ["gaussian", "blt", "tree"])
def test_a_narrow_box_far_from_zero_is_as_private_as_stated(kind: str) -> None:
    """Floats of the sum would be coarser than the grid: four users at (0.01, 1e-9) would really have at least 0.01024.

    A discrete Gaussian of 2^20 steps and more moved by v steps has the profile of N(0, 1) moved by v/std to 1e-6.
    """
    if kind == "gaussian":
        protocol: Any = CentralGaussian.calibrate(domain=FAR, budget=BUDGET)
    else:
        protocol = CentralContinual.calibrate(domain=FAR, budget=BUDGET, horizon=1, mechanism=kind)
    std = protocol.noise_std / protocol.event.grid
    worst = 0.0
    for others in np.ndindex(4, 4, 4):  # where the float of the sum is rounded up for one neighbour, down for the other
        users = FAR.low + np.array([0.0, *(others[k] / 128 for k in range(3))])[:, None]
        replaced = np.concatenate([[[FAR.high]], users[1:]])
        shift = float(np.linalg.norm(centres(protocol, users) - centres(protocol, replaced)))
        worst = max(worst, gdp.epsilon(BUDGET.delta, shift / std))
    assert 0.99 * BUDGET.epsilon <= worst <= BUDGET.epsilon  # tight: with 20 % less noise it would be 0.0125
    assert worst <= protocol.guarantee.epsilon


@pytest.mark.parametrize("kind", ["gaussian", "blt", "tree"])
def test_the_grid_point_is_nearest_to_the_exact_sum(kind: str) -> None:
    if kind == "gaussian":
        protocol: Any = CentralGaussian(domain=Box(dim=1), noise_std=1e-6)
    else:
        one = CentralContinual.calibrate(domain=Box(dim=1), budget=BUDGET, horizon=1, mechanism=kind)
        protocol = replace(one, noise_std=1e-6)
    grid, rng = Fraction(protocol.event.grid), np.random.default_rng(0)
    for _ in range(100):
        users = np.concatenate([np.ones((1500, 1)), rng.random((2, 1))])
        exact = 1500 + sum(Fraction(value) for value in users[1500:].ravel().tolist())
        assert centres(protocol, users).tolist() == [round(exact / grid)]


@pytest.mark.parametrize("mechanism", ["blt", "tree"])
def test_rounding_of_every_number_of_a_stream_is_priced(mechanism: str) -> None:
    protocol = CentralContinual.calibrate(domain=Box(dim=2), budget=BUDGET, horizon=16, mechanism=mechanism)
    coarse = replace(protocol.event, grid=protocol.noise_std / 8)
    touched = 2 * (16 if mechanism == "blt" else 5)
    moved = protocol.domain.sensitivity * protocol.factorisation.sensitivity() / coarse.grid
    same = DiscreteGaussianEvent(std=8.0, shift=moved + math.sqrt(touched), dim=touched)
    assert gaussian_price(coarse, 1e-9).mu == pytest.approx(gaussian_price(same, 1e-9).mu, rel=1e-9)
    assert math.isfinite(gaussian_price(coarse, 1e-9).mu)


@pytest.mark.parametrize("mechanism", ["blt", "tree"])
def test_grouped_users_are_for_simulations(mechanism: str) -> None:
    protocol = CentralContinual.calibrate(domain=FAR, budget=BUDGET, horizon=1, mechanism=mechanism)
    rows, none = np.full((1, 1), FAR.high), np.zeros((), dtype=np.int64)
    grouped = FAR.sealed(rows, clipped=none, counts=np.array([4]))
    for source in (Centres(), FastNoise(np.random.default_rng(0))):
        with pytest.raises(InvalidStatistic, match="grouped"):
            protocol.release(protocol.begin(), grouped, source)
    _, estimate = protocol.release(protocol.begin(), grouped, FastNoise(np.random.default_rng(0)), path="law")
    assert estimate.count == 4


def test_a_batch_too_large_for_the_grid_is_refused_whatever_its_users_say() -> None:
    protocol = CentralGaussian(domain=Box(dim=1), noise_std=1e-6)
    most = math.floor(2**51 * protocol.event.grid * (1 - 1e-9))
    assert 1 < most < 10_000
    for value in (0.0, 1.0):
        protocol.release(np.full((most, 1), value), Centres())
        with pytest.raises(InvalidArgument, match=f"at most {most} users"):
            protocol.release(np.full((most + 1, 1), value), Centres())


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Boxes of any width, at any place that floats of it can resolve."""
    width = math.ldexp(draw(st.floats(1.0, 2.0)), draw(st.integers(-60, 60)))
    low = draw(st.sampled_from([-1.0, 1.0])) * width * math.ldexp(draw(st.floats(0.0, 2.0)), draw(st.integers(-60, 50)))
    return Box(dim=draw(st.integers(1, 3)), low=low, high=low + width)


KINDS = ("gaussian", "laplace", "blt", "tree")


def calibrated(kind: str, domain: Domain, epsilon: float, steps: int) -> Any:
    """A protocol of this kind; the tenth of a digit of the noise does not matter here."""
    budget = ApproxDP(epsilon=epsilon, delta=1e-6)
    if kind == "gaussian":
        return CentralGaussian.calibrate(domain=domain, budget=budget)
    if kind == "laplace":
        return CentralLaplace.calibrate(domain=domain, budget=PureDP(epsilon=epsilon))
    return CentralContinual.calibrate(domain=domain, budget=budget, horizon=steps, mechanism=kind)


@examples(20, full=60)
@given(
    boxes(), st.sampled_from(KINDS), st.sampled_from([0.01, 1.0, 30.0]), st.integers(1, 4), st.integers(0, 2**32 - 1)
)
def test_neighbours_grid_points_differ_by_what_is_priced(
    domain: Box, kind: str, epsilon: float, steps: int, seed: int
) -> None:
    steps = steps if kind in ("blt", "tree") else 1
    protocol, rng = calibrated(kind, domain, epsilon, steps), np.random.default_rng(seed)
    ends = np.array([domain.low, domain.high])
    for _ in range(4):
        users = np.where(
            rng.random((9, domain.dim)) < 0.4,
            rng.uniform(domain.low, domain.high, (9, domain.dim)),
            rng.choice(ends, (9, domain.dim)),
        )
        neighbours = users.copy()
        users[4], neighbours[4] = domain.low, domain.high
        moved = centres(protocol, users, steps) - centres(protocol, neighbours, steps)
        size = np.sum(np.abs(moved)) if kind == "laplace" else np.linalg.norm(moved)
        assert size <= priced(protocol.event) * _PRICED


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimate_is_of_the_sum_itself(kind: str) -> None:
    domain = Box(dim=2, low=7.0, high=8.0)
    users = np.random.default_rng(5).uniform(7, 8, (12, 2))
    protocol, source = calibrated(kind, domain, 1.0, 3), Centres()
    if isinstance(protocol, BatchProtocol):
        found = protocol.release(users, source).total
    else:
        state = protocol.begin()
        for batch in np.array_split(users, 3):
            state, estimate = protocol.release(state, batch, source)
        found = estimate.total
        alone = protocol.prefixes(users[:3], source)
        np.testing.assert_allclose(alone, np.cumsum(users[:3], axis=0), rtol=0, atol=1e-3)
    np.testing.assert_allclose(found, users.sum(axis=0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["blt", "tree"])
def test_many_steps_leave_no_rounding_errors(kind: str) -> None:
    domain, horizon, rng = Ball(dim=1, bound=1.0), 500, np.random.default_rng(6)
    protocol = CentralContinual.calibrate(
        domain=domain, budget=ApproxDP(epsilon=500.0, delta=1e-6), horizon=horizon, mechanism=kind
    )
    values = rng.choice([-1.0, 1.0, 0.1, 1 / 3], (horizon, 1))
    values[0], neighbours = 1.0, values.copy()
    neighbours[0] = -1.0
    kept = []
    for stream in (values, neighbours):
        source = Centres()
        protocol.prefixes(stream, source)
        kept.append(np.concatenate([points.ravel() for points in source.points]))
    assert np.linalg.norm((kept[0] - kept[1]).astype(float)) <= priced(protocol.event) * _PRICED


@pytest.mark.parametrize(
    "domain", [FAR, Ball(dim=3, bound=1e6), LinearReport(features=2)], ids=["box", "ball", "report"]
)
def test_a_report_on_the_device_is_rounded_exactly(domain: Domain) -> None:
    protocol = LocalGaussian.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=1e-6))
    rng = np.random.default_rng(7)
    points = domain.admit(rng.uniform(domain.lower, domain.upper, (200, domain.dim))).values
    source = Centres()
    protocol.device.message(domain.admit(points), source)
    steps = source.points[0].astype(float)
    moved = np.linalg.norm(steps[:, None] - steps[None], axis=-1)
    assert np.max(moved) <= priced(protocol.event) * _PRICED


STEP = 2e-4  # of the losses' grid


def losses(pair: Pair, up: bool) -> tuple[int, Array]:
    """The least loss on the grid, in steps, and the masses from there on, of p's point; q = 0 counts as 60."""
    p, q = pair
    kept = p > 0
    with np.errstate(divide="ignore"):
        loss = np.minimum(np.log(p[kept]) - np.log(q[kept]), 60.0) / STEP
    grid = (np.ceil(loss) if up else np.floor(loss)).astype(np.int64)
    least = int(grid.min())
    return least, np.bincount(grid - least, weights=p[kept])


def divergence(pairs: list[Pair], epsilon: float, *, up: bool) -> float:
    """sum (1 - e^{epsilon - loss})+ p(loss): from above, or from below."""
    first, *others = (losses(pair, up) for pair in pairs)
    least, mass = first
    for more, other in others:
        least, mass = least + more, np.maximum(signal.fftconvolve(mass, other), 0.0)
    loss = STEP * (least + np.arange(len(mass)))
    return float(np.sum(mass * np.maximum(-np.expm1(epsilon - loss), 0.0)))


def worst(protocol: ShuffleBinomial, epsilon: float, reports: Array, *, up: bool) -> float:
    nothing = np.broadcast_to(protocol.domain.nothing.values[0], reports.shape)
    laws = view(protocol, np.stack([reports, nothing], axis=1))
    found: dict[tuple[bytes, ...], float] = {}  # what differs in the order or the sign of coordinates alone, once
    for i, j in itertools.permutations(range(len(reports)), 2):
        pairs = [(law[i], law[j]) for law in laws if not np.array_equal(law[i], law[j])]
        which = tuple(sorted(p.tobytes() + q.tobytes() for p, q in pairs))
        if which not in found:
            found[which] = divergence(pairs, epsilon, up=up)
    return max(found.values())


def corners(domain: RegressionReport) -> Array:
    z, y = np.meshgrid([-1.0, 1.0], [-0.5, 0.5])
    z, y = z.reshape(-1, 1), y.ravel()
    if isinstance(domain, PerArmReport):
        arms = np.arange(len(z)) % domain.n_arms
        both = [domain.statistic(z, y, arms=(arms + shift) % domain.n_arms).values for shift in range(domain.n_arms)]
        return np.concatenate(both)
    return np.asarray(domain.statistic(np.hstack([z, np.ones_like(z)]), y).values)


DOMAINS: list[Any] = [InterceptReport(features=2), PerArmReport(features=1, n_arms=2)]


CASES = [(domain, *budget) for budget in ((1.0, 1e-2), (3.0, 1e-3)) for domain in DOMAINS]


@pytest.mark.parametrize(("domain", "epsilon", "delta"), CASES)
@pytest.mark.often(when=lambda domain, epsilon: epsilon == 1.0 or domain is DOMAINS[0])
def test_a_batch_is_as_private_as_promised(domain: RegressionReport, epsilon: float, delta: float) -> None:
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=ApproxDP(epsilon=epsilon, delta=delta), batch=2)
    stated, reports = protocol.guarantee, corners(domain)
    assert stated.epsilon <= epsilon
    assert worst(protocol, stated.epsilon, reports, up=True) <= delta
    assert worst(weaker(protocol), epsilon, reports, up=False) > delta


@pytest.mark.parametrize(
    "domain",
    [InterceptReport(features=d) for d in (2, 3, 6)] + [PerArmReport(features=p, n_arms=3) for p in (1, 2, 5)],
    ids=repr,
)
def test_no_two_reports_are_further_apart(domain: RegressionReport) -> None:
    rng, slopes = np.random.default_rng(0), domain.features - isinstance(domain, InterceptReport)
    pairs: list[tuple[Array, Array, float, float, list[int]]] = []
    for inner in (*np.linspace(-1, 1, 73), 5 / 18):  # <z, z'>
        for short in (1.0, 0.7):
            one, two = np.zeros((2, slopes))
            one[0] = 1.0
            two[0] = inner if slopes > 1 else math.copysign(1.0, inner)
            two[1:2] = math.sqrt(max(0.0, 1 - inner**2))
            for y, other in itertools.product([-0.5, 0.5], repeat=2):
                pairs += [(one, short * two, y, other, arms) for arms in ([0, 0], [0, 1])]
    for _ in range(2000):
        z = rng.normal(size=(2, slopes))
        y, other = rng.uniform(-0.5, 0.5, 2)
        pairs.append((*z / np.linalg.norm(z, axis=1, keepdims=True), y, other, [0, 0]))
    largest = float(np.max(apart(domain, pairs)))
    assert largest <= domain.sensitivity * (1 + 1e-12)
    reached = domain.sensitivity if slopes > 1 else 0.9 * domain.sensitivity  # on a line <z, z'> is 1 or -1
    assert largest >= reached * (1 - 1e-4)
    noise = CentralGaussian.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=1e-5)).noise_std
    mu = largest / noise  # of the pair, exactly; of 20 % less noise it would be 1.25 times that
    assert mu <= ApproxDP(epsilon=1.0, delta=1e-5).mu() < 1.25 * mu


def apart(domain: RegressionReport, pairs: list[tuple[Array, Array, float, float, list[int]]]) -> Array:
    x = np.concatenate([np.stack(pair[:2]) for pair in pairs])  # two rows for each
    if isinstance(domain, InterceptReport):
        x = np.hstack([x, np.ones((len(x), 1))])
    y, arms = (np.concatenate(each) for each in ([pair[2:4] for pair in pairs], [pair[4] for pair in pairs]))
    reports = domain.statistic(x, y, arms=arms).values
    return np.asarray(np.linalg.norm(reports[::2] - reports[1::2], axis=1))
