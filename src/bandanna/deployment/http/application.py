"""The application of a role: lifespan, health and dispatch of requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bandanna import __version__
from bandanna.deployment.http.limits import (
    ADMITTED_REQUEST,
    AMONG,
    INSIDE,
    AdmittedRequest,
    BodyReader,
    ClientGone,
    Limits,
    Listeners,
)
from bandanna.deployment.http.metrics import EventLog, RequestMetrics
from bandanna.deployment.http.requests import (
    CLOSE,
    CORS_HEADERS,
    GUARDED,
    JSON,
    PEERS,
    Headers,
    ProgramError,
    RequestRefused,
    Route,
    RouteTable,
    RouteTarget,
    Upload,
    add_preflight_targets,
    add_security_headers,
    encode_canonical,
    headers_if_unchanged,
    is_guarded,
    json_response,
    locate_error,
    make_busy_refusal,
    run_in_thread,
    set_thread_pool,
    targets_from_routes,
    upload_headers,
)
from bandanna.errors import InvalidArgument

if TYPE_CHECKING:
    from starlette.types import Receive, Send


# Lifespan


_FENCE_CHECK_SECONDS = 1.0  # seconds between two looks at the claim


class ClaimedDatabase(Protocol):
    """A database that one process serves."""

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over."""

    def check_claim(self) -> None:
        """Look whether another process has taken over."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction that can write; it is committed when its block ends."""


class Lifespan:
    """Start and stop a role around everything that is served; `failure` is the exception of either."""

    def __init__(
        self,
        *,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        bodies: BodyReader,
        tallies: RequestMetrics,
        limits: Limits,
        database: Callable[[], ClaimedDatabase | None],
    ) -> None:
        self.failure: Exception | None = None
        self._database = database
        self._start, self._stop = start, stop
        self._bodies, self._tallies, self._limits = bodies, tallies, limits

    async def __call__(self, receive: Receive, send: Send) -> None:
        """Answer ASGI's messages from "lifespan.startup" to "lifespan.shutdown"."""
        await receive()
        threads = set_thread_pool(self._limits.threads)
        watchers = [asyncio.ensure_future(each) for each in (self._bodies.watch(), self._look())]
        try:
            if await self._try("start", self._start):
                await send({"type": "lifespan.startup.complete"})
            else:
                await send({"type": "lifespan.startup.failed"})
                return
            await receive()
            kind = "complete" if await self._try("stop", self._stop) else "failed"
            await send({"type": f"lifespan.shutdown.{kind}"})
        finally:
            for watcher in watchers:
                watcher.cancel()
            threads.shutdown(wait=False)

    @property
    def fenced(self) -> bool:
        """Whether another process serves the role's database: this one answers nothing, and ends."""
        database = self._database()
        return database is not None and database.fenced

    async def _look(self) -> None:
        """Check the claim once a second: a role that only reads, or sleeps, does not notice its loss otherwise."""
        while not self.fenced:
            await asyncio.sleep(_FENCE_CHECK_SECONDS)
            database = self._database()
            if database is not None:
                with suppress(Exception):  # of a database that is away: it says nothing about the claim
                    await run_in_thread(database.check_claim)

    async def _try(self, name: str, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except Exception as error:
            self.failure = error
            self._tallies.log.say(f"{name} failed", level="error", type=type(error).__name__, place=locate_error(error))
            return False
        return True


# Health


_EVERY = 5.0  # seconds between two writes
_PATIENCE = 5.0  # seconds that an answer waits for a write
_STUCK = 30.0  # seconds after which a write that does not end has failed
_WAITING = 64  # answers that wait for it at once: others are given what was known before
_FILLING = "x" * (1 << 16)  # more than a page: a full disk must not have room for it


def write_row(database: ClaimedDatabase) -> None:
    """Write a row and delete it, in one transaction that reaches the disk; raises what the database raises."""
    with database.transaction() as rows:
        rows.execute("insert into about (role, version) values (?, ?)", _FILLING, -1)
        rows.execute("delete from about where version = ?", -1)


class Health:
    """What `GET /readyz` answers.

    Parameters
    ----------
    role : str
        The role's name.
    said : Callable[[], dict[str, Any]]
        What the role says of itself, asked on the loop: with "ok": False, or an exception, it is not well.
    database : Callable[[], Claimed or None]
        Where a row is written, at most once in 5 s: the role is not well if that fails, or if another process has taken
        the database over. None where there is nothing to write to.
    tallies : Tallies
        Told of a write that failed.
    """

    def __init__(
        self,
        role: str,
        said: Callable[[], dict[str, Any]],
        database: Callable[[], ClaimedDatabase | None],
        tallies: RequestMetrics,
    ) -> None:
        self._role, self._said, self._database, self._tallies = role, said, database, tallies
        self._writes, self._waiting = True, 0
        self._begun = -_EVERY  # when the last write began
        self._running: asyncio.Task[None] | None = None

    async def document(self) -> dict[str, Any]:
        """Return all that is known, for the listener inside."""
        database = self._database()
        writes = database is None or await self._has_written(database)
        try:
            document = {"ok": True, **self._said(), "role": self._role}
        except Exception:  # whatever it is, the role is not well
            document = {"ok": False, "role": self._role}
        if database is not None and database.fenced:
            document = {**document, "ok": False, "fenced": True}
        return document if writes else {**document, "ok": False, "writes": False}

    async def _has_written(self, database: ClaimedDatabase) -> bool:
        """Tell whether the last write has worked; write once more if the last one is old."""
        now = asyncio.get_running_loop().time()
        if self._running is None and now - self._begun >= _EVERY:
            self._begun, self._running = now, asyncio.ensure_future(self._try(database))
        if self._running is not None and self._waiting < _WAITING:
            self._waiting += 1
            try:
                await asyncio.wait({self._running}, timeout=_PATIENCE)
            finally:
                self._waiting -= 1
        stuck = self._running is not None and asyncio.get_running_loop().time() - self._begun > _STUCK
        return self._writes and not stuck

    async def _try(self, database: ClaimedDatabase) -> None:
        try:
            await run_in_thread(write_row, database)
            self._writes = True
        except Exception as error:
            self._writes = False
            self._tallies.failed("write failed", error)
        finally:
            self._running = None


# The application


_LIMITS = Limits()
_CUT = frozenset({408, 413})  # the rest of the request is not read: the connection ends with the answer


class Application:
    """The ASGI application of a role; `build_application` makes it."""

    def __init__(
        self,
        *,
        table: RouteTable,
        life: Lifespan,
        tallies: RequestMetrics,
        bodies: BodyReader,
        doors: Listeners,
        token: str | None,
        limits: Limits,
        ending: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.ending = ending
        self.life = life
        self.tallies = tallies
        self.doors = doors
        self._table = table
        self._bodies = bodies
        self._token = None if token is None else _digest(token.encode())

    def fenced(self) -> bool:
        """Tell whether another process serves the role's database."""
        return self.life.fenced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or run the lifespan."""
        if scope["type"] != "http":
            return await self.life(receive, send) if scope["type"] == "lifespan" else None
        begun = time.perf_counter()
        tallies = self.tallies
        headers = dict(scope["headers"])
        target, values = self._table.find(scope["method"], scope["path"])
        tallies.flying += 1
        try:
            self.doors.check(scope, headers)
            answer = self._upload if type(target) is RouteTarget and target.raw else self._other
            status, said, body = await answer(target, values, headers, scope, receive, send)
        except ClientGone:
            status, said, body = 0, [], b""  # nobody is there to be answered
        except (Exception, asyncio.CancelledError) as error:  # cancelled: there was no time left to finish
            status, said, body = self._refuse(error)
        finally:
            tallies.flying -= 1
        if said:
            if type(target) is RouteTarget and target.public:
                said += CORS_HEADERS  # of refusals too: a client must see why
            await send({"type": "http.response.start", "status": status, "headers": said})
            if status >= 400 and CLOSE in said:
                await self._cut(body, receive, send)
            else:
                await send({"type": "http.response.body", "body": body})
        tallies.request(target, status, time.perf_counter() - begun)

    async def _upload(
        self,
        target: Any,
        values: dict[str, str],
        headers: dict[bytes, bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> tuple[int, Headers, bytes]:
        """Answer an upload by the shortest way: bytes in, bytes out."""
        door = self._enter(target, scope, headers)
        if self.life.fenced:
            raise make_busy_refusal("fenced")
        places, kind = self.doors.places[door], target.kind
        places.take(kind)
        try:
            body = await self._bodies.read(receive, headers, places, kind, self._address(scope, headers))
            self.tallies.received += len(body)
            try:
                status, answer, said = await target.handle(body, values, headers)
            finally:
                places.held[kind] -= len(body)
        finally:
            places.leave(kind)
        return status, upload_headers(said, len(answer)), answer

    async def _other(
        self,
        target: RouteTarget | RequestRefused,
        values: dict[str, str],
        headers: dict[bytes, bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> tuple[int, Headers, bytes]:
        """Answer by a handler of Starlette's requests; no headers if the response was sent already."""
        door = self._enter(target, scope, headers)
        if isinstance(target, RequestRefused):
            raise target
        if target.light:
            response = await target.handle(door == INSIDE or self._has_token(headers))
            return self._plain(response, scope["method"], headers)
        if self.life.fenced:
            raise make_busy_refusal("fenced")
        places = self.doors.places[door]
        place = AdmittedRequest(places, target.kind)
        try:
            body = await self._bodies.read(receive, headers, places, target.kind, self._address(scope, headers))
            self.tallies.received += len(body)
            try:
                scope["client"] = None  # no handler learns where a request came from
                scope["path_params"] = values
                scope[ADMITTED_REQUEST] = place
                response = await target.handle(Request(scope, _replay_body(body, receive)))
                if isinstance(getattr(response, "body", None), bytes) and response.background is None:
                    return self._plain(response, scope["method"], headers)
                await response(scope, receive, _send_secured(send, CORS_HEADERS if target.public else []))  # a stream
                return response.status_code, [], b""
            finally:
                places.held[target.kind] -= len(body)
        finally:
            place.leave()

    def _address(self, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        client = scope.get("client")
        return None if client is None else self.doors.client(client[0], headers)

    async def _cut(self, body: bytes, receive: Receive, send: Send) -> None:
        """Answer, then end the connection without reading the rest of the request."""
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await self._bodies.linger(receive)
        await send({"type": "http.response.body", "body": b""})

    def _plain(self, response: Response, method: str, asked: dict[bytes, bytes]) -> tuple[int, Headers, bytes]:
        headers = add_security_headers(response.raw_headers)
        if response.status_code == 200 and method in ("GET", "HEAD"):
            kept = headers_if_unchanged(headers, asked.get(b"if-none-match"))
            if kept is not None:
                return 304, kept, b""
        return response.status_code, headers, bytes(response.body)

    def _refuse(self, error: BaseException) -> tuple[int, Headers, bytes]:
        refused = self.tallies.refusal(error)
        body = encode_canonical(refused.document)
        headers = add_security_headers([JSON, (b"content-length", b"%d" % len(body)), *refused.headers])
        return refused.status, [*headers, CLOSE] if refused.status in _CUT else headers, body

    def _enter(self, target: RouteTarget | RequestRefused, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Return the listener of a request; refuse one that the target does not serve, or without its token."""
        door, path = self.doors.door(scope), scope["path"]
        if type(target) is RouteTarget:
            if door == INSIDE and not (target.inner or is_guarded(path)):
                raise RequestRefused(404, "unknown-path")
            if target.kind == PEERS and not target.keyed and door != AMONG and AMONG in self.doors.kinds:
                raise RequestRefused(404, "unknown-path")
            if target.keyed:
                self._admit(headers)
        if path.startswith(GUARDED) and is_guarded(path) and not (door == INSIDE and path in ("/metrics", "/status")):
            self._admit(headers)
        return door

    def _admit(self, headers: dict[bytes, bytes]) -> None:
        if self._token is None:
            raise RequestRefused(403, "no-admin")
        if not self._has_token(headers):
            raise RequestRefused(401, "token")

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        right = self._token is not None and hmac.compare_digest(_digest(token.strip()), self._token)
        return right and scheme.lower() == b"bearer"


def build_application(
    *,
    role: str,
    routes: Sequence[Route],
    uploads: Mapping[str, Upload] | None = None,
    public: Collection[str] = (),
    peers: Collection[str] = (),
    keyed: Collection[str] = (),
    names: Collection[str] = (),
    start: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
    health: Callable[[], dict[str, Any]],
    status: Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]],
    metrics: CollectorRegistry,
    log: EventLog,
    token: str | None,
    limits: Limits = _LIMITS,
    ending: Callable[[], None] = lambda: None,
    database: Callable[[], ClaimedDatabase | None] = lambda: None,
) -> Application:
    """Build a role's application, with /livez, /readyz, /version, /metrics and /status.

    /livez answers 200 as long as the process answers at all, /readyz 503 when the role cannot do its work.

    `ending` is called on the loop when the server is told to stop, before it waits for what runs: answers without an
    end must end now. `stop` is called when nothing runs any more.
    `health` is asked on the loop and must be quick: a document with "ok": False, or an exception, is answered 503.
    `database` gives the database that the process has claimed. If a row cannot be written to it, at most once in 5 s,
    /readyz is 503. When another process has taken it over, everything is answered 503, and the server ends.
    Outside nobody hears more of the role's health than "ok".
    What routes of `public` ("GET /task", "POST /tasks/{task}/reports") answer may be read by pages of any origin.
    Routes of `peers` are for other roles: they have places of their own, and the listener for other roles if there is
    one. `/metrics`, `/status`, everything below /admin, and routes of `keyed`, need `Authorization: Bearer <token>`;
    without a token nobody has them. `/metrics` and `/status` need none on the listener for the operator.
    `names` are the host names of the role: requests for others are refused (421), but for its machine's own addresses.
    """
    if token == "":
        raise InvalidArgument("token", token, "a secret text, or None for no administration")
    tallies = RequestMetrics(role=role, metrics=metrics, log=log)
    bodies, doors = BodyReader(limits), Listeners(names, limits)
    life = Lifespan(start=start, stop=stop, bodies=bodies, tallies=tallies, limits=limits, database=database)
    well = Health(role, health, database, tallies)
    own = [
        RouteTarget(method="GET", template="/livez", handle=_live, raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/readyz", handle=_health(well), raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/version", handle=_version(role), raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/metrics", handle=_metrics(tallies), raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/status", handle=_status(role, status), raw=False, inner=True),
    ]
    named = _mark_targets(targets_from_routes(routes, uploads or {}), peers, keyed)
    return Application(
        table=RouteTable([*own, *add_preflight_targets(named, public)]),
        life=life,
        tallies=tallies,
        bodies=bodies,
        doors=doors,
        token=token,
        limits=limits,
        ending=ending,
    )


def _mark_targets(targets: Sequence[RouteTarget], peers: Collection[str], keyed: Collection[str]) -> list[RouteTarget]:
    names = {f"{target.method} {target.template}" for target in targets}
    for name in (*peers, *keyed):
        if name not in names:
            raise ProgramError("peers" if name in peers else "keyed", name, "routes of the role")
    marked = []
    for target in targets:
        name = f"{target.method} {target.template}"
        kind = PEERS if name in peers or name in keyed else target.kind
        marked.append(replace(target, kind=kind, keyed=name in keyed))
    return marked


async def _live(_: bool) -> Response:
    return json_response({"ok": True})


def _version(role: str) -> Callable[[bool], Awaitable[Response]]:
    async def version(inside: bool) -> Response:
        return json_response({"version": __version__} | ({"role": role} if inside else {}))

    return version


def _health(well: Health) -> Callable[[bool], Awaitable[Response]]:
    async def readyz(inside: bool) -> Response:
        document = await well.document()
        ok = bool(document["ok"])
        return json_response(document if inside else {"ok": ok}, 200 if ok else 503)

    return readyz


def _metrics(tallies: RequestMetrics) -> Callable[[bool], Awaitable[Response]]:
    async def metrics(_: bool) -> Response:
        return Response(tallies.text(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return metrics


def _status(
    role: str, status: Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]]
) -> Callable[..., Awaitable[Response]]:
    async def document(_: Request) -> Response:
        said = status()
        return json_response({"role": role, **(await said if inspect.isawaitable(said) else said)})

    return document


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body which was read already, then whatever comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _send_secured(send: Send, added: Headers) -> Send:
    """Return a `send` that adds security headers to an answer that is sent piece by piece."""

    async def secure(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*add_security_headers(message.get("headers", [])), *added]}
        await send(message)

    return secure
