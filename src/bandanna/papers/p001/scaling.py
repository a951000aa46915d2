"""Rates of paper 001: slopes of log regret in log T against alpha; the theorem says 1 - alpha/2 for T^{1 - alpha/2}.

Instance, the *fan*: actions (cos a, sin a) in the plane at the angles a = 0 and 2^{-k/2}, k = 0, ..., 39, and theta* =
(0.6, 0): gaps 0.6 (1 - cos a) at every scale, so that in every phase the actions still played are about as bad as the
width allows, and regret is of the order of its bound. sigma = 0.1, as in the figures: who the clients are is then the
largest uncertainty, since that of the rewards is smaller by sqrt(2d/h_l)/sigma.

Horizons 2^13, ..., 2^22. (Where a horizon ends within a phase moves single points off the line.)

Reference: Li, Zhou and Ji 2024 [001], Theorems 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.environments.population import Population
from bandanna.experiments.workers import Progress, silent
from bandanna.papers.common.scaling import Line, Rate, regrets_over
from bandanna.papers.p001.remembered import Remembered
from bandanna.papers.p001.settings import DELTA, SEEDS, SIGMA
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

ALPHAS, FIRST, LAST, EPSILON = (0.5, 0.6, 0.7, 0.8, 0.9), 13, 22, 10.0
ALGORITHMS = ("DPE", "SDP-DPE")
ARMS, SCALE = 40, 0.6


def fan() -> Floats:
    """Actions with gaps at every scale, (41, 2)."""
    angles = np.concatenate([[0.0], 2.0 ** (-np.arange(ARMS) / 2)])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@cache
def _population() -> Population:
    """Its clients answer all algorithms and horizons alike."""
    return Remembered(arms=fan(), theta=(SCALE, 0.0), sigma=SIGMA)


def regret(*, algorithm: str, alpha: float, horizon: int, n_seeds: int, seed: int = 0) -> Result:
    """One algorithm at one horizon."""
    budget = {} if algorithm == "DPE" else {"epsilon": EPSILON, "delta": DELTA}
    policy = make(algorithm, dim=2, horizon=horizon, alpha=alpha, sigma=SIGMA, **budget)
    return replace(simulate(policy, _population(), n_seeds=n_seeds, seed=seed, checkpoints=1), name=algorithm)


def line(algorithm: str, alpha: float, longest: int) -> Line:
    """Horizons that halve the longest down to 2^13; the exponent is 1 - alpha/2 [001, Theorem 5.1]."""
    halves = [longest // 2**k for k in range(64) if longest // 2**k >= 2**FIRST]
    return Line(
        arguments={"algorithm": algorithm, "alpha": alpha}, theory=1 - alpha / 2, horizons=tuple(reversed(halves))
    )


def scaling(
    *,
    algorithms: Sequence[str] = ALGORITHMS,
    alphas: Sequence[float] = ALPHAS,
    n_seeds: int = SEEDS,
    horizon: int = 2**LAST,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Rate]:
    """All lines; `horizon` is the longest."""
    longest = require.whole("horizon", horizon, least=4 * 2**FIRST)
    lines = [line(name, alpha, longest) for name in algorithms for alpha in alphas]
    return regrets_over(regret, lines, n_seeds=n_seeds, seed=seed, jobs=jobs, progress=progress)
