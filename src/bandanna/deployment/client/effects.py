"""Requests, tickets and pauses that a client asks its driver for, and the decisions that users get."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field
from typing import Any

from bandanna.errors import BandannaError

# Effects


class Unreachable(BandannaError):
    """A role does not answer; what was to be sent is kept."""


class NoTicket(BandannaError):
    """The host gives this user no ticket (any more)."""


@dataclass(frozen=True, kw_only=True)
class SendRequest:
    """Ask for (status, headers in lower case, body); errors name the `role`, and no address."""

    role: str
    method: str
    url: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GetTicket:
    """Ask for a ticket of an epoch; `refused`: (epoch, slot, proof) of slots of this user that were not used."""

    epoch: int
    refused: tuple[tuple[int, bytes, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """Ask for a pause; the answer says whether there was patience for it."""

    seconds: float


Effect = SendRequest | GetTicket | Sleep
EffectSteps = Generator[Effect, Any, Any]


# Results


@dataclass(frozen=True, kw_only=True)
class ClientDecision:
    """The arm that a user is given.

    arm          its id;   action: its number
    publication  on which it was decided
    taking_part  whether its reward will be asked for: `report` it, whenever it comes
    reason       why not: "finished", "exhausted", "participations", "ticket", "full", "stale", "closed"; "" if it does
    """

    id: str
    arm: Hashable
    action: int
    publication: int
    taking_part: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The fate of a report: kept by the collector; or pending in the outbox until `flush`; or neither, and why."""

    kept: bool = False
    pending: bool = False
    reason: str = ""
