"""Paper 001's figures 2 and 3 and its Table II: regret, privacy and communication of phased elimination.

fig2a   regret at T against epsilon: CDP-, SDP- and LDP-DPE; DPE beside them, and the printed noise where it holds
fig2b   regret per round over time at epsilon = 10
fig2c   DPE against DPE-FixedU with U = ceil(sum |U_l| N_l / sum N_l), the same communication
fig3    regret at T = 5 10^4 of LinUCB and PE, one client per round, and of DPE for several alpha
table2  what they communicate; rates: `scaling`
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.experiments.workers import Progress, silent
from bandanna.papers.common.curve import Curve, Row
from bandanna.papers.common.gather import gather
from bandanna.papers.p001.settings import HORIZON, PRIVATE, SEEDS, ours, printed

EPSILONS, EPSILON = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0), 10.0
ALPHAS, SHORT = (0.5, 0.6, 0.7, 0.8, 0.9), 50_000
CLEAR = [{"algorithm": "DPE"}]
FIG2A: list[dict[str, Any]] = [
    *CLEAR,
    *({"algorithm": name, "epsilon": epsilon} for epsilon in EPSILONS for name in PRIVATE),
    *(
        {"algorithm": name, "epsilon": epsilon, "variant": "published"}
        for epsilon in EPSILONS
        for name in ("CDP-DPE", "LDP-DPE")
    ),
]
FIG2B: list[dict[str, Any]] = [*CLEAR, *({"algorithm": name, "epsilon": EPSILON} for name in PRIVATE)]
FIG3: list[dict[str, Any]] = [
    *({"algorithm": "DPE", "alpha": alpha} for alpha in ALPHAS),
    *({"algorithm": name, "alpha": None} for name in ("LinUCB", "PE")),
]
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
    tasks: Sequence[Mapping[str, Any]],
    *,
    n_seeds: int = SEEDS,
    horizon: int = HORIZON,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Curve]:
    """The curves of a figure: one for each task."""
    shared = {"horizon": require.whole("horizon", horizon), "n_seeds": n_seeds, "seed": seed}
    return gather(_curve, [{**task, **shared} for task in tasks], jobs=jobs, progress=progress)


def fixed_clients(**options: Any) -> list[Curve]:
    """Figure 2(c): DPE, and DPE-FixedU with the same communication."""
    (dpe,) = curves([{"algorithm": "DPE"}], **options)
    fixed = (("clients", same_communication(dpe)),)
    return [dpe, *curves([{"algorithm": "DPE-FixedU", "alpha": None, "options": fixed}], **options)]


@lru_cache(maxsize=64)
def _curve(*, variant: str = "ours", **task: Any) -> Curve:
    """Once for all figures of a process: 2(b) has curves of 2(a), Table II those of figure 3."""
    return (ours if variant == "ours" else printed)(**task)


def same_communication(dpe: Curve) -> int:
    """U = ceil(sum_l |U_l| N_l / sum_l N_l) of DPE's runs: as many clients in every phase cost as much [001, VI]."""
    assert dpe.result is not None
    counts = dpe.result.counts
    sent, actions = float(np.sum(counts["communication"])), float(np.sum(counts["actions"]))
    return max(1, math.ceil(sent / max(1.0, actions)))


def table2(found: Sequence[Curve]) -> list[Row]:
    """Rows of Table II."""
    names = ("algorithm", "alpha", "participants", "communication")
    return [{name: each.row[name] for name in names} | {"mean_regret": each.row["mean"]} for each in found]


def published(row: Row) -> tuple[float | None, float | None]:
    """Communication and participants that the paper prints for a row of Table II."""
    key = row["algorithm"] if row["alpha"] is None else f"alpha = {row['alpha']:g}"
    sent, clients = PUBLISHED[key]
    return sent * 1e4, clients * 1e4
