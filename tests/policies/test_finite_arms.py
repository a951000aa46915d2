"""Policies without features: UCB1, LDP-UCB, Thompson sampling and elimination."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidBudget, InvalidStatistic
from bandanna.numeric.rng import GeneratorRandomness, StreamRandomness, Streams, draw_gamma
from bandanna.policies.base import PlayedRounds, RunnerState, SumQuery
from bandanna.policies.finite import thompson
from bandanna.policies.finite.base import BIT_DOMAIN, ArmSums, select_optimistic_arm
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson, compute_best_arm_probability
from bandanna.policies.finite.ucb import LDPUCB, UCB1, UCBEpisodes, UCBEpisodesState
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.protocols.shuffle_bits import ShuffleBits

from .answering import device_coins, learn_from, learn_with_noise


def sent(policy: LDPUCB, rewards: np.ndarray[tuple[int, ...], np.dtype[np.float64]], seed: int) -> np.ndarray:
    bits = policy.report(policy.query, PlayedRounds(rewards=rewards), device_coins(seed))
    return policy.protocol.device.message(bits, FastNoise(np.random.default_rng([seed, 1])))[:, 0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_randomized_bit_is_exactly_epsilon_private(epsilon: float) -> None:
    policy = LDPUCB(n_arms=2, horizon=10, privacy=local(epsilon=epsilon, delta=0.0), reward_range=(-2.0, 3.0))
    chance = policy.protocol.mechanism.chance(np.linspace(0, 1, 101))
    worst = max(np.max(chance) / np.min(chance), np.max(1 - chance) / np.min(1 - chance))
    assert math.isclose(math.log(worst), epsilon, rel_tol=1e-9)
    assert policy.guarantee.epsilon == pytest.approx(epsilon)
    assert policy.guarantee.trust == "local"
    assert policy.guarantee.delta == 0
    # the event priced is one of which the bit is a function: P(x + Z >= 1), Z two-sided geometric
    q = math.exp(-epsilon)
    assert chance[-1] == pytest.approx(1 / (1 + q))


def test_bits_are_unbiased_and_decisions_are_those_of_the_debiased_means() -> None:
    policy = LDPUCB(n_arms=2, horizon=10, privacy=local(epsilon=1.0, delta=0.0), reward_range=(-1.0, 1.0))
    bits, response = sent(policy, np.full(200_000, 0.4), 0), policy.protocol.mechanism
    mean, truth = -1 + 2 * response.decode(np.mean(bits)), response.truth
    assert abs(mean - 0.4) < 5 * 2 * 0.5 / truth / math.sqrt(len(bits))  # 5 standard errors: 6e-7
    far, end = (sent(policy, np.full(1000, y), 1) for y in (7.0, 1.0))
    np.testing.assert_array_equal(far, end)
    with pytest.raises(InvalidStatistic, match="rewards"):
        sent(policy, np.array([math.nan]), 0)


def test_elimination_releases_each_batch_once_at_its_price() -> None:
    policy = Elimination(n_arms=3, horizon=10**5, privacy=central(epsilon=0.5, delta=0.0), reward_range=(0.0, 4.0))
    episode = policy.episode(policy.init())
    rows = PlayedRounds(rewards=np.full(12, 2.0), arms=np.repeat([0, 1, 2], 4))
    other = PlayedRounds(rewards=np.where(np.arange(12) == 5, 0.0, rows.rewards), arms=rows.arms)
    far = PlayedRounds(rewards=np.where(np.arange(12) == 5, 4.0, rows.rewards), arms=rows.arms)
    asked: list[SumQuery] = []
    steps = policy.learn(policy.init(), episode)
    query = next(steps)
    for _ in range(3):
        asked.append(query)
        if len(asked) < 3:
            query = steps.send(policy.protocol(int(episode.plays[0])).release(np.zeros((4, 1)), FastNoise(rng())))
    assert [query.arm for query in asked] == [0, 1, 2]  # every arm once
    moved = []
    for query in asked:
        assert isinstance(query.protocol, CentralLaplace)
        one, two = (
            policy.report(query, RunnerState().rows(query, each), device_coins()).total() / query.protocol.step
            for each in (other, far)
        )
        moved.append(float(np.sum(np.abs(np.rint(one) - np.rint(two)))) / query.protocol.scale)
    assert moved[0] == moved[2] == 0
    assert 0.5 * (1 - 1e-4) <= moved[1] <= 0.5  # one reward, from one end of the range to the other
    assert moved[1] / 0.8 > 0.5
    assert policy.guarantee.epsilon <= 0.5


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_shuffled_elimination_meets_its_budget_exactly_for_every_batch() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    policy = Elimination(n_arms=2, horizon=10**5, privacy=Privacy(model="shuffle", budget=budget))
    assert len(policy.sizes) == 3
    for size in policy.sizes:
        protocol = policy.protocol(size)
        assert isinstance(protocol, ShuffleBits)
        noise = protocol.noise
        coins, copies = noise.users * noise.trials, int(noise.scale)
        for n, holds in ((coins, True), (int(0.64 * coins), False)):
            middle, far = n // 2, 8 * math.isqrt(n) + copies  # 16 standard deviations: beyond is nothing
            k = np.arange(max(-copies, middle - far), min(n + copies, middle + far) + 1)
            p, q = stats.binom.pmf(k - copies, n, 0.5), stats.binom.pmf(k, n, 0.5)
            exact = max(np.sum(np.maximum(p - math.e * q, 0)), np.sum(np.maximum(q - math.e * p, 0)))
            assert (exact <= budget.delta) == holds
        assert accountant.satisfies(policy.protocol(size).event, budget)
    assert policy.guarantee.trust == "shuffle"
    assert policy.guarantee.epsilon <= 1


def test_shuffled_elimination_with_a_large_epsilon_keeps_some_noise() -> None:
    policy = Elimination(n_arms=2, horizon=10**5, privacy=shuffle(epsilon=1e6, delta=1e-5))
    assert policy.guarantee.epsilon <= 100
    assert policy.protocol(policy.sizes[0]).std(policy.sizes[0]) < 0.15  # of a reward, on a sum of thousands
    for wrong in (shuffle(epsilon=math.inf, delta=1e-5), shuffle(epsilon=1.0, delta=0.0)):
        with pytest.raises(InvalidBudget, match="finite epsilon"):
            Elimination(n_arms=2, horizon=100, privacy=wrong)


def test_shuffled_bits_have_one_law_along_both_paths() -> None:
    policy = Elimination(n_arms=2, horizon=3000, privacy=shuffle(epsilon=1.0, delta=1e-2))
    source, query = FastNoise(np.random.default_rng(3)), SumQuery(protocol=policy.protocol(40), at=1)
    whole = PlayedRounds(rewards=np.array([0.0, 1.0]), arms=np.ones(2, dtype=np.int64), counts=np.array([15, 25]))
    each = PlayedRounds(rewards=np.where(np.arange(40) < 25, 1.0, 0.0), arms=np.ones(40, dtype=np.int64))
    grouped, single = (policy.report(query, rows, device_coins()) for rows in (whole, each))
    assert grouped.domain == single.domain == BIT_DOMAIN
    law = [policy.protocol(40).release(grouped, source, path="law").total[0] for _ in range(1500)]
    messages = [policy.protocol(40).release(single, source).total[0] for _ in range(1500)]
    assert stats.ks_2samp(law, messages).pvalue > 1e-4
    assert abs(np.mean(law) - 25) < 5 * np.std(law) / math.sqrt(1500)


def test_elimination_drops_the_worse_arm_and_then_plays_on() -> None:
    policy = Elimination(n_arms=3, horizon=10**6, privacy=central(epsilon=1.0, delta=0.0))
    state = policy.init()
    episode = policy.episode(state)
    sums = np.array([0.9, 0.1, 0.1]) * episode.plays
    state = learn_with_noise(policy, state, episode, *sums[:, None], source=FastNoise(np.random.default_rng(0)))
    assert state.active.tolist() == [True, False, False]
    assert not policy.episode(state).released
    single = Elimination(n_arms=1, horizon=10, privacy=none())
    assert single.episode(single.init()).released is False


def test_gamma_proposals_have_the_law_of_gamma() -> None:
    seeded = StreamRandomness(Streams(range(200)))
    for shape in (1.0, 1.5, 40.0):
        draws = draw_gamma(np.full((200, 50), shape), seeded).ravel()
        assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-4


def test_the_posterior_of_thompson_follows_the_rewards() -> None:
    policy, seeded = Thompson(n_arms=2, horizon=10), StreamRandomness(Streams(range(300)))
    state = ArmSums(sums=np.tile([90.0, 10.0], (300, 1)), pulls=np.tile([100.0, 100.0], (300, 1)), rounds=200)
    choice = policy.act(policy.publish(state), np.zeros((300, 1, 2, 0)), seeded)
    assert choice.actions.shape == (300, 1)
    assert np.mean(choice.actions) < 0.01
    rows = PlayedRounds(rewards=np.full((300, 1), 7.0), arms=np.zeros((300, 1), dtype=np.int64))
    total = policy.report(policy.query, rows, seeded).total()
    learned = learn_from(policy, state, policy.episode(state), total)
    assert np.all(learned.sums == [91, 10])  # clipped into [0, 1]
    assert np.all(learned.pulls == [101, 100])


def test_indices_of_ldp_ucb_and_ucb1_are_the_stated_ones() -> None:
    rng = np.random.default_rng(0)
    pulls = rng.integers(1, 5, (20_000, 3)).astype(float)
    pulls[:, 2] = 12 - pulls[:, 0] - pulls[:, 1]  # 12 rounds were played: this is round 13
    sums = rng.integers(0, pulls.astype(int) + 1).astype(float)
    state = ArmSums(sums=sums, pulls=pulls, rounds=12)
    bits = LDPUCB(n_arms=3, horizon=99, privacy=local(epsilon=1.0, delta=0.0))
    q = math.e / (1 + math.e)
    width = 1 / (2 * q - 1)
    unbiased = replace(state, sums=(sums - (1 - q) * pulls) * width)  # what LocalBits releases of these bits
    debiased = (sums / pulls - (1 - q)) * width + width * np.sqrt(4 * math.log(13) / (2 * pulls))
    plain = sums / pulls + np.sqrt(4 * math.log(13) / (2 * pulls))
    for policy, known, index in ((bits, unbiased, debiased), (UCB1(n_arms=3, horizon=99), state, plain)):
        played = np.take_along_axis(index, policy.episode(known).arms, axis=-1)[:, 0]
        np.testing.assert_allclose(played, np.max(index, axis=-1), rtol=1e-6)


K, FAILURE = 4, 0.02


def log(factor: float, epoch: int) -> float:
    """log(factor K e^2 / b)."""
    return math.log(factor * K * epoch**2 / FAILURE)


def test_epochs_of_laplace_elimination() -> None:
    """R, h + c and the sizes of DP-SE, with Q = l L' + a lattice step."""
    policy = Elimination(
        n_arms=K, horizon=10**7, reward_range=(0.0, 2.0), failure=FAILURE, privacy=central(epsilon=0.001, delta=0.0)
    )
    quantile = 2.0 / 0.001 * log(4, 2) / 2.0  # noise of scale (high - low) / epsilon, in units of the range
    assert policy._noise_quantile(2, math.nan) == pytest.approx(quantile, rel=1e-3)
    assert policy.users(2) == pytest.approx(8 * quantile / 0.25, rel=1e-3)
    users = policy.users(2)
    assert policy.width(2) == pytest.approx(math.sqrt(log(8, 2) / (2 * users)) + quantile / users, rel=1e-3)


def test_epochs_of_gaussian_elimination() -> None:
    """Q = s sqrt(2 L), and R = 8 Q / D where noise rules."""
    policy = Elimination(n_arms=K, horizon=10**7, reward_range=(1.0, 3.0), failure=FAILURE, privacy=central(rho=1e-7))
    std = 1 / math.sqrt(2 * 1e-7)  # width / mu, in units of the width
    quantile = std * math.sqrt(2 * log(8, 1))
    assert policy._std(17) == pytest.approx(std, rel=1e-3)
    assert policy.users(1) == pytest.approx(8 * quantile / 0.5, rel=1e-3)
    users = policy.users(1)
    assert policy.width(1) == pytest.approx(math.sqrt(log(8, 1) / (2 * users)) + quantile / users, rel=1e-3)
    long = Elimination(n_arms=K, horizon=3 * 10**4, failure=FAILURE, privacy=none())
    sizes = [math.ceil(32 * log(8, epoch) * 4**epoch) for epoch in (1, 2, 3)]
    assert 2 * (sizes[0] + sizes[1]) + sizes[2] > 3 * 10**4 > 2 * sizes[0] + sizes[1]  # two arms are left at least
    assert long.sizes == tuple(sizes[:2])


def test_epochs_of_shuffled_elimination_are_planned_for_all_participations() -> None:
    planned = [
        Elimination(
            n_arms=K,
            horizon=1000,
            failure=FAILURE,
            privacy=shuffle(epsilon=1.0, delta=1e-5, participations=often),
        )._planned_std
        for often in (1, 9)
    ]
    mu = gdp.mu(1.0, 1e-5)
    assert planned == [pytest.approx(1.05 / mu), pytest.approx(3.15 / mu)]  # 5 % above the central Gaussian


@pytest.mark.parametrize(("gap", "left"), [(1.99, 2), (2.01, 1)])
def test_arms_leave_where_their_means_are_two_widths_below(gap: float, left: int) -> None:
    policy = Elimination(n_arms=2, horizon=10**5, failure=FAILURE, privacy=none())
    state = policy.init()
    episode = policy.episode(state)
    means = np.array([0.9, 0.9 - gap * policy.width(1)])
    after = learn_from(policy, state, episode, *(means * episode.plays)[:, None])
    assert int(np.sum(after.active)) == left


def test_the_indices_of_episodes_have_the_printed_bonus() -> None:
    """[004, (14)] for Gaussian noise, computed by hand."""
    state = UCBEpisodesState(
        estimates=np.array([0.5, 0.25]),
        lengths=np.array([4, 16]),
        pulls=np.array([4, 16]),
        rounds=np.asarray(20),
        episodes=np.asarray(2),
    )
    n, log_t = np.array([4.0, 16.0]), 3.0 * math.log(21.0)
    given = {"n_arms": 2, "horizon": 1000, "reward_range": (0.0, 2.0), "optimism": 3.0}
    gaussian = UCBEpisodes(**given, privacy=central(rho=0.02))  # std = 2 / sqrt(2 rho) = 10
    bonus = np.sqrt((4 / (2 * n) + 2 * 100 / n**2) * log_t)
    np.testing.assert_allclose(gaussian.index(state), state.estimates + bonus, rtol=1e-3)
    pure = UCBEpisodes(**given, privacy=central(epsilon=0.5, delta=0.0))  # scale = 2 / epsilon = 4
    bonus = 2 * np.sqrt(log_t / (2 * n)) + 4 * log_t / n
    np.testing.assert_allclose(pure.index(state), state.estimates + bonus, rtol=1e-3)


@pytest.mark.parametrize(("excess", "chosen"), [(1.02, 1), (0.98, 0)])
def test_the_arm_of_a_round_has_the_largest_index(excess: float, chosen: int) -> None:
    rounds, scale = 104, 18.0
    bonus = np.sqrt(scale * math.log(rounds + 1) / np.array([100.0, 4.0]))
    gap = (bonus[1] - bonus[0]) / excess
    state = ArmSums(sums=np.array([100 * gap, 0.0]), pulls=np.array([100.0, 4.0]), rounds=rounds)
    assert select_optimistic_arm(state, scale) == chosen
    policy = UCB1(n_arms=2, horizon=1000, reward_range=(-1.0, 2.0), optimism=4.0)
    assert policy.episode(state).arms == [chosen]


def test_thompson_counts_successes_and_plays_of_every_arm() -> None:
    policy = Thompson(n_arms=5, horizon=10)
    assert policy.query.protocol.domain.dim == 10
    assert policy.act(policy.init(), np.zeros((3, 5, 1)), device_coins()).actions.shape == (3,)


@pytest.mark.parametrize("noise", ["intermediate", "beginning"])
def test_phases_of_gope_have_the_printed_length(noise: str) -> None:
    """c_l of [004, (4)]."""
    policy = GOPE(dim=2, horizon=1000, reward_range=(0.0, 3.0), failure=0.1, noise=noise, privacy=central(rho=0.5))
    state = policy.init(arms=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    assert policy.protocol.domain.dim == (3 if noise == "beginning" else 2)
    assert policy.subgaussian == 1.5
    share = 0.1 / (3 * 1 * 2)
    chi = 2 + 2 * math.sqrt(2 * math.log(2 / share)) + 2 * math.log(2 / share)
    assert state.geometry is not None
    g = 2.0 if noise == "intermediate" else state.geometry.early  # the optimal design of an orthonormal basis has g = d
    learning = 8 * 2.0 * 1.5**2 / 0.75**2 * math.log(4 / share)
    released = 2 * g * 3.0 / 0.75 * math.sqrt(chi)  # std = width / sqrt(2 rho) = 3
    assert policy.length(state) == pytest.approx(learning + released, rel=3e-3)


@pytest.mark.parametrize(("gap", "left"), [(1.99, 2), (2.01, 1)])
def test_gope_drops_arms_two_thresholds_below(gap: float, left: int) -> None:
    policy = GOPE(dim=2, horizon=10_000, privacy=none())
    state = policy.init(arms=np.eye(2))
    episode = policy.episode(state)
    means = np.array([0.9, 0.9 - gap * policy.threshold(1)])  # of both arms, which are orthogonal
    steps = policy.learn(state, episode)
    query = next(steps)
    total = (np.asarray(query.at)[episode.arms] * (means * episode.plays)[:, None]).sum(axis=0)
    after = learn_from(policy, state, episode, total)
    assert len(after.active) == left


POSTERIORS = [
    ([1, 1], [1, 1]),
    ([5, 2, 1], [2, 7, 1]),
    ([50, 40], [60, 70]),
    ([1, 900], [1, 100]),
    ([2, 30, 4], [1, 3, 9]),
    ([1, 1], [300, 1]),
]


def exact(arm: int, alphas: list[int], betas: list[int]) -> Fraction:
    """As a fraction: of whole alphas and betas, densities and distributions are polynomials in theta and 1 - theta."""
    terms = {(alphas[arm] - 1, betas[arm] - 1): 1}  # coefficients by their exponents
    for b, (alpha, beta) in enumerate(zip(alphas, betas, strict=True)):
        if b != arm:  # P(Beta <= x) = P(at least alpha of n coins)
            n, product = alpha + beta - 1, Counter[tuple[int, int]]()
            for (one, other), times in terms.items():
                for heads in range(alpha, n + 1):
                    product[one + heads, other + n - heads] += times * math.comb(n, heads)
            terms = dict(product)
    integral = sum(times * _beta(one + 1, other + 1) for (one, other), times in terms.items())
    return integral / _beta(alphas[arm], betas[arm])


def _beta(a: int, b: int) -> Fraction:
    return Fraction(1, (a + b - 1) * math.comb(a + b - 2, a - 1))


@pytest.mark.parametrize(("alphas", "betas"), POSTERIORS)
def test_the_quadrature_is_exact(alphas: list[int], betas: list[int]) -> None:
    """To 1e-10 of itself."""
    for arm in range(len(alphas)):
        expected = float(exact(arm, alphas, betas))
        assert compute_best_arm_probability(arm, np.array(alphas, float), np.array(betas, float)) == pytest.approx(
            expected, rel=1e-10
        )


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_probabilities_sum_to_1_however_many_plays_there_were(scale: float) -> None:
    alphas, betas = 1 + scale * np.array([1.0, 0.999, 0.5, 0.0]), 1 + scale * np.array([1.0, 1.0, 0.5, 0.001])
    assert sum(compute_best_arm_probability(arm, alphas, betas) for arm in range(4)) == pytest.approx(1.0, abs=1e-9)


def test_probabilities_of_thompson_sampling_are_computed_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    genuine = thompson.compute_best_arm_probability

    def noted(*how: Any) -> float:
        looked.append(1)
        return genuine(*how)

    monkeypatch.setattr(thompson, "compute_best_arm_probability", noted)
    policy = bd.make("Thompson", n_arms=3, horizon=50)
    bd.simulate(policy, bd.environments.FiniteArms(means=(0.8, 0.4, 0.2)), n_seeds=2)
    assert not looked
    agent = bd.Agent(policy=policy, test=True, seed=0)
    for _ in range(5):
        decision = agent.act()
        assert 0 < decision.probability <= 1
        agent.observe(decision.id, 1.0)
    assert looked


def test_replicates_have_probabilities_of_their_own() -> None:
    sums, pulls = np.array([[3.0, 1.0], [0.0, 9.0]]), np.array([[4.0, 4.0], [5.0, 10.0]])
    rng, policy = np.random.default_rng(0), bd.make("Thompson", n_arms=2, horizon=50)
    state = ArmSums(sums=sums, pulls=pulls, rounds=8)
    choice = policy.act(state, np.zeros((2, 400, 2, 0)), GeneratorRandomness(lambda name: rng))
    for run in range(2):
        for arm in np.unique(choice.actions[run]).tolist():
            expected = compute_best_arm_probability(arm, 1 + sums[run], 1 + pulls[run] - sums[run])
            mine = choice.actions[run] == arm
            assert np.all(choice.probabilities[run, mine] == expected)
            assert abs(np.mean(mine) - expected) < 6 * np.sqrt(expected * (1 - expected) / 400)
