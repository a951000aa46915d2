"""Answers: canonical JSON, entity tags, and the headers that every answer has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandanna.roles.serving.refusals import Mistake
from bandanna.roles.serving.routing import Headers, UploadHeaders
from bandanna.wire.canonical import dumps

if TYPE_CHECKING:
    from starlette.responses import Response

JSON = (b"content-type", b"application/json")
NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_STORE = (b"cache-control", b"no-store")
CLOSE = (b"connection", b"close")
_TAG = re.compile(r"[!#-~]{1,128}")  # what may stand between the quotes of an entity tag

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def canonical(value: Any) -> bytes:
    """As documents travel: what a role signs and what it sends are the same bytes."""
    return dumps(value)


def json_response(
    value: Any, status: int = 200, *, etag: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """A document. With `etag` the application answers 304 to whoever has it already (If-None-Match)."""
    from starlette.responses import Response

    added = dict(headers or {})
    if etag is not None:
        if not _TAG.fullmatch(etag):
            raise Mistake("etag", etag, "up to 128 visible ASCII characters without quotes")
        added["etag"] = f'"{etag}"'
        added.setdefault("cache-control", "no-cache")  # may be kept, and is asked for again
    return Response(canonical(value), status_code=status, headers=added, media_type="application/json")


def upload_headers(headers: UploadHeaders, length: int) -> Headers:
    """Of an upload's answer: JSON, not to be kept, unless it says otherwise."""
    if not headers:
        return [JSON, NOSNIFF, NO_STORE, (b"content-length", b"%d" % length)]
    if isinstance(headers, Mapping):
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
    said = [(name.lower(), text) for name, text in headers]
    if not any(name == b"content-type" for name, _ in said):
        said.append(JSON)
    return secured([*(pair for pair in said if pair[0] != b"content-length"), (b"content-length", b"%d" % length)])


def secured(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """With what every answer has: no guessing of types, no copies unless the handler allows them.

    A line break would begin a header of its own; it is refused here, while something else can still be answered.
    """
    if _CONTROL.search(b"".join([part for pair in headers for part in pair])):
        raise Mistake("headers", [name for name, _ in headers], "values without control characters")
    names = {name for name, _ in headers}
    added = [pair for pair in (NOSNIFF, NO_STORE) if pair[0] not in names]
    return [*headers, *added]


def unchanged(headers: Headers, wanted: bytes | None) -> Headers | None:
    """The headers of a 304 if the client's tags (If-None-Match) contain the answer's; else None."""
    tag = next((text for name, text in headers if name == b"etag"), None)
    if tag is None or wanted is None:
        return None
    tags = [each.strip().removeprefix(b"W/") for each in wanted.split(b",")]
    if tag not in tags and b"*" not in tags:
        return None
    return [pair for pair in headers if pair[0] not in (b"content-length", b"content-type")]
