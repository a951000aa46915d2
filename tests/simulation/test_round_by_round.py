"""Plain loops over single rounds, written from the papers' pseudo-code alone, beside the simulator's episodes.

They share nothing with the policies but the noise's standard deviation: who is played is decided from a list of all
rewards so far, one coin for each round.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from bandanna.numeric.rng import Streams
from bandanna.policies.base import Policy
from bandanna.policies.design import optimal_design
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.protocols.privacy_model import central, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment, World
from bandanna.simulation.environments.finite import FiniteArms
from bandanna.simulation.environments.linear import SphereArms

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
