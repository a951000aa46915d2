"""Rates: how regret grows with the horizon, where the privacy term dominates.

The setting is that of `python -m reproductions 000 scaling`: fixed arms whose gaps have every
scale. Slopes of the mean final regret of 10 seeds between horizons a hundred times apart; the theorems give 1/2 (no
privacy, central), 3/5 (shuffle with B = T^{3/5}) and 3/4 (local), the tolerance is 0.08.
"""

from __future__ import annotations

import pytest

from reproductions.shuffle_linucb import scaling as paper
from reproductions.shuffle_linucb.scaling import HORIZON, LINES, STEPS, scaling

# of how many batches the rate shows, and at which horizon: 0.05 from the theorem's at most
SHORT = {
    "LinUCB": (1000, HORIZON),
    "LinUCB-JDP-batched": (500, HORIZON),
    "LinUCB-SDP-Vec": (STEPS, HORIZON // 10),
    "LinUCB-LDP-batched": (500, HORIZON),
}


@pytest.mark.often(of=lambda name: name != "LinUCB")  # without privacy: tests/environments/test_drifting.py
@pytest.mark.parametrize("short", [True, pytest.param(False, marks=pytest.mark.full)], ids=["short", "long"])
@pytest.mark.parametrize("name", LINES)
def test_regret_grows_at_the_rate_of_its_theorem(name: str, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, horizon = SHORT[name] if short else (STEPS, HORIZON)
    monkeypatch.setattr(paper, "STEPS", steps)
    (line,) = scaling(algorithms=[name], n_seeds=10, points=2, horizon=horizon)
    assert line.slope == pytest.approx(line.theory, abs=0.08)
