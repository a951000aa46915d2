"""Counters: a stream of a million values at once, beside drawing as many normal numbers and adding them up.

The promise is about a second per stream and core for numbers in [0, 1] on the path of the law. An update one by one
costs O(k): ours is the time of 2000 updates with 8 shufflers, theirs with one.
"""

from __future__ import annotations

import numpy as np

import bandanna as bd
from benchmarks import Ratio, timed

USERS, UPDATES = 10**6, 2000
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
MODELS = {
    "central, blt": bd.central(**BUDGET),
    "central, tree": bd.central(**BUDGET, mechanism="tree"),
    "1 shuffler": bd.shuffle(**BUDGET),
    "3 shufflers": bd.concurrent(**BUDGET, shufflers=3),
    "8 shufflers": bd.concurrent(**BUDGET, shufflers=8),
}


def counter(privacy: bd.Privacy, values: bd.Domain) -> bd.ContinualSum:
    """A counter over a million users, calibrated."""
    source = bd.FastNoise(np.random.default_rng(0))
    return bd.ContinualSum(horizon=USERS, privacy=privacy, values=values, source=source)


def measure() -> list[Ratio]:
    """Whole streams in every model, and updates one by one."""
    rng = np.random.default_rng(1)
    numbers = rng.random(USERS)
    bits = (numbers < 0.5).astype(float)
    plain = timed(lambda: np.cumsum(numbers + rng.normal(size=USERS)))
    ratios = []
    for name, privacy in MODELS.items():
        for kind, domain, values in (("numbers", bd.Box(dim=1), numbers), ("bits", bd.Bits(), bits)):
            count = counter(privacy, domain)
            ours = timed(lambda count=count, values=values: count.run(values))  # type: ignore[misc]
            what = f"10^6 {kind}, {name}"
            ratios.append(Ratio(what=what, ours=ours, beside="normals, summed", theirs=plain, promise=1.5))
    one, eight = counter(MODELS["1 shuffler"], bd.Bits()), counter(MODELS["8 shufflers"], bd.Bits())
    seconds = [timed(lambda count=count: [count.update(bit) for bit in bits[:UPDATES]]) for count in (eight, one)]  # type: ignore[misc]
    ratios.append(
        Ratio(what=f"{UPDATES} updates, 8 shufflers", ours=seconds[0], beside="1 shuffler", theirs=seconds[1])
    )
    return ratios
