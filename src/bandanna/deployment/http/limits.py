"""Limits of bodies, time, places and connections."""

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
from bandanna.deployment.http.requests import (
    OTHERS,
    PEERS,
    UPLOADS,
    WAITERS,
    RequestRefused,
    RequestTooSlow,
    TooManyUnfinished,
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
    """Bounds on what strangers can cost: sizes in bytes, times in seconds.

    Beyond them a client is answered 413 (`body`), 431 (`head`), 408 (`seconds`, `rate`) or 503 with Retry-After
    (`uploads`, `peers`, `others`, `held`, `unfinished`); one that does not read its answers is cut off after
    `seconds`, an idle connection after `idle`. Each class of requests has places of its own.
    """

    body: int = 1 << 20  # of one request
    head: int = 1 << 16  # request line and headers
    held: int = 1 << 26  # of all bodies of a class in memory
    uploads: int = 512  # uploads in flight
    waiters: int = 256  # requests that wait for news
    peers: int = 64  # requests of other roles in flight
    others: int = 192  # all other requests in flight
    unfinished: int = 16  # bodies of one address that are not complete; four times as many heads
    rate: int = 2000  # bytes a second of a request, after `patience`
    patience: float = 3.0
    seconds: float = 10.0  # to send a request, or to take an answer
    drain: float = 10.0  # for requests that run when the server is told to stop
    idle: float = 65.0  # between two requests of a connection: longer than proxies keep theirs
    threads: int = 8  # for what blocks

    def __post_init__(self) -> None:
        """Every bound is positive; times may be fractions."""
        whole = ("body", "head", "held", "uploads", "waiters", "peers", "others", "unfinished", "rate", "threads")
        validation.set_validated(self, validation.integer, *whole)
        validation.set_validated(self, validation.positive, "patience", "seconds", "drain", "idle")

    def slow(self, taken: int, seconds: float) -> bool:
        """Whether a request of which so many bytes came in so many seconds is not waited for any more.

        Parameters
        ----------
        taken : int
            Bytes that came.
        seconds : float
            Seconds since its first byte was awaited.

        Returns
        -------
        bool
            True if it is slower than `rate` after `patience`, or takes longer than `seconds`.
        """
        return seconds > self.seconds or (seconds - self.patience) * self.rate > taken


# Bodies of requests


_TICK = 0.1  # seconds between two looks at the clock
_LINGER = 2.0  # seconds in which a refused client may still send, so that it reads why
LINGER_BYTES = 1 << 20  # and how much; a client that sends more before it reads may find the connection reset


class ClientGone(Exception):
    """The client left before it had sent everything."""


class _IncompleteBody:
    """A body that is not complete."""

    __slots__ = ("begun", "taken")

    def __init__(self, begun: float) -> None:
        self.begun, self.taken = begun, 0


class BodyReader:
    """Reads bodies. Deadlines are kept by one watcher for all of them: a timer for each would cost more than a read."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._reading: dict[asyncio.Task[Any], _IncompleteBody] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._unfinished: dict[str, int] = {}  # bodies that are not complete, by address: never more than limits allow

    async def read(
        self, receive: Receive, headers: dict[bytes, bytes], places: AdmissionControl, kind: str, address: str | None
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
            raise RequestRefused(413, "too-large", limit=self.limits.body)
        unfinished = 0 if address is None else self._unfinished.get(address, 0)
        if unfinished >= self.limits.unfinished:
            raise TooManyUnfinished()
        task = asyncio.current_task()
        assert task is not None
        reading = self._reading[task] = _IncompleteBody(asyncio.get_running_loop().time())
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
            raise RequestTooSlow() from None
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

    def _whole(self, body: bytes, places: AdmissionControl, kind: str) -> bytes:
        if len(body) > self.limits.body:
            raise RequestRefused(413, "too-large", limit=self.limits.body)
        if places.held[kind] + len(body) > self.limits.held:
            raise make_busy_refusal()
        places.held[kind] += len(body)
        return body

    async def _rest(
        self, receive: Receive, message: Any, reading: _IncompleteBody, places: AdmissionControl, kind: str
    ) -> bytes:
        body = bytearray()
        try:
            while message["type"] == "http.request":
                body += self._whole(message.get("body", b""), places, kind)
                reading.taken = len(body)
                if len(body) > self.limits.body:
                    raise RequestRefused(413, "too-large", limit=self.limits.body)
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
            raise ClientGone
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


def parse_json_body(body: bytes) -> Any:
    """A client's JSON: no duplicate keys, no NaN; anything else is refused with 400."""
    try:
        return json.loads(body, object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse_nan)
    except (ValueError, RecursionError):
        raise_without_context(RequestRefused(400, "json"))  # the other error holds the body


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) < len(pairs):
        raise ValueError
    return known


def _refuse_nan(_: str) -> Any:
    raise ValueError


# Places of requests


ADMITTED_REQUEST = "bandanna.place"  # of a scope


class AdmissionControl:
    """Requests in flight that came by one listener, and the bytes of their bodies, by class."""

    def __init__(self, limits: Limits) -> None:
        self.most = {
            UPLOADS: limits.uploads,
            WAITERS: limits.waiters,
            PEERS: limits.peers,
            OTHERS: limits.others,
        }
        self.taken = dict.fromkeys(self.most, 0)
        self.held = dict.fromkeys(self.most, 0)

    def take(self, kind: str) -> None:
        """One place; Refused (503) if all of the class are taken."""
        if self.taken[kind] >= self.most[kind]:
            raise make_busy_refusal()
        self.taken[kind] += 1

    def leave(self, kind: str) -> None:
        """Free the place for the next request."""
        self.taken[kind] -= 1


class AdmittedRequest:
    """The place of one request, which may be changed for one of another class."""

    def __init__(self, places: AdmissionControl, kind: str) -> None:
        places.take(kind)
        self._places, self.kind = places, kind

    def change(self, kind: str) -> bool:
        """Take a place of another class instead; False if there is none."""
        if self._places.taken[kind] >= self._places.most[kind]:
            return False
        self._places.leave(self.kind)
        self._places.take(kind)
        self.kind = kind
        return True

    def leave(self) -> None:
        """Free the place for the next request."""
        self._places.leave(self.kind)


class ChangeNotifier:
    """Wakes the requests that wait for something. `ring` may be called in any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._over = False

    def notify(self) -> None:
        """Let all waiters look again."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Nobody waits any more; called on the loop."""
        self._over = True
        self._wake()

    async def wait(self, request: Request, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is reached, in a place of the class of waiters.

        Parameters
        ----------
        request : Request
            Whose client waits.
        reached : Callable[[], bool]
            What is waited for; asked at first, and whenever the bell has rung.
        seconds : float
            How long.

        Returns
        -------
        bool
            Whether it was reached. False also at once if all places are taken. Raises Gone if the client left.
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
                    await self._next(left)
        except TimeoutError:
            return reached()
        finally:
            left.cancel()
        return reached()

    async def _next(self, left: asyncio.Future[None]) -> None:
        assert self._loop is not None
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait({waiter, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(waiter)
        if left.done():
            raise ClientGone

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


async def _wait_until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Listeners


OUTSIDE, AMONG, INSIDE = "outside", "among", "inside"  # for everybody, for other roles, for the operator
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_KEPT = 64  # values of Host, and addresses that were asked under them, that are known to be right
_MAPPED = "::ffff:"


def host_from_url(url: str) -> str:
    """The name by which a role is asked for at this address; "" without one."""
    return urlsplit(url).hostname or ""


class Listeners:
    """The listeners of a process, and who may come by them.

    Parameters
    ----------
    names : Iterable[str]
        Host names under which the role is served, beside the addresses of its own machine.
    limits : Limits
        How many places each listener has.
    """

    def __init__(self, names: Iterable[str], limits: Limits) -> None:
        self._names = {_check_host_name(name) for name in names if name}
        self._right: set[tuple[bytes, str]] = set()
        self._proxies: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._kinds: dict[int, str] = {}
        self.kinds = frozenset({OUTSIDE})
        self.places = {kind: AdmissionControl(limits) for kind in (OUTSIDE, AMONG, INSIDE)}

    def open(self, kinds: dict[int, str], *, names: Iterable[str] = (), proxies: Iterable[str] = ()) -> None:
        """Say which port is which listener, which more names there are, and which proxies are believed.

        Parameters
        ----------
        kinds : dict[int, str]
            The listener of each port; others are for everybody.
        names : Iterable[str]
            More host names.
        proxies : Iterable[str]
            Addresses or networks whose `X-Forwarded-For` is believed; without it they are bounded by nothing here.
        """
        self._kinds, self.kinds = dict(kinds), frozenset({OUTSIDE, *kinds.values()})
        self._names |= {_check_host_name(name) for name in names}
        self._proxies = [_parse_network(each) for each in proxies]
        self._right.clear()

    def door(self, scope: Any) -> str:
        """Name the listener on which a request arrived, so that its rules apply."""
        server = scope.get("server")
        return self._kinds.get(server[1], OUTSIDE) if self._kinds and server else OUTSIDE

    def check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Refuse (421) who asks for a host that is not ours: a page whose name was bound to our address."""
        host, server = headers.get(b"host", b""), scope.get("server")
        asked = host, "" if server is None else server[0]
        if asked in self._right:
            return
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        name = "" if found is None else (found[1] or found[2].removesuffix("."))
        own = asked[1].lower().removeprefix(_MAPPED)
        if not name or not (name in self._names or name == own or (name in _LOOPBACK and _is_loopback(own))):
            raise RequestRefused(421, "host")
        if len(self._right) < _KEPT:
            self._right.add(asked)

    def client(self, host: str, headers: dict[bytes, bytes] | None = None) -> str | None:
        """From which address a request comes, or network of IPv6; None if a proxy does not say it.

        Parameters
        ----------
        host : str
            The address of the other end of the connection.
        headers : dict[bytes, bytes] or None
            The request's; None before they are known.

        Returns
        -------
        str or None
            A key that is kept only as long as the request is not complete.
        """
        if not self._proxies or not self._trusted(host):
            return _address_key(host)
        told = b"" if headers is None else headers.get(b"x-forwarded-for", b"")
        for each in reversed(told.decode("latin-1").split(",")):
            address = each.strip()
            if address and not self._trusted(address):
                return _address_key(address)
        return None

    def _trusted(self, host: str) -> bool:
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


_FRAMING = 8  # bytes on the wire for one of a body in chunks, at most


class LimitedConnection(HttpToolsProtocol):
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


def make_connection_class(limits: Limits, refused: Callable[[str], None] | None) -> type[LimitedConnection]:
    """Connections with these limits."""
    members: dict[str, Any] = {"limits": limits}
    if refused is not None:
        members["tell"] = staticmethod(refused)
    return type("Bounded", (LimitedConnection,), members)


def _error_response(status: int, reason: str) -> bytes:
    known = HTTPStatus(status)
    body = encode_canonical({"error": known.phrase.lower(), "reason": reason})
    head = f"HTTP/1.1 {status} {known.phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return (
        head.encode()
        + b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
        + body
    )


_answers = {pair: _error_response(*pair) for pair in ((400, "malformed"), (408, "slow"), (431, "head-too-large"))}
