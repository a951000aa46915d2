"""Least binomial noise of vectors and bits: the derivation, parameters of every size, and exact laws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import accountant, gdp, prices
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.calibration import (
    BinomialNoise,
    binomial_noise,
    binomial_noise_for_std,
    bit_event,
    bit_noise,
    bit_noise_for_std,
    bit_std,
)
from bandanna.privacy.events import BinomialEvent, RepetitionEvent
from bandanna.privacy.gdp import Price
from bandanna.privacy.prices import binomial_delta

# proofs.md A.5, column "tight total": std of the batch sum for d = 5, 10, 15
TABLE = """
 0.2  0.1    20    4.912   4.903   4.902
 0.2  0.1    200   4.922   4.924   4.910
 0.2  0.1    2000  4.909   4.909   4.933
 0.2  1e-05  20   34.873  34.781  34.772
 0.2  1e-05  200  34.879  34.783  34.773
 0.2  1e-05  2000 34.973  34.803  34.782
 1    0.1    20    2.335   2.321   2.317
 1    0.1    200   2.326   2.326   2.326
 1    0.1    2000  2.316   2.316   2.327
 1    1e-05  20    7.993   7.962   7.958
 1    1e-05  200   8.029   7.977   7.962
 1    1e-05  2000  7.976   7.976   8.013
 10   0.1    20    0.606   0.606   0.606
 10   0.1    200   0.603   0.603   0.603
 10   0.1    2000  0.602   0.602   0.602
 10   1e-05  20    1.076   1.080   1.077
 10   1e-05  200   1.071   1.071   1.071
 10   1e-05  2000  1.070   1.070   1.070
"""
ROWS = [tuple(float(cell) for cell in line.split()) for line in TABLE.strip().splitlines()]


def calibrated(domain: LinearReport, batch: int, budget: ApproxDP, participations: int = 1) -> BinomialNoise:
    return binomial_noise(
        sensitivity=domain.sensitivity,
        reach=domain.reach,
        dim=domain.dim,
        users=batch,
        budget=budget,
        participations=participations,
    )


def central(domain: LinearReport, budget: ApproxDP, participations: int = 1) -> float:
    """Std of the central Gaussian for the same promise."""
    return domain.sensitivity * math.sqrt(participations) / gdp.mu(budget.epsilon, budget.delta)


def keeps(noise: BinomialNoise, domain: LinearReport, budget: ApproxDP, participations: int = 1) -> bool:
    """Whether M batches with this noise keep the budget."""
    event = noise.event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)
    return accountant.satisfies(RepetitionEvent(event=event, times=participations), budget)


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=() if n % 4 == 0 else pytest.mark.full) for n, row in enumerate(ROWS)],
    ids=lambda row: "-".join(f"{cell:g}" for cell in row[:3]),
)
def test_noise_has_the_std_of_the_derivation_and_a_fifth_less_breaks_the_budget(row: tuple[float, ...]) -> None:
    epsilon, delta, batch, *totals = row
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    for features, total in zip((5, 10, 15), totals, strict=True):
        domain = LinearReport(features=features)
        noise = calibrated(domain, int(batch), budget)
        assert noise.std() == pytest.approx(total, rel=0.02)
        assert noise.std() >= central(domain, budget)
        assert keeps(noise, domain, budget)
        less = BinomialNoise(scale=noise.scale, trials=round(0.64 * noise.trials), users=int(batch))
        assert not keeps(less, domain, budget)


def sweep() -> list[tuple[int, int, float, float, int]]:
    """Parameters over the whole promised range: corners, then points drawn with a fixed seed."""
    rng = np.random.default_rng(2024)
    cases = [(50, 10**6, 20.0, 1e-12, 1), (50, 2, 0.01, 1e-12, 1), (1, 2, 20.0, 1e-2, 7), (1, 10**6, 0.01, 1e-2, 1)]
    while len(cases) < 25:
        cases.append(
            (
                int(rng.integers(1, 51)),
                round(10 ** rng.uniform(math.log10(2), 6)),
                float(10 ** rng.uniform(-2, math.log10(20))),
                float(10 ** rng.uniform(-12, -2)),
                int(rng.choice([1, 1, 1, 2, 5, 30])),
            )
        )
    return cases


SWEEP = sweep()


@pytest.mark.parametrize(("features", "batch", "epsilon", "delta", "participations"), SWEEP)
@pytest.mark.often(when=lambda epsilon, delta: (epsilon, delta) in [case[2:4] for case in SWEEP[:6]])
def test_noise_is_within_3_percent_of_central_over_the_whole_range(
    features: int, batch: int, epsilon: float, delta: float, participations: int
) -> None:
    domain, budget = LinearReport(features=features), ApproxDP(epsilon=epsilon, delta=delta)
    noise = calibrated(domain, batch, budget, participations)
    least = central(domain, budget, participations)
    assert least <= noise.std() <= 1.03 * least
    assert math.sqrt(batch * noise.trials) / (2 * noise.scale) >= least  # the coins alone, without the rounding
    assert keeps(noise, domain, budget, participations)
    fewer = BinomialNoise(scale=noise.scale, trials=math.ceil(0.64 * noise.trials), users=batch)
    assert not keeps(fewer, domain, budget, participations)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.1), (0.5, 1e-3), (4.0, 1e-4)])
def test_one_rounded_coordinate_keeps_its_budget_exactly(epsilon: float, delta: float) -> None:
    batch, reach = 8, 1.0
    noise = binomial_noise(
        sensitivity=reach, reach=reach, dim=1, users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta)
    )

    def divergence(trials: int, first: float, second: float) -> float:
        coins = stats.binom.pmf(np.arange(batch * trials + 1), batch * trials, 0.5)
        laws = []
        for value in (first, second):
            place, law = math.floor(value), np.zeros(len(coins) + math.ceil(noise.scale) + 2)
            law[place : place + len(coins)] += (1 - (value - place)) * coins
            law[place + 1 : place + 1 + len(coins)] += (value - place) * coins
            laws.append(law)
        p, q = laws
        bound = math.exp(epsilon)
        return max(float(np.maximum(p - bound * q, 0).sum()), float(np.maximum(q - bound * p, 0).sum()))

    ends = [(0.0, noise.scale), (0.5, noise.scale - 0.5), (0.25, noise.scale), (0.5, noise.scale)]
    assert max(divergence(noise.trials, *pair) for pair in ends) <= delta
    assert max(divergence(round(0.64 * noise.trials), *pair) for pair in ends) > delta
    assert max(divergence(noise.trials, *pair) for pair in ends) >= 0.8 * delta  # and it is tight


def test_events_are_those_of_the_batch_and_of_one_user() -> None:
    noise = BinomialNoise(scale=10.0, trials=60, users=40, probability=0.25)
    assert noise.std() == pytest.approx(math.sqrt(40 * 60 * 0.25 * 0.75 + 40 * 0.25) / 10)
    batch = noise.event(sensitivity=2.0, reach=1.95, dim=3)
    assert batch == BinomialEvent(trials=2400, shift=20.0, reach=20, dim=3, probability=0.25)
    assert batch.rounded
    local = noise.local_event(sensitivity=2.0, reach=1.95, dim=3)
    assert local == BinomialEvent(trials=60, shift=20.0, reach=20, dim=3, probability=0.25)


def test_more_participations_need_more_noise() -> None:
    domain, budget = LinearReport(features=3), ApproxDP(epsilon=1.0, delta=1e-6)
    one = calibrated(domain, 100, budget).std()
    for participations in (2, 10):
        many = calibrated(domain, 100, budget, participations).std()
        assert 0.98 <= many / (one * math.sqrt(participations)) <= 1.02


@pytest.mark.parametrize("std", [1e-6, 0.5, 3.0, 40.0, 5000.0])
@pytest.mark.parametrize("users", [2, 200, 100_000])
def test_a_lattice_for_a_given_std_has_that_std(std: float, users: int) -> None:
    domain = LinearReport(features=5)
    noise = binomial_noise_for_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=users, composed=False)
    assert noise.trials >= 50
    assert 0.999 * std <= noise.std() <= std * (1 + 1e-12)


# Caches that lie


# Bad input


def test_budgets_that_binomial_noise_cannot_keep() -> None:
    shape = {"sensitivity": 1.0, "reach": 1.0, "dim": 2, "users": 10}
    for budget in (PureDP(epsilon=1.0), ZCDP(rho=0.1), ApproxDP(epsilon=1.0, delta=0.0)):
        with pytest.raises(InvalidBudget):
            binomial_noise(**shape, budget=budget)
    with pytest.raises(InvalidBudget, match="finite"):
        binomial_noise(**shape, budget=ApproxDP(epsilon=math.inf, delta=1e-5))


@pytest.mark.parametrize("batch", [1, 0, -3, 2.5, math.nan, True, None, "20"])
def test_a_batch_of_fewer_than_two_users_is_refused_by_name(batch: Any) -> None:
    with pytest.raises(InvalidArgument, match="batch") as caught:
        binomial_noise(sensitivity=1.0, reach=1.0, dim=2, users=batch, budget=ApproxDP(epsilon=1.0, delta=1e-5))
    assert ">= 2" in caught.value.allowed


@pytest.mark.parametrize("participations", [0, -1, 1.5, True, None])
def test_meaningless_participations_are_refused_by_name(participations: Any) -> None:
    with pytest.raises(InvalidArgument, match="participations"):
        calibrated(LinearReport(features=2), 10, ApproxDP(epsilon=1.0, delta=1e-5), participations)


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
