"""Factors of what protocols state and draw, whose loss no quick test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import bandanna as bd
from bandanna.device.domain import Ball, Bits, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.device.samplers import PART
from bandanna.device.statistics import PublicStatistic
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.rng import NoRandomness
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.privacy.calibration import BinomialNoise, binomial_noise_for_std, bit_noise_for_std
from bandanna.privacy.events import BinomialEvent, Event, GaussianEvent, ShuffledGaussianEvent
from bandanna.privacy.factorisation import factorise
from bandanna.protocols import comparison
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.gaussian import ShuffleGaussian
from bandanna.protocols.gaussian import shuffle_gaussian_event as shuffled_event
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits, LocalSigns
from bandanna.protocols.running_sum import RunningSumProtocol, running_sum_protocol_for
from bandanna.protocols.shuffle_binomial import ShuffleBinomial, encode_sums
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


class Told(FastNoise):
    """Remembers which noise it was asked for."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.stds: set[float] = set()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """Remembered."""
        self.stds.add(std)
        return super().gaussian(value, std=std, grid=grid)


@pytest.mark.parametrize("kind", ["tree", "blt"])
def test_streams_are_simulated_with_the_noise_that_they_state(kind: str) -> None:
    factors, source = factorise(kind, horizon=8), Told()
    stream = CentralContinual(domain=Ball(dim=2), factorisation=factors, noise_std=3.0)
    stream.prefixes(np.zeros((8, 2)), source, path="law")
    assert source.stds == {3.0}
    stds = 3.0 * factors.prefix_std(np.arange(1, 9))
    np.testing.assert_allclose(stream.prefix_std(), stds)
    channel = RunningSumProtocol(protocols={5: stream}, sizes=RunLengthSizes.of([5] * 8))
    np.testing.assert_allclose(channel.prefix_std(), stds)


def test_returning_people_may_be_in_batches_of_any_size() -> None:
    privacy = bd.protocols.Privacy(model="shuffle", budget=BUDGET, participations=2)
    channel = running_sum_protocol_for(privacy, domain=Ball(dim=2), sizes=[16, 17, 64])
    batches: Counter[Event] = Counter(channel.protocols[size].event for size in (16, 17, 64))
    assert channel.guarantee.epsilon >= accountant.compute_spent({"": batches}, 2, BUDGET.delta)


def test_answers_state_the_variance_of_randomized_response() -> None:
    """A sum of answered bits or signs states less noise than its lies have: q (1 - q) / (2q - 1)^2 for each bit."""
    q = 1 / (1 + math.exp(-1.0))
    bit = q * (1 - q) / (2 * q - 1) ** 2
    assert LocalBits(epsilon=1.0).analyzer.estimate(np.array([3]), 7).variance == pytest.approx(7 * bit)
    signs = LocalSigns(domain=Ball(dim=3, bound=0.5), epsilon=1.0)
    assert signs.std(7) == pytest.approx(0.5 * math.sqrt(7 * (1 / (2 * q - 1) ** 2 - 1)))


def test_signs_of_returning_people_state_all_their_answers() -> None:
    signs = LocalSigns.calibrate(domain=Ball(dim=3, bound=0.5), budget=PureDP(epsilon=1.0), participations=4)
    assert (signs.participations, signs.guarantee.epsilon) == (4, pytest.approx(1.0))
    assert signs.epsilon == pytest.approx(0.25)


def test_directions_have_the_wanted_noise() -> None:
    made = LocalUnit.of_std(domain=Ball(dim=3, bound=2.0), std=9.0, participations=2)
    assert made.participations == 2
    assert made.std(1) == pytest.approx(9.0, rel=1e-3)


@pytest.mark.parametrize("participations", [1, 5])
def test_directions_spend_the_whole_budget(participations: int) -> None:
    """Directions are calibrated for less than the budget, and have more noise than they need."""
    made = LocalUnit.calibrate(domain=Ball(dim=3), budget=PureDP(epsilon=1.0), participations=participations)
    assert made.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_pure_central_noise_is_for_so_many_users() -> None:
    domain = Ball(dim=1)
    opened = protocol_for(bd.central(epsilon=1.0, delta=0.0), domain, 2**50)
    assert opened == CentralLaplace.calibrate(domain=domain, users=2**50, budget=bd.privacy.PureDP(epsilon=1.0))
    assert opened != CentralLaplace.calibrate(domain=domain, users=2**51, budget=bd.privacy.PureDP(epsilon=1.0))


def concurrent(**changed: Any) -> ConcurrentShuffle:
    """Two levels of three coordinates whose coins fill a little more than two parts."""
    noises = tuple(BinomialNoise(scale=4.0, trials=2 * PART + 1, users=users) for users in (4, 8))
    return ConcurrentShuffle(domain=Ball(dim=3), tree=BatchTree(horizon=16, degrees=(4, 2)), noises=noises, **changed)


def test_draws_count_every_coordinate_and_all_coins() -> None:
    for made in (Clear(domain=Ball(dim=3)), LocalSigns(domain=Ball(dim=3), epsilon=1.0)):
        assert made.draws(20).numbers == 60
    unit = LocalUnit(domain=Ball(dim=3), cosine=0.5, chance=0.9, candidates=16)
    assert unit.draws(20).numbers == 60
    assert unit.draws(20).words == 3 * 20 * 16 * 2
    assert concurrent().draws(8).words == 3 * 8 * 2 * 3
    assert concurrent(coins="mixer").draws(8).words == 3 * (9 + 17)
    bits = BinomialNoise(scale=3.0, trials=2 * PART + 1, users=4)
    assert ShuffleBits(noise=bits).draws(4).words == 4 * 3
    assert ShuffleBits(noise=bits, coins="mixer").draws(4).words == 9
    assert [each.shape for each in concurrent().analyzer.begin()] == [(3,), (3,)]


def test_shuffled_sums_are_stated_for_every_participation() -> None:
    shared: Any = {"domain": Ball(dim=2), "budget": BUDGET, "batch": 20, "participations": 3}
    for made in (ShuffleBinomial.calibrate(**shared), ShuffleGaussian.calibrate(**shared)):
        assert made.participations == 3
        assert made.guarantee.epsilon == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("coins", ["device", "mixer"])
def test_counts_are_on_the_lattice_of_the_noise(coins: str) -> None:
    domain, noise = Box(dim=2), BinomialNoise(scale=20.0, trials=400, users=3)
    protocol = ShuffleBinomial(domain=domain, noise=noise, coins=coins)
    assert protocol.device.scale == 20.0
    (total,) = encode_sums(np.ones((3, 2)), [noise], domain, FastNoise(np.random.default_rng(0)))
    assert total.tolist() == [60, 60]
    if coins == "device":
        view = protocol.local_event
        assert isinstance(view, BinomialEvent)
        assert view.shift == pytest.approx(20.0 * domain.sensitivity)


def test_public_features_are_told_in_their_scale() -> None:
    report = LinearReport(features=2)
    told = PublicStatistic(seen=report, scale=0.5)
    statistic = told.statistic(report, np.array([[1.0, 0.0]]), np.array([1.0]), None, NoRandomness())
    np.testing.assert_array_equal(statistic.values, report.pack(np.array([[0.5, 0.0]]), np.array([0.5])))


def test_every_coordinate_of_a_shuffled_report_may_spend_the_same_tail() -> None:
    one, many = (
        shuffled_event(GaussianEvent(std=4.0, sensitivity=1.0, dim=dim, grid=2.0**-18), 50) for dim in (1, 10**5)
    )
    assert isinstance(one, ShuffledGaussianEvent)
    assert isinstance(many, ShuffledGaussianEvent)
    assert many.tail == pytest.approx(10**5 * one.tail, rel=1e-9, abs=0.0)


def test_a_quick_opening_begins_near_the_central_noise() -> None:
    vectors = protocol_for(bd.protocols.Privacy(model="shuffle", budget=BUDGET), Ball(dim=400), 64, quick=True)
    std = 1.011 * 2.0 / BUDGET.mu()
    assert isinstance(vectors, ShuffleBinomial)
    assert vectors.noise == binomial_noise_for_std(std, sensitivity=2.0, dim=400, users=64, composed=False)
    bits = protocol_for(bd.protocols.Privacy(model="shuffle", budget=BUDGET), Bits(), 1000, quick=True)
    assert isinstance(bits, ShuffleBits)
    assert bits.noise == bit_noise_for_std(1.001 / BUDGET.mu(), users=1000)


def test_a_wanted_std_is_compared_on_the_lattice_of_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "PROTOCOL_NAMES", ("central_gaussian", "shuffle_binomial"))
    domain = Ball(dim=400)
    _, row = comparison.compare_protocols_at_std(domain=domain, std=8.0, delta=1e-5, batch=64, mechanism="tree")
    noise = binomial_noise_for_std(8.0, sensitivity=2.0, dim=400, users=64, composed=False)
    made = ShuffleBinomial(domain=domain, noise=noise, delta=1e-5)
    assert (row.std, row.guarantee) == (made.std(64), made.guarantee)


def test_rows_of_a_comparison_are_for_every_participation(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: Any = {"domain": Ball(dim=3), "budget": BUDGET, "participations": 2}
    monkeypatch.setattr(comparison, "PROTOCOL_NAMES", ("central_gaussian", "central_continual", "local_unit"))
    _, stream, unit = comparison.compare_protocols(batch=16, mechanism="tree", **shared)
    assert stream.std == CentralContinual.calibrate(horizon=16, mechanism="tree", **shared).std()
    made = LocalUnit.calibrate(**shared)
    assert (unit.std, unit.guarantee) == (made.std(16), made.guarantee)
