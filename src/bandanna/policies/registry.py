"""Every algorithm of the papers by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bandanna.errors import InvalidArgument
from bandanna.policies.linucb import LinUCB
from bandanna.protocols.trust import central, local, none, shuffle


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A name, where it comes from, whom its users trust, what it protects, and how it is made."""

    name: str
    paper: str
    trust: str
    protects: str
    make: Callable[..., LinUCB]


def _linucb(privacy: Callable[..., Any], budget: tuple[str, ...], **defaults: Any) -> Callable[..., LinUCB]:
    """A LinUCB whose budget and privacy options are given beside its own arguments."""
    options = (*budget, "mechanism", "protocol", "calibration", "participations")

    def make(**arguments: Any) -> LinUCB:
        chosen = {**defaults, **arguments}
        spent = {name: chosen.pop(name) for name in options if name in chosen}
        return LinUCB(privacy=privacy(**spent), **chosen)

    return make


_BOTH = "contexts and rewards"
_APPROX, _ANY = ("epsilon", "delta"), ("epsilon", "delta", "rho")

ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(name="LinUCB", paper="000", trust="none", protects="nothing", make=_linucb(none, ())),
        Algorithm(
            name="LinUCB-JDP", paper="000", trust="central", protects=_BOTH, make=_linucb(central, _ANY, batch=1)
        ),
        Algorithm(
            name="LinUCB-JDP-batched",
            paper="000",
            trust="central",
            protects=_BOTH,
            make=_linucb(central, _ANY, batch="paper"),
        ),
        Algorithm(name="LinUCB-LDP", paper="000", trust="local", protects=_BOTH, make=_linucb(local, _ANY, batch=1)),
        Algorithm(
            name="LinUCB-LDP-batched",
            paper="000",
            trust="local",
            protects=_BOTH,
            make=_linucb(local, _ANY, batch="paper"),
        ),
        Algorithm(
            name="LinUCB-SDP-Amp",
            paper="000",
            trust="shuffle",
            protects=_BOTH,
            make=_linucb(shuffle, _APPROX, protocol="gaussian", batch="paper"),
        ),
        Algorithm(
            name="LinUCB-SDP-Vec",
            paper="000",
            trust="shuffle",
            protects=_BOTH,
            make=_linucb(shuffle, _APPROX, protocol="binomial", batch="paper"),
        ),
    )
}


def make(name: str, **arguments: Any) -> LinUCB:
    """The algorithm of that name: `make("LinUCB-SDP-Vec", dim=5, horizon=20_000, epsilon=1.0, delta=1e-5)`."""
    if name not in ALGORITHMS:
        raise InvalidArgument("name", name, "one of " + ", ".join(ALGORITHMS))
    try:
        return ALGORITHMS[name].make(**arguments)
    except TypeError as error:
        raise InvalidArgument("arguments", sorted(arguments), f"those of {name}: {error}") from None
