"""Regret grows with the horizon by the theorems' powers."""

from __future__ import annotations

import pytest

from bandanna.experiments.executors import ignore_progress
from reproductions import distributed_dpe
from reproductions.rates import Line, regrets_over
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


@pytest.mark.often(of=lambda algorithm, alpha: (algorithm, alpha) in (("DPE", 0.5), ("CDP-DPE", 0.9)))
@pytest.mark.parametrize("last", [18, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("algorithm", ["DPE", "CDP-DPE"])
def test_slopes_are_the_theorems(algorithm: str, alpha: float, last: int) -> None:
    """Within 0.08 of 1 - alpha/2 (20 seeds: at most 0.04 away)."""
    (line,) = distributed_dpe.scaling(algorithms=(algorithm,), alphas=(alpha,), n_seeds=5, horizon=2**last)
    assert line.slope == pytest.approx(line.theory, abs=0.08)


def test_slope_of_the_local_model() -> None:
    """Within 0.08 of 1 - alpha/2, on horizons that are long enough for LDP-DPE to learn."""
    horizons = tuple(2**power for power in (24, 29, 34))
    line = Line(arguments={"algorithm": "LDP-DPE", "alpha": 0.5}, theory=0.75, horizons=horizons)
    (rate,) = regrets_over(distributed_dpe.fan_regret, [line], n_seeds=5, seed=0, jobs=1, progress=ignore_progress)
    assert rate.slope == pytest.approx(rate.theory, abs=0.08)
