"""Phased elimination under its paper's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bandanna.policies.named import Algorithm
from bandanna.policies.phased_elimination import PhasedElimination
from bandanna.protocols.trust import central, local, none, shuffle

_OPTIONS = ("epsilon", "delta", "rho", "calibration")


def _phased(privacy: Callable[..., Any], *, spends: dict[str, Any] | None = None, **fixed: Any) -> Callable[..., Any]:
    """A PhasedElimination whose budget is given beside its own arguments."""

    def make(**arguments: Any) -> PhasedElimination:
        chosen = {**fixed, **arguments}
        spent = {name: chosen.pop(name) for name in _OPTIONS if name in chosen}
        return PhasedElimination(privacy=privacy(**(spends or {}), **spent), **chosen)

    return make


def _named(name: str, trust: str, guarantee: str, make: Callable[..., Any], *options: str) -> Algorithm:
    return Algorithm(
        name=name,
        paper="001",
        trust=trust,
        protects="nothing" if trust == "none" else "local rewards",
        guarantee=guarantee,
        make=make,
        kind=PhasedElimination,
        options=options,
    )


_APPROX = ("epsilon", "delta", "calibration")

ELIMINATION = (
    _named("DPE", "none", "none", _phased(none)),
    _named("CDP-DPE", "central", "central DP or zCDP", _phased(central), *_APPROX, "rho"),
    _named("LDP-DPE", "local", "local DP or zCDP", _phased(local), *_APPROX, "rho"),
    _named("SDP-DPE", "shuffle", "shuffle DP", _phased(shuffle), *_APPROX),
    _named("Laplace-DPE", "central", "central DP, pure", _phased(central, spends={"delta": 0.0}), "epsilon"),
    _named("DPE-FixedU", "none", "none", _phased(none, clients=97)),
    _named("PE", "none", "none", _phased(none, per_round=True)),
)
