"""Every player of the simulator is an exact acceleration of the plain loop.

A subclass without a word about its player is played plainly. Where both draw the same random numbers, decisions are
equal; where they cannot, the laws are:

    vector sums and bits, Laplace    seeds side by side draw binomial numbers by their law, a seed alone in its order
    directions (LinTS-LDP)           the same
    episodes of finite arms          one number for all rewards of an episode, instead of one for each
    one stranger a round (PE)        the same
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.policies.base import Policy
from bandanna.simulation import engine
from bandanna.simulation.players import reference

from .catalogue import BY_MESSAGES, CASES, OF_EVERY_CLASS, every_path
from .driving import SEEDS, simulated
from .laws import one_law

ACCELERATED = {key: case for key, case in CASES.items() if vars(type(case.policy)).get("player", "plain") != "plain"}
COUNTERFACTUAL = ("every round", "blocks")  # these players draw what every arm would earn
VECTOR_SUMS = {
    "LinTS-LDP",
    "LinTS-SDP",
    "LinTS-CSDP",
    "LinTS per arm",
    "LinUCB-SDP-Vec",
    "LinUCB-CSDP",
    "Anytime",
}
OTHER_NUMBERS = {
    "law": VECTOR_SUMS | {"LDP-UCB", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "PE"},
    "messages": VECTOR_SUMS | {"LDP-UCB", "AdaP-UCB"},
}
# laws of messages are compared in `test_paths.py` too; one is here
DECIDED_BY_MESSAGES = (BY_MESSAGES - OTHER_NUMBERS["messages"]) | {"LinTS-LDP"}


@cache
def unnamed(kind: type) -> type:
    """A subclass, once: values are stored by the names of their classes, which must not be those of two."""
    return type(kind.__name__, (kind,), {"__module__": __name__})


def plainly(policy: Policy[Any]) -> Policy[Any]:
    """The same policy, of a class that names no player."""
    kind = type(policy)
    twin = unnamed(kind)
    made = twin(**{each.name: getattr(policy, each.name) for each in fields(kind) if each.init})  # type: ignore[arg-type]
    assert "player" not in vars(twin)
    return made  # type: ignore[no-any-return]


def regrets(key: str, path: str, *, seeds: int) -> tuple[Any, Any]:
    """Of the policy's own player, and of the plain one, (S, C) each."""
    case, policy = CASES[key], CASES[key].policy
    own = simulated(key, path, seeds=seeds)
    drawn = partial(reference.play_reference, counterfactual=type(policy).execution.player in COUNTERFACTUAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine.PLAYERS, "plain", drawn)
        given: dict[str, Any] = {"n_seeds": seeds, "seed": 4, "path": path, "checkpoints": 30}
        simple = bd.simulate(plainly(policy), case.env, horizon=case.rounds, **given)
    return own.regret, simple.regret


@pytest.mark.often(of=lambda key, path: key in (OF_EVERY_CLASS if path == "law" else DECIDED_BY_MESSAGES))
@every_path
@pytest.mark.parametrize("key", ACCELERATED)
def test_players_are_exact_accelerations(key: str, path: str) -> None:
    """False alarms: 1e-5 where only laws are compared."""
    if key in OTHER_NUMBERS[path]:
        own, simple = regrets(key, path, seeds=SEEDS)
        assert one_law(own[:, -1], simple[:, -1])
        assert not np.allclose(own, simple, rtol=0, atol=1e-9)
    else:
        own, simple = regrets(key, path, seeds=2)
        np.testing.assert_allclose(own, simple, rtol=0, atol=1e-9)
