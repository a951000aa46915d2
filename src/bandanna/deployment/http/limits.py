"""Limits of request bodies, time, requests in flight and connections."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bandanna import validation
from bandanna.deployment.http.routes import (
    OTHERS,
    PEERS,
    UPLOADS,
    WAITERS,
    RequestRefused,
    encode_canonical,
    make_busy_refusal,
)
from bandanna.errors import InvalidArgument, raise_without_context

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive


# Limits


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of what clients can use: sizes in bytes, times in seconds.

    A client beyond them is answered 413 (`body`), 431 (`head`), 408 (`seconds`, `rate`) or 503 with Retry-After
    (`uploads`, `peers`, `others`, `memory`, `unfinished`). A connection ends if answers are not read for `seconds`, or
    if it is idle for `idle`.
    """

    body: int = 1 << 20  # of one request
    head: int = 1 << 16  # request line and headers
    memory: int = 1 << 26  # all bodies of a class
    uploads: int = 512  # uploads in flight
    waiters: int = 256  # requests that wait for a change
    peers: int = 64  # requests of other roles in flight
    others: int = 192  # all other requests in flight
    unfinished: int = 16  # bodies of one address that are not complete; four times as many heads
    rate: int = 2000  # bytes a second of a request, after `patience`
    patience: float = 3.0
    seconds: float = 10.0  # to send a request, or to take an answer
    drain: float = 10.0  # for requests that run when the server is told to stop
    idle: float = 65.0  # between two requests of a connection: longer than proxies keep theirs
    threads: int = 8  # for blocking calls

    def __post_init__(self) -> None:
        whole = ("body", "head", "memory", "uploads", "waiters", "peers", "others", "unfinished", "rate", "threads")
        validation.set_validated(self, validation.integer, *whole)
        validation.set_validated(self, validation.positive, "patience", "seconds", "drain", "idle")

    def is_too_slow(self, received: int, seconds: float) -> bool:
        """Return whether a request with so many bytes in so many seconds is too slow."""
        return seconds > self.seconds or (seconds - self.patience) * self.rate > received


# Bodies of requests


_WATCH_SECONDS = 0.1  # between two checks of deadlines
_LINGER_SECONDS = 2.0  # in which a refused client may still send, so that it reads the answer
LINGER_BYTES = 1 << 20  # and how much; the connection of a client that sends more may be reset


class ClientGone(Exception):
    """The client left before it had sent everything."""


@dataclass(slots=True)
class _IncompleteBody:
    begun: float
    received: int = 0


class BodyReader:
    """Reads bodies. One watcher checks all deadlines, since a timer for each would cost more than a read."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._reading: dict[asyncio.Task[Any], _IncompleteBody] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._unfinished: dict[str, int] = {}  # incomplete bodies by address

    async def read(
        self, receive: Receive, headers: dict[bytes, bytes], places: AdmissionControl, kind: str, address: str | None
    ) -> bytes:
        """Return a body; raise RequestRefused (413, 408, 503) or ClientGone.

        The caller subtracts its bytes from `places.memory[kind]` after the request.
        """
        length = headers.get(b"content-length")
        if length is None:
            if b"transfer-encoding" not in headers:
                return b""
        elif int(length) > self.limits.body:
            raise RequestRefused(413, "too-large", limit=self.limits.body)
        unfinished = 0 if address is None else self._unfinished.get(address, 0)
        if unfinished >= self.limits.unfinished:
            close = [(b"connection", b"close")]  # the rest of the body is not read
            raise RequestRefused(503, "unfinished", retry_after=1.0, headers=close)
        task = asyncio.current_task()
        assert task is not None
        reading = self._reading[task] = _IncompleteBody(asyncio.get_running_loop().time())
        if address is not None:
            self._unfinished[address] = unfinished + 1
        try:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                return self._count(message.get("body", b""), places, kind)
            return await self._read_rest(receive, message, reading, places, kind)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise RequestRefused(408, "slow") from None
        finally:
            del self._reading[task]
            self._late.discard(task)
            if address is not None:
                self._unfinished[address] -= 1
                if not self._unfinished[address]:
                    del self._unfinished[address]

    def _count(self, body: bytes, places: AdmissionControl, kind: str) -> bytes:
        if len(body) > self.limits.body:
            raise RequestRefused(413, "too-large", limit=self.limits.body)
        if places.memory[kind] + len(body) > self.limits.memory:
            raise make_busy_refusal()
        places.memory[kind] += len(body)
        return body

    async def _read_rest(
        self, receive: Receive, message: Any, reading: _IncompleteBody, places: AdmissionControl, kind: str
    ) -> bytes:
        body = bytearray()
        try:
            while message["type"] == "http.request":
                body += self._count(message.get("body", b""), places, kind)
                reading.received = len(body)
                if len(body) > self.limits.body:
                    raise RequestRefused(413, "too-large", limit=self.limits.body)
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
            raise ClientGone
        except BaseException:
            places.memory[kind] -= len(body)
            raise

    async def watch(self) -> None:
        """Cancel requests that are sent too slowly."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = loop.time()
            for task, reading in list(self._reading.items()):
                if task not in self._late and self.limits.is_too_slow(reading.received, now - reading.begun):
                    self._late.add(task)
                    task.cancel()

    async def linger(self, receive: Receive) -> None:
        """Read and ignore the rest for a moment: closing with unread bytes would lose the answer."""
        left = LINGER_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while left > 0:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))


def parse_json_body(body: bytes) -> Any:
    """Return a client's JSON; refuse duplicate keys, NaN and other text with status 400."""

    def refuse_constant(_: str) -> Any:
        raise ValueError

    def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        return json.loads(body, object_pairs_hook=build_object, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise_without_context(RequestRefused(400, "json"))  # the other error holds the body


# Requests in flight


ADMITTED_REQUEST = "bandanna.place"  # a key of the scope


class AdmissionControl:
    """The requests in flight of one listener, and the bytes of their bodies, by class."""

    def __init__(self, limits: Limits) -> None:
        self.most = {UPLOADS: limits.uploads, WAITERS: limits.waiters, PEERS: limits.peers, OTHERS: limits.others}
        self.taken = dict.fromkeys(self.most, 0)
        self.memory = dict.fromkeys(self.most, 0)


class AdmittedRequest:
    """One request in flight, which can change its class; it is refused (503) if its class is full."""

    def __init__(self, places: AdmissionControl, kind: str) -> None:
        self._places, self.kind = places, kind
        if not self._enter(kind):
            raise make_busy_refusal()

    def _enter(self, kind: str) -> bool:
        free = self._places.taken[kind] < self._places.most[kind]
        self._places.taken[kind] += free
        return free

    def change(self, kind: str) -> bool:
        """Move to another class; return False if that is full."""
        moved = self._enter(kind)
        if moved:
            self.leave()
            self.kind = kind
        return moved

    def leave(self) -> None:
        self._places.taken[self.kind] -= 1


class ChangeNotifier:
    """Wakes the requests that wait for a change."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._over = False

    def notify(self) -> None:
        """Let all waiters check again. Callable in any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Let all waiters return, now and later; called on the loop."""
        self._over = True
        self._wake()

    async def wait(self, request: Request, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait at most `seconds` until something is reached; return whether it is.

        Return False at once if the class of waiters is full; raise ClientGone if the client leaves.
        """
        if reached():
            return True
        place: AdmittedRequest | None = request.scope.get(ADMITTED_REQUEST)
        if seconds <= 0 or self._over or (place is not None and not place.change(WAITERS)):
            return False
        self._loop = asyncio.get_running_loop()
        left = asyncio.ensure_future(_wait_until_disconnected(request.receive))
        try:
            async with asyncio.timeout(seconds):
                while not reached() and not self._over:
                    waiter: asyncio.Future[None] = self._loop.create_future()
                    self._waiters.add(waiter)
                    try:
                        await asyncio.wait({waiter, left}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        self._waiters.discard(waiter)
                    if left.done():
                        raise ClientGone
        except TimeoutError:
            return reached()
        finally:
            left.cancel()
        return reached()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


async def _wait_until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Listeners


OUTSIDE, AMONG, INSIDE = "outside", "among", "inside"  # listeners for clients, for other roles, for the operator
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_CACHED_HOSTS = 64  # pairs of a Host header and an address that were accepted
_MAPPED = "::ffff:"


def host_from_url(url: str) -> str:
    """Return the host name in a URL; "" without one."""
    return urlsplit(url).hostname or ""


class Listeners:
    """The listeners of a process, and the hosts and proxies that they accept."""

    def __init__(self, names: Iterable[str], limits: Limits) -> None:
        self._names = {_check_host_name(name) for name in names if name}
        self._accepted: set[tuple[bytes, str]] = set()
        self._proxies: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._kinds: dict[int, str] = {}
        self.kinds = frozenset({OUTSIDE})
        self.places = {kind: AdmissionControl(limits) for kind in (OUTSIDE, AMONG, INSIDE)}

    def open(self, kinds: dict[int, str], *, names: Iterable[str] = (), proxies: Iterable[str] = ()) -> None:
        """Set the listener of each port, and add host names and proxies.

        Ports that are not in `kinds` are `OUTSIDE`. The `X-Forwarded-For` of `proxies`, addresses or networks, is
        believed. A request of theirs without that header has no address, and no limits of an address.
        """
        self._kinds, self.kinds = dict(kinds), frozenset({OUTSIDE, *kinds.values()})
        self._names |= {_check_host_name(name) for name in names}
        self._proxies = [_parse_network(each) for each in proxies]
        self._accepted.clear()

    def find(self, scope: Any) -> str:
        server = scope.get("server")
        return self._kinds.get(server[1], OUTSIDE) if self._kinds and server else OUTSIDE

    def check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Refuse (421) a request for another host: a web page may have bound its name to this address."""
        host, server = headers.get(b"host", b""), scope.get("server")
        asked = host, "" if server is None else server[0]
        if asked in self._accepted:
            return
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        name = "" if found is None else (found[1] or found[2].removesuffix("."))
        own = asked[1].lower().removeprefix(_MAPPED)
        if not name or not (name in self._names or name == own or (name in _LOOPBACK and _is_loopback(own))):
            raise RequestRefused(421, "host")
        if len(self._accepted) < _CACHED_HOSTS:
            self._accepted.add(asked)

    def client(self, host: str, headers: dict[bytes, bytes] | None = None) -> str | None:
        """Return the address of a client, or its network for IPv6; None if a proxy does not say it."""
        if not self._proxies or not self._is_proxy(host):
            return _address_key(host)
        forwarded = b"" if headers is None else headers.get(b"x-forwarded-for", b"")
        for each in reversed(forwarded.decode("latin-1").split(",")):
            address = each.strip()
            if address and not self._is_proxy(address):
                return _address_key(address)
        return None

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.removeprefix(_MAPPED))
        except ValueError:
            return False
        return any(address in network for network in self._proxies)


def _address_key(host: str) -> str:
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or int(address) >> 64)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_host_name(name: str) -> str:
    text = name.strip("[]").lower()
    if not re.fullmatch(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}", text):
        raise InvalidArgument("--host-name", name, "a host name or address, without scheme and port")
    return text.removesuffix(".")


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        allowed = "an address or a network of addresses, such as 10.0.0.7 or 10.0.0.0/24"
        raise InvalidArgument("--proxy", text, allowed) from None


# Connections


_FRAMING = 8  # most bytes on the wire for one byte of a body in chunks


class LimitedConnection(HttpToolsProtocol):
    """One connection. `expire` is called about once a second."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.received = 0  # bytes of this request
        self.heading = True  # its headers are not complete
        self.begun: float | None = self.loop.time()  # None: a whole request is here, or none has begun
        self.stuck: float | None = None  # since when the client does not read
        self.closing: float | None = None
        self.upgraded = False  # the client speaks something else from here on
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Count bytes and refuse a request that is too large."""
        if self.upgraded:
            return
        self.received += len(data)
        super().data_received(data)
        if self.received > self.limits.head and not self.transport.is_closing():
            if self.heading and self.begun is not None:
                self.refuse(431, "head-too-large")
            elif self.received > self.limits.head + _FRAMING * (self.limits.body + LINGER_BYTES):
                self.abort()

    def on_message_begin(self) -> None:
        self.received, self.heading, self.begun = 0, True, self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.heading = False
        if self.parser.should_upgrade():  # this request is answered, and nothing after it is HTTP
            self.cycle.keep_alive, self.upgraded = False, True

    def on_message_complete(self) -> None:
        self.begun = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        self.stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stuck = None
        super().resume_writing()

    def expire(self, now: float) -> None:
        """Close the connection if a request or an answer takes too long."""
        if self.transport.is_closing():
            self.closing = self.closing or now
        waits = [since for since in (self.stuck, self.closing) if since is not None]
        if any(now - since > self.limits.seconds for since in waits):
            self.abort()
        elif self.begun is None or self.closing is not None:
            return
        elif self.heading and self.limits.is_too_slow(self.received, now - self.begun):
            self.refuse(408, "slow")
        elif now - self.begun > 2 * self.limits.seconds + 1:  # refused long ago, and still sending
            self.abort()

    def is_half_open(self, now: float) -> bool:
        """Return whether a request's head has been incomplete for a second."""
        return self.begun is not None and self.heading and now - self.begun > 1 and not self.transport.is_closing()

    def abort(self) -> None:
        """Close at once and drop what was not sent."""
        own = self.transport.get_extra_info("socket")
        with suppress(OSError, AttributeError):  # closed already
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "malformed")

    def refuse(self, status: int, reason: str) -> None:
        """Answer and close; while other answers are due, only close: none may be taken for another one's."""
        self.count_refusal(reason)
        cycle = self.cycle
        own = self.begun is not None and not self.heading  # the fault is in the body of `cycle`
        if cycle is None or cycle.response_complete or (own and not cycle.response_started):
            self.transport.write(_answers[status, reason])
        self.transport.close()

    @staticmethod
    def count_refusal(reason: str) -> None:
        """Count a refusal by its reason."""


def make_connection_class(limits: Limits, refused: Callable[[str], None]) -> type[LimitedConnection]:
    """Return a class of connections with these limits; `refused` counts refusals."""
    members: dict[str, Any] = {"limits": limits, "count_refusal": staticmethod(refused)}
    return type("Bounded", (LimitedConnection,), members)


def _error_response(status: int, reason: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    body = encode_canonical({"error": phrase.lower(), "reason": reason})
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    safety = "x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    return f"{head}{safety}".encode() + body


_answers = {pair: _error_response(*pair) for pair in ((400, "malformed"), (408, "slow"), (431, "head-too-large"))}
