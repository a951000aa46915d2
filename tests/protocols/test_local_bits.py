"""Sums of bits in the local model: exact privacy, one law along both paths, calibration for every kind of budget."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.device.domain import Bits, Box
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import CalibrationError, InsecureSource, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import RepetitionEvent
from bandanna.protocols.gaussian import LocalGaussian
from bandanna.protocols.randomized_response import LocalBits

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
    """A user's answers together tell more than (epsilon, delta); with a fifth less noise they do."""
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


def test_it_is_a_value_that_says_who_sees_what() -> None:
    protocol = LocalBits(epsilon=1.0)
    assert protocol == copy.copy(protocol) == pickle.loads(pickle.dumps(protocol))
    assert "one randomized bit per user" in str(protocol.guarantee)
    assert protocol.release([[1.0], [0.0]], SecureNoise()).count == 2


def test_bad_input() -> None:
    """What is no bit is summed, a simulator's path runs on a secure source, or a budget that is none is met."""
    protocol = LocalBits(epsilon=1.0)
    with pytest.raises(InvalidStatistic):
        protocol.release([[0.4]], FastNoise(np.random.default_rng(0)), clip=False)
    with pytest.raises(InsecureSource):
        protocol.release([[1.0]], SecureNoise(), path="law")
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
