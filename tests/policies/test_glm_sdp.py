from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.rng import Streams
from bandanna.policies.design import near_optimal_design
from bandanna.policies.glm.base import compute_designs
from bandanna.policies.glm.batched import BGLinUCB
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.links import Binomial, Link, TruncatedPoisson
from bandanna.policies.registry import make
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.privacy_model import shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear
from bandanna.simulation.environments.recorded import ArrayEnvironment

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)
SETTING = {"dim": 3, "horizon": 4000, "link": "logistic", "parameter_bound": 2.0}
WORLD = GeneralisedLinear(dim=3, n_arms=10, link="logistic", norm=2.0)


def policy_of(**changes: object) -> GLMSDP:
    """At (1, 1e-5), with 4000 rounds."""
    return GLMSDP(**{**SETTING, "privacy": shuffle(budget=BUDGET), **changes})


def test_every_batch_keeps_the_budget() -> None:
    policy = policy_of()
    for batch in range(len(policy.sizes) - 1):
        mechanisms = policy.mechanisms(batch)
        spent = accountant.epsilon(mechanisms.event, BUDGET.delta)
        assert spent <= BUDGET.epsilon
        assert spent > 0.98 * BUDGET.epsilon
    assert policy.guarantee.trust == "shuffle"
    assert policy.guarantee.epsilon <= 1.0


def test_a_fifth_less_noise_breaks_the_budget() -> None:
    mechanisms = policy_of().mechanisms(0)
    fewer = replace(mechanisms.matrix.noise, trials=int(0.64 * mechanisms.matrix.noise.trials))
    assert not accountant.satisfies(replace(mechanisms, matrix=replace(mechanisms.matrix, noise=fewer)).event, BUDGET)
    protocol = mechanisms.optimiser.protocol
    fewer = replace(protocol.noise, trials=int(0.64 * protocol.noise.trials))
    quieter = replace(mechanisms.optimiser, protocol=replace(protocol, noise=fewer))
    assert not accountant.satisfies(replace(mechanisms, optimiser=quieter).event, BUDGET)


def test_price_is_near_that_of_gaussians_of_the_same_spread() -> None:
    mechanisms = policy_of().mechanisms(0)
    matrix, gradient = mechanisms.matrix, mechanisms.optimiser.protocol
    moves = (
        math.sqrt(2 - 2 / 16) * matrix.domain.bound,
        math.sqrt(2 + 2 / 4) * gradient.domain.bound,
    )  # at a cosine of 1/4
    loss = pld.from_gaussian_mechanism(matrix.noise.std() / moves[0], value_discretization_interval=1e-4)
    other = pld.from_gaussian_mechanism(
        gradient.noise.std() / moves[1], value_discretization_interval=1e-4
    ).self_compose(mechanisms.optimiser.steps)
    ideal = loss.compose(other).get_epsilon_for_delta(BUDGET.delta)
    assert 0.9 * BUDGET.epsilon < ideal <= BUDGET.epsilon * 1.001


def test_sizes_are_public_and_complete() -> None:
    for horizon in (50, 4000, 100_000):
        for batches in (None, 2, 4):
            sizes = policy_of(horizon=horizon, batches=batches).sizes
            assert sum(sizes) == horizon
            assert min(sizes) >= 2 or sizes[-1] >= 1
            assert batches is None or len(sizes) <= batches
    assert policy_of(warmup=700).sizes[0] == 700
    with pytest.raises(InvalidArgument, match="warmup"):
        policy_of(warmup=5000)


def test_beats_random_play_at_true_privacy() -> None:
    """T = 4000, by more than 3 standard errors."""
    policy = policy_of()
    regret = simulate(policy, WORLD, n_seeds=8).regret[:, -1]
    world = WORLD.begin(Streams(range(8)))
    means = world.means(world.contexts(0, 4000))  # the very same rounds
    gap = np.sum(np.max(means, axis=2) - np.mean(means, axis=2), axis=1) - regret
    assert float(np.mean(gap)) > 3 * float(np.std(gap, ddof=1)) / math.sqrt(8)


@pytest.mark.parametrize("link", [Binomial(trials=10), TruncatedPoisson(most=5)], ids=str)
def test_counts_are_learned_at_true_privacy(link: Link) -> None:
    """At (1, 1e-5) and T = 2000 counts have less than 0.85 of random play's regret.

    Forty seeds: 0.65 +- 0.03 and 0.66 +- 0.05. With R in place of M ten trials have 1.00 +- 0.01.
    """
    world = GeneralisedLinear(dim=3, n_arms=6, link=link, norm=1.0)
    policy = policy_of(horizon=2000, link=link, parameter_bound=1.0)
    regret = simulate(policy, world, n_seeds=40).regret[:, -1]
    begun = world.begin(Streams(range(40)))
    means = begun.means(begun.contexts(0, 2000))
    random = np.sum(np.max(means, axis=2) - np.mean(means, axis=2), axis=1)
    assert float(np.mean(regret / random)) < 0.85


def test_messages_have_the_law_of_the_shortcut() -> None:
    policy = policy_of(horizon=600, warmup=300, batches=3, steps=2)
    law = simulate(policy, WORLD, n_seeds=16, seed=0).regret[:, -1]
    messages = simulate(policy, WORLD, n_seeds=16, seed=100, path="messages").regret[:, -1]
    spread = math.sqrt((np.var(law, ddof=1) + np.var(messages, ddof=1)) / 16)
    assert abs(float(np.mean(law) - np.mean(messages))) < 4 * spread


def test_designs_agree_with_the_design_of_one_set() -> None:
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(40, 9, 3))
    alive = rng.random((40, 9)) < 0.8
    alive[:, 0] = True
    weights = compute_designs(arms, alive)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert np.all(weights[~alive] == 0)
    for each, kept, mass in zip(arms, alive, weights, strict=True):
        rank = near_optimal_design(each[kept]).rank
        inverse = np.linalg.pinv((each * mass[:, None]).T @ each)
        assert np.max(np.einsum("kd,de,ke->k", each[kept], inverse, each[kept])) <= 2 * rank * (1 + 1e-6)


def test_designs_of_degenerate_sets_give_no_nan_and_no_warning() -> None:
    sets = np.stack([np.tile([0.3, 0.4], (4, 1)), np.outer([1, -2, 0.5, 0], [1.0, 1.0]), np.zeros((4, 2))])
    weights = compute_designs(sets, np.ones((3, 4), dtype=bool))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert weights[1, 3] == 0


@pytest.mark.parametrize("kind", ["tuned", "paper", "published", "corrected"])
def test_equal_arms_and_certain_rewards_give_no_nan_and_no_warning(kind: str) -> None:
    shared = {"dim": 2, "horizon": 120, "link": "logistic", "parameter_bound": 3.0}
    private = kind in ("tuned", "paper")
    policy = (
        GLMSDP(**shared, privacy=shuffle(budget=BUDGET), preset=kind) if private else BGLinUCB(**shared, preset=kind)
    )
    arms = np.tile([0.6, 0.8], (120, 4, 1))
    for value in (0.0, 1.0):
        result = simulate(policy, ArrayEnvironment(arms=arms, means=np.full((120, 4), value)), n_seeds=2)
        np.testing.assert_allclose(result.regret, 0.0, atol=1e-12)


def test_without_noise_a_batched_policy_learns() -> None:
    narrow = simulate(BGLinUCB(**SETTING, width=0.1, warmup=400), WORLD, n_seeds=4).regret[:, -1]
    wide = simulate(BGLinUCB(**SETTING, preset="published", warmup=400), WORLD, n_seeds=4).regret[:, -1]
    assert float(np.max(narrow)) < 0.5 * float(np.min(wide))


def test_a_budget_without_noise_is_refused() -> None:
    assert make("GLM-SDP", **SETTING, epsilon=1.0, delta=1e-5) == policy_of()
    assert isinstance(make("B-GLinUCB", **SETTING), BGLinUCB)
    with pytest.raises(InvalidBudget):
        GLMSDP(**SETTING, privacy=shuffle(epsilon=math.inf, delta=0.1))


def test_the_noise_that_runs_has_the_priced_spread() -> None:
    mechanisms = policy_of().mechanisms(0)
    source = FastNoise(np.random.default_rng(1))
    users = mechanisms.matrix.batch
    protocol = mechanisms.optimiser.protocol
    for each, statistic in (
        (mechanisms.matrix, mechanisms.outer.statistic(np.zeros((300, users, 3)), np.ones((300, users)))),
        (protocol, protocol.domain.admit(np.zeros((300, users, 3)))),
    ):
        drawn = each.release(statistic, source, path="law").total
        assert abs(float(np.std(drawn)) / each.noise.std() - 1) < 5 / math.sqrt(2 * drawn.size) + 0.01


def test_values_out_of_range_are_clipped_and_counted() -> None:
    arms = np.tile([[3.0, 0.0], [0.0, 0.5]], (60, 1, 1))
    env = ArrayEnvironment(arms=arms, means=np.full((60, 2), 0.5))
    for policy in (
        GLMSDP(dim=2, horizon=60, link="logistic", parameter_bound=1.0, privacy=shuffle(budget=BUDGET)),
        BGLinUCB(dim=2, horizon=60, link="logistic", parameter_bound=1.0),
    ):
        assert np.all(simulate(policy, env, n_seeds=2).clipped > 0)


@pytest.mark.often(when=lambda horizon: horizon != 1500)
@pytest.mark.parametrize("horizon", [300, 1500, 3000])
def test_the_shuffler_s_view_is_that_of_the_least_protected_batch(horizon: int) -> None:
    policy = policy_of(horizon=horizon, warmup=20, steps=3, privacy=shuffle(epsilon=3.0, delta=1e-5))
    each = [policy.mechanisms(batch).guarantee for batch in range(len(policy.sizes) - 1)]
    left = [math.inf if one.shuffler is None else one.shuffler.epsilon for one in each]
    assert len(set(left)) > 1
    stated = policy.guarantee
    assert (math.inf if stated.shuffler is None else stated.shuffler.epsilon) == max(left)
    assert stated.exposed == max(one.exposed for one in each)
    assert stated.epsilon == max(one.epsilon for one in each)


def test_bits_are_those_of_all_messages_of_a_user() -> None:
    policy = policy_of(horizon=600, warmup=100)
    source = FastNoise(np.random.default_rng(0))
    longest = 0
    for batch, size in enumerate(policy.sizes[:-1]):
        mechanisms, ends = policy.mechanisms(batch), np.tile([1.0, 0.0, 0.0], (size, 1))
        gradients, features = mechanisms.optimiser, ends * 1e6
        matrix = mechanisms.matrix.device.message(
            mechanisms.outer.statistic(ends, np.full(size, mechanisms.outer.bound)), source
        )
        reports = gradients.gradients(np.zeros(3), features, np.full(size, -1e6))
        gradient = gradients.protocol.device.message(reports, source)
        sent = [int(np.max(column)).bit_length() for message in (matrix, gradient) for column in message.T]
        assert sum(sent[:6]) + policy.steps * sum(sent[6:]) <= mechanisms.bits_per_user
        longest = max(longest, mechanisms.bits_per_user)
    assert policy._bits_per_user == longest
    assert simulate(policy, WORLD, n_seeds=1).bits_per_user == longest
