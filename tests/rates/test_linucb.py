"""Rates: how regret grows with the horizon, where the privacy term dominates.

Instance: `DriftingContexts(turns=0)`, fixed arms whose gaps have every scale (angles h/2^k from the best direction).
Slopes of the mean final regret of 10 seeds between horizons ten times apart; the theorems give 1/2 (no privacy,
central), 3/5 (shuffle with B = T^{3/5}) and 3/4 (local), the tolerance is 0.08.
"""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.environments import DriftingContexts
from bandanna.policies.linucb import LinUCB
from bandanna.protocols.trust import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate

CASES = {
    "none": (none(), None, (10**5, 10**7), 0.5),
    "central": (central(epsilon=1.0, delta=1e-5), None, (10**6, 10**8), 0.5),
    "shuffle": (shuffle(epsilon=1.0, delta=1e-5), "paper", (10**6, 10**8), 0.6),
    "local": (local(epsilon=1.0, delta=1e-5), None, (10**8, 10**10), 0.75),
}


def regret(privacy: Privacy, batch: str | None, horizon: int) -> float:
    """Mean final regret of 10 seeds; without a schedule of its own, 2000 batches."""
    policy = LinUCB(dim=3, horizon=horizon, privacy=privacy, batch=batch or horizon // 2000)
    env = DriftingContexts(dim=3, n_arms=25, horizon=horizon, turns=0)
    return float(np.mean(simulate(policy, env, n_seeds=10, checkpoints=1).final_regret))


@pytest.mark.parametrize("name", CASES)
def test_regret_grows_at_the_rate_of_its_theorem(name: str) -> None:
    """The slope of log regret in log T differs from the theorem's exponent by more than 0.08."""
    privacy, batch, (first, last), exponent = CASES[name]
    slope = np.log10(regret(privacy, batch, last) / regret(privacy, batch, first)) / np.log10(last / first)
    assert abs(slope - exponent) < 0.08
