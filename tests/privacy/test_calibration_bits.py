"""Sums of bits: the exact profile of binomial noise, and the least noise that meets a budget by it."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import accountant, prices
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.privacy.calibration import BinomialNoise, bit_event, bit_noise, bit_noise_for_std, bit_std
from bandanna.privacy.events import BinomialEvent
from bandanna.privacy.gdp import Price
from bandanna.privacy.prices import binomial_delta

BUDGETS = [ApproxDP(epsilon=e, delta=d) for e in (0.2, 1.0, 5.0) for d in (0.1, 1e-5)]


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("probability", [0.5, 0.25])
def test_profile_is_the_enumerated_one(shift: int, probability: float) -> None:
    trials, epsilon = 60, 0.7
    with mpmath.workdps(40):
        p = mpmath.mpf(probability)
        mass = [mpmath.binomial(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(trials + 1)]
        zero = [mpmath.mpf(0)] * shift
        pair = (zero + mass, mass + zero)
        factor = mpmath.e ** mpmath.mpf(epsilon)
        both = [sum(max(a - factor * b, mpmath.mpf(0)) for a, b in zip(*q, strict=True)) for q in (pair, pair[::-1])]
    found = binomial_delta(trials, probability, shift, epsilon)
    assert 1.0 <= found / float(max(both)) < 1 + 1e-8


def test_profile_of_many_coins_is_the_summed_one() -> None:
    trials, shift, epsilon = 2_000_000, 250, 0.8
    law = stats.binom(trials, 0.5)
    thresholds = np.arange(trials // 2, trials // 2 + 8000)
    tails = law.sf(thresholds - shift - 1) - math.exp(epsilon) * law.sf(thresholds - 1)
    assert binomial_delta(trials, 0.5, shift, epsilon) == pytest.approx(float(np.max(tails)), rel=1e-7)


def test_the_exact_profile_lies_below_theorem_a_and_is_used() -> None:
    for trials in (60, 400, 20_000):
        event = BinomialEvent(trials=trials, shift=2, reach=2, rounded=False)
        unit = prices.binomial_price(trials, 0.5, 6.0)
        for epsilon in (0.3, 1.0, 2.0):
            bound = Price(mu=unit.mu * 2, tail=unit.tail).delta(epsilon)
            exact = accountant.delta_near(event, epsilon, 1e-5)
            assert exact == binomial_delta(trials, 0.5, 2, epsilon) <= bound


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("users", [2, 7, 61, 3000])
def test_bits_have_the_least_noise_for_their_budget(budget: ApproxDP, users: int) -> None:
    noise = bit_noise(users=users, budget=budget)
    exact = binomial_delta(users * noise.trials, 0.5, int(noise.scale), budget.epsilon)
    assert exact <= budget.delta
    assert bit_std(noise) < 1.01 / budget.mu()
    weaker = replace(noise, trials=max(1, round(0.64 * noise.trials)))
    if weaker.trials < noise.trials:
        assert binomial_delta(users * weaker.trials, 0.5, int(weaker.scale), budget.epsilon) > budget.delta


def test_returning_users_pay_for_every_batch() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    noise = bit_noise(users=50, budget=budget, participations=4)
    assert 2 / budget.mu() <= bit_std(noise) < 2.06 / budget.mu()


@pytest.mark.parametrize("std", [0.7, 3.7, 12.0, 400.0])
@pytest.mark.parametrize("users", [2, 9, 1000, 10**6])
def test_bits_for_a_given_std_have_that_std(std: float, users: int) -> None:
    noise = bit_noise_for_std(std, users=users)
    assert std * (1 - 1e-9) <= bit_std(noise) <= 1.001 * std
    assert bit_event(noise).trials == users * noise.trials
    assert bit_event(noise, users=1).trials == noise.trials


def test_budgets_without_delta_and_batches_of_one_are_refused() -> None:
    with pytest.raises(InvalidBudget):
        bit_noise(users=5, budget=ZCDP(rho=0.1))
    with pytest.raises(InvalidArgument):
        bit_noise(users=1, budget=BUDGETS[0])


def test_event_has_the_coins_of_the_noise() -> None:
    unfair = BinomialNoise(scale=2.0, trials=7, users=3, probability=0.25)
    assert bit_event(unfair).probability == 0.25
    assert bit_event(unfair, users=1).trials == 7
