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
from bandanna.errors import BandannaError, InvalidArgument, raise_without_context

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


# Threads


ValueT = TypeVar("ValueT")


def set_thread_pool(threads: int) -> ThreadPoolExecutor:
    """Give the running loop a pool of threads, whose queue the application's limits bound."""
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="blocking")
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


async def run_in_thread(function: Callable[..., ValueT], *args: object) -> ValueT:
    """Call `function(*args)` in a thread. It runs to its end even if the request is cancelled."""
    call = partial(contextvars.copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(None, call)


# Refusals


_REASON = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_STATUSES = frozenset(status.value for status in HTTPStatus if status.value >= 400)
_BUSY_SECONDS = 1.0  # after which a client repeats its request


class ProgramError(InvalidArgument):
    """A fault of the program, answered with status 500."""


class RequestRefused(Exception):
    """A refusal that a handler raises; the client is sent {"error": text, "reason": reason, **details}.

    Parameters
    ----------
    reason
        A short word of the program, by which refusals are counted. It is never taken from a request.
    retry_after
        Seconds after which the client may repeat the request, rounded up in the header.
    details
        More for the document. `error` replaces the phrase of the status.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        retry_after: float | None = None,
        headers: Headers | None = None,
        **details: Any,
    ) -> None:
        if status not in _STATUSES:
            raise ProgramError("status", status, "an HTTP status from 400 on")
        if not isinstance(reason, str) or not _REASON.fullmatch(reason):
            raise ProgramError(
                "reason", reason, "a short word of lower-case letters, digits, - and _ that begins with a letter"
            )
        if retry_after is not None and not 0 <= retry_after < math.inf:
            raise ProgramError("retry_after", retry_after, "a finite number >= 0 of seconds")
        self.status, self.reason, self.retry_after, self.details = status, reason, retry_after, details
        self.headers = list(headers or ())
        if retry_after is not None:
            self.headers.append((b"retry-after", b"%d" % math.ceil(retry_after)))
        if status == 401:
            self.headers.append((b"www-authenticate", b"Bearer"))
        super().__init__(reason)

    @property
    def document(self) -> dict[str, Any]:
        return {"error": HTTPStatus(self.status).phrase.lower(), **self.details, "reason": self.reason}


def make_busy_refusal(reason: str = "busy") -> RequestRefused:
    """Return a refusal with status 503 and Retry-After."""
    return RequestRefused(503, reason, retry_after=_BUSY_SECONDS)


@contextmanager
def mark_errors_safe(status: int = 400, reason: str = "invalid") -> Iterator[None]:
    """Refuse with the message of an error, which must have no data of other users."""
    try:
        yield
    except ProgramError:
        raise
    except BandannaError as error:
        raise RequestRefused(status, reason, error=str(error)) from error


def to_refusal(error: BaseException) -> RequestRefused:
    """Return the refusal for an error, without details of a failure of the role."""
    if isinstance(error, RequestRefused):
        return error
    if is_storage(error):
        return make_busy_refusal("fenced" if _has_class_name("FencedError", error) else "storage")
    if isinstance(error, BandannaError) and not isinstance(error, ProgramError):
        return RequestRefused(400, "invalid")
    return RequestRefused(500, "internal", error="internal error")


def is_storage(error: BaseException) -> bool:
    """Return whether a database failed, by the class's name: a role without a database loads none."""
    return _has_class_name("StorageError", error)


def _has_class_name(name: str, error: BaseException) -> bool:
    return any(each.__name__ == name for each in type(error).__mro__)


def check_task(name: str, own: str) -> None:
    """Refuse a request about another task with status 404."""
    if name != own:
        raise RequestRefused(404, "task")


def locate_error(error: BaseException) -> str:
    """Return file:line of an exception, without its message."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code is not raise_without_context.__code__
    ]
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
GUARDED = ("/admin", "/metrics", "/status")  # beginnings of paths that may need the token
UPLOADS, WAITERS, PEERS, OTHERS = "uploads", "waiters", "peers", "others"  # classes of requests


@dataclass(frozen=True, kw_only=True, eq=False)
class RouteTarget:
    """The handler of one HTTP method of one path template, and its rules."""

    method: str
    template: str
    handle: Callable[..., Awaitable[Any]]
    raw: bool  # an upload: bytes in, bytes out
    light: bool = False  # answered even if the server is busy; its body is not read
    public: bool = False  # web pages of any origin may read the answer
    kind: str = OTHERS  # its class
    keyed: bool = False  # needs the token, which is checked before the body is read
    inner: bool = False  # every role has it for its operator


class RouteTable:
    """Finds targets by path: literal paths first, then templates in their order."""

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
                raise ProgramError("route", f"{target.method} {target.template}", "a route with one handler")
        patterns = [re.compile(_PARAMETER.sub(_VALUE, re.escape(template))) for template in templates]
        self._templates = list(zip(patterns, templates.values(), strict=True))

    def find(self, method: str, path: str) -> tuple[RouteTarget | RequestRefused, dict[str, str]]:
        """Return the target, or the refusal, and the template's values."""
        methods, values = self._literal.get(path), dict[str, str]()
        if methods is None:
            found = ((each, pattern.fullmatch(path)) for pattern, each in self._templates)
            methods, match = next((pair for pair in found if pair[1] is not None), (None, None))
            if methods is None or match is None:
                return RequestRefused(404, "unknown-path"), values
            values = match.groupdict()
        target = methods.get("GET" if method == "HEAD" else method)
        return (target, values) if target is not None else (_refuse_method(methods), values)


def _refuse_method(methods: Collection[str]) -> RequestRefused:
    return RequestRefused(405, "method", headers=[(b"allow", ", ".join(sorted(methods)).encode("ascii"))])


def targets_from_routes(routes: Sequence[Route], uploads: Mapping[str, Upload]) -> list[RouteTarget]:
    """Return a role's targets. An upload's method is POST, or stands before its path: "PUT /jobs/{job}"."""
    targets = [RouteTarget(method=method, template=path, handle=handle, raw=False) for method, path, handle in routes]
    for key, upload in uploads.items():
        method, _, path = key.rpartition(" ")
        targets.append(RouteTarget(method=method or "POST", template=path, handle=upload, raw=True, kind=UPLOADS))
    return targets


def is_guarded(path: str) -> bool:
    """Return whether a path needs the operator's token."""
    return path in GUARDED or path.startswith("/admin/")


# Responses


JSON = (b"content-type", b"application/json")
NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_STORE = (b"cache-control", b"no-store")
CLOSE = (b"connection", b"close")
_TAG = re.compile(r"[!#-~]{1,128}")  # the characters of an entity tag

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def encode_canonical(value: Any) -> bytes:
    """Return a document as canonical JSON, the bytes that a role signs and sends."""
    return dumps(value)


def json_response(
    value: Any, status: int = 200, *, etag: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response; with `etag`, 304 to a client that has it (If-None-Match)."""
    from starlette.responses import Response

    added = dict(headers or {})
    if etag is not None:
        if not _TAG.fullmatch(etag):
            raise ProgramError("etag", etag, "a text of up to 128 visible ASCII characters without quotes")
        added["etag"] = f'"{etag}"'
        added.setdefault("cache-control", "no-cache")  # may be stored, but is requested again
    return Response(encode_canonical(value), status_code=status, headers=added, media_type="application/json")


def upload_headers(headers: UploadHeaders, length: int) -> Headers:
    """Return the headers of an upload's answer, by default of JSON that is not stored."""
    if not headers:
        return [JSON, NOSNIFF, NO_STORE, (b"content-length", b"%d" % length)]
    if isinstance(headers, Mapping):
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
    fields = [(name.lower(), text) for name, text in headers if name.lower() != b"content-length"]
    if not any(name == b"content-type" for name, _ in fields):
        fields.append(JSON)
    return add_security_headers([*fields, (b"content-length", b"%d" % length)])


def add_security_headers(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Add the headers of every answer: no guessing of types, and no copies unless the handler allows them.

    Control characters are refused, because a line break would begin another header.
    """
    if _CONTROL.search(b"".join([part for pair in headers for part in pair])):
        raise ProgramError("headers", [name for name, _ in headers], "values without control characters")
    names = {name for name, _ in headers}
    return [*headers, *(pair for pair in (NOSNIFF, NO_STORE) if pair[0] not in names)]


def headers_if_unchanged(headers: Headers, condition: bytes | None) -> Headers | None:
    """Return the headers of a 304 if the client's tags contain the answer's; else None."""
    tag = next((text for name, text in headers if name == b"etag"), None)
    if tag is None or condition is None:
        return None
    tags = [each.strip().removeprefix(b"W/") for each in condition.split(b",")]
    if tag not in tags and b"*" not in tags:
        return None
    return [pair for pair in headers if pair[0] not in (b"content-length", b"content-type")]


# Cross-origin requests (CORS)


_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
CORS_HEADERS: Headers = [_ANY_ORIGIN, (b"access-control-expose-headers", b"etag, retry-after, signature, witness")]
_PREFLIGHT_SECONDS = 86_400  # a browser need not repeat a preflight request


def add_preflight_targets(targets: Sequence[RouteTarget], public: Collection[str]) -> list[RouteTarget]:
    """Mark the targets of `public` ("GET /task") and add targets for preflight requests.

    `*` lets every page read what any client may fetch; no answer depends on cookies or other credentials.
    """
    names = {f"{target.method} {target.template}" for target in targets}
    for name in public:
        if name not in names or is_guarded(name.partition(" ")[2]):
            raise ProgramError("public", name, "a route of the role that does not need the token")
    marked = [replace(target, public=f"{target.method} {target.template}" in public) for target in targets]
    methods: dict[str, list[str]] = {}
    for target in marked:
        if target.public:
            methods.setdefault(target.template, []).append(target.method)
    return [*marked, *(_preflight_target(template, ", ".join(sorted(found))) for template, found in methods.items())]


def _preflight_target(template: str, methods: str) -> RouteTarget:
    from starlette.responses import Response

    response = Response(
        status_code=204,
        headers={
            "access-control-allow-methods": methods,
            "access-control-allow-headers": "content-type",
            "access-control-max-age": str(_PREFLIGHT_SECONDS),
        },
    )

    async def answer(_: object) -> Response:
        return response

    return RouteTarget(method="OPTIONS", template=template, handle=answer, raw=False, light=True, public=True)
