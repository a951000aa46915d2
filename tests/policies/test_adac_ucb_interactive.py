"""The generic privacy proof of paper 004 on AdaC-UCB itself: every table and adversary, five rounds, by quadrature."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.noise import FastNoise
from bandanna.policies.base import merge_states
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.privacy import accountant, gdp
from bandanna.privacy.definitions import ExplicitPolicy
from bandanna.privacy.events import GaussianEvent
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import central

from ..drawn import LONG
from .answering import answered

Floats = NDArray[np.float64]


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
        state = merge_states(ended, answered(policy, state, episode, np.asarray(sums)[:, None], source=source), state)
        rounds = np.minimum(rounds + lengths, 5)
    assert np.all(actions[:, 0] == 0)
    assert np.all(actions[:, 1] == 1)
    counts = np.bincount(actions[:, 2:5] @ [4, 2, 1], minlength=8)
    expected = runs * path_chances(policy.protocol.std(1))[(..., *rewards)].ravel()
    assert np.all(counts[expected < 1e-9] == 0)
    possible = expected > 1e-9
    statistic = float(np.sum((counts - expected)[possible] ** 2 / expected[possible]))
    assert statistic < stats.chi2.isf(1e-6, np.count_nonzero(possible) - 1)
