"""Serving: CPU seconds of the server per request of one record, beside a bare ASGI application on the same server.

Four processes under the same settings, asked in turn by this one over keep-alive connections of raw sockets. A server
says how much CPU it has used so far whenever a line comes in on its standard input.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import Ratio

BODY = bytes(120)  # a record of 20 counts
CONNECTIONS, REQUESTS, ROUNDS = 8, 250, 9
KINDS = ("bare", "upload", "route", "starlette")
HEAD = "POST /tasks/t/{kind} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, answers 201, and nothing else."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def ours(log: Any) -> Any:
    """The same as an upload and as a route of a role."""
    from starlette.responses import Response

    from bandanna.roles.serving import Metrics, application

    async def nothing() -> None:
        pass

    async def upload(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, None]:
        return 201, b"{}", None

    async def route(request: Any) -> Response:
        await request.body()
        return Response(b"{}", status_code=201, media_type="application/json")

    return application(
        role="bench",
        routes=[("POST", "/tasks/{task}/route", route)],
        uploads={"/tasks/{task}/upload": upload},
        start=nothing,
        stop=nothing,
        health=dict,
        status=dict,
        metrics=Metrics(),
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


def child(kind: str) -> None:
    """A server: prints its port, then its CPU seconds for every line it is sent."""
    from bandanna.roles.serving import Log, serve

    def tell() -> None:
        for _ in sys.stdin:
            print(time.process_time(), flush=True)

    def ready(port: int) -> None:
        print(port, flush=True)
        threading.Thread(target=tell, daemon=True).start()

    log = Log("bench")
    app = bare if kind == "bare" else theirs() if kind == "starlette" else ours(log)
    serve(app, host="127.0.0.1", port=0, cert=None, key=None, log=log, ready=ready)


class Server:
    """One of them, seen from here."""

    def __init__(self, kind: str) -> None:
        command = [sys.executable, "-m", "benchmarks.serving", kind]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        self.request = HEAD.format(kind=kind).encode() + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
        self.sockets: list[socket.socket] = []

    def connect(self) -> None:
        """When it is ready."""
        port = int(self._line())
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]

    def cost(self) -> float:
        """CPU seconds per request of one round."""
        before = self._cpu()
        for _ in range(REQUESTS):
            for each in self.sockets:
                each.sendall(self.request)
            for each in self.sockets:
                _answer(each)
        return (self._cpu() - before) / (REQUESTS * CONNECTIONS)

    def stop(self) -> None:
        """Close everything."""
        for each in self.sockets:
            each.close()
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


def measure() -> list[Ratio]:
    """The cheapest of interleaved rounds, after one to warm up."""
    with ExitStack() as stack:
        servers = {}
        for kind in KINDS:
            servers[kind] = server = Server(kind)
            stack.callback(server.stop)
            server.connect()
        rounds = [{kind: server.cost() for kind, server in servers.items()} for _ in range(1 + ROUNDS)][1:]
    least = {kind: min(costs[kind] for costs in rounds) for kind in KINDS}
    promises = {"upload": 2 * least["bare"], "route": 3 * least["bare"], "starlette": None}
    names = {"upload": "an upload", "route": "a route", "starlette": "Starlette alone"}
    return [
        Ratio(what=f"CPU of {names[kind]}", ours=least[kind], beside="bare ASGI", theirs=least["bare"], promise=promise)
        for kind, promise in promises.items()
    ]


if __name__ == "__main__":
    child(sys.argv[1])
