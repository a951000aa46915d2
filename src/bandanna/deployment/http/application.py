"""The application of a role: lifespan, health and dispatch of requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

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
from bandanna.deployment.http.metrics import VERSION, EventLog, RequestMetrics
from bandanna.deployment.http.routes import (
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


_FENCE_CHECK_SECONDS = 1.0  # between two checks of the claim


class ClaimedDatabase(Protocol):
    """A database that one process serves."""

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over."""

    def check_claim(self) -> None:
        """Raise an error if another process has taken over."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction that can write; it is committed when its block ends."""


@dataclass(kw_only=True)
class Lifespan:
    """Starts a role before the first request and stops it after the last; `failure` is an exception of either."""

    start: Callable[[], Awaitable[None]]
    stop: Callable[[], Awaitable[None]]
    bodies: BodyReader
    metrics: RequestMetrics
    limits: Limits
    database: Callable[[], ClaimedDatabase | None]
    failure: Exception | None = None

    async def __call__(self, receive: Receive, send: Send) -> None:
        await receive()
        threads = set_thread_pool(self.limits.threads)
        watchers = [asyncio.ensure_future(each) for each in (self.bodies.watch(), self._watch_claim())]
        try:
            if await self._try("start", self.start):
                await send({"type": "lifespan.startup.complete"})
            else:
                await send({"type": "lifespan.startup.failed"})
                return
            await receive()
            kind = "complete" if await self._try("stop", self.stop) else "failed"
            await send({"type": f"lifespan.shutdown.{kind}"})
        finally:
            for watcher in watchers:
                watcher.cancel()
            threads.shutdown(wait=False)

    @property
    def fenced(self) -> bool:
        """Whether another process serves the role's database: this one refuses all requests and ends."""
        database = self.database()
        return database is not None and database.fenced

    async def _watch_claim(self) -> None:
        """Check the claim once a second, because a role that only reads would not notice its loss."""
        while not self.fenced:
            await asyncio.sleep(_FENCE_CHECK_SECONDS)
            database = self.database()
            if database is not None:
                with suppress(Exception):  # a lost database says nothing about the claim
                    await run_in_thread(database.check_claim)

    async def _try(self, name: str, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except Exception as error:
            self.failure = error
            self.metrics.log.say(f"{name} failed", level="error", type=type(error).__name__, place=locate_error(error))
            return False
        return True


# Health


_WRITE_SECONDS = 5.0  # between two writes
_ANSWER_SECONDS = 5.0  # an answer waits for a write
_STUCK_SECONDS = 30.0  # after which a write that does not end has failed
_MOST_WAITING = 64  # answers that wait for a write: others repeat the last result
_FILLING = "x" * (1 << 16)  # more than a page, so that a full disk has no room for it


def write_row(database: ClaimedDatabase) -> None:
    """Write a row to the disk and delete it, in one transaction."""
    with database.transaction() as rows:
        rows.execute("insert into about (role, version) values (?, ?)", _FILLING, -1)
        rows.execute("delete from about where version = ?", -1)


@dataclass
class Health:
    """Whether a role works, for `GET /readyz`.

    Parameters
    ----------
    report
        The role's own report, on the loop. With "ok": False or an exception, the role does not work.
    database
        Returns the database to which a row is written, at most once in 5 s, or None. The role does not work if that
        fails or if another process has taken the database over.
    """

    role: str
    report: Callable[[], dict[str, Any]]
    database: Callable[[], ClaimedDatabase | None]
    metrics: RequestMetrics
    _writes: bool = True
    _waiting: int = 0
    _begun: float = -_WRITE_SECONDS  # when the last write began
    _running: asyncio.Task[None] | None = None

    async def document(self) -> dict[str, Any]:
        """Return the full report, for the operator's listener."""
        database = self.database()
        writes = database is None or await self._has_written(database)
        try:
            document = {"ok": True, **self.report(), "role": self.role}
        except Exception:  # the role may raise anything
            document = {"ok": False, "role": self.role}
        if database is not None and database.fenced:
            document = {**document, "ok": False, "fenced": True}
        return document if writes else {**document, "ok": False, "writes": False}

    async def _has_written(self, database: ClaimedDatabase) -> bool:
        """Return whether the last write worked; write again if it is old."""
        now = asyncio.get_running_loop().time()
        if self._running is None and now - self._begun >= _WRITE_SECONDS:
            self._begun, self._running = now, asyncio.ensure_future(self._try(database))
        if self._running is not None and self._waiting < _MOST_WAITING:
            self._waiting += 1
            try:
                await asyncio.wait({self._running}, timeout=_ANSWER_SECONDS)
            finally:
                self._waiting -= 1
        stuck = self._running is not None and asyncio.get_running_loop().time() - self._begun > _STUCK_SECONDS
        return self._writes and not stuck

    async def _try(self, database: ClaimedDatabase) -> None:
        try:
            await run_in_thread(write_row, database)
            self._writes = True
        except Exception as error:
            self._writes = False
            self.metrics.failed("write failed", error)
        finally:
            self._running = None


# The application


_LIMITS = Limits()
_UNREAD_STATUSES = frozenset({408, 413})  # the rest of the request is not read, and the connection is closed


@dataclass(kw_only=True)
class Application:
    """The ASGI application of a role; `build_application` makes it."""

    table: RouteTable
    life: Lifespan
    metrics: RequestMetrics
    bodies: BodyReader
    listeners: Listeners
    token: bytes | None  # its SHA-256
    limits: Limits
    ending: Callable[[], None]

    def fenced(self) -> bool:
        return self.life.fenced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.life(receive, send) if scope["type"] == "lifespan" else None
        begun = time.perf_counter()
        headers = dict(scope["headers"])
        target, values = self.table.find(scope["method"], scope["path"])
        self.metrics.in_flight += 1
        try:
            self.listeners.check(scope, headers)
            status, fields, body = await self._handle(target, values, headers, scope, receive, send)
        except ClientGone:
            status, fields, body = 0, [], b""
        except (Exception, asyncio.CancelledError) as error:  # cancelled: there was no time left to finish
            status, fields, body = self._refuse(error)
        finally:
            self.metrics.in_flight -= 1
        if fields:
            if type(target) is RouteTarget and target.public:
                fields += CORS_HEADERS  # of refusals too, so that a client can read them
            await send({"type": "http.response.start", "status": status, "headers": fields})
            if status >= 400 and CLOSE in fields:
                await self._answer_and_close(body, receive, send)
            else:
                await send({"type": "http.response.body", "body": body})
        self.metrics.request(target, status, time.perf_counter() - begun)

    async def _handle(
        self,
        target: RouteTarget | RequestRefused,
        values: dict[str, str],
        headers: dict[bytes, bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> tuple[int, Headers, bytes]:
        """Return the answer of a handler; a stream is sent here, and has no headers in the result."""
        listener = self._check_access(target, scope, headers)
        if isinstance(target, RequestRefused):
            raise target
        if target.light:
            response = await target.handle(listener == INSIDE or self._has_token(headers))
            return self._plain(response, scope["method"], headers)
        if self.life.fenced:
            raise make_busy_refusal("fenced")
        places = self.listeners.places[listener]
        place = AdmittedRequest(places, target.kind)
        try:
            body = await self.bodies.read(receive, headers, places, target.kind, self._address(scope, headers))
            self.metrics.received += len(body)
            try:
                if target.raw:
                    status, answer, fields = await target.handle(body, values, headers)
                    return status, upload_headers(fields, len(answer)), answer
                scope["client"] = None  # hidden from handlers
                scope["path_params"] = values
                scope[ADMITTED_REQUEST] = place
                response = await target.handle(Request(scope, _replay_body(body, receive)))
                if isinstance(getattr(response, "body", None), bytes) and response.background is None:
                    return self._plain(response, scope["method"], headers)
                await response(scope, receive, _send_secured(send, CORS_HEADERS if target.public else []))
                return response.status_code, [], b""
            finally:
                places.memory[target.kind] -= len(body)
        finally:
            place.leave()

    def _address(self, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        client = scope.get("client")
        return None if client is None else self.listeners.client(client[0], headers)

    async def _answer_and_close(self, body: bytes, receive: Receive, send: Send) -> None:
        """Answer and close the connection without reading the rest of the request."""
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await self.bodies.linger(receive)
        await send({"type": "http.response.body", "body": b""})

    def _plain(
        self, response: Response, method: str, request_headers: dict[bytes, bytes]
    ) -> tuple[int, Headers, bytes]:
        headers = add_security_headers(response.raw_headers)
        if response.status_code == 200 and method in ("GET", "HEAD"):
            unchanged = headers_if_unchanged(headers, request_headers.get(b"if-none-match"))
            if unchanged is not None:
                return 304, unchanged, b""
        return response.status_code, headers, bytes(response.body)

    def _refuse(self, error: BaseException) -> tuple[int, Headers, bytes]:
        refused = self.metrics.refusal(error)
        body = encode_canonical(refused.document)
        headers = add_security_headers([JSON, (b"content-length", b"%d" % len(body)), *refused.headers])
        return refused.status, [*headers, CLOSE] if refused.status in _UNREAD_STATUSES else headers, body

    def _check_access(self, target: RouteTarget | RequestRefused, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Return the listener of a request; refuse other listeners, or a missing token."""
        listener, path = self.listeners.find(scope), scope["path"]
        if type(target) is RouteTarget:
            if listener == INSIDE and not (target.inner or is_guarded(path)):
                raise RequestRefused(404, "unknown-path")
            if target.kind == PEERS and not target.keyed and listener != AMONG and AMONG in self.listeners.kinds:
                raise RequestRefused(404, "unknown-path")
            if target.keyed:
                self._check_token(headers)
        if (
            path.startswith(GUARDED)
            and is_guarded(path)
            and not (listener == INSIDE and path in ("/metrics", "/status"))
        ):
            self._check_token(headers)
        return listener

    def _check_token(self, headers: dict[bytes, bytes]) -> None:
        if self.token is None:
            raise RequestRefused(403, "no-admin")
        if not self._has_token(headers):
            raise RequestRefused(401, "token")

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        right = self.token is not None and hmac.compare_digest(_digest(token.strip()), self.token)
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
    """Return a role's application, with /livez, /readyz, /version, /metrics and /status.

    /livez answers 200 as long as the process answers at all, /readyz 503 when the role cannot do its work. `/metrics`,
    `/status`, all paths below /admin and the routes of `keyed` need `Authorization: Bearer <token>`. On the operator's
    listener, `/metrics` and `/status` need none.

    Parameters
    ----------
    routes, uploads
        The role's routes, and those that read and return bytes.
    public
        Routes ("GET /task") whose answers web pages of any origin may read.
    peers
        Routes for other roles. They have their own limit, and the listener for other roles if there is one.
    names
        Host names of the role. Requests for other hosts are refused with status 421, except on its own machine.
    health
        Called on the loop, so it must be quick. "ok": False or an exception makes /readyz answer 503. Clients are only
        sent "ok".
    token
        The operator's token; None refuses all requests that need one.
    ending
        Called on the loop when the server begins to stop: long answers must end then.
    database
        Returns the claimed database. /readyz answers 503 if no row can be written to it. If another process has taken
        it over, all requests are answered 503 and the server ends.
    """
    if token == "":
        raise InvalidArgument("token", token, "a secret text, or None for no administration")
    request_metrics = RequestMetrics(role=role, metrics=metrics, log=log)
    bodies = BodyReader(limits)
    life = Lifespan(start=start, stop=stop, bodies=bodies, metrics=request_metrics, limits=limits, database=database)
    well = Health(role, health, database, request_metrics)

    async def answer_livez(_: bool) -> Response:
        return json_response({"ok": True})

    async def answer_readyz(inside: bool) -> Response:
        document = await well.document()
        ok = bool(document["ok"])
        return json_response(document if inside else {"ok": ok}, 200 if ok else 503)

    async def answer_version(inside: bool) -> Response:
        return json_response({"version": VERSION} | ({"role": role} if inside else {}))

    async def answer_metrics(_: bool) -> Response:
        return Response(request_metrics.text(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    async def answer_status(_: Request) -> Response:
        document = status()
        return json_response({"role": role, **(await document if inspect.isawaitable(document) else document)})

    own = [
        RouteTarget(method="GET", template="/livez", handle=answer_livez, raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/readyz", handle=answer_readyz, raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/version", handle=answer_version, raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/metrics", handle=answer_metrics, raw=False, light=True, inner=True),
        RouteTarget(method="GET", template="/status", handle=answer_status, raw=False, inner=True),
    ]
    named = _mark_targets(targets_from_routes(routes, uploads or {}), peers, keyed)
    return Application(
        table=RouteTable([*own, *add_preflight_targets(named, public)]),
        life=life,
        metrics=request_metrics,
        bodies=bodies,
        listeners=Listeners(names, limits),
        token=None if token is None else _digest(token.encode()),
        limits=limits,
        ending=ending,
    )


def _mark_targets(targets: Sequence[RouteTarget], peers: Collection[str], keyed: Collection[str]) -> list[RouteTarget]:
    names = {f"{target.method} {target.template}" for target in targets}
    for name in (*peers, *keyed):
        if name not in names:
            raise ProgramError("peers" if name in peers else "keyed", name, "a route of the role")
    marked = []
    for target in targets:
        name = f"{target.method} {target.template}"
        kind = PEERS if name in peers or name in keyed else target.kind
        marked.append(replace(target, kind=kind, keyed=name in keyed))
    return marked


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body again, then further messages."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _send_secured(send: Send, added: Headers) -> Send:
    """Return a `send` that adds security headers to a streamed answer."""

    async def secure(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*add_security_headers(message.get("headers", [])), *added]}
        await send(message)

    return secure
