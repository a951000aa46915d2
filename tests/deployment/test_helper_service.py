"""The helper as a process between a shuffler and an analyzer that is slow, down or dishonest."""

from __future__ import annotations

import json
import re
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from bandanna.deployment.helper_service import _make_client
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import HELPER, loads, sign, signing_key, verify
from bandanna.deployment.messages.share import write_receipt
from bandanna.deployment.task.document import Secrets, Task
from bandanna.deployment.task.query_plan import make_batch
from bandanna.protocols.factory import make_mixer_encoding

from .parties import Users, mixed_by_one, plainly, together
from .served import Served, ticket_key, written
from .serving.running import write_certificate

ADMIN = {"Authorization": "Bearer the token of the helper"}
PATH = re.compile(r"/tasks/([\w-]+)/batches/(\d+)\.(\d+)/shares/helper")


class Analyzer(ThreadingHTTPServer):
    """Stores shares by their address; `answer` is the next answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer: tuple[int, Any] = (202, {})
        self.shares: dict[tuple[int, int], list[tuple[bytes, str]]] = {}
        self.came = threading.Condition()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def share(self, epoch: int, times: int = 1) -> tuple[bytes, str]:
        """Wait until a share was received so many times; return the last one."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.shares.get((epoch, 0), [])) >= times, timeout=600)
            return self.shares[epoch, 0][-1]


class Answering(BaseHTTPRequestHandler):
    server: Analyzer
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = PATH.fullmatch(self.path)
        status, document = self.server.answer if found else (404, {})
        content = json.dumps(document).encode()
        if found:
            with self.server.came:
                key = (int(found[2]), int(found[3]))
                self.server.shares.setdefault(key, []).append((body, self.headers["Signature"]))
                self.server.came.notify_all()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def analyzer() -> Iterator[Analyzer]:
    server = Analyzer()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def folder(analyzer: Analyzer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, url = tmp_path_factory.mktemp("task"), f"http://127.0.0.1:{analyzer.server_port}/"
    arguments = {"dim": 2, "horizon": 40, "epsilon": 5.0, "delta": 1e-3}
    written(made, "LinTS-SDP", mixers=2, urls={"analyzer": url, "helper": "http://127.0.0.1"}, **arguments)
    return made


@pytest.fixture
def task(folder: Path) -> Task:
    return Task.read(folder)


@pytest.fixture(scope="module")
def helper(folder: Path) -> Iterator[Served]:
    served = Served(folder, "helper", str(folder / "h.db"))
    yield served
    served.stop()


def receipt(folder: Path, epoch: int, outcome: str = "released") -> dict[str, Any]:
    task = Task.read(folder)
    signed = partial(sign, Secrets.read(folder, "analyzer", task).sign, task.id)
    return write_receipt(task_id=task.id, epoch=epoch, round_=0, number=1, chain="c", outcome=outcome, sign=signed)


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def users_of(task: Task, epoch: int) -> Users:
    """Return the users of the task's first episode, in an epoch."""
    policy = task.policy
    state = policy.init()
    episode = policy.episode(state)
    batch, _ = make_batch(policy, state, episode, epoch=epoch, mixer_count=2, seeded=False)
    batch = Batch.from_dict(loads(json.dumps(batch.to_dict())))  # as it travels
    return Users(batch, key=(0, task.key("seal helper")), task=task.digest, pair=ticket_key(task, HELPER))


def put(served: Served, folder: Path, users: Users, content: bytes | None = None, **others: Any) -> httpx.Response:
    task = Task.read(folder)
    job = users.job(task_id=task.id) if content is None else content
    signature = others.get("signature", sign(Secrets.read(folder, "shuffler", task).sign, task.id, "job", job))
    path = f"/tasks/{task.id}/batches/{others.get('batch', f'{users.batch.epoch}.0')}/job"
    return served.client.put(path, content=job, headers={"Signature": signature})


def test_the_analyzer_has_the_signed_share_when_a_job_is_answered(
    helper: Served, analyzer: Analyzer, folder: Path, task: Task
) -> None:
    analyzer.answer = (202, {})
    users = users_of(task, 0)
    job = users.job(task_id=task.id)
    answer = put(helper, folder, users, job)
    assert answer.status_code == 201
    analyzer.share(0)
    content, signature = analyzer.shares[0, 0][0]
    share = loads(content)
    assert verify(task.key("helper"), task.id, "share", content, signature)
    assert answer.json() == {name: share[name] for name in ("count", "checksum", "bad")}  # no total for the shuffler
    assert (share["task"], share["mixer"], share["bad"]) == (task.id, "helper", 0)
    shares = mixed_by_one(users.batch, 0, users.shares(0), {})
    views = [make_mixer_encoding().loads(text) for text in share["parts"]]
    assert together(shares, views) == plainly(mixed_by_one(users.batch, 0, users.counts[0], {}))
    analyzer.answer = (200, {"receipt": receipt(folder, 0)})
    assert put(helper, folder, users, job).status_code == 200
    assert {content for content, _ in analyzer.shares[0, 0]} == {content}  # the same bytes, whenever it is sent
    assert put(helper, folder, users).status_code == 409
    until(lambda: helper.client.get("/status", headers=ADMIN).json()["waiting"] == [])


def test_a_share_reaches_an_analyzer_that_was_down(
    analyzer: Analyzer, folder: Path, task: Task, tmp_path: Path
) -> None:
    analyzer.answer = (503, {})
    url, users = str(tmp_path / "h.db"), users_of(task, 20)
    job = users.job(task_id=task.id)
    first = Served(folder, "helper", url)
    assert put(first, folder, users, job).status_code == 201
    before = analyzer.share(20, times=3)  # again and again
    first.stop(signal.SIGKILL)
    analyzer.answer = (201, {"receipt": receipt(folder, 20)})
    told = len(analyzer.shares[20, 0])
    second = Served(folder, "helper", url)
    assert analyzer.share(20, times=told + 1) == before
    assert put(second, folder, users, job).status_code == 200
    until(lambda: second.client.get("/status", headers=ADMIN).json()["waiting"] == [])  # receipted: it is sent no more
    assert second.stop() == 0


def test_burned_and_contradicted_shares_are_not_sent_again(
    helper: Served, analyzer: Analyzer, folder: Path, task: Task
) -> None:
    for epoch, status in enumerate((422, 409), start=30):
        for said in ({}, {"receipt": receipt(folder, epoch - 1, "burned")}):  # nothing, or something else's
            analyzer.answer = (status, said)
            users = users_of(task, epoch)
            job = users.job(task_id=task.id)
            assert put(helper, folder, users, job).status_code == (201 if said == {} else 409)
            assert helper.client.get("/status", headers=ADMIN).json()["waiting"] == [f"{epoch}.0"]
        analyzer.answer = (status, {"receipt": receipt(folder, epoch, "burned" if status == 422 else "released")})
        analyzer.share(epoch, times=len(analyzer.shares[epoch, 0]) + 1)  # it is brought again by itself
        until(lambda: helper.client.get("/status", headers=ADMIN).json()["waiting"] == [])
    counted = 'bandanna_shares_sent_total{state="unusable"} 2'
    until(lambda: counted in helper.client.get("/metrics", headers=ADMIN).text)  # counted after the row is committed


def test_a_share_that_a_rolled_back_analyzer_refuses_is_kept(
    helper: Served, analyzer: Analyzer, folder: Path, task: Task
) -> None:
    analyzer.answer = (409, {"reason": "rolled-back"})
    users = users_of(task, 35)
    job = users.job(task_id=task.id)
    assert put(helper, folder, users, job).status_code == 201
    assert helper.client.get("/status", headers=ADMIN).json()["waiting"] == ["35.0"]
    analyzer.answer = (201, {"receipt": receipt(folder, 35)})
    assert put(helper, folder, users, job).status_code == 200
    until(lambda: helper.client.get("/status", headers=ADMIN).json()["waiting"] == [])


def test_unsigned_and_tampered_jobs_are_refused(helper: Served, folder: Path, task: Task) -> None:
    users = users_of(task, 40)
    job = users.job(task_id=task.id)
    stranger = sign(signing_key()[0], task.id, "job", job)
    assert put(helper, folder, users, job, signature=stranger).status_code == 403
    assert put(helper, folder, users, job, signature="").status_code == 403
    assert put(helper, folder, users, job, batch="41.0").json()["reason"] == "job"
    for batch in ("40", "40.x", "040.0", "-1.0", "40.0.0", "9" * 40 + ".0"):
        assert put(helper, folder, users, job, batch=batch).status_code == 404, batch
    random = np.random.default_rng(0)
    for _ in range(40):
        place = int(random.integers(len(job)))
        changed = job[:place] + bytes([random.integers(256)]) + job[place + 1 :]
        if changed != job:
            answer = put(helper, folder, users, changed)
            assert answer.status_code in (201, 409, 422), answer.text  # a seed that was changed is a bad one
    forged = [entry._replace(sealed=bytes(80)) for entry in users.entries()]
    assert put(helper, folder, users_of(task, 42), b"\xff{").status_code == 422
    answer = put(helper, folder, users, users.job(entries=forged, task_id=task.id), batch="40.0")
    assert answer.status_code in (409, 422)
    assert helper.client.put("/tasks/x/batches/0.0/job", content=job).status_code == 404
    assert helper.client.get("/readyz").json()["ok"] is True
    assert not [line for line in helper.lines() if line["event"] == "unhandled" or "failed" in line["event"]]


def test_keys_are_changed_with_the_token_and_never_shown(helper: Served, task: Task) -> None:
    assert helper.client.get(f"/tasks/{task.id}/keys").status_code == 404
    assert helper.client.post("/admin/keys", json={"action": "rotate"}).status_code == 401
    for odd in ({}, [], {"action": "x"}, {"action": "delete"}, {"action": "rotate", "more": 1}):
        assert helper.client.post("/admin/keys", json=odd, headers=ADMIN).status_code == 400
    made = helper.client.post("/admin/keys", json={"action": "rotate"}, headers=ADMIN)
    assert [key["state"] for key in made.json()["keys"]] == ["active", "pending"]
    assert helper.client.post("/admin/keys", json={"action": "rotate"}, headers=ADMIN).status_code == 409
    assert helper.client.post("/admin/keys", json={"action": "delete", "id": 0}, headers=ADMIN).status_code == 409


def test_no_slot_is_in_the_log(helper: Served, analyzer: Analyzer, folder: Path, task: Task) -> None:
    analyzer.answer = (202, {})
    users = users_of(task, 50)
    assert put(helper, folder, users).status_code == 201
    said = helper.errors.read_text()
    assert '"event":"share sent"' in said
    assert "127.0.0.1" not in said
    slot, _, sealed = json.loads(users.job())["entries"][0]
    assert not any(text in said for text in (slot, sealed))


class Agreeing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return an HTTPS address and its certificate, which is not in the system."""
    cert, secret = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, secret)
    with ThreadingHTTPServer(("127.0.0.1", 0), Agreeing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/", cert
        server.shutdown()


async def test_the_helper_knows_the_analyzer_by_the_given_certificates(served: tuple[str, Path]) -> None:
    url, cert = served
    async with _make_client(ssl.create_default_context(cafile=str(cert))) as client:
        assert (await client.get(url)).status_code == 200
    async with _make_client(True) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(url)
