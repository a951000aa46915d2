"""Intervals of values: bounds, order, and the spread of errors."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, special, stats

import bandanna as bd
from bandanna.data.ope.estimators import _ips_law
from bandanna.data.ope.intervals import ClippedMass, DifferenceLaw, MeanLaw, RatioLaw, critical_value, interval_ends
from bandanna.data.ope.sums import (
    ErrorSpread,
    WeightedSums,
    laplace_tail,
    mean_variance,
    possible_variances,
    skewed_deviate,
    tail_probability,
)
from bandanna.errors import WeakPrivacyWarning

from .coverage import CASES, CENTRAL, SHUFFLE, covered
from .worlds import bold, clinic, trial

GUARANTEE = bd.ope.snips(trial(20, 0), "arm:1", privacy=CENTRAL, seed=0).guarantee  # of sums that were released
SMALL = ("snips", "ips", "dr", "few, skewed", "ACTG 175, arm 1")


def test_critical_values_are_those_of_imbens_and_manski() -> None:
    assert critical_value(0.95, 0.0) == pytest.approx(stats.norm.ppf(0.975))
    assert critical_value(0.95, 100.0) == pytest.approx(stats.norm.ppf(0.95))
    for apart in (0.1, 0.5, 1.0, 3.0):
        c = critical_value(0.9, apart)
        assert stats.norm.cdf(c + apart) - stats.norm.cdf(-c) == pytest.approx(0.9)


def sums(value: float, weight: float, squares: tuple[float, float, float], **more: Any) -> WeightedSums:
    """Of one target with weights up to 4."""
    return WeightedSums(value=value, weight=weight, squares=squares, people=300, largest=4.0, hidden=(0.0, 0.0), **more)


def test_ends_of_ratios_are_where_the_error_has_its_probability() -> None:
    law = RatioLaw(sums=sums(30.0, 200.0, (60.0, 10.0, 250.0)))
    low, high = law.limits(1.96)
    assert low < law.estimate < high
    for end, side in ((low, -1), (high, 1)):
        theta = end - 0.5
        spread = law.sums.spread(np.array(theta)).towards(side, 4.0 * (0.5 - side * theta))
        assert float(tail_probability(np.array(abs(30.0 - theta * 200.0)), spread)) == pytest.approx(
            stats.norm.sf(1.96), rel=1e-6
        )
    many = RatioLaw(sums=replace(law.sums, value=3e5, weight=2e6, squares=(6e5, 1e5, 2.5e6), people=3_000_000))
    a, b, c = many.sums.squares
    for end in many.limits(1.96):  # Fieller's parabola, where neither skewness nor one more person matters
        theta = end - 0.5
        apart = abs(3e5 - theta * 2e6) / math.sqrt(a - 2 * theta * b + theta**2 * c)
        assert apart == pytest.approx(1.96, rel=1e-2)


def fieller(value: float, weight: float) -> tuple[float, float]:
    """Ends for sums whose variances are those of the noise alone, 100 each: there are no squares."""
    law = RatioLaw(
        sums=sums(value, weight, (0.0, 0.0, 0.0), noise=(100.0, 100.0, 1e-6, 1e-6, 1e-6), guarantee=GUARANTEE)
    )
    return law.limits(1.96)


def test_fiellers_sets_are_what_they_are() -> None:
    """A bounded set is an interval; of a half-line, all values, or all but an interval, rewards that are kept remain.

    With the deviation 10 of U and V, theta is kept where |U - theta V| <= 1.96 * 10 sqrt(1 + theta^2), about.
    """
    low, high = fieller(0.0, 200.0)  # bounded
    assert low == pytest.approx(0.5 - 0.0985, abs=0.003)
    assert high == pytest.approx(0.5 + 0.0985, abs=0.003)
    low, high = fieller(-10.0, 25.0)  # unbounded above within rewards
    assert 0.0 <= low < 0.5 - 10 / 25 < high <= 1.0
    assert fieller(2.0, 5.0) == (0.0, 1.0)  # all: the weight may be none
    assert fieller(10.0, -3.0) == (0.0, 1.0)  # no weight at all
    low, high = fieller(-40.0, 10.0)  # all but an interval: what is kept is beyond the least reward, and at it
    assert low == 0.0
    assert high == pytest.approx(0.0, abs=1e-9) or high <= 1.0


def test_a_negative_released_variance_leaves_the_noise() -> None:
    noise = (25.0, 25.0, 400.0, 400.0, 400.0)
    for released in (-1e6, -100.0, -20.0, -1.0, 0.0):
        law = RatioLaw(sums=sums(80.0, 200.0, (released, released, 200.0), noise=noise, guarantee=GUARANTEE))
        low, high = law.limits(1.96)
        assert law.estimate - low >= 0.98 * 1.96 * law.noise
        assert high - law.estimate >= min(0.98 * 1.96 * law.noise, 1 - law.estimate)
        mean = MeanLaw(value=0.6, spread=ErrorSpread(sampled=released, noise=4e-4, error=1e-3))
        assert mean.limits(1.96)[0] <= 0.6 - 0.98 * 1.96 * 0.02


REWARDS = {
    "binary": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.03).astype(float),
    "graded": lambda rng, n: rng.beta(2.0, 2.0, n),
    "narrow": lambda rng, n: rng.beta(31.5, 3.5, n),
    "low": lambda rng, n: rng.beta(3.5, 31.5, n),
}


def of_people(weights: Any, rewards: Any, largest: float, rng: np.random.Generator, noise: Any) -> WeightedSums:
    rho = rewards - 0.5
    exact = [weights * rho, weights, weights**2 * rho**2, weights**2 * rho, weights**2]
    told = [float(np.sum(each) + rng.normal() * math.sqrt(more)) for each, more in zip(exact, noise, strict=True)]
    return WeightedSums(value=told[0], weight=told[1], squares=(told[2], told[3], told[4]), people=len(rewards),
                largest=largest, hidden=(0.0, 0.0), noise=tuple(noise), guarantee=GUARANTEE)  # fmt: skip


@pytest.mark.parametrize("kind", REWARDS)
def test_a_variance_of_released_sums_is_not_too_small(kind: str) -> None:
    rng, thetas = np.random.default_rng(0), np.linspace(-0.5, 0.5, 21)
    for weights in (4.0 * (rng.random(500) < 0.25), rng.uniform(0.0, 4.0, 500), np.ones(500)):
        rewards = REWARDS[kind](rng, 500)
        for noise in ([1e-12] * 5, [1e-12, 1e-12, 1e-12, 1.0, 1e-12], [1e-12, 1e-12, 1e-12, 1e-9, 1e-12]):
            found = of_people(weights, rewards, 4.0, rng, [1e-12] * 5)
            sampled = np.asarray(replace(found, noise=tuple(noise)).spread(thetas).sampled)
            exact = np.sum(weights**2 * (rewards - 0.5 - thetas[:, None]) ** 2, axis=1)
            assert np.all(sampled >= exact - 1e-3)


@pytest.mark.parametrize("kind", REWARDS)
def test_estimated_skewness_brings_no_end_nearer_than_it_is(kind: str) -> None:
    rng = np.random.default_rng(1)
    for weights in (4.0 * (rng.random(2000) < 0.25), np.ones(2000)):
        rewards, largest = REWARDS[kind](rng, 2000), float(weights.max())
        found = of_people(weights, rewards, largest, rng, [1e-12] * 5)
        theta = found.ratio
        third = float(np.sum(weights**3 * (rewards - 0.5 - theta) ** 3))
        mean = _ips_law(found, 0.5).spread
        true = float(np.sum((weights * (rewards - 0.5) - np.mean(weights * (rewards - 0.5))) ** 3)) / 2000**3
        for side in (-1, 1):
            told = float(found.spread(np.array(theta)).towards(side, 0.0).third)
            assert told >= min(0.0, side * third) - 1e-3
            if kind in ("binary", "rare"):
                assert told == pytest.approx(side * third, rel=1e-3, abs=1e-2)
            assert float(mean.towards(side, 0.0).third) >= min(0.0, side * true) - 1e-12


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("std", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("bound", [1.0, 2.0])
def test_the_truth_is_rejected_as_often_as_the_level_says(kind: str, std: float, bound: float) -> None:
    rng, people, runs = np.random.default_rng(2), 2000, 2000
    true = {"binary": 0.3, "rare": 0.03, "graded": 0.5, "narrow": 0.9, "low": 0.1}[kind] - 0.5
    noise = [std**2 * bound**2] * 2 + [std**2 * bound**4] * 3
    rejected = 0
    for _ in range(runs):
        weights = bound * (rng.random(people) < 1 / bound)
        found = of_people(weights, REWARDS[kind](rng, people), bound, rng, noise)
        side = 1 if true > found.ratio else -1
        spread = found.spread(np.array(true)).towards(side, bound * (0.5 - side * true))
        rejected += float(tail_probability(np.array(abs(found.value - true * found.weight)), spread)) < 0.025
    assert rejected <= stats.binom.isf(1e-5, runs, 0.05)


SUMS = st.builds(
    lambda value, weight, squares, noise, laplace: sums(
        value, weight, squares, noise=noise, laplace=laplace, guarantee=GUARANTEE
    ),
    st.floats(-300, 300),
    st.floats(-300, 1200),
    st.tuples(st.floats(-500, 1200), st.floats(-500, 500), st.floats(-500, 4800)),
    st.tuples(*[st.floats(0, 1e4)] * 5),
    st.booleans(),
)


@given(one=SUMS, other=SUMS, level=st.floats(0.01, 0.999), apart=st.booleans(), share=st.floats(-0.5, 0.9))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_interval_holds_its_estimate(
    one: WeightedSums, other: WeightedSums, level: float, apart: bool, share: float
) -> None:
    mean = MeanLaw(value=one.value / 300, spread=ErrorSpread(
        sampled=other.value, noise=one.noise[0], error=one.noise[2]),
                surprise=(0.1, 0.2), inside=(0.0, 1.0))  # fmt: skip
    ratio, second = RatioLaw(sums=one), RatioLaw(sums=other)
    hidden = ClippedMass(share=share, stderr=0.1, below=0.4, above=0.6)
    laws = (mean, ratio, second, DifferenceLaw(first=ratio, second=second, apart=apart, shared=0.1))
    for law in laws:
        for parts in ((), (hidden,), (hidden, hidden.turned())):
            low, high = interval_ends(law, parts, level)
            assert low <= law.estimate <= high
            assert math.isfinite(low + high)


@given(
    rewards=st.lists(st.sampled_from([0.0, 0.1, 0.9, 1.0]), min_size=1, max_size=12), seed=st.integers(0, 2**31),
    epsilon=st.sampled_from([0.01, 0.3, 1.0, 3.0, 10.0, 100.0]), trust=st.sampled_from(["none", "central", "local"]),
)  # fmt: skip
@settings(max_examples=20, deadline=None, derandomize=True)
def test_values_of_any_log_are_in_order_and_json(rewards: list[float], seed: int, epsilon: float, trust: str) -> None:
    log = bd.Log(contexts=np.zeros((len(rewards), 0)), arms=np.arange(len(rewards)) % 2, rewards=np.array(rewards),
                 propensities=np.full(len(rewards), 0.5), names=(0, 1), floor=0.5)  # fmt: skip
    private: dict[str, Any] = {}
    if trust != "none":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakPrivacyWarning)
            private = {"privacy": getattr(bd, trust)(epsilon=epsilon, delta=1e-5), "seed": seed, "path": "law"}
    compared = bd.ope.compare(log, ["arm:0", "arm:1"], **private)
    values = [*compared.values.values(), bd.ope.ips(log, "uniform", **private), bd.ope.snips(log, "arm:1", **private),
              *(make(log, "arm:0", q=[0.2, 0.7], **private) for make in (bd.ope.dr, bd.ope.dm)),
              bd.ope.switch(log, "arm:0", q=[0.2, 0.7], weight_bound=1.0, **private)]  # fmt: skip
    for value in values:
        low, high = value.interval()
        assert low <= value.estimate <= high
        json.dumps(value.diagnostics(), allow_nan=False)
        assert "nan" not in str(value)
        assert " inf" not in str(value)
    estimate, low, high = compared.difference("arm:0", "arm:1")
    assert low <= estimate <= high
    json.dumps(compared.to_dict(), allow_nan=False)


def test_a_mean_without_spread_is_a_point() -> None:
    assert MeanLaw(value=0.3, spread=ErrorSpread(sampled=0.0)).limits(1.96) == (0.3, 0.3)
    low, high = MeanLaw(value=0.3, spread=ErrorSpread(sampled=0.0), surprise=(0.01, 0.02)).limits(1.96)
    assert 0.3 - low < high - 0.3


@pytest.mark.parametrize("privacy", [None, CENTRAL], ids=["none", "central"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.often(when=lambda name, privacy: (privacy is None) == (name in SMALL[1::2]))
def test_intervals_cover(name: str, privacy: bd.protocols.Privacy | None) -> None:
    """Of 400 intervals for 95 % fewer than 90 or more than 99 % hold the truth (false alarm 3e-5 at 95 %)."""
    assert 0.90 <= covered(name, privacy, 400) <= 0.99


@pytest.mark.full
@pytest.mark.parametrize("privacy", [None, CENTRAL, SHUFFLE], ids=["none", "central", "shuffle"])
@pytest.mark.parametrize("name", CASES)
def test_intervals_cover_as_they_say(name: str, privacy: bd.protocols.Privacy | None) -> None:
    """Of 5,000 intervals for 95 % fewer than 93 or more than 97.5 % hold the truth (false alarm 1e-10 at 95 %).

    More may hold it where the noise of the released variance is larger than that variance, and where weights may be
    cut, since the interval covers whatever that hides.
    """
    most = 1.0 if privacy is not None and name in ("narrow", "visits", "snips, cut") else 0.975
    assert 0.93 <= covered(name, privacy, 5000, first=10**6) <= most


def test_noise_that_is_forgotten_is_seen() -> None:
    log, misses = clinic(1000, 0), 0
    exact = bd.ope.snips(log, bold).estimate
    for seed in range(200):
        value = bd.ope.snips(log, bold, privacy=CENTRAL, seed=seed, path="law")
        sampling = math.sqrt(max(value.stderr**2 - value.noise_std**2, 0.0))
        misses += abs(value.estimate - exact) > 1.96 * 0.5 * sampling
    assert misses > 0.2 * 200


def test_clipping_is_covered_whatever_it_hides() -> None:
    for high in (0.0, 1.0):
        hits = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            arms = (rng.random(2000) < 0.1).astype(int)  # the arm of the target is given to a tenth
            rewards = np.where(arms == 1, high, rng.random(2000) < 0.5)
            log = bd.Log(contexts=np.zeros((2000, 0)), arms=arms, rewards=rewards,
                         propensities=np.where(arms == 1, 0.1, 0.9), names=(0, 1))  # fmt: skip
            for privacy in (None, CENTRAL):
                private: dict[str, Any] = {} if privacy is None else {"privacy": privacy, "seed": seed, "path": "law"}
                value = bd.ope.ips(log, [0.5, 0.5], weight_bound=2.0, **private)
                low, top = value.interval()
                hits += low <= (0.5 * 0.5 + 0.5 * high) <= top
                assert value.clipped_mass == pytest.approx(0.3, abs=0.1)
        assert hits >= 0.9 * 200


Floats = NDArray[np.float64]
SAMPLED = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 30.0])  # beside noise of variance 1
ERRORS = np.array([0.02, 0.1, 0.3, 1.0, 5.0])
SHARES = (np.arange(100) + 0.5) / 100


@cache
def missed(level: float, laplace: bool) -> Floats:
    """How often an error is farther than what a released variance allows; for all SAMPLED and ERRORS, computed."""
    law = stats.laplace(scale=np.sqrt(0.5)) if laplace else stats.norm
    true, error = (each[..., None] for each in np.meshgrid(SAMPLED, ERRORS))
    released = true + error * law.ppf(SHARES)
    spread = ErrorSpread(
        sampled=released, noise=np.ones_like(released), error=np.broadcast_to(error, released.shape), laplace=laplace
    )
    low, high = np.zeros_like(released), 60 * np.sqrt(1 + true + 6 * error) * np.ones_like(released)
    for _ in range(25):
        middle = (low + high) / 2
        kept = tail_probability(middle, spread) >= (1 - level) / 2
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    far = low / np.sqrt(1 + true)
    share = np.broadcast_to(1 / (1 + true), far.shape)
    return np.asarray(np.mean(2 * (laplace_tail(far, share) if laplace else special.ndtr(-far)), axis=-1))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("laplace", [False, True], ids=["normal", "laplace"])
@pytest.mark.often(when=lambda level: level == 0.95)
def test_a_released_variance_keeps_the_level(level: float, laplace: bool) -> None:
    assert np.all(missed(level, laplace) <= (1 - level) * 1.005)


def test_a_precise_variance_gives_the_level_itself() -> None:
    assert missed(0.95, False)[0, 2:] == pytest.approx(0.05, rel=0.005)


def test_a_released_variance_is_students() -> None:
    for error in (0.05, 0.1):
        freedom = 2 / error**2
        far = stats.t.ppf(0.975, freedom)
        spread = ErrorSpread(sampled=1.0, error=error)
        assert float(tail_probability(np.array(far), spread)) == pytest.approx(0.025, rel=2 * error**2)
        assert abs(float(tail_probability(np.array(1.96), spread)) - 0.025) > 2 * abs(
            float(tail_probability(np.array(far), spread)) - 0.025
        )


@pytest.mark.parametrize("released", [-1e9, -30.0, -1.0, 0.0, 1.0, 1e9])
def test_no_variance_is_below_that_of_the_noise(released: float) -> None:
    for error in (0.0, 0.5, 100.0):
        spread = ErrorSpread(sampled=released, noise=2.0, error=error)
        assert np.all(possible_variances(spread)[0] >= 2.0)
        assert mean_variance(spread) >= 2.0
        assert float(tail_probability(np.array(np.sqrt(2.0)), spread)) >= 0.99 * stats.norm.sf(1.0)


def test_skewness_is_corrected_to_first_order() -> None:
    d = np.linspace(0.0, 3.0, 13)
    for g in (1e-4, -1e-4):
        assert skewed_deviate(d, np.full_like(d, g)) == pytest.approx(d - g * (2 * d**2 + 1) / 6, abs=1e-6)
    for g in (-2.0, -0.3, 0.0, 0.3, 1.0, 5.0):
        assert np.all(np.diff(skewed_deviate(np.linspace(0.0, 8.0, 50), np.full(50, g))) > 0)


def test_one_more_person_makes_every_end_farther() -> None:
    d = np.linspace(1.0, 5.0, 26)
    for third in (-0.3, 0.0, 0.3):
        for side in (-1, 1):
            spread = ErrorSpread(sampled=np.ones_like(d), third=np.full_like(d, third))
            near, far = (tail_probability(d, spread.towards(side, surprise)) for surprise in (0.0, 0.4))
            assert np.all(far >= near - 1e-12)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999])
def test_the_tail_of_laplace_and_normal_noise_is_their_convolution(share: float) -> None:
    for y in (-1.0, 0.0, 0.7, 2.0, 5.0):
        law = stats.laplace(scale=np.sqrt(share / 2))
        wanted = integrate.quad(
            lambda x, y=y, law=law: stats.norm.pdf(x) * law.sf(y - x * np.sqrt(1 - share)), -9, 9, limit=400,
            points=[y / np.sqrt(1 - share)] if abs(y) < 9 * np.sqrt(1 - share) else None,
        )[0]  # fmt: skip
        assert float(laplace_tail(np.array(y), np.array(share))) == pytest.approx(wanted, rel=1e-6)
