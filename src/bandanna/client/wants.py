"""What the steps of a session want of whoever takes them: a request sent, a ticket, some time; and how that fails."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from bandanna.errors import BandannaError


class Unreachable(BandannaError):
    """Somebody does not answer; what was to be sent is kept."""


class NoTicket(BandannaError):
    """The host gives this user no ticket (any more)."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Wants (status, headers in lower case, body); `role`: who is asked, for errors, which name no address."""

    role: str
    method: str
    url: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TicketWanted:
    """Wants a ticket for an epoch; `refused`: [epoch, slot, proof] of slots of this user that were not used."""

    epoch: int
    refused: tuple[tuple[int, bytes, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Wants some seconds to pass; answered with whether there is patience for it."""

    seconds: float


Want = Request | TicketWanted | Pause
Steps = Generator[Want, Any, Any]
