"""The registrar as a process, asked over loopback by hosts, analyzers and strangers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    TicketKeys,
    decode_base64url,
    dumps,
    encode_base64url,
    prove_unused,
    sign,
)
from bandanna.deployment.messages.publication import PublicationPin, is_cosigned
from bandanna.deployment.registrar import SCHEMA
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError
from bandanna.storage.database.base import open_database

from ..served import Served, written

HOST = {"Authorization": "Bearer the token of the registrar"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("task")
    written(
        made,
        "UCB1",
        mixers=0,
        urls={"analyzer": "http://127.0.0.1:1", "registrar": "http://127.0.0.1"},
        n_arms=3,
        horizon=400,
    )
    return made


@pytest.fixture
def task(folder: Path) -> Task:
    return Task.read(folder)


@pytest.fixture(scope="module")
def registrar(folder: Path) -> Iterator[Served]:
    served = Served(folder, "registrar", str(folder / "r.db"))
    yield served
    served.stop()


def ask(served: Served, task: Task, *wishes: dict[str, Any], headers: Any = HOST) -> httpx.Response:
    return served.client.post(f"/tasks/{task.id}/tickets", json={"tickets": list(wishes)}, headers=headers)


def test_a_host_gets_tickets_and_exchanges_a_refused_one_over_http(registrar: Served, folder: Path, task: Task) -> None:
    answer = ask(registrar, task, {"user": "ada", "epoch": 0}, {"user": "ada", "epoch": 9})
    given, late = answer.json()["tickets"]
    slot = decode_base64url(given["slot"], 16)
    assert (answer.status_code, late) == (200, {"refused": "epoch"})
    key = Secrets.read(folder, "analyzer", task).ticket_key(task, COLLECTOR)  # which agrees with the registrar's
    assert decode_base64url(given["collector"]) == TicketKeys(key, task.digest, COLLECTOR).key(0, slot)
    assert ask(registrar, task, {"user": "ada", "epoch": 1}).status_code == 429
    assert ask(registrar, task, {"user": "", "epoch": 1}).status_code == 409
    proof = [0, encode_base64url(slot), encode_base64url(prove_unused(key, task.digest, 0, slot))]
    moved = ask(registrar, task, {"user": "ada", "epoch": 1, "refused": [proof]})
    assert (moved.status_code, moved.json()["tickets"][0]["epoch"]) == (200, 1)
    text = registrar.client.get("/metrics", headers=HOST).text
    assert 'bandanna_tickets_refused_total{reason="participations"} 1' in text
    assert registrar.client.get("/status", headers=HOST).json()["tickets"] == 1


def test_without_the_token_nobody_gets_a_ticket(registrar: Served, task: Task) -> None:
    wish = {"user": "eve", "epoch": 0}
    before = tickets_given(registrar)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic the token of the registrar"}):
        assert ask(registrar, task, wish, headers=headers).status_code == 401
    for body in (
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"tickets": 3}',
        b'{"tickets": []}',
        b'{"tickets": [], "more": 1}',
        b"\xff",
    ):
        path = f"/tasks/{task.id}/tickets"
        assert registrar.client.post(path, content=body, headers=HOST).status_code == 400, body
    assert ask(registrar, task, *([wish] * 1001)).status_code == 400
    assert registrar.client.post("/tasks/other/tickets", json={"tickets": [wish]}, headers=HOST).status_code == 404
    assert registrar.client.get("/status").status_code == 401
    assert tickets_given(registrar) == before


def tickets_given(served: Served) -> str:
    return next(
        line
        for line in served.client.get("/metrics", headers=HOST).text.splitlines()
        if line.startswith("bandanna_tickets_total")
    )


def test_the_newest_witness_is_answered_to_an_analyzer_that_went_back(
    registrar: Served, folder: Path, task: Task
) -> None:
    private = Secrets.read(folder, "analyzer", task).sign
    path = f"/tasks/{task.id}/witness"
    assert registrar.client.get(path).status_code == 404

    def put(number: int, chain: str, key: str = private, previous: str = "") -> httpx.Response:
        document = {"number": number, "previous": previous, "chain": chain, "epoch": number}
        return registrar.client.put(
            path, json={**document, "signature": sign(key, task.id, "witness", dumps(document))}
        )

    new, again = put(0, "a"), put(0, "a")
    assert (new.status_code, again.status_code) == (201, 200)
    assert new.json() == again.json()
    pin, key = PublicationPin(0, "a"), task.key("registrar")
    assert is_cosigned(pin, new.json()["cosignature"], task_id=task.id, key=key)
    assert put(1, "b", previous="a").status_code == 201
    assert put(1, "c", previous="a").status_code == put(0, "a").status_code == 409
    assert put(0, "a").json()["witness"]["chain"] == "b"
    assert put(2, "c", Secrets.read(folder, "shuffler", task).sign, previous="b").status_code == 403
    for body in (b"", b"[]", b"7", b'{"number": 3}', b'{"number": "3", "chain": "c"}'):
        assert registrar.client.put(path, content=body).status_code == 400
    assert registrar.client.get(path).json()["number"] == 1


def test_nothing_that_was_answered_is_lost_by_a_kill(folder: Path, task: Task, tmp_path: Path) -> None:
    url = str(tmp_path / "r.db")
    first = Served(folder, "registrar", url)
    given = ask(first, task, *({"user": f"u{i}", "epoch": 0} for i in range(50))).json()
    beside = open_database(url, role="registrar", schema=SCHEMA)
    with pytest.raises(BandannaError, match="another process"):
        beside.claim()
    beside.close()
    first.stop(signal.SIGKILL)
    second = Served(folder, "registrar", url)
    assert ask(second, task, *({"user": f"u{i}", "epoch": 0} for i in range(50))).json() == given
    assert second.stop() == 0


def test_no_person_is_in_the_log(registrar: Served, task: Task) -> None:
    given = ask(registrar, task, {"user": "ada.lovelace", "epoch": 0}).json()["tickets"][0]
    ask(registrar, task, {"user": "ada.lovelace", "epoch": 1})
    registrar.client.put(f"/tasks/{task.id}/witness", content=b"ada.lovelace")
    said = json.dumps(registrar.lines())
    assert "serving" in said
    assert not any(word in said for word in ("lovelace", given["slot"], given["collector"], "127.0.0.1"))
