"""Phased elimination on fixed arms: the price of a phase, its length, and who is dropped."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.policies.base import AssignedArms, PlayedRounds, SumQuery
from bandanna.policies.design import optimal_design
from bandanna.policies.finite.gope import GOPE, GOPEState
from bandanna.protocols.privacy_model import central, none

from .answering import device_coins, learn_from

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.7], [-0.5, 0.5]])
LEVELS = ("intermediate", "beginning")


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def asked(policy: GOPE, state: GOPEState, phase: AssignedArms) -> SumQuery:
    return next(policy.learn(state, phase))


def exact(policy: GOPE, state: GOPEState, phase: AssignedArms, means: Floats) -> Floats:
    """What is released without noise, where every reward of an arm is its mean."""
    rows = PlayedRounds(rewards=means, arms=phase.arms, counts=phase.plays)
    return policy.report(asked(policy, state, phase), rows, device_coins()).total()


def price(policy: GOPE, arms: Floats) -> float:
    """Largest rho that the first phase really spends on one reward: the move of what is released, over its noise."""
    state = policy.init(arms)
    phase = policy.episode(state)
    query, coins = asked(policy, state, phase), device_coins()
    ends, spent = np.array(policy.reward_range), []
    for arm in phase.arms:
        one, two = (
            policy.report(query, PlayedRounds(rewards=ends[[i]], arms=np.array([arm])), coins).values for i in (0, 1)
        )
        spent.append(np.sum((one - two) ** 2) / (2 * policy.protocol.std(1) ** 2))
    return float(max(spent))


@pytest.mark.parametrize("noise", LEVELS)
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 5.0)])
def test_a_phase_costs_rho_and_noise_20_percent_smaller_more(noise: str, ends: tuple[float, float]) -> None:
    policy = GOPE(dim=2, horizon=10**4, privacy=central(rho=0.3), noise=noise, reward_range=ends)
    assert 0.3 * (1 - 1e-3) <= price(policy, ARMS) <= 0.3
    weak = GOPE(dim=2, horizon=10**4, privacy=central(rho=0.3 / 0.64), noise=noise, reward_range=ends)
    assert price(weak, ARMS) > 0.3 * 1.5
    assert policy.guarantee.rho <= 0.3


@pytest.mark.parametrize("noise", LEVELS)
def test_later_phases_follow_from_releases_alone(noise: str) -> None:
    policy = GOPE(dim=2, horizon=10**6, privacy=central(rho=0.3), noise=noise)
    rng, state, other = np.random.default_rng(0), policy.init(ARMS), policy.init(ARMS)
    for _ in range(4):
        phase, same = policy.episode(state), policy.episode(other)
        assert np.array_equal(phase.arms, same.arms)
        assert np.array_equal(phase.plays, same.plays)
        assert np.array_equal(asked(policy, state, phase).at, asked(policy, other, same).at)
        output = rng.normal(size=policy.protocol.domain.dim)
        state, other = learn_from(policy, state, phase, output), learn_from(policy, other, same, output)


def test_the_estimate_is_least_squares_and_a_phase_has_its_printed_length() -> None:
    policy = GOPE(dim=2, horizon=10**9, privacy=central(rho=0.5))
    state = policy.init(ARMS)
    g = optimal_design(ARMS).g
    share = 1e-3 / (4 * 1 * 2)
    log = math.log(2 / share)
    f = 2 + 2 * math.sqrt(2 * log) + 2 * log
    printed = 8 * g * 4 * math.log(4 / share) + 2 * g * 2 * math.sqrt(2 / 0.5 * f)
    assert policy.length(state) == pytest.approx(printed, rel=1e-4)
    theta = np.array([0.3, -0.25])
    for _ in range(2):
        phase = policy.episode(state)
        state = learn_from(policy, state, phase, exact(policy, state, phase, ARMS[phase.arms] @ theta))
    gaps = np.max(ARMS @ theta) - ARMS @ theta
    assert state.active.tolist() == np.flatnonzero(gaps <= 2 * policy.threshold(2)).tolist() == [0, 2]


def test_noise_in_the_beginning_never_needs_shorter_phases() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        arms = rng.normal(size=(10, 3))
        early, late = (GOPE(dim=3, horizon=10**6, privacy=central(rho=1e-3), noise=noise) for noise in LEVELS[::-1])
        assert early.length(early.init(arms)) >= late.length(late.init(arms)) * (1 - 1e-6)


def test_a_single_arm_equal_arms_and_arms_on_a_line_are_played() -> None:
    policy = GOPE(dim=2, horizon=1000, privacy=central(rho=1.0))
    assert not policy.episode(policy.init(ARMS[:1])).released
    assert not policy.episode(policy.init(np.ones((3, 2)))).released
    line = policy.init(np.outer([1.0, 0.5, -1.0], [0.6, 0.8]))
    phase = policy.episode(line)
    assert line.geometry is not None
    assert line.geometry.design.rank == 1
    after = learn_from(policy, line, phase, exact(policy, line, phase, np.full(len(phase.arms), 0.5)))
    assert 0 in after.active


def test_infinite_rho_is_gope() -> None:
    clear, free = (GOPE(dim=2, horizon=10**5, privacy=privacy) for privacy in (none(), central(rho=math.inf)))
    assert clear.length(clear.init(ARMS)) == free.length(free.init(ARMS))
    assert free.guarantee.trust == "none"


def test_bad_arguments_and_rewards_are_refused() -> None:
    policy = GOPE(dim=2, horizon=10, privacy=central(rho=1.0))
    with pytest.raises(InvalidArgument, match="arms"):
        policy.init(np.ones((3, 4)))
    with pytest.raises(InvalidStatistic, match="arms"):
        policy.init([[1.0, math.nan]])
    with pytest.raises(InvalidBudget):
        GOPE(dim=2, horizon=10, privacy=central(epsilon=1.0, delta=0.0))
    with pytest.raises(InvalidArgument, match="noise"):
        GOPE(dim=2, horizon=10, noise="end", privacy=none())
    state = policy.init(ARMS)
    phase = policy.episode(state)
    with pytest.raises(InvalidStatistic, match="rewards"):
        exact(policy, state, phase, np.full(len(phase.arms), math.nan))
    inside, far = (exact(policy, state, phase, np.full(len(phase.arms), mean)) for mean in (1.0, 1.01))
    assert np.array_equal(inside, far)  # clipped
    query, rows = asked(policy, state, phase), PlayedRounds(rewards=np.ones(1), arms=phase.arms[:1])
    with pytest.raises(InvalidStatistic, match="directions"):
        policy.report(replace(query, at=1.001 * query.at), rows, device_coins())
    with pytest.raises(InvalidStatistic, match="plain vectors"):
        policy.protocol.admit(np.zeros((1, 2)))


def test_a_device_finds_its_own_direction_in_any_order_of_arms() -> None:
    policy = GOPE(dim=2, horizon=10**4, noise="beginning", privacy=none())
    state = policy.init(ARMS)
    phase = policy.episode(state)
    query, backwards = asked(policy, state, phase), phase.arms[::-1]
    rows = PlayedRounds(rewards=0.1 * (1 + np.arange(len(backwards))), arms=backwards)
    total = policy.report(query, rows, device_coins()).total()
    assert total[: len(backwards)].tolist() == pytest.approx(rows.rewards[::-1].tolist())
    for arm in set(range(len(ARMS))) - set(phase.arms.tolist()):
        silent = PlayedRounds(rewards=np.ones(1), arms=np.array([arm]))
        assert not np.any(policy.report(query, silent, device_coins()).values)
