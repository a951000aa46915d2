"""Factors of single prices whose loss no quick test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import (
    BinomialEvent,
    ContinualEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    RecordEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.prices import (
    composable_shift,
    compute_unrounded_share,
    concentrated_price,
    gaussian_price,
    pure_price,
)

TAIL = 1e-9


def test_gaussian_noise_costs_sensitivity_over_std() -> None:
    assert gaussian_price(GaussianEvent(std=2.0, sensitivity=3.0), TAIL).mu == 1.5


def test_laplace_noise_costs_sensitivity_and_steps_over_scale() -> None:
    assert pure_price(LaplaceEvent(scale=4.0, sensitivity=2.0, dim=3, grid=0.5)) == (2.0 + 3 * 0.5) / 4.0
    assert pure_price(DiscreteLaplaceEvent(scale=4.0, shift=6.0, dim=3)) == 1.5


def test_the_share_of_the_data_in_a_price_is_that_without_rounding() -> None:
    tree = factorise("tree", horizon=8)
    stream = ContinualEvent(factorisation=tree, std=8.0, sensitivity=2.0, participations=2, dim=3, grid=0.5)
    change, touched = 2.0 * tree.sensitivity(2), 3 * tree.releases(2)
    assert compute_unrounded_share(stream, TAIL) == pytest.approx(change / (change + 0.5 * math.sqrt(touched)))
    report = GaussianEvent(std=8.0, sensitivity=2.0, dim=9, grid=0.5)
    assert compute_unrounded_share(report, TAIL) == pytest.approx(2.0 / (2.0 + 0.5 * 3))
    for event, moved in ((stream, change + 0.5 * math.sqrt(touched)), (report, 2.0 + 0.5 * 3)):
        assert concentrated_price(event) == pytest.approx(moved**2 / (2 * 8.0**2))
    coins = BinomialEvent(trials=10_000, shift=6.0, reach=6, dim=50, rounded=True)
    assert compute_unrounded_share(coins, TAIL) == pytest.approx(6.0 / composable_shift(6.0, 50, TAIL / 2))


def test_returning_people_pay_for_every_batch_of_every_task() -> None:
    noisy = {std: GaussianEvent(std=std, sensitivity=1.0) for std in (2.0, 3.0, 5.0)}
    tasks = {"mixed": Counter({noisy[2.0]: 1, noisy[3.0]: 4}), "alike": Counter({noisy[5.0]: 7})}
    mu = math.sqrt(1 / 2.0**2 + 1 / 3.0**2 + 2 / 5.0**2)
    assert accountant.compute_spent(tasks, 2, 1e-5) == pytest.approx(gdp.epsilon(1e-5, mu), rel=1e-6)


def test_tails_are_shared_out_among_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = {std: GaussianEvent(std=std, sensitivity=1.0) for std in (2.0, 3.0, 5.0)}
    tasks = {"mixed": Counter({noisy[2.0]: 1, noisy[3.0]: 4}), "alike": Counter({noisy[5.0]: 7})}
    spent, price = list[float](), accountant.price
    monkeypatch.setattr(accountant, "price", lambda event, tail: spent.append(tail) or price(event, tail))
    accountant._delta(tasks, 2, 1.0, 1e-5)
    assert spent[0] == pytest.approx(accountant.tail_for(1e-5, 1.0) / 2, abs=0.0)


def test_records_of_returning_people_are_priced_one_by_one() -> None:
    matrix = RecordEvent(event=GaussianEvent(std=math.sqrt(2), sensitivity=math.sqrt(2)), part="matrix")
    vector = RecordEvent(event=GaussianEvent(std=2.0, sensitivity=2.0), part="vector")
    tasks = {"matrix": Counter({matrix: 3}), "vector": Counter({vector: 3})}
    epsilon = gdp.epsilon(1e-5, 2.0)  # two of each, of mu = 1
    assert accountant.compute_spent(tasks, 2, 1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert not accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=0.999 * epsilon, delta=1e-5))
    assert accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=1.001 * epsilon, delta=1e-5))


def test_tails_of_all_shuffled_batches_are_charged() -> None:
    tail, delta = 1e-13, []
    for each in (tail, 0.0):
        batch = ShuffledGaussianEvent(std=5.0, sensitivity=1.0, users=80, tail=each)
        delta.append(accountant.delta_near(RepetitionEvent(event=batch, times=2), 0.5, 1e-5))
    beyond = 2 * 80 * 5 * tail * (1 + math.exp(0.5))  # proofs.md B.1, step 5
    assert delta[0] - delta[1] == pytest.approx(beyond, rel=1e-3, abs=0.0)
