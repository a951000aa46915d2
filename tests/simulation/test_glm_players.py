"""Accelerated players of generalised linear policies beside the plain one, which knows nothing but the interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bandanna.numeric.rng import Streams
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.players import reference
from bandanna.simulation.result import Tally, checkpoints_for

PROBIT = {"dim": 3, "horizon": 200, "link": "probit", "parameter_bound": 2.5, "kappa": 56.44, "failure": 0.02}
LOGISTIC = {"dim": 4, "horizon": 120, "link": "logistic", "parameter_bound": 2.0}
BUSY = GLMJDPConstants(
    share=0.4,
    steps=3,
    calls_o=4,
    calls_tau=5,
    regulariser_v=6.0,
    regulariser_h=1.0,
    ridge=1.0,
    threshold=1 / 8,
    elimination=9.0,
    bonus=1.0,
)
JOINT = PROBIT | {"epsilon": 8.0, "delta": 1e-2, "constants": BUSY}
RUNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "RS-GLinUCB as published": ("RS-GLinUCB", PROBIT | {"preset": "published"}, "law"),
    "RS-GLinUCB": ("RS-GLinUCB", PROBIT | {"constants": "published"}, "law"),
    "RS-GLinUCB, fresh contexts": ("RS-GLinUCB", LOGISTIC | {"constants": "published"}, "law"),
    "GLM-JDP by law": ("GLM-JDP", JOINT, "law"),
    "GLM-JDP by messages": ("GLM-JDP", JOINT, "messages"),
    "GLM-JDP, the lemma's steps": ("GLM-JDP", JOINT | {"preset": "paper", "constants": None}, "law"),
    "GLM-UCB": ("GLM-UCB", LOGISTIC, "law"),
    "GLOC": ("GLOC", LOGISTIC, "law"),
    "ECOLog": ("ECOLog", LOGISTIC, "law"),
    "B-GLinUCB": ("B-GLinUCB", LOGISTIC | {"width": 0.1, "warmup": 30}, "law"),
}


OFTEN = {"RS-GLinUCB as published", "RS-GLinUCB", "GLM-JDP by messages", "GLM-JDP, the lemma's steps"}


@pytest.mark.often(of=lambda run: run in OFTEN)  # others: tests/policies/conformance/test_simulation.py
@pytest.mark.parametrize("run", list(RUNS))
def test_accelerated_players_decide_as_the_reference_player(run: str) -> None:
    name, arguments, path = RUNS[run]
    policy = make(name, **arguments)
    env = PublishedGLM(norm=2.5, rounds=200) if policy.dim == 3 else GeneralisedLinear(dim=4, n_arms=6, norm=2.0)
    fast = simulate(policy, env, n_seeds=2, seed=1, path=path, checkpoints=50)
    tally = Tally(checkpoints=checkpoints_for(policy.horizon, 50), n_seeds=2)
    slow = reference.play_reference(
        policy, env.begin(Streams([1, 2])), tally, policy.horizon, path=path, counterfactual=True
    )
    np.testing.assert_array_equal(fast.regret, tally.regret)
    np.testing.assert_array_equal(fast.rewards, tally.rewards)
    for count, values in slow.counts.items():
        np.testing.assert_array_equal(fast.repairs if count == "repairs" else fast.counts[count], values)
    if name in ("RS-GLinUCB", "GLM-JDP") and arguments.get("preset") != "paper":
        assert np.all(fast.counts["switches"] > 0)
        assert np.all(fast.counts["explorations"] > 0)
