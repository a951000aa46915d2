"""What stochastic rounding costs, against the enumerated law of the rounded difference."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.privacy import gdp
from bandanna.privacy.prices import composable_shift, expected_delta

from ..drawn import examples

DELTA_2 = math.sqrt(4.5)


def rounded_squares(change: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """|v|^2 of all stochastic roundings v of a vector, and their probabilities: 2^D of them."""
    floors = [math.floor(a) for a in change]
    squares, chances = [], []
    for ups in itertools.product((0, 1), repeat=len(change)):
        chance = math.prod(a - low if up else 1 - (a - low) for a, low, up in zip(change, floors, ups, strict=True))
        squares.append(sum((low + up) ** 2 for low, up in zip(floors, ups, strict=True)))
        chances.append(chance)
    return np.asarray(squares, dtype=float), np.asarray(chances)


def mean_delta(change: list[float], epsilon: float, unit: float) -> float:
    squares, chances = rounded_squares(change)
    return float(chances @ gdp.delta(epsilon, unit * np.sqrt(squares)))


def directions(dim: int, count: int, seed: int) -> np.ndarray:
    """Unit vectors: random ones, axes and the diagonal."""
    rng = np.random.default_rng(seed)
    vectors = np.concatenate([rng.normal(size=(count, dim)), np.eye(dim), np.ones((1, dim))])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_coupled_roundings_are_a_rounding_of_the_difference() -> None:
    rng = np.random.default_rng(1)
    shared = (np.arange(20_000) + 0.5) / 20_000
    for first, second in rng.uniform(-5, 5, size=(30, 2)):
        v = np.floor(second + shared) - np.floor(first + shared)
        change = second - first
        assert set(np.unique(v)) <= {math.floor(change), math.ceil(change)}
        assert np.mean(v) == pytest.approx(change, abs=2e-4)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("shift", [0.4, 1.3, 4.0, 8.485, 23.3])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 0.1), (1.0, 1e-5), (10.0, 1e-3)])
@pytest.mark.often(of=lambda dim, shift: dim < 4 or shift in (0.4, 8.485))
def test_expected_delta_is_above_the_enumeration(dim: int, shift: float, epsilon: float, delta: float) -> None:
    unit = gdp.mu(epsilon, delta) / shift
    bound = expected_delta(epsilon, unit, shift, dim)
    worst = max(mean_delta(list(shift * u), epsilon, unit) for u in directions(dim, 40, seed=dim))
    shorter = max(mean_delta(list(0.7 * shift * u), epsilon, unit) for u in directions(dim, 10, seed=dim))
    assert max(worst, shorter) <= bound <= 1.0
    assert bound >= delta * (1 - 1e-9)  # no rounding would cost delta itself


def test_expected_delta_is_not_wasteful() -> None:
    shift = 11 * DELTA_2
    unit = gdp.mu(1.0, 1e-5) / shift
    assert expected_delta(1.0, unit, shift, 20) <= 1.2e-5
    fine = 1100 * DELTA_2
    assert expected_delta(1.0, gdp.mu(1.0, 1e-5) / fine, fine, 20) <= 1.01e-5


@pytest.mark.parametrize(("dim", "scale", "least"), [(2, 4, 1.42), (20, 11, 1.09)])
def test_noise_without_the_rounding_correction_breaks_the_budget(dim: int, scale: int, least: float) -> None:
    epsilon, delta, shift = 1.0, 1e-5, scale * DELTA_2
    unit = gdp.mu(epsilon, delta) / shift
    if dim == 2:
        angles = np.linspace(0, math.pi / 2, 500)
        truth = max(mean_delta([shift * math.cos(t), shift * math.sin(t)], epsilon, unit) for t in angles)
    else:  # two coordinates at 1.5, the others equal: the number that are rounded up is binomial
        other = math.sqrt((shift**2 - 4.5) / 18)
        low, up = math.floor(other), other - math.floor(other)
        truth = 0.0
        for k, j in itertools.product(range(19), range(3)):
            chance = math.comb(18, k) * up**k * (1 - up) ** (18 - k) * math.comb(2, j) / 4
            square = k * (low + 1) ** 2 + (18 - k) * low**2 + j * 4 + (2 - j)
            truth += chance * float(gdp.delta(epsilon, unit * math.sqrt(square)))
    assert truth > least * delta
    assert truth <= expected_delta(epsilon, unit, shift, dim)


@pytest.mark.parametrize("dim", [1, 2, 4, 8])
@pytest.mark.parametrize("tail", [0.5, 0.1, 1e-2, 1e-4, 1e-9])
@pytest.mark.often(of=lambda dim, tail: dim < 8 or tail in (0.5, 1e-4))
def test_composable_shift_holds_but_for_its_tail(dim: int, tail: float) -> None:
    for shift in (0.3, 1.0, 2.6, 7.1, 30.0):
        bound = composable_shift(shift, dim, tail)
        assert bound >= shift
        for u in directions(dim, 15, seed=dim):
            squares, chances = rounded_squares(list(shift * u))
            assert chances[squares > bound**2].sum() <= tail


def test_too_short_a_shift_is_noticed() -> None:
    tail, dim, shift = 1e-2, 8, 2.6
    bound = composable_shift(shift, dim, tail)
    assert bound**2 == pytest.approx(
        shift**2 + dim / 4 + (2 * shift + math.sqrt(dim)) * math.sqrt(math.log(1 / tail) / 2)
    )
    broken = {"20 % shorter": 0.8 * bound, "mean only": math.sqrt(shift**2 + dim / 4)}
    for name, short in broken.items():
        worst = 0.0
        for u in directions(dim, 40, seed=3):
            squares, chances = rounded_squares(list(shift * u))
            worst = max(worst, float(chances[squares > short**2].sum()))
        assert worst > tail, name


@given(st.floats(0.1, 50.0), st.integers(1, 200), st.floats(1e-15, 0.5), st.floats(1.0, 10.0))
def test_the_composable_shift_rises_with_change_coordinates_and_smaller_tails(
    shift: float, dim: int, tail: float, factor: float
) -> None:
    bound = composable_shift(shift, dim, tail)
    assert composable_shift(shift, dim, tail / factor) >= bound
    assert composable_shift(shift * factor, dim, tail) >= bound
    assert composable_shift(shift, dim + 1, tail) >= bound


@examples(30, full=100)
@given(st.floats(0.05, 5.0), st.floats(0.01, 2.0), st.floats(0.1, 40.0), st.integers(1, 60))
def test_expected_delta_is_a_bound_between_two_certain_ones(
    epsilon: float, unit: float, shift: float, dim: int
) -> None:
    bound = expected_delta(epsilon, unit, shift, dim)
    assert bound <= float(gdp.delta(epsilon, unit * (shift + math.sqrt(dim)))) * (1 + 1e-12)
    assert bound >= float(gdp.delta(epsilon, unit * shift)) * (1 - 1e-9)


@examples(10, full=30)
@given(shift=st.floats(0.1, 1e4), dim=st.integers(1, 400), mu=st.floats(1e-4, 3.0), epsilon=st.floats(1e-3, 30.0))
def test_the_least_of_all_exponents_is_found(shift: float, dim: int, mu: float, epsilon: float) -> None:
    unit, mean, width = mu / shift, shift**2 + dim / 4, 2 * shift + math.sqrt(dim)
    most = (shift + math.sqrt(dim)) ** 2
    grid = np.linspace(0.0, 1.0, 2001) ** 0.5 * most
    around = np.linspace(max(mean - 3 * width, 0.0), min(mean + 6 * width, most), 2000)
    grid = np.unique(np.concatenate([grid, around]))
    lambdas = np.geomspace(1e-3, 300.0, 300)[:, None] / mean
    log_c = np.max(gdp.log_delta(epsilon, unit * np.sqrt(grid[1:])) - lambdas * grid[:-1], axis=1)
    table = np.exp(np.min(log_c + lambdas[:, 0] * mean + lambdas[:, 0] ** 2 * width**2 / 8))
    worst = float(gdp.delta(epsilon, unit * math.sqrt(most)))
    assert expected_delta(epsilon, unit, shift, dim) == pytest.approx(min(float(table), worst, 1.0), rel=1e-12)
