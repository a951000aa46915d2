"""Factors of what devices draw whose loss no other test of devices noticed: each was found by `make mutants`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bandanna.device.base import Device
from bandanna.device.domain import Ball, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import LARGEST_PARAMETER, FastNoise, SecureNoise, divide_rounding_up
from bandanna.device.randomizers import BinomialCounts, NoisyVector, RepeatedBits, RoundedCounts
from bandanna.device.statistics import PublicStatistic, WeightedStatistic
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import NoRandomness


class Tails(FastNoise):
    """Coins that all fall on tails, and a note of how many were asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.asked: list[int] = []

    def binomial(self, *, trials: int, probability: float, size: Any) -> Any:
        """No heads."""
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
def test_features_that_are_no_numbers_are_told_to_nobody(value: float) -> None:
    report, broken = LinearReport(features=2), np.array([[value, 0.0]])
    weighted = WeightedStatistic(seen=report, weights=(1.0, 1.0), bits=False)
    for tell, domain in ((PublicStatistic(seen=report, scale=0.5), report), (weighted, Ball(dim=2, bound=0.5))):
        with pytest.raises(InvalidStatistic, match="features"):
            tell.statistic(domain, broken, np.array([1.0]), None, NoRandomness())


def test_weighted_rewards_are_told_with_their_features() -> None:
    weighted = WeightedStatistic(seen=LinearReport(features=2), weights=(0.5, 2.0), bits=False)
    told = weighted.statistic(Ball(dim=2, bound=0.5), np.array([[0.6, 0.4]]), np.array([1.0]), None, NoRandomness())
    np.testing.assert_allclose(told.values, [[0.15, 0.4]])


def test_secure_noise_beyond_what_integers_hold_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="scale"):
        SecureNoise().discrete_laplace(scale=1.05 * LARGEST_PARAMETER, size=1)
