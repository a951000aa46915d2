"""Reports of importance weights and of doubly robust corrections."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy import optimize
from scipy.spatial import distance

from bandanna.device.base import to_plain_value
from bandanna.device.randomizers import _build_value
from bandanna.device.weighted_report import DoublyRobustDomain, ImportanceWeightDomain
from bandanna.errors import InvalidArgument, InvalidStatistic

from ..drawn import examples

Floats = NDArray[np.float64]
WEIGHTS = [
    ImportanceWeightDomain(bound=4.0),
    ImportanceWeightDomain(bound=0.3),
    ImportanceWeightDomain(bound=4.0, moments=True),
    ImportanceWeightDomain(bound=2.0, targets=3),
    ImportanceWeightDomain(bound=2.0, targets=2, moments=True),
    ImportanceWeightDomain(bound=2.0, targets=3, exclusive=True),
    ImportanceWeightDomain(bound=2.0, targets=3, moments=True, exclusive=True),
    ImportanceWeightDomain(bound=2.0, targets=1, moments=True, exclusive=True),
]
CORRECTIONS = [
    *(DoublyRobustDomain(bound=m, spread=h) for m in (0.05, 1.0, 4.0, 100.0) for h in (0.0, 0.1, 0.5)),
    DoublyRobustDomain(bound=0.0, spread=0.5),
    DoublyRobustDomain(bound=0.0, spread=0.1),
]
each_weights = pytest.mark.parametrize("domain", WEIGHTS, ids=str)
each_corrections = pytest.mark.parametrize("domain", CORRECTIONS, ids=str)
each = pytest.mark.parametrize("domain", [*WEIGHTS, *CORRECTIONS], ids=str)


def corners(domain: Any) -> Floats:
    if isinstance(domain, DoublyRobustDomain):
        ends = [
            (sign * (domain.spread + w * (0.5 + domain.spread)), w) for sign in (-1, 1) for w in (0.0, domain.bound)
        ]
        return domain.pack(*(np.array(part) for part in zip(*ends, strict=True)))
    single = [(0.0, 0.0), (domain.bound, -0.5), (domain.bound, 0.5)]
    points = [np.array(one) for one in itertools.product(single, repeat=domain.targets)]  # (targets, 2)
    if domain.exclusive:
        points = [one for one in points if np.count_nonzero(one[:, 0]) <= 1]
    stacked = np.stack(points)
    return domain.pack(stacked[..., 0], stacked[..., 1])


def inside(domain: Any, count: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    if isinstance(domain, DoublyRobustDomain):
        w = domain.bound * rng.choice([0.0, 1.0, np.nan], size=count)
        w = np.where(np.isnan(w), domain.bound * rng.random(count), w)
        most = domain.spread + w * (0.5 + domain.spread)
        return domain.pack(
            most * np.where(rng.random(count) < 0.5, rng.choice([-1, 1], count), rng.uniform(-1, 1, count)), w
        )
    shape = (count, domain.targets)
    w = domain.bound * np.where(rng.random(shape) < 0.5, rng.integers(0, 2, shape), rng.random(shape))
    rho = np.where(rng.random(shape) < 0.5, rng.choice([-0.5, 0.5], shape), rng.uniform(-0.5, 0.5, shape))
    if domain.exclusive:
        w = w * (rng.integers(0, domain.targets, (count, 1)) == np.arange(domain.targets))
    return domain.pack(w, rho)


def diameters(points: Floats) -> tuple[float, float]:
    return float(distance.pdist(points).max()), float(distance.pdist(points, "cityblock").max())


def test_the_triangle_of_weights_has_the_sides_computed_by_hand() -> None:
    """The corners (0, 0), (-M/2, M), (M/2, M) are not sqrt(5)/2 M apart at most, or 3/2 M in l1."""
    domain = ImportanceWeightDomain(4.0)
    assert domain == ImportanceWeightDomain(bound=4.0)
    np.testing.assert_array_equal(corners(domain), [[0, 0], [-2, 4], [2, 4]])
    assert domain.sensitivity == pytest.approx(math.sqrt(5) / 2 * 4.0, rel=1e-15)
    assert domain.l1_sensitivity == pytest.approx(6.0, rel=1e-15)
    np.testing.assert_array_equal([domain.lower, domain.upper], [[-2, 0], [2, 4]])


def test_moments_cost_two_percent() -> None:
    """With moments one target, or many that exclude each other, need more than sqrt(1.04) M; or several, not sqrt J."""
    once = math.sqrt(1.04) * 3.0
    assert ImportanceWeightDomain(bound=3.0, moments=True).sensitivity == pytest.approx(once, rel=1e-12)
    assert ImportanceWeightDomain(bound=3.0, moments=True, targets=7, exclusive=True).sensitivity == pytest.approx(
        once, rel=1e-12
    )
    assert ImportanceWeightDomain(bound=3.0, moments=True, targets=7).sensitivity == pytest.approx(
        math.sqrt(7) * once, rel=1e-12
    )


@each
def test_sensitivities_are_diameters_of_corners(domain: Any) -> None:
    l2, l1 = diameters(corners(domain))
    assert l2 == pytest.approx(domain.sensitivity, rel=1e-12)
    assert l1 <= domain.l1_sensitivity * (1 + 1e-12)
    if isinstance(domain, ImportanceWeightDomain):
        assert l1 == pytest.approx(domain.l1_sensitivity, rel=1e-12)


@each
def test_no_two_points_are_farther_apart(domain: Any) -> None:
    points = inside(domain, 700, seed=1)
    l2, l1 = diameters(points)
    assert l2 <= domain.sensitivity * (1 + 1e-12)
    assert l1 <= domain.l1_sensitivity * (1 + 1e-12)
    assert np.all(points >= domain.lower - 1e-12)
    assert np.all(points <= domain.upper + 1e-12)
    centre, radius = domain.ball
    assert np.linalg.norm(np.concatenate([points, corners(domain)]) - centre, axis=-1).max() <= radius * (1 + 1e-12)
    assert domain.reach == np.max(domain.upper - domain.lower)


@pytest.mark.parametrize("moments", [False, True])
def test_no_search_finds_points_farther_apart(moments: bool) -> None:
    domain = ImportanceWeightDomain(bound=1.0, moments=moments)

    def apart(z: Floats) -> float:
        points = domain.pack(z[[0, 2], None], z[[1, 3], None])
        return -float(np.sum((points[0] - points[1]) ** 2))

    rng, box = np.random.default_rng(3), [(0.0, 1.0), (-0.5, 0.5)] * 2
    found = [optimize.minimize(apart, rng.uniform([0, -0.5] * 2, [1, 0.5] * 2), bounds=box).fun for _ in range(40)]
    assert -min(found) == pytest.approx(domain.sensitivity**2, rel=1e-9)


@each_weights
def test_distances_are_convex(domain: ImportanceWeightDomain) -> None:
    if domain.targets > 1:
        return  # a sum of such
    rng, (_, k, a, b, c) = np.random.default_rng(4), (*domain.scales, 0.0, 0.0, 0.0)[:5]
    x, y = rng.random(20_000), rng.random(20_000)
    u, v = x * rng.uniform(-0.5, 0.5, 20_000), y * rng.uniform(-0.5, 0.5, 20_000)  # in units of M
    uu = 2 + a**2 * (12 * u**2 - 4 * v**2) + 2 * b**2 * x**2
    xx = 2 * k**2 + c**2 * (12 * x**2 - 4 * y**2) + 2 * b**2 * u**2
    ux = b**2 * (4 * x * u - 2 * y * v)
    assert np.all(uu > 0)
    assert np.all(uu * xx - ux**2 >= -1e-12)


@each
@examples(5, full=10)
@given(data=st.data())
def test_admitted_statistics_are_points_of_the_domain(domain: Any, data: st.DataObject) -> None:
    admit(domain, data)


@pytest.mark.full
@each
@given(data=st.data())
def test_rare_admitted_statistics_are_points_of_the_domain(domain: Any, data: st.DataObject) -> None:
    admit(domain, data)


def admit(domain: Any, data: st.DataObject) -> None:
    numbers = st.just(0.0) | st.floats(1e-6, 1e3) | st.floats(-1e3, -1e-6)
    values = data.draw(arrays.arrays(float, (2, domain.dim), elements=numbers))
    admitted = domain.admit(values)
    points = np.concatenate([admitted.values, corners(domain)])
    assert diameters(points)[0] <= domain.sensitivity * (1 + 1e-9)
    again = domain.admit(admitted.values)
    assert again.clipped == 0
    np.testing.assert_allclose(again.values, admitted.values, rtol=0, atol=1e-9 * domain.largest_entry)
    assert np.array_equal(domain.admit(admitted.values, clip=False).values, admitted.values)


@each
def test_points_stay(domain: Any) -> None:
    points = inside(domain, 300, seed=5)
    admitted = domain.admit(points)
    assert admitted.clipped == 0
    np.testing.assert_allclose(admitted.values, points, atol=1e-9)
    assert domain.admit(points, clip=False).clipped == 0


def test_sums_are_read_again() -> None:
    """Unpacked sums are not those of w rho, w, w^2 rho^2, w^2 rho and w^2; or of d, w and d^2."""
    rng = np.random.default_rng(6)
    w, r = 4 * rng.random((30, 2)), rng.random(30)
    domain = ImportanceWeightDomain(bound=4.0, targets=2, moments=True)
    rho = r[:, None] - 0.5
    wanted = np.stack([(part).sum(0) for part in (w * rho, w, w**2 * rho**2, w**2 * rho, w**2)], axis=-1)
    np.testing.assert_allclose(domain.unpack(domain.statistic(w, r).total()), wanted)
    for bound in (3.0, 0.0):
        terms = DoublyRobustDomain(bound=bound, spread=0.4)
        weights = bound * rng.random(30)
        d = (0.4 + weights * 0.9) * rng.uniform(-1, 1, 30)
        statistic = terms.statistic(d, weights)
        assert statistic.clipped == 0
        np.testing.assert_allclose(terms.unpack(statistic.total()), [d.sum(), weights.sum(), (d**2).sum()])


def test_weights_are_cut_and_others_counted() -> None:
    statistic = ImportanceWeightDomain(bound=2.0).statistic(np.array([[5.0], [1.0], [1.0]]), np.array([1.0, 0.5, 7.0]))
    np.testing.assert_allclose(statistic.values, [[1.0, 2.0], [0.0, 1.0], [0.5, 1.0]])
    assert statistic.clipped == 1
    assert statistic.sealed


@pytest.mark.parametrize("domain", [WEIGHTS[0], WEIGHTS[-2], CORRECTIONS[3], CORRECTIONS[-1]], ids=str)
def test_a_task_can_name_it(domain: Any) -> None:
    assert _build_value(to_plain_value(domain)) == domain


@pytest.mark.parametrize(
    "make",
    [
        lambda: ImportanceWeightDomain(bound=0.0),
        lambda: ImportanceWeightDomain(bound=math.inf),
        lambda: ImportanceWeightDomain(bound=1.0, targets=0),
        lambda: ImportanceWeightDomain(bound=1.0, moments=1),  # type: ignore[arg-type]
        lambda: DoublyRobustDomain(bound=1.0, spread=0.6),
        lambda: DoublyRobustDomain(bound=0.0, spread=0.0),
        lambda: DoublyRobustDomain(bound=-1.0),
    ],
)
def test_values_that_are_no_domains_are_refused(make: Any) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_statistics_of_other_shapes_are_refused() -> None:
    domain = ImportanceWeightDomain(bound=1.0, targets=2, exclusive=True)
    for weights, rewards in (
        (np.ones((3, 2)), np.ones(3)),
        (np.ones((3, 1)), np.ones(3)),
        (np.ones((2, 2)), np.ones(3)),
    ):
        with pytest.raises(InvalidStatistic):
            domain.statistic(weights, rewards)
