"""Figures for paper 002, which has no experiments: noise of running counts, regret of LinUCB, the tree of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from bandanna.protocols.batch_tree import BatchTree
from bandanna.simulation.figures import (
    PALETTE,
    decorate_axes,
    format_exponent,
    format_power,
    house_style,
    label_ends,
    make_axes,
    save_both,
)
from reproductions.concurrent_shuffle import error, regret, tree
from reproductions.concurrent_shuffle.tree import Batch, batches, busiest, covering
from reproductions.figure import REGRET, Curve, Figure, Row, at_once
from reproductions.rates import Rate, draw_panels, rates_and_slopes, with_end

_MOST_BARS, _MOST_NAMED = 400, 40  # of a level; users whose batches have room for their numbers
_COLOURS: dict[object, str] = {
    "local": PALETTE[6],
    "central": PALETTE[2],
    1: PALETTE[1],
    2: PALETTE[4],
    3: PALETTE[3],
    4: PALETTE[5],
    "best": PALETTE[0],
}
_NOTE = "measured standard deviation; in brackets: the theory's slope; dotted: order of the lower bound, Theorem 4.1"


def draw_errors(rates: Sequence[Rate], stem: Path) -> list[Path]:
    """Std of the worst prefix against n, with fitted slopes; dotted: the order of the lower bound for the same k."""
    shown = [rate for rate in rates if rate.points[0].row["degrees"] != "paper" and rate.slope is not None]
    if not shown:
        return []  # one run has no standard deviation
    with house_style():
        figure, axes = make_axes((10.4, 6.2), (0.085, 0.115, 0.61, 0.745))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ends = [end for rate in shown for end in _error_line(axes, rate)]
        first, last = (shown[0].points[place].row["n"] for place in (0, -1))
        axes.set_xlim(first / 1.1, last * 1.1)
        axes.xaxis.set_major_formatter(lambda value, _: format_power(value, 2))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        title = "k shufflers at work at once: noise in the worst running count"
        decorate_axes(axes, title, _NOTE, across="users", up="noise of the worst prefix")
        label_ends(axes, ends)
    return save_both(figure, stem)


def _error_line(axes: Any, rate: Rate) -> list[tuple[str, float, float, str, bool]]:
    """A measured line, its lower bound if there is one, and their labels."""
    k = rate.arguments["k"]
    colour = _COLOURS[k or rate.arguments["model"]]
    ns, stds, bounds = ([point.shown[name] for point in rate.points] for name in ("n", "std", "lower_bound"))
    axes.plot(ns, stds, color=colour, linewidth=2.4, marker="o", markersize=5, zorder=3)
    name = rate.arguments["model"] if k is None else "best k" if k == "best" else f"{k} shuffler{'s' if k > 1 else ''}"
    wanted = "polylog" if rate.theory == 0 else f"1/{round(1 / rate.theory)}"
    ends = [(f"{name}, {rate.epsilon}: slope {rate.slope:.2f} ({wanted})", float(ns[-1]), stds[-1], colour, True)]
    if bounds[0] is not None:
        axes.plot(ns, bounds, color=colour, linewidth=1.8, linestyle=(0, (1, 1.6)))
        ends.append((f"lower bound, k = {k}", float(ns[-1]), bounds[-1], colour, False))
    return ends


def draw_regrets(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Regret over time, with our batches and with the counter's; one shuffler is the sequential model with ours."""
    titles = {"ours": "LinUCB with k shufflers at work at once", "paper": "The same with the batches of a counter"}
    paths: list[Path] = []
    for rule, title in titles.items():
        panel = [
            each
            for each in curves
            if each.row["k"] is None or (each.row["batches"] == rule and (rule, each.row["k"]) != ("ours", 1))
        ]
        paths += draw_panels(panel, stem, name=rule, title=title, label="{name}")
    return paths


def draw_tree(tree: BatchTree, stem: Path) -> list[Path]:
    """Batches over time, one row for each level's shuffler; dark: what the estimate after some t adds up."""
    t, height = busiest(tree), 1.9 + 0.62 * tree.levels
    chosen = covering(tree, t)
    with house_style():
        figure, axes = make_axes((10.4, height), (0.16, 0.8 / height, 0.81, 1 - 1.75 / height))
        for batch in _drawn(tree, chosen):
            _bar(axes, tree, batch, chosen=batch in chosen)
        axes.set_xlim(0.5, 0.5 + 1.003 * tree.horizon)
        axes.set_ylim(0.4, tree.levels + 0.6)
        axes.set_yticks(range(1, tree.levels + 1), [f"batches of {size:,}" for size in tree.sizes])
        title = f"{tree.horizon:,} users, {tree.levels} shuffler{'s' if tree.levels > 1 else ''}: batches over time"
        degrees = _product(tree.degrees)
        note = f"degrees {degrees}; dark: the batches that the count after {t:,} users adds up; dashed: never released"
        decorate_axes(axes, title, note, across="user", up="")
        axes.grid(False)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if 1 <= value <= tree.horizon else "")
        axes.axvline(t + 0.5, color="black", linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    return save_both(figure, with_end(stem, f"n{tree.horizon}-k{tree.levels}"))


def _drawn(tree: BatchTree, chosen: list[Batch]) -> list[Batch]:
    """All batches; those of a level with very many of them as one bar, with the chosen ones on top."""
    many = {level for level, count in enumerate(tree.batches, start=1) if count > _MOST_BARS}
    merged = [
        Batch(level=level, first=1, last=tree.batches[level - 1] * tree.sizes[level - 1], released=True)
        for level in sorted(many)
    ]
    few = [batch for batch in batches(tree) if batch.level not in many or not batch.released]
    return merged + few + [batch for batch in chosen if batch.level in many]


def _bar(axes: Any, tree: BatchTree, batch: Batch, *, chosen: bool) -> None:
    """One batch as a bar from its first user to its last."""
    colour = PALETTE[(batch.level - 1) % (len(PALETTE) - 1)]
    users = batch.last - batch.first + 1
    margin = 0.12 if tree.horizon <= _MOST_BARS else 0.0
    look: dict[str, Any] = {"facecolor": _pale(colour), "edgecolor": colour, "linewidth": 0.8}
    if chosen:
        look = {"facecolor": colour, "edgecolor": colour if margin else "white", "linewidth": 0.8}
    if not batch.released:
        look = {"facecolor": "white", "edgecolor": colour, "linewidth": 1.2, "linestyle": (0, (3, 2))}
    axes.barh(batch.level, users - 2 * margin, left=batch.first - 0.5 + margin, height=0.66, zorder=2, **look)
    if tree.horizon <= _MOST_NAMED:
        text = f"{batch.first}-{batch.last}" if users > 1 else str(batch.last)
        place = {"ha": "center", "va": "center", "fontsize": 10, "color": "white" if chosen else "#333333"}
        axes.text((batch.first + batch.last) / 2, batch.level, text, parse_math=False, **place)


def _pale(colour: str) -> str:
    """A third of the colour, the rest white."""
    return "#" + "".join(f"{round((int(colour[i : i + 2], 16) + 2 * 255) / 3):02X}" for i in (1, 3, 5))


def _product(degrees: Sequence[int]) -> str:
    """3 x 2² for (3, 2, 2)."""
    runs = [(degree, len(list(same))) for degree, same in groupby(degrees)]
    return " x ".join(f"{d}{format_exponent(times) if times > 1 else ''}" for d, times in runs)


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
