"""Whatever a client sends that is HTTP has an answer, and none is a failure of the server."""

from __future__ import annotations

from http.client import HTTPResponse

from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.http.requests import RequestRefused, RouteTable, RouteTarget, is_guarded

from ...drawn import examples
from .running import Running

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
def test_any_path_has_a_place(method: str, path: str) -> None:
    target, values = TABLE.find(method, f"/{path}")
    assert isinstance(target, RouteTarget | RequestRefused)
    assert all(value.isascii() and value.isprintable() and "/" not in value for value in values.values())


def test_the_nearest_handler_is_found() -> None:
    found = [TABLE.find("GET", path) for path in ("/tasks/latest", "/tasks/t", "/a/b")]
    templates = [target.template for target, _ in found if isinstance(target, RouteTarget)]
    assert templates == ["/tasks/latest", "/tasks/{task}", "/{anything}/{else}"]
    assert found[1][1] == {"task": "t"}


def test_paths_below_admin_and_no_others_are_guarded() -> None:
    assert all(map(is_guarded, ("/status", "/metrics", "/admin", "/admin/", "/admin/a/b", "/admin//")))
    assert not any(map(is_guarded, ("/", "/statuses", "/administrator", "/tasks/admin", "//admin")))
