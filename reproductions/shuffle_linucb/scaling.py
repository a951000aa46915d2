"""Rates of paper 000, which has them as theorems only: slopes of log regret in log T, where the privacy term dominates.

Instance: `DriftingContexts(turns=0)`, d = 3, 25 arms: fixed arms whose gaps have every scale (angles h/2^k from the
best direction), where an optimist's regret is of the order of its upper bound. epsilon = 1, delta = 1e-5, width 1.

    algorithm           learns after    horizons, in units of H    slope    theorem
    LinUCB              T/2000 users    1/1000 to 1/10             1/2      Lemma A.4 without noise
    LinUCB-JDP-batched  T/2000 users    1/100 to 1                 1/2      Proposition F.3
    LinUCB-SDP-Vec      T^{3/5} users   1/100 to 1                 3/5      Theorem 3.5, Remark 3.6
    LinUCB-LDP-batched  T/2000 users    1 to 100                   3/4      Proposition F.1

H = 1e8 unless said otherwise. The local model needs longer runs: below T = 1e8 the slope is still steeper, since its
noise forbids to learn anything for a long while.

Reference: Chowdhury and Zhou 2022 [000], sections 3 and F.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandanna import validation
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import DriftingContexts
from bandanna.simulation.result import Result
from reproductions.rates import Line, Rate, regrets_over

DIM, ARMS, EPSILON, DELTA, HORIZON, STEPS = 3, 25, 1.0, 1e-5, 100_000_000, 2000
SPAN, POINTS = 100, 5  # horizons of a line: from the first to SPAN times as much
LINES = {  # the exponent of the theorem, the last horizon in units of H
    "LinUCB": (1 / 2, 0.1),
    "LinUCB-JDP-batched": (1 / 2, 1.0),
    "LinUCB-SDP-Vec": (3 / 5, 1.0),
    "LinUCB-LDP-batched": (3 / 4, 100.0),
}


def line(algorithm: str, longest: int = HORIZON, points: int = POINTS) -> Line:
    """Horizons geometrically spaced, the last one that of LINES, the first SPAN times less."""
    theory, unit = LINES[validation.one_of("algorithm", algorithm, tuple(LINES))]
    spaced = np.geomspace(unit * longest / SPAN, unit * longest, points)
    return Line(arguments={"algorithm": algorithm}, theory=theory, horizons=tuple(round(each) for each in spaced))


def policy(algorithm: str, horizon: int) -> LinUCB:
    """The algorithm at the common budget."""
    budget = {} if algorithm == "LinUCB" else {"epsilon": EPSILON, "delta": DELTA}
    batch = "paper" if algorithm == "LinUCB-SDP-Vec" else max(1, horizon // STEPS)
    shared = {"dim": DIM, "horizon": horizon, "batch": batch, "ties": "first", "confidence": "lemma"}
    made: LinUCB = make(algorithm, **shared, **budget)
    return made


def regret(*, algorithm: str, horizon: int, n_seeds: int, seed: int = 0) -> Result:
    """One algorithm at one horizon."""
    env = DriftingContexts(dim=DIM, n_arms=ARMS, horizon=horizon, turns=0)
    result = simulate(policy(algorithm, horizon), env, n_seeds=n_seeds, seed=seed, checkpoints=1)
    return replace(result, name=algorithm)


def scaling(
    *,
    algorithms: Sequence[str] = tuple(LINES),
    n_seeds: int = 50,
    horizon: int = HORIZON,
    points: int = POINTS,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Rate]:
    """All lines; `horizon` is H."""
    longest, points = (
        validation.integer("horizon", horizon, least=10_000),
        validation.integer("points", points, least=2),
    )
    lines = [line(name, longest, points) for name in algorithms]
    return regrets_over(regret, lines, n_seeds=n_seeds, seed=seed, jobs=jobs, progress=progress)
