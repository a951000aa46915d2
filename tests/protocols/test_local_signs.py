"""Signs of public vectors, answered by randomized response; and sums of what is public, which cost nothing."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.device.randomizers import device_from_parameters
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.privacy.events import CompositionEvent, NothingEvent
from bandanna.protocols.clear import PublicSum
from bandanna.protocols.randomized_response import LocalSigns

DOMAIN = Ball(dim=3, bound=0.5)
VECTORS = np.array(
    [[0.5, 0.0, -0.0], [0.3, -0.4, 0.0], [0.1, 0.2, 0.3], [1e-300, 0.25, -1e-18], [1 / 3, 2.0**-61, -(2.0**-62)]]
)


@dataclass(frozen=True)
class Coin:
    """A source whose uniform number is known."""

    number: float
    secure: bool

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """The same everywhere."""
        return np.full(shape, self.number)


def channel(protocol: LocalSigns, vector: Any, *, secure: bool) -> dict[bytes, float]:
    """The exact law of one user's message: a coin has 2^53 sides, and those below `lie` are lies."""
    device, lie = protocol.device, protocol.mechanism.lie
    sides = {0.0: "lie", lie - 2.0**-53: "lie", lie: "truth", 1 - 2.0**-53: "truth"}
    said = {side: device.encode(vector[None], Coin(side, secure)).tobytes() for side in sides}
    assert len({(sides[side], message) for side, message in said.items()}) == 2  # the ends of both ranges agree
    return {said[0.0]: lie, said[lie]: 1 - lie}


def loss(one: dict[bytes, float], two: dict[bytes, float]) -> float:
    """The largest log-ratio of probabilities of a message; infinite where only one of them can send it."""
    assert len(one) == len(two) == 2
    return max(math.log(p / two[message]) if message in two else math.inf for message, p in one.items())


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_sign_is_hidden_exactly(epsilon: float, secure: bool) -> None:
    protocol = LocalSigns.calibrate(domain=DOMAIN, budget=PureDP(epsilon=epsilon))
    quieter = LocalSigns(domain=DOMAIN, epsilon=2 * math.asinh(math.sinh(protocol.epsilon / 2) / 0.8))
    assert quieter.std(1) == pytest.approx(0.8 * protocol.std(1))
    for vector in VECTORS:
        found = [
            loss(*(channel(each, sign * vector, secure=secure) for sign in signs))
            for each, signs in product((protocol, quieter), ((1, -1), (-1, 1)))
        ]
        assert max(found[:2]) <= epsilon
        assert min(found[:2]) == pytest.approx(epsilon, rel=1e-9)
        assert min(found[2:]) > epsilon * 1.01
    assert protocol.guarantee.epsilon <= epsilon
    assert protocol.guarantee.delta == 0.0


def test_another_line_is_not_hidden() -> None:
    protocol = LocalSigns(domain=DOMAIN, epsilon=1.0)
    assert math.isinf(loss(*(channel(protocol, vector, secure=True) for vector in VECTORS[:2])))
    assert "public vector" in str(protocol.guarantee)


def test_the_sum_is_unbiased_with_noise_along_the_vectors() -> None:
    protocol, draws = LocalSigns(domain=DOMAIN, epsilon=1.0), 40_000
    rows = np.broadcast_to(VECTORS, (draws, *VECTORS.shape))
    for path in ("messages", "law"):
        estimate = protocol.release(rows, FastNoise(np.random.default_rng(1)), path=path)
        error = estimate.total - VECTORS.sum(axis=0)
        expected = VECTORS.T @ VECTORS * (math.tanh(0.5) ** -2 - 1)
        assert np.all(np.abs(error.mean(axis=0)) < 5 * np.sqrt(np.diag(expected) / draws))
        np.testing.assert_allclose(np.cov(error.T), expected, atol=0.03 * expected.max())
        assert np.all(error.std(axis=0) < protocol.std(len(VECTORS)))
        assert estimate.variance == pytest.approx(protocol.std(len(VECTORS)) ** 2)


def test_integers_travel_and_are_added_exactly() -> None:
    protocol = LocalSigns(domain=DOMAIN, epsilon=1.0)
    messages = protocol.device.message(protocol.admit(VECTORS), SecureNoise())
    assert messages.dtype == np.int64
    source = FastNoise(np.random.default_rng(0))
    held = protocol.mixer.check(messages)
    assert np.array_equal(*(protocol.release_messages(held[::step], source).total for step in (1, -1)))
    assert device_from_parameters(json.loads(json.dumps(protocol.device.parameters))) == protocol.device
    with pytest.raises(InvalidStatistic):
        protocol.mixer.check(np.full((1, 3), 2**62 + 2**60))
    with pytest.raises(InvalidArgument, match="Ball"):
        LocalSigns(domain=Box(dim=2), epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [ApproxDP(epsilon=1.0, delta=1e-5), PureDP(epsilon=1.0), ZCDP(rho=0.1)])
def test_several_answers_keep_the_budget(budget: Budget) -> None:
    protocol = LocalSigns.calibrate(domain=DOMAIN, budget=budget, participations=3)
    assert accountant.satisfies(CompositionEvent(events=(protocol.event,) * 3), budget)


def test_what_is_public_is_summed_exactly_and_costs_nothing() -> None:
    protocol, domain = PublicSum(domain=LinearReport(features=2)), LinearReport(features=2)
    reports = domain.statistic(np.array([[0.3, 0.4], [1.0, 0.0]]), np.array([0.5, 0.5]))
    for path in ("messages", "law"):
        estimate = protocol.release(reports, FastNoise(np.random.default_rng(0)), path=path)
        np.testing.assert_allclose(estimate.total, reports.total(), rtol=0, atol=1e-15)
    assert protocol.event == NothingEvent()
    answer = LocalSigns(domain=DOMAIN, epsilon=1.0).event
    assert accountant.epsilon(CompositionEvent(events=(answer, protocol.event)), 0.0) == accountant.epsilon(answer, 0.0)
