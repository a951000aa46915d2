"""Routes, responses, refusals and sharing rules of a role's HTTP service."""

from __future__ import annotations

import asyncio
import contextvars
import math
import re
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bandanna.deployment.messages.canonical import dumps
from bandanna.errors import BandannaError, InvalidArgument

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


# Threads


ValueT = TypeVar("ValueT")


def set_thread_pool(threads: int) -> ThreadPoolExecutor:
    """Replace the running loop's threads. Their queue is bounded by the application's limit of requests."""
    threads_of_loop = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="blocking")
    asyncio.get_running_loop().set_default_executor(threads_of_loop)
    return threads_of_loop


async def run_in_thread(function: Callable[..., ValueT], *args: object) -> ValueT:
    """Call `function(*args)` in a thread. It runs to its end even if nobody waits for it any more."""
    call = partial(contextvars.copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(None, call)


# Refusals


_REASON = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_STATUSES = frozenset(status.value for status in HTTPStatus if status.value >= 400)
_BUSY = 1.0  # seconds after which to come again


class ProgramError(InvalidArgument):
    """A fault of the program, not of a client: answered 500 wherever it comes from."""


class RequestRefused(Exception):
    """What a handler raises instead of answering: {"error": text, "reason": reason, **details}, counted by reason.

    The text is the status' own phrase unless `error=` is among the details. A reason is a short word from the program,
    never a client's; details are what JSON can say.
    """

    def __init__(self, status: int, reason: str, *, retry_after: float | None = None, **details: Any) -> None:
        if status not in _STATUSES:
            raise ProgramError("status", status, "a known status from 400 on")
        if not isinstance(reason, str) or not _REASON.fullmatch(reason):
            raise ProgramError("reason", reason, "a short word of lower-case letters, digits, - and _, a letter first")
        if retry_after is not None and not 0 <= retry_after < math.inf:
            raise ProgramError("retry_after", retry_after, "seconds, a finite number >= 0")
        self.status, self.reason, self.retry_after, self.details = status, reason, retry_after, details
        super().__init__(reason)

    @property
    def document(self) -> dict[str, Any]:
        """The document that the client is sent."""
        return {"error": HTTPStatus(self.status).phrase.lower(), **self.details, "reason": self.reason}

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After in whole seconds, rounded up; WWW-Authenticate of 401."""
        headers = [] if self.retry_after is None else [(b"retry-after", b"%d" % math.ceil(self.retry_after))]
        return [*headers, (b"www-authenticate", b"Bearer")] if self.status == 401 else headers


class RequestTooSlow(RequestRefused):
    """A client took too long to send its request."""

    def __init__(self) -> None:
        super().__init__(408, "slow")


class TooManyUnfinished(RequestRefused):
    """An address has too many requests whose bodies are not complete."""

    def __init__(self) -> None:
        super().__init__(503, "unfinished", retry_after=_BUSY)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The connection ends: the rest of the body is not read."""
        return [*super().headers, (b"connection", b"close")]


def make_busy_refusal(reason: str = "busy") -> RequestRefused:
    """Return a 503 that asks the client to come again soon."""
    return RequestRefused(503, reason, retry_after=_BUSY)


@contextmanager
def mark_errors_safe(status: int = 400, reason: str = "invalid") -> Iterator[None]:
    """Mark what is inside as free of other people's data: its errors' messages may be sent to whoever asked."""
    try:
        yield
    except ProgramError:
        raise
    except BandannaError as error:
        raise RequestRefused(status, reason, error=str(error)) from error


def to_refusal(error: BaseException) -> RequestRefused:
    """Return the refusal for an error: the reason of a client's error, no word of a failure of the role."""
    if isinstance(error, RequestRefused):
        return error
    if is_storage(error):
        return make_busy_refusal("fenced" if _has_class_name("FencedError", error) else "storage")
    if isinstance(error, BandannaError) and not isinstance(error, ProgramError):
        return RequestRefused(400, "invalid")
    return RequestRefused(500, "internal", error="internal error")


def is_storage(error: BaseException) -> bool:
    """Tell by its class's name whether a store failed, so that a role without a database loads none."""
    return _has_class_name("StorageError", error)


def _has_class_name(name: str, error: BaseException) -> bool:
    return any(each.__name__ == name for each in type(error).__mro__)


def locate_error(error: BaseException) -> str:
    """Return file:line of an exception, which is all that a log says of it beside its type."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if not frames:
        return "unknown"
    file, line = frames[-1]
    return f"{re.sub(r'[^A-Za-z0-9_.]', '_', Path(file).name)[:60]}:{line}"


# Routes


Handler: TypeAlias = "Callable[[Request], Awaitable[Response]]"
Route: TypeAlias = tuple[str, str, "Handler"]  # method, path template, handler
Headers: TypeAlias = list[tuple[bytes, bytes]]
UploadHeaders: TypeAlias = Mapping[str, str] | Sequence[tuple[bytes, bytes]] | None
Upload: TypeAlias = Callable[  # (body, the template's values, headers by lower-case name) -> status, body, headers
    [bytes, dict[str, str], dict[bytes, bytes]], Awaitable[tuple[int, bytes, "UploadHeaders"]]
]

_TEMPLATE = re.compile(r"/|(/([A-Za-z0-9._~-]+|\{[a-z_]+\}))+")
_PARAMETER = re.compile(r"\\\{([a-z_]+)\\\}")
_VALUE = r"(?P<\1>[A-Za-z0-9._~-]{1,128})"  # what needs no escape in a URL: ids, numbers, names
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
GUARDED = ("/admin", "/metrics", "/status")  # how paths begin that need a closer look
UPLOADS, WAITERS, PEERS, OTHERS = "uploads", "waiters", "peers", "others"  # classes of requests: each has own places


@dataclass(frozen=True, kw_only=True, eq=False)
class RouteTarget:
    """One method of one template."""

    method: str
    template: str
    handle: Callable[..., Awaitable[Any]]
    raw: bool  # an upload: bytes in, bytes out
    light: bool = False  # answered even if the server is busy; its body is not read
    public: bool = False  # pages of any origin may read what it answers
    kind: str = OTHERS  # its class
    keyed: bool = False  # only who has the token may ask: it is looked at before the body is read
    inner: bool = False  # what every role has for its operator


class RouteTable:
    """Find targets by path: literal paths first, then templates in the order in which they were given."""

    def __init__(self, targets: Sequence[RouteTarget]) -> None:
        self._literal: dict[str, dict[str, RouteTarget]] = {}
        templates: dict[str, dict[str, RouteTarget]] = {}
        for target in targets:
            if not _TEMPLATE.fullmatch(target.template) or target.method not in METHODS:
                allowed = f"{', '.join(sorted(METHODS))}, and a path such as /tasks/{{task}}/reports"
                raise ProgramError("route", f"{target.method} {target.template}", allowed)
            among = templates if "{" in target.template else self._literal
            methods = among.setdefault(target.template, {})
            if methods.setdefault(target.method, target) is not target:
                raise ProgramError("route", f"{target.method} {target.template}", "a handler for each, not two")
        self._templates = [(_compile_template(template), methods) for template, methods in templates.items()]

    def find(self, method: str, path: str) -> tuple[RouteTarget | RequestRefused, dict[str, str]]:
        """Return the target and the template's values, or why there is none. HEAD is GET without a body."""
        methods, values = self._methods(path)
        if methods is None:
            return RequestRefused(404, "unknown-path"), values
        target = methods.get("GET" if method == "HEAD" else method)
        return (target, values) if target is not None else (MethodNotAllowed(sorted(methods)), values)

    def _methods(self, path: str) -> tuple[dict[str, RouteTarget] | None, dict[str, str]]:
        known = self._literal.get(path)
        if known is not None:
            return known, {}
        for pattern, methods in self._templates:
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        return None, {}


class MethodNotAllowed(RequestRefused):
    """The path exists, but not with this method."""

    def __init__(self, methods: Sequence[str]) -> None:
        self.allow = ", ".join(methods)
        super().__init__(405, "method")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The allowed methods."""
        return [(b"allow", self.allow.encode("ascii"))]


def targets_from_routes(routes: Sequence[Route], uploads: Mapping[str, Upload]) -> list[RouteTarget]:
    """Return a role's targets. An upload's method is POST, or stands before its path: "PUT /jobs/{job}"."""
    targets = [RouteTarget(method=method, template=path, handle=handle, raw=False) for method, path, handle in routes]
    for key, upload in uploads.items():
        method, _, path = key.rpartition(" ")
        targets.append(RouteTarget(method=method or "POST", template=path, handle=upload, raw=True, kind=UPLOADS))
    return targets


def is_guarded(path: str) -> bool:
    """Tell whether only the administrator may ask for a path."""
    return path in GUARDED or path.startswith("/admin/")


def _compile_template(template: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub(_VALUE, re.escape(template)))


# Responses


JSON = (b"content-type", b"application/json")
NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_STORE = (b"cache-control", b"no-store")
CLOSE = (b"connection", b"close")
_TAG = re.compile(r"[!#-~]{1,128}")  # what may stand between the quotes of an entity tag

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def encode_canonical(value: Any) -> bytes:
    """Encode a document as canonical JSON: a role signs and sends the same bytes."""
    return dumps(value)


def json_response(
    value: Any, status: int = 200, *, etag: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response. With `etag` the application answers 304 to a client that has it (If-None-Match)."""
    from starlette.responses import Response

    added = dict(headers or {})
    if etag is not None:
        if not _TAG.fullmatch(etag):
            raise ProgramError("etag", etag, "up to 128 visible ASCII characters without quotes")
        added["etag"] = f'"{etag}"'
        added.setdefault("cache-control", "no-cache")  # may be kept, and is asked for again
    return Response(encode_canonical(value), status_code=status, headers=added, media_type="application/json")


def upload_headers(headers: UploadHeaders, length: int) -> Headers:
    """Return the headers of an upload's answer: JSON that is not stored, unless `headers` say otherwise."""
    if not headers:
        return [JSON, NOSNIFF, NO_STORE, (b"content-length", b"%d" % length)]
    if isinstance(headers, Mapping):
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
    said = [(name.lower(), text) for name, text in headers]
    if not any(name == b"content-type" for name, _ in said):
        said.append(JSON)
    return add_security_headers(
        [*(pair for pair in said if pair[0] != b"content-length"), (b"content-length", b"%d" % length)]
    )


def add_security_headers(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Add the headers of every answer: no guessing of types, no copies unless the handler allows them.

    A line break would begin a header of its own; it is refused here, while something else can still be answered.
    """
    if _CONTROL.search(b"".join([part for pair in headers for part in pair])):
        raise ProgramError("headers", [name for name, _ in headers], "values without control characters")
    names = {name for name, _ in headers}
    added = [pair for pair in (NOSNIFF, NO_STORE) if pair[0] not in names]
    return [*headers, *added]


def headers_if_unchanged(headers: Headers, wanted: bytes | None) -> Headers | None:
    """Return the headers of a 304 if the client's tags (If-None-Match) contain the answer's; else None."""
    tag = next((text for name, text in headers if name == b"etag"), None)
    if tag is None or wanted is None:
        return None
    tags = [each.strip().removeprefix(b"W/") for each in wanted.split(b",")]
    if tag not in tags and b"*" not in tags:
        return None
    return [pair for pair in headers if pair[0] not in (b"content-length", b"content-type")]


# Cross-origin requests (CORS)


_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
CORS_HEADERS: Headers = [_ANY_ORIGIN, (b"access-control-expose-headers", b"etag, retry-after, signature, witness")]
_KEPT = 86_400  # seconds for which a browser need not ask again


def add_preflight_targets(targets: Sequence[RouteTarget], public: Collection[str]) -> list[RouteTarget]:
    """Return the targets, with those of `public` ("GET /task") marked, and targets that answer preflight requests.

    A client in a browser runs on its host's page, so analyzer, collector and helper are other origins to it. `*` lets
    every page read what everybody may fetch anyway, without cookies or other credentials: nothing here has any.
    """
    names = {f"{target.method} {target.template}" for target in targets}
    for name in public:
        if name not in names or is_guarded(name.partition(" ")[2]):
            raise ProgramError("public", name, "routes of the role, none of them its administrator's")
    marked = [replace(target, public=f"{target.method} {target.template}" in public) for target in targets]
    methods: dict[str, list[str]] = {}
    for target in marked:
        if target.public:
            methods.setdefault(target.template, []).append(target.method)
    return [*marked, *(_preflight_target(template, found) for template, found in methods.items())]


def _preflight_target(template: str, methods: Sequence[str]) -> RouteTarget:
    handle = _preflight(", ".join(sorted(methods)))
    return RouteTarget(method="OPTIONS", template=template, handle=handle, raw=False, light=True, public=True)


def _preflight(methods: str) -> Callable[..., Awaitable[Response]]:
    from starlette.responses import Response

    response = Response(
        status_code=204,
        headers={
            "access-control-allow-methods": methods,
            "access-control-allow-headers": "content-type",
            "access-control-max-age": str(_KEPT),
        },
    )

    async def preflight(_: object) -> Response:
        return response

    return preflight
