"""Factors of policies by hand: batches, radii, posteriors and prices of parts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import bandanna as bd
from bandanna.device.domain import Ball
from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidArgument
from bandanna.policies.base import FixedLength, PlayedRounds, StoppedByPublicData
from bandanna.policies.finite.base import DirectionRewardDomain, RewardDomain
from bandanna.policies.glm import glm_sdp
from bandanna.policies.glm.glm_jdp import LeafDomain
from bandanna.policies.linear import lints as lints_module
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import (
    BatchedLinearPolicy,
    WarmStart,
    compute_concurrent_batch_size,
    plan_informed_batches,
)
from bandanna.policies.linear.confidence import matrix_quantile, vector_quantile
from bandanna.policies.linear.lints import LinTS, compute_posterior
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL, OFULJDP, RankOneDomain
from bandanna.policies.linear.private_rewards import LinTSRewards
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import parts_mu
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import central, local, none, shuffle

from .answering import COINS, learn_from


def test_batches_have_the_printed_exponents() -> None:
    for privacy, exponent in (
        (none(), 1 / 2),
        (central(rho=0.1), 1 / 2),
        (local(rho=0.1), 3 / 4),
        (shuffle(epsilon=1.0, delta=1e-5), 3 / 5),
        (shuffle(epsilon=1.0, delta=1e-5, participations=2), 2 / 3),
    ):
        policy = LinUCB(dim=2, horizon=3000, batch="paper", privacy=privacy)
        assert policy._schedule.sizes(3000)[0] == round(3000**exponent)
    assert compute_concurrent_batch_size(10**6, 2) == round(10 ** (6 * 5 / 9))
    assert compute_concurrent_batch_size(10**6, 1) == round(10**3.6)


@pytest.mark.parametrize("confidence", ["exact", "lemma", "paper"])
def test_radii_are_those_of_the_channel_s_noise(confidence: str) -> None:
    policy = LinUCB(dim=2, horizon=300, batch=100, privacy=local(rho=0.5), confidence=confidence)
    report = LinearReport(features=2)
    std = CentralGaussian.calibrate(domain=report, budget=policy.privacy.budget).noise_std * np.sqrt([100, 200, 300])
    np.testing.assert_allclose(policy._channel.prefix_std(), std, rtol=1e-3)
    quiet = replace(policy, privacy=none())
    if confidence == "exact":
        np.testing.assert_allclose(policy.radii.stds, std, rtol=1e-3)  # type: ignore[union-attr]
    elif confidence == "lemma":
        bound = std[-1] * matrix_quantile(2, policy.failure / 6)
        assert policy.radii.smallest == pytest.approx(bound, rel=1e-3)  # type: ignore[union-attr]
    else:
        spread = std[-1] * (math.sqrt(2) + math.sqrt(math.log(3 / policy.failure)))
        assert policy.radii.smallest == pytest.approx(spread, rel=1e-3)  # type: ignore[union-attr]
    assert quiet.radii.at(3)[1] < policy.radii.at(3)[1]
    assert policy.regret_bound == policy.radii.bound(horizon=300, batch=100, dim=2, width=policy.width)


def test_radii_of_oful_by_hand() -> None:
    """Lemma 11 of [004], with the noise of the episodes so far."""
    policy = OFUL(dim=3, horizon=500, reward_range=(0.0, 3.0), privacy=central(rho=0.5), ridge=2.0, failure=0.01)
    assert policy.subgaussian == 1.5
    state = policy.init()
    episode = policy.episode(state)
    assert isinstance(episode, StoppedByPublicData)
    assert episode.users == 500
    assert state.snapshot.radius == pytest.approx(1.5 * math.sqrt(2 * math.log(200)) + math.sqrt(2))
    assert state.log_det == pytest.approx(3 * math.log(2.0))  # of lambda I: when it has doubled, the policy switches
    rng = np.random.default_rng(0)
    for switches in (1, 2):
        x = rng.normal(size=(40, 3)) / 5
        state = policy.advance_public(state, x)
        state = learn_from(policy, state, policy.episode(state), np.ones(3))
        assert policy.episode(state).users == 500 - 40 * switches
        values = np.linalg.eigvalsh(state.gram)
        grown = float(np.sum(np.log(values))) - 3 * math.log(2.0)
        radius = 1.5 * math.sqrt(2 * math.log(200) + grown) + math.sqrt(2)
        quantile = vector_quantile(3, 0.01 / (2 * switches * (switches + 1)))
        radius += math.sqrt(switches) * 3.0 * quantile / math.sqrt(values[0])  # std = w L / sqrt(2 rho) = 3
        assert state.snapshot.radius == pytest.approx(radius, rel=2e-3)


def test_eigenvalues_of_the_lemma_by_hand() -> None:
    """Lemma 12 of [004]."""
    policy = OFUL(dim=3, horizon=10**6, privacy=none(), failure=0.01, confidence="paper", eigenvalue=0.2)
    log = math.log((90_000 + 3) * 3 / 0.01)
    wanted = 1.0 + 0.2 * 90_000 / 4 - 8 * log - 2 * math.sqrt(90_000 * log)
    assert policy._smallest(np.eye(3), 90_000) == pytest.approx(wanted)


def test_radii_of_private_features_by_hand() -> None:
    policy = OFULJDP(
        dim=3, horizon=100, batch=10, share=0.3, reward_range=(0.0, 3.0), privacy=central(rho=0.5), failure=0.01
    )
    assert RankOneDomain(size=3, bound=2.0).sensitivity == pytest.approx(2 * math.sqrt(2))
    assert policy.subgaussian == 1.5
    matrix, vector = (accountant.rho(protocol.event) for protocol in (policy.matrix, policy.vector))
    assert matrix / (matrix + vector) == pytest.approx(0.3, rel=1e-3)
    assert policy.vector.noise_std == pytest.approx(6.0 / math.sqrt(2 * vector), rel=1e-3)  # |x r - x' r'| <= 2 * 3
    bound = float(policy.matrix.prefix_std().max()) * matrix_quantile(3, 0.01 / 3 / 10)
    assert policy.matrix_bound == pytest.approx(bound)
    assert policy.regulariser == pytest.approx(2 * bound)
    state = policy.init()
    first = 1.5 * math.sqrt(2 * math.log(300)) + math.sqrt(3 * bound)
    assert state.snapshot.radius == pytest.approx(first)
    assert state.log_det == pytest.approx(3 * math.log(2 * bound))
    after = policy._snapshot(np.eye(3), np.ones(3), switches=2, rounds=40)[0]
    radius = 1.5 * math.sqrt(2 * math.log(300) + 3 * math.log1p(40 / (3 * bound))) + math.sqrt(3 * bound)
    radius += math.sqrt(2) * policy.vector.noise_std * vector_quantile(3, 0.01 / 18) / math.sqrt(bound)
    assert after.radius == pytest.approx(radius, rel=1e-3)


def test_the_first_batch_stands_out_of_its_noise() -> None:
    for dim, often in ((5, 1), (5, 4), (1, 1)):
        privacy = central(epsilon=0.5, delta=1e-5, participations=often)
        found = plan_informed_batches(privacy, domain=Ball(dim=4), dim=dim, horizon=10**6)
        std = CentralGaussian.calibrate(domain=Ball(dim=4), budget=privacy.budget, participations=often).noise_std
        assert found.first == round(3 * max(1, dim - 1) ** 1.5 * math.sqrt(1.5) * std)
    assert plan_informed_batches(none(), domain=Ball(dim=4), dim=5, horizon=10**6).first == 10
    rewards = LinTSRewards(dim=5, horizon=10**6, public_contexts=True, privacy=central(rho=1e-3))
    std = CentralGaussian.calibrate(domain=Ball(dim=5, bound=0.5), budget=rewards.privacy.budget).noise_std
    assert rewards.batch_sizes[0] == round(3 * 8 * math.sqrt(1.5) * std)
    loud = plan_informed_batches(central(rho=1e6), domain=Ball(dim=4), dim=5, horizon=10**6, blocks=3)
    assert loud.first == 7 * 5 * 3
    assert plan_informed_batches(none(), domain=Ball(dim=4), dim=5, horizon=10**6, blocks=3).first == 2 * 5 * 3


def lints(**changes: object) -> LinTS:
    return LinTS(**{"dim": 2, "horizon": 300, "batch": 100, "privacy": local(rho=0.5)} | changes)  # type: ignore[arg-type]


def test_the_posterior_knows_its_noise() -> None:
    policy = lints(privacy=central(rho=0.5, mechanism="independent"), intercept=False)
    variance = CentralGaussian.calibrate(domain=policy._domain, budget=policy.privacy.budget).noise_std ** 2
    np.testing.assert_allclose(policy._noise, variance * np.arange(4), rtol=1e-3)
    gram = np.array([[50.0, 10.0], [10.0, 40.0]])
    total = np.array([20.0, 5.0, 50.0, 40.0, 10.0 * math.sqrt(2)])
    start = WarmStart(total=tuple(total.tolist()), users=90, variance=7.0, epsilon=1.0, delta=0.0, trust="central")
    np.testing.assert_allclose(start.plus(np.ones(5)), total + 1)
    begun = replace(policy, start=start)
    snapshot, _ = begun._estimate(np.zeros(5), 1)
    noise = float(policy._noise[1]) + 7.0
    mean, covariance = by_hand(np.array([20.0, 5.0]), gram, noise, policy.reward_std)
    np.testing.assert_allclose(snapshot.theta, mean, rtol=1e-6)
    np.testing.assert_allclose(snapshot.root @ snapshot.root.T, policy.alpha**2 * covariance, rtol=1e-6)


def test_a_policy_without_a_horizon_stops_learning_after_a_billion_users() -> None:
    endless = lints(horizon=None, batch=10**8, privacy=none())
    assert endless._planned_rounds == 10**9
    after = endless._episode(len(endless.batch_sizes))
    assert after is not None
    assert (after.users, after.released) == (10**9, False)


def by_hand(vector: np.ndarray, gram: np.ndarray, noise: float, reward_std: float) -> tuple[np.ndarray, np.ndarray]:
    """P = 2 I + G R^{-1} G, R = s^2 G + omega I for packed noise and a prior N(0, I/2): mean P^{-1} G R^{-1} v."""
    omega = noise * (1 + 1 / 2 + 1 / 4)  # of h_i, of N_ii theta_i, of N_ij theta_j
    pulled = gram @ np.linalg.inv(reward_std**2 * gram + omega * np.eye(2))
    covariance = np.linalg.inv(2 * np.eye(2) + pulled @ gram)
    return covariance @ pulled @ vector, covariance


def test_a_posterior_by_hand_with_moments_that_differ() -> None:
    gram, vector = np.array([[50.0, 10.0], [10.0, 40.0]]), np.array([20.0, 5.0])
    variances = np.array([2.0, 3.0]), np.array([[1.0, 0.5], [0.5, 2.0]])
    moments = np.array([0.25, 4.0])
    mean, root, cut = compute_posterior(vector, gram, noise=variances, second_moments=moments, reward_std=0.5)
    omega = variances[0] + variances[1] @ moments
    weighed = gram @ np.linalg.inv(np.diag(omega) + 0.25 * gram)
    information = weighed @ gram
    covariance = np.linalg.inv(np.diag(1 / moments) + (information + information.T) / 2)
    assert not cut
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-9)
    np.testing.assert_allclose(mean, covariance @ weighed @ vector, rtol=1e-9)


def test_returning_users_pay_in_all_of_their_batches() -> None:
    privacy = central(epsilon=1.0, delta=1e-5, participations=7)
    assert lints(privacy=privacy)._batch_privacy.participations == 3
    assert lints(privacy=replace(privacy, participations=2))._batch_privacy.participations == 2
    rewards = LinTSRewards(
        dim=2, horizon=300, batch=100, public_contexts=True, privacy=local(epsilon=3.0, delta=0.0, participations=3)
    )
    (answered,) = set(rewards._channel.protocols.values())
    assert answered.guarantee.epsilon == pytest.approx(3.0)  # of all three
    truth = math.tanh(0.5)  # 2q - 1 at epsilon 1 each
    assert rewards._reward_std == pytest.approx(0.5 / truth, rel=1e-6)
    np.testing.assert_array_equal(rewards._noise, np.zeros(4))


def test_public_features_by_hand() -> None:
    privacy = central(rho=0.5, mechanism="independent")
    policy = LinTSRewards(dim=3, horizon=250, batch=100, public_contexts=True, privacy=privacy, intercept=True)
    assert np.linalg.norm(policy._weights * np.array([1.0, 0.0, 1.0])) == pytest.approx(1.0, abs=1e-6)
    assert np.linalg.norm(policy._weights * np.array([1.0, 0.0, 1.0])) <= 1.0
    assert policy._statistics[1].scale == 0.5
    assert policy._reward_std == policy.reward_std
    std = CentralGaussian.calibrate(domain=Ball(dim=3, bound=0.5), budget=privacy.budget).noise_std
    np.testing.assert_allclose(policy._noise, std**2 * np.arange(3), rtol=1e-3)
    batches = [policy._episode(number) for number in range(4)]
    assert [(each.users, each.released) for each in batches[:3] if each] == [(100, True), (100, True), (50, False)]
    assert batches[3] is None
    plain = replace(policy, intercept=False)
    np.testing.assert_array_equal(plain._weights, 1.0)
    assert plain._statistics[1].scale == 1.0


def test_phases_have_the_batches_of_their_policies() -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=40, batch=10, privacy=none()))
    episode = policy.episode(policy.init())
    assert isinstance(episode, FixedLength)
    assert episode.users == 10
    sizes = [policy.next_episode(FixedLength(number=number, users=1)).users for number in range(6)]
    assert sizes == [10] * 6


def test_chances_by_quadrature() -> None:
    np.testing.assert_allclose(lints_module._norm_cdf(np.array([0.5, 2.0]), 5), stats.chi(5).cdf([0.5, 2.0]), rtol=1e-9)
    mean, spread = np.array([[0.3, 0.0]]), np.array([[1.0, 2.0]])
    found = lints_module.per_arm_draw_probabilities(mean, spread, np.array([0]))
    assert found[0] == pytest.approx(stats.norm.cdf(0.3 / math.sqrt(5)), rel=1e-6)
    three = lints_module.per_arm_draw_probabilities(
        np.array([[0.3, 0.0, 0.1]]), np.array([[1.0, 2.0, 0.5]]), np.array([0])
    )
    whole, _ = integrate.quad(
        lambda x: stats.norm.pdf(x, 0.3, 1) * stats.norm.cdf(x / 2) * stats.norm.cdf((x - 0.1) / 0.5), -9, 9
    )
    assert three[0] == pytest.approx(whole, rel=1e-6)
    assert lints_module.sample_fixed_directions(3).shape[1] == 3


def test_features_that_are_no_numbers_are_refused_by_name() -> None:
    bad, one = np.array([[math.nan, 0.0]]), np.ones(1)
    with pytest.raises(InvalidArgument, match="features"):
        LeafDomain(size=2).statistic(bad, one, one > 0)
    played = PlayedRounds(features=bad, rewards=one)
    public = OFUL(dim=2, horizon=9, privacy=central(rho=0.5))
    private = OFULJDP(dim=2, horizon=9, privacy=central(rho=0.5))
    with pytest.raises(InvalidArgument, match="features"):
        public.advance_public(public.init(), bad)
    for policy, query in ((public, public.query), (private, private._queries[0]), (private, private._queries[1])):
        with pytest.raises(InvalidArgument, match="features"):
            policy.report(query, played, COINS)


def test_rewards_along_directions_move_a_sum_by_the_width_of_their_range() -> None:
    directions = DirectionRewardDomain(dim=9, rewards=RewardDomain(low=0.0, high=2.0), bound=3.0)
    assert directions.sensitivity == pytest.approx(6.0)
    assert directions.sensitivity >= 6.0
    assert directions.l1_sensitivity == pytest.approx(3 * 6.0)
    far = DirectionRewardDomain(dim=10_000, rewards=RewardDomain(low=1e8, high=1e8 + 1.0))
    assert far.sensitivity - 1.0 >= 2.0**-51 * 100 * 1e8  # of every coordinate, in the size of what is rounded


def test_a_policy_reports_as_many_features_as_it_has() -> None:
    assert BatchedLinearPolicy._domain.func(LinUCB(dim=3, horizon=100, privacy=none())) == LinearReport(features=3)


def test_the_rest_of_a_horizon_is_played_once() -> None:
    episode = LinUCB(dim=3, horizon=105, batch=10, privacy=none())._episode(10)
    assert episode is not None
    assert (episode.users, episode.released) == (5, False)


def batch_mechanisms(*, dim: int, users: int, share: float, steps: int) -> glm_sdp.GLMSDPMechanisms:
    """Of a later batch of GLM-SDP at epsilon 5."""
    privacy = bd.shuffle(epsilon=5.0, delta=1e-3)
    policy = glm_sdp.GLMSDP(dim=dim, horizon=10_000, privacy=privacy, share=share, steps=steps)
    return glm_sdp.calibrate_glm_sdp(policy, users, first=False)


def test_the_noise_of_a_shuffled_matrix_is_bounded_by_its_entries() -> None:
    made = batch_mechanisms(dim=3, users=2000, share=0.5, steps=2)
    s = made.matrix.std(2000)
    wanted = s * (math.sqrt(6) + math.sqrt(2 * math.log(2 / 0.01)))
    assert made.matrix_noise(3, 0.01) == pytest.approx(wanted, rel=0.02)


def test_noise_is_divided_between_a_matrix_and_its_gradients_by_their_share() -> None:
    made = batch_mechanisms(dim=3, users=50, share=0.3, steps=4)
    matrix = (math.sqrt(2) * 0.25 / made.matrix.noise.std()) ** 2  # ||w (x x^T - x' x'^T)||_F <= sqrt(2) w
    gradient = (2.0 / made.optimiser.protocol.noise.std()) ** 2  # ||g - g'|| <= 2 for the logistic link
    assert matrix / (matrix + 4 * gradient) == pytest.approx(0.3, rel=0.01)


def test_the_first_noise_that_is_tried_is_that_of_gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountant, "satisfies", lambda event, budget: True)
    made = batch_mechanisms(dim=3, users=50, share=0.3, steps=4)
    whole = parts_mu(ApproxDP(epsilon=5.0, delta=1e-3), 0.3, weighted=True)
    assert made.matrix.noise.std() == pytest.approx(math.sqrt(2) * 0.25 / (whole * math.sqrt(0.3)), rel=0.01)
    assert made.optimiser.protocol.noise.std() == pytest.approx(2.0 * math.sqrt(4 / 0.7) / whole, rel=0.01)


def test_the_lattices_of_a_batch_are_the_first_of_theorem_a4() -> None:
    few = batch_mechanisms(dim=3, users=50, share=0.3, steps=4)
    assert few.matrix.noise.scale == math.ceil(240 / (math.sqrt(2) * 0.25))
    assert few.optimiser.protocol.noise.scale == 120.0  # 240 / 2
    many = batch_mechanisms(dim=300, users=50, share=0.3, steps=4)
    assert many.matrix.noise.scale == math.ceil(5 * math.sqrt(300 * 301 / 2) / (math.sqrt(2) * 0.25))
