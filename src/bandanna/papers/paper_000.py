"""Paper 000's figures 1 and 2: every curve as published, with the true privacy of its noise, and ours beside it.

*Published*: the authors' noise, regulariser and radius (`published_000`), realised regret, features of norm sqrt 2.
*Ours*: the same instances with features scaled to norm 1, tight noise for the nominal budget, the theorem's radius,
and the regret of the true means. What each noise really guarantees stands in the row.
Both on the authors' own instances (`instances_000`). Users who come back: `returning_000`; rates: `scaling_000`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.papers import published_000, returning_000
from bandanna.papers.curves_000 import Curve, Progress, gather, silent, true_numbers
from bandanna.papers.instances_000 import AuthorsInstances
from bandanna.papers.privacy_000 import true_privacy
from bandanna.papers.setting_000 import ALGORITHMS, Setting
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

DELTA, BATCH, HORIZON = 0.1, 20, 20_000
PANELS = {"fig1": ((5, 0.2), (5, 1.0), (5, 10.0)), "fig2": ((10, 1.0), (15, 1.0))}  # (d, epsilon) of each panel
FIGURES = (*PANELS, "returning")


def curves(
    figure: str,
    *,
    n_seeds: int = 50,
    horizon: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Curve]:
    """All curves of a figure, published and ours; `horizon` None: the figure's own. More `jobs`: more processes."""
    require.one_of("figure", figure, FIGURES)
    shared: dict[str, Any] = {"n_seeds": require.whole("seeds", n_seeds), "seed": seed}
    if figure == "returning":
        long = returning_000.HORIZON if horizon is None else horizon
        return returning_000.curves(horizon=long, jobs=jobs, progress=progress, **shared)
    shared["horizon"] = require.whole("horizon", HORIZON if horizon is None else horizon, least=BATCH)
    wanted = [(a, v, d, e) for d, e in PANELS[figure] for a in ALGORITHMS for v in ("published", "ours")]
    once = {_what(*each): each for each in reversed(wanted)}  # LinUCB does not depend on epsilon: once per dimension
    tasks = [dict(zip(("algorithm", "variant", "dim", "epsilon"), once[what], strict=True)) | shared for what in once]
    found = dict(zip(once, gather(curve, tasks, jobs=jobs, progress=progress, label=_label), strict=True))
    return [replace(found[_what(*each)], epsilon=each[3]) for each in wanted]


def _what(algorithm: str, variant: str, dim: int, epsilon: float) -> tuple[str, str, int, float]:
    return algorithm, variant, dim, math.inf if algorithm == "LinUCB" else epsilon


def _label(task: Mapping[str, Any]) -> str:
    return f"{task['algorithm']}, d = {task['dim']}, epsilon = {task['epsilon']:g}, {task['variant']}"


def curve(
    *, algorithm: str, variant: str, dim: int, epsilon: float, horizon: int, n_seeds: int, seed: int = 0
) -> Curve:
    """One curve of figure 1 or 2."""
    run = _published if require.one_of("variant", variant, ("published", "ours")) == "published" else _ours
    return run(algorithm, dim, epsilon, horizon, n_seeds, seed)


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
    policy = make(algorithm, dim=dim, horizon=horizon, ties="first", **budget, **batch)
    result = simulate(policy, AuthorsInstances(dim=dim, normalised=True), n_seeds=n_seeds, seed=seed)
    return Curve(
        algorithm=algorithm,
        variant="ours",
        dim=dim,
        epsilon=epsilon,
        delta=DELTA,
        **true_numbers(policy, epsilon, DELTA),
        result=result,
    )
