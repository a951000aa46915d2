"""The factory of protocols: which protocol a privacy model gets, and which it is refused."""

from __future__ import annotations

import math

import pytest

from bandanna.device.domain import Ball, Bits, Box
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.factory import NEAR, protocol_for
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle

APPROX = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("privacy", "domain", "name"),
    [
        (none(), Box(dim=2), "clear"),
        (central(rho=math.inf), Box(dim=2), "clear"),
        (central(**APPROX), Box(dim=2), "central_gaussian"),
        (central(alpha=4.0, epsilon=1.0), Ball(dim=2), "central_gaussian"),
        (central(epsilon=1.0, delta=0.0), Box(dim=2), "central_laplace"),
        (local(**APPROX), Box(dim=2), "local_gaussian"),
        (local(epsilon=1.0, delta=0.0), Bits(), "local_bits"),
        (shuffle(**APPROX), Box(dim=2), "shuffle_binomial"),
        (shuffle(**APPROX), Bits(), "shuffle_bits"),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_each_privacy_model_opens_its_protocol_within_the_budget(
    privacy: Privacy, domain: Box, name: str, quick: bool
) -> None:
    protocol = protocol_for(privacy, domain, 500, quick=quick)
    assert protocol.name == name
    if privacy.noisy and privacy.budget is not None:
        assert accountant.satisfies(protocol.event, privacy.budget)
        assert protocol.guarantee.trust == privacy.model


@pytest.mark.parametrize("domain", [Bits(), Box(dim=3)])
def test_quick_noise_is_hardly_above_the_least_and_enough(domain: Box) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    quick, least = (protocol_for(shuffle(**APPROX), domain, 800, quick=each) for each in (True, False))
    assert accountant.satisfies(quick.event, budget)
    assert quick.std(800) <= NEAR * domain.sensitivity / budget.mu()
    assert quick.std(800) <= 1.06 * least.std(800)
    twice = protocol_for(shuffle(**APPROX, participations=2), domain, 800, quick=True)
    assert twice.participations == 2
    assert twice.std(800) > 1.3 * quick.std(800)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 1.0), (9.0, 10.0), (100.0, 100.5)])
@pytest.mark.parametrize("users", [2, 2**30, 10**9, 10**12])
def test_pure_noise_is_on_a_lattice_that_holds_the_sum(ends: tuple[float, float], users: int) -> None:
    domain = Box(dim=1, low=ends[0], high=ends[1])
    protocol = protocol_for(central(epsilon=1.0, delta=0.0), domain, users)
    assert isinstance(protocol, CentralLaplace)
    protocol.check_users(users)
    assert protocol.guarantee.epsilon <= 1.0
    width = ends[1] - ends[0]
    assert protocol.std(1) <= math.sqrt(2) * width * (1 + 2 / protocol.steps)
    finer = CentralLaplace.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=0.0), steps=2 * protocol.steps)
    assert protocol.steps == 2**20 or users * finer.steps > 2**60


def test_budgets_without_protocol_are_refused_by_name() -> None:
    for wrong in (local(epsilon=1.0, delta=0.0), central(epsilon=1.0, delta=0.0, calibration="paper")):
        with pytest.raises(InvalidBudget, match="central model with tight noise"):
            protocol_for(wrong, Box(dim=2), 10)
    for wrong in (shuffle(epsilon=1.0, delta=0.0), shuffle(**APPROX, protocol="gaussian")):
        with pytest.raises(InvalidBudget, match="binomial"):
            protocol_for(wrong, Bits(), 10)
    for wrong in (central(rho=1e-100), central(epsilon=1e300, delta=0.0), central(epsilon=1e-200, delta=0.0)):
        with pytest.raises(InvalidBudget, match="budget"):
            protocol_for(wrong, Box(dim=1), 10)
    with pytest.raises(InvalidArgument, match="no lattice holds their sum"):
        protocol_for(central(epsilon=1.0, delta=0.0), Box(dim=1), 2**62)


def test_concurrent_shufflers_are_not_local_noise() -> None:
    with pytest.raises(InvalidArgument, match="got 'concurrent'"):
        protocol_for(concurrent(**APPROX), Box(dim=2), 10)
