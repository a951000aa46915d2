"""What DPE's phases sum to, against the lower bound sqrt(d T) of Remark 5.3 of [001], which we do not state."""

from __future__ import annotations

import math

import pytest

from bandanna.policies.registry import compute_bounds, make
from bandanna.policies.regret_bounds import BOUNDS
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.population import Population


def regret_of_dpe(log_horizon: int, *, dim: int, n_arms: int, alpha: float) -> float:
    """A bound on DPE's expected regret on every instance with sigma = 0: the proof of Theorem 5.1, phase by phase.

    A round of phase l costs at most 4 W_{l-1}, and at most 2. A phase has at most 2^l + S rounds. Widths fail with a
    probability of at most 2/T per phase, which costs at most 2 T.
    """
    horizon, support = 2**log_horizon, 4 * dim * math.log(math.log(dim)) + 16
    rounds, regret, phase, each = 0.0, 0.0, 1, 2.0
    while rounds < horizon:
        length = min(2**phase + support, horizon - rounds)
        regret += length * each + 4
        clients = math.ceil(2 ** (alpha * phase))
        width = math.sqrt(2 * dim / (clients * 2**phase)) * math.sqrt(2 * math.log(n_arms * horizon))
        rounds, phase, each = rounds + length, phase + 1, min(2.0, 4 * width)
    return regret


def test_phased_elimination_stays_below_any_multiple_of_the_root_of_the_horizon() -> None:
    ratios = [
        regret_of_dpe(log, dim=20, n_arms=1000, alpha=0.9) / math.sqrt(20 * 2.0**log) for log in (21, 30, 60, 200)
    ]
    assert ratios[:3] == pytest.approx([1.42, 0.123, 1.95e-5], rel=0.005)
    assert ratios[3] < 1e-20


@pytest.mark.parametrize("name", ["DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"])
def test_no_lower_bound_is_stated_for_phased_elimination(name: str) -> None:
    spent = {"DPE": {}, "DPE-FixedU": {}, "PE": {}, "Laplace-DPE": {"epsilon": 1.0}}
    budget = spent.get(name, {"epsilon": 1.0, "delta": 1e-5})
    result = simulate(make(name, dim=2, horizon=60, **budget), Population(dim=2, n_arms=3), checkpoints=3)
    assert all(curve.bound.side == "upper" for curve in result.bounds())
    assert not [name for name, bound in BOUNDS.items() if (bound.paper, bound.side) == ("001", "lower")]


def test_no_stated_lower_bound_is_above_what_phased_elimination_attains() -> None:
    setting = {"policy": "PhasedElimination", "dim": 20, "n_arms": 1000, "alpha": 0.9, "delta": 0.0}
    found = compute_bounds({**setting, "trust": "none", "epsilon": math.inf}, [2.0**60])
    attained = regret_of_dpe(60, dim=20, n_arms=1000, alpha=0.9)
    assert all(curve.values[0] / 1000 <= attained for curve in found if curve.bound.side == "lower")
