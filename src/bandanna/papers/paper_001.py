"""Paper 001's figures 2 and 3 and its Table II: regret, privacy and communication of phased elimination.

fig2a   regret at T against epsilon: CDP-, SDP- and LDP-DPE; DPE beside them, and the printed noise where it holds
fig2b   regret per round over time at epsilon = 10
fig2c   DPE against DPE-FixedU with U = ceil(sum |U_l| N_l / sum N_l), the same communication
fig3    regret at T = 5 10^4 of LinUCB and PE, one client per round, and of DPE for several alpha
table2  what they communicate; rates: `scaling_001`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.papers.curves_000 import Progress, gather, silent
from bandanna.papers.setting_001 import ALPHA, HORIZON, PRIVATE, SEEDS, Curve001, ours, printed

FIGURES = ("fig2a", "fig2b", "fig2c", "fig3", "table2")
EPSILONS, EPSILON = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0), 10.0
ALPHAS, SHORT = (0.5, 0.6, 0.7, 0.8, 0.9), 50_000
PUBLISHED = {  # Table II of [001], in units of 10^4: communication, participating users
    "alpha = 0.5": (0.70, 0.04),
    "alpha = 0.6": (0.81, 0.10),
    "alpha = 0.7": (1.05, 0.23),
    "alpha = 0.8": (1.69, 0.55),
    "alpha = 0.9": (3.27, 1.34),
    "LinUCB": (5.00, 5.00),
    "PE": (5.00, 5.00),
}


def curves(
    figure: str,
    *,
    n_seeds: int = SEEDS,
    horizon: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Curve001]:
    """All curves of a figure; `horizon` None: the figure's own."""
    require.one_of("figure", figure, FIGURES)
    default = SHORT if figure in ("fig3", "table2") else HORIZON
    rounds = require.whole("horizon", default if horizon is None else horizon)
    shared: dict[str, Any] = {"horizon": rounds, "n_seeds": require.whole("seeds", n_seeds), "seed": seed}
    found = gather(_curve, [task | shared for task in _tasks(figure)], jobs=jobs, progress=progress, label=_label)
    if figure == "fig2c":
        fixed = {"clients": same_communication(found[0])}
        found.append(ours(algorithm="DPE-FixedU", alpha=None, options=fixed, **shared))
    return found


def _tasks(figure: str) -> list[dict[str, Any]]:
    if figure == "fig2a":
        private = [{"algorithm": name, "epsilon": epsilon} for epsilon in EPSILONS for name in PRIVATE]
        paper = [
            {"algorithm": name, "epsilon": epsilon, "variant": "published"}
            for epsilon in EPSILONS
            for name in ("CDP-DPE", "LDP-DPE")
        ]
        return [{"algorithm": "DPE"}, *private, *paper]
    if figure == "fig2b":
        return [{"algorithm": "DPE"}, *({"algorithm": name, "epsilon": EPSILON} for name in PRIVATE)]
    if figure == "fig2c":
        return [{"algorithm": "DPE"}]
    alphas = [{"algorithm": "DPE", "alpha": alpha} for alpha in ALPHAS]
    return [*alphas, {"algorithm": "LinUCB", "alpha": None}, {"algorithm": "PE", "alpha": None}]


def _curve(*, variant: str = "ours", **task: Any) -> Curve001:
    return (ours if variant == "ours" else printed)(**task)


def _label(task: Mapping[str, Any]) -> str:
    chosen = {name: task[name] for name in ("alpha", "epsilon") if task.get(name) is not None}
    return ", ".join([task["algorithm"], *(f"{name} = {value:g}" for name, value in chosen.items())])


def same_communication(dpe: Curve001) -> int:
    """U = ceil(sum_l |U_l| N_l / sum_l N_l) of DPE's runs: as many clients in every phase cost as much [001, VI]."""
    assert dpe.result is not None
    counts = dpe.result.counts
    sent, actions = float(np.sum(counts["communication"])), float(np.sum(counts["actions"]))
    return max(1, math.ceil(sent / max(1.0, actions)))


def table2(found: list[Curve001]) -> list[dict[str, Any]]:
    """Rows of Table II."""
    names = ("algorithm", "alpha", "participants", "communication")
    return [{name: row[name] for name in names} | {"mean_regret": row["mean"]} for row in (c.row() for c in found)]


def published(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Communication and participants that the paper prints for a row of Table II."""
    key = row["algorithm"] if row["alpha"] is None else f"alpha = {row['alpha']:g}"
    pair = PUBLISHED.get(key)
    return None if pair is None else (pair[0] * 1e4, pair[1] * 1e4)


__all__ = ["ALPHA", "FIGURES", "curves", "published", "same_communication", "table2"]
