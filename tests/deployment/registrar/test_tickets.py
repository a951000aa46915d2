"""Tickets against a model, on SQLite and PostgreSQL: whatever hosts ask and whatever users bring along."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    decode_base64url,
    encode_base64url,
    encode_label,
    mac,
    prove_unused,
)
from bandanna.deployment.messages.canonical import TicketKeys as Keys
from bandanna.deployment.registrar import SCHEMA, Registrar
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, open_database

from ...drawn import examples
from ...postgres import postgres_url  # noqa: F401  # a fixture

TASK, KEY, OTHER, SECRET = bytes(range(32)), b"k" * 32, b"h" * 32, b"s" * 32


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else str(tmp_path / "r.db")


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = open_database(url, role="registrar", schema=SCHEMA)
    yield database
    database.close()


def registrar(db: Database, participations: int = 1, **others: Any) -> Registrar:
    parts = {"task": TASK, "ticket_keys": {COLLECTOR: KEY, HELPER: OTHER}, "secret": SECRET, **others}
    return Registrar(db, participations=participations, **parts)


def wish(user: Any, epoch: Any, *refused: Any) -> dict[str, Any]:
    return {"user": user, "epoch": epoch, **({"refused": list(refused)} if refused else {})}


def proof(epoch: int, slot: bytes, key: bytes = KEY) -> list[Any]:
    return [epoch, encode_base64url(slot), encode_base64url(prove_unused(key, TASK, epoch, slot))]


def release(db: Database, number: int, epoch: int) -> None:
    with db.transaction() as rows:
        rows.execute("insert into witness values (?, ?, ?, ?, ?)", number, epoch, f"c{number}", "{}", "signature")


def test_a_ticket_is_given_once_and_again_when_the_answer_was_lost(db: Database) -> None:
    first, again, other = registrar(db).tickets([wish("ada", 1), wish("ada", 1), wish("bob", 1)])
    assert first == again != other
    slot = decode_base64url(first["slot"], 16)
    assert decode_base64url(first["collector"]) == Keys(KEY, TASK, COLLECTOR).key(1, slot)
    assert decode_base64url(first["helper"]) == Keys(OTHER, TASK, HELPER).key(1, slot)
    assert registrar(db).tickets([wish("ada", 1)]) == [first]  # after a restart, too
    assert registrar(db).tickets([wish("ada", 2)]) == [{"refused": "participations"}]


def test_a_refusal_gives_a_participation_back_once(db: Database) -> None:
    one = registrar(db)
    slot = decode_base64url(one.tickets([wish("ada", 0)])[0]["slot"])
    (moved,) = one.tickets([wish("ada", 1, proof(0, slot))])
    assert moved["epoch"] == 1
    assert moved["slot"] != encode_base64url(slot)
    assert one.tickets([wish("ada", 1, proof(0, slot))]) == [moved]
    assert one.tickets([wish("ada", 2, proof(0, slot))]) == [{"refused": "participations"}]
    assert one.tickets([wish("ada", 0)]) == [{"refused": "participations"}]


def test_what_nobody_has_refused_gives_nothing_back(db: Database) -> None:
    one = registrar(db)
    ada, bob = (decode_base64url(each["slot"]) for each in one.tickets([wish("ada", 1), wish("bob", 1)]))
    for forged in (
        proof(1, ada, b"x" * 32),
        [1, encode_base64url(ada), encode_base64url(Keys(KEY, TASK, COLLECTOR).key(1, ada))],
        [1, 2, 3],
        [1],
        7,
    ):
        assert one.tickets([wish("ada", 2, forged)]) == [{"refused": "proof"}]
    for useless in (proof(1, bob), proof(0, ada)):
        assert one.tickets([wish("ada", 2, useless)]) == [{"refused": "participations"}]
    assert one.tickets([wish("ada", 0, proof(1, ada))]) == [{"refused": "participations"}]


def test_what_is_not_a_wish_is_refused_by_its_reason(db: Database) -> None:
    odd = ["", "x" * 201, 3, None, "\ud800", b"x"]
    answers = registrar(db).tickets(
        [wish("good", 0), *(wish(user, 0) for user in odd), {}, 7, {**wish("a", 0), "b": 1}]
    )
    assert "slot" in answers[0]
    assert answers[1:] == [{"refused": "user"}] * 9
    wrong = [-1, 3, 2**32, True, 1.0, None, "1"]
    assert registrar(db).tickets([wish("a", epoch) for epoch in wrong]) == [{"refused": "epoch"}] * 7
    for requests in ([], [wish("a", 0)] * 1001, {}, None):
        with pytest.raises(InvalidArgument):
            registrar(db).tickets(requests)


def test_tickets_are_given_for_at_most_two_epochs_beyond_the_witness(db: Database) -> None:
    one = registrar(db, 9)
    assert one.tickets([wish("a", 2), wish("a", 3)])[1] == {"refused": "epoch"}
    release(db, 0, 5)
    assert ["slot" in each for each in one.tickets([wish("a", 7), wish("a", 8)])] == [True, False]
    release(db, 1, 9)  # batches that were burned have epochs, too
    assert "slot" in one.tickets([wish("a", 11)])[0]


def test_the_database_of_another_secret_is_refused(db: Database) -> None:
    registrar(db)
    for others in ({"secret": b"t" * 32}, {"task": b"t" * 32}):
        with pytest.raises(BandannaError, match="once more"):
            registrar(db, **others)


def test_people_are_stored_as_keyed_hashes_only(tmp_path: Path) -> None:
    db = open_database(str(tmp_path / "r.db"), role="registrar", schema=SCHEMA)
    registrar(db).tickets([wish("ada.lovelace", 0)])
    with db.reading() as transaction:
        ((person,),) = transaction.execute("select person from users")
    db.close()
    assert person == mac(SECRET, encode_label("user"), TASK, b"ada.lovelace")
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"lovelace" not in content
    assert hashlib.sha256(b"ada.lovelace").digest() not in content


class Tickets(RuleBasedStateMachine):
    """Hosts ask in any order; collectors refuse slots that they have not used; some proofs are forged."""

    @initialize(participations=st.integers(1, 3))
    def begin(self, participations: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "r.db")
        self.participations, self.last = participations, 0
        self.open()
        self.live: dict[str, dict[int, bytes]] = {}  # what may still be used, by the model
        self.refused: dict[str, list[tuple[int, bytes]]] = {}  # by the collector, for ever
        self.seen: dict[bytes, tuple[str, int]] = {}  # whose slots they are, and of which epoch

    def open(self) -> None:
        self.db = open_database(self.path, role="registrar", schema=SCHEMA)
        self.registrar = registrar(self.db, self.participations)

    @rule()
    def restart(self) -> None:
        self.db.close()
        self.open()

    @rule(more=st.integers(0, 2))
    def release(self, more: int) -> None:
        if more:
            self.last += more
            release(self.db, self.last, self.last)

    @rule(user=st.sampled_from("abc"), data=st.data())
    def refuse(self, user: str, data: st.DataObject) -> None:
        """The collector takes no more slots in an epoch, and this one never."""
        if self.live.get(user):
            epoch = data.draw(st.sampled_from(sorted(self.live[user])))
            self.refused.setdefault(user, []).append((epoch, self.live[user][epoch]))

    @rule(
        wishes=st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(("none", "own", "forged", "other's"))),
            min_size=1,
            max_size=5,
        )
    )
    def ask(self, wishes: list[tuple[str, int, str]]) -> None:
        requests = []
        for user, ahead, kind in wishes:
            owner = {"none": "", "own": user, "forged": user, "other's": "abca"["abc".index(user) + 1]}[kind]
            pairs = self.refused.get(owner, [])[-64:]
            key = b"x" * 32 if kind == "forged" else KEY
            requests.append((wish(user, self.last + ahead, *(proof(*pair, key) for pair in pairs)), kind, pairs))
        answers = self.registrar.tickets([request for request, _, _ in requests])
        for (request, kind, pairs), answer in zip(requests, answers, strict=True):
            self.judge(request, kind, pairs, answer)

    def judge(self, request: Any, kind: str, pairs: list[tuple[int, bytes]], answer: Any) -> None:
        epoch, held = request["epoch"], self.live.setdefault(request["user"], {})
        if kind == "forged" and pairs:
            assert answer == {"refused": "proof"}
            return
        if epoch in held:
            assert decode_base64url(answer["slot"]) == held[epoch]
            return
        if epoch > self.last + 2:
            assert answer == {"refused": "epoch"}
            return
        back = {before for before, slot in pairs if before < epoch and held.get(before) == slot}
        for before in back:
            del held[before]
        if len(held) >= self.participations:
            assert answer == {"refused": "participations"}
            return
        slot = decode_base64url(answer["slot"])
        assert self.seen.setdefault(slot, (request["user"], epoch)) == (request["user"], epoch)
        assert decode_base64url(answer["collector"]) == Keys(KEY, TASK, COLLECTOR).key(epoch, slot)
        held[epoch] = slot

    @invariant()
    def stored(self) -> None:
        """The table is the model: never more than `participations` live tickets, never two in an epoch."""
        with self.db.reading() as transaction:
            rows = transaction.execute("select person, epoch, slot from users")
        assert sorted(row[1:] for row in rows) == sorted(pair for held in self.live.values() for pair in held.items())
        people = [row[0] for row in rows]
        assert all(people.count(person) <= self.participations for person in people)

    def teardown(self) -> None:
        self.db.close()
        self.folder.cleanup()


def test_tickets_agree_with_a_model_in_any_order_of_requests_and_restarts() -> None:
    run_state_machine_as_test(Tickets, settings=settings(examples(15, full=40), stateful_step_count=15))
