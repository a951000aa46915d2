"""What privacy costs: LinUCB under every trust model on one problem, each on the schedule of its paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.streams import Streams
from bandanna.environments.linear import LinearContextual
from bandanna.experiments.workers import Progress, silent
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A trust model's run, and the standard deviation of the noise in its last released sum."""

    result: Result
    noise_std: float


def trust_models(
    *,
    dim: int = 5,
    n_arms: int = 100,
    horizon: int = 20_000,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    width: float = 0.2,
    n_seeds: int = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Outcome]:
    """No privacy, a central server, a shuffler and nobody trusted, with fixed arms and the same worlds for all.

    Batches: T^{1/2} (no privacy, central), T^{3/5} (shuffle), T^{3/4} (local). Radii are those of the papers' lemma.
    """
    env = LinearContextual(dim=dim, n_arms=n_arms, fixed=True)
    problem: dict[str, Any] = {"dim": dim, "horizon": horizon, "width": width, "confidence": "lemma"}
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    models = {
        "no privacy": make("LinUCB", batch="paper", **problem),
        "central": make("LinUCB-JDP-batched", **problem, **budget),
        "shuffle": make("LinUCB-SDP-Vec", **problem, **budget),
        "local": make("LinUCB-LDP-batched", **problem, **budget),
    }
    outcomes = {}
    for done, (name, policy) in enumerate(models.items()):
        progress(done, len(models), name)
        result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
        outcomes[name] = Outcome(result=result, noise_std=float(policy.channel.prefix_std()[-1]))
    return outcomes


def random_play(*, dim: int = 5, n_arms: int = 100, horizon: int = 20_000, n_seeds: int = 20, seed: int = 0) -> float:
    """Expected regret, in the same worlds, of taking an arm at random in every round: what is left without learning."""
    world = LinearContextual(dim=dim, n_arms=n_arms, fixed=True).begin(Streams(range(seed, seed + n_seeds)))
    means = world.means(world.contexts(0, 1))  # (S, 1, K)
    return horizon * float(np.mean(np.max(means, axis=-1) - np.mean(means, axis=-1)))
