from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.errors import ClippingWarning, InvalidArgument, InvalidBudget
from bandanna.numeric.rng import Streams
from bandanna.policies.base import PlayedRounds, RunnerState, SumQuery, drive_learning
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPConstants
from bandanna.policies.registry import make
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.protocols.privacy_model import central, local, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.environments.recorded import ArrayEnvironment
from bandanna.simulation.players.round_by_round import SeedPrefixSums

from .answering import COINS

BUDGET = ApproxDP(epsilon=4.0, delta=1e-3)
SETTING = {"dim": 3, "horizon": 600, "link": "probit", "parameter_bound": 2.0, "kappa": 18.39, "failure": 0.05}
BUSY = GLMJDPConstants(
    share=0.4,
    steps=3,
    calls_o=4,
    calls_tau=5,
    regulariser_v=12.0,
    regulariser_h=3.0,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)


def policy_of(**changes: object) -> GLMJDP:
    """A policy that explores and refits within 600 rounds."""
    return GLMJDP(**{**SETTING, "privacy": central(budget=BUDGET), "constants": BUSY, **changes})


def exact_epsilon(
    policy: GLMJDP, calls: int, std: float, delta: float, leaf: float = 1.0, gradient: float = 2.0
) -> float:
    """epsilon of the ideal noise by dp-accounting: all prefixes of the matrices, and `calls` estimates.

    Of a leaf that moves by so much, and gradients by so much: by default, of weights 0 and 1 and opposite features.
    """
    matrices = policy.mechanisms.matrices
    change = leaf * matrices.factorisation.sensitivity()
    loss = pld.from_gaussian_mechanism(matrices.noise_std / change, value_discretization_interval=1e-3)
    gradients = pld.from_gaussian_mechanism(std / gradient, value_discretization_interval=1e-3)
    return float(loss.compose(gradients.self_compose(calls * policy.used.steps)).get_epsilon_for_delta(delta))


@pytest.mark.parametrize("mechanism", ["blt", pytest.param("tree", marks=pytest.mark.full)])
def test_the_composed_price_is_the_budget(mechanism: str) -> None:
    policy = policy_of(privacy=central(budget=BUDGET, mechanism=mechanism))
    assert policy.guarantee.epsilon <= BUDGET.epsilon
    assert policy.guarantee.epsilon == pytest.approx(BUDGET.epsilon, rel=2e-3)
    for optimiser in (policy.mechanisms.estimate_o, policy.mechanisms.estimate_tau):
        exact = exact_epsilon(policy, optimiser.calls, optimiser.std, BUDGET.delta)
        assert exact == pytest.approx(BUDGET.epsilon, rel=2e-3)
        for cosine in (0.375, 0.99):
            moves = math.sqrt(2 - 2 * cosine**2), math.sqrt(2 + 2 * cosine)
            assert exact_epsilon(policy, optimiser.calls, optimiser.std, BUDGET.delta, *moves) < 0.98 * exact


def test_a_fifth_less_noise_breaks_the_budget() -> None:
    mechanisms = policy_of().mechanisms

    def quieter(protocol: Any) -> Any:
        return replace(protocol, noise_std=0.8 * protocol.noise_std)

    o, tau = mechanisms.estimate_o, mechanisms.estimate_tau
    louder = [
        replace(mechanisms, matrices=quieter(mechanisms.matrices)),
        replace(mechanisms, estimate_o=replace(o, protocol=quieter(o.protocol))),
        replace(mechanisms, estimate_tau=replace(tau, protocol=quieter(tau.protocol))),
    ]
    assert mechanisms.satisfies(BUDGET)
    for each in louder:
        assert not each.satisfies(BUDGET)
        assert each.guarantee(BUDGET.delta).epsilon > 1.04 * BUDGET.epsilon


def test_a_flip_of_criterion_one_costs_no_more() -> None:
    explored, exploited, flipped = (accountant.rho(life) for life in policy_of().mechanisms.lives)
    assert explored == pytest.approx(exploited, rel=1e-3)
    assert flipped < explored
    matrices = accountant.rho(policy_of().mechanisms.matrices.event)
    o, tau = policy_of().mechanisms.estimate_o, policy_of().mechanisms.estimate_tau
    whole = accountant.rho(o.event), accountant.rho(tau.event)
    assert flipped - matrices == pytest.approx(sum(whole) / 4, rel=1e-3)
    assert explored == pytest.approx(matrices / 2 + whole[0], rel=1e-3)  # at a share of 0.4: weights 0 and 1


def test_a_zcdp_budget_is_met_exactly() -> None:
    policy = make("GLM-JDP", **SETTING, rho=0.5)
    assert max(accountant.rho(life) for life in policy.mechanisms.lives) == pytest.approx(0.5, rel=1e-3)
    assert policy.mechanisms.satisfies(ZCDP(rho=0.5))
    assert make("GLM-JDP", **SETTING, epsilon=1.0, delta=1e-5).guarantee.epsilon <= 1.0
    with pytest.raises(InvalidBudget):
        GLMJDP(**SETTING, privacy=central(epsilon=math.inf, delta=0.1))
    with pytest.raises(InvalidBudget):
        make("GLM-JDP", **SETTING, epsilon=1.0)


def test_leaves_move_by_at_most_root_two() -> None:
    policy, rng = policy_of(), np.random.default_rng(1)
    domain = policy.mechanisms.leaves
    x = rng.normal(size=(2, 5000, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1))[..., None]
    x[:, 0] = [[1.0, 0, 0], [0, 1.0, 0]]
    theta = np.zeros(3)
    leaves = [domain.stack(each, policy.leaf_weights(theta, each), rng.random(5000) < 0.5) for each in x]
    assert np.max(np.linalg.norm(leaves[0] - leaves[1], axis=-1)) <= policy.stream.mechanism.sensitivity + 1e-12
    ends = [
        domain.stack(each[:1], np.full(1, 1e9), np.array([flag])) for each, flag in zip(x, (True, False), strict=True)
    ]
    assert float(np.linalg.norm(ends[0] - ends[1])) == pytest.approx(math.sqrt(2))
    v, h = policy.matrices(ends[0][0] + ends[1][0])
    np.testing.assert_allclose(v, np.diag([1.0, 0, 0]) + 12 * np.eye(3), atol=1e-12)
    np.testing.assert_allclose(h, policy.model.slope_bound / math.e * np.diag([0, 1.0, 0]) + 3 * np.eye(3), atol=1e-12)
    reports = domain.statistic(1e3 * x[0], np.full(5000, 1e9), rng.random(5000) < 0.5).values
    assert np.max(np.linalg.norm(reports, axis=-1)) <= 1 + 1e-12
    np.testing.assert_allclose(domain.project(reports), reports, atol=1e-12)
    inside = domain.project(rng.normal(size=(400, 12)))
    assert np.max(np.linalg.norm(inside[:200] - inside[200:], axis=-1)) <= domain.sensitivity + 1e-9
    wild = policy.weights(rng.normal(size=3) * 1e6, x[0])
    assert np.max(wild) <= policy.model.slope_bound / math.e


def test_outgrown_is_the_loewner_order() -> None:
    policy, rng = policy_of(), np.random.default_rng(2)
    roots = rng.normal(size=(2, 400, 3, 3))
    matrix, snapshot = roots @ np.swapaxes(roots, -1, -2) + 0.5 * np.eye(3)
    ratio = np.linalg.eigvals(np.linalg.solve(snapshot, matrix)).real.max(axis=-1)
    np.testing.assert_array_equal(policy._exceeds_twice(matrix, snapshot), ratio > 2)


def test_both_paths_are_the_same_run() -> None:
    policy, env = policy_of(horizon=300), PublishedGLM(rounds=300)
    law = simulate(policy, env, n_seeds=2, seed=3)
    messages = simulate(policy, env, n_seeds=2, seed=3, path="messages")
    np.testing.assert_allclose(law.regret, messages.regret, rtol=1e-9)
    for name, counts in law.counts.items():
        np.testing.assert_array_equal(counts, messages.counts[name])
    assert np.all(law.counts["explorations"] > 10)
    assert np.all(law.counts["switches"] > 1)
    assert np.all(law.counts["refits of theta_o"] > 0)
    alone = simulate(policy, env, n_seeds=1, seed=4)
    np.testing.assert_allclose(alone.regret[0], law.regret[1], rtol=1e-9)


def test_used_up_budgets_freeze_an_estimate() -> None:
    policy = policy_of(
        constants=replace(BUSY, calls_o=1, calls_tau=2, regulariser_v=2.0, regulariser_h=0.5, threshold=0.2)
    )
    counts = simulate(policy, PublishedGLM(rounds=600), n_seeds=3).counts
    assert counts["refits of theta_o"].tolist() == [1, 1, 1]
    assert counts["switches"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("rounds", "epsilons"), [(800, (1.0, 16.0)), pytest.param(2500, (1.0, 4.0, 16.0), marks=pytest.mark.full)]
)
def test_regret_falls_with_epsilon(rounds: int, epsilons: tuple[float, ...]) -> None:
    """Means of 6 seeds on the paper's first instance; budgets far apart."""
    env = PublishedGLM(norm=2.0, rounds=rounds)
    setting = {**SETTING, "horizon": rounds, "kappa": env.kappa}
    regrets = [
        float(np.mean(simulate(make("GLM-JDP", **setting, epsilon=e, delta=0.02), env, n_seeds=6).regret[:, -1]))
        for e in epsilons
    ]
    assert regrets == sorted(regrets, reverse=True)


@pytest.mark.often(when=lambda preset, link: link == "logistic" or preset == "tuned")
@pytest.mark.parametrize("preset", ["tuned", "greedy", "paper"])
@pytest.mark.parametrize("link", ["logistic", "linear"])
def test_equal_arms_and_certain_rewards_give_no_nan_and_no_warning(preset: str, link: str) -> None:
    arms = np.tile([0.6, 0.8], (40, 4, 1))
    policy = GLMJDP(dim=2, horizon=40, link=link, parameter_bound=3.0, privacy=central(budget=BUDGET), preset=preset)
    for value in (0.0, 1.0):
        result = simulate(policy, ArrayEnvironment(arms=arms, means=np.full((40, 4), value)), n_seeds=2)
        np.testing.assert_allclose(result.regret, 0.0, atol=1e-12)
    fresh = GeneralisedLinear(dim=2, n_arms=3, link="logistic", norm=3.0)
    assert np.all(np.isfinite(simulate(policy, fresh, n_seeds=2).regret))


def test_no_rows_are_an_estimate_of_nothing() -> None:
    policy, desk = policy_of(), RunnerState()
    state = replace(policy.init(), rounds=np.array(10), released=np.array([20.0, 0, 0, 20.0, 0, 20.0] + [0.0] * 6))
    nobody = PlayedRounds(features=np.ones((1, 3)), rewards=np.ones(1), groups=np.array([1]))

    def answer(query: SumQuery) -> Estimate:
        report = policy.report(query, desk.rows(query, nobody), COINS)
        return desk.release(query, report, FastNoise(np.random.default_rng(0)), path="law")[1]

    settled = drive_learning(policy.refit(state), answer)
    theta = settled.theta_o
    assert (int(settled.calls_o), int(settled.calls_tau)) == (1, 0)
    assert np.all(np.isfinite(theta))
    assert np.linalg.norm(theta) <= 2.0 + 1e-12
    assert np.linalg.norm(theta) > 0


def test_the_noise_that_runs_has_the_priced_spread() -> None:
    policy, env = policy_of(), PublishedGLM(rounds=600)
    world = env.begin(Streams(range(60)))
    seeds = SeedPrefixSums(policy.stream, ReplicatedNoise(world.streams), 60)
    seeds.draw(600)
    for step in (1, 40, 600):
        expected = math.sqrt(float(policy.stream.mechanism.prefix_variance(step)))
        drawn = seeds.noise[:, step].ravel()  # 60 seeds, 12 coordinates
        assert abs(float(np.std(drawn)) / expected - 1) < 5 / math.sqrt(2 * len(drawn))
    optimiser = replace(policy.mechanisms.estimate_tau, steps=1, parameter_bound=1e9)
    nothing = np.zeros((2000, 1, 3))
    moved = optimiser.minimise(
        nothing,
        np.full((2000, 1), 0.5),
        FastNoise(np.random.default_rng(0)),
        count=1,
        ridge=1e-9,
        matrix=np.eye(3),
    )
    assert abs(float(np.std(moved)) / optimiser.std - 1) < 5 / math.sqrt(2 * moved.size)


@pytest.mark.parametrize(
    ("name", "budget"), [("GLM-JDP", {"epsilon": 8.0, "delta": 0.02}), ("AdaC-OFUL-JDP", {"rho": 1.0})]
)
def test_no_size_of_a_private_group_is_refused(name: str, budget: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="horizon"):
        make(name, dim=3, horizon=10**10, **budget).init()
    policy: Any = make(name, dim=3, horizon=10**9, **budget)
    policy.init()
    estimate = policy.vector if name == "AdaC-OFUL-JDP" else policy.mechanisms.estimate_o.protocol
    estimate.check_users(10**9)  # everybody in one group


def test_values_out_of_range_are_clipped_and_counted() -> None:
    arms = np.tile([[3.0, 0.0, 0.0], [0.0, 0.5, 0.0]], (50, 1, 1))
    env = ArrayEnvironment(arms=arms, means=np.full((50, 2), 0.5))
    policy = policy_of(horizon=50)
    with pytest.warns(ClippingWarning):
        wild = simulate(policy, env, n_seeds=2)
    assert np.all(wild.clipped > 0)
    calm = simulate(policy, ArrayEnvironment(arms=arms / [[[3.0], [1.0]]], means=np.full((50, 2), 0.5)), n_seeds=2)
    np.testing.assert_array_equal(calm.clipped, [0, 0])
    np.testing.assert_array_equal(wild.rewards, calm.rewards)


def test_a_report_has_the_arm_s_features_and_the_reward() -> None:
    result = simulate(policy_of(horizon=20), PublishedGLM(rounds=20), n_seeds=1)
    assert result.numbers_per_user == 3 + 1  # the arm's features and the reward
    assert result.bits_per_user == 64 * (3 + 1) + 1  # and whether the round explored


def test_the_worst_life_is_stated() -> None:
    for budget in (BUDGET, ZCDP(rho=0.3)):
        policy = policy_of(privacy=central(budget=budget))
        stated = policy.guarantee
        for life in policy.mechanisms.lives:
            assert accountant.epsilon(life, stated.delta) <= stated.epsilon
            assert accountant.rho(life) <= stated.rho
            assert accountant.satisfies(life, budget)


@pytest.mark.parametrize(
    "privacy", [none(), local(epsilon=1.0, delta=1e-5), central(epsilon=1.0, delta=1e-5, participations=2)]
)
def test_unsupported_privacy_models_are_refused(privacy: object) -> None:
    with pytest.raises(InvalidArgument, match=r"privacy|participations"):
        policy_of(privacy=privacy)
