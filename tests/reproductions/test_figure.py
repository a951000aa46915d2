"""A figure as a value: its options, its table, its notes; and that every one is documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bandanna.errors import InvalidArgument
from reproductions.figure import PAPERS, Curve, Figure, at_once, ending, figures, finite, noted

PAGE = (Path(__file__).parents[2] / "docs" / "appendix" / "papers.md").read_text(encoding="utf-8")


def figure(**fields: Any) -> Figure:
    """One whose finding is the options that it was given."""
    return Figure(name="fig", shows="", options={"seeds": 3, "epsilon": None}, compute=lambda **given: given, **fields)


def test_options_have_defaults_and_others_are_refused() -> None:
    found = figure().find(epsilon=2.0)
    assert (found["n_seeds"], found["epsilon"], found["jobs"]) == (3, 2.0, 1)
    with pytest.raises(InvalidArgument, match=r"--delta must be left out: fig takes --seeds, --epsilon, got 1"):
        figure().find(delta=1)
    with pytest.raises(InvalidArgument, match="seeds"):
        figure().find(seeds=0)
    assert at_once(dict)(jobs=2, progress=None, n=1) == {"n": 1}


def test_columns_show_keys_in_their_format() -> None:
    table = figure(columns=("algorithm", "+-=stderr:,.1f", "true epsilon=true:.3g", "theory:g"))
    row = {"algorithm": "A", "stderr": 1234.56, "true": None, "theory": "polylog"}
    assert table.titles == ["algorithm", "+-", "true epsilon", "theory"]
    assert table.table([Curve(row=row)]) == [["A", "1,234.6", "-", "polylog"]]


def test_equal_notes_are_printed_once() -> None:
    rows = [{"algorithm": name, "epsilon": 2.0, "note": note} for name, note in (("A", "why"), ("B", "why"), ("C", ""))]
    assert noted([Curve(row=row) for row in rows], "epsilon = {epsilon:g}") == ["A, B, epsilon = 2: why"]


def test_what_is_not_known_is_none() -> None:
    assert (finite(1.5), finite(float("inf")), finite(float("nan"))) == (1.5, None, None)
    assert set(ending(None).values()) == {None}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_is_documented(paper: str) -> None:
    for name in figures(paper):
        assert f"`{name}`" in PAGE
