"""Finite arms, fixed arms and public contexts under their papers' names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.errors import InvalidBudget
from bandanna.policies.elimination import Elimination
from bandanna.policies.gope import GOPE
from bandanna.policies.ldp_ucb import LDPUCB
from bandanna.policies.named import Algorithm
from bandanna.policies.oful import OFUL
from bandanna.policies.oful_jdp import OFULJDP
from bandanna.policies.thompson import Thompson
from bandanna.policies.ucb1 import UCB1
from bandanna.policies.ucb_episodes import UCBEpisodes

_KINDS: dict[frozenset[str], Callable[..., Budget]] = {
    frozenset({"rho"}): ZCDP,
    frozenset({"epsilon", "delta"}): ApproxDP,
    frozenset({"alpha", "epsilon"}): RenyiDP,
    frozenset({"epsilon"}): PureDP,
}
_ANY = tuple(_KINDS)[:3]


def _budget(arguments: dict[str, Any], allowed: tuple[frozenset[str], ...]) -> Budget:
    """The budget that is given beside the other arguments, taken out of them."""
    given = {name: arguments.pop(name) for name in ("rho", "epsilon", "delta", "alpha") if name in arguments}
    if frozenset(given) not in allowed:
        words = " or ".join(" and ".join(sorted(names)) for names in allowed)
        raise InvalidBudget("budget", given, words)
    return _KINDS[frozenset(given)](**given)


def _made(kind: Callable[..., Any], *allowed: frozenset[str], finite: bool, **fixed: Any) -> Callable[..., Any]:
    """Built from its own arguments and the numbers of its budget; finite arms may be counted by `dim` as well."""

    def make(**arguments: Any) -> Any:
        if set(fixed) & set(arguments):
            raise TypeError(f"{', '.join(sorted(set(fixed) & set(arguments)))} is what the name says")
        chosen = {**fixed, **arguments}
        if finite and "n_arms" not in chosen and "dim" in chosen:
            chosen["n_arms"] = chosen.pop("dim")  # features of finite arms are unit vectors
        return kind(budget=_budget(chosen, allowed), **chosen) if allowed else kind(**chosen)

    return make


def _named(
    name: str,
    trust: str,
    guarantee: str,
    kind: type[Any],
    *allowed: frozenset[str],
    protects: str = "rewards",
    **fixed: Any,
) -> Algorithm:
    return Algorithm(
        name=name,
        paper="004",
        trust=trust,
        protects="nothing" if trust == "none" else protects,
        guarantee=guarantee,
        make=_made(kind, *allowed, finite="n_arms" in {each.name for each in fields(kind)}, **fixed),
        kind=kind,
        options=tuple(sorted({option for names in allowed for option in names})),
    )


_PURE, _APPROX = frozenset({"epsilon"}), frozenset({"epsilon", "delta"})
_ZCDP = "zCDP, DP or Renyi DP"

CONCENTRATED = (
    _named("UCB1", "none", "none", UCB1),
    _named("Thompson", "none", "none", Thompson),
    _named("UCB-episodes", "none", "none", UCBEpisodes),
    _named("AdaC-UCB", "central", _ZCDP, UCBEpisodes, *_ANY),
    _named("AdaP-UCB", "central", "DP, pure", UCBEpisodes, _PURE),
    _named("DP-SE", "central", "DP, pure", Elimination, _PURE),
    _named("LDP-UCB", "local", "local DP, pure", LDPUCB),
    _named("SDP-SE", "shuffle", "shuffle DP", Elimination, _APPROX, shuffled=True),
    _named("GOPE", "none", "none", GOPE),
    _named("AdaC-GOPE", "central", _ZCDP, GOPE, *_ANY),
    _named("AdaC-GOPE-early", "central", _ZCDP, GOPE, *_ANY, noise="beginning"),
    _named("RS-OFUL", "none", "none", OFUL),
    _named("AdaC-OFUL", "central", _ZCDP, OFUL, *_ANY),
    _named("AdaC-OFUL-JDP", "central", f"joint {_ZCDP}", OFULJDP, *_ANY, protects="contexts and rewards"),
)
