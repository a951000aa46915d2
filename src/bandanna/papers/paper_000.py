"""Paper 000's figures 1 and 2: every curve as published, with the true privacy of its noise, and ours beside it.

*Published*: the authors' noise, regulariser and radius (`published_000`), realised regret, features of norm sqrt 2.
*Ours*: the same instances with features scaled to norm 1, tight noise for the nominal budget, the theorem's radius,
and the regret of the true means. What each noise really guarantees stands in the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.environments.published import PublishedLinear
from bandanna.papers import published_000
from bandanna.papers.privacy_000 import true_privacy
from bandanna.papers.setting_000 import ALGORITHMS, Setting
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

DELTA, BATCH = 0.1, 20
FIGURES = {"fig1": ((5, 0.2), (5, 1.0), (5, 10.0)), "fig2": ((10, 1.0), (15, 1.0))}  # (d, epsilon) of each panel


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One algorithm in one panel: what was run, and what its noise really gives."""

    algorithm: str
    variant: str
    dim: int
    epsilon: float
    delta: float
    true_epsilon: float | None
    true_delta: float | None
    true_kind: str | None
    result: Result

    def row(self) -> dict[str, Any]:
        """Plain values for JSON; infinities are None."""
        epsilon = self.true_epsilon
        return {
            "algorithm": self.algorithm,
            "variant": self.variant,
            "dim": self.dim,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "true_epsilon": None if epsilon is None or math.isinf(epsilon) else epsilon,
            "true_delta": self.true_delta,
            "true_kind": self.true_kind,
            "mean": float(self.result.mean()[-1]),
            "stderr": float(self.result.stderr()[-1]),
            "n_seeds": self.result.n_seeds,
            "horizon": self.result.horizon,
        }


def curves(
    figure: str,
    *,
    n_seeds: int = 50,
    horizon: int = 20_000,
    seed: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> list[Curve]:
    """All curves of a figure, published and ours."""
    require.one_of("figure", figure, tuple(FIGURES))
    found: list[Curve] = []
    clear: dict[
        tuple[str, int], Curve
    ] = {}  # LinUCB without privacy does not depend on epsilon: run once per dimension
    for dim, epsilon in FIGURES[figure]:
        for algorithm in ALGORITHMS:
            for variant, run in (("published", _published), ("ours", _ours)):
                if algorithm == "LinUCB" and (variant, dim) in clear:
                    found.append(replace(clear[variant, dim], epsilon=epsilon))
                    continue
                progress(f"{algorithm}, d = {dim}, epsilon = {epsilon:g}, {variant}")
                found.append(run(algorithm, dim, epsilon, horizon, n_seeds, seed))
                if algorithm == "LinUCB":
                    clear[variant, dim] = found[-1]
    return found


def _published(algorithm: str, dim: int, epsilon: float, horizon: int, n_seeds: int, seed: int) -> Curve:
    setting = Setting(algorithm=algorithm, epsilon=epsilon, delta=DELTA, dim=dim, horizon=horizon, batch=BATCH)
    seeds = range(seed, seed + n_seeds)
    run = published_000.run(algorithm, epsilon=epsilon, dim=dim, horizon=horizon, batch=BATCH, delta=DELTA, seeds=seeds)
    true = true_privacy(setting)
    result = Result(
        name=algorithm,
        checkpoints=run.checkpoints,
        regret=run.regret,
        rewards=np.full(n_seeds, np.nan),  # not recorded
        releases=horizon // setting.every,
        clipped=np.zeros(n_seeds, dtype=np.int64),
        repairs=np.zeros(n_seeds, dtype=np.int64),
        bits_per_user=64 * (dim + dim * (dim + 1) // 2),
        guarantee=Guarantee(trust="none", epsilon=math.inf, delta=DELTA, protects="a user's features and rewards"),
        seconds=run.seconds,
        seeds=tuple(seeds),
    )
    return Curve(
        algorithm=algorithm,
        variant="published",
        dim=dim,
        epsilon=epsilon,
        delta=DELTA,
        true_epsilon=None if true is None else true.epsilon,
        true_delta=None if true is None else true.delta,
        true_kind=None if true is None else true.kind,
        result=result,
    )


def _ours(algorithm: str, dim: int, epsilon: float, horizon: int, n_seeds: int, seed: int) -> Curve:
    budget = {} if algorithm == "LinUCB" else {"epsilon": epsilon, "delta": DELTA}
    batch = {"batch": BATCH} if "SDP" in algorithm else {}
    policy = make(algorithm, dim=dim, horizon=horizon, **budget, **batch)
    env = PublishedLinear(dim=dim, normalised=True)
    result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    private = bool(budget)
    event = policy.channel.protocols[policy.channel.sizes[0]].event  # one batch size, unique users
    return Curve(
        algorithm=algorithm,
        variant="ours",
        dim=dim,
        epsilon=epsilon,
        delta=DELTA,
        true_epsilon=policy.guarantee.epsilon if private else None,
        true_delta=accountant.delta_near(event, epsilon, DELTA) if private else None,
        true_kind=("upper" if "SDP" in algorithm else "exact") if private else None,
        result=result,
    )
