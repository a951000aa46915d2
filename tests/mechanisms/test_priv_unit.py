"""PrivUnit: the geometry of caps by a second route, exact privacy of what is drawn, and what an estimate is worth.

Statistical tests fix their seeds; over seeds each would raise a false alarm with probability below 1e-6 (5 or 6 s.e.).
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from bandanna.device.domain import Ball
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.device.randomizers import (
    CAP_STEPS,
    LARGEST_NORMAL,
    CapRandomizer,
    is_in_cap,
    make_candidates,
    normalize_messages,
    round_to_sphere,
)
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.mechanisms.noise import PrivUnit
from bandanna.numeric import search
from bandanna.privacy import accountant, prices
from bandanna.privacy.calibration import best_cap
from bandanna.privacy.events import CapEvent

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fast(seed: int = 1) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def densities(event: CapEvent) -> tuple[float, float]:
    """Of an exact direction, relative to the uniform one: inside the cap, outside."""
    q, p = prices.cap_moments(event.dim, event.cosine).mass, prices.probability_inside(event)
    return p / q, (1 - p) / (1 - q)


# Geometry


@pytest.mark.parametrize("dim", [2, 3, 4, 9, 20])
@pytest.mark.parametrize("cosine", [0.0, 0.1, 0.5, 0.9])
def test_moments_of_caps_are_the_integrals_over_angles(dim: int, cosine: float) -> None:

    def over(weight: Any, low: float, high: float) -> float:
        return float(integrate.quad(lambda a: weight(math.cos(a)) * math.sin(a) ** (dim - 2), low, high)[0])

    whole, end = over(lambda t: 1.0, 0.0, math.pi), math.acos(cosine)
    found = prices.cap_moments(dim, cosine)
    assert found.mass == pytest.approx(over(lambda t: 1.0, 0.0, end) / whole, rel=1e-8)
    assert found.first == pytest.approx(over(lambda t: t, 0.0, end) / whole, rel=1e-8)
    assert found.second == pytest.approx(over(lambda t: t * t, 0.0, end) / whole, rel=1e-8)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_densities_integrate_to_one_and_differ_by_the_epsilon(dim: int, epsilon: float) -> None:
    event = best_cap(dim=dim, epsilon=epsilon)
    inside, outside = densities(event)

    def density(angle: float) -> float:
        return (inside if math.cos(angle) >= event.cosine else outside) * math.sin(angle) ** (dim - 2)

    split = [math.acos(event.cosine)]
    whole = integrate.quad(lambda a: math.sin(a) ** (dim - 2), 0, math.pi)[0]
    assert integrate.quad(density, 0, math.pi, points=split)[0] / whole == pytest.approx(1, rel=1e-8)
    leaning = integrate.quad(lambda a: math.cos(a) * density(a), 0, math.pi, points=split)[0] / whole
    assert prices.mean_cosine(event) == pytest.approx(leaning, rel=1e-8)
    assert epsilon - 1e-4 < math.log(inside / outside) < prices.cap_epsilon(event) <= epsilon


@pytest.mark.parametrize(("epsilon", "expected"), [(1.0, 3.521), (4.0, 0.949), (10.0, 0.4885)])
def test_noise_is_the_known_least(epsilon: float, expected: float) -> None:
    mechanism = PrivUnit.calibrate(dim=20, epsilon=epsilon)
    assert math.sqrt(2 * mechanism.variance) == pytest.approx(expected, rel=1e-3)
    for cosine in np.linspace(0.0, 0.95, 96):  # any other cap of the same price, with as many candidates as it takes
        q, first = prices.cap_moments(20, float(cosine)).mass, prices.cap_moments(20, float(cosine)).first
        p = math.exp(epsilon) * q / (1 - q + math.exp(epsilon) * q)
        assert first * (p / q - (1 - p) / (1 - q)) <= mechanism.lean * (1 + 1e-5)


# Privacy of what is drawn


def rounded(steps: int) -> tuple[Ints, Floats]:
    """All points of the plane that a candidate of so many steps can be, and their probabilities: exact Gaussians."""
    ends = np.arange(-math.ceil(6 * steps), math.ceil(6 * steps) + 1)
    each = stats.norm.cdf((ends + 0.5) / steps) - stats.norm.cdf((ends - 0.5) / steps)
    points = np.stack(np.meshgrid(ends, ends, indexing="ij"), axis=-1).reshape(-1, 2)
    return points, np.outer(each, each).ravel() / each.sum() ** 2


def inside_of(event: CapEvent, points: Ints, angles: Floats) -> NDArray[np.bool_]:
    """Which points are in the cap of each direction, (angles, points), by the device's own test."""
    aims = round_to_sphere(np.stack([np.cos(angles), np.sin(angles)], axis=-1), np.zeros(angles.shape))
    return is_in_cap(np.broadcast_to(points, (len(angles), *points.shape)), aims, event.cosine)


@pytest.mark.parametrize("steps", [8, 32, 16])
@pytest.mark.parametrize("cosine", [0.3, 0.8])
@pytest.mark.often(when=lambda steps: steps == 8)
def test_coarse_candidates_are_priced_exactly_enough(steps: int, cosine: float) -> None:
    event = CapEvent(cosine=cosine, chance=0.9, candidates=3, dim=2, steps=steps)
    points, weights = rounded(steps)
    inside = inside_of(event, points, np.linspace(0, 2 * np.pi, 180, endpoint=False))
    chance = inside @ weights  # of a candidate to be inside, for each direction
    low, high = prices.bound_cap_mass(event)
    assert low <= chance.min() < chance.max() <= high
    c, n, q = event.chance, event.candidates, chance[:, None]
    density = np.where(
        inside,
        c * (1 - (1 - q) ** n) / q + (1 - c) * q ** (n - 1),
        (1 - c) * (1 - q**n) / (1 - q) + c * (1 - q) ** (n - 1),
    )
    assert np.allclose(density @ weights, 1.0)
    worst = float(np.log(density.max(axis=0) / density.min(axis=0)).max())
    assert worst <= prices.cap_epsilon(event)
    assert worst > prices.cap_epsilon(replace(event, steps=CAP_STEPS))  # coarse steps cost something
    assert prices.cap_epsilon(event) < prices.cap_epsilon(replace(event, steps=CAP_STEPS)) + 60 / steps


@pytest.mark.parametrize("dim", [2, 5, 20])
def test_fine_candidates_fall_into_the_cap_as_often_as_said(dim: int) -> None:
    """6 standard errors."""
    event = best_cap(dim=dim, epsilon=2.0)
    words = np.random.default_rng(4).random((60_000, 3, (dim + 1) // 2))
    found = make_candidates(words, event.steps)[:, :dim]
    low, high = prices.bound_cap_mass(event)
    assert high - low < 1e-5
    for axis in (np.eye(dim)[0], np.ones(dim) / math.sqrt(dim)):
        share = np.mean(is_in_cap(found, round_to_sphere(axis, np.zeros(())), event.cosine))
        assert low - 6 * math.sqrt(low / 60_000) < share < high + 6 * math.sqrt(low / 60_000)


class Written(NoiseSource):
    secure = False
    gaussian = laplace = discrete_gaussian = discrete_laplace = binomial = coins = permutation = None  # type: ignore[assignment]

    def __init__(self, numbers: Floats) -> None:
        self.numbers, self.taken = numbers, 0

    def uniform(self, size: Any) -> Floats:
        begin, self.taken = self.taken, self.taken + size[-2]
        return self.numbers[..., begin : self.taken, :].reshape(size)


COINS, LENGTHS, TURNS = 4, (0.1, 0.6), 8  # chances of quarters; sixteen candidates
EVERY = [
    (0.0, (coin + 0.5) / COINS, begin / 2, *(word for length, turn in pair for word in (length, 0.5, turn / TURNS)))
    for coin in range(COINS)
    for begin in range(2)
    for pair in itertools.product(itertools.product(LENGTHS, range(TURNS)), repeat=2)
]


@pytest.mark.parametrize("chance", [0.75, 1.0])
def test_every_outcome_of_a_small_device(chance: float) -> None:
    device = CapRandomizer(domain=Ball(dim=2), cosine=0.6, chance=chance, candidates=2, steps=1000)
    source = np.array(EVERY)
    known = make_candidates(np.array([[[a], [0.5], [t / TURNS]] for a in LENGTHS for t in range(TURNS)]), 1000)
    names = {tuple(point): k for k, point in enumerate(known.tolist())}
    assert len(names) == 16
    laws = []
    for angle in np.linspace(0, 2 * np.pi, 48, endpoint=False):
        point = np.array([math.cos(angle), math.sin(angle)])
        sent = device.encode(np.broadcast_to(point, (len(source), 2)), Written(source))
        law = np.bincount([names[tuple(row)] for row in sent.tolist()], minlength=16) / len(source)
        inside = is_in_cap(known, round_to_sphere(point, np.zeros(())), 0.6)
        q = inside.mean()
        expected = [chance * (2 - q) + (1 - chance) * q, (1 - chance) * (1 + q) + chance * (1 - q)]  # inside, outside
        assert np.allclose(16 * law, np.where(inside, *expected))
        laws.append(law)
    shares = {round(float(is_in_cap(known, round_to_sphere(np.array([math.cos(a), math.sin(a)]), np.zeros(())), 0.6)
                    .mean()), 9)
              for a in np.linspace(0, 2 * np.pi, 48, endpoint=False)}  # fmt: skip
    low, high = min(shares), max(shares)
    worst = np.log(np.max(laws, axis=0) / np.min(laws, axis=0)).max()
    bound = math.log((chance * (2 - low) + (1 - chance) * high) / ((1 - chance) * (1 + low) + chance * (1 - high)))
    assert worst <= bound + 1e-12


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 0.3), (2, 1.0), (3, 2.0), (20, 1.0), (20, 6.0)])
def test_a_fifth_less_noise_exceeds_the_budget(dim: int, epsilon: float) -> None:
    kept = PrivUnit.calibrate(dim=dim, epsilon=epsilon)

    def quieter(more: float) -> bool:
        return PrivUnit.calibrate(dim=dim, epsilon=more).variance <= 0.64 * kept.variance

    louder = PrivUnit.calibrate(dim=dim, epsilon=search.find_least(quieter, epsilon, 36.0, relative=1e-3))
    inside, outside = densities(louder.event)
    assert math.log(inside / outside) > 1.1 * epsilon
    assert accountant.epsilon(louder.event, 0.0) > 1.1 * epsilon > epsilon >= accountant.epsilon(kept.event, 0.0)
    sharper = replace(kept.event, chance=min(1.0, 1.2 * kept.chance), candidates=2 * kept.candidates)
    assert prices.cap_epsilon(sharper) > epsilon  # the same cap, chosen more often


def test_devices_draw_equally_many_numbers_for_all_data() -> None:
    device = PrivUnit.calibrate(dim=3, epsilon=1.0).device(Ball(dim=3))

    class Counting(SecureNoise):
        drawn: list[int]

        def uniform(self, size: Any) -> Floats:
            self.drawn.append(math.prod(size))
            return super().uniform(size)

    counts = set()
    for row in ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1e-300, 0.0, 0.0], [0.3, -0.4, 0.5]):
        for _ in range(20):
            source = Counting()
            source.drawn = []
            device.encode(np.array([row]), source)
            counts.add(tuple(source.drawn))
    assert counts == {(3 + 3 * device.candidates * 2,)}


def test_candidates_and_messages_do_not_depend_on_their_neighbours() -> None:
    words = np.random.default_rng(2).random((37, 3, 3))
    together = make_candidates(words, CAP_STEPS)
    assert np.array_equal(together, np.concatenate([make_candidates(row[None], CAP_STEPS) for row in words]))
    aims = round_to_sphere(np.random.default_rng(3).normal(size=(5, 6)), np.zeros(5))
    tested = is_in_cap(np.broadcast_to(together, (5, 37, 6)), aims, 0.2)
    assert np.array_equal(tested, [[is_in_cap(g[None], a, 0.2)[0] for g in together] for a in aims])
    device = PrivUnit.calibrate(dim=6, epsilon=1.0).device(Ball(dim=6))
    rows = Ball(dim=6).admit(np.random.default_rng(5).normal(size=(200, 6))).values
    alone = fast(7)
    assert np.array_equal(device.encode(rows, fast(7)), np.concatenate([device.encode(r[None], alone) for r in rows]))


def test_candidates_stay_within_reach() -> None:
    extreme = np.array([[[0.0], [1 - 2.0**-53], [0.0]], [[1 - 2.0**-53], [0.0], [0.5]], [[0.0], [0.0], [0.25]]])
    found = make_candidates(extreme, CAP_STEPS)
    assert np.abs(found).max() <= math.ceil(LARGEST_NORMAL * CAP_STEPS)
    assert np.array_equal(found[1], [0, 0])  # the shortest: no direction, and none is made up
    assert np.array_equal(normalize_messages(found[1]), [0.0, 0.0])


# What an estimate is worth


@pytest.mark.parametrize("dim", [2, 7])
@pytest.mark.parametrize("length", [0.0, 0.5, 1.0])
@pytest.mark.often(when=lambda length, dim: (length == 0.5) == (dim == 7))
def test_estimates_are_unbiased_with_the_stated_variance(dim: int, length: float) -> None:
    mechanism = PrivUnit.calibrate(dim=dim, epsilon=1.5)
    draws = 200_000 if length == 1.0 else 60_000  # 1 % is 6 standard errors, or more than 25
    w = length * np.ones(dim) / math.sqrt(dim)
    found = mechanism.release(np.broadcast_to(w, (draws, dim)), fast(3))
    error = found - w
    whole = 1 / mechanism.lean**2 - length**2
    assert np.allclose(np.sum(found * found, axis=-1), 1 / mechanism.lean**2)  # every estimate is as long
    assert np.all(np.abs(error.mean(axis=0)) < 5 * math.sqrt(mechanism.most_variance / draws))
    assert np.mean(np.sum(error**2, axis=-1)) == pytest.approx(whole, rel=0.01)
    assert whole / dim <= mechanism.variance
    assert abs(0.64 * mechanism.variance - whole / dim) > 0.01 * whole / dim  # 20 % less would be seen
    if length:
        along = error @ (w / length)
        stated = mechanism.most_variance - length**2
        spread = 6 * np.std(along**2) / math.sqrt(draws)
        assert abs(np.mean(along**2) - stated) < spread
        assert np.mean(along**2) <= mechanism.most_variance + spread
        across = (np.mean(np.sum(error**2, axis=-1)) - np.mean(along**2)) / (dim - 1)
        assert across <= mechanism.variance * 1.01


def test_secure_estimates_are_unbiased_too() -> None:
    mechanism, draws = PrivUnit.calibrate(dim=4, epsilon=3.0), 20_000
    w = np.array([0.5, -0.5, 0.1, 0.0])
    found = mechanism.release(np.broadcast_to(w, (draws, 4)), SecureNoise())
    assert np.all(np.abs(found.mean(axis=0) - w) < 10 * math.sqrt(mechanism.most_variance / draws))


# Calibration and refusals


@pytest.mark.parametrize("dim", [2, 20, 500, 8192])
def test_directions_cost_99_9_to_100_percent_of_their_epsilon(dim: int) -> None:
    for epsilon in (1e-3, 0.01, 0.3, 1.0, 3.0, 7.0, 20.0, 500.0):
        event = best_cap(dim=dim, epsilon=epsilon)
        assert prices.cap_epsilon(event) <= epsilon
        assert prices.cap_epsilon(event) > 0.999 * epsilon or epsilon > 6
        assert event.candidates * dim <= max(2**21, 2 * dim)


def test_it_is_one_frozen_value() -> None:
    mechanism = PrivUnit.calibrate(dim=3, epsilon=1.0)
    assert mechanism == copy.copy(mechanism) == pickle.loads(pickle.dumps(mechanism))
    assert hash(mechanism) == hash(copy.copy(mechanism))
    assert accountant.rho(mechanism.event) == pytest.approx(math.tanh(0.5), rel=1e-3)  # epsilon tanh(epsilon/2)
    assert accountant.epsilon(mechanism.event, 1e-6) <= 1.0


def test_malformed_directions_budgets_and_vectors_are_refused_by_name() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan, "1", 1e-5):
        with pytest.raises(InvalidBudget, match="epsilon"):
            PrivUnit.calibrate(dim=3, epsilon=wrong)
    for dim in (0, 1, 2**13 + 1, "3"):
        with pytest.raises(BandannaError):
            PrivUnit.calibrate(dim=dim, epsilon=1.0)
    good: dict[str, Any] = {"cosine": 0.3, "chance": 0.9, "candidates": 3, "dim": 3}
    assert PrivUnit(**good).lean > 0
    for name, values in {
        "cosine": (-0.1, 1.0, 1.5, math.nan, "a", None),
        "chance": (-0.1, 1.5, 0.1, math.nan),  # 0.1: leans away
        "candidates": (0, 1, 2.5, 2**17),
        "dim": (1, 10**6),
        "steps": (0, 2**23),
    }.items():
        for value in values:
            with pytest.raises(InvalidArgument, match=name):
                PrivUnit(**{**good, name: value})
    mechanism = PrivUnit(**good)
    for value in ([2.0, 0.0, 0.0], [math.nan, 0.0, 0.0], [0.0, 0.0]):
        with pytest.raises(InvalidStatistic, match="value"):
            mechanism.release(np.array(value), fast())
    with pytest.raises(InvalidArgument, match="NoiseSource"):
        mechanism.release(np.zeros(3), None)  # type: ignore[arg-type]
