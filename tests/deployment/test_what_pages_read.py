"""Web pages may use the routes that a browser client needs, and no others."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.processes import free_ports
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Secrets

ROUTES = {
    "GET": ["/task", "/tasks/{t}", "/tasks/{t}/snapshot", "/tasks/{t}/snapshot/0", "/tasks/{t}/ledger",
            "/tasks/{t}/ledger/summary", "/tasks/{t}/history", "/tasks/{t}/open",
            "/tasks/{t}/witness", "/tasks/{t}/batches/0.0/shares/shuffler/x", "/status", "/readyz", "/metrics"],
    "POST": ["/tasks/{t}/reports", "/tasks/{t}/tickets", "/admin/keys"],
    "PUT": ["/tasks/{t}/witness", "/tasks/{t}/batches/0.0/job", "/tasks/{t}/batches/0.0/shares/shuffler"],
}  # fmt: skip
DOCUMENTS = {f"GET {path}" for path in ROUTES["GET"][:7]}
REPORTS = {"POST /tasks/{t}/reports", "GET /tasks/{t}/open"}

PLACES = {"analyzer": "analyzer.service", "shuffler": "shuffler"}


@pytest.mark.parametrize(
    ("role", "mixers", "allowed"),
    [
        ("registrar", 2, set()),
        ("analyzer", 2, DOCUMENTS),
        ("analyzer", 0, DOCUMENTS | REPORTS),
        ("shuffler", 1, REPORTS),
        ("helper", 2, set()),
    ],
)
def test_pages_read_what_clients_need(role: str, mixers: int, allowed: set[str], tmp_path: Path) -> None:
    """The registrar answers the host's server alone: a page that could call it would need the host's token."""
    names = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    urls = {name: f"http://127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    policy = {"dim": 2, "horizon": 100, "batch": 50, "epsilon": 1.0, "delta": 1e-5}
    algorithm = "LinTS-SDP" if mixers else "LinTS-LDP"
    source = {"algorithm": algorithm, "title": "pages", "policy": policy, "rules": {"mixers": mixers}, "roles": urls}
    task, secrets = create_task(source, expect=False)
    write_task(tmp_path, task, secrets)
    build = getattr(
        importlib.import_module(f"bandanna.deployment.{PLACES.get(role, role + '_service')}"), f"build_{role}"
    )
    database = {"db_url" if role in ("registrar", "helper") else "database": str(tmp_path / "role.db")}
    app = build(task, Secrets.read(tmp_path, role, task), **database, log=EventLog(role))
    assert asyncio.run(_readable(app, task.id)) == allowed


async def _readable(app: Any, task: str) -> set[str]:
    """Return the routes that a page may read, by the header and by the preflight answer."""
    found = set()
    transport = httpx.ASGITransport(app=app)
    async with _living(app), httpx.AsyncClient(transport=transport, base_url="http://role") as client:
        for method, path in [(method, path) for method, paths in ROUTES.items() for path in paths]:
            answer = await client.request(method, path.replace("{t}", task))
            asked = await client.options(path.replace("{t}", task))
            open_to_pages = answer.headers.get("access-control-allow-origin") == "*"
            allowed = asked.headers.get("access-control-allow-methods", "").split(", ")
            assert open_to_pages == (asked.status_code == 204 and method in allowed), (method, path)
            if open_to_pages:
                found.add(f"{method} {path}")
    return found


@asynccontextmanager
async def _living(app: Any) -> AsyncIterator[None]:
    """Run the lifespan as a server does."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.ensure_future(app({"type": "lifespan"}, told.get, said.put))
    for step in ("startup", "shutdown"):
        await told.put({"type": f"lifespan.{step}"})
        assert (await said.get())["type"] == f"lifespan.{step}.complete"
        if step == "startup":
            yield
    await life
