"""A helper against a shuffler that splits, tampers and repeats; on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.helper import MOST_EPOCHS, Helper, JobRefused, Keyring
from bandanna.deployment.messages.batch_plan import Batch, Part, Round
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    TicketKeys,
    dumps,
    encode_base64url,
    loads,
    seal,
    sign,
    signing_key,
    verify,
)
from bandanna.deployment.messages.report import report_info, sealing_info, slots_checksum
from bandanna.deployment.messages.share import JobEntry
from bandanna.errors import BandannaError, Unreadable
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.storage.database.base import Database, StorageError

from ..postgres import postgres_url  # noqa: F401  # a fixture
from .parties import (
    ANALYZER,
    KEY,
    LEADER,
    OWN_PUBLIC,
    SEAL,
    SEAL_PUBLIC,
    TASK,
    TASK_ID,
    Users,
    assigned,
    bits,
    give,
    helper,
    mixed_by_one,
    opened,
    part,
    plain,
    plainly,
    receipt,
    streamed,
    together,
    vector,
)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else str(tmp_path / "h.db")


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = opened(url)
    yield database
    database.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Database]:
    database = opened(tmp_path / "h.db")
    yield database
    database.close()


def views(share: bytes) -> list[Any]:
    return [make_mixer_encoding().loads(text) for text in loads(share)["parts"]]


def refused(one: Helper, users: Users, content: bytes | None = None, round_: int = 0) -> tuple[int, str]:
    with pytest.raises(JobRefused) as error:
        give(one, users, round_, content)
    return error.value.status, error.value.reason


@pytest.mark.parametrize("batch", [plain(rounds=2), assigned(), assigned(in_turn=False)], ids=["plain", "turn", "arms"])
def test_shares_and_masks_add_up_to_the_totals_of_one_mixer(db: Database, batch: Batch) -> None:
    one, users = helper(db), Users(batch)
    for round_ in range(len(batch.rounds)):
        status, share = give(one, users, round_)
        shares = mixed_by_one(batch, round_, users.shares(round_), {})
        assert status == 201
        assert together(shares, views(share)) == plainly(mixed_by_one(batch, round_, users.counts[round_], {}))
        assert verify(OWN_PUBLIC, TASK_ID, "share", share, one.waiting()[round_].signature)


def test_streams_continue_across_batches_and_restarts(url: str) -> None:
    by_one: dict[int, Any] = {}
    by_leader: dict[int, Any] = {}
    levels = 0
    for epoch in range(9):  # 27 users: two batches of the highest level are full
        db = opened(url)
        one, users = helper(db), Users(streamed(epoch), seed=epoch)
        _, share = give(one, users)
        shares = mixed_by_one(users.batch, 0, users.shares(0), by_leader)
        total = together(shares, views(share))
        assert total == plainly(mixed_by_one(users.batch, 0, users.counts[0], by_one))
        levels = max(levels, *(len(full[1]) for view in total for full in view))
        one.receipted(epoch, 0, receipt(epoch))
        db.close()
    assert levels == 3


def test_neither_sum_is_near_the_totals(file: Database) -> None:
    """Of 22 uniform numbers modulo 2^64, one is below 2^40 with probability 22 / 2^23: a false alarm in 380,000."""
    users = Users(plain())
    _, share = give(helper(file), users)
    for alone in (views(share), mixed_by_one(users.batch, 0, users.shares(0), {})):
        numbers = np.concatenate([view.numbers for each in alone for view in each])
        assert np.all(np.abs(numbers.astype(float)) > 2**40)


def test_the_same_job_is_done_once_and_another_one_never(url: str) -> None:
    users = Users(plain())
    job = users.job()
    db = opened(url)
    status, share = give(helper(db), users, content=job)
    db.close()
    db = opened(url)
    one = helper(db)
    assert (status, give(one, users, content=job)) == (201, (200, share))
    assert [stored.share for stored in one.waiting()] == [share]  # and is sent by the process after
    assert refused(one, users, users.job(entries=users.entries()[::-1])) == (409, "other-job")
    assert refused(one, Users(plain())) == (409, "other-job")
    assert one.receipted(0, 0, receipt(0)) == "released"
    assert one.waiting() == []
    assert give(one, users, content=job) == (200, share)
    db.close()


def test_a_tampered_job_is_refused(file: Database) -> None:
    one, users = helper(file), Users(plain())
    job = users.job()
    with pytest.raises(JobRefused) as error:
        one.job(job, sign(signing_key()[0], TASK_ID, "job", job), epoch=0, round_=0)
    assert (error.value.status, error.value.reason) == (403, "signature")
    assert pickle.loads(pickle.dumps(error.value)).reason == "signature"
    for signature in (None, "", "x" * 86, sign(LEADER, TASK_ID, "job", job + b" ")):
        with pytest.raises(JobRefused):
            one.job(job, signature, epoch=0, round_=0)
    for epoch, round_ in ((1, 0), (0, 1)):
        with pytest.raises(JobRefused, match="address"):
            one.job(job, sign(LEADER, TASK_ID, "job", job), epoch=epoch, round_=round_)
    entries = users.entries()
    assert refused(one, users, users.job(entries=[*entries[:4], entries[0]])) == (422, "job")
    assert refused(one, users, users.job(entries=entries[:4])) == (422, "job")
    assert refused(one, users, users.job(task_id="another")) == (422, "job")
    for changed in changes(loads(job)):
        assert refused(one, users, dumps(changed)) == (422, "job"), changed
    assert (
        refused(one, users, b"{}") == refused(one, users, b"\xff") == refused(one, users, b"[" * 9999) == (422, "job")
    )
    assert one.waiting() == []
    assert give(one, users)[0] == 201


def changes(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a job with one fault."""
    for name, odd in {
        "count": [4, True, None, "5"], "checksum": ["0" * 64, None, slots_checksum([])],
        "round": [1, -1, True, "0", None],
        "batch": [None, [], {}, {**job["batch"], "slots": 4}, {**job["batch"], "arms": None}],
        "entries": [None, {}, "text", [1] * 5, job["entries"][:4]],
    }.items():  # fmt: skip
        for value in odd:
            yield {**job, name: value}
    for name in job:
        yield {key: value for key, value in job.items() if key != name}
    slot, key_id, sealed = job["entries"][0]
    for entry in (
        [slot, key_id], [slot, 256, sealed], [slot, True, sealed], [slot, key_id, sealed[:-4]],
        [slot, key_id, [sealed]],
        [slot[:-2], key_id, sealed], [None, key_id, sealed], [slot, key_id, None], ["é" * 22, key_id, sealed],
        [slot, key_id, sealed, sealed],
    ):  # fmt: skip
        yield {**job, "entries": [entry, *job["entries"][1:]]}


def unusable(one: Helper, users: Users, entries: list[JobEntry]) -> int:
    """Return the number of bad entries of a job."""
    status, share = give(one, users, content=users.job(entries=entries))
    assert status == 201
    assert bool(loads(share)["bad"]) == (loads(share)["parts"] == [])
    return int(loads(share)["bad"])


def test_a_shuffler_cannot_invent_users(file: Database) -> None:
    one, users = helper(file), Users(plain(0))
    entries, seed = users.entries(), b"x" * 16
    others = {
        "no key": bytes(16),
        "another slot's": users.tickets.key(0, users.slots[0]),
        "another epoch's": users.tickets.key(1, users.slots[1]),
        "the collector's": TicketKeys(KEY, TASK, COLLECTOR).key(0, users.slots[1]),
        "another task's": TicketKeys(KEY, b"t" * 32, HELPER).key(0, users.slots[1]),
        "of another key": TicketKeys(b"x" * 32, TASK, HELPER).key(0, users.slots[1]),
    }
    for epoch, key in enumerate(others.values(), 1):
        own = again(users, epoch)
        entries = own.entries()
        entries[1] = entries[1]._replace(sealed=own.sealed(own.slots[1], seed, ticket=key))
        assert unusable(one, own, entries) == 1
        assert one.receipted(epoch, 0, receipt(epoch, 0, "burned")) == "unusable"
    assert unusable(one, users, users.entries()) == 0


@pytest.mark.parametrize("other", ["nothing", "task", "slot", "round", "epoch", "plan", "purpose"])
def test_a_seal_for_another_task_slot_round_epoch_plan_or_purpose_does_not_open(file: Database, other: str) -> None:
    one, users = helper(file), Users(plain(1, rounds=2))
    slot, batch = users.slots[1], users.batch
    info = {
        "nothing": sealing_info(TASK, batch, 0, slot),
        "task": sealing_info(b"t" * 32, batch, 0, slot),
        "slot": sealing_info(TASK, batch, 0, users.slots[0]),
        "round": sealing_info(TASK, batch, 1, slot),
        "epoch": sealing_info(TASK, replace(batch, epoch=2), 0, slot),
        "plan": sealing_info(TASK, replace(batch, rounds=batch.rounds[:1]), 0, slot),
        "purpose": report_info(TASK, 1, 0),
    }[other]
    entries = users.entries()
    text = seal(SEAL_PUBLIC, users.seeds[0][1] + users.tickets.key(1, slot), info)
    entries[1] = entries[1]._replace(sealed=text)
    assert unusable(one, users, entries) == (other != "nothing")


def again(users: Users, epoch: int) -> Users:
    return Users(replace(users.batch, epoch=epoch), slots=list(users.slots))


def test_a_slot_of_another_batch_is_refused(db: Database) -> None:
    one, users = helper(db), Users(plain(0, rounds=2))
    give(one, users)
    twice = again(users, 1)
    twice.slots[1:] = Users(plain()).slots[1:]
    assert refused(one, twice) == (422, "slots")
    assert refused(one, Users(users.batch), round_=1) == (409, "slots")
    assert give(one, users, 1)[0] == 201


def test_slots_are_deleted_when_their_batch_has_its_receipt(file: Database) -> None:

    def remembered() -> int:
        with file.reading() as transaction:
            return int(transaction.execute("select count(*) from slots")[0][0])

    one, users = helper(file), Users(plain(0, rounds=2))
    give(one, users)
    one.receipted(0, 0, receipt(0))
    assert remembered() == 5  # the second round is to come
    give(one, users, 1)
    one.receipted(0, 1, receipt(0, 1, "burned"))
    assert remembered() == 0
    for epoch in range(1, MOST_EPOCHS + 4):  # receipts that never come
        give(one, Users(plain(epoch)))
    assert remembered() == 5 * MOST_EPOCHS


def test_a_seed_that_cannot_be_opened_is_counted_and_no_sum_is_made(db: Database) -> None:
    one, users = helper(db), Users(plain())
    entries = users.entries()
    entries[0] = entries[0]._replace(sealed=again(users, 1).entries()[0].sealed)
    entries[1] = entries[1]._replace(sealed=entries[2].sealed)
    entries[2] = entries[2]._replace(sealed=bytes(80))
    entries[3] = entries[3]._replace(key_id=9)
    assert unusable(one, users, entries) == 4


def test_a_stream_ends_with_a_round_whose_seeds_do_not_open(db: Database) -> None:
    one = helper(db)
    for epoch in range(2):
        users = Users(streamed(epoch), seed=epoch)
        entries = users.entries()
        if epoch == 1:
            entries[0] = entries[0]._replace(key_id=9)
        give(one, users, content=users.job(entries=entries))
        one.receipted(epoch, 0, receipt(epoch, 0, "burned" if epoch == 1 else "released"))
    assert refused(one, Users(streamed(2))) == (409, "ended")


@pytest.mark.parametrize("outcome", ["burned", "exhausted"])
def test_a_stream_ends_with_an_unusable_round(db: Database, outcome: str) -> None:
    one = helper(db)
    for epoch in range(3):
        give(one, Users(streamed(epoch), seed=epoch))
        assert one.receipted(epoch, 0, receipt(epoch, 0, outcome if epoch == 2 else "released")) != "stored"
    for epoch in (1, 2, 3, 9):
        assert refused(one, Users(streamed(epoch))) in ((409, "ended"), (409, "other-job"))
    one.receipted(2, 0, receipt(2))  # too late: the first one stands
    assert refused(one, Users(streamed(3))) == (409, "ended")
    assert give(one, Users(plain(4)))[0] == 201


def test_a_stream_waits_for_the_receipt_of_the_batch_before(file: Database) -> None:
    one = helper(file)
    give(one, Users(streamed(1)))
    later = Users(streamed(2))
    assert refused(one, later) == (503, "waiting")
    one.receipted(1, 0, receipt(1))
    assert refused(one, Users(streamed(0))) == (409, "order")
    assert give(one, later)[0] == 201


def test_every_sum_of_a_stream_is_released_once(file: Database) -> None:
    one = helper(file)
    for epoch in range(3):
        give(one, Users(streamed(epoch)))
        one.receipted(epoch, 0, receipt(epoch))
    with file.transaction() as rows:
        found = rows.execute("select level, number from sums order by level, number")
        assert found == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2)]  # 9 people, in batches of 2, 4 and 12
        rows.execute("delete from stream_states")
    with pytest.raises(StorageError, match=r"(?i)unique"):
        give(one, Users(streamed(3)))
    assert one.waiting() == []


@pytest.mark.parametrize("outcome", ["released", "burned"])
def test_only_the_analyzers_receipt_of_this_round_changes_a_job(file: Database, outcome: str) -> None:
    one = helper(file)
    for epoch in range(3):
        give(one, Users(plain(epoch)))
    genuine = receipt(1, 0, outcome)
    publication = {"task": TASK_ID, "epoch": 1, "round": 0, "number": 2, "outcome": outcome, "state": "{}"}
    signed = {**publication, "signature": sign(ANALYZER, TASK_ID, "publication", dumps(publication))}
    for forged in (
        None, [], "receipt", {}, {"outcome": outcome}, {**genuine, "signature": "x" * 86}, signed,
        {**genuine, "outcome": "released" if outcome == "burned" else "burned"}, {**genuine, "chain": "other"},
        receipt(0, 0, outcome), receipt(1, 1, outcome), receipt(1, 0, outcome, task_id="another"),
        receipt(1, 0, outcome, key=signing_key()[0]),
    ):  # fmt: skip
        with pytest.raises(Unreadable):
            one.receipted(1, 0, forged)
    assert [stored.epoch for stored in one.waiting()] == [0, 1, 2]
    state = "released" if outcome == "released" else "unusable"
    assert one.receipted(1, 0, genuine) == one.receipted(1, 0, receipt(1, 0, "exhausted")) == state
    assert one.receipted(2, 0, receipt(2), other=True) == "unusable"  # released from another share
    assert [stored.epoch for stored in one.waiting()] == [0]


@pytest.mark.parametrize(
    "parts",
    [
        (part(vector(9)),),  # for more users than there are
        (replace(part(vector(5)), mixer="null"),),
        (replace(part(vector(5)), mixer="not json"),),
        (replace(part(vector(5)), length=3),),
        (replace(part(vector(5)), mixer='{"kind":"os.system","fields":{}}'),),
        (part(bits(5), arm=4),),  # of an arm that nobody plays
    ],
    ids=["least", "none", "text", "length", "kind", "arm"],
)
def test_a_plan_that_cannot_be_followed_is_refused(file: Database, parts: tuple[Part, ...]) -> None:
    batch = replace(plain(), rounds=(Round(parts=parts),), arms=(1,), plays=(5,))
    one = helper(file)
    assert refused(one, Users(batch)) == (422, "plan")
    assert one.waiting() == []
    odd = replace(batch, rounds=(Round(parts=(replace(parts[0], form="plain"),)),))
    assert refused(one, Users(odd)) == (422, "job")


def test_a_database_belongs_to_one_task(file: Database) -> None:
    helper(file)
    with pytest.raises(BandannaError, match="another task"):
        helper(file, task=b"t" * 32)
    with pytest.raises(BandannaError, match="first key"):
        Keyring(file, first=(SEAL, encode_base64url(b"p" * 32)))


def test_keys_are_announced_used_and_deleted(db: Database) -> None:
    clock = [1000.0]
    keys = Keyring(db, first=(SEAL, SEAL_PUBLIC), delay=60, now=lambda: clock[0])
    one = helper(db, keyring=keys)
    assert keys.rotate() == 1
    with pytest.raises(BandannaError, match="pending"):
        keys.rotate()
    assert [(key["id"], key["state"]) for key in keys.public()] == [(0, "active"), (1, "pending")]
    with pytest.raises(BandannaError, match="expired"):
        keys.delete(0)
    clock[0] += 60
    keys = Keyring(db, first=(SEAL, SEAL_PUBLIC), delay=60, now=lambda: clock[0])
    assert [(key["id"], key["state"]) for key in keys.public()] == [(0, "expired"), (1, "active")]
    new = (1, keys.public()[1]["public"])
    old_users = Users(plain(0))
    assert loads(give(one, old_users)[1])["bad"] == 0  # sealed before, and opened after it has expired
    assert loads(give(one, Users(plain(1), key=new))[1])["bad"] == 0
    keys.delete(0)
    for again in (0, 1, 7, True, None):
        with pytest.raises(BandannaError, match="expired"):
            keys.delete(again)
    assert [key["id"] for key in keys.public()] == [1]
    assert loads(give(one, Users(plain(2)))[1])["bad"] == 5
    assert "secret" not in json.dumps(keys.public())


def test_deleted_rows_are_in_no_file_of_the_database(file: Database, tmp_path: Path) -> None:

    def content() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    keys = Keyring(file, first=(SEAL, SEAL_PUBLIC), delay=0)
    for _ in range(2):
        keys.rotate()
    with file.reading() as transaction:
        ((secret,),) = transaction.execute("select secret from keys where id = 1")
    users, one = Users(plain()), helper(file, keyring=keys)
    give(one, users)
    assert secret.encode() in content()
    assert users.slots[0] in content()
    keys.delete(1)
    one.receipted(0, 0, receipt(0))
    assert secret.encode() not in content()
    assert not any(slot in content() for slot in users.slots)


def test_a_task_has_at_most_256_keys(file: Database) -> None:
    keys = Keyring(file, first=(SEAL, SEAL_PUBLIC), delay=0)
    assert [keys.rotate() for _ in range(255)] == list(range(1, 256))
    with pytest.raises(BandannaError, match="another task"):
        keys.rotate()
