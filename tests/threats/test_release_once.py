"""Of every number one publication is shown, to anybody, whatever is restored, copied, killed or away."""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

import bandanna as bd
from bandanna.deployment.analyzer.processor import BatchProcessor, ShareRejected
from bandanna.deployment.analyzer.service import AnalyzerRoutes
from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.client.load_simulation import HttpDeployment, SimulatedUsers
from bandanna.deployment.client.policy_device import CurrentPublication
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.messages.canonical import digest, dumps, encode_base64url, loads, sign, signing_key
from bandanna.deployment.messages.publication import (
    PublicationPin,
    SignedPublication,
    chain_document,
    cosigned_statement,
    is_cosigned,
)
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError
from bandanna.storage.database.base import open_database

from ..client.town import Town as Devices
from ..deployment.faults.machine import check_history, task_of
from ..deployment.faults.test_faults import begun, copied, finish, rolled_back, work
from ..deployment.faults.town import _SCRIPTS, Town
from ..deployment.hostile.test_hostile_analyzer import Liar, shuffler_of
from ..deployment.inside import Inside, shown, signed
from ..deployment.served import Served
from ..deployment.test_processes import on_disk

POLICY = bd.LinTS(dim=3, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
ARMS = [[0.1, 0.2, 0.3], [0.3, -0.1, 0.2]]
KINDS = ["central", "one mixer", "two mixers", "tree", "rounds"]


def _asked(town: Town, *paths: str) -> list[httpx.Response]:
    parts = town.alive["analyzer"]
    routes = AnalyzerRoutes(parts["processor"], parts["rows"], EventLog("analyzer", stream=io.StringIO()))

    async def nothing() -> None:
        return None

    app = build_application(
        role="analyzer", routes=routes.routes, start=nothing, stop=nothing, health=dict, status=dict,
        metrics=CollectorRegistry(), log=EventLog("analyzer", stream=io.StringIO()), token=None,
    )  # fmt: skip

    async def send_request() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            return [await client.get(f"/tasks/{town.task.id}{path}") for path in paths]

    return asyncio.run(send_request())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_shown_before_the_registrar_has_cosigned_it(kind: str, tmp_path: Path) -> None:
    """While the registrar is away a batch is released in the analyzer's database alone: no route, no waiter and no
    mixer hears of it. When the registrar is back, all of them do.
    """
    town, people = begun(kind, tmp_path)
    for _ in range(4):
        people.come(final=True)
    town.kill("registrar")
    work(town, 4)
    processor = town.alive["analyzer"]["processor"]
    assert processor.pending is not None
    assert (processor.pending.number, processor.number) == (1, 0)
    paths = ["/snapshot", "/snapshot/1", "/history", "/ledger", "/ledger/summary", "/snapshot?after=0"]
    newest, first, history, ledger, summary, waited = _asked(town, *paths)
    assert newest.json()["number"] == 0
    assert (first.status_code, waited.status_code) == (404, 204)
    assert (history.json()["newest"], len(history.json()["lines"])) == (0, 1)
    assert ledger.json()["ledger"]["entries"] == []
    assert (summary.json()["ledger"]["entries"], summary.json()["ledger"]["spent"]) == (0, newest.json()["spent"])
    (receipt,) = _asked(town, f"/batches/0.0/shares/{processor.mixers[-1]}/{digest(b'any')}")
    assert (receipt.status_code, receipt.json()["reason"]) == (503, "unwitnessed")
    with pytest.raises(ShareRejected, match="cosigned"):
        processor.receipt(0, 0)
    town.start("registrar")
    work(town)
    newest, first, history, ledger, summary, waited = _asked(town, *paths)
    assert newest.json()["number"] >= 1
    assert (first.status_code, waited.status_code) == (200, 200)
    pin = PublicationPin(newest.json()["number"], newest.headers["etag"].strip('"'))
    assert is_cosigned(pin, newest.headers["witness"], task_id=town.task.id, key=town.task.key("registrar"))
    assert ledger.json()["ledger"]["entries"]
    assert summary.json()["ledger"]["entries"] == len(ledger.json()["ledger"]["entries"])
    finish(town, people)


@pytest.mark.parametrize("away", [False, True], ids=["registrar there", "registrar away"])
@pytest.mark.parametrize("kind", ["central", "one mixer"])
def test_a_restored_analyzer_shows_no_second_release(kind: str, away: bool, tmp_path: Path) -> None:
    """A publication never exists twice in what anybody was shown, though the analyzer's database is restored after a
    release that it has drawn, and drawn again, with the registrar there or away.
    """
    town, people = begun(kind, tmp_path)
    copied(town, "analyzer", tmp_path)
    work(town, 1)
    for _ in range(4):
        people.come(final=True)
    if away:
        town.kill("registrar")
    for _ in range(3):
        work(town)  # the town itself compares all documents of one number that it has handed out
        with suppress(RoleUnreachable):
            town.publication()
        rolled_back(town, "analyzer", tmp_path)
        for _ in range(4):
            with suppress(BandannaError):
                people.come(final=True)
    work(town)
    town.start("registrar")
    work(town, 3)
    with suppress(RoleUnreachable):
        town.publication()
    processor = town.alive["analyzer"]["processor"]
    assert processor.rolled_back != away  # what nobody had been shown may be drawn again
    if processor.rolled_back:
        refused = _asked(town, "/snapshot", "/snapshot/0", "/history", "/ledger", "/ledger/summary")
        assert {(each.status_code, each.json()["reason"]) for each in refused} == {(503, "rolled-back")}
    else:
        check_history(town)


def test_a_lagging_replica_shows_no_second_release(tmp_path: Path) -> None:
    """Of two analyzers with one key, one of them with older rows, only the first shows a release: the other one answers
    503 as soon as it has drawn its own.
    """
    town, people = begun("central", tmp_path)
    town.kill("analyzer")
    shutil.copy(tmp_path / "analyzer.db", tmp_path / "replica.db")
    town.start("analyzer")
    town.step("analyzer")
    processor = town.alive["analyzer"]["processor"]
    rows = open_database(str(tmp_path / "replica.db"), role="analyzer", schema=_SCRIPTS["analyzer"])
    replica = BatchProcessor(rows, town.task, sign=processor._sign, opener=None, witness=processor._witness)
    assert replica.settle()
    assert replica.published == processor.published  # both show the beginning
    for _ in range(4):
        people.come(final=True)
    shares: list[bytes] = []
    take = processor.take
    processor.take = lambda content, *where: shares.append(content) or take(content, *where)
    work(town)
    assert processor.number == 1
    assert replica.take(shares[0], "analyzer", 0, 0).receipt is None
    assert replica.rolled_back
    assert replica.number == 0
    with pytest.raises(ShareRejected, match="restore its database"):
        replica.take(shares[0], "analyzer", 0, 0)
    rows.close()
    finish(town, people)


@pytest.mark.parametrize("kind", ["central", "one mixer"])
@pytest.mark.parametrize("point", ["before commit", "after commit", "killed after the answer", "response lost"])
def test_a_kill_between_commit_witness_store_and_serve_shows_nothing_twice(
    kind: str, point: str, tmp_path: Path
) -> None:
    """An analyzer that dies between the commit, the witness, the cosignature's commit and the serving of a publication
    shows it once, and the task goes on.
    """
    for passes in range(6):
        folder = tmp_path / str(passes)
        folder.mkdir()
        town, people = begun(kind, folder)
        town.armed[("analyzer to registrar", point) if point == "response lost" else ("analyzer", point)] = passes
        for _ in range(4):
            people.come(final=True)
        work(town)
        town.start("analyzer")
        work(town)
        finish(town, people)
        for role in town.roles:
            town.kill(role)


def test_only_the_analyzers_own_signature_shows_that_it_was_restored(tmp_path: Path) -> None:
    """Only the analyzer's own signature of a publication that it does not know stops it: a registrar that invents one,
    that repeats an old one, or that shows another document of the analyzer changes nothing, and neither does a wrong
    cosignature make anything served.
    """
    task, secrets = task_of("one mixer")
    inside = Inside(task, secrets, tmp_path)
    processor, own = inside.processor, secrets["analyzer"].sign
    first = loads(processor._sign_statement(processor.published))  # what the registrar has cosigned
    told = {"number": 7, "previous": "p", "chain": "c", "epoch": 7}
    invented: list[Any] = [
        None,
        7,
        {},
        told,
        {**told, "signature": sign(signing_key()[0], task.id, "witness", dumps(told))},
        {**told, "signature": sign(secrets["registrar"].sign, task.id, "witness", dumps(told))},
        {**told, "signature": sign(own, task.id, "publication", dumps(told))},
        {**told, "signature": sign(own, encode_base64url(bytes(32)), "witness", dumps(told))},
        first,
    ]
    genuine, restarted = inside.witness, _again(inside)
    for each in invented:
        restarted._witness = lambda content, answer=each: (409, {"witness": answer})
        assert not restarted.settle()
        assert not restarted.rolled_back
    for wrong in (None, "", "x" * 86, sign(signing_key()[0], task.id, "cosignature", b"{}"), first["signature"]):
        restarted._witness = lambda content, answer=wrong: (201, {"cosignature": answer})
        assert not restarted.settle()
    assert restarted.published is None
    restarted._witness = genuine
    assert restarted.settle()
    assert restarted.published == processor.published


def _beside(
    task: Task, secrets: dict[str, Secrets], first: SignedPublication
) -> tuple[SignedPublication, list[SignedPublication]]:
    """A publication after the first one, and the same with what is no cosignature of it."""
    document = dumps({**loads(first.document), "number": 1, "previous": chain_document("", first.document)})
    true, key = signed(task.id, secrets, document), secrets["registrar"].sign
    said = cosigned_statement(PublicationPin(1, chain_document(loads(document)["previous"], document)))
    wrong = {
        "none": "",
        "no signature": "x" * 86,
        "the analyzer's signature": true.signature,
        "the analyzer's cosignature": sign(secrets["analyzer"].sign, task.id, "cosignature", said),
        "a stranger's": sign(signing_key()[0], task.id, "cosignature", said),
        "of another publication": first.cosignature,
        "of another number": sign(key, task.id, "cosignature", said.replace(b'"number":1', b'"number":2')),
        "of another chain": sign(
            key, task.id, "cosignature", cosigned_statement(PublicationPin(1, digest(b"another")))
        ),
        "of another task": sign(key, encode_base64url(bytes(32)), "cosignature", said),
        "of another kind": sign(key, task.id, "publication", said),
        "of the document": sign(key, task.id, "cosignature", document),
    }
    return true, [true._replace(cosignature=each) for each in wrong.values()]


def test_devices_believe_no_publication_that_the_registrar_has_not_cosigned(tmp_path: Path) -> None:
    """A client that is shown a publication without the registrar's cosignature of its number and chain refuses it, and
    reports nothing: when it has seen none, after an older one, and in a crowd.
    """
    town = Devices(POLICY, tmp_path)
    first = shown(town.inside.processor.published)
    view = CurrentPublication.read(town.task, first)
    town.session(tmp_path / "outbox.db", user="a").act(ARMS)
    sent = len(town.bodies)
    true, wrong = _beside(town.task, town.secrets, first)
    for each in wrong:
        town.replayed = each
        for outbox in (":memory:", tmp_path / "outbox.db"):
            with pytest.raises(BandannaError, match="publication 1 is not cosigned by the task's registrar"):
                town.session(outbox, user="b").act(ARMS)
        for before in (None, view):
            with pytest.raises(BandannaError, match="publication 1 is not cosigned by the task's registrar"):
                CurrentPublication.read(town.task, each, before)
    assert len(town.bodies) == sent
    town.replayed = true
    assert town.session(tmp_path / "outbox.db", user="b").act(ARMS).publication == 1
    town.fault = lambda request: "lost" if request.url.path.endswith("/snapshot") else ""
    assert town.session(tmp_path / "outbox.db", user="c").act(ARMS).publication == 1  # as the outbox keeps it


def test_a_shuffler_follows_no_publication_that_the_registrar_has_not_cosigned(tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    shuffler = shuffler_of(liar)
    true, wrong = _beside(liar.task, liar.secrets, liar.said)
    for each in wrong:
        liar.said = each
        with pytest.raises(BandannaError, match="publication 1 is not cosigned by the task's registrar"):
            shuffler.plan()
    assert shuffler.status == "starting"
    liar.said = true
    assert shuffler.plan() is not None


def _again(inside: Inside) -> BatchProcessor:
    processor = inside.processor
    return BatchProcessor(processor._database, inside.task, sign=processor._sign, opener=None, witness=inside.witness)


def test_processes_show_no_second_release(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The same with processes in the central model: restored to before a release, the analyzer shows nothing while the
    registrar is away and answers 503 for ever once it is back; its newest database goes on.
    """
    policy = bd.make("LinTS-JDP", dim=2, horizon=40, batch=4, epsilon=5.0, delta=1e-3)
    task, _ = on_disk(policy, tmp_path, mixers=0, seed=None)
    environment = bd.environments.LinearContextual(dim=2, n_arms=3)
    ports = {role: int(task.url(role).rpartition(":")[2]) for role in ("registrar", "analyzer")}
    running: dict[str, Served] = {}
    request.addfinalizer(lambda: [each.stop() for each in running.values()])

    def start(role: str) -> None:
        running[role] = Served(tmp_path, role, str(tmp_path / f"{role}.db"), ports[role])

    def stop(*roles: str) -> None:
        for role in roles:
            running.pop(role).stop()

    start("analyzer")
    snapshot = f"/tasks/{task.id}/snapshot"
    assert running["analyzer"].client.get(snapshot).status_code == 503  # the registrar was never heard
    start("registrar")
    _wait(running["analyzer"], snapshot, 200)
    stop("analyzer")
    shutil.copy(tmp_path / "analyzer.db", tmp_path / "backup.db")
    start("analyzer")
    _play(task, tmp_path, environment, 4)
    _wait(running["analyzer"], snapshot + "/1", 200)
    true = running["analyzer"].client.get(snapshot + "/1").content
    stop("analyzer", "registrar")
    shutil.copy(tmp_path / "analyzer.db", tmp_path / "newest.db")
    shutil.copy(tmp_path / "backup.db", tmp_path / "analyzer.db")
    start("analyzer")
    answers = [running["analyzer"].client.get(snapshot + path) for path in ("", "/0", "/1", "?after=-1&wait=1")]
    assert {each.status_code for each in answers} == {503}
    token = {"authorization": f"Bearer {Secrets.read(tmp_path, 'analyzer', task).token}"}
    metrics = running["analyzer"].client.get("/metrics", headers=token).text
    assert re.search(r"bandanna_unwitnessed_publications(\{[^}]*\})? 1(\.0)?$", metrics, re.MULTILINE)
    start("registrar")
    _wait(running["analyzer"], snapshot, 503, "rolled-back")
    assert running["analyzer"].client.get("/readyz").status_code == 503
    stop("analyzer")
    shutil.copy(tmp_path / "newest.db", tmp_path / "analyzer.db")
    start("analyzer")
    _wait(running["analyzer"], snapshot + "/1", 200)
    assert running["analyzer"].client.get(snapshot + "/1").content == true
    stop("registrar")
    stop("analyzer")


def _wait(served: Served, path: str, status: int, reason: str | None = None) -> None:
    for _ in range(3000):
        answer = served.client.get(path)
        if answer.status_code == status and (reason is None or answer.json()["reason"] == reason):
            return
        time.sleep(0.02)
    raise AssertionError((path, answer.status_code, answer.text[:200]))


def _play(task: Task, folder: Path, environment: Any, rounds: int) -> None:
    with HttpDeployment(task, token=Secrets.read(folder, "registrar", task).token) as http:
        SimulatedUsers(task, http, environment, rounds=rounds, concurrency=1, wait=600.0).run()
