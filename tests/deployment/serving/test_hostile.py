"""Clients that send too much, too slowly, too often, or no HTTP at all."""

from __future__ import annotations

import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from .running import Running, in_flight, rest, until

POST = b"POST /tasks/t/reports HTTP/1.1\r\nhost: x\r\n"


def test_a_body_above_the_limit_is_refused(tight: Running) -> None:
    with tight.client() as client:
        assert client.post("/tasks/t/reports", content=bytes(1000)).status_code == 201
        for path in ("/tasks/t/reports", "/echo"):
            for body in (bytes(1001), iter([bytes(600), bytes(600)]), bytes(300_000), iter([bytes(1000)] * 50)):
                answer = client.post(path, content=body)
                assert (answer.status_code, answer.json()["reason"]) == (413, "too-large")
                assert answer.headers["connection"] == "close"


def _send_on(connection: socket.socket, piece: bytes, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection.sendall(piece)


def test_no_more_is_read_than_the_limit(tight: Running) -> None:
    piece = b"200\r\n" + bytes(512) + b"\r\n"
    with tight.connect() as connection:
        connection.sendall(POST + b"transfer-encoding: chunked\r\n\r\n")
        begun = time.monotonic()
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            _send_on(connection, piece, 300)
    assert time.monotonic() - begun < 300


@pytest.mark.parametrize("path", [b"/tasks/t/reports", b"/echo"])
def test_a_slow_body_is_refused(tight: Running, path: bytes) -> None:
    begun = time.monotonic()
    head = b"POST " + path + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
    with tight.connect() as connection:
        connection.sendall(head)
        connection.settimeout(0.2)
        said = b""
        while b"}" not in said and time.monotonic() - begun < 300:
            if not said:
                connection.sendall(b"x")
            try:
                said += connection.recv(4096)
            except TimeoutError:
                continue
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"reason":"slow"' in said
    assert 0.5 < time.monotonic() - begun < 300


def test_a_slow_head_is_refused(tight: Running) -> None:
    for words in (b"GET /readyz HTTP/1.1\r\nx-a: ", b"GET", b"", b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"):
        begun = time.monotonic()
        said = tight.raw(words)
        assert time.monotonic() - begun < 300
        assert said.startswith(b"HTTP/1.1 200" if words.endswith(b"\r\n\r\n") else b"HTTP/1.1 408")


def test_a_large_head_is_refused(tight: Running) -> None:
    with tight.connect() as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\n")
        try:
            for number in range(2000):
                connection.sendall(b"x-%d: %s\r\n" % (number, b"y" * 100))
        except OSError:
            pass
        said = rest(connection)
    assert said.startswith(b"HTTP/1.1 431 ") or said == b""  # lost if bytes were on their way when it was closed
    assert tight.metric('bandanna_refusals_total{reason="head-too-large"}') >= 1


def test_a_client_that_does_not_read_is_disconnected(tight: Running) -> None:
    with tight.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
        time.sleep(2.5)
        in_flight(tight, 0)
        assert len(rest(connection)) < 1 << 23
    assert tight.metric("bandanna_requests_in_flight") == 1


def test_a_flood_is_refused_with_retry_after(tight: Running) -> None:

    def send_request(path: str) -> httpx.Response:
        with tight.client() as client:
            return client.post(path, content=b"x")

    refused = 'bandanna_refusals_total{reason="busy"}'
    before = tight.metric(refused)
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(send_request, "/hold") for _ in range(12)]
        deadline = time.monotonic() + 600
        while tight.metric(refused) < before + 8 and time.monotonic() < deadline:
            time.sleep(0.02)
        in_flight(tight, 4)
        tight.let_go()
        answers = [each.result() for each in asked]
    assert sorted(answer.status_code for answer in answers) == [201] * 4 + [503] * 8
    for answer in answers:
        if answer.status_code == 503:
            assert (answer.json()["reason"], answer.headers["retry-after"]) == ("busy", "1")
    assert send_request("/sleep/0").status_code == 201


def test_a_busy_server_answers_its_health(tight: Running) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(tight.connect()) for _ in range(6)]
        for connection in connections:
            connection.sendall(b"GET /hold HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        deadline = time.monotonic() + 600
        while len(select.select(connections, [], [], 0.02)[0]) < 2:  # answered
            assert time.monotonic() < deadline
        in_flight(tight, 4)
        tight.let_go()
        statuses = sorted(rest(connection).split()[1] for connection in connections)
    assert statuses == [b"200"] * 4 + [b"503"] * 2


@pytest.mark.parametrize(
    "words",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /readyz HTTP/9.9\r\n\r\n",
        b"GET  HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nbad header\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        POST + b"content-length: -1\r\n\r\n",
        POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        POST + b"content-length: 99999999999999999999999\r\n\r\nxx",
        POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused(server: Running, words: bytes) -> None:
    said = server.raw(words)
    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert said.endswith(b'{"error":"bad request","reason":"malformed"}')
    with server.client() as client:
        assert client.get("/readyz").status_code == 200


def test_a_request_to_upgrade_the_protocol_is_ignored(server: Running) -> None:
    said = server.raw(
        POST + b"connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 3\r\n\r\n", b"abc", pause=0.1
    )
    assert said.startswith(b"HTTP/1.1 ")
    assert said.count(b"HTTP/1.1 ") == 1


def test_requests_in_one_breath_are_answered_in_order(server: Running) -> None:
    requests = [POST + b"content-length: %d\r\n\r\n" % n + bytes(n) for n in range(1, 20)]
    said = server.raw(*requests, b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    lengths = [int(part.partition(b"}")[0]) for part in said.split(b'{"length":')[1:]]
    assert lengths == list(range(1, 20))
    assert b'"ok":true' in said


@pytest.mark.parametrize("path", ["/nowhere", "/status", "/tasks/t"])
def test_a_body_that_nobody_reads_is_passed_over(server: Running, path: str) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n" % path.encode() + bytes(900_000)
        )
        assert until(connection, b"}").startswith(b"HTTP/1.1 40")
        connection.sendall(POST + b"content-length: 3\r\n\r\nabc")
        assert until(connection, b"}").endswith(b'{"length":3}')


def test_a_client_that_leaves_is_counted(server: Running) -> None:
    line = 'bandanna_requests_total{role="example",route="/tasks/{task}/reports",status="gone"}'
    before = server.metric(line)
    with server.connect() as connection:
        connection.sendall(POST + b"content-length: 100\r\n\r\nabc")
    deadline = time.monotonic() + 600
    while server.metric(line) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.metric(line) == before + 1
    assert server.metric("bandanna_requests_in_flight") == 1
    assert all(each["event"] in ("started", "serving") for each in server.lines())


def test_memory_of_bodies_is_freed(tight: Running) -> None:
    with tight.client() as client:
        for number in range(200):
            kind = (b"x" * 1000, iter([b"x" * 500, b"y" * 400]), iter([bytes(900), bytes(900)]))[number % 3]
            assert client.post("/tasks/t/reports", content=kind).status_code in (201, 413)
        for _ in range(30):
            assert client.post("/raise/boom", content=bytes(1000)).status_code == 500
        assert client.post("/tasks/t/reports", content=bytes(1000)).status_code == 201
