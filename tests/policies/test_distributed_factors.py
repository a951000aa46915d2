"""Factors of phased elimination by hand: how wide an estimate is after a phase, and how long phases are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Box
from bandanna.policies import population
from bandanna.policies.population import PhasedElimination, Uncertainty, exact_width, phase_protocol_for, printed_width
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import Privacy, central, none

from .answering import told

KNOWN = Uncertainty(
    gain=np.array([[1.0, 0.0], [0.5, 2.0]]),
    plays=np.array([4, 8]),
    lengths=np.array([1.0, 0.5]),
    played=np.array([1.0, 0.75]),
    clients=10,
    sigma=0.5,
    noise=2.0,
)
AVERAGED = np.array([(4 * (1 / 4) + 0.25 * 1.0) / 10, (4 * (0.25 / 4 + 4 / 8) + 0.25 * 0.25) / 10])
SQUARES = np.array([1.0, 4.25])
LOG = 3.0
CLEAR = none()


def test_variances_are_those_computed_by_hand() -> None:
    """v_b = tau^2/U sum c^2/T + sigma^2 |b|^2/U."""
    np.testing.assert_allclose(KNOWN.averaged(), AVERAGED)
    alone = [1 / 4 * (4 + 0.25), 0.25 / 4 * (4 + 0.25) + 4 / 8 * (4 + 0.25 * 0.75**2)]
    np.testing.assert_allclose(KNOWN.one_by_one(), alone)


def test_the_width_of_gaussian_noise_by_hand() -> None:
    """W = max_b sqrt(2 v_b log(1/beta))."""
    protocol = CentralGaussian(domain=Box(dim=2, low=-1.0, high=1.0), noise_std=4.0, delta=1e-5)
    wanted = math.sqrt(2 * float(np.max(AVERAGED + 0.4**2 * SQUARES)) * LOG)
    assert exact_width(KNOWN, protocol, LOG) == pytest.approx(wanted, rel=1e-6)
    quiet = CentralGaussian(domain=Box(dim=2, low=-1.0, high=1.0), noise_std=1e-6, delta=1e-5)
    assert exact_width(KNOWN, quiet, LOG) == pytest.approx(math.sqrt(2 * float(np.max(AVERAGED)) * LOG), rel=1e-6)


def test_the_width_of_laplace_noise_by_hand() -> None:
    """W is the least of Chernoff's bounds over multipliers t, searched finely by another route."""
    protocol = CentralLaplace.calibrate(domain=Box(dim=2, low=-1.0, high=1.0), users=10, **_pure(1.0))
    scale = 4.0 / 10  # l1 diameter 2 B s over epsilon, of a mean
    assert math.prod(protocol.laplace) == pytest.approx(4.0, rel=1e-3)
    widths = []
    for variance, square, peak in zip(AVERAGED, SQUARES, np.array([1.0, 2.0]) * scale, strict=True):
        t = np.linspace(1e-3, 0.999, 20_000) / peak
        terms = scale**2 * square / peak**2
        widths.append(np.min((LOG + t**2 * variance / 2 - terms * np.log(1 - (t * peak) ** 2)) / t))
    assert exact_width(KNOWN, protocol, LOG) == pytest.approx(max(widths), rel=2e-3)


def _pure(epsilon: float) -> dict[str, Any]:
    budget = central(epsilon=epsilon, delta=0.0).budget
    assert budget is not None
    return {"budget": budget}


def test_the_printed_width_by_hand() -> None:
    """W = (sqrt(2 d tau^2/(U h)) + sigma/sqrt U + 2 s sqrt(S d)) sqrt(2 log(1/beta)) [001, (3)]."""
    protocol = CentralGaussian(domain=Box(dim=2, low=-1.0, high=1.0), noise_std=4.0, delta=1e-5)
    parts = 2.0 * math.sqrt(2 * 6 / (10 * 16)) + 0.5 / math.sqrt(10)
    support = 4 * 6 * math.log(math.log(6)) + 16
    parts += 2 * 0.4 * math.sqrt(support * 6)
    found = printed_width(KNOWN, protocol, LOG, dim=6, scale=16.0)
    assert found == pytest.approx(parts * math.sqrt(2 * LOG), rel=1e-6)


def phased(privacy: Privacy = CLEAR, **changes: Any) -> PhasedElimination:
    """Of three features."""
    given: dict[str, Any] = {"dim": 3, "horizon": 1000, "failure": 0.05, "sigma": 0.3, "noise": 1.5}
    return PhasedElimination(**given | changes, privacy=privacy)


def test_the_width_of_single_rounds_by_hand() -> None:
    """As printed: sqrt(2 log(1/beta) 2 d (tau^2 + sigma^2) / h_l)."""
    log = math.log(20)
    policy = phased(per_round=True, confidence="paper")
    state = policy.init(arms=np.eye(3))
    assert policy.compute_width(state, policy.episode(state)) == pytest.approx(
        math.sqrt(2 * log * 2 * 3 * (1.5**2 + 0.3**2) / 2)
    )
    exact = phased(per_round=True)
    episode = exact.episode(state)
    single = (1.5**2 + 0.3**2) / float(np.min(episode.plays))
    assert exact.compute_width(state, episode) == pytest.approx(math.sqrt(2 * log * single))


def test_the_width_of_a_phase_has_the_clients_deviation() -> None:
    policy = phased(clients=50, sigma=0.3, noise=1e-9)
    state = policy.init(arms=np.eye(3))
    found = policy.compute_width(state, policy.episode(state))
    assert found == pytest.approx(math.sqrt(2 * 0.09 / 50 * math.log(20)), rel=1e-6)
    printed = phased(clients=50, sigma=0.0, noise=1.5, confidence="paper")
    found = printed.compute_width(state, printed.episode(state))
    assert found == pytest.approx(1.5 * math.sqrt(2 * 3 / (50 * 2)) * math.sqrt(2 * math.log(20)), rel=1e-6)
    assert PhasedElimination(dim=3, horizon=10, privacy=none()).sigma == 0.1


@pytest.mark.parametrize(("gap", "left"), [(1.99, 3), (2.01, 2)])
def test_actions_leave_two_widths_below_the_best(gap: float, left: int) -> None:
    policy = phased(clients=50)
    state = policy.init(arms=np.eye(3))
    episode = policy.episode(state)
    averages = np.array([0.9, 0.9, 0.9 - gap * policy.compute_width(state, episode)])
    after = told(policy, state, episode, averages[episode.arms] * 50)
    assert len(after.active) == left


def test_a_phase_has_as_many_rounds_as_its_level_says() -> None:
    policy = phased(horizon=10**4)
    state = policy.init(arms=np.eye(3))
    for level in (4, 5):
        later = type(state)(arms=state.arms, active=state.active, number=level)
        np.testing.assert_array_equal(policy.episode(later).plays, np.ceil(2**level / 3))
        nothing = type(state)(arms=np.zeros((2, 3)), active=np.arange(2), number=level)
        np.testing.assert_array_equal(policy.episode(nothing).plays, 2**level)


def test_reports_have_a_number_for_every_action() -> None:
    privacy = central(rho=0.5)
    made = phase_protocol_for(privacy, actions=16, clients=100, bound=1.5)
    assert made.domain.dim == 16
    assert made.std(100) == pytest.approx(2 * 1.5 * 4, rel=1e-3)  # 2 B sqrt(s) / mu, mu = 1


def test_the_promise_covers_every_action_of_a_design(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = population.compute_promised_guarantee

    def promise(privacy: Privacy, *, most_actions: int, most_clients: int, bound: float) -> Guarantee:
        asked.append(most_actions)
        return real(privacy, most_actions=most_actions, most_clients=most_clients, bound=bound)

    monkeypatch.setattr(population, "compute_promised_guarantee", promise)
    for design in ("near", "optimal"):
        _ = phased(central(rho=0.5), dim=9, design=design).guarantee
    assert asked == [math.floor(4 * 9 * math.log(math.log(9)) + 16), 45]
