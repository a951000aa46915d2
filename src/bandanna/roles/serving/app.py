"""The application of a role: its routes and uploads, and what all roles have - limits, health, metrics, errors."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bandanna.errors import InvalidArgument
from bandanna.roles.serving.bodies import Bodies, Gone
from bandanna.roles.serving.life import Life
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.log import Log
from bandanna.roles.serving.metrics import CONTENT_TYPE, Metrics
from bandanna.roles.serving.refusals import Refused, busy
from bandanna.roles.serving.responses import CLOSE, JSON, canonical, json_response, secured, unchanged, upload_headers
from bandanna.roles.serving.routing import GUARDED, Headers, Route, Table, Target, Upload, guarded, targets_of
from bandanna.roles.serving.sharing import SHARED, shared
from bandanna.roles.serving.tallies import Tallies

_LIMITS = Limits()
_CUT = frozenset({408, 413})  # the rest of the request is not read: the connection ends with the answer


class Application:
    """An ASGI application; made by `application`."""

    def __init__(
        self,
        *,
        table: Table,
        life: Life,
        tallies: Tallies,
        bodies: Bodies,
        token: str | None,
        limits: Limits,
        ending: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.ending = ending
        self.life = life
        self.tallies = tallies
        self._table = table
        self._bodies = bodies
        self._token = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through start and stop."""
        if scope["type"] != "http":
            return await self.life(receive, send) if scope["type"] == "lifespan" else None
        begun = time.perf_counter()
        tallies = self.tallies
        target, values = self._table.find(scope["method"], scope["path"])
        tallies.flying += 1
        try:
            answer = self._upload if type(target) is Target and target.raw else self._other
            status, headers, body = await answer(target, values, scope, receive, send)
        except Gone:
            status, headers, body = 0, [], b""  # nobody is there to be answered
        except (Exception, asyncio.CancelledError) as error:  # cancelled: there was no time left to finish
            status, headers, body = self._refuse(error)
        finally:
            tallies.flying -= 1
        if headers:
            if type(target) is Target and target.public:
                headers += SHARED  # of refusals too: a client must see why
            await send({"type": "http.response.start", "status": status, "headers": headers})
            if status in _CUT:
                await self._cut(body, receive, send)
            else:
                await send({"type": "http.response.body", "body": body})
        tallies.request(target, status, time.perf_counter() - begun)

    async def _upload(
        self, target: Any, values: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> tuple[int, Headers, bytes]:
        """Bytes in, bytes out: nothing that is not needed."""
        headers = dict(scope["headers"])
        if scope["path"].startswith(GUARDED):
            self._admit(scope["path"], headers)
        if self.tallies.flying > self.limits.waiting:
            raise busy()
        body = await self._bodies.read(receive, headers)
        self.tallies.received.value += len(body)  # the loop's thread alone writes it
        try:
            status, answer, said = await target.handle(body, values, headers)
        finally:
            self._bodies.held -= len(body)
        return status, upload_headers(said, len(answer)), answer

    async def _other(
        self, target: Target | Refused, values: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> tuple[int, Headers, bytes]:
        """Of a handler that takes a request and gives a response; without headers if it was sent already."""
        headers = dict(scope["headers"])
        self._admit(scope["path"], headers)
        if isinstance(target, Refused):
            raise target
        if target.light:
            return self._plain(await target.handle(None), scope["method"], headers)
        if self.tallies.flying > self.limits.waiting:
            raise busy()
        body = await self._bodies.read(receive, headers)
        self.tallies.received.value += len(body)  # the loop's thread alone writes it
        try:
            scope["client"] = None  # no handler learns where a request came from
            scope["path_params"] = values
            response = await target.handle(Request(scope, _replay(body, receive)))
            if isinstance(getattr(response, "body", None), bytes) and response.background is None:
                return self._plain(response, scope["method"], headers)
            await response(scope, receive, _securing(send, SHARED if target.public else []))  # a stream
            return response.status_code, [], b""
        finally:
            self._bodies.held -= len(body)

    async def _cut(self, body: bytes, receive: Receive, send: Send) -> None:
        """Answer, then end the connection: the rest of the request is not read."""
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await self._bodies.linger(receive)
        await send({"type": "http.response.body", "body": b""})

    def _plain(self, response: Response, method: str, asked: dict[bytes, bytes]) -> tuple[int, Headers, bytes]:
        headers = secured(response.raw_headers)
        if response.status_code == 200 and method in ("GET", "HEAD"):
            kept = unchanged(headers, asked.get(b"if-none-match"))
            if kept is not None:
                return 304, kept, b""
        return response.status_code, headers, bytes(response.body)

    def _refuse(self, error: BaseException) -> tuple[int, Headers, bytes]:
        refused = self.tallies.refusal(error)
        body = canonical(refused.document)
        headers = secured([JSON, (b"content-length", b"%d" % len(body)), *refused.headers])
        return refused.status, [*headers, CLOSE] if refused.status in _CUT else headers, body

    def _admit(self, path: str, headers: dict[bytes, bytes]) -> None:
        if not guarded(path):
            return
        if self._token is None:
            raise Refused(403, "no-admin")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if not hmac.compare_digest(_digest(token.strip()), self._token) or scheme.lower() != b"bearer":
            raise Refused(401, "token")


def application(
    *,
    role: str,
    routes: Sequence[Route],
    uploads: Mapping[str, Upload] | None = None,
    public: Collection[str] = (),
    start: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
    health: Callable[[], dict[str, Any]],
    status: Callable[[], dict[str, Any] | Awaitable[dict[str, Any]]],
    metrics: Metrics,
    log: Log,
    token: str | None,
    limits: Limits = _LIMITS,
    ending: Callable[[], None] = lambda: None,
) -> Application:
    """A role's application, with /healthz, /metrics and /status.

    `ending` is called on the loop when the server is told to stop, before it waits for what runs: answers without an
    end must end now. `stop` is called when nothing runs any more.
    `health` is asked on the loop and must be quick: a document with "ok": False, or an exception, is answered 503.
    What routes of `public` ("GET /task", "POST /tasks/{task}/reports") answer may be read by pages of any origin.
    `/status` and everything below /admin need `Authorization: Bearer <token>`; without a token nobody has them.
    """
    if token == "":
        raise InvalidArgument("token", token, "a secret text, or None for no administration")
    tallies = Tallies(role=role, metrics=metrics, log=log)
    bodies = Bodies(limits)
    own = [
        Target(method="GET", template="/healthz", handle=_health(role, health), raw=False, light=True),
        Target(method="GET", template="/metrics", handle=_metrics(tallies), raw=False, light=True),
        Target(method="GET", template="/status", handle=_status(role, status), raw=False),
    ]
    return Application(
        table=Table([*own, *shared(targets_of(routes, uploads or {}), public)]),
        life=Life(start=start, stop=stop, bodies=bodies, tallies=tallies, limits=limits),
        tallies=tallies,
        bodies=bodies,
        token=token,
        limits=limits,
        ending=ending,
    )


def _health(role: str, health: Callable[[], dict[str, Any]]) -> Callable[..., Awaitable[Response]]:
    async def healthz(_: object) -> Response:
        try:
            document = {"ok": True, **health(), "role": role}
        except Exception:  # whatever it is, the role is not well
            document = {"ok": False, "role": role}
        return json_response(document, 200 if document["ok"] else 503)

    return healthz


def _metrics(tallies: Tallies) -> Callable[..., Awaitable[Response]]:
    async def metrics(_: object) -> Response:
        return Response(tallies.text(), headers={"content-type": CONTENT_TYPE})

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


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever comes after it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _securing(send: Send, added: Headers) -> Send:
    """For answers that are sent piece by piece."""

    async def secure(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*secured(message.get("headers", [])), *added]}
        await send(message)

    return secure
