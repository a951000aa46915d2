"""A shuffler that sleeps while another one serves, as a real process: it says nothing when it wakes up, and ends."""

from __future__ import annotations

import asyncio
import io
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import bandanna as bd
from bandanna.deployment import collector, registrar
from bandanna.deployment.analyzer import processor
from bandanna.deployment.analyzer.processor import BatchProcessor
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.messages.canonical import COLLECTOR, SLOT, TicketKeys, dumps, loads, sign
from bandanna.deployment.messages.report import FINAL, TaggedReport, join_reports, slots_checksum
from bandanna.deployment.processes import FENCED, free_ports
from bandanna.deployment.registrar import Notary
from bandanna.deployment.registrar_service import make_notary
from bandanna.deployment.shuffler import build_shuffler
from bandanna.deployment.task.document import Secrets, Task
from bandanna.privacy.stores.database import LEDGER_SCHEMA
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.storage.database.base import open_database

from ..deployment.inside import a_task, headers_of, shown
from ..nursery import Child, nursery
from ..postgres import server

LAUNCHER = Path(__file__).parents[1] / "deployment" / "faults" / "launcher.py"
USERS = 7


class Analyzer(ThreadingHTTPServer):
    """The project's own, behind a socket; it keeps the shares that it was sent."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Asked)
        self.processor: BatchProcessor
        self.shares: list[dict[str, Any]] = []


class Asked(BaseHTTPRequestHandler):
    server: Analyzer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if "/shares/" in self.path:
            return self._say(404, b"{}")
        published = self.server.processor.published
        after = self.path.partition("after=")[2].partition("&")[0]
        if after and published.number <= int(after):
            return self._say(204, b"")
        return self._say(200, published.document, **headers_of(shown(published)))

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.shares.append(loads(content))
        taken = self.server.processor.take(content, "shuffler", 0, 0)
        assert taken.receipt is not None
        self._say(taken.status, dumps({"receipt": loads(taken.receipt)}))

    def _say(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Scene:
    """A task of one mixer, its analyzer, and shufflers that serve one database one after the other."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        ports = free_ports(3)
        urls = {role: f"http://127.0.0.1:{port}" for role, port in zip(("registrar", "analyzer"), ports, strict=False)}
        policy = bd.make("LinTS-SDP", dim=2, batch=USERS, horizon=40, epsilon=8.0, delta=1e-2)
        made = a_task(policy, seed=None, urls={**urls, "shuffler": "", "helper": ""}, close="grace", grace=0.5)
        self.task, self.secrets = made
        (folder / "task.json").write_bytes(self.task.document)
        self.secrets["shuffler"].write(folder)
        self.analyzer = Analyzer(ports[1])
        rows = open_database(str(folder / "analyzer.db"), role="analyzer", schema=processor.SCHEMA + LEDGER_SCHEMA)
        self.rows = rows
        kept = open_database(str(folder / "registrar.db"), role="registrar", schema=registrar.SCHEMA)
        self.notary = Notary(kept, **make_notary(self.task, self.secrets["registrar"]))
        self.analyzer.processor = _processor(rows, self.task, self.secrets["analyzer"], self._witness)
        threading.Thread(target=self.analyzer.serve_forever, args=(0.05,), daemon=True).start()
        self.acknowledged: list[bytes] = []
        self.places: list[int] = []
        self.processes: list[Child] = []
        self.clients: list[httpx.Client] = []

    def _witness(self, content: bytes) -> tuple[int, Any]:
        """The registrar's answer to what the analyzer says of a publication."""
        return self.notary.witness(loads(content))

    def begin(self) -> httpx.Client:
        (port,) = free_ports(1)
        command = [sys.executable, "-W", "error", str(LAUNCHER), str(self.folder), "shuffler", str(port)]
        with (self.folder / "shuffler.log").open("ab") as log:
            self.processes.append(nursery().start([*command, self.database, "", "0"], stdout=log, stderr=log))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False)
        self.clients.append(client)
        until(lambda: self._open(client))
        return client

    def _open(self, client: httpx.Client) -> bool:
        assert self.processes[-1].poll() is None, (self.folder / "shuffler.log").read_text()
        try:
            return client.get(f"/tasks/{self.task.id}/open").json()["of"] == USERS
        except httpx.HTTPError:
            return False

    def request(self) -> tuple[bytes, bytes]:
        """A new person's slot, and the request with the report."""
        slot, plan = secrets.token_bytes(SLOT), self.analyzer.processor.now.batches[0]
        pair = self.secrets["shuffler"].ticket_key(self.task, COLLECTOR)
        key = TicketKeys(pair, self.task.digest, COLLECTOR).key(0, slot)
        (part,) = plan.rounds[0].parts
        low, high = make_mixer_encoding().loads(part.mixer or "").likely
        body = ((low + high) // 2).astype(part.dtype).tobytes()
        report = TaggedReport.make(key, plan.digest, slot=slot, epoch=0, round_=0, version=FINAL, body=body)
        return slot, join_reports([report.to_bytes()])

    def report(self, client: httpx.Client) -> None:
        slot, request = self.request()
        answer = client.post(f"/tasks/{self.task.id}/reports", content=request)
        assert answer.status_code == 201, answer.text
        self.acknowledged.append(slot)
        self.places += answer.json()["places"]

    def cut(self) -> None:
        """The sleeper's session ends, or its lock is taken away."""
        if self.database.startswith("postgresql:"):
            with psycopg.connect(self.database, autocommit=True) as sql:
                query = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                sql.execute(query + " and pid <> pg_backend_pid()")
        else:
            (self.folder / "shuffler.db-served").unlink()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(600)
        self.analyzer.shutdown()
        self.analyzer.server_close()
        self.rows.close()


def _processor(rows: Any, task: Task, own: Secrets, notary: Any) -> BatchProcessor:
    made = BatchProcessor(rows, task, sign=partial(sign, own.sign, task.id), opener=None, witness=notary)
    made.settle()
    return made


def until(done: Any) -> None:
    end = time.monotonic() + 600
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(params=["postgres", "sqlite"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    url = server().fresh() if request.param == "postgres" else str(tmp_path / "shuffler.db")
    made = Scene(tmp_path, url)
    yield made
    made.close()


def test_a_replaced_shuffler_answers_503_when_it_wakes_up_and_ends(scene: Scene) -> None:
    sleeper = scene.begin()
    for _ in range(2):
        scene.report(sleeper)
    (asleep,) = scene.processes
    asleep.send_signal(signal.SIGSTOP)
    scene.cut()
    other = scene.begin()
    for _ in range(2):
        scene.report(other)
    scene.processes[-1].kill()
    scene.processes[-1].wait(600)

    asleep.send_signal(signal.SIGCONT)
    refused: list[str] = []
    with suppress(httpx.HTTPError):  # until nobody answers any more
        while asleep.poll() is None and len(refused) < 1000:
            answer = sleeper.post(f"/tasks/{scene.task.id}/reports", content=scene.request()[1])
            assert answer.status_code == 503, answer.text
            refused.append(answer.json()["reason"])
    assert set(refused) <= {"storage", "fenced", "stopping"}
    assert asleep.wait(600) == FENCED

    last = scene.begin()
    while len(scene.acknowledged) < USERS:
        scene.report(last)
    until(lambda: scene.analyzer.shares)
    (share,) = scene.analyzer.shares
    assert sorted(scene.places) == list(range(USERS))
    assert (share["count"], share["checksum"]) == (USERS, slots_checksum(scene.acknowledged))
    rows = open_database(scene.database, role="shuffler", schema=collector.SCHEMA)
    until(lambda: _states(rows) == [("receipted",)])
    rows.close()


def _states(rows: Any) -> list[Any]:
    with rows.reading() as reading:
        return list(reading.execute("select state from batches"))


def test_a_fenced_process_answers_nothing(scene: Scene) -> None:
    task, own = scene.task, scene.secrets["shuffler"]
    app = build_shuffler(task, own, database=scene.database, log=EventLog("shuffler", io.StringIO()))
    beside = open_database(scene.database, role="shuffler", schema=collector.SCHEMA)
    with beside.transaction() as rows:
        rows.execute("update claim set generation = generation + 1")
    beside.close()

    async def answers() -> list[tuple[int, Any]]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shuffler") as client:
            calls = [client.post(f"/tasks/{task.id}/reports", content=scene.request()[1])]
            calls += [client.get(f"/tasks/{task.id}/open"), client.get("/readyz")]
            found = [await call for call in calls]
        return [(answer.status_code, answer.json().get("reason", answer.json().get("ok"))) for answer in found]

    assert asyncio.run(answers()) == [(503, "fenced"), (503, "fenced"), (503, False)]
    assert app.fenced()
    asyncio.run(app.life.stop())


ROUTES = {
    "registrar": ("POST", "tickets"),
    "analyzer": ("GET", "snapshot"),
    "shuffler": ("POST", "reports"),
    "helper": ("PUT", "batches/0.0/job"),
}


@pytest.mark.parametrize("role", list(ROUTES))
def test_every_role_that_was_taken_over_answers_nothing_and_ends(role: str, tmp_path: Path) -> None:
    ports = dict(zip(ROUTES, free_ports(len(ROUTES)), strict=True))
    urls = {each: f"http://127.0.0.1:{port}" for each, port in ports.items()}
    policy = bd.make("LinTS-SDP", dim=2, batch=USERS, horizon=40, epsilon=8.0, delta=1e-2)
    task, own = a_task(policy, seed=None, mixers=2, urls=urls)
    (tmp_path / "task.json").write_bytes(task.document)
    own[role].write(tmp_path)
    token = {"authorization": f"Bearer {own[role].token}"}
    processes: list[Child] = []
    method, path = ROUTES[role]

    def begin() -> httpx.Client:
        (port,) = free_ports(1)
        command = [sys.executable, "-W", "error", str(LAUNCHER), str(tmp_path), role, str(port)]
        with (tmp_path / "log").open("ab") as log:
            processes.append(nursery().start([*command, str(tmp_path / "rows.db"), "", "0"], stdout=log, stderr=log))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False)
        until(lambda: _asked(client, "GET", "/readyz")[0])
        return client

    try:
        with closing(begin()) as sleeper:
            (asleep,) = processes
            asleep.send_signal(signal.SIGSTOP)
            (tmp_path / "rows.db-served").unlink()
            begin().close()
            processes[-1].kill()
            processes[-1].wait(600)
            asleep.send_signal(signal.SIGCONT)
            time.sleep(2.5)  # longer than the time between two looks at the claim
            found = [_asked(sleeper, method, f"/tasks/{task.id}/{path}", token), _asked(sleeper, "GET", "/readyz")]
            assert {status for status, _ in found} <= {0, 503}
            assert asleep.wait(600) == FENCED
        begin().close()
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait(600)


def _asked(client: httpx.Client, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    try:
        answer = client.request(method, path, headers=headers)
    except httpx.HTTPError:
        return 0, b""
    return answer.status_code, answer.content
