"""The dashboard as a process."""

from __future__ import annotations

import asyncio
import importlib.resources
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from bandanna.dashboard.admin import Admin, own_form, token_in
from bandanna.dashboard.asking import Silent
from bandanna.dashboard.board import Board, NotThere, Shown
from bandanna.dashboard.pages.login import failed, login
from bandanna.errors import BandannaError
from bandanna.roles.serving import Limits, Log, Metrics, Refused, Route, application
from bandanna.wire.canonical import digest, dumps

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "referrer-policy": "same-origin",  # with none at all browsers would not say where the login form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ASSETS = {
    "style.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_LISTENERS = 64
_TICK, _STILL = 0.5, 15.0  # seconds between two looks for news, and between two signs of life
_LIMITS = Limits(body=1 << 14)

Making = Callable[[], Awaitable[Shown]]


class Routes:
    """Every page, its twin and its news."""

    def __init__(self, board: Board, admin: Admin | None) -> None:
        self._board, self._admin = board, admin
        self._assets = {name: _asset(name) for name in _ASSETS}
        self.listening = 0
        self.ending = False

    @property
    def routes(self) -> list[Route]:
        """All of them."""
        return [
            ("GET", "/", self.overview),
            ("GET", "/index.json", self.overview),
            ("GET", "/events", self.events),
            ("GET", "/tasks/{task}", self.task),
            ("GET", "/tasks/{task}/events", self.events),
            ("GET", "/tasks/{task}/releases", self.releases),
            ("GET", "/tasks/{task}/releases.json", self.releases),
            ("GET", "/tasks/{task}/releases/{number}", self.release),
            ("GET", "/assets/{name}", self.asset),
            ("GET", "/login", self.form),
            ("GET", "/login.json", self.form),
            ("POST", "/login", self.enter),
            ("POST", "/logout", self.leave),
        ]

    def _may(self, request: Request) -> bool:
        return self._admin is not None and self._admin.admits(request.headers)

    async def _answer(self, request: Request, make: Making) -> Response:
        """A twin or a page; an error as either."""
        status = 200
        try:
            shown = await make()
        except NotThere:
            status, words = 404, ""
        except (Silent, TimeoutError) as error:
            status, words = 502, str(error)
        except BandannaError as error:
            status, words = 502, str(error)
        if status != 200:
            shown = Shown(document={"error": words, "status": status}, page=failed)
        if _wants_json(request):
            return twin(shown.document, status)
        admin = None if self._admin is None else self._may(request)
        return html(shown.page(shown.document, admin=admin), status)

    async def overview(self, request: Request) -> Response:
        """The list."""
        return await self._answer(request, self._board.overview)

    async def task(self, request: Request) -> Response:
        """A task; with what is not public for administrators."""
        name = _plain(request.path_params["task"])
        return await self._answer(request, lambda: self._board.task(name, admin=self._may(request)))

    async def releases(self, request: Request) -> Response:
        """A page of a task's history."""
        page = _whole(request.query_params.get("page", "1"))
        return await self._answer(request, lambda: self._board.releases(request.path_params["task"], page))

    async def release(self, request: Request) -> Response:
        """One publication."""
        number = _whole(_plain(request.path_params["number"]))
        return await self._answer(request, lambda: self._board.release(request.path_params["task"], number))

    async def asset(self, request: Request) -> Response:
        """The stylesheet, the script, the icon."""
        found = self._assets.get(request.path_params["name"])
        if found is None:
            raise Refused(404, "asset")
        content, tag, kind = found
        headers = {**HEADERS, "content-type": kind, "etag": f'"{tag}"', "cache-control": "no-cache"}
        return Response(content, headers=headers)

    async def events(self, request: Request) -> Response:
        """News, as they come: that there are some, and not what; a page is asked for again by who reads it."""
        name = request.path_params.get("task")
        if self.listening >= _LISTENERS or self.ending:
            raise Refused(503, "listeners", retry_after=30.0)
        try:
            self._board.version(name)
        except NotThere:
            raise Refused(404, "task") from None
        may = self._may(request)
        return Events(self, lambda: self._board.version(name, inside=may))

    async def form(self, request: Request) -> Response:
        """For the token."""
        if self._admin is None:
            raise Refused(404, "no-admin")
        return self._form(request, "", 200)

    def _form(self, request: Request, error: str, status: int) -> Response:
        document = {"error": error, "admin": self._may(request)}
        return twin(document, status) if _wants_json(request) else html(login(document), status)

    async def enter(self, request: Request) -> Response:
        """The token is right: a cookie, and back to the list."""
        if self._admin is None:
            raise Refused(404, "no-admin")
        if not own_form(request.headers):
            raise Refused(403, "origin")
        if not self._admin.agrees(token_in(await request.body())):
            return self._form(request, "That is not the token.", 401)
        cookie = self._admin.open(request.headers, https=request.url.scheme == "https")
        return Response(status_code=303, headers={**HEADERS, "location": "/", "set-cookie": cookie})

    async def leave(self, request: Request) -> Response:
        """No more."""
        if self._admin is None or not own_form(request.headers):
            raise Refused(403, "origin")
        cookie = self._admin.close(request.headers, https=request.url.scheme == "https")
        return Response(status_code=303, headers={**HEADERS, "location": "/", "set-cookie": cookie})


class Events(StreamingResponse):
    """Server-sent events, until the reader leaves or the server ends."""

    def __init__(self, routes: Routes, version: Callable[[], Any]) -> None:
        headers = {
            **HEADERS,
            "content-type": "text/event-stream",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
        super().__init__(iter(()), headers=headers)
        self._routes, self._version = routes, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One reader."""
        self._routes.listening += 1
        left = asyncio.ensure_future(_left(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._tell(send, b"retry: 3000\n\n")
            last, quiet = self._version(), 0.0
            while not left.done() and not self._routes.ending:
                await asyncio.sleep(_TICK)
                now, quiet = self._version(), quiet + _TICK
                if now != last:
                    await self._tell(send, b"event: news\ndata: %s\n\n" % json.dumps(now).encode())
                elif quiet >= _STILL:
                    await self._tell(send, b": still here\n\n")
                else:
                    continue
                last, quiet = now, 0.0
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._routes.listening -= 1
            left.cancel()

    async def _tell(self, send: Send, content: bytes) -> None:
        await send({"type": "http.response.body", "body": content, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def html(content: bytes, status: int = 200) -> Response:
    """A page."""
    return Response(content, status_code=status, headers={**HEADERS, "content-type": "text/html; charset=utf-8"})


def twin(document: dict[str, Any], status: int = 200) -> Response:
    """JSON that could not be taken for a page by anybody."""
    content = dumps(document)
    for each in b"<>&'":
        content = content.replace(bytes([each]), b"\\u%04x" % each)
    return Response(content, status_code=status, headers={**HEADERS, "content-type": "application/json"})


def _wants_json(request: Request) -> bool:
    if request.url.path.endswith(".json"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _plain(name: str) -> str:
    return name.removesuffix(".json")


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Refused(404, "number")
    return int(text)


def _asset(name: str) -> tuple[bytes, str, str]:
    content = importlib.resources.files("bandanna.dashboard").joinpath("assets", name).read_bytes()
    return content, digest(content), _ASSETS[name]


def build(board: Board, *, admin: Admin | None, log: Log, web: Any = None) -> Any:
    """The application: pages, and the loops that keep what they show up to date."""
    routes = Routes(board, admin)
    metrics, running = Metrics(), list[asyncio.Task[None]]()
    metrics.gauge("listeners", "Readers who wait for news.").follow(lambda: float(routes.listening))

    async def start() -> None:
        for watch in board.watches:
            running.append(asyncio.ensure_future(watch.follow()))
            running.append(asyncio.ensure_future(watch.look()))

    async def stop() -> None:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if web is not None:
            await web.close()

    def ending() -> None:
        routes.ending = True

    return application(
        role="dashboard",
        routes=routes.routes,
        start=start,
        stop=stop,
        health=lambda: {"ok": True, "tasks": len(board.watches)},
        status=lambda: {"places": [each.known.place for each in board.watches]},
        metrics=metrics,
        log=log,
        token=None if admin is None else admin.token,
        limits=_LIMITS,
        ending=ending,
    )
