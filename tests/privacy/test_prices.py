"""Prices: Theorem A, stochastic rounding and grids, against many digits and the exact divergence of enumerated laws."""

from __future__ import annotations

import itertools
import math
from functools import reduce

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from bandanna.errors import CalibrationError
from bandanna.privacy import gdp, prices
from bandanna.privacy.gdp import Price
from bandanna.privacy.prices import (
    LatticeLaw,
    LatticePrice,
    binomial_law,
    composable_shift,
    discrete_gaussian_law,
    expected_delta,
    fine_grid,
)

from ..drawn import examples

Floats = NDArray[np.float64]


def masses(law: LatticeLaw) -> tuple[int, Floats]:
    """First point and masses of a law, both tails cut where they are below 1e-17."""
    reach = math.ceil(9 * law.std) + 3
    low = int(max(law.least, law.mode - reach))
    high = int(min(law.most, law.mode + reach))
    return low, np.exp(law.log_mass(np.arange(low, high + 1, dtype=float)))


def divergence(mass: Floats, shifts: tuple[int, ...], epsilon: float) -> float:
    """HS_epsilon(Q^D + v, Q^D) by enumerating all outcomes."""

    def pair(shift: int) -> tuple[Floats, Floats]:
        moved, still = np.zeros(len(mass) + abs(shift)), np.zeros(len(mass) + abs(shift))
        first, second = max(shift, 0), max(-shift, 0)
        moved[first : first + len(mass)] = mass
        still[second : second + len(mass)] = mass
        return moved, still

    pairs = [pair(shift) for shift in shifts]
    p = reduce(np.multiply.outer, [moved for moved, _ in pairs])
    q = reduce(np.multiply.outer, [still for _, still in pairs])
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def worst(law: LatticeLaw, shifts: tuple[int, ...], epsilon: float) -> float:
    _, mass = masses(law)
    return max(divergence(mass, shifts, epsilon), divergence(mass, tuple(-v for v in shifts), epsilon))


def claim(unit: LatticePrice, shifts: tuple[int, ...], epsilon: float) -> float:
    assert max(abs(v) for v in shifts) <= unit.reach
    norm = math.sqrt(sum(v * v for v in shifts))
    return Price(mu=unit.mu * norm, tail=len(shifts) * unit.tail).delta(epsilon)


def exact_log_binomial(n: int, k: int, p: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        choose = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        return choose + k * mpmath.log(mpmath.mpf(p)) + (n - k) * mpmath.log(1 - mpmath.mpf(p))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 31, 100, 1000, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("p", [0.5, 0.25, 0.01, 0.9])
def test_the_binomial_mass_agrees_with_50_digits(n: int, p: float) -> None:
    exact_mean = (p * 4).is_integer()  # else n p is rounded, which is as much as another p in its last digit
    allowed = 1e-12 if exact_mean else 1e-12 + 2e-15 * math.sqrt(n)
    std = math.sqrt(n * p * (1 - p))
    wanted = {0, 1, n - 1, n} if n <= 1000 else set()
    wanted |= {round(n * p + z * std) for z in (-12, -8, -3, -0.5, 0, 0.3, 2, 6, 12)}
    points = sorted(k for k in wanted if 0 <= k <= n)
    ours = binomial_law(n, p).log_mass(np.asarray(points, dtype=float))
    for k, value in zip(points, ours, strict=True):
        truth = exact_log_binomial(n, k, p)
        assert abs(float(mpmath.mpf(float(value)) - truth)) < allowed + 4e-16 * abs(float(truth)), (n, p, k)


def test_the_binomial_mass_agrees_with_scipy() -> None:
    for n, p in [(1, 0.5), (5, 0.25), (40, 0.5), (300, 0.7), (2000, 0.25)]:
        points = np.arange(-2.0, n + 3)
        mass = np.exp(binomial_law(n, p).log_mass(points))
        np.testing.assert_allclose(mass, stats.binom.pmf(points, n, p), rtol=1e-9, atol=1e-250)
        assert mass.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.all(mass[[0, 1, -2, -1]] == 0.0)
        assert binomial_law(n, p).mode == int(points[np.argmax(mass)]) or mass.max() == pytest.approx(
            mass[2 + binomial_law(n, p).mode], rel=1e-12
        )


@pytest.mark.parametrize("std", [0.2, 0.5, 1.0, 1.7, 2.0, 2.1, 5.0, 50.0])
def test_the_discrete_gaussian_mass_is_that_of_its_definition(std: float) -> None:
    with mpmath.workdps(50):
        reach = math.ceil(16 * std) + 10
        scale = 2 * mpmath.mpf(std) ** 2
        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(j) ** 2) / scale) for j in range(-reach, reach + 1))
        points = [0, 1, -1, 3, math.ceil(4 * std), -math.ceil(9 * std)]
        truth = [float(-(mpmath.mpf(j) ** 2) / scale - mpmath.log(total)) for j in points]
    np.testing.assert_allclose(
        discrete_gaussian_law(std).log_mass(np.asarray(points, dtype=float)), truth, rtol=1e-14, atol=1e-13
    )


def exact_price(low: int, mass: list[mpmath.mpf], zmax: float) -> tuple[mpmath.mpf, mpmath.mpf, int]:
    """mu_1, t and hi - lo from the definition, quantiles by 60-digit root finding."""

    def quantile(j: int) -> mpmath.mpf | None:
        below, above = mpmath.fsum(mass[: j - low]), mpmath.fsum(mass[j - low :])
        side = min(below, above)
        if side < mpmath.ncdf(-zmax - 1):
            return None
        z = mpmath.findroot(
            lambda x: mpmath.log(mpmath.ncdf(-x)) - mpmath.log(side), float(-special.ndtri(float(side)))
        )
        return -z if below < above else z

    with mpmath.workdps(60):
        points = {j: quantile(j) for j in range(low, low + len(mass) + 1)}
        inside = {j: z for j, z in points.items() if z is not None and abs(z) <= zmax}
        lo, hi = min(inside), max(inside)
        mu = max(inside[j] - inside[j - 1] for j in range(lo + 1, hi + 1))
        return mu, max(mpmath.ncdf(inside[lo]), mpmath.ncdf(-inside[hi])), hi - lo


@pytest.mark.parametrize(
    ("n", "p", "zmax"),
    [(20, 0.5, 3.0), (60, 0.5, 5.0), (61, 0.25, 4.0), (150, 0.7, 6.0), (160, 0.5, 9.5), (420, 0.5, 9.5)],
)
@pytest.mark.often(when=lambda n: n < 420)
def test_the_binomial_price_is_that_of_theorem_a_in_60_digits(n: int, p: float, zmax: float) -> None:
    with mpmath.workdps(60):
        mu, tail, reach = exact_price(0, [mpmath.exp(exact_log_binomial(n, k, p)) for k in range(n + 1)], zmax)
    price = prices.price_lattice_law(binomial_law(n, p), zmax)
    assert mu <= price.mu <= mu * (1 + 1e-8)
    assert tail * (1 - 1e-9) <= price.tail <= tail * (1 + 2e-6)  # with its allowance for block sums
    assert price.reach == reach


@pytest.mark.parametrize(("std", "zmax"), [(1.3, 4.0), (2.5, 6.0), (3.0, 10.5), (9.0, 10.5)])
@pytest.mark.often(when=lambda std: std < 9)
def test_the_discrete_gaussian_price_is_that_of_theorem_a_in_60_digits(std: float, zmax: float) -> None:
    with mpmath.workdps(60):
        reach = math.ceil(18 * std)
        weights = [mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * mpmath.mpf(std) ** 2)) for j in range(-reach, reach + 1)]
        total = mpmath.fsum(weights)
        mu, tail, span = exact_price(-reach, [w / total for w in weights], zmax)
    price = prices.price_lattice_law(discrete_gaussian_law(std), zmax)
    assert mu <= price.mu <= mu * (1 + 1e-8)
    assert tail * (1 - 1e-9) <= price.tail <= tail * (1 + 2e-6)  # with its allowance for block sums
    assert price.reach == span


def test_the_price_is_accurate_where_rounding_weighs_most() -> None:
    n, zmax = 4 * 10**8, 8.0
    price = prices.price_lattice_law(binomial_law(n, 0.5), zmax)
    hi = n // 2 + (price.reach + 1) // 2  # symmetric law: mu_1 is the last increment
    with mpmath.workdps(40):
        mass = mpmath.exp(exact_log_binomial(n, hi, 0.5))
        term, total, k, one = 10**40, 0, hi, 10**40  # of the mass at hi, in steps of 1e-40
        while term > 10**20:
            total, term, k = total + term, term * (n - k) // (k + 1), k + 1
        outer = mass * total / one
        inner = outer + mass * hi / (n - hi + 1)

        def quantile(tail: mpmath.mpf) -> mpmath.mpf:
            start = float(-special.ndtri(float(tail)))
            return mpmath.findroot(lambda x: mpmath.log(mpmath.ncdf(-x)) - mpmath.log(tail), start)

        last = quantile(outer)
        truth = last - quantile(inner)
        assert last <= zmax
        assert quantile(outer - mass) > zmax
    assert truth <= price.mu <= truth * (1 + 1e-8)
    assert price.tail == pytest.approx(float(outer), rel=1e-9)


LAWS = {
    "Bin(60, 1/2)": binomial_law(60, 0.5),
    "Bin(80, 1/4)": binomial_law(80, 0.25),
    "discrete Gaussian 4": discrete_gaussian_law(4.0),
    "discrete Gaussian 1.5": discrete_gaussian_law(1.5),
}
SHIFTS = [(1,), (3,), (1, 1), (2, -1), (1, 2, 1), (1, -1, 1)]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("shifts", SHIFTS, ids=str)
@pytest.mark.often(when=lambda name, shifts: len(shifts) < 3 or (name == "Bin(80, 1/4)") == (shifts == SHIFTS[-1]))
def test_bound_is_above_the_exact_divergence(name: str, shifts: tuple[int, ...]) -> None:
    law = LAWS[name]
    for zmax in (3.0, 5.0, 7.0):
        unit = prices.price_lattice_law(law, zmax)
        for epsilon in (0.05, 0.3, 1.0, 2.0, 4.0):
            if claim(unit, shifts, epsilon) < 1:
                assert worst(law, shifts, epsilon) <= claim(unit, shifts, epsilon)


@pytest.mark.parametrize("shift", [1, 4, 10, 25, 40])
def test_the_bound_of_one_coordinate_holds_on_a_fine_grid_of_epsilon(shift: int) -> None:
    for n, p in [(400, 0.5), (400, 0.25), (1500, 0.5)]:
        law = binomial_law(n, p)
        units = [prices.price_lattice_law(law, zmax) for zmax in (4.0, 6.0, 8.0)]
        for epsilon in np.geomspace(0.01, 12.0, 25):
            exact = worst(law, (shift,), float(epsilon))
            assert exact <= min(claim(unit, (shift,), float(epsilon)) for unit in units) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(("delta", "slack"), [(0.1, 1.02), (1e-3, 1.07), (1e-5, 1.07)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_bound_is_within_2_to_7_percent_of_the_truth(delta: float, slack: float, epsilon: float) -> None:
    law = binomial_law(2000, 0.5)
    shift = max(1, round(gdp.mu(epsilon, delta) * law.std))
    exact = worst(law, (shift,), epsilon)
    zmax = -float(special.ndtri(1e-4 * delta / (1 + math.exp(epsilon))))
    stated = claim(prices.price_lattice_law(law, zmax), (shift,), epsilon)
    assert exact <= stated <= slack * exact + 2e-4 * delta


@pytest.mark.parametrize("shifts", [(20,), (12, 16), (3, -3, 4)], ids=str)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_too_little_noise_is_noticed(shifts: tuple[int, ...], epsilon: float) -> None:
    trials = 2000 if len(shifts) < 3 else 200
    unit = prices.price_lattice_law(binomial_law(trials, 0.5), 6.5)
    stated = claim(unit, shifts, epsilon)
    assert worst(binomial_law(trials, 0.5), shifts, epsilon) <= stated
    assert worst(binomial_law(round(0.64 * trials), 0.5), shifts, epsilon) > 1.1 * stated
    discrete = claim(prices.price_lattice_law(discrete_gaussian_law(10.0), 6.5), (10,), epsilon)
    assert worst(discrete_gaussian_law(10.0), (10,), epsilon) <= discrete
    assert worst(discrete_gaussian_law(8.0), (10,), epsilon) > 1.1 * discrete


def test_gaussian_of_the_same_variance_is_not_a_bound() -> None:
    law = binomial_law(400, 0.5)
    exact = worst(law, (21,), 10.0)
    shortcut = float(gdp.delta(10.0, 21 / law.std))
    assert exact == pytest.approx(4.87e-5, rel=2e-3)
    assert shortcut == pytest.approx(3.48e-5, rel=2e-3)
    assert exact <= claim(prices.price_lattice_law(law, 8.5), (21,), 10.0)


@pytest.mark.parametrize("zmax", [5.0, 8.0, 11.0])
@pytest.mark.often(when=lambda zmax: zmax != 8.0)
@pytest.mark.parametrize(
    "law",
    [
        binomial_law(5 * 10**8, 0.5),
        binomial_law(8 * 10**8, 0.25),
        binomial_law(2 * 10**10, 0.01),
        discrete_gaussian_law(10000.5),
        discrete_gaussian_law(43210.9),
    ],
    ids=["Bin(5e8, 1/2)", "Bin(8e8, 1/4)", "Bin(2e10, 1/100)", "10000.5", "43210.9"],
)
def test_blocks_overstate_the_price_by_less_than_a_thousandth(
    law: LatticeLaw, zmax: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = prices.price_lattice_law(law, zmax)
    monkeypatch.setattr(prices, "_DENSE", math.inf)
    dense = prices.price_lattice_law(law, zmax)
    assert dense.mu <= blocks.mu <= dense.mu * 1.001
    assert dense.tail <= blocks.tail <= dense.tail * 1.02  # cuts inside of the last one
    assert blocks.reach <= dense.reach


@pytest.mark.parametrize("n", [500, 1000, 20_000, 10**6])
@pytest.mark.parametrize("zmax", [5.0, 7.0])
def test_the_price_of_fair_coins_has_its_first_order_term(n: int, zmax: float) -> None:
    excess = prices.price_lattice_law(binomial_law(n, 0.5), zmax).mu * math.sqrt(n) / 2 - 1
    assert excess == pytest.approx((zmax**2 - 1) / (4 * n), rel=0.1, abs=2e-8)


def test_fair_coins_have_the_least_price() -> None:
    fair = prices.price_lattice_law(binomial_law(1000, 0.5), 7.0).mu * math.sqrt(250)
    skewed = prices.price_lattice_law(binomial_law(1000, 0.25), 7.0).mu * math.sqrt(187.5)
    assert fair == pytest.approx(1.012, abs=1e-3)
    assert skewed == pytest.approx(1.11, abs=0.01)


def test_discrete_gaussian_is_nearly_gaussian() -> None:
    for std in (1.5, 3.0, 30.0, 3000.0):
        unit = prices.price_lattice_law(discrete_gaussian_law(std), 6.0)
        assert 1 - 0.25 / std**2 <= unit.mu * std <= 1 + 0.3 / std**2 + 8 / std


def test_remembered_prices_are_the_prices() -> None:
    assert prices.binomial_price(900, 0.5, 5.0) == prices.price_lattice_law(binomial_law(900, 0.5), 5.0)
    assert prices.binomial_price(900, 0.25, 5.0) == prices.price_lattice_law(binomial_law(900, 0.25), 5.0)
    assert prices.discrete_gaussian_price(4.5, 5.0) == prices.price_lattice_law(discrete_gaussian_law(4.5), 5.0)


@pytest.mark.parametrize("law", [binomial_law(1, 0.5), discrete_gaussian_law(0.05)], ids=["one coin", "std 0.05"])
def test_too_small_laws_are_refused(law: LatticeLaw) -> None:
    with pytest.raises(CalibrationError, match="too small"):
        prices.price_lattice_law(law, 4.0)


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
@pytest.mark.often(when=lambda dim, shift: dim < 4 or shift in (0.4, 8.485))
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
@pytest.mark.often(when=lambda dim, tail: dim < 8 or tail in (0.5, 1e-4))
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


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_a_grid_is_fine_beside_sensitivity_and_noise(std: float, change: float, touched: int) -> None:
    grid = fine_grid(std, change, touched)
    assert 0 < grid <= std / 2**20
    assert grid * math.sqrt(touched) <= change / 2**14 * (1 + 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_a_grid_is_no_finer_than_needed(std: float, change: float, touched: int) -> None:
    grid = 2 * fine_grid(std, change, touched)
    assert grid > std / 2**20 or grid * math.sqrt(touched) > change / 2**14 * (1 - 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_grids_are_the_noise_over_a_power_of_two(std: float, change: float, touched: int) -> None:
    steps = std / fine_grid(std, change, touched)
    assert math.frexp(steps)[0] == 0.5


@pytest.mark.parametrize("touched", [1, 4, 25])
@pytest.mark.parametrize(("std", "change"), [(1.0, 1.0), (2.0**10, 1.0), (1.05 * 2**10, 1.0), (2.0**10, 0.95)])
def test_grids_are_right_next_to_powers_of_two(std: float, change: float, touched: int) -> None:
    grid = fine_grid(std, change, touched)
    assert grid * math.sqrt(touched) <= change * 2.0**-14
    assert std / grid == 2**20 or 2 * grid * math.sqrt(touched) > change * 2.0**-14
