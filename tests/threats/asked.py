"""Roles' own applications in one process, and clients that speak ASGI: they may send slowly, wait, and leave."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Secrets, Task

SMALL = {"dim": 2, "horizon": 100, "batch": 50, "epsilon": 1.0, "delta": 1e-5}
URLS = {role: f"https://{role}.example" for role in ("registrar", "analyzer", "shuffler", "helper")}

PLACES = {"analyzer": "analyzer.service", "shuffler": "shuffler"}


class Nowhere:
    """A stream that forgets."""

    def write(self, _: str) -> None:
        """Forget it."""

    def flush(self) -> None:
        """Nothing to do."""


def a_task(folder: Path, *, mixers: int) -> Task:
    """Of LinTS, in a folder with its secrets."""
    names = list(URLS)[: 2 + mixers]
    algorithm = "LinTS-SDP" if mixers else "LinTS-LDP"
    source = {
        "algorithm": algorithm, "title": "strangers", "policy": SMALL, "rules": {"mixers": mixers},
        "roles": {name: URLS[name] for name in names},
    }  # fmt: skip
    task, secrets = create_task(source, expect=False)
    write_task(folder, task, secrets)
    return task


def built(role: str, task: Task, folder: Path, database: str | None = None) -> Any:
    """The application of a role."""
    build = getattr(
        importlib.import_module(f"bandanna.deployment.{PLACES.get(role, role + '_service')}"), f"build_{role}"
    )
    where = str(folder / f"{role}.db") if database is None else database
    name = "db_url" if role in ("registrar", "helper") else "database"
    return build(task, Secrets.read(folder, role, task), **{name: where}, log=EventLog(role, stream=Nowhere()))


@asynccontextmanager
async def alive(app: Any) -> AsyncIterator[None]:
    """From its start to its stop."""
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    outgoing: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.ensure_future(app({"type": "lifespan"}, incoming.get, outgoing.put))
    incoming.put_nowait({"type": "lifespan.startup"})
    assert (await outgoing.get())["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        incoming.put_nowait({"type": "lifespan.shutdown"})
        await life


class Asked:
    """A request and, in time, its answer."""

    def __init__(
        self,
        app: Any,
        method: str,
        path: str,
        *,
        body: bytes | None = b"",
        address: str = "10.0.0.1",
        host: str = "x",
        headers: dict[str, str] | None = None,
        port: int = 80,
    ) -> None:
        """Begin; a `body` of None is announced and does not come."""
        where, _, query = path.partition("?")
        length = 1000 if body is None else len(body)
        said = {"host": host, **({"content-length": str(length)} if length else {}), **(headers or {})}
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        if body is not None:
            self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.content = b""
        scope = {
            "type": "http", "method": method, "path": where, "query_string": query.encode(), "http_version": "1.1",
            "scheme": "http", "headers": [(name.encode(), text.encode()) for name, text in said.items()],
            "client": (address, 1234), "server": ("10.9.9.9", port),
        }  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._incoming.get, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): text.decode() for name, text in message["headers"]}
        else:
            self.content += message.get("body", b"")

    def send(self, piece: bytes) -> None:
        """More of the body."""
        self._incoming.put_nowait({"type": "http.request", "body": piece, "more_body": True})

    def leave(self) -> None:
        """Hang up."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> int:
        """The status, when it has come."""
        async with asyncio.timeout(600):
            await self.task
        assert self.status is not None
        return self.status

    @property
    def document(self) -> Any:
        """What was answered."""
        return json.loads(self.content)


async def settle(asked: list[Asked]) -> list[Asked]:
    """Let everybody go as far as it goes; those that are not answered."""
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    return [each for each in asked if not each.task.done()]
