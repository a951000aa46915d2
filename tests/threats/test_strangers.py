"""What strangers without a ticket can cost: they wait, send slowly, ask under another name, or ask for the inside."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from bandanna.deployment.http import application as application_module
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import Limits
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import json_response
from bandanna.deployment.messages.canonical import dumps, sign
from bandanna.deployment.processes import build_role
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Secrets, Task
from bandanna.storage.database.base import StorageError, open_database
from bandanna.storage.database.sqlite import SQLiteDatabase

from ..deployment.serving.running import ADMIN, Running, rest, running
from ..postgres import server

SMALL = {"dim": 2, "horizon": 100, "batch": 50, "epsilon": 1.0, "delta": 1e-5}
URLS = {role: f"https://{role}.example" for role in ("registrar", "analyzer", "shuffler", "helper")}


def a_task(folder: Path, *, mixers: int) -> Task:
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
    where = str(folder / f"{role}.db") if database is None else database
    log = EventLog(role, stream=io.StringIO())
    return build_role(role, task, Secrets.read(folder, role, task), database=where, log=log)


@asynccontextmanager
async def alive(app: Any) -> AsyncIterator[None]:
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
        self._incoming.put_nowait({"type": "http.request", "body": piece, "more_body": True})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> int:
        async with asyncio.timeout(600):
            await self.task
        assert self.status is not None
        return self.status

    @property
    def document(self) -> Any:
        return json.loads(self.content)


async def settle(asked: list[Asked]) -> list[Asked]:
    """Let everybody go as far as it goes; those that are not answered."""
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    return [each for each in asked if not each.task.done()]


MANY = 1100


def a_role(**parts: Any) -> Any:
    """An application with an upload, a route, and one that is for other roles."""

    async def upload(body: bytes, values: dict[str, str], headers: dict[bytes, bytes]) -> tuple[int, bytes, None]:
        return 201, b"{}", None

    async def route(_: Any) -> Any:
        return json_response({})

    async def nothing() -> None:
        pass

    given: dict[str, Any] = {
        "routes": [("GET", "/route", route), ("PUT", "/job", route)], "uploads": {"/reports": upload},
        "peers": ["PUT /job"], "names": ["x"], "start": nothing, "stop": nothing, "health": dict, "status": dict,
    }  # fmt: skip
    return build_application(
        role="example",
        metrics=CollectorRegistry(),
        log=EventLog("example", stream=io.StringIO()),
        token="secret",
        **(given | parts),
    )


def served_processor(app: Any, task: Any) -> Any:
    """The processor of an analyzer's application; its first publication is served without a cosignature."""
    target, _ = app.table.find("GET", f"/tasks/{task.id}/snapshot")
    processor = target.handle.__self__._processor
    processor.published = processor.pending
    return processor


@pytest.mark.parametrize("mixers", [0, 1])
async def test_waiting_strangers_stop_nobody(mixers: int, tmp_path: Path) -> None:
    task = a_task(tmp_path, mixers=mixers)
    app = built("analyzer", task, tmp_path)
    served_processor(app, task)
    share = dumps({"nothing": 1})
    signature = sign(Secrets.read(tmp_path, "shuffler", task).sign, task.id, "share", share) if mixers else ""
    host, path = "analyzer.example", f"/tasks/{task.id}"
    asked = [Asked(app, "GET", f"{path}/snapshot?after=9&wait=25", host=host) for _ in range(MANY)]
    waiting = await settle(asked)
    assert await Asked(app, "GET", f"{path}/snapshot", host=host).answer() == 200
    if mixers:
        put = Asked(
            app, "PUT", f"{path}/batches/0.0/shares/shuffler", body=share, host=host,
            headers={"signature": signature},
        )  # fmt: skip
        assert (await put.answer(), put.document["reason"]) == (400, "invalid")
    else:
        post = Asked(app, "POST", f"{path}/reports", body=b"x", host=host)
        assert (await post.answer(), post.document["reason"]) == (400, "malformed")
    assert len(waiting) == 256
    assert {each.status for each in asked if each not in waiting} == {204}
    for each in waiting:
        each.leave()
    assert not await settle(waiting)
    again = await settle([Asked(app, "GET", f"{path}/snapshot?after=9&wait=25", host=host) for _ in range(256)])
    assert len(again) == 256
    app.ending()
    assert {await each.answer() for each in again} == {204}


async def test_slow_strangers_do_not_stop_tickets(tmp_path: Path) -> None:
    task = a_task(tmp_path, mixers=1)
    app = built("registrar", task, tmp_path)
    token = Secrets.read(tmp_path, "registrar", task).token
    path = f"/tasks/{task.id}/tickets"
    async with alive(app):
        slow = [
            Asked(app, "POST", path, body=None, address=f"10.1.{n // 250}.{n % 250}", host="registrar.example")
            for n in range(MANY)
        ]
        assert not await settle(slow)
        assert {each.status for each in slow} == {401}
        given = Asked(
            app, "POST", path, body=b'{"tickets": [{"user": "ada", "epoch": 0}]}', host="registrar.example",
            headers={"authorization": f"Bearer {token}"},
        )  # fmt: skip
        assert await given.answer() == 200


async def test_waiters_are_woken_by_a_publication(tmp_path: Path) -> None:
    task = a_task(tmp_path, mixers=1)
    app = built("analyzer", task, tmp_path)
    processor = served_processor(app, task)
    path = f"/tasks/{task.id}/snapshot?after=0&wait=25"
    waiting = await settle([Asked(app, "GET", path, host="analyzer.example") for _ in range(20)])
    assert len(waiting) == 20
    newer = replace(processor.published, number=1)
    await asyncio.get_running_loop().run_in_executor(None, partial(setattr, processor, "published", newer))
    begun = time.monotonic()
    assert {await each.answer() for each in waiting} == {200}
    assert time.monotonic() - begun < 24  # less than what they wait for


@pytest.mark.parametrize(
    ("path", "free"), [("/reports", ["/route", "/job"]), ("/route", ["/reports", "/job"]), ("/job", ["/reports"])]
)
async def test_classes_of_requests_do_not_take_each_others_places(path: str, free: list[str]) -> None:
    limits = Limits(uploads=3, peers=3, others=3, waiters=3)
    methods = {"/reports": "POST", "/job": "PUT", "/route": "GET"}
    app = a_role(limits=limits)
    slow = [Asked(app, methods[path], path, body=None, address=f"10.0.0.{n}") for n in range(6)]
    assert len(await settle(slow)) == 3
    assert await Asked(app, methods[path], path, body=b"x").answer() == 503
    for each in free:
        assert await Asked(app, methods[each], each, body=b"x").answer() in (200, 201)
    for left in slow:
        left.leave()
    assert not await settle(slow)
    assert await Asked(app, methods[path], path, body=b"x").answer() in (200, 201)


async def test_slow_bodies_of_one_address_stop_nobody() -> None:
    """Of 1,100 bodies that do not come, sent by one address or one network of IPv6, 16 are awaited, others are served.

    The 1,084 others are told to come again, and their connections end.
    """
    app = a_role()
    for address, other in (("10.0.0.1", "10.0.0.2"), ("2001:db8:0:7::%x", "2001:db8:0:8::1")):
        slow = [
            Asked(app, "POST", "/reports", body=None, address=address % n if "%" in address else address)
            for n in range(MANY)
        ]
        await settle(slow)
        assert sum(each.status is None for each in slow) == 16
        refused = next(each for each in slow if each.status is not None)
        assert (refused.status, refused.headers["connection"], refused.headers["retry-after"]) == (
            503,
            "close",
            "1",
        )
        assert await Asked(app, "POST", "/reports", body=b"x", address=other).answer() == 201
        for each in slow:
            each.leave()
        await settle(slow)


async def test_addresses_are_believed_from_proxies_alone() -> None:
    def slow(app: Any, address: str, told: str) -> list[Asked]:
        headers = {"x-forwarded-for": told} if told else {}
        return [Asked(app, "POST", "/reports", body=None, address=address, headers=headers) for _ in range(20)]

    app = a_role()
    app.listeners.open({}, proxies=["10.0.0.0/24"])
    for address, told, most in (
        ("10.1.0.1", "1.2.3.4", 16),  # no proxy
        ("10.0.0.9", "6.6.6.6, 1.2.3.4", 16),  # one, for one client
        ("10.0.0.9", "1.2.3.5, 10.0.0.8", 16),  # behind another one
        ("10.0.0.9", "", 20),  # one that bounds its clients itself
    ):
        asked = slow(app, address, told)
        await settle(asked)
        assert sum(each.status is None for each in asked) == most
        if "1.2.3.4" in told and most == 16 and address == "10.0.0.9":
            lies = [
                Asked(app, "POST", "/reports", body=None, address=address,
                      headers={"x-forwarded-for": f"6.6.6.{n}, 1.2.3.4"})
                for n in range(5)
            ]  # fmt: skip
            await settle(lies)
            assert {each.status for each in lies} == {503}
            asked += lies
        for each in asked:
            each.leave()
        await settle(asked)


async def test_bodies_that_come_too_slowly_are_refused() -> None:
    limits = Limits(patience=0.2, seconds=600.0)
    app = a_role(limits=limits)
    async with alive(app):
        slow = [Asked(app, "POST", path, body=None) for path in ("/reports", "/route")]
        quick = Asked(app, "POST", "/reports", body=None)
        quick.send(bytes(200_000))  # enough for a hundred seconds
        async with asyncio.timeout(600):
            while slow[0].status is None:
                slow[0].send(b"x")
                await asyncio.sleep(0.05)
        assert slow[0].status == 408
        assert quick.status is None
        for each in (*slow, quick):
            each.leave()
        await settle([*slow, quick])


@pytest.fixture(scope="module")
def role(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process with three listeners, and few places for uploads."""
    limits = {"uploads": 40, "unfinished": 16}
    with running(tmp_path_factory.mktemp("role"), limits=limits, inside=0, peers=0) as made:
        yield made


def test_slow_bodies_over_sockets_stop_nobody(role: Running) -> None:
    head = b"POST /tasks/t/reports HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(role.connect()).sendall(head)
        time.sleep(0.3)
        with role.connect(source="127.0.0.2") as other:
            other.sendall(head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + bytes(100))
            assert rest(other).startswith(b"HTTP/1.1 201 ")


def test_half_open_requests_of_one_address_are_ended(role: Running) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(role.connect()) for _ in range(100)]
        for each in slow:
            each.sendall(b"GET /readyz HTTP/1.1\r\nx-a: ")
        with role.connect(source="127.0.0.2") as other:
            other.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert rest(other).startswith(b"HTTP/1.1 200 ")
        deadline = time.monotonic() + 600
        while role.metric('bandanna_refusals_total{reason="unfinished"}') < 36:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        said = [rest(each)[:12] for each in slow]
    assert set(said) == {b"", b"HTTP/1.1 408"}


def _ports(role: Running) -> list[int]:
    return [each["port"] for each in role.lines() if each["event"] == "serving"]


def _status(role: Running, port: int, words: str, more: str = "") -> tuple[int, bytes]:
    with role.connect(port=port) as connection:
        connection.sendall(f"{words} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}\r\n".encode())
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_the_inside_has_a_listener_of_its_own(role: Running) -> None:
    outside, inside, among = _ports(role)
    for path in ("/metrics", "/status"):
        assert [_status(role, port, f"GET {path}")[0] for port in (outside, inside, among)] == [401, 200, 401]
        assert _status(role, outside, f"GET {path}", f"authorization: {ADMIN['authorization']}\r\n")[0] == 200
    assert _status(role, outside, "GET /readyz") == (200, b'{"ok":true}')
    assert b"batches" in _status(role, inside, "GET /readyz")[1]
    assert _status(role, inside, "GET /tasks/t")[0] == 404
    assert _status(role, inside, "POST /admin/rotate")[0] == 401


def test_routes_of_roles_have_a_listener_of_their_own(role: Running) -> None:
    outside, inside, among = _ports(role)
    found = [_status(role, port, "PUT /tasks/t/job")[0] for port in (outside, inside, among)]
    assert found == [404, 404, 201]
    assert _status(role, among, "GET /tasks/t")[0] == 200


def full(rows: Any) -> None:
    with rows.transaction() as transaction:
        transaction.execute("create table filler (body blob)")
        sql = rows._writer._sql
    ((pages,),) = sql.execute("pragma page_count").fetchall()
    sql.execute(f"pragma max_page_count = {pages}")
    for size in (2000, 500, 100, 20):
        with suppress(StorageError):
            for _ in range(1000):
                with rows.transaction() as transaction:
                    transaction.execute("insert into filler values (?)", bytes(size))


@pytest.mark.parametrize("name", list(URLS))
async def test_a_role_that_cannot_write_says_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    claim = SQLiteDatabase.claim
    monkeypatch.setattr(SQLiteDatabase, "claim", lambda self: (opened.append(self), claim(self))[1])
    monkeypatch.setattr(application_module, "_WRITE_SECONDS", 0.0)
    task = a_task(tmp_path, mixers=2)
    app, host = built(name, task, tmp_path), f"{name}.example"
    token = {"authorization": f"Bearer {Secrets.read(tmp_path, name, task).token}"}

    async def send_request() -> tuple[int, Any, Any]:
        told, inside = (Asked(app, "GET", "/readyz", host=host, headers=each) for each in ({}, token))
        assert await told.answer() == await inside.answer()
        return await told.answer(), told.document, inside.document.get("writes")

    async with alive(app):
        (rows,) = opened
        assert (await send_request())[2] is None
        await asyncio.get_running_loop().run_in_executor(None, full, rows)
        assert await send_request() == (503, {"ok": False}, False)
        rows._writer._sql.execute("pragma max_page_count = 4294967294")
        assert (await send_request())[2] is None


def test_a_database_that_can_only_be_read_is_noticed() -> None:
    url = server().fresh()
    rows = open_database(url, role="things", schema="create table t (a integer)")
    application_module.write_row(rows)
    with psycopg.connect(url, autocommit=True) as sql:
        name = sql.info.dbname
        sql.execute(f"alter database {name} set default_transaction_read_only = on")
    rows.close()
    rows = open_database(url, role="things", schema="create table t (a integer)")

    async def send_request() -> int:
        return await Asked(a_role(database=lambda: rows), "GET", "/readyz").answer()

    assert asyncio.run(send_request()) == 503
    rows.close()


def test_health_is_written_once_in_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = open_database(str(tmp_path / "things.db"), role="things", schema="create table t (a integer)")
    written: list[int] = []
    begin = rows.transaction
    monkeypatch.setattr(rows, "transaction", lambda: (written.append(1), begin())[1])

    async def send_request() -> set[int]:
        app = a_role(database=lambda: rows)
        begun = time.monotonic()
        found = {await each.answer() for each in [Asked(app, "GET", "/readyz") for _ in range(200)]}
        found |= {await Asked(app, "GET", "/readyz").answer() for _ in range(200)}
        assert len(written) <= 1 + (time.monotonic() - begun) / 5
        return found

    assert asyncio.run(send_request()) == {200}
    rows.close()
    with sqlite3.connect(tmp_path / "things.db") as sql:
        assert sql.execute("select count(*) from about").fetchall() == [(1,)]


async def test_an_unready_role_gives_strangers_no_reason() -> None:
    app = a_role(health=lambda: {"ok": False, "fenced": True})
    outside = Asked(app, "GET", "/readyz")
    assert (await outside.answer(), outside.document) == (503, {"ok": False})
    inside = Asked(app, "GET", "/readyz", headers={"authorization": "Bearer secret"})
    assert (await inside.answer(), inside.document["fenced"]) == (503, True)


@pytest.mark.parametrize("name", list(URLS))
async def test_no_role_answers_under_another_name(name: str, tmp_path: Path) -> None:
    task = a_task(tmp_path, mixers=2)
    app = built(name, task, tmp_path)
    token = {"authorization": f"Bearer {Secrets.read(tmp_path, name, task).token}"}
    found = [*app.table._literal.items(), *((each.pattern, methods) for each, methods in app.table._templates)]
    paths = [(method, path) for path, methods in found for method in methods]
    assert len(paths) >= 5
    for method, path in [*paths, ("GET", "/nowhere")]:
        where = target_of(path, task.id)
        for host in ("evil.example", "evil.example:8701", f"{name}.example.evil.example", "", "10.9.9.8"):
            asked = Asked(app, method, where, host=host, headers=token)
            assert (await asked.answer(), asked.document["reason"]) == (421, "host"), (method, where, host)
    for host in (f"{name}.example", f"{name.upper()}.EXAMPLE:443", "10.9.9.9", "10.9.9.9:8701"):
        assert await Asked(app, "GET", "/nowhere", host=host).answer() == 404
    app.listeners.open({}, names=["other.example"])
    assert await Asked(app, "GET", "/nowhere", host="other.example:1").answer() == 404


def target_of(pattern: str, task: str) -> str:
    words = [
        "0.0" if "batch>" in each else "shuffler" if "mixer>" in each else task if "(?P" in each else each
        for each in pattern.replace("\\", "").split("/")
    ]
    return "/".join(words)


def test_loopback_has_its_own_names(role: Running) -> None:
    port = _ports(role)[0]
    hosts = [
        f"localhost:{port}",
        f"127.0.0.1:{port}",
        "[::1]",
        "evil.example",
        f"localhost.evil.example:{port}",
        "10.0.0.1",
    ]
    found = []
    for host in hosts:
        with role.connect() as connection:
            connection.sendall(f"GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            found.append(int(rest(connection).split()[1]))
    assert found == [200, 200, 200, 421, 421, 421]
