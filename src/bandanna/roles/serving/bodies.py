"""Bodies of requests, read within limits: of size, of time, and of memory for all of them together."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.refusals import Late, Refused, busy

if TYPE_CHECKING:
    from starlette.types import Receive

_TICK = 0.1  # seconds between two looks at the clock
_LINGER = 2.0  # seconds in which a refused client may still send, so that it reads why
LINGER_BYTES = 1 << 20  # and how much; a client that sends more before it reads may find the connection reset


class Gone(Exception):
    """The client left before it had sent everything."""


class Bodies:
    """Reads bodies. Deadlines are kept by one watcher for all of them: a timer for each would cost more than a read."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0  # bytes, of all requests in flight
        self._reading: dict[asyncio.Task[Any], float] = {}  # deadlines, in the order in which they come
        self._late: set[asyncio.Task[Any]] = set()

    async def read(self, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        """One body; raises Refused (413, 408, 503) or Gone. The caller gives `held` back when it is done with it."""
        length = headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" not in headers:
                return b""
        elif int(length) > self.limits.body:
            raise Refused(413, "too-large", limit=self.limits.body)
        task = asyncio.current_task()
        assert task is not None
        self._reading[task] = asyncio.get_running_loop().time() + self.limits.seconds
        try:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                return self._whole(message.get("body", b""))
            return await self._rest(receive, message)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise Late() from None
        finally:
            del self._reading[task]
            self._late.discard(task)

    def _whole(self, body: bytes) -> bytes:
        if len(body) > self.limits.body:
            raise Refused(413, "too-large", limit=self.limits.body)
        if self.held + len(body) > self.limits.held:
            raise busy()
        self.held += len(body)
        return body

    async def _rest(self, receive: Receive, message: Any) -> bytes:
        body = bytearray()
        try:
            while message["type"] == "http.request":
                body += self._whole(message.get("body", b""))
                if len(body) > self.limits.body:
                    raise Refused(413, "too-large", limit=self.limits.body)
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
            raise Gone
        except BaseException:
            self.held -= len(body)
            raise

    async def watch(self) -> None:
        """Wake who has waited too long; runs as long as the application does."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK)
            now = loop.time()
            for task, deadline in list(self._reading.items()):
                if deadline > now:
                    break
                if task not in self._late:
                    self._late.add(task)
                    task.cancel()

    async def linger(self, receive: Receive) -> None:
        """Read on for a moment and forget it: a connection closed on unread bytes takes the answer with it."""
        left = LINGER_BYTES
        try:
            async with asyncio.timeout(_LINGER):
                while left > 0:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))
        except TimeoutError:
            return


def json_of(body: bytes) -> Any:
    """A client's JSON: no duplicate keys, no NaN; anything else is refused with 400."""
    try:
        return json.loads(body, object_pairs_hook=_distinct, parse_constant=_none)
    except (ValueError, RecursionError):
        raise Refused(400, "json") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) < len(pairs):
        raise ValueError
    return known


def _none(_: str) -> Any:
    raise ValueError
