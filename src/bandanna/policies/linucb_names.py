"""LinUCB under its papers' names."""

from __future__ import annotations

import inspect
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


def _named(name: str, guarantee: str, privacy: Callable[..., Any], paper: str = "000", **fixed: Any) -> Algorithm:
    """A LinUCB in the trust model of `privacy`, whose arguments it takes unless the name fixes them."""
    return Algorithm(
        name=name,
        paper=paper,
        trust={none: "none", central: "central", local: "local", shuffle: "shuffle"}.get(privacy, "concurrent shuffle"),
        protects="nothing" if privacy is none else "contexts and rewards",
        guarantee=guarantee,
        make=_linucb(privacy, **fixed),
        kind=LinUCB,
        options=tuple(name for name in inspect.signature(privacy).parameters if name != "protocol"),
    )


_JOINT, _LOCAL, _SHUFFLE = "joint DP or zCDP", "local DP or zCDP", "shuffle DP"

LINUCB = (
    _named("LinUCB", "none", none),
    _named("LinUCB-JDP", _JOINT, central, batch=1),
    _named("LinUCB-JDP-batched", _JOINT, central, batch="paper"),
    _named("LinUCB-LDP", _LOCAL, local, batch=1),
    _named("LinUCB-LDP-batched", _LOCAL, local, batch="paper"),
    _named("LinUCB-SDP-Amp", _SHUFFLE, shuffle, batch="paper", protocol="gaussian"),
    _named("LinUCB-SDP-Vec", _SHUFFLE, shuffle, batch="paper", protocol="binomial"),
    _named("LinUCB-CSDP", _SHUFFLE, concurrent, paper="002"),
)
