"""Finite arms, fixed linear arms and public contexts: whole runs beside what their horizon would cost round by round.

The promise for the policies that are frozen within episodes or phases is 10 s for 10^7 rounds of 100 runs; a horizon
of 10^12 costs only more episodes, and stands beside it. Policies that decide in every round stand beside the same
runs one after another. AdaC-OFUL stands beside drawing its contexts (promise: 3
times that).
"""

from __future__ import annotations

from typing import Any

import bandanna as bd
from bandanna.core.streams import Streams
from bandanna.environments import Environment, FiniteArms, SphereArms, SphereContexts
from benchmarks import Ratio, timed

RUNS, ROUNDS, LONG = 100, 10**7, 10**12
MEANS = (0.75, 0.625, 0.5, 0.375, 0.25)
PURE, ZCDP = {"epsilon": 1.0}, {"rho": 0.1}
FINITE: dict[str, dict[str, Any]] = {
    "UCB-episodes": {},
    "AdaC-UCB": ZCDP,
    "AdaP-UCB": PURE,
    "DP-SE": PURE,
    "SDP-SE": {"epsilon": 1.0, "delta": 1e-5},
}
LINEAR: dict[str, dict[str, Any]] = {"GOPE": {}, "AdaC-GOPE": ZCDP}
EVERY_ROUND: dict[str, dict[str, Any]] = {"UCB1": {}, "Thompson": {}, "LDP-UCB": PURE}
CONTEXT_ROUNDS, CONTEXT_RUNS, LOOP = 10**5, 4, 2000


def episodic(name: str, env: Environment, options: dict[str, Any]) -> Ratio:
    """10^7 and 10^12 rounds of 100 runs."""

    def seconds(horizon: int) -> float:
        return timed(lambda: bd.simulate(bd.make(name, horizon=horizon, **options), env, n_seeds=RUNS))

    paper, long = seconds(ROUNDS), seconds(LONG)
    return Ratio(what=f"{name}, 10^7 x {RUNS}", ours=paper, beside="10^12 rounds", theirs=long, promise=10.0)


def every_round(name: str, options: dict[str, Any]) -> Ratio:
    """100 runs side by side beside one run after another."""
    env, policy = FiniteArms(means=MEANS), bd.make(name, n_arms=len(MEANS), horizon=LOOP, **options)
    ours = timed(lambda: bd.simulate(policy, env, n_seeds=RUNS))
    alone = timed(lambda: bd.simulate(policy, env, n_seeds=1))
    return Ratio(what=f"{name}, {LOOP} x {RUNS}", ours=ours, beside="one after another", theirs=RUNS * alone)


def contextual() -> list[Ratio]:
    """AdaC-OFUL beside drawing the contexts of as many rounds and runs."""
    env = SphereContexts(dim=3, n_arms=10)

    def draw() -> None:
        for seed in range(CONTEXT_RUNS):
            world = env.begin(Streams([seed]))
            for start in range(0, CONTEXT_ROUNDS, 5000):
                world.contexts(start, 5000)

    drawing, ratios = timed(draw), []
    for name, options in (("RS-OFUL", {}), ("AdaC-OFUL", {"rho": 1.0})):
        policy = bd.make(name, dim=3, horizon=CONTEXT_ROUNDS, reward_range=(-1.0, 1.0), parameter_bound=1.0, **options)
        ours = timed(lambda policy=policy: bd.simulate(policy, env, n_seeds=CONTEXT_RUNS))  # type: ignore[misc]
        what = f"{name}, 10^5 x {CONTEXT_RUNS}"
        ratios.append(Ratio(what=what, ours=ours, beside="drawing contexts", theirs=drawing, promise=3 * drawing))
    return ratios


def measure() -> list[Ratio]:
    """All three settings."""
    finite, linear = FiniteArms(means=MEANS), SphereArms(dim=3, n_arms=10)
    ratios = [episodic(name, finite, {"n_arms": len(MEANS), **options}) for name, options in FINITE.items()]
    ratios += [
        episodic(name, linear, {"dim": 3, "reward_range": (-1.0, 1.0), **options}) for name, options in LINEAR.items()
    ]
    return ratios + [every_round(name, options) for name, options in EVERY_ROUND.items()] + contextual()
