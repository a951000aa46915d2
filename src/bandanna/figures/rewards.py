"""Reward against epsilon: a curve for each algorithm and trust model, and lines for what needs no privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bandanna.figures.axes import blank, colour_of, furnish, label_ends, styled


def plot_rewards(rows: Sequence[Mapping[str, Any]], *, title: str | None = None) -> Any:
    """A matplotlib `Figure` of rows with algorithm, trust, epsilon, mean_reward and stderr, which the bars are.

    A point stands at its `stated_epsilon`, that of what has run, where a row has one.
    """
    with styled():
        figure, axes = blank((10.5, 6.0), (0.09, 0.13, 0.6, 0.72))
        private = [row for row in rows if row["epsilon"] is not None]
        names = list(dict.fromkeys((row["algorithm"], row["trust"]) for row in private))
        axes.set_xscale("log")
        ends: list[tuple[str, float, float, str, bool]] = []
        sizes = sorted({row["epsilon"] for row in private}) or [1.0]
        axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
        for place, name in enumerate(names):
            curve = sorted(
                (row for row in private if (row["algorithm"], row["trust"]) == name), key=lambda row: row["epsilon"]
            )
            across = [row.get("stated_epsilon") or row["epsilon"] for row in curve]
            up = [row["mean_reward"] for row in curve]
            spread = [row["stderr"] or 0.0 for row in curve]
            colour = colour_of(place)
            axes.errorbar(across, up, yerr=spread, color=colour, marker="o", linewidth=2, capsize=3)
            ends.append((f"{name[0]}, {name[1]}", across[-1], up[-1], colour, True))
        for row in rows:
            if row["epsilon"] is None:
                axes.axhline(row["mean_reward"], color="#9A9A9A", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
                without = "" if row["algorithm"] in ("best arm", "random") else ", no privacy"
                ends.append((f"{row['algorithm']}{without}", axes.get_xlim()[1], row["mean_reward"], "#6B6B6B", False))
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.minorticks_off()
        axes.margins(y=0.06)
        furnish(axes, title, "mean reward ± standard error", across="true epsilon", up="reward of a round")
        label_ends(axes, ends)
    return figure
