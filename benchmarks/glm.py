"""Generalised linear bandits: 10 seeds at once beside a plain loop over the rounds of one seed.

Seconds are for all rounds of 10 seeds; the plain loop runs one seed, most for fewer rounds, and is scaled up. The
promise is 1/15 of the loop for policies that are frozen between events; those that learn in every round cannot do
better than 1/10 by running side by side. Beside it the reference implementations, which did, in rounds per CPU second:
RS-GLinUCB 950 (logistic) / 388 (probit), GLOC 7,110 / 505, ECOLog 364, GLM-UCB 80 falling with t, Private-GLM 28. The
tests compare the simulator's decisions with these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.coins import GeneratorCoins
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import first_best
from bandanna.core.streams import Streams
from bandanna.environments.glm import PublishedGLM
from bandanna.loop import close
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.glm import GLMJDP, GLMUCB, GLOC, ECOLog, RSGLinUCB
from bandanna.policies.glm.glm_ucb import UCBState
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from benchmarks import Ratio, timed

Floats = NDArray[np.float64]

SEEDS, ROUNDS = 10, 5000
PLAIN = {"GLM-UCB": ROUNDS}  # rounds of the loop; 1500 for the others, whose rounds cost nearly the same
REFERENCE = {
    ("RS-GLinUCB", "probit"): 388,
    ("RS-GLinUCB", "logistic"): 950,
    ("GLM-JDP", "probit"): 28,
    ("GLOC", "probit"): 505,
    ("GLOC", "logistic"): 7110,
    ("ECOLog", "logistic"): 364,
    ("GLM-UCB", "probit"): 80,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "RS-GLinUCB": {"constants": "published"},
    "GLM-JDP": {"epsilon": 8.0, "delta": 0.02},
}


def learning_loop(policy: GLMUCB | GLOC | ECOLog, arms: Floats, outcomes: Floats) -> list[int]:
    """A policy that learns in every round: arms (T, K, d), what each would earn (T, K) -> the arms played."""
    state, played, rows = policy.init(), [], np.zeros((len(arms), policy.dim + 2))
    if isinstance(state, UCBState):
        state = replace(state, near=None)  # a plain loop reads all data in every round
    coins = GeneratorCoins(np.random.default_rng(0))
    for t, (contexts, rewards) in enumerate(zip(arms, outcomes, strict=True)):
        action = int(policy.act(state, contexts[None], coins).actions[0])  # type: ignore[arg-type]
        played.append(action)
        rows[t, :-1] = *contexts[action], rewards[action]
        last, everything = (Estimate(total=rows[begin : t + 1], count=1, variance=0.0) for begin in (t, 0))
        steps = policy.learn(state, policy.episode(state))  # type: ignore[arg-type]
        state = close(steps, lambda ask, one=last, all_=everything: one if ask.of == "episode" else all_)  # type: ignore[misc]
    return played


def rs_glinucb_loop(policy: RSGLinUCB, arms: Floats, outcomes: Floats) -> tuple[list[int], int, int]:
    """RS-GLinUCB: the arms played, explored rounds, switches."""
    d, link = policy.dim, policy.model
    v, h, h_tau = (policy.regulariser * np.eye(d) for _ in range(3))
    theta_o, theta_tau = np.zeros(d), np.zeros(d)
    features, rewards, explored, played, switches = [], [], [], [], 0
    for contexts, earned in zip(arms, outcomes, strict=True):
        norms = np.einsum("ki,ij,kj->k", contexts, np.linalg.inv(v), contexts)
        if norms.max() >= policy.threshold:
            action = int(np.argmax(norms))
            x = contexts[action]
            v = v + float(policy.explored_weight(norms[action])) * np.outer(x, x)
            rows = [i for i, flag in enumerate(explored) if flag]
            xs, rs = (
                np.array([*(features[i] for i in rows), x]),
                np.array([*(rewards[i] for i in rows), earned[action]]),
            )
            theta_o = policy.fit_o(xs, rs, theta_o)
            explored.append(True)
        else:
            if policy.grown(h, h_tau) and not (policy.live and switches):
                used = [i for i, flag in enumerate(explored) if policy.uses_everything or not flag]
                xs, rs = np.array([features[i] for i in used]), np.array([rewards[i] for i in used])
                theta_tau = policy.fit_tau(xs, rs, theta_tau, theta_o, v)
                h_tau, switches = h.copy(), switches + 1
            snapshot = np.linalg.inv(h if policy.live and switches else h_tau)
            middle, half = contexts @ theta_o, policy.elimination * np.sqrt(norms)
            centre = policy.centre(theta_o, theta_tau, np.array(switches))
            spread = np.sqrt(np.einsum("ki,ij,kj->k", contexts, snapshot, contexts))
            index = np.where(middle + half >= np.max(middle - half), contexts @ centre + policy.bonus * spread, -np.inf)
            action = int(first_best(index))
            x = contexts[action]
            h = h + float(link.slope(np.asarray(x @ theta_o))) / math.e * np.outer(x, x)
            explored.append(False)
        features.append(x)
        rewards.append(earned[action])
        played.append(action)
    return played, sum(explored), switches


def glm_jdp_loop(policy: GLMJDP, arms: Floats, outcomes: Floats, rng: np.random.Generator) -> tuple[list[int], int]:
    """GLM-JDP: the arms played and the refits of theta_tau; every round releases through the continual mechanism."""
    used, noise, mechanism = policy.used, FastNoise(rng), policy.stream.mechanism
    stream = mechanism.begin(())
    v, h = policy.matrices(np.zeros(mechanism.dim))
    v_o, h_tau, theta_o, theta_tau = v, h, np.zeros(policy.dim), np.zeros(policy.dim)
    features, rewards, explored, played, calls = [], [], [], [], [0, 0]
    for t, (contexts, earned) in enumerate(zip(arms, outcomes, strict=True), start=1):
        norms = np.einsum("ki,ij,kj->k", contexts, np.linalg.inv(v), contexts)
        fires = bool(norms.max() >= policy.threshold)
        if fires:
            action = int(np.argmax(norms))
        else:
            middle, half = contexts @ theta_o, policy.elimination * np.sqrt(norms)
            spread = np.sqrt(np.einsum("ki,ij,kj->k", contexts, np.linalg.inv(h_tau), contexts))
            index = contexts @ theta_tau + policy.bonus * spread
            action = int(first_best(np.where(middle + half >= np.max(middle - half), index, -np.inf)))
        x = contexts[action]
        features.append(x)
        rewards.append(earned[action])
        explored.append(fires)
        played.append(action)
        leaf = policy.mechanisms.leaves.of(x, policy.leaf_weights(theta_o, x[None])[0], np.array(fires))
        stream, total = mechanism.step(stream, leaf, noise)
        v, h = policy.matrices(total)
        for kind, (matrix, snapshot, budget) in enumerate(((v, v_o, used.calls_o), (h, h_tau, used.calls_tau))):
            if calls[kind] < budget and policy.outgrown(matrix, snapshot):
                calls[kind] += 1
                rows = [i for i, flag in enumerate(explored) if flag == (kind == 0)]
                xs, rs = (
                    np.array([features[i] for i in rows]).reshape(-1, policy.dim),
                    np.array([rewards[i] for i in rows]),
                )
                optimiser = policy.mechanisms.estimate_o if kind == 0 else policy.mechanisms.estimate_tau
                bound = policy.model.slope_bound * v if kind == 0 else math.e * h
                start = theta_o if kind == 0 else theta_tau
                theta = optimiser.minimise(
                    xs if len(xs) else np.zeros((1, policy.dim)),
                    rs if len(rs) else np.zeros(1),
                    noise,
                    count=t,
                    ridge=used.ridge,
                    start=start,
                    matrix=bound + used.ridge * np.eye(policy.dim),
                )
                if kind == 0:
                    theta_o, v_o = theta, v
                else:
                    theta_tau, h_tau = theta, h
    return played, calls[1]


def compared(algorithm: str, link: str) -> list[Ratio]:
    """Beside the loop, and beside the reference."""
    env = PublishedGLM(dim=3, link=link, norm=2.0, rounds=ROUNDS)
    options = OPTIONS.get(algorithm, {"preset": "published"})
    policy = make(
        algorithm, dim=3, horizon=ROUNDS, link=link, parameter_bound=2.0, kappa=env.kappa, failure=0.02, **options
    )
    world = env.begin(Streams([0]))
    plain = PLAIN.get(algorithm, 1500)
    contexts = world.contexts(0, plain)
    outcomes = world.rewards(world.means(contexts))[0]
    loops: dict[str, Callable[[], object]] = {
        "RS-GLinUCB": lambda: rs_glinucb_loop(policy, contexts[0], outcomes),
        "GLM-JDP": lambda: glm_jdp_loop(policy, contexts[0], outcomes, np.random.default_rng(0)),
    }
    _ = policy.guarantee  # calibration is measured elsewhere
    ours = timed(lambda: simulate(policy, env, n_seeds=SEEDS))
    loop = timed(loops.get(algorithm, lambda: learning_loop(policy, contexts[0], outcomes)))
    theirs = loop * SEEDS * ROUNDS / plain
    promise = theirs / 15 if algorithm in loops else None  # the others learn in every round: nothing is frozen
    reference = SEEDS * ROUNDS / REFERENCE[algorithm, link]
    what = f"{algorithm}, {link}"
    return [
        Ratio(what=what, ours=ours, beside="plain loop", theirs=theirs, promise=promise),
        Ratio(what=what, ours=ours, beside="reference", theirs=reference),
    ]


def measure() -> list[Ratio]:
    """Every algorithm that has a reference implementation."""
    return [ratio for algorithm, link in REFERENCE for ratio in compared(algorithm, link)]
