"""CPU seconds of a server per request of one report, beside a bare ASGI application on the same server.

Four processes under the same settings, asked in turn by this one over keep-alive connections of raw sockets. A server
says how much CPU it has used so far whenever a line comes in on its standard input. `python -m benchmarks.serving KIND`
is one of them.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.clock import Effort
from benchmarks.report import Absent, Row

KINDS = ("bare", "upload", "route", "starlette")


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, answers 201, and nothing else."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def ours(log: Any) -> Any:
    """The same as an upload and as a route of a role."""
    from prometheus_client import CollectorRegistry
    from starlette.responses import Response

    from bandanna.deployment.http.application import build_application

    async def nothing() -> None:
        pass

    async def upload(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, None]:
        return 201, b"{}", None

    async def route(request: Any) -> Response:
        await request.body()
        return Response(b"{}", status_code=201, media_type="application/json")

    return build_application(
        role="bench",
        routes=[("POST", "/tasks/{task}/route", route)],
        uploads={"/tasks/{task}/upload": upload},
        start=nothing,
        stop=nothing,
        health=dict,
        status=dict,
        metrics=CollectorRegistry(),
        log=log,
        token=None,
    )


def theirs() -> Any:
    """The same as Starlette's own application."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def route(request: Request) -> Response:
        await request.body()
        return Response(b"{}", status_code=201, media_type="application/json")

    return Starlette(routes=[Route("/tasks/{task}/starlette", route, methods=["POST"])])


def alone(app: Any, log: Any) -> Any:
    """Return an application of a role that passes all requests to another application."""
    own = ours(log)

    class Passing(type(own)):  # type: ignore[misc]
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await (app if scope["type"] == "http" else super().__call__)(scope, receive, send)

    own.__class__ = Passing
    return own


def child(kind: str) -> None:
    """A server: prints its port, then its CPU seconds for every line it is sent."""
    from bandanna.deployment.http.metrics import EventLog
    from bandanna.deployment.http.server import serve

    def say(number: float) -> None:
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()

    def tell() -> None:
        for _ in sys.stdin:
            say(time.process_time())

    def ready(port: int) -> None:
        say(port)
        threading.Thread(target=tell, daemon=True).start()

    log = EventLog("bench")
    others = {"bare": bare, "starlette": theirs()}
    app = alone(others[kind], log) if kind in others else ours(log)
    serve(app, host="127.0.0.1", port=0, cert=None, key=None, log=log, ready=ready)


BODY = bytes(120)  # a report of 20 counts
CONNECTIONS, REQUESTS, ROUNDS = 8, 125, 5
HEAD = "POST /tasks/t/{kind} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
EXTRA, BARE = "serve", "the bare ASGI server"
NAMES = {"upload": "an upload", "route": "a route", "starlette": "Starlette alone"}


class Server:
    """One of them, seen from here."""

    def __init__(self, kind: str) -> None:
        command = [sys.executable, "-m", "benchmarks.serving", kind]
        self.process = subprocess.Popen(
            command,
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.request = HEAD.format(kind=kind).encode() + b"content-length: %d\r\n\r\n" % len(BODY) + BODY

    @cached_property
    def port(self) -> int:
        """When it is ready."""
        return int(self._line())

    def cost(self, requests: int) -> float:
        """CPU seconds per request, of so many over every connection; connections that wait are closed by servers."""
        with ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.create_connection(("127.0.0.1", self.port))) for _ in range(CONNECTIONS)
            ]
            before = self._cpu()
            for _ in range(requests):
                for each in sockets:
                    each.sendall(self.request)
                for each in sockets:
                    _answer(each)
            return (self._cpu() - before) / (requests * CONNECTIONS)

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.communicate()

    def _cpu(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def _answer(connection: socket.socket) -> None:
    said = b""
    while not said.endswith(b"\r\n\r\n{}"):
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError(said.decode("latin-1"))
        said += piece
    if not said.startswith(b"HTTP/1.1 201 "):
        raise ConnectionError(said.decode("latin-1"))


def costs(rounds: int = ROUNDS, requests: int = REQUESTS) -> dict[str, float]:
    """The cheapest of interleaved rounds, after one to warm up: CPU seconds of a request, by kind of server."""
    with ExitStack() as stack:
        servers = {}
        for kind in KINDS:
            servers[kind] = server = Server(kind)
            stack.callback(server.stop)
        taken = [{kind: server.cost(requests) for kind, server in servers.items()} for _ in range(1 + rounds)][1:]
    return {kind: max(min(each[kind] for each in taken), 1e-9) for kind in KINDS}


def measure(effort: Effort) -> tuple[list[Row], list[Absent]]:
    """The bare server, what a role adds to it, and what Starlette alone would."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        return [], [Absent(name="the servers of a deployment", extra=EXTRA)]
    least = costs(*((1, 2) if effort.small else (ROUNDS, REQUESTS)))
    sizes = {"connections": CONNECTIONS, "bytes": len(BODY)}
    rows = [Row(part="floor", name=BARE, world="http", unit="request", sizes=sizes, cpu_seconds=least["bare"])]
    for kind, name in NAMES.items():
        rows.append(
            Row(
                part="peer" if kind == "starlette" else "serving",
                name=name,
                world="http",
                unit="request",
                sizes=sizes,
                cpu_seconds=least[kind],
                floor=(BARE, least["bare"]),
            )
        )
    return rows, []


if __name__ == "__main__":
    child(sys.argv[1])
