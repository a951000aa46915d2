"""Paper 000's figures: published and ours, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.papers.curves_000 import gather
from bandanna.papers.paper_000 import curves

KEYS = {
    "algorithm", "variant", "epsilon", "delta", "true_epsilon", "true_delta", "true_kind", "mean", "stderr", "n_seeds",
    "horizon",
}  # fmt: skip


@pytest.mark.parametrize(("figure", "panels"), [("fig1", 3), ("fig2", 2)])
def test_rows_of_the_first_figures(figure: str, panels: int) -> None:
    """A curve is missing, or ours does not keep its nominal budget, or the published one hides what it gives."""
    found = [curve.row() for curve in curves(figure, n_seeds=2, horizon=100)]
    assert len(found) == 2 * 5 * panels
    for row in found:
        assert row.keys() == KEYS | {"dim"}
        json.dumps(row, allow_nan=False)
        assert (row["n_seeds"], row["horizon"], row["delta"]) == (2, 100, 0.1)
        assert row["variant"] in ("published", "ours")
        if row["algorithm"] == "LinUCB":
            assert row["true_kind"] is row["true_epsilon"] is row["true_delta"] is None
        elif row["variant"] == "ours":
            assert row["true_kind"] in ("exact", "upper")
            assert row["true_epsilon"] <= row["epsilon"] * (1 + 1e-9)
            assert row["true_delta"] <= row["delta"] * (1 + 1e-9)
        else:
            assert row["true_kind"] in ("exact", "upper", "lower", "none")
    published = {(row["algorithm"], row["dim"], row["epsilon"]): row for row in found if row["variant"] == "published"}
    if figure == "fig1":
        assert published["LinUCB-JDP", 5, 1.0]["true_kind"] == "none"
        assert published["LinUCB-LDP", 5, 1.0]["true_delta"] == pytest.approx(0.485, abs=0.001)
        assert published["LinUCB-SDP-Amp", 5, 1.0]["true_delta"] > 0.98


def test_one_seed_has_no_standard_error() -> None:
    """The standard error of a single instance is not None, so that its row is no JSON."""
    row = curves("fig2", n_seeds=1, horizon=40)[0].row()
    assert row["stderr"] is None


def test_unknown_figures() -> None:
    """A figure that the paper does not have, or a horizon below one batch, is not refused by name."""
    with pytest.raises(InvalidArgument, match="fig1"):
        curves("fig9")
    with pytest.raises(InvalidArgument, match="horizon"):
        curves("fig1", horizon=5)


def test_processes_change_nothing() -> None:
    """In two processes the values are others, in another order, or progress does not reach its known total."""
    seen: list[tuple[int, int]] = []
    tasks = [{"start": start, "stop": start + 3, "num": 4} for start in range(5)]
    one = gather(np.linspace, tasks)
    two = gather(np.linspace, tasks, jobs=2, progress=lambda done, total, what: seen.append((done, total)))
    np.testing.assert_array_equal(one, two)
    assert seen == [(done, 5) for done in range(6)]
