"""Noise sources: their laws, their exactness, and what they refuse.

Laws are checked by the Dvoretzky-Kiefer-Wolfowitz-Massart inequality, which holds for every n and every law:
P(sup |F_n - F| > sqrt(ln(2 / a) / (2 n))) <= a. The fast source is seeded and uses a = 1e-6; the secure source cannot
be seeded, so each of its checks raises a false alarm with probability at most a = 1e-9, and the draws are enough to
miss a scale 20 % too small with probability below 1e-9 as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bandanna.device import noise
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise, gaussian_grid_distance, laplace_grid_distance
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic

DRAWS = {"fast": 200_000, "secure": 20_000}
ALARM = {"fast": 1e-6, "secure": 1e-9}


def make(kind: str) -> NoiseSource:
    """A seeded fast source, or a secure one."""
    return FastNoise(np.random.default_rng(2024)) if kind == "fast" else SecureNoise()


def fits(draws: NDArray[Any], cdf: Callable[[NDArray[Any]], NDArray[Any]], alarm: float) -> bool:
    """Whether the draws are within the DKW band of the law; jumps are approached from both sides."""
    at, counts = np.unique(draws, return_counts=True)
    upper = np.cumsum(counts) / draws.size
    lower = upper - counts / draws.size
    before = cdf(at - 1) if at.dtype.kind == "i" else cdf(at)
    gap = max(np.abs(cdf(at) - upper).max(), np.abs(before - lower).max())
    return bool(gap <= math.sqrt(math.log(2 / alarm) / (2 * draws.size)))


def table(mass: Callable[[NDArray[Any]], NDArray[Any]], reach: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The distribution function of an integer law from its unnormalised mass on -reach..reach."""
    weights = mass(np.arange(-reach, reach + 1).astype(float))
    cumulative = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return lambda k: cumulative[np.clip(k + reach + 1, 0, 2 * reach + 1)]


def discrete_gaussian(std: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return table(lambda k: np.exp(-0.5 * (k / std) ** 2), math.ceil(12 * std) + 1)


def discrete_laplace(scale: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return table(lambda k: np.exp(-np.abs(k) / scale), math.ceil(40 * scale) + 1)


@pytest.mark.parametrize("std", [0.6, 1.0, 3.3, 250.0])
@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.often(when=lambda kind, std: std in {"fast": (0.6, 250.0), "secure": (1.0, 250.0)}[kind])
def test_discrete_gaussian_has_its_law(kind: str, std: float) -> None:
    draws = make(kind).discrete_gaussian(std=std, size=DRAWS[kind])
    assert draws.dtype == np.int64
    assert fits(draws, discrete_gaussian(std), ALARM[kind])
    assert not fits(make(kind).discrete_gaussian(std=0.8 * std, size=DRAWS[kind]), discrete_gaussian(std), ALARM[kind])


@pytest.mark.parametrize("scale", [0.5, 2.0, 100.0])
@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.often(when=lambda kind, scale: scale in {"fast": (0.5, 100.0), "secure": (2.0, 100.0)}[kind])
def test_discrete_laplace_has_its_law(kind: str, scale: float) -> None:
    n, alarm = 3 * DRAWS[kind] // 2, ALARM[kind]  # the laws of scales 1 and 0.8 are closer than those of Gaussians
    draws = make(kind).discrete_laplace(scale=scale, size=n)
    assert draws.dtype == np.int64
    assert fits(draws, discrete_laplace(scale), alarm)
    assert not fits(make(kind).discrete_laplace(scale=0.8 * scale, size=n), discrete_laplace(scale), alarm)


@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_wide_noise_has_no_lattice(kind: str, law: str) -> None:
    source, size = make(kind), 20_000
    gaussian = law == "gaussian"
    wide = (
        source.discrete_gaussian(std=2.0**40, size=size)
        if gaussian
        else source.discrete_laplace(scale=2.0**40, size=size)
    )
    assert fits(wide % 64, lambda k: np.clip((k + 1) / 64, 0, 1), ALARM[kind])
    mean = math.sqrt(2 / math.pi) if gaussian else 1.0
    assert abs(np.abs(wide).mean() / 2.0**40 - mean) < 0.05  # 7 standard errors: false alarm below 1e-11


@pytest.mark.parametrize(
    ("trials", "probability"),
    [
        *((1, 0.5), (7, 0.5), (8, 0.25), (100, 0.5), (1000, 0.625), (33, 255 / 256)),
        *((300, 0.1), (571_683, 0.5), (10**6, 0.25), (10**8, 0.5)),
    ],
)
@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.often(when=lambda kind, trials: kind == "secure" or trials < 10**8)
def test_binomial_has_its_law(kind: str, trials: int, probability: float) -> None:
    draws = make(kind).binomial(trials=trials, probability=probability, size=DRAWS[kind])
    assert draws.dtype == np.int64
    assert fits(draws, lambda k: stats.binom.cdf(k, trials, probability), ALARM[kind])
    if trials >= 100:  # 0.64 of the trials: a standard deviation 20 % too small, centred anew
        fewer = round(0.64 * trials)
        less = make(kind).binomial(trials=fewer, probability=probability, size=DRAWS[kind])
        centred = less + round((trials - fewer) * probability)
        assert not fits(centred, lambda k: stats.binom.cdf(k, trials, probability), ALARM[kind])


def test_fast_binomial_reaches_paper_sized_batches() -> None:
    """With 1e13 trials it is the normal law to 1e-6 (Berry-Esseen)."""
    draws = make("fast").binomial(trials=10**13, probability=0.5, size=200_000)
    standard = (draws - 5e12) / math.sqrt(10**13 / 4)
    assert fits(standard, stats.norm.cdf, 1e-6)


def test_secure_binomial_of_very_many_trials() -> None:
    """Within 7 standard deviations of the mean: false alarm < 3e-12."""
    draw = SecureNoise().binomial(trials=2**40, probability=0.5, size=())
    assert draw.shape == ()
    assert abs(int(draw) - 2**39) < 7 * 2**19


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_uniforms_are_53_bits(kind: str) -> None:
    draws = make(kind).uniform((100, DRAWS[kind] // 100))
    steps = draws * 2.0**53
    assert draws.dtype == np.float64
    assert ((draws >= 0) & (draws < 1)).all()
    assert (steps == np.floor(steps)).all()
    assert fits(draws.ravel(), lambda x: x, ALARM[kind])
    assert fits(steps.astype(np.int64).ravel() % 16, lambda k: np.clip((k + 1) / 16, 0, 1), ALARM[kind])


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_permutations_are_uniform(kind: str) -> None:
    rows = make(kind).permutation(4, (10, DRAWS[kind] // 10)).reshape(-1, 4)
    assert rows.dtype == np.int64
    rank = {order: number for number, order in enumerate(itertools.permutations(range(4)))}
    ranks = np.array([rank[tuple(row)] for row in rows.tolist()])  # a KeyError would be no permutation
    assert fits(ranks, lambda k: np.clip((k + 1) / 24, 0, 1), ALARM[kind])
    assert sorted(make(kind).permutation(5).tolist()) == [0, 1, 2, 3, 4]


def test_secure_permutation_draws_equal_keys_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [np.array([[3, 1, 2], [5, 5, 1]], dtype=np.uint64), np.array([[9, 8, 7]], dtype=np.uint64)]
    monkeypatch.setattr(noise, "_draw_words", lambda wanted: keys.pop(0))
    assert SecureNoise().permutation(3, 2).tolist() == [[1, 2, 0], [2, 1, 0]]
    assert not keys


@pytest.mark.parametrize("grid", [2.0**-6, 0.01])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_secure_releases_are_multiples_of_the_grid(law: str, grid: float) -> None:
    value = np.full((2, 5_000), 1.2345)
    source, centre = SecureNoise(), round(1.2345 / grid)
    if law == "gaussian":
        out, cdf = source.gaussian(value, std=0.5, grid=grid), discrete_gaussian(0.5 / grid)
    else:
        out, cdf = source.laplace(value, scale=0.5, grid=grid), discrete_laplace(0.5 / grid)
    steps = np.rint(out / grid)
    assert out.shape == value.shape
    assert (steps * grid == out).all()
    assert fits((steps - centre).astype(np.int64).ravel(), cdf, 1e-9)


def test_fast_real_noise_has_its_law() -> None:
    source, value = make("fast"), np.full(200_000, 3.0)
    assert fits(source.gaussian(value, std=2.0, grid=0.1) - 3, lambda x: stats.norm.cdf(x, scale=2.0), 1e-6)
    assert fits(source.laplace(value, scale=2.0, grid=0.0) - 3, lambda x: stats.laplace.cdf(x, scale=2.0), 1e-6)
    assert not fits(source.gaussian(value, std=1.6, grid=0.1) - 3, lambda x: stats.norm.cdf(x, scale=2.0), 1e-6)
    assert not fits(source.laplace(value, scale=1.6, grid=0.0) - 3, lambda x: stats.laplace.cdf(x, scale=2.0), 1e-6)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("ratio", [1.0, 1.7, 5.0, 40.0, 1000.0])
def test_fast_is_as_close_to_secure_as_stated(law: str, ratio: float) -> None:
    k = np.arange(-math.ceil(13 * ratio), math.ceil(13 * ratio) + 1)
    jumps = (discrete_gaussian if law == "gaussian" else discrete_laplace)(ratio)
    smooth = (stats.norm if law == "gaussian" else stats.laplace)(scale=ratio).cdf
    worst = 0.0
    for offset in (-0.5, -0.2, 0.0, 0.3, 0.5):  # value - rounded value, in steps
        at_jump, before_next = smooth(k - offset), smooth(k + 1 - offset)
        worst = max(worst, np.abs(jumps(k) - at_jump).max(), np.abs(jumps(k) - before_next).max())
    bound = (
        gaussian_grid_distance(std=ratio, grid=1.0)
        if law == "gaussian"
        else laplace_grid_distance(scale=ratio, grid=1.0)
    )
    assert worst <= bound + 1e-12
    assert worst >= 0.75 * bound  # the statement is not empty: at a ratio of 1 it is loosest


def test_distance_is_refused_where_it_is_not_proven() -> None:
    with pytest.raises(InvalidArgument, match="at most std"):
        gaussian_grid_distance(std=1.0, grid=1.1)
    with pytest.raises(InvalidArgument, match="grid"):
        laplace_grid_distance(scale=1.0, grid=0.0)
    assert laplace_grid_distance(scale=1.0, grid=50.0) == 1.0


@given(st.floats(-1e9, 1e9), st.sampled_from([2.0**-10, 0.25, 0.1, 1e-3, 3.0, 0.7]))
def test_rounding_to_the_grid_is_exact(value: float, grid: float) -> None:
    steps = int(noise.round_to_grid(np.array([value]), grid)[0])
    assert abs(Fraction(value) - steps * Fraction(grid)) <= Fraction(grid) / 2


def test_rounding_is_exact_where_division_is_not() -> None:
    grid = 0.1
    value = next(
        v
        for k in itertools.count(1)
        for v in [(k + 0.5) * grid]
        if np.rint(v / grid) != round(Fraction(v) / Fraction(grid))
    )
    assert noise.round_to_grid([value], grid)[0] == round(Fraction(value) / Fraction(grid))


@given(st.floats(1e-6, 1e6), st.floats(1e-9, 1e-3))
def test_dividing_by_the_grid_never_loses_noise(std: float, grid: float) -> None:
    assert Fraction(noise.divide_rounding_up("std", std, grid)) * Fraction(grid) >= Fraction(std)


def test_a_seeded_fast_source_repeats_and_a_secure_one_does_not() -> None:
    for draw in (lambda s: s.uniform(4), lambda s: s.discrete_gaussian(std=2.0**40, size=5)):
        assert (draw(make("fast")) == draw(make("fast"))).all()
        assert (draw(make("secure")) != draw(make("secure"))).any()
    assert not FastNoise.secure
    assert SecureNoise.secure


@pytest.mark.parametrize("given_", [0, None, 1234, "seed", np.random.RandomState(0)])
def test_fast_noise_needs_a_generator(given_: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"numpy\.random\.default_rng"):
        FastNoise(given_)


def test_secure_noise_cannot_be_seeded() -> None:
    for attempt in (lambda: SecureNoise(seed=1), lambda: SecureNoise(1), lambda: SecureNoise(np.random.default_rng(1))):
        with pytest.raises(InsecureSource, match="cannot be seeded"):
            attempt()


def test_secure_noise_refuses_a_missing_grid() -> None:
    with pytest.raises(InsecureSource, match="grid"):
        SecureNoise().gaussian([1.0], std=1.0, grid=0.0)
    with pytest.raises(InsecureSource, match="grid"):
        SecureNoise().laplace([1.0], scale=1.0, grid=0.0)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_bad_arguments_are_named(kind: str) -> None:
    source = make(kind)
    half: Any = 2.5
    refused: list[tuple[str, Callable[[], object]]] = [
        ("std", lambda: source.gaussian([0.0], std=0.0, grid=0.1)),
        ("grid", lambda: source.gaussian([0.0], std=1.0, grid=-0.1)),
        ("scale", lambda: source.laplace([0.0], scale=math.nan, grid=0.1)),
        ("std", lambda: source.discrete_gaussian(std=-1.0, size=1)),
        ("std", lambda: source.discrete_gaussian(std=2.0**53, size=1)),
        ("scale", lambda: source.discrete_laplace(scale=2.0**53, size=1)),
        ("trials", lambda: source.binomial(trials=half, probability=0.5, size=1)),
        ("probability", lambda: source.binomial(trials=2, probability=1.0, size=1)),
        ("size", lambda: source.uniform(-1)),
        ("n", lambda: source.permutation(0)),
        ("value", lambda: source.gaussian([math.nan], std=1.0, grid=0.1)),
        ("value", lambda: source.laplace(["a"], scale=1.0, grid=0.1)),
    ]
    for argument, request in refused:
        with pytest.raises(InvalidArgument, match=" must be ") as caught:
            request()
        assert caught.value.argument == argument


def test_secure_limits_are_named() -> None:
    with pytest.raises(InvalidStatistic, match="2\\^62"):
        SecureNoise().gaussian([2.0**62], std=1.0, grid=1.0)
    with pytest.raises(InvalidArgument, match="std / grid"):
        SecureNoise().gaussian([0.0], std=1.0, grid=2.0**-53)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_empty_requests_are_empty(kind: str) -> None:
    source = make(kind)
    assert source.discrete_gaussian(std=1.0, size=(0, 3)).shape == (0, 3)
    assert source.binomial(trials=4, probability=0.5, size=0).shape == (0,)
    assert source.gaussian(np.empty((0, 2)), std=1.0, grid=0.1).shape == (0, 2)
    assert source.permutation(3, 0).shape == (0, 3)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_vanishing_noise_is_zero(kind: str) -> None:
    source = make(kind)
    assert not source.discrete_gaussian(std=1e-300, size=20).any()
    assert not source.discrete_laplace(scale=1e-300, size=20).any()
