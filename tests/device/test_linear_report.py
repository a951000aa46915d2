"""Reports of linear regression: sensitivities, bounds and packing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy import optimize

from bandanna.device.base import Device
from bandanna.device.domain import Ball, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import LARGEST_PARAMETER, FastNoise, SecureNoise, divide_rounding_up
from bandanna.device.randomizers import BinomialCounts, NoisyVector, RepeatedBits, RoundedCounts
from bandanna.device.statistics import PublicStatistic, WeightedStatistic
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import NoRandomness

from ..drawn import examples

Floats = NDArray[np.float64]
OFTEN = ((2, 1.0), (2, 0.2), (3, 1.2), (1, math.sqrt(2)), (2, 3.0))


def distance(parameters: Floats, domain: LinearReport) -> float:
    """Distance of two reports, from unconstrained parameters: two features, two rewards, all clipped."""
    d = domain.features
    x, y = parameters[: 2 * d].reshape(2, d), parameters[2 * d :]
    first, second = domain.statistic(x, y * domain.reward_bound).values
    return float(np.linalg.norm(first - second))


@pytest.mark.often(when=lambda features, reward_bound: (features, reward_bound) in OFTEN)
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("reward_bound", [1.0, 0.2, 1.2, math.sqrt(2), 3.0])
def test_sensitivity_is_the_worst_pair(features: int, reward_bound: float) -> None:
    domain = LinearReport(features=features, reward_bound=reward_bound)
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(4):
        start = rng.normal(size=2 * features + 2) * 1.5
        found = optimize.minimize(
            lambda p: -distance(p, domain), start, method="Nelder-Mead", options={"maxiter": 1000}
        )
        worst = max(worst, -float(found.fun))
    assert worst <= domain.sensitivity * (1 + 1e-12)
    if features > 1 or reward_bound >= math.sqrt(2):  # in one dimension <x, x'> is -1, 0 or 1 at the edge
        assert worst >= domain.sensitivity * (1 - 1e-3)


@pytest.mark.parametrize("reward_bound", [1.0, 0.5])
def test_reports_without_the_scaling_have_the_same_sensitivity(reward_bound: float) -> None:
    domain = LinearReport(features=3, reward_bound=reward_bound, isometric=False)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 20_000, 3)), reward_bound * rng.choice([-1.0, 0.0, 1.0], size=(2, 20_000))
    first, second = (domain.statistic(*each).values for each in zip(x, y, strict=True))
    assert np.linalg.norm(first - second, axis=-1).max() <= domain.sensitivity
    half = math.acos(-(reward_bound**2) / 2) / 2  # of the angle between x and x', <x, x'> = -Y^2/2
    turned = np.array([half - math.pi / 4, -half - math.pi / 4])  # x x^T - x' x'^T is diagonal
    pair = np.stack([np.cos(turned), np.sin(turned), np.zeros(2)], axis=-1)
    reports = domain.statistic(pair, np.full(2, reward_bound)).values
    assert np.linalg.norm(reports[0] - reports[1]) == pytest.approx(domain.sensitivity)


def test_reports_without_the_scaling_return_as_they_were() -> None:
    domain, rng = LinearReport(features=4, isometric=False), np.random.default_rng(6)
    x = rng.normal(size=(50, 4)) / 4
    vector, matrix = domain.unpack(domain.statistic(x, np.ones(50)).values)
    np.testing.assert_allclose(vector, x)
    np.testing.assert_allclose(matrix, x[:, :, None] * x[:, None, :])
    np.testing.assert_array_equal(domain.variances[1], 1.0)
    packed = domain.statistic(x, np.full(50, 0.5)).values
    np.testing.assert_allclose(domain.project(packed), packed)
    isometric = LinearReport(features=4)
    for u, w in rng.normal(size=(200, 2, 4)):
        moved = u[:, None] * w[None, :] + w[:, None] * u[None, :]  # what an entry above the diagonal is multiplied by
        spreads = [
            np.sum(np.triu(moved, 1) ** 2 * each.variances[1]) + np.sum((u * w) ** 2) for each in (domain, isometric)
        ]
        assert spreads[1] <= spreads[0] <= domain.matrix_std**2 * spreads[1] * (1 + 1e-12)


def test_sensitivities_are_those_computed_by_hand() -> None:
    """Delta_2 is not sqrt 4.5 for rewards in [-1, 1], or not the derivation's for other bounds."""
    assert LinearReport(features=5).sensitivity == pytest.approx(math.sqrt(4.5), rel=1e-15)
    assert LinearReport(features=5, reward_bound=3.0).sensitivity == 6.0
    assert LinearReport(features=5, reward_bound=0.5).sensitivity == pytest.approx(2.25 / math.sqrt(2))
    for bound in (0.3, 1.0, 1.3, 1.5, 4.0):  # sup over c of 2Y^2 - 2Y^2 c + 2 - 2c^2, on a grid
        c = np.linspace(-1, 1, 200_001)
        truth = math.sqrt(float(np.max(2 * bound**2 - 2 * bound**2 * c + 2 - 2 * c**2)))
        assert LinearReport(features=2, reward_bound=bound).sensitivity == pytest.approx(truth, rel=1e-8)


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), arrays.arrays(float, (2, 3), elements=st.floats(-1.0, 1.0)))
def test_no_pair_exceeds_the_sensitivity(y: float, other: float, x: Floats) -> None:
    first, second = LinearReport(features=3).statistic(x, [y, other]).values
    assert np.linalg.norm(first - second) <= math.sqrt(4.5) * (1 + 1e-12)


@pytest.mark.parametrize("features", [1, 2, 5])
def test_stacking_is_an_isometry(features: int) -> None:
    domain = LinearReport(features=features)
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(7, 3, features)), rng.normal(size=(7, 3))
    stacked = domain.pack(x, y)
    vector, matrix = domain.unpack(stacked)
    assert stacked.shape == (7, 3, domain.dim)
    assert domain.dim == features + features * (features + 1) // 2
    np.testing.assert_allclose(vector, x * y[..., None])
    np.testing.assert_allclose(matrix, x[..., :, None] * x[..., None, :], atol=1e-14)
    squares = np.sum(vector**2, axis=-1) + np.sum(matrix**2, axis=(-2, -1))
    np.testing.assert_allclose(np.sum(stacked**2, axis=-1), squares)


def test_unpacking_is_linear() -> None:
    domain = LinearReport(features=4)
    rng = np.random.default_rng(5)
    statistic = domain.statistic(rng.normal(size=(9, 4)), rng.normal(size=9))
    vector, matrix = domain.unpack(statistic.total())
    vectors, matrices = domain.unpack(statistic.values)
    np.testing.assert_allclose(vector, vectors.sum(axis=0))
    np.testing.assert_allclose(matrix, matrices.sum(axis=0))
    np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("features", [1, 2, 4])
def test_bounds_of_the_coordinates_are_attained(features: int) -> None:
    domain = LinearReport(features=features, reward_bound=1.5)
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20_000, features)) * (rng.random((20_000, features)) < 0.6)
    values = domain.statistic(x * 100, rng.choice([-9.0, 9.0], size=20_000)).values
    assert np.all(values >= domain.lower - 1e-12)
    assert np.all(values <= domain.upper + 1e-12)
    reached = (values.max(axis=0) - values.min(axis=0)) / (domain.upper - domain.lower)
    assert np.all(reached[:features] > 0.99)
    assert np.all(reached[2 * features :] > 0.99)
    assert domain.reach == max(3.0, 1.0, math.sqrt(2))


def furthest(domain: LinearReport, seed: int, starts: int = 40) -> float:
    """The largest l1 distance of two reports that an ascent finds: steps along the slope of sum |differences|."""
    rng, d, bound = np.random.default_rng(seed), domain.features, domain.reward_bound
    weights = np.eye(d) + (1 - np.eye(d)) / math.sqrt(2)
    x, y = rng.normal(size=(2, starts, d))
    found = 0.0
    for step in range(100):
        x, y = (v / np.maximum(1.0, np.linalg.norm(v, axis=-1, keepdims=True)) for v in (x, y))
        ours, theirs = (domain.statistic(v, np.full(starts, bound)).values for v in (x, y))
        found = max(found, float(np.abs(ours - theirs).sum(axis=-1).max()))
        signs = np.sign(x[:, :, None] * x[:, None] - y[:, :, None] * y[:, None]) * weights
        side, rate = bound * np.sign(x - y), 0.3 / (1 + step / 10)
        x = x + rate * (side + 2 * np.einsum("nij,nj->ni", signs, x))
        y = y - rate * (side + 2 * np.einsum("nij,nj->ni", signs, y))
    return found


@pytest.mark.parametrize("bound", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("features", [1, 2, 3, 5, 8])
def test_the_l1_sensitivity_is_bounded_and_nearly_attained(features: int, bound: float) -> None:
    domain = LinearReport(features=features, reward_bound=bound)
    found = furthest(domain, seed=7)
    assert found <= domain.l1_sensitivity * (1 + 1e-12)
    assert found >= (0.999 if features == 1 else 0.965) * domain.l1_sensitivity
    assert found > 0.8 * domain.l1_sensitivity * (1 + 1e-12)
    alone = 2 * (bound * math.sqrt(features) + 1 + (features - 1) / math.sqrt(2))  # twice the longest report
    assert domain.l1_sensitivity < 0.83 * alone


def test_statistics_are_clipped_before_the_report_is_formed() -> None:
    domain = LinearReport(features=2)
    statistic = domain.statistic(
        [[[3.0, 4.0], [0.6, 0.8], [0.0, 0.5]], [[1.0, 0.0], [0.0, 0.0], [0.3, 0.3]]],
        [[2.0, 1.0, -7.0], [1.0, 0.5, -0.5]],
    )
    assert statistic.clipped.tolist() == [2, 0]
    np.testing.assert_allclose(statistic.values[0, 0], domain.pack(np.array([0.6, 0.8]), np.array(1.0)))
    np.testing.assert_allclose(statistic.values[0, 2], domain.pack(np.array([0.0, 0.5]), np.array(-1.0)))
    assert statistic.users == 3


@examples(30, full=100)
@given(arrays.arrays(float, (3, 9), elements=st.just(0.0) | st.floats(1e-6, 100.0) | st.floats(-100.0, -1e-6)))
def test_projection_returns_reports(values: Floats) -> None:
    domain = LinearReport(features=3)
    projected = domain.project(values)
    vector, matrix = domain.unpack(projected)
    x_square = np.trace(matrix, axis1=-2, axis2=-1)
    for i in range(3):
        scale, axes = np.linalg.eigh(matrix[i])
        x = axes[:, -1] * math.sqrt(max(scale[-1], 0.0))
        y = float(vector[i] @ x / x_square[i]) if x_square[i] > 1e-12 else 0.0
        assert np.linalg.norm(x) <= 1 + 1e-9
        assert abs(y) <= 1 + 1e-6
        np.testing.assert_allclose(projected[i], domain.pack(x, np.asarray(y)), atol=1e-7)
    np.testing.assert_allclose(domain.project(projected), projected, atol=1e-9)


@examples(30, full=100)
@given(
    arrays.arrays(float, (4, 3), elements=st.floats(-2.0, 2.0)), arrays.arrays(float, 4, elements=st.floats(-2.0, 2.0))
)
def test_projection_keeps_reports(x: Floats, y: Floats) -> None:
    domain = LinearReport(features=3)
    statistic = domain.statistic(x, y)
    np.testing.assert_allclose(domain.project(statistic.values), statistic.values, atol=1e-9)
    assert domain.admit(statistic.values, clip=False).clipped == 0


def test_projection_has_leading_axes() -> None:
    domain = LinearReport(features=2)
    values = np.random.default_rng(8).normal(size=(3, 4, 5, domain.dim))
    together = domain.project(values)
    for index in np.ndindex(3, 4, 5):
        np.testing.assert_allclose(together[index], domain.project(values[index]))


def test_impostors_are_clipped_or_refused() -> None:
    domain = LinearReport(features=2)
    impostors = np.array([[[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, -1.0, 0.0, 0.0]]])
    assert domain.admit(impostors).clipped.tolist() == [3]
    for i in range(3):
        with pytest.raises(InvalidStatistic, match=r"statistics\[0, 0\]"):
            domain.admit(impostors[:, i : i + 1], clip=False)


@pytest.mark.parametrize("shape", [(3,), (5, 2), (5, 4), (2, 5, 2)])
def test_features_of_the_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidStatistic) as caught:
        LinearReport(features=3).statistic(np.zeros(shape), np.zeros(shape[:-1]))
    assert caught.value.argument == "features"
    assert str(shape) in str(caught.value)


def test_rewards_of_the_wrong_shape_are_refused() -> None:
    for rewards in (0.0, [0.0], np.zeros((5, 1)), np.zeros(4)):
        with pytest.raises(InvalidStatistic) as caught:
            LinearReport(features=3).statistic(np.zeros((5, 3)), rewards)
        assert caught.value.argument == "rewards"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_errors_name_the_place_of_a_number_that_is_not_finite(bad: float) -> None:
    x, y = np.zeros((4, 3)), np.zeros(4)
    x[2, 1] = bad
    with pytest.raises(InvalidStatistic, match=r"features\[2, 1\]"):
        LinearReport(features=3).statistic(x, y)
    x[2, 1], y[3] = 0.0, bad
    with pytest.raises(InvalidStatistic, match=r"rewards\[3\]"):
        LinearReport(features=3).statistic(x, y)


class Tails(FastNoise):
    """Coins that all fall on tails, and a note of how many were asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.asked: list[int] = []

    def binomial(self, *, trials: int, probability: float, size: Any) -> Any:
        self.asked.append(trials)
        return np.zeros(size, dtype=np.int64)


DEVICES = (
    (BinomialCounts(domain=Box(dim=1), scale=20.0, trials=900), {900}),
    (RoundedCounts(domain=Box(dim=1), scale=20.0), set()),
    (RepeatedBits(copies=20, trials=900), {900}),
)


@pytest.mark.parametrize(("device", "coins"), DEVICES, ids=["counts", "rounded", "copies"])
def test_a_count_is_the_value_in_steps_and_all_coins(device: Device, coins: set[int]) -> None:
    source = Tails()
    low, high = (int(device.encode(np.array([value]), source)[0]) for value in (0.0, 1.0))
    assert high - low == 20
    assert set(source.asked) == coins


def test_a_seeded_report_has_the_noise_that_is_priced() -> None:
    device = NoisyVector(domain=Ball(dim=2), std=3.0, grid=2.0**-20)
    report = device.encode(np.zeros((4, 2)), FastNoise(np.random.default_rng(1)))
    unit = FastNoise(np.random.default_rng(1)).gaussian(np.zeros((4, 2)), std=1.0, grid=0.0)
    np.testing.assert_allclose(report, 3.0 * unit)


def test_noise_in_steps_of_a_grid_is_never_rounded_down() -> None:
    scales, grid = [1 + step / 7 for step in range(40)], 0.3
    assert any(Fraction(scale / grid) * Fraction(grid) < Fraction(scale) for scale in scales)
    assert all(Fraction(divide_rounding_up("std", scale, grid)) * Fraction(grid) >= Fraction(scale) for scale in scales)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_errors_do_not_show_features_that_are_no_numbers(value: float) -> None:
    report, broken = LinearReport(features=2), np.array([[value, 0.0]])
    weighted = WeightedStatistic(seen=report, weights=(1.0, 1.0), bits=False)
    for tell, domain in ((PublicStatistic(seen=report, scale=0.5), report), (weighted, Ball(dim=2, bound=0.5))):
        with pytest.raises(InvalidStatistic, match="features"):
            tell.statistic(domain, broken, np.array([1.0]), None, NoRandomness())


def test_weighted_rewards_are_reported_with_their_features() -> None:
    weighted = WeightedStatistic(seen=LinearReport(features=2), weights=(0.5, 2.0), bits=False)
    told = weighted.statistic(Ball(dim=2, bound=0.5), np.array([[0.6, 0.4]]), np.array([1.0]), None, NoRandomness())
    np.testing.assert_allclose(told.values, [[0.15, 0.4]])


def test_secure_noise_beyond_what_integers_hold_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="scale"):
        SecureNoise().discrete_laplace(scale=1.05 * LARGEST_PARAMETER, size=1)
