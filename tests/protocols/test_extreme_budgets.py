"""Budgets at the ends of what floats hold: what is calibrated for one states no more than it, or it is refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.errors import BandannaError, CommunicationWarning
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.protocols.base import Protocol
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

from ..drawn import examples

DOMAINS: tuple[Domain, ...] = (Box(dim=2), Ball(dim=1, bound=3.0), LinearReport(features=1))
MAKERS: dict[str, Callable[..., Protocol]] = {
    "central": lambda domain, **shared: CentralGaussian.calibrate(domain=domain, **shared),
    "laplace": lambda domain, **shared: CentralLaplace.calibrate(domain=domain, **shared),
    "continual": lambda domain, **shared: CentralContinual.calibrate(domain=domain, horizon=4, **shared),
    "local": lambda domain, **shared: LocalGaussian.calibrate(domain=domain, **shared),
    "local bits": lambda domain, **shared: LocalBits.calibrate(**shared),
    "local unit": lambda domain, **shared: LocalUnit.calibrate(domain=domain, **shared),
    "shuffle": lambda domain, **shared: ShuffleBinomial.calibrate(domain=domain, batch=10, **shared),
    "shuffle bits": lambda domain, **shared: ShuffleBits.calibrate(batch=10, **shared),
    "shuffle gaussian": lambda domain, **shared: ShuffleGaussian.calibrate(domain=domain, batch=10, **shared),
    "concurrent": lambda domain, budget, participations: ConcurrentShuffle.calibrate(
        domain=domain, budget=budget, horizon=20, shufflers=2
    ),
}


def stated(kind: str, domain: Domain, budget: Any, participations: int) -> tuple[float, float] | None:
    """What the calibrated protocol promises; None where the budget is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CommunicationWarning)
        try:
            guarantee = MAKERS[kind](domain, budget=budget, participations=participations).guarantee
        except BandannaError:
            return None
    return guarantee.epsilon, guarantee.delta


sizes = st.floats(-6.0, 3.0).map(lambda exponent: 10.0**exponent)
tiny = st.one_of(st.sampled_from([5e-324, 1e-310, 1e-300]), st.floats(-250.0, -1.0).map(lambda e: 10.0**e))
large = st.floats(1.0, 9.0).map(lambda exponent: 1 - 10.0**-exponent)


@pytest.mark.parametrize("kind", MAKERS)
@examples(2, full=6)
@example(10**2.5, 1e-42, DOMAINS[0], 3)  # the bound rises again between 256 and 512
@example(1.0, 0.999999, DOMAINS[0], 3)
@given(sizes, st.one_of(tiny, large), st.sampled_from(DOMAINS), st.sampled_from([1, 3]))
def test_what_is_calibrated_states_no_more_than_its_budget(
    kind: str, epsilon: float, delta: float, domain: Domain, participations: int
) -> None:
    found = stated(kind, domain, ApproxDP(epsilon=epsilon, delta=delta), participations)
    assert found is None or (found[0] <= epsilon and found[1] <= delta)


@pytest.mark.parametrize("kind", ["laplace", "local bits", "local unit"])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-6, 30.0, 1e3, 1e300, math.inf])
def test_extreme_pure_budgets(kind: str, epsilon: float) -> None:
    """A pure budget is exceeded, or ends in a foreign error."""
    found = stated(kind, DOMAINS[0], PureDP(epsilon=epsilon), 3)
    assert found is None or (found[0] <= epsilon and found[1] == 0)


@pytest.mark.parametrize("kind", MAKERS)
def test_ordinary_budgets_are_taken(kind: str) -> None:
    """The tests above would hold because everything is refused."""
    found = stated(kind, DOMAINS[0], ApproxDP(epsilon=1.0, delta=1e-6), 1)
    assert found is not None
    assert 0.95 <= found[0] <= 1.0


LONG = pytest.param("shuffle gaussian", marks=pytest.mark.full)


@pytest.mark.parametrize("kind", ["central", "continual", "local", "local bits", "local unit", LONG])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [pytest.param(1.0, 0.999999, marks=pytest.mark.full), (1.0, 1 - 1e-9), (590.0, 1e-6)],
)
def test_unusual_budgets_are_taken_and_kept(kind: str, epsilon: float, delta: float) -> None:
    found = stated(kind, DOMAINS[0], ApproxDP(epsilon=epsilon, delta=delta), 1)
    assert found is not None
    assert found[0] <= epsilon
