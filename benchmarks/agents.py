"""Agents: `act` and `observe` of one stream, in every trust model and at two horizons, beside the bare argmax.

What is hoped for is 100 us a decision of batched LinUCB, at any horizon. Noise and coins are the operating system's.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import bandanna as bd
from benchmarks import Ratio, timed

DIM, ARMS, DECISIONS = 5, 100, 600
_REPEATS = 3
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def measure() -> list[Ratio]:
    """CPU seconds of a decision; LinTS's probabilities are not looked at."""
    pool = np.random.default_rng(0).standard_normal((50, ARMS, DIM))
    pool /= np.linalg.norm(pool, axis=-1, keepdims=True)
    theta = pool[0, 0].copy()
    bare = timed(lambda: [(pool[i % 50] @ theta).argmax() for i in range(DECISIONS)]) / DECISIONS
    models = {"none": bd.none(), **{name: getattr(bd, name)(**BUDGET) for name in ("central", "local", "shuffle")}}
    made = []
    for name, privacy in models.items():
        for horizon in (10**3, 10**6):
            for policy in (
                bd.LinUCB(dim=DIM, horizon=horizon, batch="paper", privacy=privacy),
                bd.LinTS(dim=DIM, horizon=horizon, privacy=privacy),
            ):
                policy.prepare()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # some releases take a while
                    agents = iter([bd.Agent(policy=policy) for _ in range(_REPEATS)])
                ours = timed(lambda agents=agents: _run(next(agents), pool), _REPEATS) / DECISIONS  # type: ignore[misc]
                what = f"{type(policy).__name__}, {name}, horizon {horizon:.0e}"
                made.append(Ratio(what=what, ours=ours, beside="argmax", theirs=bare))
    return made


def _run(agent: bd.Agent, pool: Any) -> None:
    for number in range(DECISIONS):
        agent.observe(agent.act(pool[number % len(pool)]), float(number % 2))
