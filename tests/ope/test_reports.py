"""What a value tells people: its report, its diagnostics and its page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.data.ope.targets import render_value_page
from bandanna.errors import BandannaError

from .worlds import bold, clinic, trial

CENTRAL = bd.central(epsilon=1.0, delta=1e-5)


class Tags(HTMLParser):
    """Which elements a page has, and what it asks from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Noted."""
        self.seen.append(tag)
        self.outside += [str(value) for name, value in attrs if name in ("src", "href")]


def test_a_report_says_what_matters() -> None:
    text = str(bd.ope.snips(trial(2000, 1), "arm:1", privacy=CENTRAL, seed=1))
    for words in ("SNIPS of always 1: 0.", "95 % interval", "2,000 people", "effective sample size", "at most 4",
                  "privacy's noise alone", "epsilon = 1", "seeded"):  # fmt: skip
        assert words in text
    cut = str(bd.ope.ips(clinic(500, 1, floor=None), bold, weight_bound=2.0))
    assert "weights were cut at 2, which hides up to" in cut
    assert "No privacy is promised" in cut


@pytest.mark.parametrize("private", [False, True])
def test_diagnostics_are_plain_and_show_no_raw_weights(private: bool) -> None:
    options: dict[str, Any] = {"privacy": CENTRAL, "seed": 1} if private else {}
    told = json.loads(json.dumps(bd.ope.snips(clinic(800, 1), bold, **options).diagnostics(), allow_nan=False))
    assert told["people"] == 800
    assert 0 < told["effective_sample_size"] <= 800
    assert 0 < told["sample_share"] <= 1
    raw = {"histogram", "largest_weight", "matched", "least_propensity", "weight_of_largest_percent", "mean_weight"}
    assert raw.isdisjoint(told) if private else raw <= set(told)
    assert (told["noise_share"] > 0) == private


def test_the_overlap_is_that_of_the_weights() -> None:
    log = clinic(500, 1)
    weights = bold(log.contexts)[np.arange(500), log.arms] / log.propensities
    told = bd.ope.overlap(log, bold)
    assert told["mean_weight"] == pytest.approx(weights.mean())
    assert told["largest_weight"] == pytest.approx(weights.max())
    assert sum(told["histogram"]["counts"]) == 500
    assert told["matched"] == 1.0
    assert bd.ope.overlap(trial(400, 0), "arm:1")["matched"] == pytest.approx(0.25, abs=0.1)


@pytest.mark.parametrize("private", [False, True])
def test_a_page_needs_nothing_from_elsewhere(private: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"privacy": CENTRAL, "seed": 1} if private else {}
    value = bd.ope.snips(trial(300, 1), "arm:1", **options)
    value.page(tmp_path / "value.html")
    text = (tmp_path / "value.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.seen[:2] == ["html", "meta"]
    assert tags.outside == []
    assert ("was not released" in text) == private
    assert len(re.findall("<svg", text)) == (1 if private else 2)
    assert "<script" not in text


def test_counts_on_a_page_are_written_in_full() -> None:
    value = bd.ope.snips(trial(10_000, 1), "uniform")
    text = render_value_page(value)
    assert "<td>people in the log</td><td>10,000</td>" in text
    assert "<td>effective sample size</td><td>10,000</td>" in text
    assert "<td>least propensity</td><td>0.25</td>" in text
    assert not re.search(r"<td>[^<]*e\+", text)
    large = render_value_page(bd.ope.snips(trial(1_234_567, 1), "arm:1", weight_bound=1e5))
    assert "<td>people in the log</td><td>1,234,567</td>" in large
    assert "<td>weights are cut at</td><td>100,000</td>" in large


def test_names_in_a_page_are_text(tmp_path: Path) -> None:
    frame = {"arm": ["<b>x</b>", "y"] * 20, "reward": [0, 1] * 20}
    log = bd.Log.from_frame(frame, arm="arm", reward="reward", propensity=0.5)
    bd.ope.snips(log, "arm:<b>x</b>").page(tmp_path / "value.html")
    assert "<b>" not in (tmp_path / "value.html").read_text(encoding="utf-8")
    with pytest.raises(BandannaError):
        bd.ope.snips(log, "uniform").page(tmp_path / "no" / "value.html")


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, "a", None])
def test_levels_are_probabilities(level: Any) -> None:
    """An interval has a level that is none."""
    with pytest.raises(BandannaError, match="level"):
        bd.ope.snips(trial(20, 0), "arm:1").interval(level)
