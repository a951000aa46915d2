"""The start and the end of a process that serves."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import bandanna
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.server import serve
from bandanna.errors import InvalidArgument

from .running import idle_application, in_flight, rest, running, until, until_refused, write_certificate

HELD = b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_stops_finishes_its_requests_and_exits_with_0(tmp_path: Path, number: int) -> None:
    with running(tmp_path) as server, server.connect() as busy, server.connect() as idle:
        busy.sendall(HELD)
        idle.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert until(idle, b"}").startswith(b"HTTP/1.1 200 ")
        in_flight(server, 1)
        server.process.send_signal(number)
        until_refused(server)
        assert rest(idle) == b""
        server.let_go()
        said = rest(busy)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.endswith(b'{"held":true}')
        assert server.process.wait(600) == 0  # it has been told once: a second signal might end what is left of it
        assert [line["event"] for line in server.lines()] == [
            "started",
            "serving",
            "stopping",
            "role stopped",
            "stopped",
        ]


def test_a_request_that_does_not_end_is_answered_503_at_the_end(tmp_path: Path) -> None:
    with running(tmp_path, limits={"drain": 0.5}) as server, server.connect() as busy:
        busy.sendall(HELD)
        in_flight(server, 1)
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 300
        said = rest(busy)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert said.endswith(b'"reason":"stopping"}')
        assert server.lines()[-1]["event"] == "stopped"


def test_uploads_under_way_are_all_answered(tmp_path: Path) -> None:
    with running(tmp_path) as server, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(20)]
        for connection in connections:
            connection.sendall(b"POST /hold HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx")
        in_flight(server, 20)
        server.process.send_signal(signal.SIGTERM)
        until_refused(server)
        server.let_go()
        assert server.process.wait(600) == 0
        assert all(rest(connection).startswith(b"HTTP/1.1 201 ") for connection in connections)


def test_a_role_that_cannot_start_raises_its_error(tmp_path: Path) -> None:
    with running(tmp_path, start="fails") as server:
        assert server.port == 0
        assert server.stop() == 1
    assert "db must be a database that is there, got 'nowhere'" in server.errors.read_text()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_a_server_with_a_certificate_speaks_tls_only(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    context = ssl.create_default_context(cafile=str(cert))
    with running(tmp_path, cert=str(cert), key=str(key)) as server:
        with server.client(verify=context) as client:
            assert client.get("/readyz").status_code == 200
            assert client.post("/tasks/t/reports", content=bytes(5000)).json() == {"length": 5000}
        with pytest.raises(httpx.ConnectError), server.client(verify=True) as client:
            client.get("/readyz")
        assert not server.raw(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").startswith(b"HTTP")
        assert server.stop() == 0
        assert [line["event"] for line in server.lines()] == [
            "started",
            "serving",
            "stopping",
            "role stopped",
            "stopped",
        ]
        assert server.lines()[1]["tls"] is True


def test_an_unusable_port_host_or_certificate_is_named(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "cert": None, "key": None, "log": EventLog("x")}
    (tmp_path / "nothing.pem").write_text("nothing")
    with socket.create_server(("127.0.0.1", 0)) as other:
        for wrong, named in (
            ({"port": other.getsockname()[1]}, "a free port"),
            ({"port": 70_000}, "port"),
            ({"host": "no such host"}, "host"),
            ({"cert": certificate[0]}, "key"),
            ({"cert": tmp_path / "nothing.pem", "key": certificate[1]}, r"nothing\.pem"),
        ):
            with pytest.raises(InvalidArgument, match=named):
                serve(idle_application(), **options | wrong)


def test_a_missing_extra_is_named() -> None:
    code = """
import sys
from bandanna.errors import MissingExtra
sys.modules[sys.argv[1]] = None
for name in ("serve", "application"):
    try:
        exec(f"from bandanna.deployment.http import {name}")
    except MissingExtra as error:
        assert "bandanna[serve]" in str(error)
        print(name)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(bandanna.__file__).parents[1])}
    for module in ("prometheus_client", "starlette", "uvicorn"):
        command = [sys.executable, "-c", code, module]
        said = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (said.stdout, said.stderr) == ("serve\napplication\n", "")
