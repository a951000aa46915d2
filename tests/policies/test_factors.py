"""Factors of policies whose loss no quick test noticed: each was found by `make mutants`."""

from __future__ import annotations

import math

import pytest

import bandanna as bd
from bandanna.device.linear_report import LinearReport
from bandanna.policies.finite.base import DirectionRewardDomain, RewardDomain
from bandanna.policies.glm import glm_sdp
from bandanna.policies.linear.base import BatchedLinearPolicy
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import parts_mu
from bandanna.protocols.privacy_model import none


def test_rewards_along_directions_move_a_sum_by_the_width_of_their_range() -> None:
    directions = DirectionRewardDomain(dim=9, rewards=RewardDomain(low=0.0, high=2.0), bound=3.0)
    assert directions.sensitivity == pytest.approx(6.0)
    assert directions.sensitivity >= 6.0
    assert directions.l1_sensitivity == pytest.approx(3 * 6.0)
    far = DirectionRewardDomain(dim=10_000, rewards=RewardDomain(low=1e8, high=1e8 + 1.0))
    assert far.sensitivity - 1.0 >= 2.0**-51 * 100 * 1e8  # of every coordinate, in the size of what is rounded


def test_a_policy_reports_as_many_features_as_it_has() -> None:
    assert BatchedLinearPolicy._domain.func(LinUCB(dim=3, horizon=100, privacy=none())) == LinearReport(features=3)


def test_what_is_left_of_a_horizon_is_played_once() -> None:
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
