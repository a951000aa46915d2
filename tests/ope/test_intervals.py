"""Intervals: skewness, ratios and what is hidden, against other ways to the same numbers; and coverage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.ope.intervals import Mean, Ratio, critical, quantile

from .coverage import CASES, CENTRAL, SHUFFLE, covered
from .worlds import bold, clinic, trial

SMALL = ("snips", "ips", "dr", "few, skewed", "ACTG 175, arm 1")


def test_critical_values_are_those_of_imbens_and_manski() -> None:
    """They are not 1.96 where nothing is hidden and 1.645 where much is, or do not solve their equation."""
    assert critical(0.95, 0.0) == pytest.approx(stats.norm.ppf(0.975))
    assert critical(0.95, 100.0) == pytest.approx(stats.norm.ppf(0.95))
    for apart in (0.1, 0.5, 1.0, 3.0):
        c = critical(0.9, apart)
        assert stats.norm.cdf(c + apart) - stats.norm.cdf(-c) == pytest.approx(0.9)


def test_quantiles_undo_the_transform() -> None:
    """T is not the root of T + g (2 T^2 + 1)/6 + g^2 T^3/27 up to higher powers of g, or not Student's."""
    for g in (0.01, 0.1, -0.1):
        for z in (-1.96, 0.5, 1.96):
            t = quantile(z, g, math.inf)
            assert t + g * (2 * t**2 + 1) / 6 + g**2 * t**3 / 27 == pytest.approx(z + g * t**2 * 0, abs=0.7 * abs(g))
            assert ((1 + g * t / 3) ** 3 - 1) / g + g / 6 == pytest.approx(z)
    assert quantile(1.96, 0.0, math.inf) == 1.96
    assert quantile(1.96, 0.0, 5.0) == pytest.approx(stats.t.ppf(stats.norm.cdf(1.96), 5))


def test_ends_of_ratios_are_roots() -> None:
    """An end of Fieller's interval is not where U - theta V is z deviations from 0."""
    law = Ratio(value=30.0, weight=200.0, spread=(60.0, 10.0, 250.0), skew=0.05, freedom=40.0)
    for end, side in zip(law.limits(1.96), (1.96, -1.96), strict=True):
        theta, (a, b, c) = end - 0.5, law.spread
        apart = (law.value - theta * law.weight) / math.sqrt(a - 2 * theta * b + theta**2 * c)
        assert apart == pytest.approx(quantile(side, 0.05, 40.0))
    assert law.limits(1.96)[0] < law.estimate < law.limits(1.96)[1]
    nothing = Ratio(value=1.0, weight=3.0, spread=(60.0, 0.0, 250.0))
    assert nothing.limits(1.96) == (0.0, 1.0)
    assert Ratio(value=1.0, weight=-3.0, spread=(1.0, 0.0, 1.0)).estimate == 0.5


def test_a_mean_without_spread_is_a_point() -> None:
    """Nothing varies, and the interval has a width."""
    assert Mean(estimate=0.3, stderr=0.0).limits(1.96) == (0.3, 0.3)
    log = trial(50, 0, (1.0, 1.0))
    assert bd.ope.snips(log, "uniform").interval() == (1.0, 1.0)


@pytest.mark.parametrize("privacy", [None, CENTRAL], ids=["none", "central"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.often(of=lambda name, privacy: (privacy is None) == (name in SMALL[1::2]))
def test_intervals_cover(name: str, privacy: bd.Privacy | None) -> None:
    """Of 400 intervals for 95 % fewer than 90 or more than 99 % hold the truth (false alarm 3e-5 at 95 %)."""
    assert 0.90 <= covered(name, privacy, 400) <= 0.99


@pytest.mark.full
@pytest.mark.parametrize("privacy", [None, CENTRAL, SHUFFLE], ids=["none", "central", "shuffle"])
@pytest.mark.parametrize("name", CASES)
def test_intervals_cover_as_they_say(name: str, privacy: bd.Privacy | None) -> None:
    """Of 5,000 intervals for 95 % fewer than 93 or more than 97.5 % hold the truth (false alarm 1e-10 at 95 %)."""
    assert 0.93 <= covered(name, privacy, 5000, first=10**6) <= 0.975


def test_noise_that_is_forgotten_is_seen() -> None:
    """Intervals without the noise's share would pass for covering ones: what checks them is blind."""
    log, misses = clinic(1000, 0), 0
    exact = bd.ope.snips(log, bold).estimate
    for seed in range(200):
        value = bd.ope.snips(log, bold, privacy=CENTRAL, seed=seed, path="law")
        sampling = math.sqrt(max(value.stderr**2 - value.noise_std**2, 0.0))
        misses += abs(value.estimate - exact) > 1.96 * 0.5 * sampling
    assert misses > 0.2 * 200


def test_clipping_is_covered_whatever_it_hides() -> None:
    """Where weights are cut at 2 and rewards of what is hidden are all 1, or all 0, intervals miss the truth."""
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
