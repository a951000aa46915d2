"""Figure 4 of paper 004, as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.figures.axes import PALETTE, blank, colour_of, furnish, save_both, styled
from bandanna.papers.common.drawing import with_end
from bandanna.papers.p004.prices import Price

_TITLES = {"finite": "Finite arms", "linear": "Linear, fixed arms", "contextual": "Linear, public contexts"}


def draw_prices(prices: Sequence[Price], stem: Path) -> list[Path]:
    """For each setting and variant, the difference in regret against rho and the price against time."""
    panels: dict[tuple[str, str], list[Price]] = {}
    for price in prices:
        panels.setdefault((price.row["setting"], price.row["variant"]), []).append(price)
    paths = []
    for (setting, variant), panel in panels.items():
        for name, draw in (("rho", _against_rho), ("time", _against_time)):
            with styled():
                figure, axes = blank((8.4, 5.2), (0.12, 0.13, 0.66, 0.72))
                draw(axes, panel, f"{_TITLES[setting]}, {variant}")
                axes.axhline(0.0, color="black", linewidth=1)
            paths += save_both(figure, with_end(stem, f"{setting}-{variant}-{name}"))
    return paths


def _against_rho(axes: Any, panel: Sequence[Price], title: str) -> None:
    rows = [price.row for price in panel]
    rhos, means = [row["true_rho"] for row in rows], [row["difference"] for row in rows]
    spread = [2 * (row["difference_stderr"] or 0.0) for row in rows]
    axes.errorbar(rhos, means, yerr=spread, color=PALETTE[0], marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_xlim(min(rhos) / 2, max(rhos) * 2)
    furnish(
        axes, title, "bars: ± 2 standard errors", across="true rho, of what ran", up="private minus non-private regret"
    )


def _against_time(axes: Any, panel: Sequence[Price], title: str) -> None:
    for index, price in enumerate(panel):
        marks = price.results[0].checkpoints
        axes.plot(marks, price.pop, color=colour_of(index), label=_budget(price))
    least, most = (float(choose([choose(price.pop) for price in panel])) for choose in (np.nanmin, np.nanmax))
    axes.set_xscale("log")
    axes.set_ylim(min(-0.05, least), 1.05 * max(most, 0.1))
    axes.set_yscale("symlog", linthresh=0.1)
    axes.legend()
    note = "difference of mean regrets over that without privacy; rho and ε: what the noise really gives"
    furnish(axes, title, note, across="rounds", up="price of privacy")


def _budget(price: Price) -> str:
    """Of what ran, which is not what was printed where rewards are wider than its noise is for."""
    guarantee = price.results[0].guarantee
    return f"rho = {price.row['true_rho']:.3g}, {guarantee.brief()}"
