"""Compiled kernels (extra `fast`): CPU time of a seed-round beside the plain loop, the NumPy player and drawing alone;
and NumPy's own rank-one recursion for a seed that is alone, beside the plain loop and a lean one.

The plain loop (`players/plain.py`) runs one seed, and NumPy all of them, for fewer rounds. Compilation is
not in it: it happens once on a machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bandanna.core.streams import Streams
from bandanna.environments import FiniteArms, LinearContextual
from bandanna.environments.base import Environment
from bandanna.environments.glm import GeneralisedLinear
from bandanna.kernels import BREAK_EVEN, SWITCH
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.protocols.trust import central, local, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import plain
from bandanna.simulation.result import checkpoints_for
from bandanna.simulation.tally import Tally
from benchmarks import Ratio, timed_in_turn

SEEDS, ROUNDS, PLAIN, DIM, ARMS = 50, BREAK_EVEN, 200, 5, 100
TURNS = 5  # of which the fastest counts, each beside the others
BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def switched(on: bool, work: Callable[[], object]) -> None:
    """With kernels, or without."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "on" if on else "off"
    try:
        work()
    finally:
        os.environ.pop(SWITCH) if before is None else os.environ.update({SWITCH: before})


def plain_loop(policy: Any, env: Environment) -> None:
    """One seed by the loop that plays any policy."""
    tally = Tally(checkpoints=checkpoints_for(PLAIN, 10), n_seeds=1)
    plain.play(policy, env.begin(Streams([0])), tally, PLAIN, path="law", counterfactual=True)


def compared(what: str, policy: Any, env: Environment, times: float | None, seeds: int = SEEDS) -> list[Ratio]:
    """Seconds of a seed-round: beside the plain loop, of which we promise to be so many times as fast, and NumPy's."""
    _ = policy.guarantee

    def run(rounds: int) -> None:
        switched(rounds == ROUNDS, partial(simulate, policy, env, n_seeds=seeds, horizon=rounds))

    run(ROUNDS)  # compiled, or loaded
    works = partial(run, ROUNDS), partial(run, PLAIN), partial(plain_loop, policy, env)
    played = seeds * ROUNDS, seeds * PLAIN, PLAIN
    ours, numpy, theirs = (each / count for each, count in zip(timed_in_turn(works, TURNS), played, strict=True))
    what = f"{what}, {seeds} seeds" if seeds > 1 else f"{what}, one seed"
    return [
        Ratio(what=what, ours=ours, beside="plain loop", theirs=theirs, promise=theirs / times if times else None),
        Ratio(what=what, ours=ours, beside="NumPy", theirs=numpy),
    ]


def drawing(name: str, policy: LinUCB, env: Environment) -> Ratio:
    """Fresh contexts beside drawing them and their rewards alone, without the noise."""

    def draw() -> None:
        world = env.begin(Streams(range(SEEDS)))
        for start in range(0, ROUNDS, 100):
            world.rewards(world.means(world.contexts(start, 100))[..., 0])

    def run() -> None:
        simulate(policy, env, n_seeds=SEEDS)

    run()
    works = [partial(switched, True, work) for work in (draw, run)]
    theirs, ours = (each / SEEDS / ROUNDS for each in timed_in_turn(works, TURNS))
    what = f"LinUCB, {name}, fresh"
    return Ratio(what=what, ours=ours, beside="drawing alone", theirs=theirs, promise=1.5 * theirs)


def linucb() -> list[Ratio]:
    """Every round, fixed arms and fresh ones."""
    ratios = []
    for name, privacy, times in (
        ("no privacy", none(), 100),
        ("local", local(**BUDGET), 60),
        ("central", central(**BUDGET), 60),
    ):
        policy = LinUCB(dim=DIM, horizon=ROUNDS, privacy=privacy, batch=1)
        for kind, fixed in (("fixed", True), ("fresh", False)):
            env = LinearContextual(dim=DIM, n_arms=ARMS, fixed=fixed)
            ratios += compared(f"LinUCB, {name}, {kind}", policy, env, times if fixed else None)
            if not fixed:
                ratios += compared(f"LinUCB, {name}, {kind}", policy, env, 36, seeds=1)
                ratios.append(drawing(name, policy, env))
    return ratios


def lean_loop(policy: LinUCB, env: LinearContextual) -> float:
    """Rank-one LinUCB of one seed as one would write it, without ties, clips, tallies or sums to release; its regret.

    The regulariser stays: it is that of confidence="lemma". Of arms that stay, widths and means are followed too.
    """
    world, ahead = env.begin(Streams([0])), policy.optimism(0, ROUNDS)
    assert ahead is not None
    contexts = world.contexts(0, ROUNDS)
    means, arms = world.means(contexts)[0], contexts[0]
    uniforms, inverse, theta = (
        world.streams.uniform("rewards", (ROUNDS,))[0],
        np.eye(DIM) / ahead.weights[0],
        np.zeros(DIM),
    )
    x, regret = arms[0], 0.0
    spread, along = np.einsum("kd,kd->k", x @ inverse, x), np.zeros(len(x))
    for t in range(ROUNDS):
        if not env.fixed:
            x = arms[t]
            spread, along = np.einsum("kd,kd->k", x @ inverse, x), x @ theta
        worth = means[0 if env.fixed else t]
        arm = int(np.argmax(along + ahead.radii[t] * np.sqrt(spread)))
        regret += float(worth.max() - worth[arm])
        step = inverse @ x[arm]
        grown = 1 + step @ x[arm]
        gain = (float(uniforms[t] < worth[arm]) - theta @ x[arm]) / grown
        inverse -= np.outer(step, step / grown)
        theta += gain * step
        if env.fixed:
            moved = x @ step
            spread, along = spread - moved * moved / grown, along + gain * moved
    return regret


def alone() -> list[Ratio]:
    """One seed without kernels, beside the plain loop and the lean one."""
    ratios = []
    for fixed in (True, False):
        env = LinearContextual(dim=DIM, n_arms=ARMS, fixed=fixed)
        lemma = LinUCB(dim=DIM, horizon=ROUNDS, batch=1, confidence="lemma", privacy=none())
        for policy in (lemma, LinUCB(dim=DIM, horizon=ROUNDS, batch=1, privacy=none())):
            what = f"LinUCB, NumPy, {policy.confidence}, {'fixed' if fixed else 'fresh'}, one seed"
            works = (
                partial(switched, False, partial(simulate, policy, env, n_seeds=1, horizon=ROUNDS)),
                partial(plain_loop, policy, env),
                partial(lean_loop, lemma, env),
            )
            ours, loop, lean = timed_in_turn(works)
            for beside, theirs in (("plain loop", loop / PLAIN), ("lean loop", lean / ROUNDS)):
                ratios.append(Ratio(what=what, ours=ours / ROUNDS, beside=beside, theirs=theirs))
    return ratios


def generalised() -> list[Ratio]:
    """Policies that learn from contexts in every round."""
    env, ratios = GeneralisedLinear(dim=DIM, n_arms=ARMS), []
    for name in ("GLOC", "ECOLog", "GLM-UCB"):
        for preset in ("corrected", "published"):
            policy = make(name, dim=DIM, horizon=ROUNDS, parameter_bound=2.0, preset=preset)
            ratios += compared(f"{name}, {preset}", policy, env, 40)
    return [*ratios, *rarely_switching()]


def rarely_switching() -> list[Ratio]:
    """RS-GLinUCB with the constants of the theory, which explores for long."""
    policy = make("RS-GLinUCB", dim=DIM, horizon=ROUNDS, parameter_bound=2.0, constants="theory")
    return compared("RS-GLinUCB, theory", policy, GeneralisedLinear(dim=DIM, n_arms=ARMS), None)


def finite() -> list[Ratio]:
    """Policies on finite arms."""
    arms, ratios = FiniteArms(means=tuple((arm + 1) / (ARMS + 2) for arm in range(ARMS))), []
    for name, options in (("UCB1", {}), ("LDP-UCB", {"epsilon": 1.0}), ("Thompson", {})):
        ratios += compared(name, make(name, n_arms=ARMS, horizon=ROUNDS, **options), arms, None)
    return ratios


def measure() -> list[Ratio]:
    """All of them."""
    return [*linucb(), *alone(), *generalised(), *finite()]
