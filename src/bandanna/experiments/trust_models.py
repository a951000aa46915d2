"""What privacy costs: one algorithm under every trust model on one problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandanna.core import require
from bandanna.environments.linear import LinearContextual
from bandanna.experiments.workers import Progress, silent
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

POLICIES: dict[str, dict[str, str]] = {
    "LinTS": {"no privacy": "LinTS", "central": "LinTS-JDP", "shuffle": "LinTS-SDP", "local": "LinTS-LDP"},
    "LinUCB": {
        "no privacy": "LinUCB",
        "central": "LinUCB-JDP-batched",
        "shuffle": "LinUCB-SDP-Vec",
        "local": "LinUCB-LDP-batched",
    },
}
_SETTINGS: dict[str, dict[str, Any]] = {  # the last feature of the world is a constant
    "LinTS": {"intercept": True},
    "LinUCB": {"batch": "paper", "width": 0.2, "confidence": "lemma"},
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A trust model's run, and the standard deviation of the noise in its last released sum."""

    result: Result
    noise_std: float


def trust_models(
    *,
    policy: str = "LinTS",
    dim: int = 5,
    n_arms: int = 100,
    horizon: int = 20_000,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    n_seeds: int = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Outcome]:
    """No privacy, a central server, a shuffler and nobody trusted, with fixed arms and the same worlds for all.

    "LinTS" runs as it comes, with an intercept; "LinUCB" with width 0.2 on the papers' batches: T^{1/2} (no privacy,
    central), T^{3/5} (shuffle), T^{3/4} (local), and radii of the papers' lemma.
    """
    names = POLICIES[require.one_of("policy", policy, tuple(POLICIES))]
    env = problem(dim=dim, n_arms=n_arms)
    outcomes = {}
    for done, (trust, name) in enumerate(names.items()):
        progress(done, len(names), trust)
        budget = {} if trust == "no privacy" else {"epsilon": epsilon, "delta": delta}
        made = make(name, dim=dim, horizon=horizon, **_SETTINGS[policy], **budget)
        result = simulate(made, env, n_seeds=n_seeds, seed=seed)
        outcomes[trust] = Outcome(result=result, noise_std=float(made.channel.prefix_std()[-1]))
    return outcomes


def problem(*, dim: int = 5, n_arms: int = 100) -> LinearContextual:
    """The worlds in which they are compared."""
    return LinearContextual(dim=dim, n_arms=n_arms, fixed=True)
