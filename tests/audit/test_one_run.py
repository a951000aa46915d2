"""One run with many canaries: its bound is a probability's, and a policy that lies about its noise is refuted by it."""

from __future__ import annotations

import math

import pytest
from scipy import stats

import bandanna as bd
from bandanna import environments as worlds
from bandanna.audit.audit import one_run_target
from bandanna.audit.sampling import one_run_bound, probability_of_guesses
from bandanna.errors import InvalidArgument


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_without_delta_the_chance_is_a_binomial_tail(epsilon: float) -> None:
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert probability_of_guesses(80, guesses=100, canaries=100, epsilon=epsilon, delta=0.0) == pytest.approx(
        stats.binom.sf(79, 100, q)
    )


def test_delta_costs_what_the_theorem_says() -> None:
    q, m, r, v, delta = math.e / (1 + math.e), 60, 50, 45, 1e-3
    tails = [sum(stats.binom.pmf(k, r, q) for k in range(v - i, v)) / i for i in range(1, v + 1)]
    expected = stats.binom.sf(v - 1, r, q) + 2 * m * delta * max(tails)
    assert probability_of_guesses(v, guesses=r, canaries=m, epsilon=1.0, delta=delta) == pytest.approx(expected)


def test_the_bound_is_where_the_chance_is_the_failure() -> None:
    bound = one_run_bound(900, guesses=1000, canaries=1000, delta=0.0, confidence=0.95)
    assert probability_of_guesses(900, guesses=1000, canaries=1000, epsilon=bound, delta=0.0) == pytest.approx(
        0.05, rel=1e-2
    )
    assert one_run_bound(900, guesses=1000, canaries=1000, delta=1e-4, confidence=0.95) < bound
    assert one_run_bound(500, guesses=1000, canaries=1000, delta=0.0, confidence=0.95) == 0.0
    with pytest.raises(InvalidArgument, match="right"):
        one_run_bound(11, guesses=10, canaries=10, delta=0.0, confidence=0.95)


def test_one_run_of_local_bits_comes_close_and_no_further() -> None:
    policy = bd.policies.LDPUCB(n_arms=3, horizon=20, privacy=bd.local(epsilon=1.0, delta=0.0))
    env = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
    row = one_run_target("LDP-UCB", policy, env, 20, confidence=0.95)
    assert 0.9 < row.reached <= 1.0
    assert row.trials == 1


def test_one_run_of_a_central_batch_uses_one_coordinate_for_each_person() -> None:
    dim, budget = 200, {"epsilon": 60.0, "delta": 1e-9}
    policy = bd.LinUCB(
        dim=dim, horizon=150, batch=150, width=0.2, privacy=bd.central(mechanism="independent", **budget)
    )
    row = one_run_target("LinUCB", policy, worlds.LinearContextual(dim=dim, n_arms=2), 150, confidence=0.95)
    assert 1.5 < row.lower_bound < row.claim.epsilon
