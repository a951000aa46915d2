"""Finite arms, fixed arms and public contexts under their papers' names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from bandanna.errors import InvalidArgument
from bandanna.policies.arms.gope import GOPE
from bandanna.policies.arms.ldp_ucb import LDPUCB
from bandanna.policies.arms.successive_elimination import Elimination
from bandanna.policies.arms.thompson import Thompson
from bandanna.policies.arms.ucb1 import UCB1
from bandanna.policies.arms.ucb_episodes import UCBEpisodes
from bandanna.policies.named import Algorithm
from bandanna.policies.named_budget import Numbers, named_budget
from bandanna.policies.linear.oful import OFUL
from bandanna.policies.linear.oful_jdp import OFULJDP
from bandanna.protocols.trust import Privacy

_ANY = (("rho",), ("epsilon", "delta"), ("alpha", "epsilon"))


def _made(
    name: str, kind: Callable[..., Any], trust: str, *allowed: Numbers, names: set[str], **fixed: Any
) -> Callable[..., Any]:
    """Built from its own arguments and the numbers of its budget; finite arms may be counted by `dim` as well."""

    def make(**arguments: Any) -> Any:
        for given in sorted(set(fixed) & set(arguments)):
            raise InvalidArgument(given, arguments[given], f"left out: {name} says {given}={fixed[given]!r}")
        chosen = {**fixed, **arguments}
        if "n_arms" in names and "n_arms" not in chosen and "dim" in chosen:
            chosen["n_arms"] = chosen.pop("dim")  # features of finite arms are unit vectors
        if not allowed or "privacy" in chosen:
            return kind(**chosen)
        budget = named_budget(name, chosen, allowed)
        if "budget" in names:
            return kind(budget=budget, **chosen)
        return kind(privacy=Privacy(model=trust, budget=budget), **chosen)

    return make


def _named(
    name: str,
    trust: str,
    guarantee: str,
    kind: type[Any],
    *allowed: Numbers,
    protects: str = "rewards",
    **fixed: Any,
) -> Algorithm:
    return Algorithm(
        name=name,
        paper="004",
        trust=trust,
        protects="nothing" if trust == "none" else protects,
        guarantee=guarantee,
        make=_made(name, kind, trust, *allowed, names={each.name for each in fields(kind)}, **fixed),
        kind=kind,
        options=tuple(sorted({option for names in allowed for option in names})),
    )


_PURE, _APPROX = ("epsilon",), ("epsilon", "delta")
_ZCDP = "zCDP, DP or Renyi DP"

CONCENTRATED = (
    _named("UCB1", "none", "none", UCB1),
    _named("Thompson", "none", "none", Thompson),
    _named("UCB-episodes", "none", "none", UCBEpisodes),
    _named("AdaC-UCB", "central", _ZCDP, UCBEpisodes, *_ANY),
    _named("AdaP-UCB", "central", "DP, pure", UCBEpisodes, _PURE),
    _named("DP-SE", "central", "DP, pure", Elimination, _PURE),
    _named("LDP-UCB", "local", "local DP, pure", LDPUCB, _PURE),
    _named("SDP-SE", "shuffle", "shuffle DP", Elimination, _APPROX),
    _named("GOPE", "none", "none", GOPE),
    _named("AdaC-GOPE", "central", _ZCDP, GOPE, *_ANY),
    _named("AdaC-GOPE-early", "central", _ZCDP, GOPE, *_ANY, noise="beginning"),
    _named("RS-OFUL", "none", "none", OFUL),
    _named("AdaC-OFUL", "central", _ZCDP, OFUL, *_ANY),
    _named("AdaC-OFUL-JDP", "central", f"joint {_ZCDP}", OFULJDP, *_ANY, protects="contexts and rewards"),
)
