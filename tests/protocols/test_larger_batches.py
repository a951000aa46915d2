"""Noise that is calibrated for B users is enough for n >= B of them (proofs.md A.6): enumerated, and by price."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import bit_event
from bandanna.privacy.events import Event, ShuffledGaussianEvent
from bandanna.protocols.gaussian import ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits

BATCH = 20
LARGER = (BATCH, BATCH + 1, BATCH + 7, 2 * BATCH, 10 * BATCH)
BUDGETS = (ApproxDP(epsilon=1.0, delta=1e-5), ApproxDP(epsilon=0.3, delta=1e-3), ApproxDP(epsilon=4.0, delta=1e-6))
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: f"{one.epsilon:g}")
DOMAINS = {"ball": Ball(dim=3), "box": Box(dim=2), "report": LinearReport(features=3)}
CASES = [(domain, budget) for domain in DOMAINS.values() for budget in BUDGETS]


def falls(numbers: list[float]) -> bool:
    """Whether no number is above the first, but for what searches leave open."""
    return all(number <= numbers[0] * (1 + 1e-9) for number in numbers)


def no_dearer(event: Event, epsilon: float, delta: float) -> bool:
    """Whether the accountant asks no more than epsilon, but for what searches leave open: one look, not a search."""
    return accountant.satisfies(event, ApproxDP(epsilon=epsilon * (1 + 1e-9), delta=delta))


@pytest.mark.parametrize(("domain", "budget"), CASES)
@pytest.mark.often(of=lambda domain, budget: (domain, budget) in CASES[::4])
def test_totals_of_more_users_cost_no_more(domain: Domain, budget: ApproxDP) -> None:
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=BATCH)
    sizes: dict[str, Any] = {"sensitivity": domain.sensitivity, "reach": domain.reach, "dim": domain.dim}
    stated = protocol.guarantee.epsilon
    assert stated == accountant.epsilon(protocol.noise.event(**sizes), budget.delta) <= budget.epsilon
    assert all(no_dearer(protocol.noise.for_users(n).event(**sizes), stated, budget.delta) for n in LARGER)
    weaker = dataclasses.replace(protocol.noise, trials=round(0.64 * protocol.noise.trials))
    assert not accountant.satisfies(weaker.event(**sizes), budget)
    fewer = protocol.noise.for_users(round(0.8 * BATCH)).event(**sizes)
    assert not accountant.satisfies(fewer, budget)  # why a smaller batch is refused


def exact_delta(copies: int, coins: int, epsilon: float) -> float:
    """Of Bin(coins, 1/2) against its shift by `copies`, in the worse direction, by enumeration."""
    window = np.arange(coins + copies + 1)
    still, moved = (stats.binom.pmf(window - shift, coins, 0.5) for shift in (0, copies))
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = [(still, moved), (moved, still)]
    return max(math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)) for p, q in pairs)


@each_budget
@pytest.mark.often(of=lambda budget: budget.epsilon != 1.0)
def test_bits_of_more_users_say_no_more(budget: ApproxDP) -> None:
    noise = ShuffleBits.calibrate(budget=budget, batch=BATCH).noise
    deltas = [exact_delta(int(noise.scale), n * noise.trials, budget.epsilon) for n in LARGER]
    assert deltas[0] <= budget.delta * (1 + 1e-9)
    assert falls(deltas)
    stated = [accountant.epsilon(bit_event(noise, users=n), budget.delta) for n in LARGER]
    assert falls(stated)
    assert exact_delta(int(noise.scale), round(0.64 * BATCH * noise.trials), budget.epsilon) > budget.delta
    assert exact_delta(int(noise.scale), round(0.8 * BATCH) * noise.trials, budget.epsilon) > budget.delta


@each_budget
@pytest.mark.parametrize("more", [(201, 2000), (400,)])
@pytest.mark.often(of=lambda budget, more: budget.epsilon == 0.3 and 201 in more)
def test_shuffled_reports_among_more_cost_no_more(budget: ApproxDP, more: tuple[int, ...]) -> None:
    protocol = ShuffleGaussian.calibrate(domain=Ball(dim=2), budget=budget, batch=200)
    event = protocol.event
    assert isinstance(event, ShuffledGaussianEvent)
    stated = protocol.guarantee.epsilon
    assert stated == accountant.epsilon(event, budget.delta) <= budget.epsilon
    assert all(no_dearer(dataclasses.replace(event, users=n), stated, budget.delta) for n in (200, *more))
    if budget.epsilon <= 1 and more[-1] == 2000:  # where shuffling hides, more users hide better
        assert no_dearer(dataclasses.replace(event, users=2000), 0.95 * stated, budget.delta)
    weaker = dataclasses.replace(protocol, noise_std=0.8 * protocol.noise_std)
    assert not accountant.satisfies(weaker.event, budget)


@pytest.mark.parametrize("users", [2, 3])
def test_the_larger_view_is_made_from_the_smaller(users: int) -> None:
    noise = ShuffleBits.calibrate(budget=ApproxDP(epsilon=2.0, delta=1e-2), batch=2).noise
    coins = [stats.binom.pmf(np.arange(n * noise.trials + 1), n * noise.trials, 0.5) for n in (users, 2, users + 2)]
    assert np.allclose(np.convolve(coins[0], coins[1]), coins[2], rtol=1e-9, atol=1e-15)
