"""What is signed for one purpose, or in one task, is nothing in another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from bandanna.errors import BandannaError, Unreadable
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.keys import Kind, sign, signing_key, verify
from bandanna.wire.shares import check_receipt

from ..roles.hostile.attacked import Attacked
from ..roles.hostile.test_shares import _closed as closed_share
from ..roles.hostile.test_shares import _task as a_split_task

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_document_is_of_one_kind_and_of_one_task(kind: Kind) -> None:
    """A signature is good for the kind and the task that it was made for, and for no other."""
    secret, public = signing_key()
    signature = sign(secret, "a task", kind, b"content")
    assert verify(public, "a task", kind, b"content", signature)
    assert not any(verify(public, "a task", other, b"content", signature) for other in KINDS if other != kind)
    assert not verify(public, "another task", kind, b"content", signature)
    assert not verify(public, "a task", kind, b"content ", signature)


def test_a_receipt_is_of_its_task_epoch_and_round(tmp_path: Path) -> None:
    """A mixer takes a receipt for that of the round that it is of, and no publication for a receipt."""
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
    """A mixer cannot make the analyzer believe that its database was restored: shares name no publication."""
    attacked = Attacked(*a_split_task(mixers=1), tmp_path)
    share = closed_share(attacked)
    assert "witness" not in loads(share)
    invented = dumps({**loads(share), "witness": {"number": 7, "chain": "invented"}})
    with pytest.raises(BandannaError):
        attacked.learner.take(invented, "shuffler", 0, 0)
    assert not attacked.learner.rolled_back
    assert attacked.learner.take(share, "shuffler", 0, 0).status == 201
