"""How likely a sampled arm was: against fractions, sums over arms, and frequencies."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.numeric.rng import GeneratorRandomness
from bandanna.policies.finite import thompson
from bandanna.policies.finite.base import ArmSums
from bandanna.policies.finite.thompson import compute_best_arm_probability

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


def test_nobody_waits_for_what_nobody_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_side_by_side_every_run_has_its_own() -> None:
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
