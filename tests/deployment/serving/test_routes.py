"""Refusals, routes and parsing: every HTTP request has an answer, and none is a failure of the server."""

from __future__ import annotations

from http.client import HTTPResponse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.http.limits import parse_json_body
from bandanna.deployment.http.routes import (
    ProgramError,
    RequestRefused,
    RouteTable,
    RouteTarget,
    is_guarded,
    locate_error,
    mark_errors_safe,
    to_refusal,
)
from bandanna.errors import BandannaError, InvalidArgument, raise_without_context

from ...drawn import examples
from .running import Running


class StorageError(BandannaError):
    pass


class DiskFull(StorageError):
    pass


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RequestRefused(409, "stale"), 409, "stale"),
        (InvalidArgument("x", "secret", "other"), 400, "invalid"),
        (DiskFull("secret"), 503, "storage"),
        (ProgramError("x", "secret", "other"), 500, "internal"),
        (ValueError("secret"), 500, "internal"),
    ],
)
def test_every_error_has_its_status_and_shows_no_message(error: Exception, status: int, reason: str) -> None:
    refused = to_refusal(error)
    assert (refused.status, refused.reason) == (status, reason)
    assert "secret" not in str(refused.document)
    assert (refused.retry_after is not None) == (status == 503)


def test_a_refusal_has_reason_text_and_details() -> None:
    assert RequestRefused(409, "stale", epoch=3).document == {"error": "conflict", "reason": "stale", "epoch": 3}
    assert RequestRefused(409, "stale", error="too old").document == {"error": "too old", "reason": "stale"}
    assert RequestRefused(503, "busy", retry_after=0.2).headers == [(b"retry-after", b"1")]
    assert RequestRefused(401, "token").headers == [(b"www-authenticate", b"Bearer")]


@pytest.mark.parametrize("reason", ["", "Bad", "two words", "bad\r\nx: 1", "x" * 41, "1st", None])
def test_reasons_are_words_of_the_program(reason: str) -> None:
    with pytest.raises(ProgramError, match="reason"):
        RequestRefused(400, reason)


def test_a_refusal_that_http_does_not_know_is_refused() -> None:
    for status in (200, 399, 600, 499):
        with pytest.raises(ProgramError, match="status"):
            RequestRefused(status, "x")
    for seconds in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ProgramError, match="retry_after"):
            RequestRefused(503, "x", retry_after=seconds)


def test_only_errors_that_are_marked_safe_are_sent() -> None:
    with pytest.raises(RequestRefused) as caught, mark_errors_safe(422, "range"):
        raise InvalidArgument("epoch", 7, "at most 3")
    assert caught.value.document == {"error": "epoch must be at most 3, got 7", "reason": "range"}
    with pytest.raises(ProgramError), mark_errors_safe():
        RequestRefused(200, "x")


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":1,"a":2}', b"NaN", b"[1e999999", b"\xff", b"[" * 100_000, b"1" * 5000]
)
def test_json_of_clients_is_strict(body: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse_json_body(body)
    assert (caught.value.status, caught.value.reason) == (400, "json")


def test_a_place_is_a_file_and_a_line() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        raise ValueError("secret")
    name, _, line = locate_error(caught.value).partition(":")
    assert name == "test_routes.py"
    assert int(line) > 0
    assert locate_error(ValueError()) == "unknown"


def test_a_place_is_where_an_error_without_context_was_raised() -> None:
    with pytest.raises(BandannaError) as caught:
        raise_without_context(BandannaError("x"))
    assert locate_error(caught.value).startswith("test_routes.py:")


METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
WORDS = [
    "tasks",
    "t",
    "reports",
    "job",
    "admin",
    "rotate",
    "status",
    "metrics",
    "readyz",
    "echo",
    "numbers",
    "..",
    ".",
    "",
]
VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
SEGMENTS = (
    st.sampled_from(WORDS) | VISIBLE | st.binary(max_size=6).map(lambda some: "".join(f"%{byte:02x}" for byte in some))
)
PATHS = st.lists(SEGMENTS, max_size=5).map(lambda parts: "/" + "/".join(parts))
NAMES = st.sampled_from(
    ["authorization", "content-type", "if-none-match", "accept", "expect", "x-forwarded-for", "range", "cookie"]
)
VALUES = st.sampled_from(["Bearer", "*", "100-continue", "bytes=0-1", "", "application/json", "chunked"]) | VISIBLE
HEADERS = st.dictionaries(NAMES, VALUES, max_size=3)
BODIES = st.none() | st.binary(max_size=200) | st.lists(st.binary(min_size=1, max_size=50), max_size=4)


def message(method: str, path: str, body: object, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", *(f"{name}: {value}" for name, value in headers.items())]
    content = b""
    if isinstance(body, bytes):
        lines.append(f"content-length: {len(body)}")
        content = body
    elif isinstance(body, list):
        lines.append("transfer-encoding: chunked")
        content = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in body) + b"0\r\n\r\n"
    return "\r\n".join([*lines, "", ""]).encode("ascii") + content


@examples(100, full=400)
@given(METHODS, PATHS, BODIES, HEADERS)
def test_every_request_has_an_answer(
    server: Running, method: str, path: str, body: object, headers: dict[str, str]
) -> None:
    with server.connect() as connection:
        connection.sendall(message(method, path, body, headers))
        answer = HTTPResponse(connection, method=method)
        answer.begin()
        answer.read()
        assert 200 <= answer.status < 500
        assert answer.getheader("x-content-type-options") == "nosniff"
        answer.close()


async def handle() -> None:
    pass


TABLE = RouteTable(
    [
        RouteTarget(method=method, template=template, handle=handle, raw=False)
        for method, template in (
            ("GET", "/tasks/{task}"),
            ("POST", "/tasks/{task}/reports"),
            ("GET", "/tasks/latest"),
            ("GET", "/{anything}/{else}"),
            ("POST", "/admin/rotate"),
        )
    ]
)


@examples(60, full=300)
@given(st.text(max_size=5), st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=4).map("/".join))
def test_any_path_has_an_answer(method: str, path: str) -> None:
    target, values = TABLE.find(method, f"/{path}")
    assert isinstance(target, RouteTarget | RequestRefused)
    assert all(value.isascii() and value.isprintable() and "/" not in value for value in values.values())


def test_literal_paths_are_found_before_templates() -> None:
    found = [TABLE.find("GET", path) for path in ("/tasks/latest", "/tasks/t", "/a/b")]
    templates = [target.template for target, _ in found if isinstance(target, RouteTarget)]
    assert templates == ["/tasks/latest", "/tasks/{task}", "/{anything}/{else}"]
    assert found[1][1] == {"task": "t"}


def test_paths_below_admin_and_no_others_are_guarded() -> None:
    assert all(map(is_guarded, ("/status", "/metrics", "/admin", "/admin/", "/admin/a/b", "/admin//")))
    assert not any(map(is_guarded, ("/", "/statuses", "/administrator", "/tasks/admin", "//admin")))
