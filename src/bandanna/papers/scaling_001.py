"""Rates of paper 001: slopes of log regret in log T against alpha; the theorem says 1 - alpha/2 for T^{1 - alpha/2}.

Instance, the *fan*: actions (cos a, sin a) in the plane at the angles a = 0 and 2^{-k/2}, k = 0, ..., 39, and theta* =
(0.6, 0): gaps 0.6 (1 - cos a) at every scale, so that in every phase the actions still played are about as bad as the
width allows, and regret is of the order of its bound. sigma = 0.1, as in the figures: who the clients are is then the
largest uncertainty, since that of the rewards is smaller by sqrt(2d/h_l)/sigma.

Horizons 2^13, ..., 2^22, each a run of its own; the slope is the least-squares fit to the logarithms of the means.
(Where a horizon ends within a phase moves single points off the line.)

Reference: Li, Zhou and Ji 2024 [001], Theorems 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.environments.population import Population
from bandanna.papers.curves_000 import Progress, ending, gather, silent
from bandanna.papers.setting_001 import DELTA, SEEDS, SIGMA
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

ALPHAS, FIRST, LAST, EPSILON = (0.5, 0.6, 0.7, 0.8, 0.9), 13, 22, 10.0
ALGORITHMS = ("DPE", "SDP-DPE")
ARMS, SCALE = 40, 0.6


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Results of one algorithm and alpha at growing horizons."""

    algorithm: str
    alpha: float
    results: tuple[Result, ...]

    @property
    def theory(self) -> float:
        """1 - alpha/2 [001, Theorem 5.1]."""
        return 1 - self.alpha / 2

    @property
    def slope(self) -> float:
        """Of log mean regret in log T."""
        logs = np.log([[result.horizon, result.mean()[-1]] for result in self.results])  # (points, 2)
        return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])

    def rows(self) -> list[dict[str, Any]]:
        """Plain values for JSON, one row per horizon."""
        return [{"algorithm": self.algorithm, "alpha": self.alpha, **ending(result)} for result in self.results]

    def over_horizons(self) -> Result:
        """Final regrets against the horizon, as one result that can be drawn."""
        marks = np.array([result.horizon for result in self.results])
        regret = np.stack([result.final_regret for result in self.results], axis=1)  # (S, points)
        return replace(self.results[-1], checkpoints=marks, regret=regret)


def fan() -> NDArray[np.float64]:
    """Actions with gaps at every scale, (41, 2)."""
    angles = np.concatenate([[0.0], 2.0 ** (-np.arange(ARMS) / 2)])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def regret(*, algorithm: str, alpha: float, horizon: int, n_seeds: int, seed: int = 0) -> Result:
    """One algorithm at one horizon."""
    budget = {} if algorithm == "DPE" else {"epsilon": EPSILON, "delta": DELTA}
    policy = make(algorithm, dim=2, horizon=horizon, alpha=alpha, sigma=SIGMA, **budget)
    env = Population(arms=fan(), theta=(SCALE, 0.0), sigma=SIGMA)
    return replace(simulate(policy, env, n_seeds=n_seeds, seed=seed, checkpoints=1), name=algorithm)


def rates(
    *,
    algorithms: Sequence[str] = ALGORITHMS,
    alphas: Sequence[float] = ALPHAS,
    n_seeds: int = SEEDS,
    horizon: int = 2**LAST,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Rate]:
    """All lines; `horizon` is the longest, the others halve it down to 2^13."""
    longest = require.whole("horizon", horizon, least=4 * 2**FIRST)
    horizons = [longest // 2**k for k in range(64) if longest // 2**k >= 2**FIRST][::-1]
    pairs = [(name, alpha) for name in algorithms for alpha in alphas]
    tasks = [
        {"algorithm": name, "alpha": alpha, "horizon": each, "n_seeds": n_seeds, "seed": seed}
        for name, alpha in pairs
        for each in horizons
    ]
    found = gather(regret, tasks, jobs=jobs, progress=progress, label=_label)
    size = len(horizons)
    parts = [tuple(found[first : first + size]) for first in range(0, len(found), size)]
    return [Rate(algorithm=n, alpha=a, results=part) for (n, a), part in zip(pairs, parts, strict=True)]


def _label(task: Mapping[str, Any]) -> str:
    return f"{task['algorithm']}, alpha = {task['alpha']:g}, T = {task['horizon']:,}"
