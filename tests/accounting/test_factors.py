"""Factors of prices whose loss no other test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from scipy import optimize

from bandanna.accounting import accountant, amplification, exact, gdp, loss
from bandanna.accounting.events import (
    BinomialEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.accounting.factorisation import factorise
from bandanna.accounting.prices import binomial_unit, gaussian_price
from bandanna.accounting.rounding import composable_shift, expected_delta

TAIL = 1e-9


def test_a_grid_costs_a_step_and_a_tail_in_every_coordinate() -> None:
    """Rounding or tails of a noisy vector are charged for one coordinate: integers of the same law cost more."""
    on_grid = GaussianEvent(std=8.0, sensitivity=2.0, dim=9, grid=0.5)
    integers = DiscreteGaussianEvent(std=16.0, shift=2.0 / 0.5 + math.sqrt(9), dim=9)
    assert gaussian_price(on_grid, TAIL) == gaussian_price(integers, TAIL)


@pytest.mark.parametrize("participations", [1, 2])
def test_a_stream_has_a_tail_in_every_number_that_a_person_touches(participations: int) -> None:
    """Tails of a stream's noise are charged for one released number: integers of the same law have more."""
    tree = factorise("tree", horizon=8)
    stream = ContinualEvent(
        factorisation=tree, std=8.0, sensitivity=2.0, participations=participations, dim=3, grid=0.5
    )
    price = gaussian_price(stream, TAIL)
    touched = 3 * tree.releases(participations)
    unit = gaussian_price(DiscreteGaussianEvent(std=16.0, shift=1.0, dim=touched), TAIL)
    assert price.tail == unit.tail > 0
    assert price.mu > unit.mu * 2.0 / 0.5


def test_rounding_of_every_coordinate_is_in_the_price() -> None:
    """Composed counts of many coordinates are priced as if one of them were rounded."""
    plain, rounded = (
        BinomialEvent(trials=10**6, probability=0.5, shift=4.0, reach=5.0, dim=64, rounded=each)
        for each in (False, True)
    )
    ratio = gaussian_price(rounded, TAIL).mu / gaussian_price(plain, TAIL).mu
    assert ratio == pytest.approx(composable_shift(4.0, 64, TAIL / 2) / 4.0, rel=0.01)
    assert composable_shift(4.0, 64, TAIL / 2) > 1.2 * composable_shift(4.0, 1, TAIL / 2)


def clones_by_hand(users: int, mu: float, epsilon: float, tail: float) -> float:
    """delta of one shuffled Gaussian: the clones pair at the local epsilon where their tails weigh `tail`, and these."""

    def weight(local: float) -> float:
        return amplification.tail_weight(users=users, local_epsilon=local) * float(gdp.delta(local, mu))

    local = optimize.brentq(lambda e: math.log(weight(e) / tail), 1e-3, 5.0)
    pair = amplification.clones_pld(users=users, local_epsilon=local, discretization=1e-4)
    return float(pair.get_delta_for_epsilon(epsilon)) + tail * (1 + math.exp(epsilon))


def test_shuffled_reports_beside_others_are_the_clones_pair() -> None:
    """Shuffled reports among other releases are priced with less noise or more users than they have, or tails are lost.

    At epsilon 3 nothing but the tails is left.
    """
    event = ShuffledGaussianEvent(std=4.0, sensitivity=1.0, users=1000)
    for epsilon, tail in ((0.2, 1e-8), (3.0, 1e-3)):
        by_hand = clones_by_hand(1000, 0.25, epsilon, tail)
        assert loss.composed_delta(Counter({event: 1}), epsilon, tail) == pytest.approx(by_hand, rel=1e-3)


def test_shuffled_reports_among_others_are_counted_as_often_as_they_are_made() -> None:
    """Two shuffled releases beside others cost less than two whose noise differs by next to nothing."""
    one, other = (ShuffledGaussianEvent(std=std, sensitivity=1.0, users=1000) for std in (4.0, 4.0 + 1e-9))
    for epsilon, tail in ((0.2, 1e-8), (3.0, 1e-3)):
        twice = loss.composed_delta(Counter({one: 2}), epsilon, tail)
        assert twice == pytest.approx(loss.composed_delta(Counter({one: 1, other: 1}), epsilon, tail), rel=1e-5)
        assert twice > 0.999 * tail * (1 + math.exp(epsilon))


def test_pure_releases_are_free_only_below_their_sum() -> None:
    """Two pure releases cost no delta at an epsilon below their sum: both losses are at their largest one time in four."""
    one, other = (LaplaceEvent(scale=scale, sensitivity=1.0) for scale in (1 / 0.6, 1 / 0.6 + 1e-9))
    for both in (RepetitionEvent(event=one, times=2), CompositionEvent(events=(one, other))):
        assert accountant.delta_near(both, 1.0, 1e-5) >= -math.expm1(1.0 - 1.2 + 1e-8) / 4
        assert accountant.delta_near(both, 1.2 + 1e-12, 1e-5) == 0.0


@pytest.mark.parametrize("times", [1, 3])
def test_shuffled_reports_alone_are_the_amplified_ones_and_their_tails(times: int) -> None:
    """Shuffled reports are priced by another noise, sensitivity, batch or number of releases than the event's."""
    shape, epsilon = {"std": 8.0, "sensitivity": 2.0, "users": 1000}, 0.5
    plain, tailed = (
        RepetitionEvent(event=ShuffledGaussianEvent(**shape, tail=tail), times=times) for tail in (0.0, 1e-14)
    )
    amplified = amplification.composed_shuffled_gaussian_delta(**shape, times=times, epsilon=epsilon)
    assert accountant.delta_near(plain, epsilon, 1e-5) == amplified
    beyond = times * 1000 * 1.5 * (1 + 1000 * math.exp(8)) * 1e-14 * (1 + math.exp(epsilon))
    assert accountant.delta_near(tailed, epsilon, 1e-5) == pytest.approx(amplified + beyond, rel=1e-9)
    assert beyond > 0.01 * amplified


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dim", [1, 50])
def test_one_binomial_release_pays_for_every_coordinate_and_tail(dim: int, rounded: bool) -> None:
    """One release of counts is priced without a coordinate's tail, its rounding, what refusals cost, or its whole shift."""
    epsilon, tail, cost = 0.4, 1e-3, 1 + math.exp(0.4)
    shape = {"trials": 40_000, "shift": 20.0, "reach": 20, "dim": dim, "rounded": rounded}
    plain, refusing = (BinomialEvent(**shape, tail=beyond) for beyond in (0.0, 1e-4))
    unit = binomial_unit(plain, tail)
    assert unit is not None and unit.tail > 1e-7
    if rounded:
        by_hand = expected_delta(epsilon, unit.mu, 20.0, dim) + dim * unit.tail * cost
    else:
        by_hand = float(gdp.delta(epsilon, unit.mu * 20.0)) + dim * unit.tail * cost
    if dim == 1 and not rounded:
        by_hand = exact.binomial_delta(40_000, 0.5, 20, epsilon)
    assert accountant.single_binomial_delta(plain, epsilon, tail) == pytest.approx(by_hand, rel=1e-9)
    assert accountant.single_binomial_delta(refusing, epsilon, tail) == pytest.approx(by_hand + 1e-4 * cost, rel=1e-9)
