"""Figures of paper 004, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.figures.axes import PALETTE, save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.paper_004 import Curve, Price

_TITLES = {"finite": "Finite arms", "linear": "Linear, fixed arms", "contextual": "Linear, public contexts"}


def draw_prices(prices: Sequence[Price], out: Path) -> list[Path]:
    """Figure 4: for each setting and variant, the difference in regret against rho and the price against time."""
    panels: dict[tuple[str, str], list[Price]] = {}
    for price in prices:
        panels.setdefault((price.private.setting, price.private.variant), []).append(price)
    paths = []
    for (setting, variant), panel in panels.items():
        for name, draw in (("rho", _against_rho), ("time", _against_time)):
            figure = draw(panel, f"{_TITLES[setting]}, {variant}")
            paths += save_both(figure, out / f"fig4-{setting}-{variant}-{name}")
    return paths


def _empty(title: str, panel: Sequence[Price]) -> tuple[Any, Any]:
    """Axes in the house's style, without lines."""
    figure = plot_regret({"": panel[0].free.result})
    axes = figure.axes[0]
    for artist in (*axes.lines, *axes.collections, *axes.texts):
        artist.remove()
    axes.set_title(title, loc="left", fontweight="bold")
    return figure, axes


def _against_rho(panel: Sequence[Price], title: str) -> Any:
    figure, axes = _empty(title, panel)
    rows = [price.row() for price in panel]
    rhos, means = [row["rho"] for row in rows], [row["difference"] for row in rows]
    spread = [2 * (row["difference_stderr"] or 0.0) for row in rows]
    axes.errorbar(rhos, means, yerr=spread, color=PALETTE[0], marker="o", capsize=3)
    axes.axhline(0.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(min(rhos) / 2, max(rhos) * 2)
    axes.relim()
    axes.autoscale(axis="y")
    axes.set_xlabel("rho (bars: two standard errors)")
    axes.set_ylabel("private minus non-private regret")
    return figure


def _against_time(panel: Sequence[Price], title: str) -> Any:
    figure, axes = _empty(title, panel)
    for index, price in enumerate(panel):
        color = PALETTE[index % len(PALETTE)]
        axes.plot(price.private.result.checkpoints, price.pop, color=color, label=f"rho = {price.private.rho:g}")
    axes.axhline(0.0, color="black", linewidth=1)
    axes.relim()
    axes.autoscale()
    axes.set_xscale("log")
    top = np.nanmax([np.nanmax(price.pop) for price in panel])
    axes.set_ylim(min(-0.05, float(np.nanmin([np.nanmin(price.pop) for price in panel]))), 1.05 * max(float(top), 0.1))
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_xlabel("rounds")
    axes.set_ylabel("price of privacy")
    axes.legend()
    return figure


def draw_noise_levels(curves: Sequence[Curve], out: Path) -> list[Path]:
    """Figure 5: regret over time, one figure for each variant and rho."""
    panels: dict[tuple[str, float], dict[str, Any]] = {}
    for curve in curves:
        assert curve.rho is not None
        panels.setdefault((curve.variant, curve.rho), {})[curve.algorithm] = curve.result
    paths = []
    for (variant, rho), panel in panels.items():
        figure = plot_regret(panel, title=f"Noise at two places, {variant}: rho = {rho:g}")
        paths += save_both(figure, out / f"fig5-{variant}-rho{rho:g}")
    return paths
