"""Regret of phased elimination grows as T^{1 - alpha/2} on the fan, whose gaps have every scale."""

from __future__ import annotations

import pytest

from bandanna.experiments.executors import ignore_progress
from reproductions.distributed_dpe import fan_regret, scaling
from reproductions.rates import Line, regrets_over


@pytest.mark.often(of=lambda algorithm, alpha: (algorithm, alpha) in (("DPE", 0.5), ("CDP-DPE", 0.9)))
@pytest.mark.parametrize("last", [18, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("algorithm", ["DPE", "CDP-DPE"])
def test_slopes_are_the_theorems(algorithm: str, alpha: float, last: int) -> None:
    """Within 0.08 of 1 - alpha/2 (20 seeds: at most 0.04 away)."""
    (line,) = scaling(algorithms=(algorithm,), alphas=(alpha,), n_seeds=5, horizon=2**last)
    assert line.slope == pytest.approx(line.theory, abs=0.08)


def test_slope_of_the_local_model() -> None:
    """Within 0.08 of 1 - alpha/2, on horizons that are long enough for LDP-DPE to learn."""
    horizons = tuple(2**power for power in (24, 29, 34))
    line = Line(arguments={"algorithm": "LDP-DPE", "alpha": 0.5}, theory=0.75, horizons=horizons)
    (rate,) = regrets_over(fan_regret, [line], n_seeds=5, seed=0, jobs=1, progress=ignore_progress)
    assert rate.slope == pytest.approx(rate.theory, abs=0.08)
