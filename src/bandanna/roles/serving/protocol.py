"""Connections that cannot be held open for nothing: bounds that uvicorn's protocol does not have."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bandanna.roles.serving.bodies import LINGER_BYTES
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.responses import canonical

_FRAMING = 8  # bytes on the wire for one of a body in chunks, at most


class Connection(HttpToolsProtocol):
    """One connection. `expire` is called about once a second, so that no request pays for a timer."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Its first request is awaited from now on."""
        self.taken = 0  # bytes of this request
        self.heading = True  # its headers are not complete
        self.begun: float | None = self.loop.time()  # None: a whole request is here, or none has begun
        self.stuck: float | None = None  # since when the client does not read
        self.closing: float | None = None
        self.upgraded = False  # the client speaks something else from here on
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Some bytes; what came before them counts too."""
        if self.upgraded:
            return
        self.taken += len(data)
        super().data_received(data)
        if self.taken > self.limits.head and not self.transport.is_closing():
            if self.heading and self.begun is not None:
                self.refuse(431, "head-too-large")
            elif self.taken > self.limits.head + _FRAMING * (self.limits.body + LINGER_BYTES):
                self.abort()

    def on_message_begin(self) -> None:
        """A request begins."""
        self.taken, self.heading, self.begun = 0, True, self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are here."""
        super().on_headers_complete()
        self.heading = False
        if self.parser.should_upgrade():  # this request is answered, and nothing after it is HTTP
            self.cycle.keep_alive, self.upgraded = False, True

    def on_message_complete(self) -> None:
        """All of it is here."""
        self.begun = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read."""
        self.stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does."""
        self.stuck = None
        super().resume_writing()

    def expire(self, now: float) -> None:
        """End what takes too long."""
        if self.transport.is_closing():
            self.closing = self.closing or now
        waits = [since for since in (self.stuck, self.closing) if since is not None]
        if any(now - since > self.limits.seconds for since in waits):
            self.abort()
        elif self.begun is None or self.closing is not None:
            return
        elif self.heading and self.limits.slow(self.taken, now - self.begun):
            self.refuse(408, "slow")
        elif now - self.begun > 2 * self.limits.seconds + 1:  # refused long ago, and still sending
            self.abort()

    def half_open(self, now: float) -> bool:
        """Whether the head of a request has been awaited for a second, and is not complete."""
        return self.begun is not None and self.heading and now - self.begun > 1 and not self.transport.is_closing()

    def abort(self) -> None:
        """Close now, and let the kernel forget what was not taken."""
        own = self.transport.get_extra_info("socket")
        with suppress(OSError, AttributeError):  # closed already
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        self.refuse(400, "malformed")

    def refuse(self, status: int, reason: str) -> None:
        """Answer and close; in the midst of other answers only close, so that none is taken for another's."""
        self.tell(reason)
        cycle = self.cycle
        own = self.begun is not None and not self.heading  # what is wrong is the body of the request in `cycle`
        if cycle is None or cycle.response_complete or (own and not cycle.response_started):
            self.transport.write(_answers[status, reason])
        self.transport.close()

    @staticmethod
    def tell(reason: str) -> None:
        """Count a refusal."""


def bounded(limits: Limits, refused: Callable[[str], None] | None) -> type[Connection]:
    """Connections with these limits."""
    members: dict[str, Any] = {"limits": limits}
    if refused is not None:
        members["tell"] = staticmethod(refused)
    return type("Bounded", (Connection,), members)


def _answer(status: int, reason: str) -> bytes:
    known = HTTPStatus(status)
    body = canonical({"error": known.phrase.lower(), "reason": reason})
    head = f"HTTP/1.1 {status} {known.phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return (
        head.encode()
        + b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
        + body
    )


_answers = {pair: _answer(*pair) for pair in ((400, "malformed"), (408, "slow"), (431, "head-too-large"))}
