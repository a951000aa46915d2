"""Factors of what protocols state, calibrate and draw, computed by hand: killers of mutants."""

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
from bandanna.errors import InvalidBudget
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.rng import NoRandomness
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.privacy.calibration import BinomialNoise, binomial_noise_for_std, bit_noise_for_std
from bandanna.privacy.events import BinomialEvent, Event, GaussianEvent, ShuffledGaussianEvent
from bandanna.privacy.factorisation import factorise
from bandanna.protocols import batch_tree, comparison, shuffle_bits, spherical_cap
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.gaussian import shuffle_gaussian_event as shuffled_event
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits, LocalSigns
from bandanna.protocols.running_sum import RunningSumProtocol, running_sum_protocol_for
from bandanna.protocols.shuffle_binomial import ShuffleBinomial, encode_sums
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

SEARCH = "bandanna.protocols.gaussian.calibrated_shuffled_std"
BUDGET = ApproxDP(epsilon=0.5, delta=1e-5)


@pytest.mark.parametrize("octave", [step / 16 for step in range(16)])
@pytest.mark.parametrize("participations", [1, 3])
def test_a_stream_is_priced_on_the_grid_that_it_is_noised_on(octave: float, participations: int) -> None:
    protocol = CentralContinual(
        domain=Ball(dim=3),
        factorisation=factorise("tree", horizon=8),
        noise_std=2000 * 2**octave,
        participations=participations,
    )
    assert protocol.event == protocol.mechanism.event


def test_printed_streams_pay_for_every_participation() -> None:
    once, thrice = (
        CentralContinual.calibrate(
            domain=Ball(dim=2), budget=BUDGET, horizon=16, participations=times, calibration="paper"
        )
        for times in (1, 3)
    )
    assert thrice.noise_std == pytest.approx(3 * once.noise_std, rel=1e-12)


def test_printed_shuffled_reports_pay_for_every_participation() -> None:
    once, often = (
        ShuffleGaussian.calibrate(
            domain=LinearReport(features=2),
            batch=100,
            budget=ApproxDP(epsilon=0.1, delta=1e-5),
            participations=times,
            calibration="paper",
        )
        for times in (1, 4)
    )
    assert often.noise_std >= 2 * once.noise_std


def test_shuffled_reports_have_the_noise_that_was_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def searched(**case: Any) -> float:
        asked.append(case)
        return 8192.0

    monkeypatch.setattr(SEARCH, searched)
    domain = Ball(dim=3, bound=1.7)
    made = ShuffleGaussian.calibrate(domain=domain, budget=BUDGET, batch=20, participations=3)
    assert asked == [{"sensitivity": 3.4, "dim": 3, "users": 20, "budget": BUDGET, "participations": 3}]
    assert made.noise_std == 8193.0  # 2^-13 more, for the grid
    assert (made.batch, made.participations, made.delta) == (20, 3, BUDGET.delta)


def test_a_batch_of_reports_states_its_dimension() -> None:
    event = ShuffleGaussian(domain=Ball(dim=3), noise_std=4.0, batch=50).event
    assert isinstance(event, ShuffledGaussianEvent)
    assert (event.dim, event.std, event.users) == (3, 4.0, 50)
    assert 2.0 <= event.sensitivity <= 2.0 * (1 + 1e-4)  # the diameter, and what the grid costs


@pytest.mark.parametrize(("dim", "participations"), [(400, 1), (1, 400)])
def test_tails_of_all_reports_are_charged(dim: int, participations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SEARCH, lambda **_: 100.0)  # whatever would be found
    budget = ApproxDP(epsilon=1.0, delta=1e-267)  # 400 times what the tails of two reports need, but for the factor
    ShuffleGaussian.calibrate(domain=Ball(dim=1), batch=2, budget=budget)
    with pytest.raises(InvalidBudget, match="tails"):
        ShuffleGaussian.calibrate(domain=Ball(dim=dim), batch=2, budget=budget, participations=participations)


def test_several_answers_are_promised_at_a_delta() -> None:
    several = LocalBits.calibrate(budget=ApproxDP(epsilon=1.0, delta=1e-5), participations=2)
    assert several.delta == 1e-5
    assert several.guarantee.epsilon == pytest.approx(1.0, rel=0.01)
    assert LocalBits.calibrate(budget=PureDP(epsilon=1.0), participations=2).delta == 0.0


@pytest.mark.parametrize("kind", [CentralGaussian, LocalGaussian])
def test_printed_gaussian_noise_is_that_of_its_sensitivity(kind: type[CentralGaussian | LocalGaussian]) -> None:
    domain = Ball(dim=3, bound=1.7)
    once, often = (
        kind.calibrate(domain=domain, budget=BUDGET, participations=times, calibration="paper") for times in (1, 4)
    )
    assert once.noise_std == pytest.approx(3.4 * math.sqrt(2 * math.log(1.25 / BUDGET.delta)) / BUDGET.epsilon)
    assert often.noise_std >= 2 * once.noise_std


def test_printed_reports_pay_for_every_participation() -> None:
    once, often = (
        LocalGaussian.calibrate(
            domain=LinearReport(features=2), budget=BUDGET, participations=times, calibration="paper"
        )
        for times in (1, 4)
    )
    assert often.noise_std >= 2 * once.noise_std


@pytest.mark.parametrize("kind", [CentralGaussian, LocalGaussian])
def test_every_coordinates_rounding_is_in_the_calibration(kind: type[CentralGaussian | LocalGaussian]) -> None:
    for dim in (1, 4000):
        protocol = kind.calibrate(domain=Ball(dim=dim), budget=BUDGET)
        assert accountant.satisfies(protocol.event, BUDGET)


def test_printed_vector_sums_have_the_printed_coins() -> None:
    report = LinearReport(features=7)
    for domain, features in ((report, 7), (Ball(dim=9, bound=2.0), 9)):
        for times in (1, 3):
            protocol = ShuffleBinomial.calibrate(
                domain=domain, batch=16, budget=BUDGET, participations=times, calibration="paper"
            )
            g = max(2 * math.sqrt(16), features, 4)
            if times == 1:  # [000, Thm C.1]
                log = math.log(4 * (features**2 + 1) / BUDGET.delta)
                coins = 24e4 * g**2 * log**2 / (BUDGET.epsilon**2 * 16)
            else:  # [000, Thm E.5], T = M B
                log = math.log(8 * times * (features**2 + 1) / BUDGET.delta)
                coins = 1e7 * math.log(2 / BUDGET.delta) * g**2 * times * log**2 / (BUDGET.epsilon**2 * 16)
            assert protocol.noise.trials == math.ceil(coins)
            assert protocol.noise.scale == pytest.approx(g / (domain.reach / 2))


@pytest.mark.parametrize(("dim", "participations"), [(300, 1), (1, 300)])
def test_refusals_of_all_counts_are_charged(dim: int, participations: int) -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-14)  # a hundred times what one count of 16 people needs
    ShuffleBinomial.calibrate(domain=Ball(dim=1), batch=16, budget=budget, coins="checked")
    with pytest.raises(InvalidBudget, match="improbable counts"):
        ShuffleBinomial.calibrate(
            domain=Ball(dim=dim), batch=16, budget=budget, participations=participations, coins="checked"
        )


def test_refusals_of_bits_are_charged_for_every_participation() -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-14)
    ShuffleBits.calibrate(batch=16, budget=budget, coins="checked")
    with pytest.raises(InvalidBudget, match="improbable counts"):
        ShuffleBits.calibrate(batch=16, budget=budget, participations=300, coins="checked")


def test_the_event_contains_the_price_of_refusals() -> None:
    noise = BinomialNoise(scale=4.0, trials=400, users=16)
    assert ShuffleBinomial(domain=Ball(dim=5), noise=noise, coins="checked").event.tail == 16 * 5 * 2.0**-60
    assert ShuffleBits(noise=noise, coins="checked").event.tail == 16 * 2.0**-60


def test_the_shuffler_is_sure_of_a_bit_with_the_stated_probability() -> None:
    noise = BinomialNoise(scale=3.0, trials=5, users=4)
    assert shuffle_bits.bit_exposure_delta(noise) == pytest.approx(0.5)
    assert shuffle_bits.bit_exposure_delta(noise, "mixer") == 1.0


def test_the_shufflers_view_has_every_coordinate() -> None:
    noise = BinomialNoise(scale=4.0, trials=400, users=16)
    view = ShuffleBinomial(domain=Ball(dim=5), noise=noise).local_event
    assert isinstance(view, BinomialEvent)
    assert (view.dim, view.trials) == (5, 400)


def test_shufflers_of_all_levels_see_the_coins_of_one_user() -> None:
    noises = [BinomialNoise(scale=4.0, trials=trials, users=8) for trials in (400, 900)]
    view = batch_tree.local_levels_event(Ball(dim=5), noises)
    assert [each.trials for each in view.events] == [400, 900]
    whole = batch_tree.all_levels_event(Ball(dim=5), noises)
    assert [each.trials for each in whole.events] == [8 * 400, 8 * 900]


def test_a_direction_of_a_given_std_has_it() -> None:
    domain = Ball(dim=3, bound=2.0)
    found = spherical_cap.cap_for_std(domain, 9.0)
    assert 2.0 * math.sqrt(found.variance) == pytest.approx(9.0, rel=1e-3)


STATED_BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


class Told(FastNoise):
    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.stds: set[float] = set()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
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
    privacy = bd.protocols.Privacy(model="shuffle", budget=STATED_BUDGET, participations=2)
    channel = running_sum_protocol_for(privacy, domain=Ball(dim=2), sizes=[16, 17, 64])
    batches: Counter[Event] = Counter(channel.protocols[size].event for size in (16, 17, 64))
    assert channel.guarantee.epsilon >= accountant.compute_spent({"": batches}, 2, STATED_BUDGET.delta)


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
    shared: Any = {"domain": Ball(dim=2), "budget": STATED_BUDGET, "batch": 20, "participations": 3}
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


def test_public_features_are_reported_in_their_scale() -> None:
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
    vectors = protocol_for(bd.protocols.Privacy(model="shuffle", budget=STATED_BUDGET), Ball(dim=400), 64, quick=True)
    std = 1.011 * 2.0 / STATED_BUDGET.mu()
    assert isinstance(vectors, ShuffleBinomial)
    assert vectors.noise == binomial_noise_for_std(std, sensitivity=2.0, dim=400, users=64, composed=False)
    bits = protocol_for(bd.protocols.Privacy(model="shuffle", budget=STATED_BUDGET), Bits(), 1000, quick=True)
    assert isinstance(bits, ShuffleBits)
    assert bits.noise == bit_noise_for_std(1.001 / STATED_BUDGET.mu(), users=1000)


def test_a_wanted_std_is_compared_on_the_lattice_of_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "PROTOCOL_NAMES", ("central_gaussian", "shuffle_binomial"))
    domain = Ball(dim=400)
    _, row = comparison.compare_protocols_at_std(domain=domain, std=8.0, delta=1e-5, batch=64, mechanism="tree")
    noise = binomial_noise_for_std(8.0, sensitivity=2.0, dim=400, users=64, composed=False)
    made = ShuffleBinomial(domain=domain, noise=noise, delta=1e-5)
    assert (row.std, row.guarantee) == (made.std(64), made.guarantee)


def test_rows_of_a_comparison_are_for_every_participation(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: Any = {"domain": Ball(dim=3), "budget": STATED_BUDGET, "participations": 2}
    monkeypatch.setattr(comparison, "PROTOCOL_NAMES", ("central_gaussian", "central_continual", "local_unit"))
    _, stream, unit = comparison.compare_protocols(batch=16, mechanism="tree", **shared)
    assert stream.std == CentralContinual.calibrate(horizon=16, mechanism="tree", **shared).std()
    made = LocalUnit.calibrate(**shared)
    assert (unit.std, unit.guarantee) == (made.std(16), made.guarantee)
