"""LinUCB under its papers' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bandanna.policies.linucb import LinUCB
from bandanna.policies.named import Algorithm
from bandanna.protocols.trust import central, concurrent, local, none, shuffle

_OPTIONS = ("epsilon", "delta", "rho", "mechanism", "protocol", "calibration", "participations", "shufflers", "degrees")


def _linucb(privacy: Callable[..., Any], *, batch: int | str | None = None, **fixed: Any) -> Callable[..., LinUCB]:
    """A LinUCB whose budget and privacy options are given beside its own arguments."""

    def make(**arguments: Any) -> LinUCB:
        chosen = {"batch": batch, **fixed, **arguments}
        spent = {name: chosen.pop(name) for name in _OPTIONS if name in chosen}
        return LinUCB(privacy=privacy(**spent), **chosen)

    return make


def _private(name: str, trust: str, guarantee: str, make: Callable[..., LinUCB], paper: str = "000") -> Algorithm:
    return Algorithm(
        name=name, paper=paper, trust=trust, protects="contexts and rewards", guarantee=guarantee, make=make
    )


_JOINT, _LOCAL, _SHUFFLE = "joint DP or zCDP", "local DP or zCDP", "shuffle DP"

LINUCB = (
    Algorithm(name="LinUCB", paper="000", trust="none", protects="nothing", guarantee="none", make=_linucb(none)),
    _private("LinUCB-JDP", "central", _JOINT, _linucb(central, batch=1)),
    _private("LinUCB-JDP-batched", "central", _JOINT, _linucb(central, batch="paper")),
    _private("LinUCB-LDP", "local", _LOCAL, _linucb(local, batch=1)),
    _private("LinUCB-LDP-batched", "local", _LOCAL, _linucb(local, batch="paper")),
    _private("LinUCB-SDP-Amp", "shuffle", _SHUFFLE, _linucb(shuffle, batch="paper", protocol="gaussian")),
    _private("LinUCB-SDP-Vec", "shuffle", _SHUFFLE, _linucb(shuffle, batch="paper", protocol="binomial")),
    _private("LinUCB-CSDP", "concurrent shuffle", _SHUFFLE, _linucb(concurrent), paper="002"),
)
