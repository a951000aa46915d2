"""Domains, statistics, batches in parts, and estimates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from bandanna.device.domain import (
    Ball,
    Bits,
    Box,
    Domain,
    Estimate,
    Statistic,
    StreamedStatistic,
    SymmetricMatrix,
    clip_norm,
)
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import ReplicatedNoise
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

from ..drawn import examples

Floats = NDArray[np.float64]
DOMAINS: dict[str, Domain] = {
    "ball": Ball(dim=3, bound=2.5),
    "unit interval": Box(dim=1),
    "box": Box(dim=4, low=-2.0, high=0.5),
    "report": LinearReport(features=2),
    "report of small rewards": LinearReport(features=3, reward_bound=0.3),
    "report of large rewards": LinearReport(features=2, reward_bound=4.0),
    "report of one feature": LinearReport(features=1),
}
numbers = st.just(0.0) | st.floats(1e-6, 1e3) | st.floats(-1e3, -1e-6)


def inside(domain: Domain, values: Floats) -> bool:
    if isinstance(domain, Ball):
        return bool(np.all(np.sqrt(np.sum(values**2, axis=-1)) <= domain.bound * (1 + 1e-12)))
    if isinstance(domain, Box):
        return bool(np.all((values >= domain.low) & (values <= domain.high)))
    assert isinstance(domain, LinearReport)
    vector, matrix = domain.unpack(values)
    trace = np.trace(matrix, axis1=-2, axis2=-1)
    rank_one = np.allclose(  # x x^T has one eigenvalue |x|^2 <= 1, and x y lies along x with |y| <= Y
        np.linalg.eigvalsh(matrix),
        np.concatenate([np.zeros((*trace.shape, domain.features - 1)), trace[..., None]], -1),
        atol=1e-9,
    )
    along = np.allclose(np.einsum("...ij,...j->...i", matrix, vector), trace[..., None] * vector, atol=1e-9)
    small = np.all(np.sum(vector**2, -1) <= domain.reward_bound**2 * trace * (1 + 1e-9) + 1e-12)
    return bool(rank_one and along and small and np.all(trace <= 1 + 1e-9))


def sample(domain: Domain, count: int, seed: int) -> Floats:
    """Points of a domain: admitted random vectors of all sizes, and its corners for a box."""
    rng = np.random.default_rng(seed)
    if isinstance(domain, LinearReport):
        x = rng.normal(size=(count, domain.features))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        y = rng.choice([-1.0, 0.0, 1.0], size=count) * domain.reward_bound
        return domain.pack(x * rng.choice([1.0, 1.0, 0.7], size=(count, 1)), y)
    values = rng.normal(size=(count, domain.dim)) * 10.0 ** rng.uniform(-1, 1, size=(count, 1))
    corners = np.array(list(itertools.product(*zip(domain.lower, domain.upper, strict=True))))
    return domain.project(np.concatenate([values, corners]))


@pytest.mark.parametrize("name", DOMAINS)
@examples(12, full=30)
@given(data=st.data())
def test_admitted_statistics_lie_inside(name: str, data: st.DataObject) -> None:
    admit(DOMAINS[name], data)


@pytest.mark.full
@pytest.mark.parametrize("name", DOMAINS)
@settings(max_examples=300)
@given(data=st.data())
def test_rare_statistics_lie_inside(name: str, data: st.DataObject) -> None:
    admit(DOMAINS[name], data)


def admit(domain: Domain, data: st.DataObject) -> None:
    values = data.draw(arrays.arrays(float, (2, domain.dim), elements=numbers))
    admitted = domain.admit(values)
    assert np.all(np.isfinite(admitted.values))
    assert inside(domain, admitted.values)
    assert np.all(admitted.values >= domain.lower - 1e-9)
    assert np.all(admitted.values <= domain.upper + 1e-9)
    np.testing.assert_allclose(domain.project(admitted.values), admitted.values, atol=1e-9)
    assert domain.admit(admitted.values).clipped == 0
    assert np.array_equal(domain.admit(admitted.values, clip=False).values, admitted.values)  # bit for bit


@pytest.mark.parametrize("name", DOMAINS)
def test_points_of_the_domain_stay(name: str) -> None:
    domain = DOMAINS[name]
    values = sample(domain, 200, seed=1)
    admitted = domain.admit(values, clip=False)
    np.testing.assert_allclose(admitted.values, values, atol=1e-9)
    assert admitted.clipped == 0


@pytest.mark.parametrize("name", DOMAINS)
def test_sensitivities_are_diameters(name: str) -> None:
    domain = DOMAINS[name]
    values = sample(domain, 500, seed=2)
    apart = values[:, None, :] - values[None, :, :]
    l2, l1 = np.linalg.norm(apart, axis=-1).max(), np.abs(apart).sum(axis=-1).max()
    assert l2 <= domain.sensitivity * (1 + 1e-12)
    assert l1 <= domain.l1_sensitivity * (1 + 1e-12)
    assert l2 >= 0.9 * domain.sensitivity
    assert np.abs(apart).max() <= domain.reach * (1 + 1e-12)
    assert domain.reach == np.max(domain.upper - domain.lower)


def test_balls_and_boxes_have_the_sensitivities_computed_by_hand() -> None:
    ball, box = Ball(dim=4, bound=1.5), Box(dim=4, low=-1.0, high=2.0)
    assert (ball.sensitivity, ball.l1_sensitivity, ball.reach) == (3.0, 6.0, 3.0)
    assert (box.sensitivity, box.l1_sensitivity, box.reach) == (6.0, 12.0, 3.0)
    np.testing.assert_array_equal(ball.lower, [-1.5] * 4)
    np.testing.assert_array_equal(box.upper, [2.0] * 4)
    corner = np.array([[3.0, 4.0, 0.0, 0.0]])
    np.testing.assert_allclose(ball.project(corner), [[0.9, 1.2, 0.0, 0.0]])
    np.testing.assert_allclose(box.project(corner), [[2.0, 2.0, 0.0, 0.0]])


def test_clips_are_counted_for_each_replicate() -> None:
    domain = Ball(dim=2)
    values = np.zeros((3, 5, 2))
    values[0, 1] = values[0, 4] = values[2, 0] = (3.0, 0.0)
    values[1, 2] = (1.0, 0.0)  # on the edge
    admitted = domain.admit(values)
    assert admitted.clipped.tolist() == [2, 0, 1]
    assert admitted.users == 5
    assert admitted.values.shape == (3, 5, 2)


def test_rounding_errors_are_not_clips() -> None:
    domain = Ball(dim=2)
    assert domain.admit([[1.0 + 1e-14, 0.0]], clip=False).clipped == 0
    with pytest.raises(InvalidStatistic):
        domain.admit([[1.0 + 1e-6, 0.0]], clip=False)
    assert domain.admit([[1.0 + 1e-6, 0.0]]).clipped == 1


def test_the_callers_array_is_not_written_to() -> None:
    for domain in DOMAINS.values():
        values = np.full((3, domain.dim), 7.0)
        domain.admit(values)
        assert np.all(values == 7.0)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_statistics_that_are_not_finite_are_refused(bad: float, clip: bool) -> None:
    for domain in DOMAINS.values():
        values = np.zeros((2, 4, domain.dim))
        values[1, 3, domain.dim - 1] = bad
        with pytest.raises(InvalidStatistic, match="finite") as caught:
            domain.admit(values, clip=clip)
        assert caught.value.argument == f"statistics[1, 3, {domain.dim - 1}]"
        assert caught.value.value == "a float that is not finite"


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (None, "list with a NoneType at [1, 0]"),
        (pd.NA, "list with a NAType at [1, 0]"),
        (np.timedelta64(1, "s"), "list with a timedelta64 at [1, 0]"),
        (10**400, "list with a number too large for a float at [1, 0]"),
    ],
)
def test_values_that_are_no_numbers_are_named_by_place(odd: Any, told: str) -> None:
    with pytest.raises(InvalidStatistic) as caught:
        Ball(dim=2).admit([[0.5, 0.1], [odd, 0.2]])
    assert caught.value.value == told


@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (5, 2), (5, 4), (2, 0, 3), (5, 0)])
def test_statistics_of_the_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    """A batch of the wrong dimension, or of nobody, is admitted, or the error does not name the shape."""
    with pytest.raises(InvalidStatistic) as caught:
        Ball(dim=3).admit(np.zeros(shape))
    assert caught.value.argument == "statistics"
    assert str(shape) in str(caught.value)


def test_statistics_outside_are_refused_without_clipping() -> None:
    values = np.zeros((2, 3, 2))
    values[1, 2] = (0.0, 1.5)
    with pytest.raises(InvalidStatistic, match="clipping is off") as caught:
        Ball(dim=2).admit(values, clip=False)
    assert caught.value.argument == "statistics[1, 2]"
    assert caught.value.value == "a point outside"
    assert "Ball(dim=2, bound=1.0)" in caught.value.allowed


WHOLE, SIZES = [0, -1, 1.5, True, None, "3", math.nan], [0, -1.0, math.nan, math.inf, True, None, "1"]
ARGUMENTS: dict[str, tuple[list[Any], Callable[[Any], Domain]]] = {
    "dim": (WHOLE, lambda value: Ball(dim=value)),
    "dim of a box": (WHOLE, lambda value: Box(dim=value)),
    "bound": (SIZES, lambda value: Ball(dim=2, bound=value)),
    "features": (WHOLE, lambda value: LinearReport(features=value)),
    "reward_bound": (SIZES, lambda value: LinearReport(features=2, reward_bound=value)),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (values, _) in ARGUMENTS.items() for value in values]
)
def test_dimensions_and_sizes_are_positive_numbers(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ARGUMENTS[name][1](value)
    assert caught.value.argument == name.split()[0]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0)])
def test_bad_boxes_are_refused(low: float, high: float) -> None:
    with pytest.raises(InvalidArgument, match="low, high"):
        Box(dim=2, low=low, high=high)


def test_whole_floats_are_dimensions() -> None:
    """A dimension given as 3.0 is not the dimension 3."""
    assert Ball(dim=3.0) == Ball(dim=3)
    assert isinstance(Ball(dim=3.0).dim, int)


@examples(30, full=100)
@given(arrays.arrays(float, (4, 3), elements=numbers), st.floats(0.01, 100.0))
def test_clipped_vectors_have_norms_of_at_most_the_bound(values: Floats, bound: float) -> None:
    clipped = clip_norm(values, bound)
    before, after = np.linalg.norm(values, axis=-1), np.linalg.norm(clipped, axis=-1)
    assert np.all(after <= bound * (1 + 1e-14))
    short = before <= bound
    assert np.array_equal(clipped[short], values[short])
    np.testing.assert_allclose(clipped * before[:, None], values * after[:, None], atol=1e-6)


def test_grouped_statistics_have_the_sum_of_their_users() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 2.0]])
    domain = Ball(dim=2, bound=2.0)
    plain = domain.admit(np.repeat(rows, [3, 4], axis=0))
    grouped = replace(domain.admit(rows), counts=np.array([3, 4]))
    assert plain.users == grouped.users == 7
    np.testing.assert_array_equal(plain.total(), [3.0, 8.0])
    np.testing.assert_array_equal(grouped.total(), [3.0, 8.0])


def test_bits_are_zero_or_one() -> None:
    assert Bits().admit([[0.0], [1.0]], clip=False).values.tolist() == [[0.0], [1.0]]
    for wrong in (0.5, -1.0, 2.0, 1e-6):
        with pytest.raises(InvalidStatistic):
            Bits().admit([[wrong]], clip=False)
    clipped = Bits().admit([[0.7], [0.2], [1.0]])
    assert clipped.values.tolist() == [[1.0], [0.0], [1.0]]
    assert int(clipped.clipped) == 2
    assert Bits().sensitivity == 1.0
    with pytest.raises(InvalidArgument):
        Bits(dim=2)


@given(st.integers(1, 6), st.integers(0, 2**31))
def test_matrices_are_packed_isometrically(size: int, seed: int) -> None:
    domain = SymmetricMatrix(size=size)
    raw = np.random.default_rng(seed).normal(size=(3, size, size))
    matrices = (raw + np.swapaxes(raw, 1, 2)) / 2
    packed = domain.pack(matrices)
    assert packed.shape == (3, size * (size + 1) // 2)
    assert np.allclose(np.linalg.norm(packed, axis=-1), np.linalg.norm(matrices, axis=(-2, -1)))
    assert np.allclose(domain.unpack(packed), matrices)
    assert np.all(np.abs(domain.project(packed)) <= domain.upper + 1e-12)


def test_matrices_that_are_not_symmetric_are_refused() -> None:
    domain = SymmetricMatrix(size=2, bound=3.0)
    assert domain.sensitivity == 6.0
    assert domain.dim == 3
    with pytest.raises(InvalidStatistic):
        domain.pack(np.zeros((3, 3)))
    with pytest.raises(InvalidStatistic):
        domain.pack(np.array([[0.0, 1.0], [0.5, 0.0]]))
    with pytest.raises(InvalidStatistic, match="finite"):
        domain.admit(domain.pack(np.full((1, 2, 2), math.nan)), clip=False)


DOMAIN = Ball(dim=3)
VALUES = np.random.default_rng(0).normal(size=(2, 10, 3))  # two replicates, ten users, some of them clipped


def whole() -> Statistic:
    return DOMAIN.admit(VALUES)


def arriving(users: int = 10) -> StreamedStatistic:
    parts = (DOMAIN.admit(VALUES[:, begin : begin + 3]) for begin in range(0, 10, 3))
    return StreamedStatistic(DOMAIN, users=users, source=parts, replicates=(2,))


def test_parts_of_a_batch_have_the_sum_of_the_whole() -> None:
    assert arriving().users == whole().users
    np.testing.assert_allclose(arriving().total(), whole().total(), rtol=1e-12)
    np.testing.assert_array_equal(arriving().rows(), whole().rows())
    read = arriving()
    read.total()
    np.testing.assert_array_equal(read.clipped, whole().clipped)
    assert np.all(read.clipped > 0)


def test_it_is_read_once_and_to_the_end() -> None:
    batch = arriving()
    batch.total()
    with pytest.raises(InvalidStatistic, match="got 0"):
        batch.total()
    with pytest.raises(InvalidStatistic, match="got 10"):
        arriving(users=11).total()


def test_every_part_is_checked() -> None:
    wild = Statistic(domain=DOMAIN, values=np.full((2, 1, 3), 9.0), clipped=np.zeros(2, dtype=np.int64))
    batch = StreamedStatistic(DOMAIN, users=1, source=[wild], replicates=(2,))
    with pytest.raises(InvalidStatistic, match="a point of"):
        batch.total()
    other = Box(dim=3).admit(np.zeros((2, 1, 3)))
    with pytest.raises(InvalidStatistic, match="statistics of"):
        StreamedStatistic(DOMAIN, users=1, source=[other], replicates=(2,)).total()


def test_the_law_of_the_vector_sum_does_not_depend_on_the_parts() -> None:
    noise = ShuffleBinomial.calibrate(domain=DOMAIN, budget=ApproxDP(epsilon=1.0, delta=1e-5), batch=10)
    one = noise.release(whole(), ReplicatedNoise(Streams([5, 6])), path="law")
    other = noise.release(arriving(), ReplicatedNoise(Streams([5, 6])), path="law")
    np.testing.assert_array_equal(one.total, other.total)


def test_totals_counts_and_variances_of_batches_add_up() -> None:
    first = Estimate(total=np.array([[1.0, 2.0], [0.0, 1.0]]), count=3, variance=0.5)
    second = Estimate(total=np.array([[10.0, 20.0], [5.0, 5.0]]), count=4, variance=0.25)
    both = first + second
    np.testing.assert_array_equal(both.total, [[11.0, 22.0], [5.0, 6.0]])
    assert (both.count, both.variance) == (7, 0.75)
    np.testing.assert_array_equal(first.total, [[1.0, 2.0], [0.0, 1.0]])
    assert (first + second + first).count == 10


def test_estimates_are_frozen() -> None:
    estimate = Estimate(total=np.zeros(2), count=3, variance=0.5)
    with pytest.raises(AttributeError):
        estimate.count = 4
