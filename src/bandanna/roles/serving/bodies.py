"""Bodies of requests, read within limits: of size, of time, and of memory for all of them together."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from bandanna.errors import raise_alone
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.refusals import Late, Refused, Unfinished, busy

if TYPE_CHECKING:
    from starlette.types import Receive

    from bandanna.roles.serving.places import Places

_TICK = 0.1  # seconds between two looks at the clock
_LINGER = 2.0  # seconds in which a refused client may still send, so that it reads why
LINGER_BYTES = 1 << 20  # and how much; a client that sends more before it reads may find the connection reset


class Gone(Exception):
    """The client left before it had sent everything."""


class _Reading:
    """A body that is not complete."""

    __slots__ = ("begun", "taken")

    def __init__(self, begun: float) -> None:
        self.begun, self.taken = begun, 0


class Bodies:
    """Reads bodies. Deadlines are kept by one watcher for all of them: a timer for each would cost more than a read."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._reading: dict[asyncio.Task[Any], _Reading] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._unfinished: dict[str, int] = {}  # bodies that are not complete, by address: never more than limits allow

    async def read(
        self, receive: Receive, headers: dict[bytes, bytes], places: Places, kind: str, address: str | None
    ) -> bytes:
        """One body; raises Refused (413, 408, 503) or Gone. The caller gives `held` back when it is done with it.

        Parameters
        ----------
        receive : Receive
            ASGI's.
        headers : dict[bytes, bytes]
            The request's.
        places : Places
            Whose `held` counts the bytes.
        kind : str
            The class of the request.
        address : str or None
            Who sends it; None where nobody is told apart.

        Returns
        -------
        bytes
            All of it.
        """
        length = headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" not in headers:
                return b""
        elif int(length) > self.limits.body:
            raise Refused(413, "too-large", limit=self.limits.body)
        unfinished = 0 if address is None else self._unfinished.get(address, 0)
        if unfinished >= self.limits.unfinished:
            raise Unfinished()
        task = asyncio.current_task()
        assert task is not None
        reading = self._reading[task] = _Reading(asyncio.get_running_loop().time())
        if address is not None:
            self._unfinished[address] = unfinished + 1
        try:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                return self._whole(message.get("body", b""), places, kind)
            return await self._rest(receive, message, reading, places, kind)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise Late() from None
        finally:
            del self._reading[task]
            self._late.discard(task)
            if address is not None:
                self._finish(address)

    def _finish(self, address: str) -> None:
        left = self._unfinished[address] - 1
        if left:
            self._unfinished[address] = left
        else:
            del self._unfinished[address]

    def _whole(self, body: bytes, places: Places, kind: str) -> bytes:
        if len(body) > self.limits.body:
            raise Refused(413, "too-large", limit=self.limits.body)
        if places.held[kind] + len(body) > self.limits.held:
            raise busy()
        places.held[kind] += len(body)
        return body

    async def _rest(self, receive: Receive, message: Any, reading: _Reading, places: Places, kind: str) -> bytes:
        body = bytearray()
        try:
            while message["type"] == "http.request":
                body += self._whole(message.get("body", b""), places, kind)
                reading.taken = len(body)
                if len(body) > self.limits.body:
                    raise Refused(413, "too-large", limit=self.limits.body)
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
            raise Gone
        except BaseException:
            places.held[kind] -= len(body)
            raise

    async def watch(self) -> None:
        """Wake who has waited too long or sends too slowly; runs as long as the application does."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK)
            now = loop.time()
            for task, reading in list(self._reading.items()):
                if task not in self._late and self.limits.slow(reading.taken, now - reading.begun):
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
        raise_alone(Refused(400, "json"))  # the other error holds the body


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) < len(pairs):
        raise ValueError
    return known


def _none(_: str) -> Any:
    raise ValueError
