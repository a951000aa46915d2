"""Factorisations of the prefix sums, against explicit matrices, the tables of the derivation, and 50 digits."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument
from bandanna.privacy import calibration_cache
from bandanna.privacy.factorisation import BLT, BinaryTree, Factorisation, factorise

from ..drawn import examples

# std of the worst prefix at mu = 1: tree, square root, BLT with 2..5 buffers, and the lower bound for all.
TABLE = {
    20000: (14.49, 4.219, 4.518, 4.273, 4.228, 4.220, 3.854),
    16384: (14.49, 4.155, 4.429, 4.203, 4.163, 4.156, 3.791),
    32768: (15.49, 4.376, 4.745, 4.447, 4.389, 4.378, 4.011),
    65536: (16.49, 4.596, 5.081, 4.697, 4.617, 4.600, 4.232),
    131072: (17.49, 4.817, 5.440, 4.955, 4.848, 4.824, 4.453),
    262144: (18.49, 5.038, 5.823, 5.222, 5.083, 5.048, 4.673),
    524288: (19.49, 5.258, 6.233, 5.498, 5.321, 5.274, 4.894),
    1048576: (20.49, 5.479, 6.673, 5.786, 5.564, 5.502, 5.115),
}
NAMES = ("tree", "blt")


def toeplitz(coefficients: np.ndarray) -> np.ndarray:
    """The lower-triangular matrix with these coefficients down its first column."""
    size = len(coefficients)
    index = np.subtract.outer(np.arange(size), np.arange(size))
    return np.where(index >= 0, coefficients[np.maximum(index, 0)], 0.0)


def quotient(numerator: np.ndarray, denominator: np.ndarray, size: int) -> np.ndarray:
    """First coefficients of a rational generating function, by long division."""
    series = np.zeros(size)
    for k in range(size):
        top = numerator[k] if k < len(numerator) else 0.0
        series[k] = top - sum(denominator[j] * series[k - j] for j in range(1, min(k, len(denominator) - 1) + 1))
    return series


def polynomial(roots: tuple[float, ...]) -> np.ndarray:
    """prod (1 - root x), lowest power first."""
    product = np.ones(1)
    for root in roots:
        product = np.convolve(product, [1.0, -root])
    return product


def blocks(horizon: int) -> np.ndarray:
    """C of the tree, level by level: one row for each complete dyadic block."""
    rows = []
    for level in range(horizon.bit_length()):
        for block in range(horizon >> level):
            rows.append([1.0 if block << level <= t < (block + 1) << level else 0.0 for t in range(horizon)])
    return np.array(rows)


def square_root(horizon: int) -> float:
    """Noise of B = C = A^{1/2}, the yardstick: sum_{k < T} f_k^2, f_0 = 1, f_k = f_{k-1} (1 - 1/(2k))."""
    ratios = 1 - 1 / (2 * np.arange(1, horizon))
    return float(1 + np.sum(np.cumprod(ratios) ** 2))


def explicit(factorisation: Factorisation) -> tuple[np.ndarray, np.ndarray]:
    """(C, B) of a small factorisation by a route that shares nothing with the code under test."""
    horizon = factorisation.horizon
    ones = np.tril(np.ones((horizon, horizon)))
    if isinstance(factorisation, BLT):
        above, below = polynomial(factorisation.theta_hat), polynomial(factorisation.theta)
        c = toeplitz(quotient(above, below, horizon))
        return c, ones @ np.linalg.inv(c)
    c = blocks(horizon)
    b = np.zeros((horizon, len(c)))
    for t in range(1, horizon + 1):
        start = 0
        for level in reversed(range(t.bit_length())):
            if t >> level & 1:
                b[t - 1, np.flatnonzero((c == c_row(horizon, start, level)).all(1))] += 1
                start += 2**level
    return c, b


def c_row(horizon: int, start: int, level: int) -> np.ndarray:
    positions = np.arange(horizon)
    return ((positions >= start) & (positions < start + 2**level)).astype(float)


@pytest.mark.parametrize("horizon", TABLE)
@pytest.mark.often(when=lambda horizon: horizon in (min(TABLE), max(TABLE)))
def test_noise_is_that_of_the_derivation_and_above_the_lower_bound(horizon: int) -> None:
    tree, root, *expected, bound = TABLE[horizon]
    found = [BinaryTree(horizon=horizon).unit_std()]
    found += [factorise("blt", horizon=horizon, buffers=buffers).unit_std() for buffers in (2, 3, 4, 5)]
    assert found == pytest.approx([tree, *expected], rel=1e-3)
    assert square_root(horizon) == pytest.approx(root, rel=1e-3)
    assert min(found) >= bound


@pytest.mark.parametrize("horizon", [1, 2, 5, 8, 11, 13])
@pytest.mark.parametrize("name", ["tree", "blt"])
def test_no_choice_of_elements_and_signs_moves_more_than_stated(name: str, horizon: int) -> None:
    factorisation = factorise(name, horizon=horizon, buffers=3)
    c, _ = explicit(factorisation)
    for count in range(1, horizon + 1):
        chosen = np.array(list(itertools.combinations(range(horizon), count)))  # (choices, count)
        worst = float(np.linalg.norm(c[:, chosen].sum(axis=-1), axis=0).max())
        assert factorisation.sensitivity(count) == pytest.approx(worst, rel=1e-10)
    assert factorisation.sensitivity(horizon + 3) == pytest.approx(factorisation.sensitivity(horizon), rel=1e-12)
    most = np.array([factorisation.sensitivity(max(1, count)) for count in range(min(horizon, 7) + 1)])
    signs = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=min(horizon, 7))))  # (choices, elements)
    moved = np.linalg.norm(signs @ c[:, : signs.shape[1]].T, axis=1)
    assert np.all(moved <= most[np.count_nonzero(signs, axis=1)] * (1 + 1e-12))


@examples(40, full=100)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8).map(lambda values: sorted(set(values), reverse=True)),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_the_first_columns_of_any_blt_are_the_worst(mixed: list[float], horizon: int, count: int) -> None:
    pairs = len(mixed) // 2
    gaps = [upper - lower for upper, lower in itertools.pairwise(mixed)]
    if min(gaps, default=1.0) < 1e-3:
        return  # explicit matrices lose digits where poles meet
    blt = BLT(horizon=horizon, theta=tuple(mixed[0 : 2 * pairs : 2]), theta_hat=tuple(mixed[1 : 2 * pairs : 2]))
    c, _ = explicit(blt)
    assert np.all(np.diff(c[:, 0]) <= 1e-9)
    first = float(np.linalg.norm(c[:, :count].sum(axis=1)))
    assert blt.sensitivity(count) == pytest.approx(first, rel=1e-7)
    assert first <= count * blt.sensitivity() * (1 + 1e-7)
    chosen = np.random.default_rng(horizon * 61 + count).permutation(horizon)[:count]
    assert np.linalg.norm(c[:, chosen].sum(axis=1)) <= first * (1 + 1e-9)


def test_very_many_participations_are_grouped_from_above() -> None:
    blt = BLT.optimal(horizon=20_000)
    column = toeplitz_column(blt)
    total = np.cumsum(column)
    for count in (4_097, 10_000, 20_000):
        rows = total - np.concatenate([np.zeros(count), total[: 20_000 - count]])
        exact = float(np.linalg.norm(rows))
        assert exact * (1 - 1e-9) <= blt.sensitivity(count) <= exact * 1.001


def toeplitz_column(blt: BLT) -> np.ndarray:
    """c_0, c_1, ... by the recursion of a stream that is 1 once."""
    state, column = np.zeros(blt.buffers), []
    for step in range(blt.horizon):
        x = float(step == 0)
        column.append(x + float(blt.weights @ state))
        state = np.asarray(blt.theta) * state + x
    return np.array(column)


def test_published_parameters_have_the_published_sensitivity_and_error() -> None:
    blt = BLT(
        horizon=20_000,
        theta=(0.99994519, 0.99877609, 0.98187887, 0.76270931),
        theta_hat=(0.99969672, 0.99525716, 0.93207401, 0.34488252),
    )
    assert blt.sensitivity() == pytest.approx(2.0507, abs=1e-4)
    assert blt.unit_std() == pytest.approx(4.2277, abs=1e-4)
    assert BLT.optimal(horizon=20_000).unit_std() <= blt.unit_std() * (1 + 1e-6)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 7, 8, 13, 32, 50])
@pytest.mark.parametrize("name", NAMES)
def test_norms_are_those_of_the_explicit_matrices(name: str, horizon: int) -> None:
    factorisation = factorise(name, horizon=horizon, buffers=3)
    c, b = explicit(factorisation)
    assert np.allclose(b @ c, np.tril(np.ones((horizon, horizon))), atol=1e-9)
    columns, rows = np.linalg.norm(c, axis=0), np.linalg.norm(b, axis=1)
    assert factorisation.sensitivity() == pytest.approx(columns.max(), rel=1e-10)
    assert factorisation.error() == pytest.approx(rows.max(), rel=1e-10)
    assert factorisation.prefix_std(np.arange(1, horizon + 1)) == pytest.approx(rows, rel=1e-10)
    assert factorisation.unit_std() == factorisation.sensitivity() * factorisation.error()
    assert factorisation.total_releases() == len(c)
    assert factorisation.releases() == np.count_nonzero(c, axis=0).max()


@examples(40, full=100)
@given(
    st.integers(1, 60),
    st.lists(st.floats(1e-3, 0.999), min_size=0, max_size=10, unique_by=lambda value: round(value, 2)),
)
def test_geometric_sums_are_those_of_the_coefficients(horizon: int, numbers: list[float]) -> None:
    mixed = sorted(numbers[: len(numbers) // 2 * 2], reverse=True)
    blt = BLT(horizon=horizon, theta=tuple(mixed[0::2]), theta_hat=tuple(mixed[1::2]))
    c, b = explicit(blt)
    assert (np.tril(c) >= 0).all()
    assert (np.tril(b) >= -1e-6).all()
    assert blt.sensitivity() == pytest.approx(np.linalg.norm(c[:, 0]), rel=1e-8)
    assert blt.prefix_std(np.arange(1, horizon + 1)) == pytest.approx(np.linalg.norm(b, axis=1), rel=1e-5)


@pytest.mark.parametrize(("theta", "theta_hat"), [((1.0,), (0.5,)), ((0.5,), (0.0,)), ((1.0, 0.25), (0.5, 0.0))])
def test_closed_forms_hold_at_the_ends_of_the_range(theta: tuple[float, ...], theta_hat: tuple[float, ...]) -> None:
    for horizon in (1, 2, 3, 20):
        blt = BLT(horizon=horizon, theta=theta, theta_hat=theta_hat)
        c, b = explicit(blt)
        assert blt.sensitivity() == pytest.approx(np.linalg.norm(c[:, 0]), rel=1e-12)
        assert blt.prefix_std(range(1, horizon + 1)) == pytest.approx(np.linalg.norm(b, axis=1), rel=1e-12)


@pytest.mark.parametrize("horizon", [10, 20_000, 10**6, 10**9])
def test_norms_keep_their_digits_at_every_horizon(horizon: int) -> None:
    blt = BLT.optimal(horizon=horizon)
    with mpmath.workdps(50):
        theta, theta_hat = [mpmath.mpf(v) for v in blt.theta], [mpmath.mpf(v) for v in blt.theta_hat]
        ones = [mpmath.mpf(1), *theta_hat]

        def residue(pole: mpmath.mpf, poles: list[mpmath.mpf], zeros: list[mpmath.mpf]) -> mpmath.mpf:
            others = mpmath.fprod(1 - other / pole for other in poles if other is not pole)
            return mpmath.fprod(1 - zero / pole for zero in zeros) / others

        def energy(weights: list[mpmath.mpf], poles: list[mpmath.mpf], constant: mpmath.mpf) -> mpmath.mpf:
            """sum_{k<T} (sum_i w_i p_i^k + constant [k=0])^2."""
            at_zero = mpmath.fsum(weights)
            pairs = itertools.product(zip(weights, poles, strict=True), repeat=2)
            total = mpmath.fsum(
                v * w * (horizon if p * q == 1 else (1 - (p * q) ** horizon) / (1 - p * q)) for (v, p), (w, q) in pairs
            )
            return total - at_zero**2 + (at_zero + constant) ** 2

        # equal degrees in C leave a constant: C(x) = sum w_i/(1 - th_i x) + constant, with C(0) = 1
        w = [residue(pole, theta, theta_hat) for pole in theta]
        u = [residue(pole, ones, theta) for pole in ones]
        sensitivity = mpmath.sqrt(energy(w, theta, 1 - mpmath.fsum(w)))
        error = mpmath.sqrt(energy(u, ones, mpmath.mpf(0)))
        assert blt.sensitivity() == pytest.approx(float(sensitivity), rel=1e-13)
        assert blt.error() == pytest.approx(float(error), rel=1e-13)


@pytest.mark.parametrize("horizon", [*range(1, 11), 14, 20, 29, 64, 1000])
@pytest.mark.often(when=lambda horizon: horizon in (1, 2, 3, 7, 1000))
def test_the_search_works_for_small_horizons(horizon: int) -> None:
    angles = (2 * np.arange(1, horizon + 1) - 1) * math.pi / (4 * horizon + 2)
    bound = np.mean(1 / (2 * np.sin(angles)))  # trace norm / T
    found = [BLT.optimal(horizon=horizon, buffers=buffers) for buffers in (1, 2, 3, 4, 5)]
    assert [blt.buffers <= buffers for blt, buffers in zip(found, (1, 2, 3, 4, 5), strict=True)] == [True] * 5
    noise = [blt.unit_std() for blt in found]
    assert noise == sorted(noise, reverse=True)
    root = square_root(horizon)
    assert bound * (1 - 1e-12) <= root <= noise[-1] * (1 + 1e-9)
    assert noise[3] <= root * 1.0002


def test_the_search_works_for_a_horizon_of_a_billion() -> None:
    noise = [BLT.optimal(horizon=10**9, buffers=buffers).unit_std() for buffers in (2, 4, 6, 8)]
    assert noise == sorted(noise, reverse=True)
    assert (math.log(10**9) + np.euler_gamma + 4 * math.log(2)) / math.pi < noise[-1] < 7.69  # the square root's
    assert BinaryTree(horizon=10**9).unit_std() == math.sqrt(30 * 29)  # worst prefix 2^29 - 1


def test_no_prefix_of_a_tree_is_noisier_than_its_error() -> None:
    for horizon in range(1, 300):
        tree = BinaryTree(horizon=horizon)
        assert tree.error() == pytest.approx(tree.prefix_std(np.arange(1, horizon + 1)).max(), rel=1e-14)


def test_no_set_of_elements_touches_more_numbers_than_stated() -> None:
    for horizon in range(1, 9):
        tree, touched = BinaryTree(horizon=horizon), blocks(horizon) > 0
        for participations in (1, 2, 3, 8, 20):
            sets = itertools.combinations(range(horizon), min(participations, horizon))
            most = max(int(touched[:, list(chosen)].any(axis=1).sum()) for chosen in sets)
            assert most <= tree.releases(participations) <= min(participations * tree.levels, tree.total_releases())
        assert tree.releases(horizon) == tree.total_releases() == 2 * horizon - horizon.bit_count()
    assert factorise("blt", horizon=30).releases(3) == factorise("blt", horizon=30).total_releases() == 30


@pytest.mark.parametrize("name", NAMES)
def test_factorisations_are_equal_and_frozen_values(name: str) -> None:
    one, two = factorise(name, horizon=40), factorise(name, horizon=40.0)  # type: ignore[arg-type]
    assert one == two
    assert hash(one) == hash(two)
    assert one.name == name
    assert isinstance(two.horizon, int)
    assert one != factorise(name, horizon=41)
    assert one.prefix_std([[1, 2], [3, 40]]).shape == (2, 2)
    with pytest.raises(AttributeError):
        one.horizon = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: factorise("dft", horizon=3), "mechanism"),
        (lambda: BinaryTree(horizon=0), "horizon"),
        (lambda: BLT.optimal(horizon=2.5), "horizon"),  # type: ignore[arg-type]
        (lambda: BLT.optimal(horizon=8, buffers=0), "buffers"),
        (lambda: BLT(horizon=8, theta=(0.5,), theta_hat=()), "theta and theta_hat"),
        (lambda: BLT(horizon=8, theta=(0.5,), theta_hat=(0.6,)), "theta and theta_hat"),
        (lambda: BLT(horizon=8, theta=(1.1,), theta_hat=(0.6,)), "theta and theta_hat"),
        (lambda: BLT(horizon=8, theta=(0.5,), theta_hat=(-0.1,)), "theta and theta_hat"),
        (lambda: BLT(horizon=8, theta=(0.9, 0.8), theta_hat=(0.7, 0.6)), "theta and theta_hat"),
        (lambda: BLT(horizon=8, theta=(math.nan,), theta_hat=(0.1,)), "theta and theta_hat"),
        (lambda: BinaryTree(horizon=8).prefix_std(9), "steps"),
        (lambda: BinaryTree(horizon=8).prefix_std([0, 1]), "steps"),
        (lambda: BLT.optimal(horizon=8).prefix_std(1.5), "steps"),
        (lambda: BLT.optimal(horizon=8).prefix_std([math.nan]), "steps"),
        (lambda: BLT.optimal(horizon=8).prefix_std("3"), "steps"),
        (lambda: BinaryTree(horizon=8).releases(0), "participations"),
        (lambda: BLT.optimal(horizon=8).releases(0), "participations"),
    ],
)
def test_malformed_factorisations_are_refused_by_name(build: Callable[[], object], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    "stored",
    [
        {"theta": [0.5], "theta_hat": [0.7]},  # not interlaced: C would have negative coefficients
        {"theta": [0.9, 0.8, 0.7], "theta_hat": [0.85, 0.75, 0.6]},  # more buffers than asked for
        {"theta": ["x"], "theta_hat": [0.7]},
        {"theta": 3},
    ],
)
def test_parameters_from_a_damaged_cache_are_ignored(
    stored: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path))
    calibration_cache.clear_memory()
    good = BLT.optimal(horizon=77, buffers=2)
    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "result": stored}))
    calibration_cache.clear_memory()
    assert BLT.optimal(horizon=77, buffers=2) == good
    assert json.loads(file.read_text()) == document


def test_poor_parameters_from_a_cache_are_priced_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path))
    calibration_cache.clear_memory()
    good = BLT.optimal(horizon=78, buffers=1)
    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    result = {"theta": [0.999], "theta_hat": [0.2]}
    digest = calibration_cache._digest(document["identity"], result)  # forged, else the file counts as damaged
    file.write_text(json.dumps({**document, "result": result, "digest": digest}))
    calibration_cache.clear_memory()
    poor = BLT.optimal(horizon=78, buffers=1)
    assert poor.theta == (0.999,)
    assert poor.sensitivity() > 2 * good.sensitivity()
    assert poor.sensitivity() == pytest.approx(np.linalg.norm(explicit(poor)[0][:, 0]), rel=1e-10)
