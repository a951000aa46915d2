"""Plain loops over single rounds of GLM policies, one seed at a time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bandanna.device.domain import Estimate
from bandanna.numeric.linalg import first_best
from bandanna.numeric.rng import GeneratorRandomness
from bandanna.policies.base import drive_learning
from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog, GLMUCBState
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.types import Floats


def learning_loop(policy: GLMUCB | GLOC | ECOLog, arms: Floats, outcomes: Floats) -> list[int]:
    """A policy that learns in every round: arms (T, K, d), what each would earn (T, K) -> the arms played."""
    state, played, rows = policy.init(), [], np.zeros((len(arms), policy.dim + 2))
    if isinstance(state, GLMUCBState):
        state = replace(state, near=None)  # a plain loop reads all data in every round
    coins = GeneratorRandomness(np.random.default_rng(0))
    for t, (contexts, rewards) in enumerate(zip(arms, outcomes, strict=True)):
        action = int(policy.act(state, contexts[None], coins).actions[0])  # type: ignore[arg-type]
        played.append(action)
        rows[t, :-1] = *contexts[action], rewards[action]
        last, everything = (Estimate(total=rows[begin : t + 1], count=1, variance=0.0) for begin in (t, 0))
        steps = policy.learn(state, policy.episode(state))  # type: ignore[arg-type]
        state = drive_learning(steps, lambda query, a=last, b=everything: a if query.group == "episode" else b)  # type: ignore[misc]
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
            if policy.has_grown(h, h_tau) and not (policy.bonus_follows_h and switches):
                used = [i for i, flag in enumerate(explored) if policy.fits_all_rounds or not flag]
                xs, rs = np.array([features[i] for i in used]), np.array([rewards[i] for i in used])
                theta_tau = policy.fit_tau(xs, rs, theta_tau, theta_o, v)
                h_tau, switches = h.copy(), switches + 1
            snapshot = np.linalg.inv(h if policy.bonus_follows_h and switches else h_tau)
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
