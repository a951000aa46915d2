"""Where searches for noise look, by hand: lattices, copies and coins that `make mutants` found untested."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bandanna.numeric import search
from bandanna.privacy import accountant, calibration
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.calibration import binomial_noise, binomial_noise_for_std, bit_noise, bit_noise_for_std, bit_std
from bandanna.privacy.events import ContinualEvent, GaussianEvent, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.prices import fine_grid

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("dim", "users", "composed", "scale"),
    [
        (400, 64, False, 5 * 20 / 2),  # the rounding's share of the sensitivity, and with several releases
        (400, 64, True, 240 / 2),
        (1, 6400, False, 5 * 80 / 10),  # the rounding's own variance
    ],
)
def test_noise_of_a_given_std_lies_on_the_first_lattice(dim: int, users: int, composed: bool, scale: float) -> None:
    noise = binomial_noise_for_std(10.0, sensitivity=2.0, dim=dim, users=users, composed=composed)
    assert noise.scale == scale


def test_least_noise_lies_on_the_first_lattice() -> None:
    assert binomial_noise(sensitivity=2.0, reach=2.0, dim=400, users=64, budget=BUDGET).scale == 50


def test_copies_are_few_or_enough_for_one_coin_of_every_user() -> None:
    assert calibration._copies(10_000, 2.0) == [*range(1, 9), *range(25, 25 * 24, 25)]


def test_bits_of_returning_people_have_the_fewest_copies_that_are_near_enough() -> None:
    central, noise = 2.0 / BUDGET.mu(), bit_noise(users=500, budget=BUDGET, participations=4)
    assert bit_std(noise) <= 1.002 * central
    fewer = [copies for copies in calibration._copies(500, central) if copies < noise.scale]
    coins = (math.ceil((2 * copies * central) ** 2 / 500) for copies in fewer)
    assert all(math.sqrt(500 * b) / (2 * c) > 1.002 * central for b, c in zip(coins, fewer, strict=True))


def test_bits_of_a_given_std_have_2500_coins() -> None:
    assert bit_noise_for_std(0.7, users=2).scale == math.ceil(25 / 0.7)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is priced, by an accountant that finds everything enough; and nothing of it is remembered."""
    found: list[Any] = []
    monkeypatch.setattr(accountant, "satisfies", lambda event, _: bool(found.append(event)) or True)
    monkeypatch.setattr(calibration, "_gaussian_std", calibration._gaussian_std.__wrapped__)
    return found


@pytest.mark.parametrize("times", [1, 3])
def test_the_first_gaussian_noise_that_is_priced_is_that_of_the_formula(times: int, asked: list[Any]) -> None:
    budget = ApproxDP(epsilon=0.05, delta=1e-5)
    start = 2.0 * math.sqrt(times) / budget.mu()
    found = calibration.gaussian_std(sensitivity=2.0, dim=4, budget=budget, participations=times)
    event = GaussianEvent(std=start, sensitivity=2.0, dim=4, grid=fine_grid(start, 2.0, 4))
    assert asked[0] == RepetitionEvent(event=event, times=times)
    assert found == pytest.approx(start / 2)  # from where on it would look
    asked.clear()
    tree = factorise("tree", horizon=8)
    shape: dict[str, Any] = {"sensitivity": 2.0, "dim": 4, "participations": times, "factorisation": tree}
    calibration.continual_std(**shape, budget=budget)
    start = 2.0 * tree.sensitivity(times) / budget.mu()
    grid = fine_grid(start, times * 2.0 * tree.sensitivity(), 4 * tree.releases(times))
    assert asked[0] == ContinualEvent(**shape, std=start, grid=grid)


@pytest.mark.parametrize("times", [1, 3])
def test_the_first_laplace_noise_that_is_priced_is_that_of_the_formula(times: int, asked: list[Any]) -> None:
    shape: dict[str, Any] = {"sensitivity": 2.0, "dim": 4, "participations": times}
    calibration.laplace_scale(**shape, budget=PureDP(epsilon=0.5))
    assert asked[0].event.scale == pytest.approx(times * 2.0 / 0.5)
    asked.clear()
    calibration.laplace_scale(**shape, budget=ZCDP(rho=0.5))
    epsilon = 2.0 / asked[0].event.scale
    assert epsilon * math.tanh(epsilon / 2) == pytest.approx(0.5 / times)


@pytest.mark.parametrize("times", [1, 3])
def test_the_search_for_coins_begins_at_their_estimate(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountant, "satisfies", lambda *_: True)
    monkeypatch.setattr(search, "find_least_integer", lambda meets, guess, *, most: guess)
    mu = BUDGET.mu()
    counts = calibration._least_trials(20.0, 2.0 * math.sqrt(times) / mu, 2.0, 2.0, 900, 5, BUDGET, times)
    assert counts is not None
    assert counts.trials == pytest.approx(4 * (40.0**2 + 900 / 4) * times / (5 * mu**2), rel=0.001)
    assert (counts.scale, counts.users) == (20.0, 5)
    copies = calibration._search_bits(6, 5, BUDGET, times, math.sqrt(times) / mu)
    assert copies is not None
    assert copies.trials == math.ceil((12 / mu) ** 2 * times / 5)
