"""Factors of prices whose loss no other test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math

import pytest

from bandanna.accounting.events import BinomialEvent, ContinualEvent, DiscreteGaussianEvent, GaussianEvent
from bandanna.accounting.factorisation import factorise
from bandanna.accounting.prices import gaussian_price
from bandanna.accounting.rounding import composable_shift

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
