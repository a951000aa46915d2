"""Probabilities of errors: variances that are released, skewness and Laplace noise, against other ways to them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, special, stats

from bandanna.data.ope.sums import (
    ErrorSpread,
    laplace_tail,
    mean_variance,
    possible_variances,
    skewed_deviate,
    tail_probability,
)

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
@pytest.mark.often(of=lambda level: level == 0.95)
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
