"""What the most exposed person pays, against composing every choice of batches that one person can be in."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import (
    BinomialEvent,
    ClearEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RepetitionEvent,
)
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.gdp import Price


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
def test_gaussian_batches_against_all_persons(mus: list[list[float]], participations: int, epsilon: float) -> None:
    tasks = {f"task {i}": Counter(gaussian(mu) for mu in task) for i, task in enumerate(mus)}
    budget = ApproxDP(epsilon=epsilon, delta=1e-5)
    worst = math.sqrt(sum(mu**2 for task in mus for mu in sorted(task, reverse=True)[:participations]))
    stated = accountant.is_within_budget(tasks, participations, budget)
    if abs(worst / gdp.mu(epsilon, 1e-5) - 1) > 1e-6:  # not at the very edge
        assert stated == kept(tasks, participations, budget) == (worst <= gdp.mu(epsilon, 1e-5))


@pytest.mark.parametrize("participations", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.4, 0.7, 1.0, 1.4, 2.0])
def test_mixed_batches_against_all_persons(participations: int, epsilon: float) -> None:
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
def test_every_batch_of_a_person_brings_its_tail(participations: int) -> None:
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


def test_each_batch_alone_when_everybody_takes_part_once() -> None:
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
