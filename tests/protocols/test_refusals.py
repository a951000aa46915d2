"""What must be refused, or answered, although it once was not: one test for each fault found in review."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bandanna.device.domain import Ball, Box, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.clear import Clear
from bandanna.protocols.comparison import PROTOCOL_NAMES, compare_protocols, compare_protocols_at_std
from bandanna.protocols.gaussian import CentralGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

REPORT, BALL = LinearReport(features=5), Ball(dim=3)
BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


def fast() -> FastNoise:
    """A seeded source."""
    return FastNoise(np.random.default_rng(0))


@pytest.mark.parametrize(("std", "batch"), [(1.0, 200), (1.0, 2000), (0.001, 20)])
@pytest.mark.often(of=lambda batch: batch != 200)
def test_little_noise_has_an_answer(std: float, batch: int) -> None:
    rows = compare_protocols_at_std(domain=REPORT, std=std, delta=1e-5, batch=batch)
    assert len(json.loads(json.dumps([row.to_dict() for row in rows], allow_nan=False))) == len(PROTOCOL_NAMES)


def test_statistics_of_another_domain() -> None:
    """What was admitted to another domain is not taken for a statistic of this one."""
    with pytest.raises(InvalidStatistic):
        CentralGaussian(domain=BALL, noise_std=1.0).release(Ball(dim=3, bound=100).admit(np.full((4, 3), 50.0)), fast())


def test_statistics_of_another_dimension() -> None:
    """An admitted statistic of another dimension is not broadcast."""
    protocol = ShuffleBinomial(domain=BALL, noise=BinomialNoise(scale=3.0, trials=30, users=4))
    with pytest.raises(InvalidStatistic):
        protocol.release(Ball(dim=1).admit(np.full((4, 1), 0.5)), fast())


@pytest.mark.parametrize("changed", [{"trials": 0}, {"scale": -3.0}, {"users": 1}, {"probability": 2.0}])
def test_binomial_noise_without_an_event(changed: dict) -> None:
    """No noise without a price: a malformed noise cannot be put into a protocol."""
    with pytest.raises(InvalidArgument):
        ShuffleBinomial(domain=BALL, noise=BinomialNoise(**{"scale": 3.0, "trials": 30, "users": 4, **changed}))


def test_full_privacy_against_the_shuffler_is_stated() -> None:
    stated = ShuffleBinomial.calibrate(
        domain=REPORT, budget=ApproxDP(epsilon=1.0, delta=0.1), batch=20, calibration="paper"
    ).guarantee
    assert stated.shuffler is not None


@pytest.mark.parametrize("values", [[["a", "b", "c"]] * 4, [[1, 2, 3], [1, 2]]])
def test_statistics_that_are_no_numbers(values: list) -> None:
    with pytest.raises(InvalidStatistic):
        Clear(domain=BALL).release(values, fast())


def test_budgets_that_are_none() -> None:
    """A number is not a budget."""
    with pytest.raises(InvalidBudget):
        CentralGaussian.calibrate(domain=BALL, budget=1.0)


def test_papers_participations() -> None:
    """participations = 0 is refused by name for the printed vector sum too."""
    with pytest.raises(BandannaError):
        ShuffleBinomial.calibrate(domain=BALL, budget=BUDGET, batch=4, participations=0, calibration="paper")


def test_horizon_zero() -> None:  # test_comparison.py (add {"horizon": 0} to test_bad_settings_are_refused)
    """A horizon of zero is refused, not replaced."""
    with pytest.raises(InvalidArgument):
        compare_protocols(domain=REPORT, budget=BUDGET, batch=20, horizon=0)


def test_std_of_another_batch() -> None:
    """The std of a batch smaller than the calibrated one is refused, as for the binomial."""
    with pytest.raises(InvalidArgument):
        ShuffleGaussian(domain=BALL, noise_std=1.0, batch=4).std(3)


def test_groups_of_unequal_batches() -> None:
    """Replicates with other numbers of users than the first are refused."""
    grouped = Statistic(
        domain=BALL, values=np.zeros((2, 2, 3)), clipped=np.zeros(2, dtype=np.int64), counts=np.array([[2, 2], [9, 9]])
    )
    with pytest.raises(BandannaError):
        ShuffleBinomial(domain=BALL, noise=BinomialNoise(scale=3.0, trials=30, users=4)).release(
            grouped, fast(), path="law"
        )


def test_bits_of_large_counts() -> None:
    """A largest count of 2^50 takes 51 bits."""
    noise = BinomialNoise(scale=1.0, trials=2**50 - 1, users=2)
    assert ShuffleBinomial(domain=Box(dim=1), noise=noise).bits_per_user == 51
