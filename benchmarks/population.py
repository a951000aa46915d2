"""Phased elimination at paper 001's setting: 20 runs over 10^6 rounds beside one over 10^9.

The promise is 5 s for 10^6 rounds on one core: the cost grows with phases and clients, not with rounds; 10^9 rounds
have 256 times the clients of 10^6 (alpha = 0.8). Designs of 1000 arms in 20 dimensions stand beside one singular value
decomposition of the arms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bandanna as bd
from bandanna.design import near_optimal_design, optimal_design
from bandanna.environments import Population
from benchmarks import Ratio, timed

DIM, ARMS, RUNS = 20, 1000, 20
BUDGET = {"epsilon": 1.0, "delta": 0.1}
NAMES: dict[str, dict[str, Any]] = {
    "DPE": {},
    "CDP-DPE": BUDGET,
    "LDP-DPE": BUDGET,
    "SDP-DPE": BUDGET,
    "Laplace-DPE": {"epsilon": 1.0},
}


def elimination(name: str, options: dict[str, Any]) -> Ratio:
    """20 runs over 10^6 rounds, one over 10^9."""
    env = Population(dim=DIM, n_arms=ARMS, sigma=0.1)

    def seconds(horizon: int, runs: int) -> float:
        policy = bd.make(name, dim=DIM, horizon=horizon, sigma=0.1, alpha=0.8, **options)
        return timed(lambda: bd.simulate(policy, env, n_seeds=runs))

    ours, long = seconds(10**6, RUNS), seconds(10**9, 1)
    return Ratio(what=f"{name}, 10^6 x {RUNS}", ours=ours, beside="10^9 x 1", theirs=long, promise=5.0)


def measure() -> list[Ratio]:
    """Every trust model, and the two designs."""
    arms = np.random.default_rng(0).normal(size=(ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    plain = timed(lambda: np.linalg.svd(arms, full_matrices=False))
    designs = [
        Ratio(what=kind.__name__, ours=timed(lambda kind=kind: kind(arms)), beside="an SVD", theirs=plain)  # type: ignore[misc]
        for kind in (near_optimal_design, optimal_design)
    ]
    return [elimination(name, options) for name, options in NAMES.items()] + designs
