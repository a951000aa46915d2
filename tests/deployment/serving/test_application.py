"""The common answers of all roles over real sockets, and those that pages of other origins may read."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from bandanna.deployment.http.routes import ProgramError, Route

from .running import ADMIN, TOKEN, Running, idle_application, parse_metrics, rest, running

SECRET = "the-text-of-an-exception"


def test_health_is_200_or_503_and_clients_read_only_ok(server: Running, tmp_path: Path) -> None:
    with server.client() as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
        assert client.get("/readyz", headers=ADMIN).json() == {"ok": True, "batches": 3, "role": "example"}
        assert client.head("/readyz").content == b""
    for health in ("bad", "raises"):
        with running(tmp_path, health=health) as unwell, unwell.client() as client:
            answer = client.get("/readyz")
            assert (answer.status_code, answer.json()) == (503, {"ok": False})
            answer = client.get("/readyz", headers=ADMIN)
            assert (answer.status_code, answer.json()["ok"]) == (503, False)
            assert SECRET not in answer.text


def test_metrics_are_text_that_prometheus_reads(server: Running) -> None:
    with server.client() as client:
        for _ in range(3):
            client.post("/tasks/t/reports", content=b"x")
        client.get("/nowhere/at-all")
        client.get("/raise/refused")
        answer = client.get("/metrics", headers=ADMIN)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    types, samples = parse_metrics(answer.text)
    assert types["bandanna_requests"] == "counter"
    assert types["bandanna_requests_in_flight"] == "gauge"
    reports = {("role", "example"), ("route", "/tasks/{task}/reports"), ("status", "2xx")}
    assert samples["bandanna_requests_total", frozenset(reports)] >= 3
    assert samples["bandanna_request_duration_seconds_count", frozenset({("route", "/tasks/{task}/reports")})] >= 3
    assert (
        samples["bandanna_requests_total", frozenset({("role", "example"), ("route", "other"), ("status", "4xx")})] >= 1
    )
    assert samples["bandanna_refusals_total", frozenset({("reason", "stale")})] >= 1
    assert samples["bandanna_requests_in_flight", frozenset()] >= 1
    assert "at-all" not in answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("GET", "/metrics"),
        ("POST", "/tasks/t/tickets"),
        ("POST", "/admin/rotate"),
        ("POST", "/admin/reports"),
        ("GET", "/admin/no"),
    ],
)
def test_administration_needs_the_token_also_for_unknown_paths(server: Running, method: str, path: str) -> None:
    with server.client() as client:
        wrong = [
            {},
            *({"authorization": text} for text in ("Bearer", "Bearer x", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x")),
        ]
        for headers in wrong:
            answer = client.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["reason"]) == (401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"
        answer = client.request(method, path, headers={"authorization": f"bearer {TOKEN}"})
        assert answer.status_code == {"/admin/no": 404, "/admin/reports": 201, "/tasks/t/tickets": 201}.get(path, 200)


def test_a_role_without_a_token_refuses_all_administration(tmp_path: Path) -> None:
    with running(tmp_path, token=None) as server, server.client() as client:
        for headers in ({}, {"authorization": "Bearer"}, {"authorization": "Bearer None"}):
            for path in ("/status", "/metrics"):
                assert client.get(path, headers=headers).status_code == 403
        assert client.get("/readyz").status_code == 200


def test_unknown_paths_and_methods_are_404_and_405_in_json(server: Running) -> None:
    with server.client() as client:
        for path in (
            "/",
            "/nowhere",
            "/tasks/",
            "/tasks/a/b/c",
            "/tasks/a%2Fb",
            "/tasks/%00",
            "/tasks/ü",
            "//admin/rotate",
        ):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["reason"]) == (404, "unknown-path"), path
        answer = client.delete("/echo")
        assert (answer.status_code, answer.json()["reason"], answer.headers["allow"]) == (405, "method", "POST, PUT")
        assert client.get("/tasks/t/reports").status_code == 405
        assert client.post("/tasks/t").headers["allow"] == "GET, OPTIONS"
        assert client.options("/echo").status_code == 405


def test_every_answer_has_security_headers_and_no_server_name(server: Running) -> None:
    with server.client() as client:
        answers = [
            client.get(path) for path in ("/readyz", "/metrics", "/nowhere", "/raise/boom", "/streams", "/sleep/0")
        ]
        answers += [client.post("/tasks/t/reports", content=body) for body in (b"", b"x", b"headers", b"pairs")]
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert not {"server", "date", "x-powered-by"} & set(answer.headers)
        assert client.get("/large").headers["cache-control"] == "max-age=60"
        assert client.get("/streams").text == "piecepiecepiece"


def test_an_upload_handler_gets_and_returns_bytes_unchanged(server: Running) -> None:
    with server.client() as client:
        answer = client.post("/tasks/t/reports", content=bytes(300_000))
        assert (answer.status_code, answer.json()) == (201, {"length": 300_000})
        assert client.put("/tasks/t/job", content=b"12").json() == {"length": 2}
        assert client.post("/tasks/t/reports", content=iter([b"1", b"", b"23"])).json() == {"length": 3}
        answer = client.post("/tasks/t/reports", content=b"headers")
        assert (answer.status_code, answer.text, answer.headers["content-type"]) == (202, "text", "text/plain")
        assert answer.headers["x-more"] == "1"
        assert client.post("/tasks/t/reports", content=b"pairs").headers["x-more"] == "2"


def test_a_handler_reads_its_body_and_sees_no_address(server: Running) -> None:
    with server.client() as client:
        assert client.post("/echo", content=b"abc").json() == {"length": 3, "seen": False}
        assert client.post("/numbers", json={"numbers": [1, 2]}).json() == {"sum": 3}
        answer = client.post("/numbers", content=b"{")
        assert (answer.status_code, answer.json()["reason"]) == (400, "json")


def test_documents_that_a_client_has_are_not_sent_again(server: Running) -> None:
    with server.client() as client:
        answer = client.get("/tasks/t")
        assert answer.content == b'{"a":1.5,"task":"t"}'
        assert (answer.headers["etag"], answer.headers["cache-control"]) == ('"one"', "no-cache")
        for tags in ('"one"', 'W/"one"', '"two", "one"', "*"):
            again = client.get("/tasks/t", headers={"if-none-match": tags})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", '"one"')
        for tags in ('"two"', "one", ""):
            assert client.get("/tasks/t", headers={"if-none-match": tags}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("refused", 409, "stale"),
        ("later", 503, "closing"),
        ("storage", 503, "storage"),
        ("invalid", 400, "invalid"),
        ("safe", 400, "invalid"),
        ("newline", 500, "internal"),
        ("log", 500, "internal"),
        ("exit", 503, "stopping"),
        ("boom", 500, "internal"),
    ],
)
def test_errors_of_handlers_have_a_status_and_a_reason_and_show_no_text(
    server: Running, method: str, kind: str, status: int, reason: str
) -> None:
    before = server.metric(f'bandanna_refusals_total{{reason="{reason}"}}')
    with server.client() as client:
        answer = client.request(method, f"/raise/{kind}")
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "x-injected" not in answer.headers
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
    assert server.metric(f'bandanna_refusals_total{{reason="{reason}"}}') == before + 1
    if kind == "safe":
        assert answer.json()["error"] == "epoch must be at most 3, got 7"
    if kind == "refused":
        assert answer.json()["epoch"] == 3


def test_headers_cannot_be_injected(server: Running) -> None:
    with server.client() as client:
        for answer in (client.get("/injects"), client.post("/tasks/t/reports", content=b"injection")):
            assert answer.status_code == 500
            assert "x-injected" not in answer.headers


def test_a_blocking_handler_does_not_stop_other_requests(server: Running) -> None:
    with server.connect() as slow:
        slow.sendall(b"GET /block/800 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        with server.client() as client:
            assert client.get("/readyz").elapsed.total_seconds() < 0.7
        assert b'{"blocked":true}' in rest(slow)


def test_the_log_names_nobody(server: Running) -> None:
    with server.client() as client:
        client.post(
            "/raise/boom", content=b"the-body", headers={"x-forwarded-for": "203.0.113.9", "user-agent": "agent-x"}
        )
        client.post("/raise/storage?query=value", content=b"the-body")
    server.raw(b"nonsense the-body\r\n\r\n")
    lines = server.lines()
    text = server.errors.read_text()
    for word in ("127.0.0.1", "203.0.113.9", "agent-x", "the-body", SECRET, "query", "nonsense"):
        assert word not in text
    assert {line["event"] for line in lines} <= {"started", "serving", "internal", "storage"}
    assert all(line["role"] == "example" for line in lines)
    assert any(line.get("type") == "RuntimeError" and line["place"].startswith("example.py:") for line in lines)


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


def test_answers_that_are_not_public_cannot_be_read_by_pages(server: Running) -> None:
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


def test_preflight_requests_of_browsers_are_answered(server: Running) -> None:
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

    routes: list[Route] = [("GET", "/task", handle), ("POST", "/admin/rotate", handle)]
    with pytest.raises(ProgramError, match="public"):
        idle_application(routes=routes, public=["GET /task", name])
