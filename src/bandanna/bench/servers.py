"""Servers to be measured, each a process of its own: `python -m bandanna.bench.servers KIND`."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

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

    def say(number: float) -> None:
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()

    def tell() -> None:
        for _ in sys.stdin:
            say(time.process_time())

    def ready(port: int) -> None:
        say(port)
        threading.Thread(target=tell, daemon=True).start()

    log = Log("bench")
    app = bare if kind == "bare" else theirs() if kind == "starlette" else ours(log)
    serve(app, host="127.0.0.1", port=0, cert=None, key=None, log=log, ready=ready)


if __name__ == "__main__":
    child(sys.argv[1])
