"""How the cost of a simulation grows: exponents of CPU time in rounds, arms, seeds and features, fitted to four sizes.

We promise linear growth in rounds, arms and seeds, and at most quadratic growth in features, over the measured ranges:
the last size may take at most so many times as long as the first. What does not grow (calls, small arrays) makes the
fitted exponents smaller; above 1 (or 2) by some hundredths is noise of the machine. Inverting a matrix is cubic in the
features; it is a small part of a round as long as there are more arms than features.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from bandanna.environments import LinearContextual
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.trust import Privacy, central, shuffle
from bandanna.simulation.engine import simulate
from benchmarks import Ratio

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
SLACK = 1.3  # what other work on the machine may add


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One simulation."""

    privacy: Privacy
    batch: int
    fixed: bool
    rounds: int
    arms: int = 50
    seeds: int = 10
    dim: int = 5

    def seconds(self) -> float:
        """CPU seconds of the fastest of three runs; calibration is measured elsewhere."""
        policy = LinUCB(dim=self.dim, horizon=self.rounds, privacy=self.privacy, batch=self.batch)
        _ = policy.radii, policy.guarantee
        env, runs = LinearContextual(dim=self.dim, n_arms=self.arms, fixed=self.fixed), []
        for _ in range(3):
            begin = time.process_time()
            simulate(policy, env, n_seeds=self.seeds)
            runs.append(time.process_time() - begin)
        return min(runs)


KINDS = {
    "fixed, central": Problem(privacy=central(**BUDGET), batch=1, fixed=True, rounds=500),
    "fixed, shuffle": Problem(privacy=shuffle(**BUDGET), batch=20, fixed=True, rounds=4000),
    "fresh, shuffle": Problem(privacy=shuffle(**BUDGET), batch=200, fixed=False, rounds=1000),
}
SIZES = {  # what grows, through which sizes, to which power the time may grow
    "rounds": (lambda base: [base.rounds * 2**i for i in range(4)], 1),
    "arms": (lambda base: [25 * 4**i for i in range(4)], 1),
    "seeds": (lambda base: [10 * 3**i for i in range(4)], 1),
    "dim": (lambda base: [4 * 2**i for i in range(4)], 2),
}


def measure() -> list[Ratio]:
    """Every kind of simulation along every size; `what` says the fitted exponent."""
    ratios = []
    for kind, base in KINDS.items():
        for name, (sizes_of, power) in SIZES.items():
            sizes = sizes_of(base)
            seconds = [replace(base, **{name: size}).seconds() for size in sizes]
            exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
            promise = SLACK * seconds[0] * (sizes[-1] / sizes[0]) ** power
            what = f"{kind}: {name}^{exponent:.2f}, to {sizes[-1]}"
            ratios.append(
                Ratio(what=what, ours=seconds[-1], beside=f"{sizes[0]} {name}", theirs=seconds[0], promise=promise)
            )
    return ratios
