"""The clones bound against its definition, high precision and exact enumeration."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from bandanna.privacy import gdp
from reproductions.clones import clones_delta, tail_weight

from ..privacy.shuffle_enumeration import (
    hockey_stick,
    k_ary_response,
    local_epsilon,
    random_randomizer,
    worst_delta,
)

FRACTIONS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])  # of eps0, at which divergences are compared

# calibration table of section B: epsilon, delta, n, FMT clones (sum), local (sum), lower bound of any analysis (sum)


def clones_pair(users: int, local: float) -> tuple[np.ndarray, np.ndarray]:
    """The pair as its definition reads: P and Q on (first count, second count), by a sum over C, A and D."""
    p = [np.zeros((users + 1, users + 1)) for _ in range(2)]
    head = 1 / (1 + math.exp(-local))
    for c in range(users):
        chance_c = math.comb(users - 1, c) * math.exp(-local * c) * (-math.expm1(-local)) ** (users - 1 - c)
        for a, d in itertools.product(range(c + 1), (0, 1)):
            mass = chance_c * math.comb(c, a) / 2**c * (head if d else 1 - head)
            p[0][a + d, c - a + 1 - d] += mass
            p[1][a + 1 - d, c - a + d] += mass
    return p[0], p[1]


@pytest.mark.parametrize("users", [1, 2, 3, 8, 20, 50])
@pytest.mark.parametrize("local", [0.05, 1.0, 3.0, 8.0])
def test_clones_delta_is_the_divergence_of_the_pair(users: int, local: float) -> None:
    p, q = clones_pair(users, local)
    direct = [hockey_stick(p, q, float(e)) for e in FRACTIONS * local]
    closed = clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    np.testing.assert_allclose(closed, direct, rtol=1e-10)


def test_clones_delta_at_the_published_value() -> None:
    epsilon = gdp.solve_epsilon(lambda e: float(clones_delta(users=1000, local_epsilon=2.0, epsilon=e)), 1e-6)
    assert epsilon == pytest.approx(0.5455, abs=5e-5)


def test_clones_delta_keeps_its_digits_far_in_the_tail() -> None:
    users, local, epsilon = 150, 1.0, 0.9375
    with mpmath.workdps(40):
        chance, grown, two = mpmath.exp(-local), mpmath.exp(epsilon), mpmath.mpf(2)
        head = 1 / (1 + chance)
        total = mpmath.mpf(0)
        for c in range(users):
            weight = math.comb(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c) / two**c
            for k in range((c + 1) // 2, c + 2):  # the loss is negative below
                below, here = math.comb(c, k - 1) if k else 0, math.comb(c, k)
                gain = head * below + (1 - head) * here - grown * (head * here + (1 - head) * below)
                total += weight * max(gain, 0)
    value = float(clones_delta(users=users, local_epsilon=local, epsilon=epsilon))
    assert 1e-40 < float(total) < 1e-12
    assert value == pytest.approx(float(total), rel=1e-9)


@pytest.mark.parametrize(("users", "local"), [(10**6, 0.5), (10**6, 3.0), (10**5, 0.02), (10**6, 6.0)])
def test_buckets_bound_from_above_and_closely(users: int, local: float) -> None:
    spread = 2 * math.tanh(local / 2) / math.sqrt(users * math.exp(-local))
    epsilons = spread * np.array([0.0, 1.0, 4.0, 7.0])
    exact, default, coarse = (
        clones_delta(users=users, local_epsilon=local, epsilon=epsilons, fineness=fineness)
        for fineness in (math.inf, 1e5, 2e3)
    )
    for values, slack in ((default, 2e-4), (coarse, 0.01)):
        assert np.all(values >= exact * (1 - 1e-9))
        assert np.all(values <= exact * (1 + slack))


@pytest.mark.parametrize(("outputs", "users"), [(2, 2), (2, 5), (2, 8), (3, 2), (3, 5), (3, 8), (4, 4)])
@pytest.mark.parametrize("local", [0.5, 1.0, 2.0, 4.0])
def test_randomized_response_stays_below_the_clones_bound(outputs: int, users: int, local: float) -> None:
    exact = worst_delta(k_ary_response(outputs=outputs, local_epsilon=local), users, FRACTIONS * local)
    bound = clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    assert np.all(exact > 0)
    assert np.all(exact <= bound * (1 + 1e-12))


@pytest.mark.parametrize("seed", range(12))
def test_arbitrary_randomizers_stay_below_the_clones_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users = int(rng.integers(2, 7))
    inputs, outputs = (int(size) for size in rng.integers(2, 5, 2))
    randomizer = random_randomizer(rng, inputs=inputs, outputs=outputs, spread=float(rng.uniform(0.3, 3.0)))
    local = local_epsilon(randomizer)
    exact = worst_delta(randomizer, users, FRACTIONS * local)
    bound = clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    assert np.all(exact <= bound * (1 + 1e-12) + 1e-15)


@pytest.mark.parametrize("users", [2, 4, 6])
def test_reports_that_sometimes_reveal_stay_below_bound_and_tail(users: int) -> None:
    local, delta0 = 1.5, 0.01
    person = 1 / (1 + math.exp(local))
    response = k_ary_response(outputs=2, local_epsilon=local)
    leaky = np.hstack([(1 - delta0) * response, delta0 * np.eye(2)])  # with probability delta0 the input itself
    tail = (person + (users - 1) * math.exp(-local) * (1 + person)) * delta0
    assert tail == pytest.approx(tail_weight(users=users, local_epsilon=local) * delta0, rel=1e-12)
    assert tail < users * (1 + math.exp(-local) / 2) * delta0  # theorem 3.8
    epsilons = np.append(FRACTIONS, 1.2) * local
    exact = worst_delta(leaky, users, epsilons)
    clones = clones_delta(users=users, local_epsilon=local, epsilon=epsilons)
    assert np.all(exact <= clones + (1 + np.exp(epsilons)) * tail)
    assert clones[-1] == 0.0 < exact[-1]  # beyond eps0 only the leak is left, and it is seen
