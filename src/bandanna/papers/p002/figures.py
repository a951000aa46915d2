"""Figures for paper 002, which has no experiments: noise of running counts, regret of LinUCB, the tree of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bandanna.papers.common.curve import Row
from bandanna.papers.common.figure import REGRET, Figure, at_once
from bandanna.papers.common.scaling import Rate, rates_and_slopes
from bandanna.papers.p002 import error, regret, tree
from bandanna.papers.p002.drawing import draw_errors, draw_regrets, draw_tree
from bandanna.protocols.concurrent_shuffle import BatchTree


def _errors(rates: Sequence[Rate]) -> dict[str, Any]:
    """All points, and the slopes of our own degrees."""
    ours = [rate for rate in rates if rate.points[0].row["degrees"] != "paper"]
    return rates_and_slopes(rates) | {"slopes": [rate.summary for rate in ours]}


def _last_points(rates: Sequence[Rate]) -> list[Row]:
    """One for each model: its last point, the first one's std, and the slope between them."""
    return [
        rate.points[-1].shown
        | {"first": rate.points[0].row["std"], "slope": rate.slope, "theory": rate.theory or "polylog"}
        for rate in rates
    ]


def _tree(found: BatchTree) -> dict[str, Any]:
    batches = [asdict(batch) for batch in tree.batches(found)]
    return {
        "horizon": found.horizon,
        "shufflers": found.levels,
        "degrees": list(found.degrees),
        "batches": batches,
    }


def _levels(found: BatchTree) -> list[Row]:
    """One for each level, the highest first; none where the tree fits into a terminal."""
    levels = [
        {"level": level, "users": size, "batches": count, "left": found.horizon - count * size}
        for level, (size, count) in enumerate(zip(found.sizes, found.batches, strict=True), start=1)
    ]
    return levels[::-1] if found.horizon > tree.MOST_IN_TEXT else []


def _picture(found: BatchTree) -> list[str]:
    if found.horizon > tree.MOST_IN_TEXT:
        return []
    return [tree.text(found), "[==] a batch, released with its last user; [. . never full, never released"]


FIGURES = (
    Figure(
        name="error",
        shows="noise of the worst running count against the number of users, for k shufflers, central and local",
        options={"seeds": 100, "horizon": error.HORIZON, "epsilon": error.EPSILON, "delta": error.DELTA},
        compute=error.errors,
        document=_errors,
        lines=_last_points,
        columns=(
            *("model=name", "degrees", "first std=first:,.1f", "last std=std:,.1f", "predicted=predicted_std:,.1f"),
            *("eps/k rule=paper_rule_std:,.1f", "bound=lower_bound:,.1f", "largest=worst_error:,.0f"),
            *("slope:.3f", "theory:.3f"),
        ),
        caption="std: noise of the worst prefix, measured, at the least and the largest n; eps/k rule: on that tree;\n"
        "bound: order of Theorem 4.1's; largest: error of any prefix, users of unfinished batches included;\n"
        "slope: of log std in log n, fitted",
        notes=lambda rates: ["n = {:,} to {:,}".format(*(rates[0].points[place].row["n"] for place in (0, -1)))],
        draw=draw_errors,
    ),
    Figure(
        name="regret",
        shows="LinUCB over k concurrent shufflers, beside one after the other and central",
        options={"seeds": 50, "horizon": regret.HORIZON},
        compute=regret.regrets,
        columns=(
            *("algorithm", "model=name", "batches", "users=batch:,", "noise=noise_std:,.0f"),
            *(*REGRET, "ratio:.2f", "epsilon:.4g"),
        ),
        caption="batches: of the algorithm's paper, or ours, and their users; noise: std of the worst running sum;\n"
        "ratio: to the central one; epsilon: what the accountant proves",
        draw=draw_regrets,
    ),
    Figure(
        name="tree",
        shows="who shares a batch, and when it is released",
        options={"horizon": tree.HORIZON, "epsilon": tree.EPSILON, "delta": tree.DELTA, "shufflers": tree.SHUFFLERS},
        compute=at_once(tree.batch_tree),
        document=_tree,
        lines=_levels,
        columns=("level", "users in a batch=users:,", "batches:,", "users left over=left:,"),
        caption="left over: never released",
        notes=_picture,
        draw=draw_tree,
    ),
)
