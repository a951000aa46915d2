"""What is signed for one purpose, or in one task, is nothing in another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, get_args

import pytest

import bandanna as bd
from bandanna.deployment.messages.canonical import Kind, dumps, loads, sign, signing_key, verify
from bandanna.deployment.messages.share import check_receipt
from bandanna.errors import BandannaError, Unreadable

from ..deployment.hostile.attacked import Attacked
from ..deployment.hostile.test_shares import _closed as closed_share
from ..deployment.hostile.test_shares import _task as a_split_task
from ..deployment.served import Served
from ..deployment.test_processes import on_disk

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_document_is_of_one_kind_and_of_one_task(kind: Kind) -> None:
    secret, public = signing_key()
    signature = sign(secret, "a task", kind, b"content")
    assert verify(public, "a task", kind, b"content", signature)
    assert not any(verify(public, "a task", other, b"content", signature) for other in KINDS if other != kind)
    assert not verify(public, "another task", kind, b"content", signature)
    assert not verify(public, "a task", kind, b"content ", signature)


def test_a_receipt_is_of_its_task_epoch_and_round(tmp_path: Path) -> None:
    attacked = Attacked(*a_split_task(mixers=1), tmp_path)
    share = closed_share(attacked)
    assert attacked.learner.take(share, "shuffler", 0, 0).status == 201
    receipt = loads(attacked.learner.receipt(0, 0))
    task, key = attacked.task, attacked.task.key("analyzer")
    check_receipt(receipt, task_id=task.id, epoch=0, round_=0, key=key)
    published = attacked.learner.published
    assert published is not None
    others: list[tuple[Any, dict[str, Any]]] = [
        (receipt, {"epoch": 1}),
        (receipt, {"round_": 1}),
        (receipt, {"task_id": "another"}),
        ({**receipt, "epoch": 1}, {"epoch": 1}),
        ({**loads(published.document), "signature": published.signature}, {}),
        (None, {}),
        ([], {}),
        ({}, {}),
    ]
    for document, changes in others:
        with pytest.raises(Unreadable):
            check_receipt(document, **{"task_id": task.id, "epoch": 0, "round_": 0, "key": key, **changes})


def test_an_invented_witness_in_a_share_does_not_stop_the_analyzer(tmp_path: Path) -> None:
    attacked = Attacked(*a_split_task(mixers=1), tmp_path)
    share = closed_share(attacked)
    assert "witness" not in loads(share)
    invented = dumps({**loads(share), "witness": {"number": 7, "chain": "invented"}})
    with pytest.raises(BandannaError):
        attacked.learner.take(invented, "shuffler", 0, 0)
    assert not attacked.learner.rolled_back
    assert attacked.learner.take(share, "shuffler", 0, 0).status == 201


def test_processes_take_nothing_for_another_kind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A running registrar cosigns nothing, and a running analyzer takes no share, by a signature of another kind; a
    share with an invented witness is refused, and the analyzer goes on.
    """
    policy = bd.make("LinTS-SDP", dim=2, batch=6, horizon=60, epsilon=8.0, delta=1e-2)
    task, secrets = on_disk(policy, tmp_path, mixers=1, seed=None)
    running: dict[str, Served] = {}
    request.addfinalizer(lambda: [each.stop() for each in running.values()])
    for role in ("registrar", "analyzer"):
        port = int(task.url(role).rpartition(":")[2])
        running[role] = Served(tmp_path, role, str(tmp_path / f"{role}.db"), port)
    analyzer, registrar = (running[role].client for role in ("analyzer", "registrar"))
    end = time.monotonic() + 600
    while (published := analyzer.get(f"/tasks/{task.id}/snapshot")).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    told = {"number": 1, "previous": published.headers["etag"].strip('"'), "chain": "c", "epoch": 1}
    for kind in KINDS:
        if kind != "witness":
            content = dumps({**told, "signature": sign(secrets["analyzer"].sign, task.id, kind, dumps(told))})
            assert registrar.put(f"/tasks/{task.id}/witness", content=content).status_code == 403, kind
    parts = {"count": 6, "checksum": "", "bad": 0, "parts": [], "key": None}
    share = dumps({"task": task.id, "epoch": 0, "round": 0, "mixer": "shuffler", **parts})
    invented = dumps({**loads(share), "witness": {"number": 7, "chain": "invented"}})
    path = f"/tasks/{task.id}/batches/0.0/shares/shuffler"
    for kind in KINDS:
        expected = 400 if kind == "share" else 401
        signature = sign(secrets["shuffler"].sign, task.id, kind, invented)
        assert analyzer.put(path, content=invented, headers={"signature": signature}).status_code == expected, kind
    assert analyzer.get("/readyz").status_code == 200
    assert analyzer.get(f"/tasks/{task.id}/snapshot").content == published.content
