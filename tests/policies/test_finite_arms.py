"""Finite arms in the other trust models: randomized bits, elimination with Laplace noise and with shuffled bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, PureDP
from bandanna.core.streams import Streams
from bandanna.errors import InvalidBudget, InvalidStatistic
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.elimination import Elimination
from bandanna.policies.finite import State
from bandanna.policies.ldp_ucb import LDPUCB
from bandanna.policies.registry import ALGORITHMS, make
from bandanna.policies.thompson import Thompson, gamma
from bandanna.policies.ucb1 import UCB1

from .scripted_noise import Scripted


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_randomized_bit_is_exactly_epsilon_private(epsilon: float) -> None:
    """The chances of a bit differ by more than e^epsilon between two rewards, or less noise would have done."""
    policy = LDPUCB(n_arms=2, horizon=10, epsilon=epsilon, reward_range=(-2.0, 3.0))
    chance = policy.response.chance(np.linspace(0, 1, 101))
    worst = max(np.max(chance) / np.min(chance), np.max(1 - chance) / np.min(1 - chance))
    assert math.isclose(math.log(worst), epsilon, rel_tol=1e-9)
    assert policy.guarantee.epsilon == pytest.approx(epsilon)
    assert policy.guarantee.trust == "local"
    assert policy.guarantee.delta == 0
    # the event priced is one of which the bit is a function: P(x + Z >= 1), Z two-sided geometric
    q = math.exp(-epsilon)
    assert chance[-1] == pytest.approx(1 / (1 + q))


def test_bits_are_unbiased_and_decisions_are_those_of_the_debiased_means() -> None:
    """LDP-UCB learns another mean than that of the rewards, or clips nothing."""
    policy = LDPUCB(n_arms=2, horizon=10, epsilon=1.0, reward_range=(-1.0, 1.0))
    bits = policy.randomize(np.full(200_000, 0.4), FastNoise(np.random.default_rng(0)))
    mean, truth = -1 + 2 * policy.response.decode(np.mean(bits)), policy.response.truth
    assert abs(mean - 0.4) < 5 * 2 * 0.5 / truth / math.sqrt(len(bits))  # 5 standard errors: 6e-7
    far, end = (policy.randomize(np.full(1000, y), FastNoise(np.random.default_rng(1))) for y in (7.0, 1.0))
    np.testing.assert_array_equal(far, end)
    with pytest.raises(InvalidStatistic, match="rewards"):
        policy.randomize(np.array([math.nan]), FastNoise(np.random.default_rng(0)))


def test_elimination_releases_each_batch_once_at_its_price() -> None:
    """DP-SE's noise is not that of a pure epsilon on one reward, in units of the range; 20 % less would pass."""
    policy = Elimination(n_arms=3, horizon=10**5, budget=PureDP(epsilon=0.5), reward_range=(0.0, 4.0))
    epoch, source = policy.next(policy.init()), Scripted()
    totals = np.array([1.0, 2.0, 3.0]) * epoch.users
    policy.learn(policy.init(), totals, source)
    (values, scale), changed = source.releases[0], Scripted()
    totals[1] -= 4.0  # one reward, from one end of the range to the other
    policy.learn(policy.init(), totals, changed)
    moved = np.sum(np.abs(values - changed.releases[0][0]))
    assert len(source.releases) == 1
    assert 0.5 * (1 - 1e-4) <= moved / scale <= 0.5
    assert moved / (0.8 * scale) > 0.5
    assert policy.guarantee.epsilon <= 0.5


def test_shuffled_elimination_meets_its_budget_exactly_for_every_batch() -> None:
    """A batch of SDP-SE has more delta than promised at its epsilon; 20 % less noise would pass."""
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    policy = Elimination(n_arms=2, horizon=10**5, budget=budget, shuffled=True)
    assert len(policy.sizes) == 3
    for size in policy.sizes:
        noise = policy.protocol(size).noise
        coins, copies = noise.users * noise.trials, int(noise.scale)
        for n, holds in ((coins, True), (int(0.64 * coins), False)):
            k = np.arange(-copies, n + copies + 1)
            p, q = stats.binom.pmf(k - copies, n, 0.5), stats.binom.pmf(k, n, 0.5)
            exact = max(np.sum(np.maximum(p - math.e * q, 0)), np.sum(np.maximum(q - math.e * p, 0)))
            assert (exact <= budget.delta) == holds
        assert accountant.satisfies(policy.protocol(size).event, budget)
    assert policy.guarantee.trust == "shuffle"
    assert policy.guarantee.epsilon <= 1


def test_shuffled_elimination_with_a_large_epsilon_keeps_some_noise() -> None:
    """A huge epsilon is calibrated for minutes, states an infinite one, or an infinite one is not refused by name."""
    policy = Elimination(n_arms=2, horizon=10**5, budget=ApproxDP(epsilon=1e6, delta=1e-5), shuffled=True)
    assert policy.guarantee.epsilon <= 100
    assert policy.protocol(policy.sizes[0]).std(policy.sizes[0]) < 0.15  # of a reward, on a sum of thousands
    for wrong in (ApproxDP(epsilon=math.inf, delta=1e-5), ApproxDP(epsilon=1.0, delta=0.0), PureDP(epsilon=1.0), None):
        with pytest.raises(InvalidBudget, match="finite epsilon"):
            Elimination(n_arms=2, horizon=100, budget=wrong, shuffled=True)


def test_shuffled_bits_have_one_law_along_both_paths() -> None:
    """Messages and the aggregate law give other means; two-sample test, false alarms 1e-4."""
    policy = Elimination(n_arms=2, horizon=3000, budget=ApproxDP(epsilon=1.0, delta=1e-2), shuffled=True)
    source, bits = FastNoise(np.random.default_rng(3)), np.arange(40) < 25
    law = [policy._law(25, 40, source) for _ in range(1500)]
    messages = [policy._messages(bits, 40, source) for _ in range(1500)]
    assert stats.ks_2samp(law, messages).pvalue > 1e-4
    assert abs(np.mean(law) - 25) < 5 * np.std(law) / math.sqrt(1500)


def test_elimination_drops_the_worse_arm_and_then_plays_on() -> None:
    """A bad arm stays, the good one is dropped, or a single arm is measured for nothing."""
    policy = Elimination(n_arms=3, horizon=10**6, budget=PureDP(epsilon=1.0))
    state = policy.init()
    epoch = policy.next(state)
    state = policy.learn(state, np.array([0.9, 0.1, 0.1]) * epoch.users, FastNoise(np.random.default_rng(0)))
    assert state.active.tolist() == [True, False, False]
    assert not policy.next(state).released
    assert Elimination(n_arms=1, horizon=10).next(Elimination(n_arms=1, horizon=10).init()).released is False


def test_ucb1_index() -> None:
    """UCB1 plays another arm than its printed index says."""
    policy = UCB1(n_arms=2, horizon=10)
    state = State(sums=np.array([[30.0, 3.0]]), pulls=np.array([[50.0, 4.0]]), rounds=54)
    index = [30 / 50 + math.sqrt(2 * math.log(55) / 50), 3 / 4 + math.sqrt(2 * math.log(55) / 4)]
    assert policy.act(state)[0] == int(np.argmax(index))


def test_gamma_proposals_have_the_law_of_gamma() -> None:
    """Thompson's posterior draws are not Beta; Kolmogorov-Smirnov, false alarms 1e-4 each."""
    streams = Streams(range(200))
    for shape in (1.0, 1.5, 40.0):
        draws = gamma(np.full((200, 50), shape), streams).ravel()
        assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-4


def test_thompson_prefers_what_pays() -> None:
    """The posterior does not follow the rewards."""
    policy, streams = Thompson(n_arms=2, horizon=10), Streams(range(300))
    state = State(sums=np.tile([90.0, 10.0], (300, 1)), pulls=np.tile([100.0, 100.0], (300, 1)), rounds=200)
    assert np.mean(policy.act(state, streams)) < 0.01
    learned = policy.learn(state, np.zeros(300, dtype=np.int64), np.full(300, 7.0), FastNoise(np.random.default_rng(0)))
    assert np.all(learned.sums[:, 0] == 91)  # clipped into [0, 1]


BUDGETS = {
    "AdaC-UCB": {"rho": 0.5},
    "AdaP-UCB": {"epsilon": 1.0},
    "DP-SE": {"epsilon": 1.0},
    "LDP-UCB": {"epsilon": 1.0},
    "SDP-SE": {"epsilon": 1.0, "delta": 1e-5},
    "AdaC-GOPE": {"rho": 0.5},
    "AdaC-GOPE-early": {"epsilon": 1.0, "delta": 1e-5},
    "AdaC-OFUL": {"alpha": 3.0, "epsilon": 1.0},
    "AdaC-OFUL-JDP": {"rho": 0.5},
}


@pytest.mark.parametrize("name", [each for each in ALGORITHMS if ALGORITHMS[each].paper == "004"])
def test_names_make_what_they_say(name: str) -> None:
    """A name of paper 004 has another trust model than its entry says, or needs no budget where it promises one."""
    size = "dim" if "GOPE" in name or "OFUL" in name else "n_arms"
    policy = make(name, **{size: 3}, horizon=3000, **BUDGETS.get(name, {}))
    assert policy.guarantee.trust == ALGORITHMS[name].trust
    if name in BUDGETS and name != "LDP-UCB":
        with pytest.raises(InvalidBudget):
            make(name, **{size: 3}, horizon=3000)


def test_indices_of_ldp_ucb_and_ucb1_are_the_stated_ones() -> None:
    """An arm would be played that does not have the largest index of the docstrings, in one of 20,000 states."""
    rng = np.random.default_rng(0)
    pulls = rng.integers(1, 5, (20_000, 3)).astype(float)
    pulls[:, 2] = 12 - pulls[:, 0] - pulls[:, 1]  # 12 rounds were played: this is round 13
    sums = rng.integers(0, pulls.astype(int) + 1).astype(float)
    state = State(sums=sums, pulls=pulls, rounds=12)
    local = LDPUCB(n_arms=3, horizon=99, epsilon=1.0)
    q = math.e / (1 + math.e)
    width = 1 / (2 * q - 1)
    debiased = (sums / pulls - (1 - q)) * width + width * np.sqrt(4 * math.log(13) / (2 * pulls))
    plain = sums / pulls + np.sqrt(4 * math.log(13) / (2 * pulls))
    for policy, index in ((local, debiased), (UCB1(n_arms=3, horizon=99), plain)):
        played = np.take_along_axis(index, policy.act(state)[:, None], axis=-1)[:, 0]
        np.testing.assert_allclose(played, np.max(index, axis=-1), rtol=1e-6)
