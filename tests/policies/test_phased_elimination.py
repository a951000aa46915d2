from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError, CalibrationError, InvalidArgument, InvalidBudget
from bandanna.policies import population
from bandanna.policies.base import PlayedRounds
from bandanna.policies.design import near_optimal_design, optimal_design
from bandanna.policies.population import PhasedElimination, check_promise, phase_protocol_for
from bandanna.policies.registry import ALGORITHMS, make
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle

from .answering import device_coins, told

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
NAMES: dict[str, dict[str, Any]] = {
    "DPE": {},
    "CDP-DPE": BUDGET,
    "LDP-DPE": BUDGET,
    "SDP-DPE": BUDGET,
    "Laplace-DPE": {"epsilon": 1.0},
    "DPE-FixedU": {},
    "PE": {},
}


def sphere(arms: int, dim: int, seed: int = 0) -> np.ndarray:
    """Uniform directions."""
    rows = np.random.default_rng(seed).standard_normal((arms, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_makes_the_trust_model_and_budget_of_its_entry(name: str) -> None:
    policy = make(name, dim=4, horizon=10_000, **NAMES[name])
    assert isinstance(policy, PhasedElimination)
    assert policy.guarantee.trust == ALGORITHMS[name].trust
    if policy.privacy.noisy:
        assert policy.guarantee.epsilon == 1.0
        assert policy.guarantee.delta == (0.0 if name == "Laplace-DPE" else 1e-5)
        assert "local rewards" in str(policy.guarantee)
    else:
        assert math.isinf(policy.guarantee.epsilon)


def test_fixedu_has_97_clients_and_pe_one_for_every_round() -> None:
    fixed, single = (make(name, dim=2, horizon=1000) for name in ("DPE-FixedU", "PE"))
    assert {fixed.count_clients(number) for number in (1, 5, 9)} == {97}
    assert fixed.clients_needed == 97 * fixed.phases
    assert single.episode(single.init(np.eye(2))).answers == 2
    assert single.clients_needed == 1000


def test_the_clients_of_14_phases_are_those_of_table_2() -> None:
    for alpha, printed in ((0.5, 0.04), (0.6, 0.10), (0.7, 0.23), (0.8, 0.55), (0.9, 1.34)):
        policy = PhasedElimination(dim=20, horizon=50_000, alpha=alpha, privacy=none())
        assert policy.phases == 14
        assert round(policy.clients_needed / 1e4, 2) == printed


@pytest.mark.parametrize(("horizon", "phases"), [(1, 0), (2, 1), (5, 1), (6, 2), (13, 2), (14, 3), (10**6, 18)])
def test_as_many_phases_are_planned_as_fit_into_the_horizon(horizon: int, phases: int) -> None:
    assert PhasedElimination(dim=2, horizon=horizon, privacy=none()).phases == phases


@pytest.mark.parametrize("design", ["near", "optimal"])
@pytest.mark.parametrize("arms", [sphere(60, 5), np.vstack([sphere(5, 2)] * 3), sphere(8, 3) @ np.eye(3, 6)])
def test_gain_is_least_squares(arms: np.ndarray, design: str) -> None:
    policy = PhasedElimination(dim=arms.shape[1], horizon=1000, design=design, privacy=none())
    state = dataclasses.replace(policy.init(arms), number=5)
    phase = policy.episode(state)
    x, weights = arms[phase.arms], phase.plays.astype(float)
    if design == "optimal" and len(arms) == 60:  # weights matter only where more actions are played than needed
        assert len(x) > 5
        assert len(set(phase.plays)) > 1
    np.testing.assert_allclose(phase.gain @ x, arms, atol=1e-9)  # a linear model is reproduced
    y = np.random.default_rng(1).standard_normal(len(x))
    theta = np.linalg.lstsq(x * np.sqrt(weights)[:, None], y * np.sqrt(weights), rcond=None)[0]
    np.testing.assert_allclose(phase.gain @ y, arms @ theta, atol=1e-9)
    assert phase.design is not None
    assert phase.design.g <= 2 * np.linalg.matrix_rank(arms) * (1 + 1e-8)
    np.testing.assert_array_less(31.999, np.sum(phase.plays))


@pytest.mark.parametrize(
    ("name", "number"),
    [("DPE", 6), ("DPE", 11), ("CDP-DPE", 6), ("LDP-DPE", 6), ("SDP-DPE", 6), ("Laplace-DPE", 6)],
)
def test_widths_cover_the_error(name: str, number: int) -> None:
    """An estimate is farther from the truth than the width more often than `failure`, or never near it.

    1000 simulated phases with failure 0.05 for one action (each width is the largest over all actions, so the rate
    that is seen is far below it); half of the width must be exceeded sometimes, or the width says nothing. In phase 11
    who the clients are is the largest part of the error.
    """
    policy = make(name, dim=3, horizon=1000, failure=0.05, sigma=0.2, **NAMES[name])
    arms = sphere(12, 3, seed=3)
    state = dataclasses.replace(policy.init(arms), number=number)
    phase = policy.episode(state)
    rng = np.random.default_rng(2)
    theta = np.array([0.3, -0.2, 0.1])
    protocol = policy.protocol(phase)
    errors = np.empty((1000, len(arms)))
    for some in np.split(np.arange(len(errors)), 20):
        users = theta + 0.2 * rng.standard_normal((len(some), phase.clients, 3))
        means = users @ arms[phase.arms].T
        reports = 2 * rng.binomial(phase.plays, np.clip((1 + means) / 2, 0, 1)) / phase.plays - 1
        released = protocol.release(reports, FastNoise(rng)).total / phase.clients
        errors[some] = released @ phase.gain.T - arms @ theta
    width = policy.compute_width(state, phase)
    rates = np.mean(errors > width, axis=0)
    assert np.max(rates) <= 0.05
    assert np.max(np.mean(np.abs(errors) > width / 2, axis=0)) > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_printed_widths_are_wider(name: str) -> None:
    arms = sphere(40, 4)
    widths = []
    for confidence in ("exact", "paper"):
        policy = make(name, dim=4, horizon=1000, confidence=confidence, **NAMES[name])
        state = dataclasses.replace(policy.init(arms), number=7)
        widths.append(policy.compute_width(state, policy.episode(state)))
    assert 0 < widths[0] <= widths[1]


@pytest.mark.parametrize(("name", "spread"), [("CDP-DPE", 1.0), ("LDP-DPE", 4.0)])
def test_printed_width_of_noise_by_hand(name: str, spread: float) -> None:
    """2 sigma_nc sqrt(S d), or sqrt(U) times that in the local model."""
    policy = make(name, dim=4, horizon=1000, confidence="paper", calibration="paper", epsilon=0.5, delta=1e-5)
    state = dataclasses.replace(policy.init(sphere(40, 4)), number=5)
    phase = policy.episode(state)
    clear = PhasedElimination(dim=4, horizon=1000, confidence="paper", privacy=none())
    std = 2 * math.sqrt(2 * len(phase.arms) * math.log(1.25e5)) / (0.5 * 16)  # [001, Thm 4.2]
    limit = 16 * math.log(math.log(4)) + 16
    expected = 2 * spread * std * math.sqrt(limit * 4) * math.sqrt(2 * math.log(40 * 1000))
    assert policy.compute_width(state, phase) - clear.compute_width(state, phase) == pytest.approx(expected)


def test_printed_width_by_hand() -> None:
    """Equation (3) of [001]."""
    policy = PhasedElimination(dim=4, horizon=1000, confidence="paper", sigma=0.1, privacy=none())
    arms = sphere(40, 4)
    state = dataclasses.replace(policy.init(arms), number=5)
    clients = 16
    expected = (math.sqrt(8 / (clients * 32)) + 0.1 / 4) * math.sqrt(2 * math.log(40 * 1000))
    assert policy.compute_width(state, policy.episode(state)) == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
@pytest.mark.parametrize(("actions", "clients"), [(1, 2), (3, 10), (25, 2), (25, 776), (40, 37_641)])
def test_shuffled_noise_is_at_most_two_percent_above_central_noise(epsilon: float, actions: int, clients: int) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=0.1)
    spent = {"epsilon": epsilon, "delta": 0.1}
    shuffled = phase_protocol_for(shuffle(**spent), actions=actions, clients=clients, bound=1.0)
    trusted = phase_protocol_for(central(**spent), actions=actions, clients=clients, bound=1.0)
    assert trusted.std(clients) <= shuffled.std(clients) * (1 + 1e-9)
    assert shuffled.std(clients) <= 1.02 * trusted.std(clients)
    for protocol in (shuffled, trusted):
        assert accountant.satisfies(protocol.event, budget)


@pytest.mark.parametrize(
    "privacy", [central(**BUDGET), local(**BUDGET), shuffle(**BUDGET), central(epsilon=10.0, delta=0.1)]
)
def test_a_protocol_with_a_fifth_less_noise_is_refused(privacy: Any) -> None:
    policy = PhasedElimination(dim=3, horizon=1000, privacy=privacy)
    protocol: Any = phase_protocol_for(privacy, actions=5, clients=30, bound=1.0)
    check_promise(protocol, privacy, policy.guarantee)
    if privacy.model == "shuffle":
        weak = dataclasses.replace(protocol.noise, trials=int(0.64 * protocol.noise.trials))
        weaker = dataclasses.replace(protocol, noise=weak)
    else:
        weaker = dataclasses.replace(protocol, noise_std=0.8 * protocol.noise_std)
    with pytest.raises(CalibrationError):
        check_promise(weaker, privacy, policy.guarantee)


def test_a_phase_with_less_noise_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = PhasedElimination(dim=3, horizon=1000, privacy=central(**BUDGET))
    phase = policy.episode(policy.init(sphere(10, 3)))
    enough: Any = policy.protocol(phase)
    weaker = dataclasses.replace(enough, noise_std=0.8 * enough.noise_std)
    monkeypatch.setattr(population, "phase_protocol_for", lambda *_, **__: weaker)
    fresh = dataclasses.replace(policy)  # which has confirmed nothing
    with pytest.raises(CalibrationError, match="not within the promise"):
        fresh.protocol(phase)


def test_at_epsilon_10_the_classical_formula_is_not_used() -> None:
    protocol: Any = phase_protocol_for(central(epsilon=10.0, delta=0.1), actions=20, clients=5, bound=1.0)
    classical = protocol.domain.sensitivity * math.sqrt(2 * math.log(12.5)) / 10
    assert protocol.noise_std > 1.2 * classical
    assert accountant.epsilon(protocol.event, 0.1) == pytest.approx(10, rel=1e-4)
    printed = dataclasses.replace(protocol, noise_std=classical)
    assert accountant.epsilon(printed.event, 0.1) > 14


def test_laplace_dpe_has_no_delta() -> None:
    policy = make("Laplace-DPE", dim=3, horizon=1000, epsilon=0.5)
    arms = sphere(10, 3)
    protocol = policy.protocol(policy.episode(policy.init(arms)))
    assert accountant.epsilon(protocol.event, 0.0) <= 0.5
    assert accountant.satisfies(protocol.event, PureDP(epsilon=0.5))
    assert protocol.guarantee.delta == 0.0


def test_printed_noise_is_that_of_theorem_4_2_and_states_its_true_epsilon() -> None:
    policy = make("CDP-DPE", dim=3, horizon=1000, calibration="paper", epsilon=0.5, delta=1e-5)
    protocol: Any = policy.protocol(policy.episode(policy.init(sphere(10, 3))))
    s = protocol.domain.dim
    assert protocol.noise_std == pytest.approx(2 * math.sqrt(2 * s * math.log(1.25e5)) / 0.5)
    assert policy.guarantee.epsilon < 0.5
    assert accountant.epsilon(protocol.event, 1e-5) <= policy.guarantee.epsilon


def test_a_zcdp_budget_is_kept_and_stated() -> None:
    policy = make("LDP-DPE", dim=3, horizon=1000, rho=0.5)
    protocol = policy.protocol(policy.episode(policy.init(sphere(10, 3))))
    assert accountant.rho(protocol.event) <= 0.5
    assert accountant.epsilon(protocol.event, policy.guarantee.delta) <= policy.guarantee.epsilon


@pytest.mark.parametrize(
    "arguments",
    [
        {"privacy": concurrent(epsilon=1.0, delta=1e-5)},
        {"privacy": shuffle(epsilon=1.0, delta=1e-5, protocol="gaussian")},
        {"privacy": central(epsilon=1.0, delta=1e-5, participations=2)},
        {"privacy": local(epsilon=1.0, delta=0.0)},
        {"privacy": central(epsilon=1.0, delta=1e-5), "per_round": True},
        {"privacy": shuffle(epsilon=1.0, delta=1e-5), "clients": 1},
        {"alpha": 0.0},
        {"alpha": 40.0, "horizon": 1000},
        {"alpha": 70.0, "horizon": 1},
        {"clients": 0},
        {"sigma": -1.0},
        {"noise": 0.0},
        {"bound": math.inf},
        {"failure": 1.0},
        {"confidence": "other"},
        {"design": "other"},
        {"horizon": 0},
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, InvalidBudget)):
        PhasedElimination(**({"dim": 3, "horizon": 100, "privacy": none()} | arguments))


@pytest.mark.parametrize("arms", [np.zeros((2, 2)), [[1.0, math.nan, 0.0]], np.eye(2), [[1.0, 0.1, 0.0]]])
def test_bad_actions_are_refused(arms: Any) -> None:
    with pytest.raises(BandannaError, match="arms"):
        PhasedElimination(dim=3, horizon=100, privacy=none()).init(arms)


@pytest.mark.parametrize(
    ("averages", "message"),
    [
        ([0.1, math.nan, 0.1], r"averages\[1\] must be finite numbers.*, got a float that is not finite"),
        (
            np.zeros(2),
            r"averages must be an array of shape \(3,\), one average for each action.*, got an array of shape \(2,\)",
        ),
        (np.zeros((1, 3)), r"averages must be an array of shape \(3,\).*, got an array of shape \(1, 3\)"),
    ],
)
def test_bad_averages_are_refused(averages: Any, message: str) -> None:
    policy = PhasedElimination(dim=3, horizon=100, privacy=none())
    state = policy.init(np.eye(3))
    with pytest.raises(InvalidArgument, match=message):
        told(policy, state, policy.episode(state), averages)


def test_phases_are_learned_once_and_in_order() -> None:
    policy = PhasedElimination(dim=3, horizon=100, privacy=none())
    first = policy.init(np.eye(3))
    phase = policy.episode(first)
    second = told(policy, first, phase, np.zeros(3))
    with pytest.raises(InvalidArgument, match=r"phase.number must be 2, the phase planned from this state, got 1"):
        told(policy, second, phase, np.zeros(3))


def test_reports_are_clipped_averages_or_single_rewards() -> None:
    policy, coins = PhasedElimination(dim=3, horizon=100, bound=0.5, privacy=none()), device_coins()
    state = policy.init(np.eye(3))
    ask = next(policy.learn(state, policy.episode(state)))
    report = policy.report(ask, PlayedRounds(rewards=np.array([[0.1, 0.9, -2.0], [0.5, -0.5, 0.0]])), coins)
    assert report.values.tolist() == [[0.1, 0.5, -0.5], [0.5, -0.5, 0.0]]
    assert report.clipped == 1
    with pytest.raises(BandannaError, match="finite"):
        policy.report(ask, PlayedRounds(rewards=np.full((1, 3), math.nan)), coins)
    single = PhasedElimination(dim=3, horizon=100, per_round=True, privacy=none())
    ask = next(single.learn(single.init(np.eye(3)), single.episode(single.init(np.eye(3)))))
    rows = PlayedRounds(rewards=np.array([1.0, -1.0]), arms=np.array([2, 0]), counts=np.array([3, 5]))
    assert single.report(ask, rows, coins).total().tolist() == [-5.0, 0.0, 3.0]


def test_a_phase_has_at_least_two_clients() -> None:
    policy = PhasedElimination(dim=3, horizon=100, alpha=1e-16, privacy=shuffle(**BUDGET))
    assert policy.count_clients(1) == 2
    assert policy.protocol(policy.episode(policy.init(np.eye(3)))).std(2) > 0


@pytest.mark.parametrize(("name", "found"), [("near", near_optimal_design), ("optimal", optimal_design)])
def test_kept_designs_are_those_of_the_arms(name: str, found: Any) -> None:
    rng = np.random.default_rng(3)
    for rows in (rng.normal(size=(n, 3)) / 9 for n in (9, 12, 9)):
        policy = PhasedElimination(dim=3, horizon=100, design=name, privacy=none())
        for arms in (rows, 0.5 * rows, rows):
            kept, own = policy.episode(policy.init(arms)).design, found(arms)
            assert kept is not None
            assert (kept.g, kept.rank) == (own.g, own.rank)
            for each in ("support", "weights", "coordinates"):
                assert np.array_equal(getattr(kept, each), getattr(own, each))
