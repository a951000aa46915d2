"""How often intervals hold the truth: rewards of many kinds, every estimator, privacy model and budget."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd

from .worlds import REWARDS, bold, clinic, insured, mean_rewards, trial, visits, worth

Floats = NDArray[np.float64]
EPSILONS = (0.3, 1.0, 3.0, 10.0)
TRUSTS: dict[str, Callable[[float], bd.protocols.Privacy]] = {
    "none": lambda epsilon: bd.none(),
    "central": lambda epsilon: bd.central(epsilon=epsilon, delta=1e-5),
    "pure": lambda epsilon: bd.central(epsilon=epsilon, delta=0.0),
    "shuffle": lambda epsilon: bd.shuffle(epsilon=epsilon, delta=1e-5),
    "local": lambda epsilon: bd.local(epsilon=epsilon, delta=1e-5),
}
Triple = tuple[float, float, float]  # estimate, low, high


def triple(value: bd.ope.Value) -> Triple:
    return value.estimate, *value.interval()


def opinion(rewards: str) -> Callable[[Floats], Floats]:
    return lambda contexts: 0.05 + 0.9 * mean_rewards(rewards, contexts)


def always(arm: int) -> Callable[[Floats], Floats]:
    return lambda contexts: np.tile(np.eye(3)[arm], (len(contexts), 1))


def alike(contexts: Floats) -> Floats:
    return np.full((len(contexts), 3), 1 / 3)


ARMS = ["arm:0", "arm:1", "arm:2"]
POLICIES = {"bold": bold, "alike": "uniform"}
ESTIMATES: dict[str, Callable[..., Triple]] = {
    "snips": lambda log, q, **k: triple(bd.ope.snips(log, bold, **k)),
    "snips of an arm": lambda log, q, **k: triple(bd.ope.snips(log, "arm:0", **k)),
    "snips, cut": lambda log, q, **k: triple(bd.ope.snips(log, bold, weight_bound=3.0, **k)),
    "ips": lambda log, q, **k: triple(bd.ope.ips(log, bold, **k)),
    "dr": lambda log, q, **k: triple(bd.ope.dr(log, bold, q=q, **k)),
    "switch": lambda log, q, **k: triple(bd.ope.switch(log, bold, q=q, weight_bound=4.0, **k)),
    "dm": lambda log, q, **k: triple(bd.ope.dm(log, bold, q=q, **k)),
    "compare": lambda log, q, **k: triple(bd.ope.compare(log, POLICIES, **k)["bold"]),
    "compare arms": lambda log, q, **k: triple(bd.ope.compare(log, ARMS, **k)["arm:0"]),
    "difference": lambda log, q, **k: bd.ope.compare(log, POLICIES, **k).difference("bold", "alike"),
    "difference of arms": lambda log, q, **k: bd.ope.compare(log, ARMS, **k).difference("arm:0", "arm:1"),
    "difference of arms, ips": lambda log, q, **k: bd.ope.compare(log, ARMS, method="ips", **k).difference(
        "arm:0", "arm:1"
    ),
}


@cache
def truth(name: str, rewards: str) -> float:
    """What is estimated; of the direct method it is the model's opinion."""

    def reward(contexts: Floats) -> Floats:
        return mean_rewards(rewards, contexts)

    if name == "dm":
        return worth(bold, opinion(rewards))
    if name.startswith("difference of arms"):
        return worth(always(0), reward) - worth(always(1), reward)
    one = worth(always(0) if name in ("compare arms", "snips of an arm") else bold, reward)
    return one - worth(alike, reward) if name == "difference" else one


def missed(name: str, rewards: str, privacy: bd.protocols.Privacy, seeds: range, people: int = 400) -> int:
    """How many intervals do not hold the truth; every interval holds its estimate."""
    misses = 0
    for seed in seeds:
        private: dict[str, Any] = {"privacy": privacy, "seed": seed, "path": "law"} if privacy.noisy else {}
        estimate, low, high = ESTIMATES[name](clinic(people, seed, rewards=rewards), opinion(rewards), **private)
        assert low <= estimate <= high
        misses += not low <= truth(name, rewards) <= high
    return misses


def allowed(runs: int, alarm: float) -> int:
    """So many misses of intervals for 95 % are more with at most this probability."""
    return int(stats.binom.isf(alarm, runs, 0.05))


@pytest.mark.parametrize("name", ESTIMATES)
def test_intervals_hold_the_truth(name: str) -> None:
    """Of 288 intervals of an estimator, over all rewards, privacy models and budgets, 5 % miss (false alarm 1e-5)."""
    cells = [
        (rewards, trust, EPSILONS[(place + more) % 4])
        for place, rewards in enumerate(REWARDS)
        for more, trust in enumerate(("central", "shuffle", "pure", "none"))
    ]
    misses = sum(
        missed(name, rewards, TRUSTS[trust](epsilon), range(1000 * cell, 1000 * cell + 12))
        for cell, (rewards, trust, epsilon) in enumerate(cells)
    )
    assert misses <= allowed(12 * len(cells), 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("rewards", REWARDS)
def test_intervals_hold_the_truth_of_every_kind(rewards: str, trust: str, epsilon: float) -> None:
    runs = range(10**6, 10**6 + 100)
    misses = {name: missed(name, rewards, TRUSTS[trust](epsilon), runs, people=1000) for name in ESTIMATES}
    assert max(misses.values()) <= allowed(100, 1e-6), misses


def measured(runs: int, estimates: Callable[[int], list[tuple[Triple, float]]]) -> int:
    """How many of the intervals of some runs miss; each holds its estimate and has a width."""
    misses = 0
    for seed in range(runs):
        for (estimate, low, high), true in estimates(seed):
            assert low <= estimate <= high
            assert high > low
            misses += not low <= true <= high
    return misses


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_intervals_of_visits_to_a_doctor_hold_the_truth(epsilon: float) -> None:
    arms, counts = visits()
    private: dict[str, Any] = {"privacy": bd.central(epsilon=epsilon, delta=1e-5), "weight_bound": 19.0, "path": "law"}
    true = float(counts[arms == 1].mean())
    misses = measured(
        200, lambda seed: [(triple(bd.ope.snips(insured(10_095, seed), "arm:1", seed=seed, **private)), true)]
    )
    assert misses <= allowed(200, 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("method", ["snips", "ips"])
def test_comparisons_of_visits_to_a_doctor_hold_the_truth(method: str, epsilon: float) -> None:
    arms, counts = visits()
    true = [float(counts[arms == arm].mean()) for arm in range(3)]
    private: dict[str, Any] = {"privacy": bd.central(epsilon=epsilon, delta=1e-5), "path": "law"}

    for arm in range(3):

        def of_arm(seed: int, arm: int = arm) -> list[tuple[Triple, float]]:
            compared = bd.ope.compare(insured(10_095, seed), ARMS, method=method, seed=seed, **private)
            other = (arm + 1) % 3
            return [(triple(compared[f"arm:{arm}"]), true[arm]),
                    (compared.difference(f"arm:{arm}", f"arm:{other}"), true[arm] - true[other])]  # fmt: skip

        assert measured(200, of_arm) <= allowed(400, 1e-6)


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_intervals_of_rewards_that_hardly_vary_hold_the_truth(trust: str) -> None:

    def of_seed(seed: int) -> list[tuple[Triple, float]]:
        rng = np.random.default_rng(seed)
        log = bd.Log(contexts=np.zeros((1000, 0)), arms=rng.integers(0, 3, 1000), rewards=rng.beta(31.5, 3.5, 1000),
                     propensities=np.full(1000, 1 / 3), names=(0, 1, 2), floor=1 / 3)  # fmt: skip
        return [(triple(bd.ope.snips(log, "arm:1", privacy=TRUSTS[trust](3.0), seed=seed, path="law")), 0.9)]

    assert measured(100, of_seed) <= allowed(100, 1e-5)


@pytest.mark.parametrize("target", ["uniform", "arm:0"])
def test_rewards_that_never_varied_may_vary(target: str) -> None:
    log = trial(50, 0, (1.0, 1.0))
    people = 50 if target == "uniform" else int(np.sum(log.arms == 0))
    for estimate in (bd.ope.snips, bd.ope.ips):
        low, high = estimate(log, target).interval()
        assert 0.5 <= low <= 0.1 ** (1 / people)
        assert high >= 1.0
