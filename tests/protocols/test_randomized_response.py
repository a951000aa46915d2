"""Randomized response of bits and of signs: exact privacy, unbiasedness and stated noise."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.device.domain import Ball, Bits, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.device.randomizers import device_from_parameters
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import CompositionEvent, NothingEvent, RepetitionEvent
from bandanna.protocols.clear import PublicSum
from bandanna.protocols.gaussian import LocalGaussian
from bandanna.protocols.randomized_response import LocalBits, LocalSigns

APPROX = ApproxDP(epsilon=1.0, delta=1e-5)


def profile(epsilon: float, participations: int, at: float) -> float:
    """Exact delta at `at` of so many answers about one bit: the number of true ones among them is all that matters."""
    q = 1 / (1 + math.exp(-epsilon))
    true = np.arange(participations + 1)
    one, other = stats.binom.pmf(true, participations, q), stats.binom.pmf(true, participations, 1 - q)
    return float(np.sum(np.maximum(one - math.exp(at) * other, 0.0)))


def test_one_answer_spends_the_whole_epsilon_and_no_delta() -> None:
    for budget in (APPROX, PureDP(epsilon=1.0)):
        protocol = LocalBits.calibrate(budget=budget)
        assert protocol.guarantee.delta == 0.0
        assert 0.999 < protocol.guarantee.epsilon <= 1.0
        assert protocol.guarantee.trust == "local"
        assert protocol.bits_per_user == 1


@pytest.mark.parametrize("participations", [2, 5])
def test_several_answers_meet_the_budget_exactly(participations: int) -> None:
    protocol = LocalBits.calibrate(budget=APPROX, participations=participations)
    assert profile(protocol.epsilon, participations, 1.0) <= 1e-5
    quieter = 2 * math.asinh(math.sinh(protocol.epsilon / 2) / 0.8)  # std 1 / (2 sinh(epsilon/2)), times 0.8
    assert profile(quieter, participations, 1.0) > 1e-5


@pytest.mark.parametrize(
    "budget", [ZCDP(rho=0.1), ZCDP(rho=3.0), RenyiDP(alpha=8.0, epsilon=1.0), PureDP(epsilon=0.2), APPROX]
)
@pytest.mark.parametrize("participations", [1, 3])
def test_every_kind_of_budget_is_met(budget: Budget, participations: int) -> None:
    protocol = LocalBits.calibrate(budget=budget, participations=participations)
    assert accountant.satisfies(RepetitionEvent(event=protocol.event, times=participations), budget)
    louder = LocalBits(epsilon=1.01 * protocol.epsilon)
    assert not accountant.satisfies(RepetitionEvent(event=louder.event, times=participations), budget)
    if participations == 1 and isinstance(budget, ZCDP):  # exact: sup over alpha of the Renyi divergence / alpha
        alphas = np.geomspace(1.0001, 1e3, 2000)
        spent = [PureDP(epsilon=protocol.epsilon).to_renyi(float(a)).epsilon / a for a in alphas]
        assert max(spent) <= budget.rho
    assert LocalBits.calibrate(budget=budget, participations=participations) == protocol


def test_pure_budgets_are_stated_without_delta() -> None:
    for protocol in (LocalBits.calibrate(budget=PureDP(epsilon=1.0), participations=3), LocalBits(epsilon=1.0)):
        assert protocol.guarantee.delta == 0.0
        assert 0.999 < protocol.guarantee.epsilon <= 1.0


@pytest.mark.parametrize("budget", [PureDP(epsilon=1e-12), ZCDP(rho=1e-30), ApproxDP(epsilon=1e-12, delta=1e-14)])
def test_budgets_that_no_coin_keeps_are_refused_by_their_own_name(budget: Budget) -> None:
    with pytest.raises(CalibrationError, match=type(budget).__name__):
        LocalBits.calibrate(budget=budget, participations=3)


def test_both_paths_have_one_law() -> None:
    protocol, bits = LocalBits(epsilon=0.8), np.tile(np.array([1.0, 1.0, 0.0, 1.0, 0.0])[:, None], (6000, 1, 1))
    found = [
        protocol.release(bits, FastNoise(np.random.default_rng(seed)), path=path).total[:, 0]
        for seed, path in ((1, "law"), (2, "messages"))
    ]
    levels = [np.rint(each * protocol.mechanism.truth + 5 * protocol.mechanism.lie).astype(int) for each in found]
    table = [np.bincount(each, minlength=6) for each in levels]
    assert stats.chi2_contingency(np.array(table))[1] > 1e-4
    for each in found:
        assert abs(np.mean(each) - 3) < 5 * protocol.std(5) / math.sqrt(len(each))
        assert np.std(each) == pytest.approx(protocol.std(5), rel=0.05)


def test_the_guarantee_states_who_sees_what() -> None:
    protocol = LocalBits(epsilon=1.0)
    assert "one randomized bit per user" in str(protocol.guarantee)
    assert protocol.release([[1.0], [0.0]], SecureNoise()).count == 2


def test_bad_input_is_refused() -> None:
    protocol = LocalBits(epsilon=1.0)
    with pytest.raises(InvalidStatistic):
        protocol.release([[0.4]], FastNoise(np.random.default_rng(0)), clip=False)
    with pytest.raises(InvalidArgument, match="domain"):
        LocalBits(domain=Box(dim=1), epsilon=1.0)
    with pytest.raises(InvalidBudget, match="budget"):
        LocalBits.calibrate(budget=1.0)  # type: ignore[arg-type]


def test_a_counter_of_bits_needs_a_quarter_of_the_gaussians_noise() -> None:
    counter = bd.agent.ContinualSum(
        horizon=400,
        values=Bits(),
        privacy=bd.local(epsilon=1.0, delta=1e-5),
        source=FastNoise(np.random.default_rng(3)),
    )
    gaussian = LocalGaussian.calibrate(domain=Bits(), budget=APPROX)
    assert counter.predicted_std < 0.27 * gaussian.std(400)
    streams = np.broadcast_to(np.arange(400) % 3 == 0, (500, 400)).astype(float)
    errors = counter.run(streams)[:, -1] - 134
    assert abs(np.mean(errors)) < 5 * counter.predicted_std / math.sqrt(500)
    assert np.std(errors) == pytest.approx(counter.predicted_std, rel=0.15)
    estimates = [counter.update(bit) for bit in streams[0]]
    assert abs(estimates[-1] - 134) < 6 * counter.predicted_std
    assert counter.guarantee.epsilon <= 1.0
    assert counter.guarantee.delta == 0.0


def test_a_counter_of_bits_pays_for_every_participation() -> None:
    counter = bd.agent.ContinualSum(
        horizon=9, values=Bits(), privacy=bd.local(epsilon=1.0, delta=1e-5, participations=3), source=SecureNoise()
    )
    assert isinstance(counter.protocol, LocalBits)
    assert profile(counter.protocol.epsilon, 3, 1.0) <= 1e-5
    assert (counter.guarantee.participations, counter.guarantee.unit) == (3, "user")
    printed = bd.local(epsilon=0.5, delta=1e-5, calibration="paper")
    assert isinstance(bd.agent.ContinualSum(horizon=9, values=Bits(), privacy=printed).protocol, LocalGaussian)


DOMAIN = Ball(dim=3, bound=0.5)
VECTORS = np.array(
    [[0.5, 0.0, -0.0], [0.3, -0.4, 0.0], [0.1, 0.2, 0.3], [1e-300, 0.25, -1e-18], [1 / 3, 2.0**-61, -(2.0**-62)]]
)


@dataclass(frozen=True)
class Coin:
    number: float
    secure: bool

    def uniform(self, shape: tuple[int, ...]) -> Any:
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


def test_public_numbers_are_summed_exactly_at_no_price() -> None:
    protocol, domain = PublicSum(domain=LinearReport(features=2)), LinearReport(features=2)
    reports = domain.statistic(np.array([[0.3, 0.4], [1.0, 0.0]]), np.array([0.5, 0.5]))
    for path in ("messages", "law"):
        estimate = protocol.release(reports, FastNoise(np.random.default_rng(0)), path=path)
        np.testing.assert_allclose(estimate.total, reports.total(), rtol=0, atol=1e-15)
    assert protocol.event == NothingEvent()
    answer = LocalSigns(domain=DOMAIN, epsilon=1.0).event
    assert accountant.epsilon(CompositionEvent(events=(answer, protocol.event)), 0.0) == accountant.epsilon(answer, 0.0)
