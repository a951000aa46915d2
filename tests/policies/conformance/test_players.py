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
from bandanna.simulation.players import plain

from .catalogue import BY_MESSAGES, CASES, OF_EVERY_CLASS, Case, every_path
from .laws import one_law

ACCELERATED = {key: case for key, case in CASES.items() if vars(type(case.policy)).get("player", "plain") != "plain"}
COUNTERFACTUAL = ("batches", "every round", "blocks")  # these players draw what every arm would earn
VECTOR_SUMS = {
    "LinTS-LDP",
    "LinTS-SDP",
    "LinTS-CSDP",
    "LinTS per arm",
    "LinUCB-SDP-Vec",
    "LinUCB-CSDP",
    "Anytime",
    "GLM-SDP",
}
OTHER_NUMBERS = {
    "law": VECTOR_SUMS | {"LDP-UCB", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "PE"},
    "messages": VECTOR_SUMS | {"LDP-UCB", "AdaP-UCB"},
}
SEEDS = 20


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


def regrets(case: Case, path: str, *, seeds: int, checkpoints: int = 30) -> tuple[Any, Any]:
    """Of the policy's own player, and of the plain one, (S, C) each."""
    policy = case.policy
    given: dict[str, Any] = {"n_seeds": seeds, "seed": 5, "path": path, "checkpoints": checkpoints}
    own = bd.simulate(policy, case.env, horizon=case.rounds, **given)
    drawn = partial(plain.play, counterfactual=type(policy).player in COUNTERFACTUAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine.PLAYERS, "plain", drawn)
        simple = bd.simulate(plainly(policy), case.env, horizon=case.rounds, **given)
    return own.regret, simple.regret


@pytest.mark.often(of=lambda key, path: key in (OF_EVERY_CLASS if path == "law" else BY_MESSAGES))
@every_path
@pytest.mark.parametrize("key", ACCELERATED)
def test_players_are_exact_accelerations(key: str, path: str) -> None:
    """An algorithm runs differently under its own player (false alarms: 1e-5 where only laws are compared)."""
    if key in OTHER_NUMBERS[path]:
        own, simple = regrets(CASES[key], path, seeds=SEEDS, checkpoints=1)
        assert one_law(own[:, -1], simple[:, -1])
    else:
        own, simple = regrets(CASES[key], path, seeds=2)
        np.testing.assert_allclose(own, simple, rtol=0, atol=1e-9)


def test_the_table_of_other_numbers_is_not_longer_than_it_must_be() -> None:
    """An algorithm is compared in law only, although both players take the same decisions."""
    for path, keys in OTHER_NUMBERS.items():
        for key in keys:
            own, simple = regrets(CASES[key], path, seeds=2)
            assert not np.allclose(own, simple, rtol=0, atol=1e-9), (path, key)
