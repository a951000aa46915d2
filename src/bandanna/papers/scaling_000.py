"""Rates of paper 000, which has them as theorems only: slopes of log regret in log T, where the privacy term dominates.

Instance: `DriftingContexts(turns=0)`, d = 3, 25 arms: fixed arms whose gaps have every scale (angles h/2^k from the
best direction), where an optimist's regret is of the order of its upper bound. epsilon = 1, delta = 1e-5, width 1.

    algorithm           learns after    horizons, in units of H    slope    theorem
    LinUCB              T/2000 users    1/1000 to 1/10             1/2      Lemma A.4 without noise
    LinUCB-JDP-batched  T/2000 users    1/100 to 1                 1/2      Proposition F.3
    LinUCB-SDP-Vec      T^{3/5} users   1/100 to 1                 3/5      Theorem 3.5, Remark 3.6
    LinUCB-LDP-batched  T/2000 users    1 to 100                   3/4      Proposition F.1

H = 1e8 unless said otherwise. The local model needs longer runs: below T = 1e8 the slope is still steeper, since its
noise forbids to learn anything for a long while. Each horizon is a run of its own, since noise, batches and radius
depend on it. The slope is the least-squares fit to the logarithms of the mean regrets.

Reference: Chowdhury and Zhou 2022 [000], sections 3 and F.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.environments.drifting import DriftingContexts
from bandanna.papers.curves_000 import Progress, ending, gather, silent
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

DIM, ARMS, EPSILON, DELTA, HORIZON, STEPS = 3, 25, 1.0, 1e-5, 100_000_000, 2000
SPAN, POINTS = 100, 5  # horizons of a line: from the first to SPAN times as much


@dataclass(frozen=True, kw_only=True)
class Line:
    """An algorithm, the exponent of its theorem, its last horizon in units of H."""

    algorithm: str
    theory: float
    last: float


LINES = {
    line.algorithm: line
    for line in (
        Line(algorithm="LinUCB", theory=1 / 2, last=0.1),
        Line(algorithm="LinUCB-JDP-batched", theory=1 / 2, last=1.0),
        Line(algorithm="LinUCB-SDP-Vec", theory=3 / 5, last=1.0),
        Line(algorithm="LinUCB-LDP-batched", theory=3 / 4, last=100.0),
    )
}


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Results of one algorithm at growing horizons."""

    algorithm: str
    results: tuple[Result, ...]

    @property
    def theory(self) -> float:
        """The theorem's exponent."""
        return LINES[self.algorithm].theory

    @property
    def slope(self) -> float:
        """Of log mean regret in log T."""
        logs = np.log([[result.horizon, result.mean()[-1]] for result in self.results])  # (points, 2)
        return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])

    def rows(self) -> list[dict[str, Any]]:
        """Plain values for JSON, one row per horizon."""
        return [{"algorithm": self.algorithm, **_ordered(result)} for result in self.results]

    def over_horizons(self) -> Result:
        """Final regrets against the horizon, as one result that can be drawn."""
        marks = np.array([result.horizon for result in self.results])
        regret = np.stack([result.final_regret for result in self.results], axis=1)  # (S, points)
        return replace(self.results[-1], checkpoints=marks, regret=regret, name=self.algorithm)


def _ordered(result: Result) -> dict[str, Any]:
    known = ending(result)
    return {name: known[name] for name in ("horizon", "mean", "stderr", "n_seeds")}


def horizons(algorithm: str, longest: int = HORIZON, points: int = POINTS) -> tuple[int, ...]:
    """Geometrically spaced, the last one LINES[algorithm].last times `longest`, the first SPAN times less."""
    last = LINES[require.one_of("algorithm", algorithm, tuple(LINES))].last * longest
    return tuple(round(each) for each in np.geomspace(last / SPAN, last, points))


def policy(algorithm: str, horizon: int) -> LinUCB:
    """The algorithm at the common budget."""
    budget = {} if algorithm == "LinUCB" else {"epsilon": EPSILON, "delta": DELTA}
    batch = "paper" if algorithm == "LinUCB-SDP-Vec" else max(1, horizon // STEPS)
    made: LinUCB = make(algorithm, dim=DIM, horizon=horizon, batch=batch, ties="first", **budget)
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
    progress: Progress = silent,
) -> list[Scaling]:
    """All lines; `horizon` is H."""
    require.whole("horizon", horizon, least=10_000)
    require.whole("seeds", n_seeds)
    tasks = [
        {"algorithm": name, "horizon": each, "n_seeds": n_seeds, "seed": seed}
        for name in algorithms
        for each in horizons(name, horizon, require.whole("points", points, least=2))
    ]
    found = gather(regret, tasks, jobs=jobs, progress=progress, label=_label)
    parts = [tuple(found[first : first + points]) for first in range(0, len(found), points)]
    return [Scaling(algorithm=name, results=part) for name, part in zip(algorithms, parts, strict=True)]


def _label(task: Mapping[str, Any]) -> str:
    return f"{task['algorithm']}, T = 1e{math.log10(task['horizon']):.1f}"
