"""Paper 000's figures: published and ours, side by side."""

from __future__ import annotations

import json

import pytest

from bandanna.errors import InvalidArgument
from reproductions.shuffle_linucb.regret import FIRST, SECOND, curves

KEYS = {
    "algorithm", "variant", "epsilon", "delta", "true_epsilon", "true_delta", "true_kind", "mean", "stderr", "n_seeds",
    "horizon",
}  # fmt: skip


@pytest.mark.parametrize("panels", [FIRST, SECOND], ids=["fig1", "fig2"])
def test_rows_of_the_first_figures_state_what_is_kept(panels: tuple[tuple[int, float], ...]) -> None:
    found = [curve.row for curve in curves(panels, n_seeds=2, horizon=100)]
    assert len(found) == 2 * 5 * len(panels)
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
    if panels is FIRST:
        assert published["LinUCB-JDP", 5, 1.0]["true_kind"] == "none"
        assert published["LinUCB-LDP", 5, 1.0]["true_delta"] == pytest.approx(0.485, abs=0.001)
        assert published["LinUCB-SDP-Amp", 5, 1.0]["true_delta"] > 0.98


def test_one_seed_has_no_standard_error() -> None:
    row = curves(SECOND, n_seeds=1, horizon=40)[0].row
    assert row["stderr"] is None


def test_a_horizon_below_one_batch_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="horizon"):
        curves(FIRST, horizon=5)
