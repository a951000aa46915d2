"""Which handler a path belongs to, by templates such as `/tasks/{task}/reports`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bandanna.roles.serving.refusals import Mistake, Refused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

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
class Target:
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


class Table:
    """All targets. A literal path is found before a template, templates in the order in which they were given."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._literal: dict[str, dict[str, Target]] = {}
        templates: dict[str, dict[str, Target]] = {}
        for target in targets:
            if not _TEMPLATE.fullmatch(target.template) or target.method not in METHODS:
                allowed = f"{', '.join(sorted(METHODS))}, and a path such as /tasks/{{task}}/reports"
                raise Mistake("route", f"{target.method} {target.template}", allowed)
            among = templates if "{" in target.template else self._literal
            methods = among.setdefault(target.template, {})
            if methods.setdefault(target.method, target) is not target:
                raise Mistake("route", f"{target.method} {target.template}", "a handler for each, not two")
        self._templates = [(_pattern(template), methods) for template, methods in templates.items()]

    def find(self, method: str, path: str) -> tuple[Target | Refused, dict[str, str]]:
        """The target and the template's values, or why there is none. HEAD is GET without a body."""
        methods, values = self._methods(path)
        if methods is None:
            return Refused(404, "unknown-path"), values
        target = methods.get("GET" if method == "HEAD" else method)
        return (target, values) if target is not None else (Unsuited(sorted(methods)), values)

    def _methods(self, path: str) -> tuple[dict[str, Target] | None, dict[str, str]]:
        known = self._literal.get(path)
        if known is not None:
            return known, {}
        for pattern, methods in self._templates:
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        return None, {}


class Unsuited(Refused):
    """The path is there, the method is not."""

    def __init__(self, methods: Sequence[str]) -> None:
        self.allow = ", ".join(methods)
        super().__init__(405, "method")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Which methods there are."""
        return [(b"allow", self.allow.encode("ascii"))]


def targets_of(routes: Sequence[Route], uploads: Mapping[str, Upload]) -> list[Target]:
    """Of a role. An upload's method is POST, or stands before its path: "PUT /jobs/{job}"."""
    targets = [Target(method=method, template=path, handle=handle, raw=False) for method, path, handle in routes]
    for key, upload in uploads.items():
        method, _, path = key.rpartition(" ")
        targets.append(Target(method=method or "POST", template=path, handle=upload, raw=True, kind=UPLOADS))
    return targets


def guarded(path: str) -> bool:
    """Whether only the administrator may ask."""
    return path in GUARDED or path.startswith("/admin/")


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub(_VALUE, re.escape(template)))
