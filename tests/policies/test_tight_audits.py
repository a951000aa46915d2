"""Noise costs what is stated, and a fifth less is noticed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from bandanna.device.noise import FastNoise
from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import central

from .answering import ChosenNoise, Scripted, Teacher, device_coins, learn_from, learn_with_noise

Floats = NDArray[np.float64]

SURE = 4.9  # standard errors: false alarm once in 1e6
EPISODES = 5  # of arm 1: 1, 1, 2, 4 and 8 rounds, and the decision after them


def faced(policy: UCBEpisodes) -> tuple[Floats, Floats, Floats]:
    """What arm 0 meets at every decision: how much larger its bonus is, and the noise of arm 1's mean; and its own."""
    outputs = [policy.domain.low - 1e9, *[policy.domain.high * 2.0**k + 1e9 for k in range(EPISODES)]]
    state, larger, noise, own = policy.init(), [], [], spread(policy)
    for k, output in enumerate(outputs):
        episode = policy.episode(state)
        assert episode.arms[0] == (k > 0)
        state = learn_from(policy, state, episode, [output])
        if k:
            bonuses = policy.index(state) - state.estimates
            larger.append(bonuses[0] - bonuses[1])
            noise.append(own / int(episode.plays[0]))
    return np.array(larger), np.array(noise), np.array(own)


def spread(policy: UCBEpisodes) -> float:
    """Scale of Laplace noise, standard deviation of Gaussian noise."""
    protocol = policy.protocol
    return protocol.scale * protocol.step if isinstance(protocol, CentralLaplace) else protocol.std(1)


def log_chance(policy: UCBEpisodes, reward: float) -> float:
    """Log of the chance that arm 1 is played to the end, all of its rewards at the low end, if arm 0 had `reward`."""
    larger, noise, own = faced(policy)
    law = stats.laplace if isinstance(policy.protocol, CentralLaplace) else stats.norm
    u = np.linspace(-60.0, 20.0, 16_001) * own + reward
    beaten = law.logcdf((policy.domain.low - larger - u[:, None]) / noise)  # (n, episodes): noise is symmetric
    logs = law.logpdf(u, reward, own) + np.sum(beaten, axis=1)
    return float(special.logsumexp(logs) + math.log(u[1] - u[0]))


def renyi(policy: UCBEpisodes, orders: Floats) -> Floats:
    """D_alpha of whether arm 1 was played to the end, between neighbours: at most that of all actions."""
    p, q = (log_chance(policy, end) for end in policy.reward_range)
    others = [math.log(-math.expm1(each)) for each in (p, q)]
    both = [orders * p + (1 - orders) * q, orders * others[0] + (1 - orders) * others[1]]
    return np.asarray(np.logaddexp(*both) / (orders - 1))


def loss(policy: UCBEpisodes) -> float:
    orders = np.geomspace(1.001, 1e4, 20_001)
    return float(np.max(renyi(policy, orders) / orders))


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-2.0, 3.0)])
@pytest.mark.parametrize("rho", [0.05, 0.5, 4.0])
def test_actions_of_adac_ucb_tell_nearly_rho_and_never_more(rho: float, ends: tuple[float, float]) -> None:
    policy = UCBEpisodes(n_arms=2, horizon=30, privacy=central(rho=rho), reward_range=ends, optimism=60.0)
    assert 0.9 * rho < loss(policy) <= rho
    weak = UCBEpisodes(n_arms=2, horizon=30, privacy=central(rho=rho / 0.64), reward_range=ends, optimism=60.0)
    assert loss(weak) > 1.4 * rho


def test_actions_of_the_renyi_variant_tell_as_much_as_stated() -> None:
    budget, order = RenyiDP(alpha=8.0, epsilon=8.0), np.array([8.0])

    def learn_from(budget: Budget) -> float:
        return max(
            float(renyi(UCBEpisodes(n_arms=2, horizon=30, privacy=central(budget=budget), optimism=optimism), order)[0])
            for optimism in np.linspace(20.0, 40.0, 9)
        )

    assert 0.85 * 8 < learn_from(budget) <= 8.0
    assert learn_from(RenyiDP(alpha=8.0, epsilon=8.0 / 0.64)) > 1.2 * 8


def test_actions_of_the_epsilon_delta_variant_tell_as_much_as_stated() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)

    def learn_from(budget: Budget) -> float:
        found = []
        for optimism in np.geomspace(1.0, 10.0, 10):
            policy = UCBEpisodes(n_arms=2, horizon=30, privacy=central(budget=budget), optimism=float(optimism))
            p, q = (math.exp(log_chance(policy, end)) for end in policy.reward_range)
            found.append(p - math.exp(1.0) * q)
        return max(found)

    assert 0.5e-5 < learn_from(budget) <= 1e-5
    assert learn_from(ZCDP(rho=(budget.mu() / 0.8) ** 2 / 2)) > 5e-5


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-2.0, 3.0)])
def test_actions_of_adap_ucb_tell_nearly_epsilon_and_never_more(ends: tuple[float, float]) -> None:

    def learn_from(epsilon: float) -> float:
        privacy = central(epsilon=epsilon, delta=0.0)
        policy = UCBEpisodes(n_arms=2, horizon=30, privacy=privacy, reward_range=ends, optimism=3.0)
        p, q = (log_chance(policy, end) for end in ends)
        return p - q

    assert 0.95 * 0.7 < learn_from(0.7) <= 0.7
    assert learn_from(0.7 / 0.8) > 1.15 * 0.7


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_the_audited_path_has_its_chance_in_the_code(reward: float) -> None:
    runs, policy = 40_000, UCBEpisodes(n_arms=2, horizon=30, privacy=central(rho=0.5), optimism=0.05)
    state, source = policy.init(replicates=(runs,)), FastNoise(np.random.default_rng(8))
    stayed = np.ones(runs, dtype=bool)
    for k in range(EPISODES + 2):
        episode = policy.episode(state)
        stayed &= episode.arms[:, 0] == (k > 0)
        state = learn_with_noise(policy, state, episode, np.full((runs, 1), reward if k == 0 else 0.0), source=source)
    chance = math.exp(log_chance(policy, reward))
    assert abs(np.mean(stayed) - chance) < SURE * math.sqrt(chance * (1 - chance) / runs)
    assert chance > 0.02


def dropped(policy: Elimination | GOPE, gap: float, runs: int) -> float:
    """How often the second of two arms is dropped after one release, if its mean is `gap` below the threshold."""
    source, many = FastNoise(np.random.default_rng(4)), 0
    if isinstance(policy, GOPE):
        begun = policy.init(np.eye(2))
        phase = policy.episode(begun)
        assert phase.plays[0] == phase.plays[1]
        means = (2 * policy.threshold(1) - gap) * np.array([0.5, -0.5])
        rows, coins = (
            PlayedRounds(rewards=means, arms=phase.arms, counts=phase.plays),
            device_coins(),
        )
        total = policy.report(next(policy.learn(begun, phase)), rows, coins).total()
        for _ in range(runs):
            many += len(learn_with_noise(policy, begun, phase, total, source=source).active) == 1
        return many / runs
    state, epoch = policy.init(), policy.episode(policy.init())
    low, width = policy.domain.low, policy.domain.width
    totals = (low + width * (0.5 + (2 * policy.width(1) - gap) * np.array([0.5, -0.5]))) * epoch.plays
    for _ in range(runs):
        many += not learn_with_noise(policy, state, epoch, *totals[:, None], source=source).active[1]
    return many / runs


@pytest.mark.often(when=lambda budget, ends: (ends[0] == 0.0) == isinstance(budget, ZCDP))
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3.0, 7.0)])
@pytest.mark.parametrize("budget", [PureDP(epsilon=0.5), ZCDP(rho=0.125)])
def test_the_noise_that_decides_in_dp_se_is_the_noise_that_is_priced(budget: Budget, ends: tuple[float, float]) -> None:
    policy = Elimination(n_arms=2, horizon=10**5, privacy=central(budget=budget), reward_range=ends)
    users, runs = int(policy.episode(policy.init()).plays[0]), 3000
    if isinstance(budget, PureDP):
        gap, chance = 2 / 0.5 / users, math.exp(-2)  # two Laplace of scale 1: P(difference > x) = (2 + x) e^-x / 4
    else:
        gap, chance = math.sqrt(2) / math.sqrt(0.25) / users, stats.norm.sf(1)
    assert abs(dropped(policy, gap, runs) - chance) < SURE * math.sqrt(chance * (1 - chance) / runs)


@pytest.mark.often(when=lambda noise, ends: (noise == "beginning") == (ends[1] == 1.0))
@pytest.mark.parametrize("noise", ["intermediate", "beginning"])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-6.0, 4.0)])
def test_the_noise_that_decides_in_adac_gope_is_the_noise_that_is_priced(noise: str, ends: tuple[float, float]) -> None:
    policy = GOPE(dim=2, horizon=10**5, privacy=central(rho=0.02), noise=noise, reward_range=ends)
    plays, runs, width = policy.episode(policy.init(np.eye(2))).plays[0], 3000, ends[1] - ends[0]
    gap = math.sqrt(2) * width / math.sqrt(0.04) / plays  # w^2/(2 rho) on each arm's sum
    chance = float(stats.norm.sf(1))
    assert abs(dropped(policy, gap, runs) - chance) < SURE * math.sqrt(chance * (1 - chance) / runs)


def too_small(draws: Floats, least: float) -> bool:
    """Whether draws (n,), around 0, have less than the variance least^2: chi-squared, false alarms 1e-6."""
    return float(np.sum(draws**2)) < least**2 * float(stats.chi2.ppf(1e-6, draws.size))


@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_the_vector_of_adac_oful_has_the_noise_that_is_priced(bound: float) -> None:
    policy = OFUL(dim=2, horizon=100, privacy=central(rho=0.3), reward_range=(0.0, 4.0), feature_bound=bound)
    source, far = FastNoise(np.random.default_rng(1)), 9 * np.eye(2)
    noise = np.ravel([Teacher(policy, source).learn(far, np.ones(2)).vector - bound for _ in range(400)])
    least = 4.0 * bound / math.sqrt(2 * 0.3)
    assert not too_small(noise, least)
    assert too_small(0.8 * noise, least)


def test_an_episode_of_adac_oful_is_released_once() -> None:
    policy, source = OFUL(dim=2, horizon=100, privacy=central(rho=0.3)), Scripted()
    teacher = Teacher(policy, source)
    teacher.learn(np.eye(2), np.ones(2))
    teacher.learn(np.eye(2), np.zeros(2))
    assert [each.tolist() for each, _ in source.releases] == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "budget", [pytest.param(ZCDP(rho=0.5), marks=pytest.mark.full), ApproxDP(epsilon=1.0, delta=1e-5)]
)
def test_matrix_and_vector_of_the_joint_variant_have_the_noise_that_is_priced(budget: Budget) -> None:
    policy = OFULJDP(
        dim=2, horizon=100, batch=100, privacy=central(budget=budget), share=0.4, growth=1e-9, reward_range=(-1.0, 2.0)
    )
    source, far = FastNoise(np.random.default_rng(2)), np.full((100, 2), 9.0)
    rewards = np.where(np.arange(100) < 70, 5.0, -5.0)  # clipped: 2 and -1
    matrices, vectors = [], []
    for _ in range(600):
        teacher = Teacher(policy, source)
        state = teacher.learn(far, rewards)
        matrices.append(policy.matrix.domain.pack(state.released - 50.0))  # type: ignore[attr-defined]
        if state.switches:
            vectors.append(state.vector - (70 * 2 - 30) / math.sqrt(2))
            assert not teacher.answers.desk.kept
    # one step: the factorisation is 1, and a user moves the matrix by at most sqrt 2, the vector by 2 * 2; both by
    # so much that 0.4 (1 - c^2) + 0.6 (1 + c)/2 of the sum of squares is paid, at most at c = 0.6 / (4 * 0.4)
    paid = 0.4 * (1 - 0.375**2) + 0.6 * 1.375 / 2
    for noise, sensitivity, share in ((np.ravel(matrices), math.sqrt(2), 0.4), (np.ravel(vectors), 4.0, 0.6)):
        least = sensitivity * math.sqrt(paid) / (budget.mu() * math.sqrt(share))
        assert noise.size > 1000
        assert not too_small(noise, least)
        assert too_small(0.8 * noise, least)


RANGES = ((0.0, 1.0), (-3.0, 7.0), (1000.0, 1001.0))
BUDGETS = (PureDP(epsilon=0.5), ZCDP(rho=0.125), ApproxDP(epsilon=1.0, delta=1e-6))


def policies(budget: Budget, ends: tuple[float, float]) -> list[tuple[Policy[Any], Any]]:
    """Those that release sums of rewards by a trusted server, and their states before anything is released."""
    shared: dict[str, Any] = {"privacy": central(budget=budget), "reward_range": ends}
    finite = [kind(n_arms=2, horizon=10**5, **shared) for kind in (Elimination, UCBEpisodes)]
    found: list[tuple[Policy[Any], Any]] = [(policy, policy.init()) for policy in finite]
    if not isinstance(budget, PureDP):  # Gaussian only
        for noise in ("intermediate", "beginning"):
            linear = GOPE(dim=2, horizon=10**5, noise=noise, **shared)
            found.append((linear, linear.init(np.eye(2))))
    return found


def stated(budget: Budget) -> float:
    """The largest ratio of change to noise that a budget allows: epsilon for Laplace noise, mu for Gaussian."""
    return budget.epsilon if isinstance(budget, PureDP) else budget.mu()


def released(policy: Policy[Any], query: SumQuery, rewards: Any) -> tuple[Any, float]:
    """A sum of one arm's rewards without its noise, and what is asked of the source: scale or standard deviation."""
    source, rows = ChosenNoise(), PlayedRounds(rewards=rewards, arms=np.zeros(len(rewards), dtype=np.int64))
    shown = query.protocol.release(policy.report(query, rows, device_coins()), source, path="messages").total
    (spread,) = source.stds
    return shown, spread * (query.protocol.step if isinstance(query.protocol, CentralLaplace) else 1.0)


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp", "approx"])
def test_a_reward_moves_a_release_by_no_more_than_its_noise_is_made_for(
    budget: Budget, ends: tuple[float, float]
) -> None:
    for policy, state in policies(budget, ends):
        query = next(policy.learn(state, policy.episode(state)))
        rest = np.full(8, ends[0])
        (one, spread), (two, same) = (released(policy, query, np.append(rest, end)) for end in ends)
        assert spread == same
        assert 0.999 * stated(budget) <= float(np.linalg.norm(two - one)) / spread <= stated(budget)


@pytest.mark.parametrize("share", [0.98, 1.02])
@pytest.mark.parametrize("raw", [0.0, 0.5, 1.0])
def test_elimination_decides_by_releases(raw: float, share: float) -> None:
    policy = Elimination(n_arms=2, horizon=10**5, privacy=central(epsilon=0.5, delta=0.0))
    state = policy.init()
    epoch = policy.episode(state)
    users, gap = int(epoch.plays[0]), 2 * share * policy.width(1)
    step = policy.protocol(users).step
    noise = (0.5 - gap * np.arange(2) - raw) * users / step  # what is released: 1/2 and 1/2 - gap
    after = learn_with_noise(policy, state, epoch, *np.full((2, 1), raw * users), source=ChosenNoise(noise))
    assert after.active.tolist() == [True, share < 1]


def test_laplace_noise_is_used_for_pure_budgets_only() -> None:
    for budget in BUDGETS:
        noise = Elimination(n_arms=2, horizon=1000, privacy=central(budget=budget)).protocol(2)
        assert isinstance(noise, CentralLaplace) == isinstance(budget, PureDP)
        assert math.isfinite(noise.guarantee.epsilon)
