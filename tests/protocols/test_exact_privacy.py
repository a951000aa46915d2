"""Privacy of small cases by enumeration of all outputs, in a batch and on grids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, divide_rounding_up, round_to_grid
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import GaussianMechanism, LaplaceMechanism
from bandanna.numeric import search
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise, laplace_scale
from bandanna.privacy.events import ContinualEvent, Event
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

Array = NDArray[Any]
Pair = tuple[Array, Array]  # a law and its neighbour, on one support

SMALLEST = 2.0**-53  # step of the uniform numbers


class Scripted(FastNoise):
    """Uniforms and coins as told; what was asked for is kept. Permutations: all of them, one in each replicate."""

    def __init__(self, uniform: Any = 0.0, coins: Any = 0) -> None:
        super().__init__(np.random.default_rng(0))
        self.given_uniform, self.given_coins = uniform, coins
        self.asked: list[tuple[int, float, tuple[int, ...]]] = []

    def uniform(self, size: Any) -> Array:
        return np.broadcast_to(np.asarray(self.given_uniform, dtype=float), size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> Array:
        self.asked.append((trials, probability, size))
        return np.broadcast_to(np.asarray(self.given_coins, dtype=np.int64), size)

    def permutation(self, n: int, size: Any = ()) -> Array:
        assert size == (math.factorial(n),)
        return np.array(list(itertools.permutations(range(n))))


def encodings(protocol: ShuffleBinomial, values: Array) -> tuple[Array, Array, Array]:
    """For every entry of `values` (n, dim): lower and upper encoding, and the probability of the upper one."""
    statistic = protocol.admit(values, clip=False)

    def encode(uniform: Any) -> Array:
        return protocol.device.message(statistic, Scripted(uniform))

    upper, lower = encode(0.0), encode(1 - SMALLEST)
    low, high = np.zeros(values.shape), np.ones(values.shape)  # encode(low) = upper, encode(high) = lower
    for _ in range(53):
        middle = (low + high) / 2
        above = encode(middle) == upper
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    assert np.all((upper - lower == 0) | (upper - lower == 1))
    return lower, upper, np.where(upper == lower, 0.0, high)


def coins(protocol: ShuffleBinomial, users: int) -> Array:
    """Law of all coins in one coordinate of the totals of so many users, as randomizers or mixer asked for them.

    Only the window of 12 standard deviations: mass below 1e-30 lies outside.
    """
    source, mixer = Scripted(), replace(protocol.mixer, least=1)
    sent = protocol.device.message(protocol.admit(np.tile(protocol.domain.lower, (users, 1))), source)
    mixer.close(mixer.drawn(mixer.add(mixer.empty(), sent), source))
    ((trials, probability, size),) = source.asked
    dim = protocol.domain.dim
    assert size == ((dim,) if protocol.coins == "mixer" else (users, dim))  # fresh ones for everybody, or for the batch
    every = trials if protocol.coins == "mixer" else users * trials
    mean, reach = every * probability, 12 * math.sqrt(every * probability * (1 - probability))
    window = np.arange(max(0, math.floor(mean - reach)), min(every, math.ceil(mean + reach)) + 1)
    return np.asarray(stats.binom.pmf(window, every, probability))


def view(protocol: ShuffleBinomial, batches: Array) -> list[Array]:
    """Laws of the totals of batches (n, users, dim): per coordinate, (n, support); coordinates are independent."""
    return _view(protocol, batches.tobytes(), batches.shape)


@lru_cache(maxsize=8)  # one law is looked at for several epsilons
def _view(protocol: ShuffleBinomial, values: bytes, shape: tuple[int, int, int]) -> list[Array]:
    batches, (n, users, dim) = np.frombuffer(values).reshape(shape), shape
    lower, upper, chance = (a.reshape(n, users, dim) for a in encodings(protocol, batches.reshape(-1, dim)))
    noise, room = coins(protocol, users), int(upper.sum(axis=1).max())
    laws = []
    for k in range(dim):
        law = np.zeros((n, len(noise) + room))
        law[:, : len(noise)] = noise
        for user in range(users):
            law = np.stack(
                [
                    (1 - p) * np.roll(row, below) + p * np.roll(row, above)
                    for row, below, above, p in zip(
                        law, lower[:, user, k], upper[:, user, k], chance[:, user, k], strict=True
                    )
                ]
            )
        laws.append(law[:, law.max(axis=0) > 1e-25])  # the rest has mass below 1e-20 in all
    return laws


def divergence(pairs: list[Pair], epsilon: float) -> float:
    """sum (p - e^epsilon q)+ for the product of one or two independent pairs, without forming the product.

    For two pairs: over x, p1(x) P2(S_x) - e^epsilon q1(x) Q2(S_x) with S_x = {y : loss2(y) > epsilon - loss1(x)}.
    """
    (p, q), *others = pairs
    if not others:
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    ((p2, q2),) = others
    with np.errstate(divide="ignore"):
        loss, loss2 = np.log(p) - np.log(q), np.log(p2) - np.log(q2)
    order = np.argsort(-loss2)
    first = np.searchsorted(-loss2[order], loss - epsilon, side="left")  # |S_x|
    inside = [np.append(0.0, np.cumsum(mass[order]))[first] for mass in (p2, q2)]
    return float(np.sum(p * inside[0] - math.exp(epsilon) * q * inside[1]))


def worst(protocol: ShuffleBinomial, epsilon: float, batches: Array, *, times: int = 1) -> float:
    """Largest divergence of any two of the batches, in both directions.

    times = 2: the same replacement in two batches of one coordinate, or made in one and undone in the other.
    """
    laws = view(protocol, batches)
    found = 0.0
    for i, j in itertools.permutations(range(len(batches)), 2):
        pairs = [(law[i], law[j]) for law in laws]
        if times == 1:
            found = max(found, divergence(pairs, epsilon))
        else:
            back = [(q, p) for p, q in pairs]
            found = max(found, divergence(pairs + pairs, epsilon), divergence(pairs + back, epsilon))
    return found


def neighbours(domain: Domain, scale: float, others: tuple[Array, ...]) -> Array:
    """Batches that differ in their first user: statistics on, between and half-way between lattice points."""
    low, high, step = domain.lower, domain.upper, 1 / scale
    if domain.dim == 1:
        inner = np.linspace(low[0], high[0], 13)
        mesh = np.unique(np.clip([low[0] + 0.5 * step, *inner, high[0] - 0.5 * step], low[0], high[0]))[:, None]
    elif isinstance(domain, LinearReport):
        x, y = np.meshgrid([-1.0, -0.83, 0.4, 1.0], [-1.0, 0.37, 1.0])
        mesh = domain.pack(x.reshape(-1, 1), y.ravel())
    elif isinstance(domain, Ball):
        angle = np.pi * np.array([0, 0.25, 0.31, 1, 1.25, 1.31])
        mesh = np.concatenate([np.stack([np.cos(angle), np.sin(angle)], -1), [[0.5 * step, 0.5 * step]]])
    else:
        ends = np.array([low[0], low[0] + 0.5 * step, 0.63 * high[0], high[0]])
        mesh = np.stack(np.meshgrid(ends, ends), -1).reshape(-1, 2)
    return np.stack([np.stack([value, *others]) for value in mesh])


def check(protocol: ShuffleBinomial, epsilon: float, others: list[tuple[Array, ...]]) -> float:
    """The worst divergence at epsilon over all neighbours beside each choice of the other users."""
    scale = protocol.noise.scale
    return max(worst(protocol, epsilon, neighbours(protocol.domain, scale, chosen)) for chosen in others)


def weaker(protocol: ShuffleBinomial) -> ShuffleBinomial:
    """The same with a standard deviation 20 % smaller: variance is linear in the coins."""
    return replace(protocol, noise=replace(protocol.noise, trials=round(0.64 * protocol.noise.trials)))


CASES = [
    (Box(dim=1), 1.0, 1e-2, 2),
    (Box(dim=1), 1.0, 1e-5, 3),
    (Box(dim=1, low=-1.0, high=0.47), 0.3, 1e-2, 2),  # its upper end is off the lattice
    (Box(dim=1), 4.0, 1e-3, 2),
    (Box(dim=2), 1.0, 1e-2, 2),
    (Ball(dim=2), 1.0, 1e-2, 2),
    (Ball(dim=2), 4.0, 1e-3, 3),
    (LinearReport(features=1), 1.0, 1e-2, 2),
    (LinearReport(features=1), 0.3, 1e-4, 3),
]
each = pytest.mark.parametrize(("domain", "epsilon", "delta", "batch"), CASES)


def often(domain: Domain, epsilon: float, delta: float, batch: int, drawn_by: str) -> bool:
    return (drawn_by == "device") == ((domain, epsilon, delta, batch) in CASES[::2])


@pytest.mark.parametrize(
    ("domain", "epsilon", "delta", "batch", "drawn_by"), [(*case, by) for by in ("device", "mixer") for case in CASES]
)
@pytest.mark.often(when=often)
def test_a_batch_is_as_private_as_promised(
    domain: Domain, epsilon: float, delta: float, batch: int, drawn_by: str
) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=batch, coins=drawn_by)
    off_lattice = domain.lower + 1.5 / protocol.noise.scale
    if isinstance(domain, LinearReport):
        off_lattice = domain.pack(np.array([0.37]), np.array(0.5))
    others = [(domain.admit([domain.upper]).values[0],) * (batch - 1)]
    others.append((domain.admit([off_lattice]).values[0],) * (batch - 1))
    stated = protocol.guarantee
    assert stated.delta == delta
    assert stated.epsilon <= epsilon
    assert check(protocol, epsilon, others) <= delta
    assert check(protocol, stated.epsilon, others) <= stated.delta
    assert check(weaker(protocol), epsilon, others) > delta
    assert check(weaker(protocol), stated.epsilon, others) > stated.delta


@pytest.mark.parametrize("domain", [Box(dim=1), Box(dim=1, low=0.0, high=0.7)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (1.0, 1e-5)])
@pytest.mark.often(when=lambda domain, delta: (domain.high == 1.0) == (delta == 1e-2))
def test_two_participations_are_as_private_as_promised(domain: Domain, epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=2, participations=2)
    stated, step = protocol.guarantee, 1 / protocol.noise.scale
    assert (stated.unit, stated.participations, stated.delta) == ("user", 2, delta)
    low, high = domain.lower[0], domain.upper[0]
    mesh = np.array([low, low + 0.5 * step, low + 0.25 * step, (low + high) / 2, high - 0.25 * step, high])
    batches = np.stack([mesh, np.full(len(mesh), low + 1.5 * step)], axis=-1)[..., None]  # (n, users, 1)
    assert worst(protocol, stated.epsilon, batches, times=2) <= delta
    assert worst(protocol, epsilon, batches, times=2) <= delta
    assert worst(weaker(protocol), stated.epsilon, batches, times=2) > delta
    assert worst(weaker(protocol), epsilon, batches, times=2) > delta


def test_rounding_must_be_charged() -> None:
    domain, epsilon = Ball(dim=2), 0.3
    noise = BinomialNoise(scale=2.5 / math.sqrt(2), trials=5000, users=2)  # opposite points differ by 2.5 steps twice
    protocol = ShuffleBinomial(domain=domain, noise=noise)
    diagonal = np.full(2, math.sqrt(0.5))
    others = np.zeros(2) + (np.ceil(noise.scale) / noise.scale - 1)  # on the lattice, so that it does not help
    truth = worst(protocol, epsilon, np.stack([[diagonal, others], [-diagonal, others]]))
    assert truth <= accountant.delta(protocol.event, epsilon)
    assert truth > accountant.delta(replace(protocol.event, rounded=False), epsilon)


@each
def test_the_simulators_path_has_the_same_law(domain: Domain, epsilon: float, delta: float, batch: int) -> None:
    noise = BinomialNoise(scale=5.0, trials=7, users=batch, probability=0.25)
    protocol = ShuffleBinomial(domain=domain, noise=noise)
    values = np.stack([neighbours(domain, noise.scale, ())[k, 0] for k in range(batch)])
    for uniform in (0.0, 0.3, 0.71, 1 - SMALLEST):
        devices, simulator = Scripted(uniform, coins=3), Scripted(uniform, coins=3 * batch)
        messages = protocol.device.message(protocol.admit(values), devices)
        view = protocol.mixer.close(protocol.mixer.add(protocol.mixer.empty(), messages))
        assert view.numbers.shape == (domain.dim,)  # nothing about single users is forwarded
        simulated = protocol.release(values, simulator, path="law")
        assert np.array_equal(protocol.analyzer.analyze(None, view, devices)[1].total, simulated.total)
        assert devices.asked == [(7, 0.25, (batch, domain.dim))]
        assert simulator.asked == [(7 * batch, 0.25, (domain.dim,))]  # sum of Bin(7, p) over the batch


@pytest.mark.parametrize(("users", "trials", "probability"), [(2, 2, 0.5), (3, 1, 0.5), (2, 2, 0.25)])
def test_bits_are_as_private_as_totals(users: int, trials: int, probability: float) -> None:
    noise = BinomialNoise(scale=1.0, trials=trials, users=users, probability=probability)
    protocol = ShuffleBinomial(domain=Box(dim=1), noise=noise)
    length, every = users * (trials + 1), np.arange(users * (trials + 1) + 1)
    others = (np.array([0.4]),) * (users - 1)
    (totals,) = view(protocol, np.stack([np.stack([np.array([x]), *others]) for x in (0.0, 0.3, 0.5, 1.0)]))
    ways = np.array([math.comb(length, k) for k in every])
    strings = np.repeat(totals / ways, ways, axis=-1)  # one probability for each of the 2^length strings
    assert strings.shape[-1] == 2**length
    assert np.allclose(strings.sum(axis=-1), 1)
    for (i, j), epsilon in itertools.product(itertools.permutations(range(4), 2), (0.1, 0.7, 2.0)):
        as_totals = divergence([(totals[i], totals[j])], epsilon)
        assert divergence([(strings[i], strings[j])], epsilon) == pytest.approx(as_totals, abs=1e-14)
        assert as_totals <= accountant.delta(protocol.event, epsilon)


@pytest.mark.parametrize("domain", [Box(dim=1), Ball(dim=2)])
def test_the_stated_guarantee_against_the_shuffler_holds(domain: Domain) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-2)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=2)
    left = protocol.guarantee.shuffler
    assert left is not None
    assert left.epsilon > protocol.guarantee.epsilon
    assert check(protocol, left.epsilon, [()]) <= left.delta  # nobody else: the law of one user's counts
    assert check(weaker(protocol), left.epsilon, [()]) > left.delta


def test_the_guarantee_states_what_the_shuffler_learns_for_certain() -> None:
    budget = ApproxDP(epsilon=1.0, delta=0.1)
    protocol = ShuffleBinomial.calibrate(domain=LinearReport(features=5), budget=budget, batch=200)
    stated = protocol.guarantee
    assert stated.shuffler is None
    widest = replace(protocol, domain=Box(dim=1, low=-1.0, high=1.0))
    at_the_ends = np.array([[[-1.0]], [[1.0]]])  # one user's counts of one coordinate
    assert worst(widest, 100.0, at_the_ends) == pytest.approx(stated.exposed, rel=1e-9)  # losses end at 103 log 2
    assert stated.exposed > 0.97  # proofs.md A.3c
    assert "no privacy is left" in str(stated)


class Rounding(FastNoise):
    """Rounds as the secure source does and adds nothing; keeps the grid points and the noise that was asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.points: list[Array] = []
        self.spread: set[float] = set()  # std or scale, in grid steps

    def gaussian(self, value: Any, *, std: float, grid: float) -> Array:
        return self._keep(value, divide_rounding_up("std", std, grid), grid)

    def laplace(self, value: Any, *, scale: float, grid: float) -> Array:
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
    grid: float

    @property
    def mechanism(self) -> GaussianMechanism:
        return replace(super().mechanism, grid=self.grid)


@dataclass(frozen=True, kw_only=True)
class CoarseContinual(CentralContinual):
    grid: float

    @property
    def mechanism(self) -> ContinualGaussian:
        return replace(super().mechanism, grid=self.grid)

    @property
    def event(self) -> ContinualEvent:
        return self.mechanism.event


def least_std(event: Callable[[float], Event], budget: ApproxDP) -> float:
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


GRID_CASES = [
    (*place, *budget)
    for place in ((Box(dim=1), 1.0, 3), (Box(dim=1), 1.0, 8), (Ball(dim=2), math.sqrt(2), 6))
    for budget in ((1.0, 1e-2), (0.3, 1e-5), (4.0, 1e-3))
]


@pytest.mark.parametrize(("domain", "width", "steps", "epsilon", "delta"), GRID_CASES)
@pytest.mark.often(when=lambda steps, epsilon: (steps, epsilon) in ((3, 1.0), (8, 0.3), (6, 4.0)))
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
