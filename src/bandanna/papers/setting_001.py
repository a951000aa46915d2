"""What the figures of paper 001 share: the population, the algorithms, one run of one of them.

Settings as printed (section VI): d = 20, 1000 actions, sigma = 0.1, 10^5 users, alpha = 0.8, T = 10^6, 20 runs,
delta = 0.1. Not printed, and ours: actions and theta* are uniform directions; local rewards are -1 or 1, so B = 1;
LinUCB learns after every 10 rounds.

Reference: Li, Zhou and Ji 2024 [001].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.accounting.events import GaussianEvent
from bandanna.environments.levels import TwoPoint
from bandanna.environments.one_client import OneClientPerRound
from bandanna.environments.population import Population
from bandanna.papers.curves_000 import ending
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

DIM, ARMS, SIGMA, SIZE, ALPHA, DELTA, HORIZON, SEEDS = 20, 1000, 0.1, 100_000, 0.8, 0.1, 1_000_000, 20
PRIVATE = ("CDP-DPE", "SDP-DPE", "LDP-DPE")
_LINUCB_BATCH = 10


@dataclass(frozen=True, kw_only=True)
class Curve001:
    """One algorithm at one setting; `result` is None where there was nothing to run, and `note` says why.

    true_epsilon is stated at the nominal delta, true_delta at the nominal epsilon.
    """

    algorithm: str
    variant: str = "ours"
    alpha: float | None = None
    epsilon: float | None = None
    true_epsilon: float | None = None
    true_delta: float | None = None
    true_kind: str | None = None
    result: Result | None
    note: str = ""

    def label(self, *, alpha: bool) -> str:
        """Name, with its alpha, if it has one, where curves differ in it."""
        return f"{self.algorithm}, alpha = {self.alpha:g}" if alpha and self.alpha is not None else self.algorithm

    def row(self) -> dict[str, Any]:
        """Plain values for JSON; what is not known is None."""
        counts = {} if self.result is None else {name: float(np.mean(v)) for name, v in self.result.counts.items()}
        return {
            "algorithm": self.algorithm,
            "variant": self.variant,
            "dim": DIM,
            "alpha": self.alpha,
            "epsilon": self.epsilon,
            "delta": None if self.epsilon is None else DELTA,
            "true_epsilon": self.true_epsilon,
            "true_delta": self.true_delta,
            "true_kind": self.true_kind,
            **ending(self.result),
            "participants": counts.get("clients"),
            "communication": counts.get("communication"),
            "bits": counts.get("bits"),
            "note": self.note,
        }


def population(horizon: int) -> Population:
    """The paper's users; more than it has where a longer horizon asks for more."""
    return Population(dim=DIM, n_arms=ARMS, sigma=SIGMA, size=SIZE if horizon <= HORIZON else None)


def ours(
    *,
    algorithm: str,
    horizon: int,
    n_seeds: int,
    seed: int = 0,
    alpha: float | None = ALPHA,
    epsilon: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Curve001:
    """One algorithm with tight noise and exact widths."""
    if algorithm == "LinUCB":
        return Curve001(algorithm=algorithm, result=_linucb(horizon, n_seeds, seed))
    budget = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA}
    rate = {} if alpha is None else {"alpha": alpha}
    policy = make(algorithm, dim=DIM, horizon=horizon, sigma=SIGMA, **budget, **rate, **(options or {}))
    env = replace(population(horizon), size=None) if policy.per_round else population(horizon)
    result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    known: dict[str, Any] = {"algorithm": algorithm, "alpha": alpha, "epsilon": epsilon}
    if epsilon is not None:
        known |= {"true_epsilon": result.guarantee.epsilon, "true_delta": result.guarantee.delta, "true_kind": "upper"}
    return Curve001(**known, result=replace(result, name=algorithm))


def printed(*, algorithm: str, epsilon: float, horizon: int, n_seeds: int, seed: int = 0) -> Curve001:
    """CDP-DPE or LDP-DPE with the noise of Theorems 4.2 and 4.4: run where the formula holds, priced everywhere."""
    true = true_epsilon_of_print(epsilon)
    known: dict[str, Any] = {"algorithm": algorithm, "variant": "published", "alpha": ALPHA, "epsilon": epsilon}
    known |= {"true_epsilon": true, "true_delta": accountant.delta(_event_of_print(epsilon), epsilon)}
    known["true_kind"] = "exact"
    if epsilon > 1:
        note = f"the printed noise needs epsilon <= 1; here it really gives epsilon = {true:.4g} at delta = {DELTA:g}"
        return Curve001(**known, result=None, note=note)
    options = {"calibration": "paper", "confidence": "paper"}
    run = ours(algorithm=algorithm, horizon=horizon, n_seeds=n_seeds, seed=seed, epsilon=epsilon, options=options)
    return Curve001(**known, result=run.result)


def true_epsilon_of_print(epsilon: float, delta: float = DELTA) -> float:
    """What sqrt(2 log(1.25/delta))/epsilon times the sensitivity gives at delta, by the accountant."""
    return accountant.epsilon(_event_of_print(epsilon, delta), delta)


def _event_of_print(epsilon: float, delta: float = DELTA) -> GaussianEvent:
    std = float(np.sqrt(2 * np.log(1.25 / delta))) / epsilon
    return GaussianEvent(std=std, sensitivity=1.0)


def _linucb(horizon: int, n_seeds: int, seed: int) -> Result:
    """One client per round; regret on the population's scale, where rewards are in [-B, B]."""
    env = OneClientPerRound(population=replace(population(horizon), size=None))
    policy = make("LinUCB", dim=DIM + 1, horizon=horizon, batch=min(_LINUCB_BATCH, horizon), ties="first")
    found = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    law = env.population.reward
    assert isinstance(law, TwoPoint)
    asked = np.full(n_seeds, horizon, dtype=np.int64)
    counts = {"clients": asked, "communication": asked, "numbers": asked, "bits": 64 * asked}
    width = law.high - law.low
    return replace(found, name="LinUCB", regret=width * found.regret, counts=counts)
