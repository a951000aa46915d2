"""UCB in episodes: indices, episodes, prices, and interactive DP."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.policies.base import PlayedRounds, merge_states
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.calibration import gaussian_std
from bandanna.privacy.definitions import ExplicitPolicy
from bandanna.privacy.events import GaussianEvent
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import central, local, none

from ..drawn import LONG
from .answering import Scripted, device_coins, learn_from, learn_with_noise

Floats = NDArray[np.float64]


def played(policy: UCBEpisodes, table: Floats, outputs: Floats) -> tuple[Floats, Floats]:
    """Log density of the released outputs (episodes, n) for a table of rewards (T, K), and the arms, (episodes, n)."""
    n, source = outputs.shape[1], Scripted(outputs)
    state, arms = policy.init(replicates=(n,)), []
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(table, axis=0)])
    for _ in outputs:
        episode = policy.episode(state)
        arm, begun = episode.arms[:, 0], state.rounds
        total = sums[begun + episode.plays[:, 0], arm] - sums[begun, arm]
        state = learn_with_noise(policy, state, episode, total[:, None], source=source)
        arms.append(arm)
    return np.asarray(source.log_density), np.array(arms)


def divergence(policy: UCBEpisodes, table: Floats, other: Floats, order: float) -> float:
    """Renyi divergence of everything released in the first three episodes, by quadrature over the outputs."""
    std, low, high = policy.protocol.std(1), policy.domain.low, policy.domain.high
    axis = np.linspace(low - 6 * std, high + 6 * std, 40)
    grid = np.stack([each.ravel() for each in np.meshgrid(*[axis] * 3, indexing="ij")])
    one, arms = played(policy, table, grid)
    two, others = played(policy, other, grid)
    assert np.array_equal(arms, others)  # what is played next follows from the releases alone
    cell = (axis[1] - axis[0]) ** 3 / (2 * math.pi * std**2) ** 1.5
    assert math.isclose(np.sum(np.exp(one)) * cell, 1, rel_tol=1e-3)
    return float(np.log(np.sum(np.exp(order * one + (1 - order) * two)) * cell) / (order - 1))


TABLE = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("user", range(3))
@pytest.mark.parametrize("order", [1.5, 4.0])
def test_everything_released_about_a_reward_costs_at_most_rho(user: int, order: float) -> None:
    rho = 0.4
    other = TABLE.copy()
    other[user] = 1 - other[user]
    measured = divergence(UCBEpisodes(n_arms=2, horizon=6, privacy=central(rho=rho)), TABLE, other, order)
    assert measured <= order * rho * (1 + 1e-3)
    if user < 2:  # surely released by itself: the price is paid in full
        assert measured >= order * rho * (1 - 1e-3)
        weak = divergence(UCBEpisodes(n_arms=2, horizon=6, privacy=central(rho=rho / 0.64)), TABLE, other, order)
        assert weak > 1.5 * order * rho


@pytest.mark.parametrize(
    ("budget", "claim"),
    [
        (ZCDP(rho=0.3), lambda g: g.rho <= 0.3),
        (ApproxDP(epsilon=1.0, delta=1e-5), lambda g: g.epsilon <= 1 and g.delta == 1e-5),
        (RenyiDP(alpha=4.0, epsilon=1.0), lambda g: 4 * g.rho <= 1),
        (PureDP(epsilon=0.7), lambda g: g.epsilon <= 0.7 and g.delta == 0),
    ],
)
def test_the_guarantee_is_the_budget_and_no_more_noise_than_needed(budget: Budget, claim: object) -> None:
    policy = UCBEpisodes(n_arms=2, horizon=10, privacy=central(budget=budget), reward_range=(-3.0, 5.0))
    assert callable(claim)
    assert claim(policy.guarantee)
    least = math.sqrt(2) * 8 / 0.7 if isinstance(budget, PureDP) else 8 / budget.mu()
    assert math.isclose(policy.protocol.std(1), least, rel_tol=1e-3)
    weaker = type(budget)(**{**vars(budget), "rho" if isinstance(budget, ZCDP) else "epsilon": 2.0})
    weak = UCBEpisodes(n_arms=2, horizon=10, privacy=central(budget=weaker))
    assert weak.protocol.std(1) < policy.protocol.std(1)


def far_from_the_law(draws: Floats, epsilon: float) -> bool:
    """Whether draws, in units of the range, are not those of the discrete Laplace law that epsilon needs, on 2^-20.

    P(Z <= k) = 1 - q^(k+1)/(1+q) for k >= 0, by symmetry below; q = exp(-epsilon/(2^20 + 1)), one step being spent on
    the rounding of sums. Dvoretzky, Kiefer and Wolfowitz, with Massart's constant: false alarms 1e-6.
    """
    q, k = math.exp(-epsilon / (2**20 + 1)), np.sort(np.rint(draws * 2**20))
    law = np.where(k >= 0, 1 - q ** (np.abs(k) + 1) / (1 + q), q ** np.abs(k) / (1 + q))
    ranks = np.arange(len(k) + 1) / len(k)
    away = max(np.max(ranks[1:] - law), np.max(law - ranks[:-1]))
    return bool(away > math.sqrt(math.log(2e6) / (2 * len(k))))


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3.0, 7.0)])
@pytest.mark.parametrize("path", ["law", "messages"])
def test_the_sums_of_adap_ucb_have_the_discrete_laplace_law(path: str, ends: tuple[float, float]) -> None:
    runs, epsilon, (low, high) = 40_000, 0.7, ends
    policy = UCBEpisodes(n_arms=1, horizon=30, privacy=central(epsilon=epsilon, delta=0.0), reward_range=ends)
    state, source = policy.init(replicates=(runs,)), FastNoise(np.random.default_rng(6))
    seen = []
    for reward in (low, high, low):  # of 1, 1 and 2 rounds
        episode = policy.episode(state)
        rows = PlayedRounds(rewards=np.full((runs, int(episode.plays[0, 0])), reward))
        report = policy.report(policy.query, rows, device_coins())
        state = learn_from(policy, state, episode, policy.protocol.release(report, source, path=path).total)
        seen.append((state.estimates[:, 0] - reward) * episode.plays[:, 0] / (high - low))
    for noise in seen:
        assert not far_from_the_law(noise, epsilon)
        assert far_from_the_law(0.8 * noise, epsilon)
    assert abs(np.corrcoef(seen)[0, 1]) < 4.9 / math.sqrt(runs)  # false alarms 1e-6
    assert abs(np.corrcoef(seen)[1, 2]) < 4.9 / math.sqrt(runs)


def test_noise_scales_with_the_width_of_the_range() -> None:
    unit, wide = (
        UCBEpisodes(n_arms=2, horizon=10, privacy=central(rho=1.0), reward_range=ends) for ends in ((0, 1), (-5, 5))
    )
    assert math.isclose(wide.protocol.std(1), 10 * unit.protocol.std(1), rel_tol=1e-6)
    assert math.isclose(unit.protocol.std(1), gaussian_std(sensitivity=1.0, dim=1, budget=ZCDP(rho=1.0)))
    assert math.isclose(unit.protocol.std(1) ** 2, 1 / 2, rel_tol=1e-4)  # 1/(2 rho): [004, (14)]


def test_noise_is_drawn_once_per_arm_and_episode_and_kept() -> None:
    policy = UCBEpisodes(n_arms=3, horizon=200, privacy=central(rho=1.0))
    state, rng = policy.init(), np.random.default_rng(1)
    source = FastNoise(rng)
    for _ in range(12):
        episode = policy.episode(state)
        before = state.estimates.copy()
        state = learn_with_noise(policy, state, episode, rng.binomial(episode.plays, 0.5), source=source)
        resting = np.arange(3) != episode.arms
        assert np.array_equal(state.estimates[resting], before[resting])
        policy.index(state), policy.episode(state)
        assert np.array_equal(policy.episode(state).arms, policy.episode(state).arms)


def test_episodes_double_the_pulls_and_the_index_knows_the_last_one() -> None:
    policy = UCBEpisodes(n_arms=1, horizon=1000, privacy=central(rho=2.0))
    state, source, lengths = policy.init(), Scripted(), []
    for _ in range(6):
        episode = policy.episode(state)
        lengths.append(int(episode.plays[0]))
        state = learn_with_noise(policy, state, episode, episode.plays / 2, source=source)
    assert lengths == [1, 1, 2, 4, 8, 16]
    bonus = math.sqrt((1 / 32 + policy.protocol.std(1) ** 2 * 2 / 16**2) * math.log(33))
    assert math.isclose(float(policy.index(state)[0]), 0.5 + bonus)


def test_infinite_rho_is_no_noise_and_tiny_rho_is_allowed() -> None:
    assert UCBEpisodes(n_arms=2, horizon=9, privacy=central(rho=math.inf)).guarantee.trust == "none"
    tiny = UCBEpisodes(n_arms=2, horizon=9, privacy=central(rho=1e-12))
    assert tiny.protocol.std(1) == pytest.approx(1 / math.sqrt(2e-12), rel=1e-4)


def test_rewards_outside_of_the_range_are_clipped_and_nan_is_refused() -> None:
    policy, coins = UCBEpisodes(n_arms=2, horizon=9, privacy=central(rho=1.0)), device_coins()
    reported = policy.report(policy.query, PlayedRounds(rewards=np.array([[0.5, 1.5, -0.1], [0.0, 1.0, 0.2]])), coins)
    assert reported.values[..., 0].tolist() == [[0.5, 1.0, 0.0], [0.0, 1.0, 0.2]]
    assert reported.clipped.tolist() == [2, 0]
    grouped = PlayedRounds(rewards=np.array([-3.0, 0.5]), counts=np.array([7, 2]))
    assert policy.report(policy.query, grouped, coins).clipped == 7
    for wrong in (math.nan, math.inf):
        with pytest.raises(InvalidStatistic, match="rewards"):
            policy.report(policy.query, PlayedRounds(rewards=np.array([0.5, wrong])), coins)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_arms": 0},
        {"reward_range": (1.0, 1.0)},
        {"reward_range": (0.0, math.inf)},
        {"reward_range": 3},
        {"reward_range": "01"},
        {"optimism": 0.0},
        {"privacy": 1.0},
        {"privacy": ZCDP(rho=1.0)},
        {"privacy": local(rho=1.0)},
    ],
)
def test_arguments_without_meaning_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        UCBEpisodes(**{"n_arms": 2, "horizon": 9, "privacy": none(), **wrong})  # type: ignore[arg-type]


def path_chances(std: float) -> Floats:
    """P(o_3, o_4, o_5 | r_1, ..., r_4), axes (o_3, o_4, o_5, r_1, ..., r_4), of two arms with rewards 0 and 1.

    Rounds 1 and 2 play arms 0 and 1. All means then stem from episodes of one round, so bonuses are equal and cancel.
    Arm i of round 3 beats u = r_j + noise, which is kept; in round 4 its new mean v beats u as well, and is played
    twice, or it does not, and in round 5 v meets the new mean w of arm j.
    """
    x = np.linspace(-12 * std, 1 + 12 * std, 4001)  # both rewards are in [0, 1]; the rest of the mass is below 1e-30
    step = x[1] - x[0]
    density = [stats.norm.pdf(x, r, std) for r in (0, 1)]
    below = [stats.norm.cdf(x, r, std) for r in (0, 1)]
    chances = np.zeros((2,) * 7)
    for i, r1, r2, r3, r4 in product((0, 1), repeat=5):
        mine, other = (r1, r2) if i == 0 else (r2, r1)
        first = density[other] * (1 - below[mine]) * step  # u, and arm i beats it
        chances[i, i, i, r1, r2, r3, r4] = np.sum(first * (1 - below[r3]))
        inner = np.cumsum(density[r3] * below[r4] * step) - density[r3] * below[r4] * step / 2  # v < u, w < v
        again = np.sum(first * inner)
        chances[i, 1 - i, i, r1, r2, r3, r4] = again
        chances[i, 1 - i, 1 - i, r1, r2, r3, r4] = np.sum(first * below[r3]) - again
    return chances


@cache
def explicit(std: float) -> ExplicitPolicy:
    """AdaC-UCB as the probabilities of its recommendations: it looks at rewards, not at which arm was asked for."""
    chances = path_chances(std)
    paths = np.zeros((2, 2, 2) * 4 + (2,))
    for o in product((0, 1), repeat=3):
        for q in product((0, 1), repeat=4):
            place = (0, q[0], slice(None), 1, q[1], slice(None), o[0], q[2], slice(None), o[1], q[3], slice(None), o[2])
            paths[place] = chances[o]
    return ExplicitPolicy(paths=paths)


@pytest.mark.parametrize(
    "rho", [pytest.param(0.05, marks=pytest.mark.full), 0.5, pytest.param(2.0, marks=pytest.mark.full)]
)
def test_no_adversary_learns_more_than_rho(rho: float) -> None:
    policy = explicit(1 / math.sqrt(2 * rho))
    loss = policy.interactive.rho(relative=1e-2)
    assert 0.4 * rho < loss <= rho  # a decision compares two noisy means: about half of the budget shows in 5 rounds
    assert policy.view.rho(relative=1e-2) <= policy.table.rho(relative=1e-2) * 1.01 <= loss * 1.03


def test_the_loss_stays_below_one_release_of_the_mechanism() -> None:
    std = 1.0
    policy = explicit(std)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0) if LONG[0] else (0.0, 0.5, 2.0):
        assert policy.interactive.delta(epsilon) <= gdp.delta(epsilon, 1 / std)


def test_less_noise_would_be_noticed() -> None:
    rho = 0.5
    noise = UCBEpisodes(n_arms=2, horizon=5, privacy=central(rho=rho)).protocol
    assert isinstance(noise, CentralGaussian)
    assert accountant.rho(noise.event) <= rho
    small = GaussianEvent(std=0.8 * noise.noise_std, sensitivity=1.0)
    assert accountant.rho(small) > 1.5 * rho
    seen, seen_small = (explicit(std).interactive.renyi(2.0) for std in (noise.noise_std, small.std))
    assert seen_small > 1.4 * seen


@pytest.mark.parametrize("rewards", [(0, 1, 1, 0), (1, 0, 0, 0), (1, 1, 0, 1)])
def test_the_policy_has_the_law_of_the_quadrature(rewards: tuple[int, ...]) -> None:
    runs, rho = 100_000, 0.5
    policy = UCBEpisodes(n_arms=2, horizon=5, privacy=central(rho=rho))
    source, state = FastNoise(np.random.default_rng(3)), policy.init(replicates=(runs,))
    told = np.array([*rewards, 0])  # rewards by round: the worst a table and an adversary can do together
    rounds = np.zeros(runs, dtype=np.int64)
    actions = np.full((runs, 6), -1)
    while np.any(rounds < 5):
        episode = policy.episode(state)
        arms, lengths = episode.arms[:, 0], episode.plays[:, 0]
        for step in range(2):
            now = np.minimum(rounds + step, 5)
            actions[np.arange(runs), now] = np.where((step < lengths) & (now < 5), arms, actions[np.arange(runs), now])
        sums = sum(np.where(step < lengths, told[np.minimum(rounds + step, 4)], 0) for step in range(2))
        ended = rounds + lengths <= 5
        state = merge_states(
            ended, learn_with_noise(policy, state, episode, np.asarray(sums)[:, None], source=source), state
        )
        rounds = np.minimum(rounds + lengths, 5)
    assert np.all(actions[:, 0] == 0)
    assert np.all(actions[:, 1] == 1)
    counts = np.bincount(actions[:, 2:5] @ [4, 2, 1], minlength=8)
    expected = runs * path_chances(policy.protocol.std(1))[(..., *rewards)].ravel()
    assert np.all(counts[expected < 1e-9] == 0)
    possible = expected > 1e-9
    statistic = float(np.sum((counts - expected)[possible] ** 2 / expected[possible]))
    assert statistic < stats.chi2.isf(1e-6, np.count_nonzero(possible) - 1)
