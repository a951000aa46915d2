"""A value as a page: one HTML file with the numbers, the interval, and where log and target meet."""

from __future__ import annotations

import math
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

from bandanna.storage.whole import write_whole

if TYPE_CHECKING:
    from bandanna.ope.value import Value

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse}td{padding:.2rem 1.2rem .2rem 0;vertical-align:top}"
    "td:last-child{font-variant-numeric:tabular-nums}pre{white-space:pre-wrap}svg{width:100%;height:auto}"
)
_WORDS = {
    "people": "people in the log",
    "effective_sample_size": "effective sample size",
    "sample_share": "... as a share of the people",
    "stderr": "standard error",
    "noise_std": "... of privacy's noise alone",
    "weight_bound": "weights are cut at",
    "clipped_mass": "probability that this hides, at most",
    "matched": "share of people whose arm the target may give",
    "mean_weight": "mean weight (1 where propensities are right)",
    "largest_weight": "largest weight",
    "weight_of_largest_percent": "share of all weight in the largest 1 %",
    "least_propensity": "least propensity",
}


def write_page(value: Value, path: str | PathLike[str]) -> None:
    """Whole or not at all."""
    text = page_of(value)
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", newline="\n"))


def page_of(value: Value) -> str:
    """The HTML."""
    told = value.diagnostics()
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td>{_shown(told[name])}</td></tr>"
        for name, words in _WORDS.items()
        if name in told
    )
    histogram = told.get("histogram")
    if histogram is None:
        weights = "<p>How weights are distributed was not released: it would tell of people in the log.</p>"
    else:
        weights = f"<h2>Weights</h2>{_bars(histogram)}"
    first, *rest = str(value).splitlines()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(value.target)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(first)}</h1>{_interval(value)}<table>{rows}</table>{weights}"
        f"<h2>In words</h2><pre>{escape(chr(10).join(rest))}</pre></html>\n"
    )


def _shown(number: Any) -> str:
    """Counts in full, as are large numbers; others with four digits."""
    if number is None:
        return "not released, or unlimited"
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"


def _interval(value: Value) -> str:
    """A line over the range of rewards."""
    low, high = value.reward_range

    def place(reward: float) -> float:
        return 10 + 780 * min(max((reward - low) / (high - low), 0.0), 1.0)

    left, right = (place(end) for end in value.interval())
    middle = place(value.estimate) if math.isfinite(value.estimate) else left
    return (
        '<svg viewBox="0 0 800 60" role="img" aria-label="interval">'
        '<line x1="10" x2="790" y1="30" y2="30" stroke="#bbb"/>'
        f'<rect x="{left:.1f}" y="22" width="{max(right - left, 1.0):.1f}" height="16" fill="#8fb8de"/>'
        f'<circle cx="{middle:.1f}" cy="30" r="6" fill="#1b4f82"/>'
        f'<text x="10" y="56" font-size="14">{low:g}</text>'
        f'<text x="790" y="56" font-size="14" text-anchor="end">{high:g}</text></svg>'
    )


def _bars(histogram: dict[str, Any]) -> str:
    counts, edges = histogram["counts"], histogram["edges"]
    tallest, width = max(*counts, 1), 780 / len(counts)
    bars = "".join(
        f'<rect x="{10 + i * width:.1f}" y="{110 - 100 * count / tallest:.1f}" width="{width - 2:.1f}" '
        f'height="{100 * count / tallest:.1f}" fill="#8fb8de"><title>{edges[i]:.3g} to {edges[i + 1]:.3g}: {count:,}'
        "</title></rect>"
        for i, count in enumerate(counts)
    )
    return (
        f'<svg viewBox="0 0 800 135" role="img" aria-label="histogram of weights">{bars}'
        f'<text x="10" y="130" font-size="14">{edges[0]:g}</text>'
        f'<text x="790" y="130" font-size="14" text-anchor="end">{edges[-1]:.3g}</text></svg>'
    )
