"""The dashboard's process: routes, login, administration."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib.resources
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry, Gauge
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from bandanna import validation
from bandanna.deployment.calls import trusted_certificates
from bandanna.deployment.dashboard.pages import render_page
from bandanna.deployment.dashboard.poller import HttpRoleClient, RoleUnavailable, TaskPoller
from bandanna.deployment.dashboard.readings import PublicationReading
from bandanna.deployment.dashboard.views import list_releases, select_page, show_release, show_task, summarize_task
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import Limits
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import RequestRefused, Route, run_in_thread
from bandanna.deployment.http.server import serve
from bandanna.deployment.messages.canonical import digest, dumps
from bandanna.deployment.task.document import Secrets, Task, is_url
from bandanna.deployment.task.export import ExportedPublication
from bandanna.deployment.task.query_plan import VerifiedPublication
from bandanna.errors import BandannaError, InvalidArgument, ValueSummary
from bandanna.storage import files

# Sessions of administrators


COOKIE = "bandanna-session"
MIN_TOKEN_LENGTH = 16  # letters of a token
_HOURS = 12
_SESSIONS = 64
_LOCAL = ("127.0.0.1", "localhost", "::1")


class AdminSessions:
    """The administrator's token and its sessions, in memory; tokens are compared in constant time."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            allowed = f"at least {MIN_TOKEN_LENGTH} letters, digits and signs without spaces"
            raise InvalidArgument("token", ValueSummary("another text"), allowed)
        self.token = token
        self._digest, self._clock = _digest(token), clock
        self._sessions: dict[bytes, float] = {}  # digests of names, and when they end

    def agrees(self, token: str) -> bool:
        return hmac.compare_digest(_digest(token), self._digest)

    def is_admin(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a session's cookie or the token as `Authorization: Bearer`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.agrees(token.strip())
        name = _cookie(headers.get("cookie", ""))
        ends = self._sessions.get(_digest(name)) if name else None
        return ends is not None and self._clock() < ends

    def open(self, headers: Mapping[str, str], *, https: bool) -> str:
        """Open a session and return the `Set-Cookie` header."""
        now = self._clock()
        self._sessions = {name: ends for name, ends in self._sessions.items() if now < ends}
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[_digest(name)] = now + 3600 * _HOURS
        return _cookie_header(name, 3600 * _HOURS, headers, https=https)

    def close(self, headers: Mapping[str, str], *, https: bool) -> str:
        """End the session of a request and return the header that removes its cookie."""
        self._sessions.pop(_digest(_cookie(headers.get("cookie", ""))), None)
        return _cookie_header("", 0, headers, https=https)


def read_form_token(body: bytes) -> str:
    """Return the token of a form, "" if it has none."""
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=4, encoding="utf-8", errors="replace")
    except (UnicodeDecodeError, ValueError):
        return ""
    return fields.get("token", [""])[0]


def is_same_site_form(headers: Mapping[str, str]) -> bool:
    """Return whether a form was sent from this site.

    Browsers send Sec-Fetch-Site on secure connections, elsewhere Origin, which may be "null" beside it.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def _cookie_header(name: str, seconds: int, headers: Mapping[str, str], *, https: bool) -> str:
    """Return a `Set-Cookie` header. Only a browser on this machine may keep it without https."""
    secure = "; Secure" if https or not _is_local(headers.get("host", "")) else ""
    return f"{COOKIE}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _is_local(host: str) -> bool:
    try:
        return (urlsplit(f"//{host}").hostname or "") in _LOCAL
    except ValueError:
        return False


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header[:4096]).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).digest()


# Pages


_SECONDS = 10.0  # that a page may wait for the analyzer
_KEPT = 16  # older publications that readers requested


class PageNotFound(Exception):
    """The address has no page."""


@dataclass(frozen=True, kw_only=True)
class RenderedPage:
    """A JSON document and the template that makes a page of it."""

    document: dict[str, Any]
    template: str


class TaskBoard:
    """The tasks that the dashboard watches."""

    def __init__(self, watches: Sequence[TaskPoller]) -> None:
        self.watches = list(watches)
        self._read: OrderedDict[tuple[str, int], ExportedPublication] = OrderedDict()

    def watch(self, name: str) -> TaskPoller:
        found = next((each for each in self.watches if each.known.id == name), None)
        if found is None:
            raise PageNotFound(name)
        found.looked = found.clock()
        return found

    def version(self, name: str | None = None, *, inside: bool = False) -> tuple[int, ...]:
        """Return numbers that change with the contents of pages; with `inside`, also with administrators' parts."""
        watches = self.watches if name is None else [self.watch(name)]
        for each in watches:
            each.looked = each.clock()
        return tuple(each.changes if inside else each.version for each in watches)

    async def overview(self) -> RenderedPage:
        return RenderedPage(document={"tasks": [summarize_task(each.known) for each in self.watches]}, template="index")

    async def task(self, name: str, *, admin: bool) -> RenderedPage:
        return RenderedPage(document=show_task(self.watch(name).known, admin=admin), template="task")

    async def releases(self, name: str, number: int) -> RenderedPage:
        watch = self.watch(name)
        pages, after, most = select_page(watch.known, number)
        if number > pages:
            raise PageNotFound(number)
        lines = []
        if watch.known.newest is not None:
            async with asyncio.timeout(_SECONDS):
                lines = await watch.lines(after, most)
        return RenderedPage(document=list_releases(watch.known, lines, page=number, pages=pages), template="releases")

    async def release(self, name: str, number: int) -> RenderedPage:
        watch = self.watch(name)
        if watch.known.newest is None or not 0 <= number <= watch.known.newest.number:
            raise PageNotFound(number)
        async with asyncio.timeout(_SECONDS):
            publication = await self._publication(watch, number)
            now = await self._reading(watch, number)
            before = await self._reading(watch, number - 1) if number else None
        document = show_release(watch.known, dict(publication.content), publication.chain, now, before)
        return RenderedPage(document=document, template="release")

    async def _publication(self, watch: TaskPoller, number: int) -> ExportedPublication:
        key = watch.known.id, number
        if key not in self._read:
            self._read[key] = await watch.read(number)
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return self._read[key]

    async def _reading(self, watch: TaskPoller, number: int) -> PublicationReading:
        known = next((each.reading for each in watch.known.points if each.number == number), None)
        if known is not None and (known.theta or known.plays):
            return known
        publication = await self._publication(watch, number)
        assert watch.known.reader is not None
        try:
            alone = await run_in_thread(watch.known.reader.read, VerifiedPublication(content=publication.content), None)
        except Exception as error:  # a stranger wrote its contents
            raise RoleUnavailable(f"publication {number} cannot be read ({type(error).__name__})") from error
        return alone if known is None else replace(known, theta=alone.theta, plays=alone.plays)


# The process


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

PageMaker = Callable[[], Awaitable[RenderedPage]]


class DashboardRoutes:
    """The routes of all pages, their JSON twins and their events."""

    def __init__(self, board: TaskBoard, admin: AdminSessions | None) -> None:
        self._board, self._admin = board, admin
        self._assets = {name: _read_asset(name) for name in _ASSETS}
        self.listening = 0
        self.ending = False

    @property
    def routes(self) -> list[Route]:
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

    def _is_admin_request(self, request: Request) -> bool:
        return self._admin is not None and self._admin.is_admin(request.headers)

    async def _answer(self, request: Request, make: PageMaker) -> Response:
        status = 200
        try:
            shown = await make()
        except PageNotFound:
            status, words = 404, ""
        except (BandannaError, TimeoutError) as error:
            status, words = 502, str(error)
        if status != 200:
            shown = RenderedPage(document={"error": words, "status": status}, template="error")
        if _wants_json(request):
            return json_twin_response(shown.document, status)
        admin = None if self._admin is None else self._is_admin_request(request)
        return html_response(render_page(shown.template, shown.document, admin=admin), status)

    async def overview(self, request: Request) -> Response:
        return await self._answer(request, self._board.overview)

    async def task(self, request: Request) -> Response:
        name = request.path_params["task"].removesuffix(".json")
        return await self._answer(request, lambda: self._board.task(name, admin=self._is_admin_request(request)))

    async def releases(self, request: Request) -> Response:
        page = _parse_whole_number(request.query_params.get("page", "1"))
        return await self._answer(request, lambda: self._board.releases(request.path_params["task"], page))

    async def release(self, request: Request) -> Response:
        number = _parse_whole_number(request.path_params["number"].removesuffix(".json"))

        return await self._answer(request, lambda: self._board.release(request.path_params["task"], number))

    async def asset(self, request: Request) -> Response:
        found = self._assets.get(request.path_params["name"])
        if found is None:
            raise RequestRefused(404, "asset")
        content, tag, kind = found
        headers = {**HEADERS, "content-type": kind, "etag": f'"{tag}"', "cache-control": "no-cache"}
        return Response(content, headers=headers)

    async def events(self, request: Request) -> Response:
        """Send an event without contents when there is news: the reader fetches the page again."""
        name = request.path_params.get("task")
        if self.listening >= _LISTENERS or self.ending:
            raise RequestRefused(503, "listeners", retry_after=30.0)
        try:
            self._board.version(name)
        except PageNotFound:
            raise RequestRefused(404, "task") from None
        may = self._is_admin_request(request)
        return EventStream(self, lambda: self._board.version(name, inside=may))

    async def form(self, request: Request) -> Response:
        if self._admin is None:
            raise RequestRefused(404, "no-admin")
        return self._form(request, "", 200)

    def _form(self, request: Request, error: str, status: int) -> Response:
        document = {"error": error, "admin": self._is_admin_request(request)}
        return (
            json_twin_response(document, status)
            if _wants_json(request)
            else html_response(render_page("login", document, admin=None), status)
        )

    async def enter(self, request: Request) -> Response:
        if self._admin is None:
            raise RequestRefused(404, "no-admin")
        if not is_same_site_form(request.headers):
            raise RequestRefused(403, "origin")
        if not self._admin.agrees(read_form_token(await request.body())):
            return self._form(request, "That is not the token.", 401)
        cookie = self._admin.open(request.headers, https=request.url.scheme == "https")
        return Response(status_code=303, headers={**HEADERS, "location": "/", "set-cookie": cookie})

    async def leave(self, request: Request) -> Response:
        if self._admin is None or not is_same_site_form(request.headers):
            raise RequestRefused(403, "origin")
        cookie = self._admin.close(request.headers, https=request.url.scheme == "https")
        return Response(status_code=303, headers={**HEADERS, "location": "/", "set-cookie": cookie})


class EventStream(StreamingResponse):
    """Server-sent events until the reader disconnects or the server stops."""

    def __init__(self, routes: DashboardRoutes, version: Callable[[], Any]) -> None:
        headers = {
            **HEADERS,
            "content-type": "text/event-stream",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
        super().__init__(iter(()), headers=headers)
        self._routes, self._version = routes, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._routes.listening += 1
        left = asyncio.ensure_future(_wait_until_disconnected(receive))
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


async def _wait_until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def html_response(content: bytes, status: int = 200) -> Response:
    """Return a page as a response."""
    return Response(content, status_code=status, headers={**HEADERS, "content-type": "text/html; charset=utf-8"})


def json_twin_response(document: dict[str, Any], status: int = 200) -> Response:
    """Return JSON without characters that a browser could take for markup."""
    content = dumps(document)
    for each in b"<>&'":
        content = content.replace(bytes([each]), b"\\u%04x" % each)
    return Response(content, status_code=status, headers={**HEADERS, "content-type": "application/json"})


def _wants_json(request: Request) -> bool:
    if request.url.path.endswith(".json"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _parse_whole_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RequestRefused(404, "number")
    return int(text)


def _read_asset(name: str) -> tuple[bytes, str, str]:
    content = importlib.resources.files("bandanna.deployment.dashboard").joinpath("assets", name).read_bytes()
    return content, digest(content), _ASSETS[name]


def build_dashboard(board: TaskBoard, *, admin: AdminSessions | None, log: EventLog, web: Any = None) -> Any:
    """Build the application: pages, and the tasks that update them."""
    routes = DashboardRoutes(board, admin)
    metrics, running = CollectorRegistry(), list[asyncio.Task[None]]()
    Gauge("listeners", "Readers who wait for news.", registry=metrics).set_function(lambda: float(routes.listening))

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

    return build_application(
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


# Places of tasks


VARIABLE = "BANDANNA_DASHBOARD_TOKEN"


def admin_from_token(file: Path | None, environment: Mapping[str, str] = os.environ) -> AdminSessions | None:
    """Return the sessions for the token in a file or in the environment; None without either."""
    if file is not None:
        return AdminSessions(files.read_private_file(file).decode("utf-8", errors="replace").strip())
    return AdminSessions(environment[VARIABLE].strip()) if environment.get(VARIABLE) else None


def board_for_places(
    places: Sequence[str], web: HttpRoleClient, admin: AdminSessions | None, named: Sequence[str] = ()
) -> TaskBoard:
    """Return the board of all places (analyzers' addresses, folders or files of tasks), in their order.

    `named` are addresses of further roles that may be called.
    """
    watches = []
    for url in named:
        if not is_url(url):
            raise InvalidArgument("--role-url", url, "the address of a role (http://...)")
    for place in places:
        if is_url(place):
            watches.append(TaskPoller(place.rstrip("/"), web, named=named, inside=admin is not None))
            continue
        path = validation.path("PLACE", place, folder=True)
        if not (path.is_file() or (path / "task.json").is_file()):
            raise InvalidArgument("PLACE", place, "an analyzer's address (http://...), or a task's folder or task.json")
        task = Task.read(path)
        folder = path if path.is_dir() else path.parent
        tokens = {} if admin is None else _read_role_tokens(task, folder)
        watches.append(TaskPoller(place, web, task=task, tokens=tokens, inside=admin is not None))
    return TaskBoard(watches)


def _read_role_tokens(task: Task, folder: Path) -> dict[str, str]:
    found = {}
    for role in task.roles:
        try:
            found[role] = Secrets.read(folder, role, task).token
        except (BandannaError, OSError):
            continue
    return {role: token for role, token in found.items() if token}


def serve_board(
    places: Sequence[str],
    *,
    host: str,
    port: int,
    token: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    trust: Path | None = None,
    named: Sequence[str] = (),
    names: Sequence[str] = (),
    say: Callable[[str], None],
) -> None:
    """Serve the dashboard until SIGTERM or SIGINT."""

    number = validation.integer("--port", port, least=0, most=65535)
    verify_tls: Any = True
    if trust is not None:
        verify_tls = trusted_certificates(trust)
    admin, web, log = admin_from_token(token), HttpRoleClient(verify_tls=verify_tls), EventLog("dashboard")
    app = build_dashboard(board_for_places(places, web, admin, named), admin=admin, log=log, web=web)
    scheme, shown = "http" if cert is None else "https", f"[{host}]" if ":" in host else host
    serve(
        app,
        host=host,
        port=number,
        cert=cert,
        key=key,
        log=log,
        names=names,
        ready=lambda at: say(f"{scheme}://{shown}:{at}/"),
    )
