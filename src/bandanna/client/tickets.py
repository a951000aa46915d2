"""Where a host's server gets its users' tickets. A device never has the registrar's token: it asks its host."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bandanna.client.leaflet import Leaflet
from bandanna.client.wants import NoTicket, Request, TicketWanted, Unreachable
from bandanna.errors import InvalidArgument, InvalidStatistic, Unreadable, raise_alone
from bandanna.wire.answers import Ticket, ticket_of
from bandanna.wire.canonical import dumps, loads, packed

Refused = Sequence[tuple[int, bytes, bytes]]
Tickets = Callable[[int, Refused], Any] | Callable[[int, Refused], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Registrar:
    """For a session on the host's server, which has logged the user in.

    user   the host's name of the user, 1 to 200 characters; the registrar keeps a keyed hash of it
    token  of the registrar's secrets (`registrar.secret.json`)
    """

    user: str
    token: str

    def __post_init__(self) -> None:
        if not isinstance(self.user, str) or not 0 < len(self.user) <= 200:
            raise InvalidStatistic("user", self.user, "a text of 1 to 200 characters")
        if not isinstance(self.token, str) or not re.fullmatch(r"[!-~]+", self.token):
            raise InvalidArgument("token", "...", "that of registrar.secret.json: visible ASCII, and not empty")

    def __repr__(self) -> str:
        return "Registrar(...)"  # neither the name nor the token belongs into a log

    def request(self, leaflet: Leaflet, wanted: TicketWanted) -> Request:
        """What to ask the registrar."""
        asked: dict[str, Any] = {"user": self.user, "epoch": wanted.epoch}
        if wanted.refused:
            asked["refused"] = [[epoch, packed(slot), packed(proof)] for epoch, slot, proof in wanted.refused]
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        url = f"{leaflet.url('registrar')}/tickets"
        content = dumps({"tickets": [asked]})
        return Request(role="registrar", method="POST", url=url, content=content, headers=headers)

    def answered(self, status: int, content: bytes) -> Ticket:
        """What it has answered."""
        if status in (200, 409, 429):
            told = loads(content)
            (each,) = told["tickets"] if isinstance(told, dict) and len(told.get("tickets", ())) == 1 else (None,)
            if isinstance(each, Mapping) and "refused" in each:
                raise NoTicket(str(each["refused"]))
            return ticket_of(each)
        if status == 401:
            raise InvalidArgument("token", "...", "that of the task's registrar")
        raise Unreachable(f"the registrar answers {status}")


def as_ticket(given: Any) -> Ticket:
    """What a host's own function has returned: a Ticket, or what the registrar said, as a dictionary."""
    if isinstance(given, Ticket):
        return given
    if given is None:
        raise NoTicket("ticket")
    if isinstance(given, Mapping) and "refused" in given:
        raise NoTicket(str(given["refused"]))
    try:
        return ticket_of(given)
    except Unreadable as error:
        raise_alone(InvalidStatistic("tickets", given, str(error)))
