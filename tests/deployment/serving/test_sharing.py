"""What a page of another origin may read, over real sockets."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response

from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.requests import ProgramError

from .running import TOKEN, Running

PAGE = {"origin": "https://clinic.example"}
ASKING = {**PAGE, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
ALLOW, EXPOSE = "access-control-allow-origin", "access-control-expose-headers"


def test_public_answers_may_be_read_by_any_page(server: Running) -> None:
    with server.client(headers=PAGE) as client:
        document = client.get("/tasks/t")
        answers = [
            document,
            client.get("/tasks/t", headers={"if-none-match": document.headers["etag"]}),
            client.head("/tasks/t"),
            client.get("/streams"),
            client.post("/tasks/t/reports", content=b"x"),
            client.post("/tasks/t/reports", content=b"headers"),
            *(client.get(f"/raise/{kind}") for kind in ("refused", "later", "storage", "invalid", "boom")),
            client.post("/tasks/t/reports", content=bytes((1 << 20) + 1)),
        ]
    assert [each.status_code for each in answers] == [200, 304, 200, 200, 201, 202, 409, 503, 503, 400, 500, 413]
    for answer in answers:
        assert answer.headers.get_list(ALLOW) == ["*"]
        assert answer.headers[EXPOSE] == "etag, retry-after, signature, witness"


def test_nothing_else_may_be_read(server: Running) -> None:
    with server.client(headers=PAGE) as client:
        answers = [
            *(client.get(path) for path in ("/readyz", "/metrics", "/status", "/admin/no", "/nowhere", "/sleep/0")),
            *(client.post(path) for path in ("/echo", "/admin/rotate", "/admin/reports", "/raise/refused")),
            client.get("/status", headers={"authorization": f"Bearer {TOKEN}"}),
            client.put("/tasks/t/job", content=b"x"),
            *(client.options(path, headers=ASKING) for path in ("/echo", "/metrics", "/status", "/tasks/t/job")),
        ]
        shown = client.get("/tasks/t")
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")], answer.request.url
    assert "access-control-allow-credentials" not in shown.headers


def test_browsers_ask_before_they_send(server: Running) -> None:
    with server.client() as client:
        answer = client.options("/tasks/t/reports", headers=ASKING)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers[ALLOW] == "*"
        assert answer.headers["access-control-allow-methods"] == "POST"
        assert answer.headers["access-control-allow-headers"] == "content-type"
        assert answer.headers["access-control-max-age"] == "86400"
        assert client.options("/raise/refused", headers=ASKING).headers["access-control-allow-methods"] == "GET"


@pytest.mark.parametrize("name", ["GET /status", "POST /admin/rotate", "GET /metrics", "PUT /task", "/task", "GET /no"])
def test_only_routes_can_be_public(name: str) -> None:

    async def handle(request: Request) -> Response:
        raise AssertionError

    async def nothing() -> None:
        return None

    with pytest.raises(ProgramError, match="public"):
        build_application(
            role="example",
            routes=[("GET", "/task", handle), ("POST", "/admin/rotate", handle)],
            public=["GET /task", name],
            start=nothing,
            stop=nothing,
            health=dict,
            status=dict,
            metrics=CollectorRegistry(),
            log=EventLog("example"),
            token=None,
        )
