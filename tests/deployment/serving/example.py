"""A role for tests, run as a program with JSON settings in its argument; its first line is its port."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import Limits, parse_json_body
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import RequestRefused, json_response, mark_errors_safe, run_in_thread
from bandanna.deployment.http.server import serve
from bandanna.errors import BandannaError, InvalidArgument

SECRET = "the-text-of-an-exception"


class StorageError(BandannaError):
    """A class of the name that errors of databases have."""


LOG = EventLog("example")


def trouble(kind: str) -> None:
    if kind == "refused":
        raise RequestRefused(409, "stale", epoch=3)
    if kind == "later":
        raise RequestRefused(503, "closing", retry_after=0.2)
    if kind == "newline":
        raise RequestRefused(400, "bad\r\nx-injected: 1")
    if kind == "storage":
        raise StorageError(SECRET)
    if kind == "invalid":
        raise InvalidArgument("x", SECRET, "something else")
    if kind == "log":
        LOG.say("opened", client=SECRET)
    if kind == "safe":
        with mark_errors_safe():
            raise InvalidArgument("epoch", 7, "at most 3")
    if kind == "exit":
        raise asyncio.CancelledError
    raise RuntimeError(SECRET)


async def raises(request: Request) -> Response:
    trouble(request.path_params["kind"])
    raise AssertionError


async def sleeps(request: Request) -> Response:
    await asyncio.sleep(int(request.path_params["milliseconds"]) / 1000)
    return json_response({"slept": True})


class Gate:
    """Holds requests until the process gets SIGUSR1."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()

    def listen(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._open)

    def _open(self) -> None:
        self._opened.set()
        self._opened = asyncio.Event()

    async def passed(self) -> None:
        await self._opened.wait()


GATE = Gate()


async def holds(request: Request) -> Response:
    await GATE.passed()
    return json_response({"held": True})


async def holding(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, Any]:
    await GATE.passed()
    return 201, b"{}", None


async def blocks(request: Request) -> Response:
    await run_in_thread(time.sleep, int(request.path_params["milliseconds"]) / 1000)
    return json_response({"blocked": True})


async def document(request: Request) -> Response:
    return json_response({"task": request.path_params["task"], "a": 1.5}, etag="one")


async def echo(request: Request) -> Response:
    return json_response({"length": len(await request.body()), "seen": request.client is not None})


async def numbers(request: Request) -> Response:
    return json_response({"sum": sum(parse_json_body(await request.body())["numbers"])})


async def injects(request: Request) -> Response:
    return json_response({}, headers={"x-said": "a\r\nx-injected: 1"})


async def streams(request: Request) -> Response:

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"piece"

    return StreamingResponse(pieces())


async def rotates(request: Request) -> Response:
    return json_response({"rotated": True})


async def large(request: Request) -> Response:
    return Response(bytes(1 << 23), headers={"cache-control": "max-age=60"})


async def reports(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, Any]:
    if body == b"headers":
        return 202, b"text", {"content-type": "text/plain", "x-more": "1"}
    if body == b"pairs":
        return 202, b"", [(b"X-More", b"2")]
    if body == b"injection":
        return 202, b"", [(b"x-more", b"2\r\nx-injected: 1")]
    return 201, b'{"length":%d}' % len(body), None


async def raising(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, Any]:
    trouble(values["kind"])
    raise AssertionError


async def sleeping(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, Any]:
    await asyncio.sleep(int(values["milliseconds"]) / 1000)
    return 201, b"{}", None


def main(settings: dict[str, Any]) -> None:

    async def start() -> None:
        if settings.get("start") == "fails":
            raise InvalidArgument("db", "nowhere", "a database that is there")
        GATE.listen()
        LOG.say("started")

    async def stop() -> None:
        await run_in_thread(LOG.say, "role stopped")

    def health() -> dict[str, Any]:
        if settings.get("health") == "raises":
            raise RuntimeError(SECRET)
        return {"ok": settings.get("health") != "bad", "batches": 3}

    app = build_application(
        role="example",
        routes=[
            ("GET", "/tasks/{task}", document),
            ("GET", "/raise/{kind}", raises),
            ("GET", "/sleep/{milliseconds}", sleeps),
            ("GET", "/hold", holds),
            ("GET", "/block/{milliseconds}", blocks),
            ("POST", "/echo", echo),
            ("PUT", "/echo", echo),
            ("POST", "/numbers", numbers),
            ("GET", "/injects", injects),
            ("GET", "/streams", streams),
            ("GET", "/large", large),
            ("POST", "/admin/rotate", rotates),
        ],
        uploads={
            "/tasks/{task}/reports": reports,
            "PUT /tasks/{task}/job": reports,
            "/tasks/{task}/tickets": reports,
            "/raise/{kind}": raising,
            "/sleep/{milliseconds}": sleeping,
            "/hold": holding,
            "/admin/reports": reports,
        },
        public=["GET /tasks/{task}", "POST /tasks/{task}/reports", "GET /raise/{kind}", "GET /streams"],
        peers=["PUT /tasks/{task}/job"],
        keyed=["POST /tasks/{task}/tickets"],
        names=["x"],
        start=start,
        stop=stop,
        health=health,
        status=lambda: {"open": 2},
        metrics=CollectorRegistry(),
        log=LOG,
        token=settings.get("token"),
        limits=Limits(**settings.get("limits", {})),
    )
    cert, key = (Path(settings[name]) if name in settings else None for name in ("cert", "key"))
    ready = lambda port: print(port, flush=True)  # noqa: E731
    doors = {name: ("127.0.0.1", settings[name]) for name in ("inside", "peers") if name in settings}
    serve(app, host="127.0.0.1", port=settings.get("port", 0), cert=cert, key=key, log=LOG, ready=ready, **doors)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
