"""Composition by privacy losses, and of batches and streams beside each other."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.device.domain import Ball, Statistic
from bandanna.errors import BandannaError
from bandanna.privacy import accountant, events, gdp
from bandanna.privacy.accountant import composed_delta
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.calibration import best_cap
from bandanna.privacy.events import (
    BinomialEvent,
    ClearEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.gdp import Price
from bandanna.privacy.guarantee import Guarantee
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
@pytest.mark.often(when=lambda epsilon: epsilon == 0.5)
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


def gaussian(mu: float) -> GaussianEvent:
    return GaussianEvent(std=1.0, sensitivity=mu)


def persons(tasks: Mapping[str, accountant.EventCounts], participations: int) -> Iterator[Event]:
    """What every possible person has taken part in: up to M batches of each task."""
    choices = []
    for batches in tasks.values():
        everything = list(batches.elements())
        taken = min(participations, len(everything))
        choices.append(list(itertools.combinations(everything, taken)))
    for choice in itertools.product(*choices):
        yield CompositionEvent(events=tuple(event for part in choice for event in part))


def kept(tasks: Mapping[str, accountant.EventCounts], participations: int, budget: Budget) -> bool:
    """Whether every person's own composition keeps within the budget."""
    return all(accountant.satisfies(event, budget) for event in persons(tasks, participations))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.floats(0.05, 0.6), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 3),
    st.floats(0.3, 4.0),
)
def test_gaussian_batches_are_priced_for_every_possible_user(
    mus: list[list[float]], participations: int, epsilon: float
) -> None:
    tasks = {f"task {i}": Counter(gaussian(mu) for mu in task) for i, task in enumerate(mus)}
    budget = ApproxDP(epsilon=epsilon, delta=1e-5)
    worst = math.sqrt(sum(mu**2 for task in mus for mu in sorted(task, reverse=True)[:participations]))
    stated = accountant.is_within_budget(tasks, participations, budget)
    if abs(worst / gdp.mu(epsilon, 1e-5) - 1) > 1e-6:  # not at the very edge
        assert stated == kept(tasks, participations, budget) == (worst <= gdp.mu(epsilon, 1e-5))


@pytest.mark.parametrize("participations", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.4, 0.7, 1.0, 1.4, 2.0])
def test_mixed_batches_are_priced_for_every_possible_user(participations: int, epsilon: float) -> None:
    tasks = {
        "a": Counter(
            {
                BinomialEvent(trials=40_000, shift=20.0, reach=20, dim=3): 2,
                BinomialEvent(trials=4000, shift=8.0, reach=8, dim=3): 1,
                gaussian(0.15): 3,
            }
        ),
        "b": Counter({DiscreteGaussianEvent(std=40.0, shift=5.0, dim=2): 1, gaussian(0.2): 1}),
    }
    budget = ApproxDP(epsilon=epsilon, delta=1e-5)
    stated, truth = accountant.is_within_budget(tasks, participations, budget), kept(tasks, participations, budget)
    assert truth or not stated
    if participations == 2:  # both verdicts occur, and they agree away from the edge
        assert stated == truth == (epsilon > 1.7)


@pytest.mark.parametrize("participations", [1, 2, 3, 5])
def test_every_batch_of_a_user_is_charged_with_its_tail(participations: int) -> None:
    tail = 1e-4
    batches: accountant.EventCounts = Counter(
        {
            BinomialEvent(trials=40_000, shift=20.0, reach=20, dim=3): 2,
            DiscreteGaussianEvent(std=40.0, shift=5.0, dim=2): 2,
            BinomialEvent(trials=4000, shift=8.0, reach=8, dim=3): 1,
            gaussian(0.15): 1,
        }
    )
    stated = accountant._price_heaviest(batches, participations, tail)
    for choice in itertools.combinations(batches.elements(), participations):
        own = Price(mu=0.0)
        for event in choice:
            own = own + accountant.price(event, tail)
        assert own.mu <= stated.mu * (1 + 1e-12)
        assert own.tail <= stated.tail * (1 + 1e-12)
    dearest = max(accountant.price(event, tail).tail for event in batches)
    assert stated.tail == pytest.approx(participations * dearest)


def test_every_stream_of_a_user_is_charged_with_its_tail() -> None:
    tail, factors = 1e-4, factorise("tree", horizon=4)
    streams = [ContinualEvent(factorisation=factors, std=std, sensitivity=1.0, grid=0.25) for std in (8.0, 9.0)]
    batch = DiscreteGaussianEvent(std=40.0, shift=5.0, dim=2)
    stated = accountant._price_heaviest(Counter([*streams, batch]), 1, tail)
    own = accountant.price(streams[0], tail) + accountant.price(streams[1], tail) + accountant.price(batch, tail)
    assert stated.mu == pytest.approx(own.mu)
    assert stated.tail == pytest.approx(own.tail)


def test_each_batch_is_priced_alone_if_users_take_part_once() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    mu = gdp.mu(1.0, 1e-5)
    many = Counter({gaussian(0.99 * mu): 100, gaussian(0.5 * mu): 100})
    assert accountant.is_within_budget({"a": many}, 1, budget)
    assert not accountant.is_within_budget({"a": many}, 2, budget)
    assert not accountant.is_within_budget({"a": many, "b": Counter({gaussian(0.2 * mu): 1})}, 1, budget)
    assert accountant.is_within_budget({"a": many, "b": Counter({gaussian(0.1 * mu): 1})}, 1, budget)
    assert not accountant.is_within_budget({"a": many + Counter({gaussian(1.01 * mu): 1})}, 1, budget)


def test_one_binomial_batch_keeps_its_own_bound() -> None:
    event = BinomialEvent(trials=31_000, shift=23.3, reach=22, dim=20)
    epsilon = accountant.epsilon(event, 1e-5)
    budget = ApproxDP(epsilon=epsilon * (1 + 1e-6), delta=1e-5)
    assert accountant.is_within_budget({"a": Counter({event: 1000})}, 1, budget)
    assert not accountant.is_within_budget({"a": Counter({event: 1000})}, 2, budget)
    assert not accountant.is_within_budget({"a": Counter({event: 1}), "b": Counter({event: 1})}, 1, budget)


@pytest.mark.parametrize("participations", [1, 2, 5])
def test_the_dearest_batches_count_for_pure_and_concentrated_budgets(participations: int) -> None:
    scales = (1.0, 2.0, 2.0, 4.0)
    batches: accountant.EventCounts = Counter(LaplaceEvent(scale=scale, sensitivity=1.0) for scale in scales)
    tasks = {"a": batches, "b": Counter({LaplaceEvent(scale=8.0, sensitivity=1.0): 1})}
    dearest = sorted((1 / scale for scale in scales), reverse=True)[:participations]
    pure = sum(dearest) + 1 / 8
    rho = sum(x * (math.exp(x) - 1) / (math.exp(x) + 1) for x in (*dearest, 1 / 8))  # of randomized response
    edges: list[tuple[Budget, Budget]] = [
        (PureDP(epsilon=pure * (1 + 1e-9)), PureDP(epsilon=pure * 0.999)),
        (ApproxDP(epsilon=pure * (1 + 1e-9), delta=0.0), ApproxDP(epsilon=pure * 0.999, delta=0.0)),
        (ZCDP(rho=rho * (1 + 1e-9)), ZCDP(rho=rho * 0.999)),
        (RenyiDP(alpha=3.0, epsilon=3 * rho * (1 + 1e-9)), RenyiDP(alpha=3.0, epsilon=3 * rho * 0.999)),
    ]
    for enough, little in edges:
        assert accountant.is_within_budget(tasks, participations, enough)
        assert kept(tasks, participations, enough)
        assert not accountant.is_within_budget(tasks, participations, little)
        assert not kept(tasks, participations, little)


def test_no_choice_of_laplace_and_gaussian_batches_costs_more_than_stated() -> None:
    laplace = LaplaceEvent(scale=5.0, sensitivity=1.0, dim=2)
    tasks = {"a": Counter({laplace: 3, gaussian(0.3): 1}), "b": Counter({laplace: 1})}
    budget = ApproxDP(epsilon=1.0, delta=1e-3)
    paid = accountant.compute_spent(tasks, 2, budget.delta)
    for event in persons(tasks, 2):
        assert accountant.epsilon(event, budget.delta) <= paid * (1 + 1e-5)
    assert accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=paid * (1 + 1e-5), delta=budget.delta))
    assert accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=2.0, delta=1e-3))
    assert not accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=0.3, delta=1e-3))


def test_raw_data_is_never_within() -> None:
    for budget in (ApproxDP(epsilon=9.0, delta=0.5), PureDP(epsilon=9.0), ZCDP(rho=9.0)):
        for participations in (1, 2):
            assert not accountant.is_within_budget(
                {"a": Counter({ClearEvent(): 1, gaussian(0.1): 1})}, participations, budget
            )


def test_a_composed_batch_counts_all_of_its_releases() -> None:
    twice = RepetitionEvent(event=gaussian(0.3), times=2)
    budget = ApproxDP(epsilon=gdp.epsilon(1e-5, 0.3) * 1.001, delta=1e-5)
    assert accountant.is_within_budget({"a": Counter({gaussian(0.3): 1})}, 1, budget)
    assert not accountant.is_within_budget({"a": Counter({twice: 1})}, 1, budget)
    assert not accountant.is_within_budget({"a": Counter({twice: 1})}, 2, budget)


BALL = Ball(dim=2)
STREAM = events.ContinualEvent(factorisation=factorise("tree", horizon=4), std=100.0, sensitivity=1.0, participations=2)


def test_batches_beside_a_stream_are_charged_for_every_participation() -> None:
    one = events.GaussianEvent(std=1.0, sensitivity=1.0)
    mixed = events.CompositionEvent(events=(STREAM, one))
    person = events.CompositionEvent(events=(STREAM, one, one))
    assert accountant.compute_spent({"t": Counter({mixed: 5})}, 2, 1e-5) >= accountant.epsilon(person, 1e-5) * (
        1 - 1e-6
    )


@pytest.mark.parametrize("counts", [[-999, 1001], [1]], ids=["negative", "short"])
def test_counts_made_by_hand_are_checked(counts: list[int]) -> None:
    values = np.array([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(BandannaError):
        BALL.check_statistic(Statistic(domain=BALL, values=values, clipped=np.array(0), counts=np.array(counts)))


def test_printed_numbers_are_not_below_the_computed_ones() -> None:
    text = str(Guarantee(trust="central", epsilon=1.0000000005, delta=1.2344e-5, protects="x"))
    found = re.search(r"epsilon = (\S+), delta = (\S+) ", text)
    assert found is not None
    assert float(found[1]) >= 1.0000000005
    assert float(found[2]) >= 1.2344e-5
