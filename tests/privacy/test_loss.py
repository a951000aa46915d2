"""Numerically composed losses against dp-accounting, counting, and products whose divergence has a closed form."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from bandanna.privacy import gdp
from bandanna.privacy.accountant import composed_delta
from bandanna.privacy.calibration import best_cap
from bandanna.privacy.events import (
    BinomialEvent,
    ClearEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ShuffledGaussianEvent,
)
from bandanna.privacy.prices import gaussian_price

TAIL = 1e-14


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta_G for epsilon of either sign: HS(-e) = 1 - e^-e + e^-e HS(e) for a symmetric pair."""
    if epsilon >= 0:
        return float(gdp.delta(epsilon, mu))
    return 1 - math.exp(epsilon) * (1 - float(gdp.delta(-epsilon, mu)))


def counted_responses(epsilon: float, times: int, target: float, mu: float = 0.0) -> float:
    """delta at `target` of randomized responses, counted by their number of lies, beside a Gaussian."""
    truth, total = 1 / (1 + math.exp(-epsilon)), 0.0
    for lies in range(times + 1):
        mass = math.comb(times, lies) * truth ** (times - lies) * (1 - truth) ** lies
        rest = target - (times - 2 * lies) * epsilon
        total += mass * (gaussian_delta(rest, mu) if mu else max(0.0, -math.expm1(rest)))
    return total


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.often(of=lambda epsilon: epsilon == 0.5)
def test_laplace_releases_cost_what_dp_accounting_says(epsilon: float) -> None:
    theirs = pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-4).self_compose(5)
    laplace, gaussian = LaplaceEvent(scale=6.0, sensitivity=3.0), GaussianEvent(std=1.5, sensitivity=1.0)
    alone = composed_delta(Counter({laplace: 5}), epsilon, TAIL)
    assert alone == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-14)
    total = theirs.compose(pld.from_gaussian_mechanism(1.5, value_discretization_interval=1e-4))
    both = composed_delta(Counter({laplace: 5, gaussian: 1}), epsilon, TAIL)
    assert both == pytest.approx(total.get_delta_for_epsilon(epsilon), rel=1e-6)
    less = LaplaceEvent(scale=0.8 * 6.0, sensitivity=3.0)
    assert total.get_delta_for_epsilon(epsilon) < composed_delta(Counter({less: 5, gaussian: 1}), epsilon, TAIL)


def test_one_laplace_release_has_the_delta_of_its_formula() -> None:
    for scale, epsilon in ((1.0, 0.3), (1.0, 0.9), (0.25, 2.0)):
        exact = -math.expm1((epsilon - 1 / scale) / 2)
        stated = composed_delta(Counter({LaplaceEvent(scale=scale, sensitivity=1.0): 1}), epsilon, TAIL)
        assert exact * (1 - 1e-9) <= stated <= exact * (1 + 1e-3)


@pytest.mark.parametrize("epsilon", [0.05, 0.4])
@pytest.mark.parametrize("times", [1, 6])
def test_pure_vectors_cost_randomized_response_by_counting(epsilon: float, times: int) -> None:
    events: tuple[Event, ...] = (
        LaplaceEvent(scale=2.0 / epsilon, sensitivity=2.0, dim=3),
        DiscreteLaplaceEvent(scale=2.0 / epsilon, shift=2.0, dim=3),
        best_cap(dim=3, epsilon=epsilon),
    )
    for event in events:
        for target in (0.25 * times * epsilon, 0.6 * times * epsilon):
            exact = counted_responses(epsilon, times, target)
            stated = composed_delta(Counter({event: times}), target, TAIL)
            assert exact * (1 - 1e-9) <= stated <= exact + 1.1e-4 * times


@pytest.mark.parametrize("target", [0.2, 1.0, 3.0])
def test_pure_vectors_beside_gaussians_have_their_closed_form(target: float) -> None:
    laplace, mus = LaplaceEvent(scale=10.0, sensitivity=3.0, dim=2), (0.5, 0.8)
    counts: Counter[Event] = Counter({laplace: 3})
    for mu in mus:
        counts[GaussianEvent(std=1 / mu, sensitivity=1.0)] += 1
    exact = counted_responses(0.3, 3, target, mu=math.hypot(*mus))
    stated = composed_delta(counts, target, TAIL)
    assert exact * (1 - 1e-9) <= stated <= exact * 1.002 + 1e-9
    assert counted_responses(0.3 / 0.8, 3, target, mu=math.hypot(*mus) / 0.8) > stated  # 20 % less noise


def test_tails_are_charged_at_the_final_epsilon() -> None:
    laplace = LaplaceEvent(scale=10.0, sensitivity=3.0, dim=2)
    binomial = BinomialEvent(trials=2000, shift=10.0, reach=10, rounded=False)
    tail, target = 1e-6, 1.0
    price = gaussian_price(binomial, tail / 2)
    exact = counted_responses(0.3, 1, target, mu=price.mu) + price.tail * (1 + math.exp(target))
    stated = composed_delta(Counter({laplace: 1, binomial: 1}), target, tail)
    assert price.tail > 1e-8
    assert exact * (1 - 1e-9) <= stated <= exact * 1.002


def test_a_release_without_a_price_leaves_no_privacy() -> None:
    laplace = LaplaceEvent(scale=10.0, sensitivity=1.0)
    assert composed_delta(Counter({laplace: 1, ClearEvent(): 1}), 3.0, TAIL) == 1.0
    assert composed_delta(Counter({laplace: 1, BinomialEvent(trials=4, shift=9.0, reach=9): 1}), 3.0, TAIL) == 1.0


def test_shuffled_reports_lie_between_their_bounds() -> None:
    laplace = LaplaceEvent(scale=10.0, sensitivity=1.0, dim=2)
    shuffled = ShuffledGaussianEvent(std=4.0, sensitivity=1.0, users=1000)
    stated = composed_delta(Counter({laplace: 1, shuffled: 1}), 0.5, 1e-10)
    assert counted_responses(0.1, 1, 0.5, mu=0.25 / math.sqrt(1000)) <= stated
    assert stated <= counted_responses(0.1, 1, 0.5, mu=0.25)


def test_reports_of_next_to_nothing_have_a_price() -> None:
    laplace = LaplaceEvent(scale=1.0, sensitivity=1.0)
    shuffled = ShuffledGaussianEvent(std=1e9, sensitivity=1.0, users=2)
    stated = composed_delta(Counter({laplace: 1, shuffled: 1}), 0.5, 1e-6)
    assert -math.expm1(-0.25) <= stated <= -math.expm1(-0.25) + 1e-5  # 1 - e^((epsilon - 1/b)/2), b = 1
