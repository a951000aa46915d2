"""Factors whose loss no other test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bandanna.device.domain import Ball
from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidBudget
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import BinomialEvent, ShuffledGaussianEvent
from bandanna.privacy.factorisation import factorise
from bandanna.protocols import batch_tree, shuffle_bits, spherical_cap
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits

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
    """The event of a shuffled batch describes other reports than the devices': length, noise, change or number."""
    event = ShuffleGaussian(domain=Ball(dim=3), noise_std=4.0, batch=50).event
    assert isinstance(event, ShuffledGaussianEvent)
    assert (event.dim, event.std, event.users) == (3, 4.0, 50)
    assert 2.0 <= event.sensitivity <= 2.0 * (1 + 1e-4)  # the diameter, and what the grid costs


@pytest.mark.parametrize(("dim", "participations"), [(400, 1), (1, 400)])
def test_tails_of_all_reports_are_charged(dim: int, participations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SEARCH, lambda **_: 100.0)  # whatever would be found
    budget = ApproxDP(epsilon=1.0, delta=1e-267)  # 400 times what the tails of two reports need, but for the factor
    ShuffleGaussian.calibrate(domain=Ball(dim=1), batch=2, budget=budget)
    with pytest.raises(InvalidBudget, match="lost in the reports' tails"):
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
    with pytest.raises(InvalidBudget, match="refusing improbable counts"):
        ShuffleBinomial.calibrate(
            domain=Ball(dim=dim), batch=16, budget=budget, participations=participations, coins="checked"
        )


def test_refusals_of_bits_are_charged_for_every_participation() -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-14)
    ShuffleBits.calibrate(batch=16, budget=budget, coins="checked")
    with pytest.raises(InvalidBudget, match="refusing improbable counts"):
        ShuffleBits.calibrate(batch=16, budget=budget, participations=300, coins="checked")


def test_what_refusals_cost_is_in_the_event() -> None:
    noise = BinomialNoise(scale=4.0, trials=400, users=16)
    assert ShuffleBinomial(domain=Ball(dim=5), noise=noise, coins="checked").event.tail == 16 * 5 * 2.0**-60
    assert ShuffleBits(noise=noise, coins="checked").event.tail == 16 * 2.0**-60


def test_how_often_the_shuffler_is_sure_of_a_bit() -> None:
    noise = BinomialNoise(scale=3.0, trials=5, users=4)
    assert shuffle_bits.bit_exposure_delta(noise) == pytest.approx(0.5)
    assert shuffle_bits.bit_exposure_delta(noise, "mixer") == 1.0


def test_what_the_shuffler_sees_has_every_coordinate() -> None:
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
