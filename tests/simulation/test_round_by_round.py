"""Plain loops over single rounds, written from the papers' pseudo-code alone, beside the simulator's episodes.

They share nothing with the policies but the noise's standard deviation: who is played is decided from a list of all
rewards so far, one coin for each round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import ClippingWarning, InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.base import Policy
from bandanna.policies.design import optimal_design
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import LDPUCB, UCB1, UCBEpisodes
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded, Environment, World
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms
from bandanna.simulation.environments.linear import LinearContextual, SphereArms, SphereContexts
from bandanna.simulation.environments.population import OneClientPerRound, Population
from bandanna.types import Floats

MEANS, RUNS = (0.3, 0.7, 0.5), 400
ENV = FiniteArms(means=MEANS)
Noise = Callable[[np.random.Generator], float]


def ucb(rng: np.random.Generator, rounds: int, noise: Noise, bonus: Callable[[int, int], float]) -> float:
    """Algorithm 4 of 004: every arm once; then the arm with the largest index until its pulls have doubled."""
    rewards: list[list[float]] = [[] for _ in MEANS]
    known: dict[int, tuple[float, int]] = {}  # arm: noisy mean and length of its last episode
    playing, until, begun, regret, coins = 0, 1, 0, 0.0, rng.random(rounds).tolist()
    for t in range(1, rounds + 1):
        if len(rewards[playing]) == until:  # the episode is over: release it, choose
            last = rewards[playing][begun:]
            known[playing] = ((sum(last) + noise(rng)) / len(last), len(last))
            index = [known[a][0] + bonus(known[a][1], t) if a in known else math.inf for a in range(len(MEANS))]
            playing = index.index(max(index))
            begun = len(rewards[playing])
            until = max(1, 2 * begun)
        rewards[playing].append(float(coins[t - 1] < MEANS[playing]))
        regret += max(MEANS) - MEANS[playing]
    return regret


def elimination(rng: np.random.Generator, rounds: int, failure: float, scale: float) -> float:
    """Successive elimination with Laplace noise: arms in turn, one round at a time."""
    active, epoch, regret, t = list(range(len(MEANS))), 1, 0.0, 0
    while t < rounds:
        log, gap = math.log(8 * len(MEANS) * epoch**2 / failure), 2.0**-epoch
        quantile = scale * math.log(4 * len(MEANS) * epoch**2 / failure)
        length = math.ceil(max(32 * log / gap**2, 8 * quantile / gap))
        turns = min(length * len(active), rounds - t)
        played = np.resize(active, turns)
        paid = rng.random(turns) < np.array(MEANS)[played]  # one coin for each round
        regret, t = regret + float(np.sum(max(MEANS) - np.array(MEANS)[played])), t + turns
        if turns < length * len(active):
            return regret
        means = {arm: (np.sum(paid[played == arm]) + rng.laplace(scale=scale)) / length for arm in active}
        width = math.sqrt(log / (2 * length)) + quantile / length
        active = [arm for arm in active if max(means.values()) - means[arm] <= 2 * width]
        epoch += 1
        if len(active) == 1:
            return regret + (rounds - t) * (max(MEANS) - MEANS[active[0]])
    return regret


def gope(rng: np.random.Generator, world: World, rounds: int, failure: float, rho: float) -> float:
    """Algorithm 2 of 004 with rewards -1 or 1: a phase, its estimate, V^{-1/2} noise, arms that are surely worse go."""
    arms, phase, t, regret = world.contexts(0, 1)[0, 0], 0, 0, 0.0
    means = world.means(world.contexts(0, 1))[0, 0]
    active = np.arange(len(arms))
    while True:
        phase += 1
        beta, share = 2.0**-phase, failure / (len(arms) * phase * (phase + 1))
        design, log = optimal_design(arms[active]), math.log(2 / share)
        chi = design.rank + 2 * math.sqrt(design.rank * log) + 2 * log
        length = 8 * design.g / beta**2 * math.log(4 / share) + 2 * design.g / beta * math.sqrt(2 / rho * chi)
        gram, total = np.zeros((2, 2)), np.zeros(2)
        for place, weight in zip(active[design.support], design.weights, strict=True):
            plays, gap = math.ceil(length * weight), float(np.max(means) - means[place])
            won = rng.random(min(plays, rounds - t)) < (1 + means[place]) / 2  # one coin for each round
            regret, t = regret + gap * len(won), t + len(won)
            if len(won) < plays:
                return regret
            gram = gram + plays * np.outer(arms[place], arms[place])
            total = total + arms[place] * float(np.sum(np.where(won, 1.0, -1.0)))
        values, vectors = np.linalg.eigh(np.linalg.inv(gram))
        root = vectors @ np.diag(np.sqrt(values)) @ vectors.T  # V^{-1/2}
        g = max(float(np.linalg.norm(root @ arm)) for arm in arms[active[design.support]])
        theta = root @ root @ total + root @ rng.normal(0, math.sqrt(2 / rho) * g, size=2)
        scores = arms[active] @ theta
        active = active[np.max(scores) - scores <= 2 * beta]
        if len(active) == 1:
            return regret + (rounds - t) * float(np.max(means) - means[active[0]])


def same_law(policy: Policy, env: Environment, plain: Callable[[np.random.Generator], float], runs: int = RUNS) -> None:
    """Regrets of so many runs each have one law; Kolmogorov-Smirnov, false alarms 1e-4."""
    ours = np.round(simulate(policy, env, n_seeds=runs, checkpoints=1).final_regret, 6)
    theirs = np.round([plain(np.random.default_rng([1, run])) for run in range(runs)], 6)
    assert stats.ks_2samp(ours, theirs, method="asymp").pvalue > 1e-4
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * math.hypot(np.std(ours), np.std(theirs)) / math.sqrt(runs)


@pytest.mark.parametrize("rho", [0.05, pytest.param(math.inf, marks=pytest.mark.full)])
def test_ucb_in_episodes_is_the_printed_algorithm(rho: float) -> None:
    privacy = none() if math.isinf(rho) else central(rho=rho)
    std = 0.0 if math.isinf(rho) else 1 / math.sqrt(2 * rho)
    same_law(
        UCBEpisodes(n_arms=3, horizon=600, privacy=privacy),
        ENV,
        lambda rng: ucb(
            rng,
            600,
            lambda rng: rng.normal(0, std),
            lambda n, t: math.sqrt((1 / (2 * n) + 2 * std**2 / n**2) * math.log(t)),
        ),
        runs=1000,
    )


def test_adap_ucb_is_the_printed_algorithm() -> None:
    epsilon = 0.7
    same_law(
        UCBEpisodes(n_arms=3, horizon=600, privacy=central(epsilon=epsilon, delta=0.0)),
        ENV,
        lambda rng: ucb(
            rng,
            600,
            lambda rng: rng.laplace(scale=1 / epsilon),
            lambda n, t: math.sqrt(math.log(t) / (2 * n)) + math.log(t) / (epsilon * n),
        ),
        runs=1000,
    )


def test_dp_se_is_the_printed_algorithm() -> None:
    policy = Elimination(n_arms=3, horizon=9000, privacy=central(epsilon=0.1, delta=0.0), failure=0.5)
    same_law(policy, ENV, lambda rng: elimination(rng, 9000, 0.5, 10.0))


def test_adac_gope_is_the_printed_algorithm() -> None:
    env = SphereArms(dim=2, n_arms=4)
    policy = GOPE(dim=2, horizon=2500, privacy=central(rho=0.05), failure=0.5)
    ours = simulate(policy, env, n_seeds=RUNS, checkpoints=1)
    worlds = (env.begin(Streams([seed])) for seed in range(RUNS))  # the very same worlds
    theirs = [gope(np.random.default_rng([2, i]), world, 2500, 0.5, 0.05) for i, world in enumerate(worlds)]
    difference = ours.final_regret - theirs
    assert np.mean(ours.counts["phases"]) > 1
    assert stats.ks_2samp(ours.final_regret, theirs, method="asymp").pvalue > 1e-4
    assert abs(np.mean(difference)) < 4 * np.std(difference) / math.sqrt(RUNS)


# Runners of finite arms, fixed arms and public contexts: exact in law, the same in any company, sound at the edges


FEW = FiniteArms(means=(0.3, 0.7, 0.5))
SHUFFLE = shuffle(epsilon=1.0, delta=1e-2)
SPHERE, FRESH = SphereArms(dim=2, n_arms=4), SphereContexts(dim=2, n_arms=4)
POLICIES: list[tuple[Any, Any]] = [
    (UCB1(n_arms=3, horizon=300), FEW),
    (Thompson(n_arms=3, horizon=300), FEW),
    (LDPUCB(n_arms=3, horizon=300, privacy=local(epsilon=1.0, delta=0.0)), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=none()), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=central(rho=1.0)), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=central(epsilon=1.0, delta=0.0)), FEW),
    (Elimination(n_arms=3, horizon=12_000, privacy=central(epsilon=1.0, delta=0.0), failure=0.1), FEW),
    (Elimination(n_arms=3, horizon=12_000, privacy=SHUFFLE, failure=0.1), FEW),
    (GOPE(dim=2, horizon=20_000, privacy=none()), SPHERE),
    (GOPE(dim=2, horizon=20_000, privacy=central(rho=0.1)), SPHERE),
    (GOPE(dim=2, horizon=20_000, privacy=central(rho=0.1), noise="beginning"), SPHERE),
    (OFUL(dim=2, horizon=300, privacy=none()), FRESH),
    (OFUL(dim=2, horizon=300, privacy=central(rho=0.1)), FRESH),
    (OFULJDP(dim=2, horizon=300, privacy=central(rho=1.0)), FRESH),
]


@pytest.mark.parametrize(("policy", "env"), POLICIES)
def test_a_seed_gives_the_same_run_in_any_company(policy: Any, env: Any) -> None:
    many, alone = simulate(policy, env, n_seeds=3, seed=5), simulate(policy, env, n_seeds=1, seed=6)
    assert np.array_equal(many.regret[1], alone.regret[0])
    assert many.rewards[1] == alone.rewards[0]
    assert many.horizon == policy.horizon
    assert np.all(np.diff(many.regret, axis=1) >= -1e-9)
    assert many.guarantee == policy.guarantee


SCALE = FiniteArms(means=(0.1, 0.5), reward=ClippedGaussian(std=0.5, low=-1.0, high=1.0, levels=21))


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        (UCBEpisodes(n_arms=3, horizon=150, privacy=none()), FEW),
        (UCBEpisodes(n_arms=3, horizon=150, privacy=central(rho=1.0)), FEW),
        (UCBEpisodes(n_arms=2, horizon=150, privacy=central(epsilon=1.0, delta=0.0), reward_range=(-0.5, 0.7)), SCALE),
        (
            Elimination(
                n_arms=2, horizon=2_000, privacy=central(epsilon=0.5, delta=0.0), failure=0.5, reward_range=(-1, 1)
            ),
            SCALE,
        ),
        pytest.param(
            Elimination(n_arms=2, horizon=2_000, privacy=SHUFFLE, failure=0.5, reward_range=(-1, 1)),
            SCALE,
            marks=pytest.mark.full,
        ),
        (Elimination(n_arms=2, horizon=2_000, privacy=SHUFFLE, failure=0.5, reward_range=(-0.5, 0.7)), SCALE),
        pytest.param(GOPE(dim=2, horizon=6_000, failure=0.5, privacy=none()), SPHERE, marks=pytest.mark.full),
        pytest.param(
            GOPE(dim=2, horizon=6_000, privacy=central(rho=0.05), failure=0.5), SPHERE, marks=pytest.mark.full
        ),
        (GOPE(dim=2, horizon=6_000, privacy=central(rho=0.05), failure=0.5, noise="beginning"), SPHERE),
    ],
)
def test_episodes_in_one_draw_have_the_law_of_single_rounds(policy: Any, env: Any) -> None:
    law = simulate(policy, env, n_seeds=600)
    rounds = simulate(policy, env, n_seeds=200, seed=10_000, path="messages")  # 600 and 200 tell as much as 300 and 300
    for one, two in ((law.final_regret, rounds.final_regret), (law.rewards, rounds.rewards)):
        assert stats.ks_2samp(one, two, method="asymp").pvalue > 1e-4
    assert np.any(law.clipped) == np.any(rounds.clipped)
    if np.any(law.clipped):
        assert stats.ks_2samp(law.clipped, rounds.clipped, method="asymp").pvalue > 1e-4
    middle = law.regret.shape[1] // 3
    assert stats.ks_2samp(law.regret[:, middle], rounds.regret[:, middle], method="asymp").pvalue > 1e-4


@pytest.mark.often(when=lambda privacy, kind, horizon: horizon == 400 and privacy.noisy == (kind is SphereContexts))
@pytest.mark.parametrize("kind", [SphereContexts, SphereArms])
@pytest.mark.parametrize("privacy", [none(), central(rho=0.1)])
@pytest.mark.parametrize("horizon", [400, 1000])
def test_speculative_chunks_are_the_rounds_one_by_one(privacy: Privacy, kind: Any, horizon: int) -> None:
    """A chunk is cut at another round than the first crossing, or what follows, or an arm that stays, is not decided
    anew."""
    policy = OFUL(dim=3, horizon=horizon, ridge=0.1, privacy=privacy)
    env = kind(dim=3, n_arms=5, reward=ClippedGaussian(low=-1.0, high=1.0))
    chunks, rounds = simulate(policy, env, n_seeds=2), simulate(policy, env, n_seeds=2, path="messages")
    assert np.allclose(chunks.regret, rounds.regret)
    assert np.array_equal(chunks.counts["switches"], rounds.counts["switches"])
    assert np.array_equal(chunks.plays, rounds.plays)
    assert np.all(chunks.counts["switches"] > 5)


def test_a_trillion_rounds_are_as_many_steps_as_there_are_episodes() -> None:
    env = FiniteArms(means=(0.75, 0.625, 0.5))
    for policy in (
        UCBEpisodes(n_arms=3, horizon=10**12, privacy=central(rho=1.0)),
        Elimination(n_arms=3, horizon=10**12, privacy=central(epsilon=1.0, delta=0.0)),
    ):
        result = simulate(policy, env, n_seeds=5)
        assert result.horizon == 10**12
        assert np.all(result.final_regret < 20_000)
    linear = simulate(GOPE(dim=2, horizon=10**12, privacy=central(rho=1.0)), SPHERE, n_seeds=2)
    assert np.all(linear.final_regret < 10**6)


@pytest.mark.parametrize("means", [(0.5,), (0.4, 0.4, 0.4), (0.0, 1.0)])
@pytest.mark.parametrize("rho", [1e-9, math.inf])
def test_edge_cases_of_finite_arms_run_without_spurious_regret(means: tuple[float, ...], rho: float) -> None:
    env, k = FiniteArms(means=means), len(means)
    for policy in (
        UCB1(n_arms=k, horizon=100),
        Thompson(n_arms=k, horizon=100),
        UCBEpisodes(n_arms=k, horizon=1000, privacy=central(rho=rho)),
        Elimination(n_arms=k, horizon=1000, privacy=central(epsilon=1.0, delta=0.0)),
        GOPE(dim=k, horizon=1000, privacy=central(rho=rho), reward_range=(0, 1)),
        OFUL(dim=k, horizon=100, privacy=central(rho=rho), reward_range=(0, 1)),
    ):
        result = simulate(policy, env, n_seeds=2)
        assert np.all(np.isfinite(result.regret))
        if len(set(means)) == 1:
            assert np.all(result.final_regret == 0)


@pytest.mark.parametrize("means", [(0.5,), (0.4, 0.4, 0.4), (0.0, 1.0)])
@pytest.mark.parametrize("size", ["least", "most"])
def test_edge_cases_of_the_noisy_models_run(means: tuple[float, ...], size: str) -> None:
    env, k, least = FiniteArms(means=means), len(means), size == "least"
    shuffled = shuffle(epsilon=1e-6 if least else 1e6, delta=1e-5)
    for policy in (
        LDPUCB(n_arms=k, horizon=100, privacy=local(epsilon=1e-12 if least else 1e6, delta=0.0)),
        UCBEpisodes(n_arms=k, horizon=1000, privacy=central(epsilon=1e-9 if least else 1e9, delta=0.0)),
        Elimination(n_arms=k, horizon=5000, privacy=central(epsilon=1e-9 if least else 1e9, delta=0.0)),
        Elimination(n_arms=k, horizon=5000, privacy=shuffled),
        OFULJDP(dim=k, horizon=200, privacy=central(rho=1e-9 if least else 1e9), reward_range=(0, 1)),
    ):
        result = simulate(policy, env, n_seeds=2)
        assert np.all(np.isfinite(result.regret))
        if len(set(means)) == 1:
            assert np.all(result.final_regret == 0)
        assert result.guarantee.epsilon <= getattr(policy.privacy.budget, "epsilon", math.inf)


def test_a_large_epsilon_comes_close_to_no_noise() -> None:
    env = FiniteArms(means=(0.1, 0.9))
    bare = simulate(Elimination(n_arms=2, horizon=5000, privacy=none()), env, n_seeds=20).mean()[-1]
    for policy in (
        Elimination(n_arms=2, horizon=5000, privacy=central(epsilon=1e9, delta=0.0)),
        Elimination(n_arms=2, horizon=5000, privacy=shuffle(epsilon=1e6, delta=1e-5)),
    ):
        assert simulate(policy, env, n_seeds=20).mean()[-1] == pytest.approx(bare, rel=0.1)
    bare, answers = (
        simulate(policy, env, n_seeds=20).mean()[-1]
        for policy in (
            UCB1(n_arms=2, horizon=1000),
            LDPUCB(n_arms=2, horizon=1000, privacy=local(epsilon=1e6, delta=0.0)),
        )
    )
    assert answers == pytest.approx(bare, rel=0.1)
    joint = {rho: OFULJDP(dim=2, horizon=400, privacy=central(rho=rho), batch=4) for rho in (1.0, 1e9)}
    free = simulate(OFUL(dim=2, horizon=400, privacy=none()), FRESH, n_seeds=8).mean()[-1]
    regret = {rho: simulate(policy, FRESH, n_seeds=8).mean()[-1] for rho, policy in joint.items()}
    assert abs(regret[1e9] / free - 1) < 0.2 < regret[1.0] / free - 1


def test_infinite_rho_gives_the_very_runs_without_noise() -> None:
    for one, two, env in (
        (
            UCBEpisodes(n_arms=3, horizon=500, privacy=none()),
            UCBEpisodes(n_arms=3, horizon=500, privacy=central(rho=math.inf)),
            FEW,
        ),
        (
            GOPE(dim=2, horizon=20_000, privacy=none()),
            GOPE(dim=2, horizon=20_000, privacy=central(rho=math.inf)),
            SPHERE,
        ),
        (OFUL(dim=2, horizon=300, privacy=none()), OFUL(dim=2, horizon=300, privacy=central(rho=math.inf)), FRESH),
    ):
        assert np.array_equal(simulate(one, env, n_seeds=3).regret, simulate(two, env, n_seeds=3).regret)


def test_rewards_outside_of_the_declared_range_are_clipped_and_counted() -> None:
    env = FiniteArms(means=(0.0, 0.5), reward=ClippedGaussian(std=1.0, low=-2.0, high=2.0, levels=41))
    for policy in (
        UCBEpisodes(n_arms=2, horizon=500, privacy=central(rho=1.0)),
        UCB1(n_arms=2, horizon=500),
        LDPUCB(n_arms=2, horizon=500, privacy=local(epsilon=1.0, delta=0.0)),
        Elimination(n_arms=2, horizon=500, privacy=central(epsilon=1.0, delta=0.0)),
    ):
        assert np.all(simulate(policy, env, n_seeds=2).clipped > 100)
    inside = UCBEpisodes(n_arms=2, horizon=500, privacy=central(rho=1.0), reward_range=(-2, 2))
    assert np.all(simulate(inside, env, n_seeds=2).clipped == 0)
    assert np.all(simulate(UCB1(n_arms=2, horizon=50), FiniteArms(means=(0.2, 0.6), reward=Bounded())).clipped == 0)


def test_worlds_that_do_not_fit() -> None:
    fresh = LinearContextual(dim=3, n_arms=3)
    for policy in (
        UCB1(n_arms=3, horizon=10),
        UCBEpisodes(n_arms=3, horizon=10, privacy=none()),
        GOPE(dim=3, horizon=10, privacy=none()),
    ):
        with pytest.raises(InvalidArgument, match="whose arms stay"):
            simulate(policy, fresh)
    with pytest.raises(InvalidArgument, match="n_arms"):
        simulate(UCB1(n_arms=2, horizon=10), FEW)


def test_an_episode_that_the_end_cuts_short_is_not_released() -> None:
    policy = UCBEpisodes(n_arms=1, horizon=100, privacy=central(rho=1.0))
    for rounds, released in ((10, 4), (16, 4), (17, 5)):  # 1 + 1 + 2 + 4 = 8 rounds, then 8; the last decides nothing
        result = simulate(policy, FiniteArms(means=(0.5,)), n_seeds=2, horizon=rounds)
        assert result.counts["episodes"].tolist() == [released, released]
        assert result.users == 2 ** (released - 1)


# Ties in simulations: every user's own coin, in the same law whichever way an episode is played


BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MEANS_TIES = np.array([0.1, 0.5, 0.9])
PRIVACY = {
    "none": none(),
    "central": central(**BUDGET),
    "local": local(**BUDGET),
    "shuffle": shuffle(**BUDGET),
    "shuffle-gaussian": shuffle(**BUDGET, protocol="gaussian"),
    "concurrent": concurrent(**BUDGET, shufflers=2),
}
each = pytest.mark.parametrize("privacy", PRIVACY.values(), ids=PRIVACY)


@dataclass(frozen=True, kw_only=True)
class Clinic(Environment):
    """Treatments without features of their own, tied until something is known; if `mixed`, not in all seeds."""

    dim: int = 3
    n_arms: int = 3
    fixed: bool = True
    mixed: bool = False
    size: float = 1.0

    def begin(self, streams: Streams) -> World:
        """Nothing to draw."""
        return ClinicWorld(environment=self, streams=streams, fixed=self.fixed)


class ClinicWorld(World):
    """One-hot arms; in some seeds the last one is shorter than the others, or the only one of full length."""

    environment: Clinic

    def contexts(self, start: int, rounds: int) -> Floats:
        """(S, rounds, 3, 3)."""
        arms = np.array([self.environment.size * np.eye(3)] * len(self.streams.seeds))
        if self.environment.mixed:
            seeds = np.array(self.streams.seeds)
            arms[seeds % 3 == 1, 2] *= 0.5
            arms[seeds % 3 == 2, :2] *= 0.5
        return np.repeat(arms[:, None], 1 if self.fixed else rounds, axis=1)

    def means(self, contexts: Floats) -> Floats:
        """The same in every round."""
        return np.broadcast_to(MEANS_TIES, contexts.shape[:-1]).copy()


def policy(privacy: Any = PRIVACY["none"], **changes: Any) -> LinUCB:
    """Two batches and a shorter rest."""
    return LinUCB(**{"dim": 3, "horizon": 290, "batch": 120, "privacy": privacy, **changes})


@pytest.mark.often(when=lambda path, reward: (path == "law") == (reward is None))
@each
@pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")
@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "fresh"])
@pytest.mark.parametrize("reward", [None, Bounded(width=0.2)], ids=["bits", "bounded"])
def test_a_seed_with_a_tie_is_the_same_in_any_company(privacy: Any, path: str, fixed: bool, reward: Any) -> None:
    env = Clinic(fixed=fixed, mixed=True, size=1.5, **({} if reward is None else {"reward": reward}))
    one = policy(privacy)  # calibrated once
    many = simulate(one, env, n_seeds=5, path=path)
    for seed in range(5):
        alone = simulate(one, env, n_seeds=1, seed=seed, path=path)
        np.testing.assert_array_equal(alone.regret[0], many.regret[seed])
        assert (alone.rewards[0], alone.clipped[0]) == (many.rewards[seed], many.clipped[seed])


@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "fresh"])
@pytest.mark.parametrize("reward", [None, Bounded(width=0.1)], ids=["bits", "bounded"])
def test_users_of_the_first_batch_choose_for_themselves(path: str, fixed: bool, reward: Any) -> None:
    """Regret inside an episode of tied arms is not a sum of independent uniform choices. Seeded: no false alarms.

    An episode in which all users take the same one of the tied arms would have 120 times the variance.
    """
    env = Clinic(fixed=fixed, **({} if reward is None else {"reward": reward}))
    result = simulate(policy(), env, n_seeds=400, path=path, checkpoints=290)
    gaps = np.max(MEANS_TIES) - MEANS_TIES
    for rounds in (1, 50, 120):
        regret = result.regret[:, rounds - 1]
        assert stats.ttest_1samp(regret, rounds * np.mean(gaps)).pvalue > 1e-3
        assert 0.8 < np.var(regret) / (rounds * np.var(gaps)) < 1.25
    steps = np.diff(result.regret[:, :120], axis=1)
    assert abs(np.corrcoef(steps[:, 3], steps[:, 70])[0, 1]) < 0.17  # 3.3 standard errors


@pytest.mark.often(when=lambda privacy, reward: reward is None or privacy.model in ("none", "local"))
@each
@pytest.mark.parametrize("reward", [None, Bounded(width=0.2)], ids=["bits", "bounded"])
def test_ties_along_law_and_messages_agree_in_distribution(privacy: Any, reward: Any) -> None:
    env = Clinic(mixed=True, **({} if reward is None else {"reward": reward}))
    law, messages = (
        simulate(policy(privacy, horizon=250), env, n_seeds=150, seed=seed, path=path, checkpoints=250)
        for seed, path in ((0, "law"), (3000, "messages"))
    )
    tied = np.arange(150) % 3 != 2
    for rounds in (60, 120, 180, 250):
        assert stats.ks_2samp(law.regret[tied, rounds - 1], messages.regret[tied, rounds - 1]).pvalue > 1e-3
    assert stats.ks_2samp(law.rewards[tied], messages.rewards[tied]).pvalue > 1e-3


def test_reports_of_tied_arms_are_counted_and_clipped_by_arm() -> None:
    with pytest.warns(ClippingWarning):
        result = simulate(policy(horizon=120), Clinic(size=1.5), n_seeds=3)
    np.testing.assert_array_equal(result.clipped, [120] * 3)
    later = simulate(policy(horizon=2400), Clinic(), n_seeds=20)
    pace = np.diff(later.regret[:, [-60, -1]], axis=1)[:, 0] / 59 / 12
    assert np.mean(pace) < 0.1  # guessing costs 0.4 a round, and a batch spent on one arm says nothing of the others


def test_an_anytime_policy_shares_the_first_batch_of_every_phase() -> None:
    run = Anytime(first=LinUCB(dim=3, horizon=200, batch=200, privacy=none()))
    result = simulate(run, Clinic(), n_seeds=50, horizon=600, checkpoints=600)
    assert abs(np.mean(result.regret[:, 199]) / 200 - 0.4) < 0.01
    assert abs(np.mean(result.regret[:, 399] - result.regret[:, 199]) / 200 - 0.4) < 0.01


def test_one_client_per_round_is_asked_about_all_tied_arms() -> None:
    env = OneClientPerRound(population=Population(dim=2, n_arms=5, sigma=0.1, size=None))
    first = simulate(LinUCB(dim=3, horizon=400, batch=400, ties="first", privacy=none()), env, n_seeds=4)
    shared = simulate(LinUCB(dim=3, horizon=400, batch=400, privacy=none()), env, n_seeds=4, checkpoints=400)
    assert len(np.unique(np.round(np.diff(first.regret, axis=1), 9))) <= 4 * 2
    assert len(np.unique(np.round(np.diff(shared.regret[0]), 9))) == 5


def test_ties_that_go_to_the_first_arm_spend_the_batch_on_it() -> None:
    result = simulate(policy(ties="first"), Clinic(), n_seeds=2, checkpoints=290)
    np.testing.assert_allclose(result.regret[:, 119], 120 * 0.8)
