"""Figures of paper 000: LinUCB under every privacy model, as published and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from reproductions.figure import REGRET, Curve, Figure, Row, noted, rows_of
from reproductions.rates import Rate, across, draw_panels, draw_rates, rates_and_slopes
from reproductions.shuffle_linucb import regret, returning, scaling

_TRUE = ("epsilon:g", *REGRET, "true epsilon=true_epsilon:.4g", "delta=true_delta:.3g", "kind=true_kind")


def _draw_returning(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Final regret against the number of participations, and regret over time, one figure per variant and number."""
    lines: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        if curve.result is not None:
            lines.setdefault((curve.row["variant"], curve.row["algorithm"]), []).append(curve)
    ends = [
        replace(line[0], result=across([curve.row["participations"] for curve in line], line))
        for line in lines.values()
        if len(line) > 1
    ]
    title = "{variant}: regret of returning users"
    return draw_panels(ends, stem, name="{variant}", title=title, log=True, over="participations") + draw_panels(
        curves,
        stem,
        name="{variant}-participations{participations}",
        title="{variant}: at most {participations} participations",
    )


def _with_slopes(rates: Sequence[Rate]) -> list[Row]:
    """Rows of all horizons, the slope with the last one of each line."""
    lines: list[Row] = []
    for rate in rates:
        *earlier, last = (point.row for point in rate.points)
        lines += [row | {"slope": "", "theory": ""} for row in earlier] + [last | rate.summary]
    return lines


_FIG1 = Figure(
    name="fig1",
    shows="d = 5, epsilon 0.2, 1, 10: each curve as its authors ran it, with its true privacy, and ours",
    options={"seeds": 50, "horizon": regret.HORIZON},
    compute=partial(regret.curves, regret.FIRST),
    columns=("algorithm", "variant", "d=dim", *_TRUE),
    caption="true: what the noise really gives, at the nominal delta and at the nominal epsilon",
    draw=partial(
        draw_panels,
        name="{variant}-d{dim}-epsilon{epsilon:g}",
        title="{variant}: d = {dim}, nominal epsilon = {epsilon:g}",
    ),
)
FIGURES = (
    _FIG1,
    replace(
        _FIG1,
        name="fig2",
        shows="the same for d = 10 and 15, epsilon = 1",
        compute=partial(regret.curves, regret.SECOND),
    ),
    Figure(
        name="returning",
        shows="users who take part in 1, 4, 16 or all batches",
        options={"seeds": 50, "horizon": returning.HORIZON},
        compute=returning.curves,
        document=lambda curves: rows_of(curves) | {"random_play": returning.random_play(curves)},
        columns=("algorithm", "variant", "M=participations", *_TRUE),
        caption=_FIG1.caption,
        notes=lambda curves: [
            f"random play: {returning.random_play(curves):,.0f}",
            *noted(curves, "{variant}, M = {participations}"),
        ],
        draw=_draw_returning,
    ),
    Figure(
        name="scaling",
        shows="slopes of log regret in log T, fitted and of the theorems (local: to 100 T, LinUCB: to T/10)",
        options={"seeds": 50, "horizon": scaling.HORIZON},
        compute=scaling.scaling,
        document=rates_and_slopes,
        lines=_with_slopes,
        columns=("algorithm", "horizon:,", *REGRET, "slope:.3f", "theory:g"),
        caption="slope: of log regret in log horizon, fitted",
        draw=partial(draw_rates, title="How regret grows with the horizon", label="{algorithm}"),
    ),
)
