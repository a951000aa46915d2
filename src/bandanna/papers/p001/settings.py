"""What the figures of paper 001 share: the population, the algorithms, one run of one of them.

Settings as printed (section VI): d = 20, 1000 actions, sigma = 0.1, 10^5 users, alpha = 0.8, T = 10^6, 20 runs,
delta = 0.1. Not printed, and ours: actions and theta* are uniform directions; local rewards are -1 or 1, so B = 1;
LinUCB learns after every 10 rounds.

Reference: Li, Zhou and Ji 2024 [001].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.accounting.events import GaussianEvent
from bandanna.environments.levels import TwoPoint
from bandanna.environments.one_client import OneClientPerRound
from bandanna.environments.population import Population
from bandanna.papers.common.curve import Curve, Row, counted, ending
from bandanna.papers.p001.remembered import Remembered
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

DIM, ARMS, SIGMA, SIZE, ALPHA, DELTA, HORIZON, SEEDS = 20, 1000, 0.1, 100_000, 0.8, 0.1, 1_000_000, 20
PRIVATE = ("CDP-DPE", "SDP-DPE", "LDP-DPE")
_LINUCB_BATCH = 10


@lru_cache(maxsize=1)
def population(horizon: int) -> Population:
    """The paper's users; more than it has where a longer horizon asks for more. They answer all policies alike."""
    return Remembered(dim=DIM, n_arms=ARMS, sigma=SIGMA, size=SIZE if horizon <= HORIZON else None)


def ours(
    *,
    algorithm: str,
    horizon: int,
    n_seeds: int,
    seed: int = 0,
    alpha: float | None = ALPHA,
    epsilon: float | None = None,
    options: Mapping[str, Any] | tuple[tuple[str, Any], ...] = (),
) -> Curve:
    """One algorithm with tight noise and exact widths; the local model has Gaussian reports, as in the paper."""
    facts = {"algorithm": algorithm, "variant": "ours", "dim": DIM, "alpha": alpha, "epsilon": epsilon}
    if algorithm == "LinUCB":
        return _curve(facts, _linucb(horizon, n_seeds, seed))
    budget: dict[str, Any] = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA}
    if algorithm == "LDP-DPE":
        budget["protocol"] = "gaussian"  # the paper's local randomizer, (7)
    rate = {} if alpha is None else {"alpha": alpha}
    policy = make(algorithm, dim=DIM, horizon=horizon, sigma=SIGMA, **budget, **rate, **dict(options))
    env = replace(population(horizon), size=None) if policy.per_round else population(horizon)
    result = replace(simulate(policy, env, n_seeds=n_seeds, seed=seed), name=algorithm)
    if epsilon is None:
        return _curve(facts, result)
    return _curve(facts, result, (result.guarantee.epsilon, result.guarantee.delta, "upper"))


def printed(*, algorithm: str, epsilon: float, horizon: int, n_seeds: int, seed: int = 0) -> Curve:
    """CDP-DPE or LDP-DPE with the noise of Theorems 4.2 and 4.4: run where the formula holds, priced everywhere."""
    facts = {"algorithm": algorithm, "variant": "published", "dim": DIM, "alpha": ALPHA, "epsilon": epsilon}
    true = true_epsilon_of_print(epsilon)
    stated = (true, accountant.delta(_event_of_print(epsilon), epsilon), "exact")
    if epsilon > 1:
        note = f"the printed noise needs epsilon <= 1; here it really gives epsilon = {true:.4g} at delta = {DELTA:g}"
        return _curve(facts, None, stated, note)
    options = {"calibration": "paper", "confidence": "paper"}
    run = ours(algorithm=algorithm, horizon=horizon, n_seeds=n_seeds, seed=seed, epsilon=epsilon, options=options)
    return _curve(facts, run.result, stated)


def _curve(
    facts: Row,
    result: Result | None,
    true: tuple[float | None, float | None, str | None] = (None, None, None),
    note: str = "",
) -> Curve:
    """With what is really guaranteed, and what was communicated, on average over the runs.

    `true`: epsilon at the nominal delta, delta at the nominal epsilon, and how sure that is.
    """
    counts, alpha = counted(result), facts["alpha"]
    row = facts | {"delta": None if facts["epsilon"] is None else DELTA}
    row |= zip(("true_epsilon", "true_delta", "true_kind"), true, strict=True)
    row |= ending(result) | {"participants": counts.get("clients")}
    row |= {name: counts.get(name) for name in ("communication", "bits")} | {"note": note}
    label = facts["algorithm"] if alpha is None else f"{facts['algorithm']}, alpha = {alpha:g}"
    return Curve(row=row, more={"label": label}, result=result)


def true_epsilon_of_print(epsilon: float, delta: float = DELTA) -> float:
    """What sqrt(2 log(1.25/delta))/epsilon times the sensitivity gives at delta, by the accountant."""
    return accountant.epsilon(_event_of_print(epsilon, delta), delta)


def _event_of_print(epsilon: float, delta: float = DELTA) -> GaussianEvent:
    std = float(np.sqrt(2 * np.log(1.25 / delta))) / epsilon
    return GaussianEvent(std=std, sensitivity=1.0)


def _linucb(horizon: int, n_seeds: int, seed: int) -> Result:
    """One client per round; regret on the population's scale, where rewards are in [-B, B]."""
    env = OneClientPerRound(population=replace(population(horizon), size=None))
    shared = {"ties": "first", "confidence": "lemma"}
    policy = make("LinUCB", dim=DIM + 1, horizon=horizon, batch=min(_LINUCB_BATCH, horizon), **shared)
    found = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    law = env.population.reward
    assert isinstance(law, TwoPoint)
    asked = np.full(n_seeds, horizon, dtype=np.int64)
    counts = {"clients": asked, "communication": asked, "numbers": asked, "bits": 64 * asked}
    width = law.high - law.low
    return replace(found, name="LinUCB", regret=width * found.regret, counts=counts)
