"""Figures of paper 003, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bandanna.figures.axes import save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.paper_003 import Found
from bandanna.simulation.result import Result


def draw(figure: str, found: Sequence[Found], out: Path) -> list[Path]:
    """Regret over time, one figure per instance: the baselines, and GLM-JDP (tuned) at every budget."""
    panels: dict[float, dict[str, Result]] = {}
    for row, result in found:
        if result is None or row.preset in ("greedy", "matched"):
            continue
        budget = "" if row.epsilon is None else f", epsilon = {row.epsilon:g}"
        preset = "" if row.epsilon is not None else f" ({row.preset})"
        panels.setdefault(row.norm, {})[f"{row.algorithm}{preset}{budget}"] = result
    paths = []
    for norm, panel in panels.items():
        drawn = plot_regret(panel, title=f"Paper 003, S = {norm:g}")
        paths += save_both(drawn, out / f"{figure}-S{norm:g}")
    return paths
