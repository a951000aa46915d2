"""Simulating 50 seeds at once, beside a plain NumPy loop over rounds of one seed; and beside drawing the world alone.

Seconds are for the whole of 50 seeds; the plain loop runs one seed for fewer rounds and is scaled up. The promise is
2.5 times the drawing of contexts and rewards, with fresh ones; the aim with fixed arms is 1/20 of the plain loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from bandanna.core.streams import Streams
from bandanna.environments import LinearContextual
from bandanna.policies.linucb import LinUCB
from bandanna.protocols.trust import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from benchmarks import Ratio

SEEDS, ROUNDS, PLAIN, DIM, ARMS = 50, 4000, 1500, 5, 100
BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def timed(work: Callable[[], object]) -> float:
    """Seconds of the faster of two runs."""
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def plain_loop(std: float, every: int) -> None:
    """LinUCB of one seed, round by round: index of every arm, one reward, one noisy report, a new estimate."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(ARMS, DIM))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    theta = arms[0]
    ridge = 50.0 + 20 * std * math.sqrt(PLAIN)
    gram, vector, estimate, inverse = ridge * np.eye(DIM), np.zeros(DIM), np.zeros(DIM), np.eye(DIM) / ridge
    for t in range(PLAIN):
        index = arms @ estimate + 2.0 * np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))
        x = arms[int(np.argmax(index))]
        y = float(rng.random() < 0.5 + 0.5 * x @ theta)
        noise = rng.normal(0.0, std, (DIM, DIM)) if std else np.zeros((DIM, DIM))
        gram = gram + np.outer(x, x) + (noise + noise.T) / 2
        vector = vector + x * y + (rng.normal(0.0, std, DIM) if std else 0.0)
        if (t + 1) % every == 0:
            inverse = np.linalg.inv(gram)
            estimate = inverse @ vector


def fixed(name: str, privacy: Privacy, batch: int, std: float) -> Ratio:
    """Fixed arms: ours for all seeds beside the plain loop of as many."""
    policy = LinUCB(dim=DIM, horizon=ROUNDS, privacy=privacy, batch=batch)
    _ = policy.radii  # calibration is measured elsewhere
    env = LinearContextual(dim=DIM, n_arms=ARMS, fixed=True)
    ours = timed(lambda: simulate(policy, env, n_seeds=SEEDS))
    theirs = timed(lambda: plain_loop(std, batch)) * SEEDS * ROUNDS / PLAIN
    return Ratio(what=f"fixed, {name}", ours=ours, beside="plain loop", theirs=theirs)


def fresh() -> Ratio:
    """Fresh contexts: ours beside drawing contexts and rewards alone."""
    env = LinearContextual(dim=DIM, n_arms=ARMS)
    policy = LinUCB(dim=DIM, horizon=ROUNDS, privacy=shuffle(**BUDGET), batch=200)
    _ = policy.radii

    def draw() -> None:
        world = env.begin(Streams(range(SEEDS)))
        for start in range(0, ROUNDS, 200):
            means = world.means(world.contexts(start, 200))
            world.rewards(means[..., 0])

    theirs = timed(draw)
    ours = timed(lambda: simulate(policy, env, n_seeds=SEEDS))
    return Ratio(what="fresh, shuffle", ours=ours, beside="drawing alone", theirs=theirs, promise=2.5 * theirs)


def measure() -> list[Ratio]:
    """Every variant of LinUCB with fixed arms, one with fresh contexts."""
    noise = math.sqrt(4.5) * 3.73
    return [
        fixed("no privacy", none(), 1, 0.0),
        fixed("central", central(**BUDGET), 1, noise),
        fixed("local", local(**BUDGET), 1, noise),
        fixed("shuffle", shuffle(**BUDGET), 20, noise),
        fresh(),
    ]
