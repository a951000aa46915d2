"""Phased elimination on fixed arms: the price of a phase, its length, and who is dropped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.accounting.budgets import ZCDP, PureDP
from bandanna.design import optimal_design
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.policies.gope import GOPE

from .scripted_noise import Scripted

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.7], [-0.5, 0.5]])
LEVELS = ("intermediate", "beginning")


def price(policy: GOPE, arms: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Largest rho that the first phase really spends on one reward: the move of what is released, over its noise."""
    state = policy.init(arms)
    phase = policy.next(state)
    middle = phase.plays * (policy.domain.low + policy.domain.high) / 2
    spent = []
    for place in range(len(phase.arms)):
        one, two = Scripted(), Scripted()
        totals = middle.copy()
        policy.learn(state, phase, totals, one)
        totals[place] += policy.domain.sensitivity / 2  # half the move, twice counted: the other half is below
        policy.learn(state, phase, totals, two)
        (values, std), (moved, _) = one.releases[0], two.releases[0]
        spent.append((2 * np.linalg.norm(values - moved)) ** 2 / (2 * std**2))
    return max(spent)


@pytest.mark.parametrize("noise", LEVELS)
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 5.0)])
def test_a_phase_costs_rho_and_noise_20_percent_smaller_more(noise: str, ends: tuple[float, float]) -> None:
    """What a phase releases moves by more, or less, than its noise is made for; or a smaller noise would pass."""
    policy = GOPE(dim=2, horizon=10**4, budget=ZCDP(rho=0.3), noise=noise, reward_range=ends)
    assert 0.3 * (1 - 1e-3) <= price(policy, ARMS) <= 0.3
    weak = GOPE(dim=2, horizon=10**4, budget=ZCDP(rho=0.3 / 0.64), noise=noise, reward_range=ends)
    assert price(weak, ARMS) > 0.3 * 1.5
    assert policy.guarantee.rho <= 0.3


@pytest.mark.parametrize("noise", LEVELS)
def test_later_phases_follow_from_releases_alone(noise: str) -> None:
    """Neighbours with the same releases play other arms afterwards: then episodes would leak by themselves."""
    policy = GOPE(dim=2, horizon=10**6, budget=ZCDP(rho=0.3), noise=noise)
    rng, state, other = np.random.default_rng(0), policy.init(ARMS), policy.init(ARMS)
    for _ in range(4):
        phase, same = policy.next(state), policy.next(other)
        assert np.array_equal(phase.arms, same.arms)
        assert np.array_equal(phase.plays, same.plays)
        output = rng.normal(size=policy.mechanism.dim)
        totals = 0.3 * phase.plays
        state = policy.learn(state, phase, totals, Scripted([output]))
        totals[0] -= 1.0
        other = policy.learn(other, phase, totals, Scripted([output]))


def test_the_estimate_is_least_squares_and_a_phase_has_its_printed_length() -> None:
    """Without noise theta is not the truth, or c_l is not (8d/b^2) log(4/d_l) + (2d/b) sqrt(2 f/rho)."""
    policy = GOPE(dim=2, horizon=10**9, budget=ZCDP(rho=0.5))
    state = policy.init(ARMS)
    g = optimal_design(ARMS).g
    share = 1e-3 / (4 * 1 * 2)
    log = math.log(2 / share)
    f = 2 + 2 * math.sqrt(2 * log) + 2 * log
    printed = 8 * g * 4 * math.log(4 / share) + 2 * g * 2 * math.sqrt(2 / 0.5 * f)
    assert policy.length(state) == pytest.approx(printed, rel=1e-4)
    theta = np.array([0.3, -0.25])
    for _ in range(2):
        phase = policy.next(state)
        state = policy.learn(state, phase, phase.plays * (ARMS[phase.arms] @ theta), Scripted())
    gaps = np.max(ARMS @ theta) - ARMS @ theta
    assert state.active.tolist() == np.flatnonzero(gaps <= 2 * policy.threshold(2)).tolist() == [0, 2]


def test_noise_in_the_beginning_never_needs_shorter_phases() -> None:
    """The comparison of figure 5 is not what the theory says: k is below g."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        arms = rng.normal(size=(10, 3))
        early, late = (GOPE(dim=3, horizon=10**6, budget=ZCDP(rho=1e-3), noise=noise) for noise in LEVELS[::-1])
        assert early.length(early.init(arms)) >= late.length(late.init(arms)) * (1 - 1e-6)


def test_one_arm_equal_arms_and_thin_spans() -> None:
    """A single arm, arms that are all equal or arms on a line break the design."""
    policy = GOPE(dim=2, horizon=1000, budget=ZCDP(rho=1.0))
    assert not policy.next(policy.init(ARMS[:1])).released
    assert not policy.next(policy.init(np.ones((3, 2)))).released
    line = policy.init(np.outer([1.0, 0.5, -1.0], [0.6, 0.8]))
    phase = policy.next(line)
    assert line.geometry is not None
    assert line.geometry.design.rank == 1
    after = policy.learn(line, phase, phase.plays * 0.5, Scripted())
    assert 0 in after.active


def test_infinite_rho_is_gope() -> None:
    """rho to infinity is not the policy without noise."""
    clear, free = (GOPE(dim=2, horizon=10**5, budget=budget) for budget in (None, ZCDP(rho=math.inf)))
    assert clear.length(clear.init(ARMS)) == free.length(free.init(ARMS))
    assert free.guarantee.trust == "none"


def test_bad_arguments() -> None:
    """Arms of another dimension, rewards out of range or a pure budget are accepted."""
    policy = GOPE(dim=2, horizon=10, budget=ZCDP(rho=1.0))
    with pytest.raises(InvalidArgument, match="arms"):
        policy.init(np.ones((3, 4)))
    with pytest.raises(InvalidStatistic, match="arms"):
        policy.init([[1.0, math.nan]])
    with pytest.raises(InvalidBudget):
        GOPE(dim=2, horizon=10, budget=PureDP(epsilon=1.0))
    with pytest.raises(InvalidArgument, match="noise"):
        GOPE(dim=2, horizon=10, noise="end")
    state = policy.init(ARMS)
    phase = policy.next(state)
    with pytest.raises(InvalidStatistic, match="sums"):
        policy.learn(state, phase, phase.plays * 1.01, Scripted())
