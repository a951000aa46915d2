"""The registrar: publications that it cosigns, tickets against a model, and its service over loopback."""

from __future__ import annotations

import hashlib
import json
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    TicketKeys,
    decode_base64url,
    dumps,
    encode_base64url,
    encode_label,
    mac,
    prove_unused,
    sign,
    signing_key,
)
from bandanna.deployment.messages.publication import PublicationPin, is_cosigned
from bandanna.deployment.registrar import SCHEMA, Notary, Registrar
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, open_database

from ..drawn import examples
from ..postgres import postgres_url  # noqa: F401  # a fixture
from .served import Served, written

TASK_ID, (PRIVATE, PUBLIC), (OWN, KNOWN) = "the-task", signing_key(), signing_key()


def notary(db: Database) -> Notary:
    return Notary(db, task=TASK_ID, analyzer_key=PUBLIC, sign=partial(sign, OWN, TASK_ID))


def told(number: int, chain: str, previous: str = "", *, private: str = PRIVATE, **others: Any) -> dict[str, Any]:
    document = {"number": number, "previous": previous, "chain": chain, "epoch": number, **others}
    return {**document, "signature": sign(private, TASK_ID, "witness", dumps(document))}


def test_one_publication_of_each_number_is_cosigned(db: Database) -> None:
    one = notary(db)
    assert one.newest() is None
    status, first = one.witness(told(0, "a"))
    assert status == 201
    assert is_cosigned(PublicationPin(0, "a"), first["cosignature"], task_id=TASK_ID, key=KNOWN)
    assert one.witness(told(0, "a")) == notary(db).witness(told(0, "a")) == (200, first)
    assert one.witness(told(0, "b")) == (409, {"witness": told(0, "a")})
    assert one.witness(told(1, "b", "a"))[0] == 201
    standing = (409, {"witness": told(1, "b", "a")})
    assert one.witness(told(0, "a")) == standing  # whoever tells of an older one lags behind
    assert one.witness(told(1, "c", "a")) == standing
    assert one.witness(told(2, "c", "a")) == standing  # it does not follow upon the newest
    assert one.witness(told(2, "c", "b", epoch=0)) == standing
    shown = {name: value for name, value in told(1, "b", "a").items() if name != "signature"}
    assert one.newest() == {**shown, "cosignature": one.witness(told(1, "b", "a"))[1]["cosignature"]}


def test_a_notary_that_lacks_publications_cosigns_none(db: Database) -> None:
    one = notary(db)
    one.witness(told(0, "a"))
    for number, chain, previous in ((2, "c", "b"), (1, "b", "a"), (2, "c", "b")):
        assert one.witness(told(number, chain, previous)) == (409, {})
        assert one.behind
    assert one.newest()["number"] == 0  # type: ignore[index]


def test_a_notary_accepts_only_the_analyzers_signature(db: Database) -> None:
    one = notary(db)
    assert one.witness(told(0, "a", private=signing_key()[0])) == (403, {})
    assert one.witness({**told(0, "a"), "chain": "b"}) == (403, {})
    other = {name: value for name, value in told(9, "a").items() if name != "signature"}
    assert one.witness({**other, "signature": sign(PRIVATE, TASK_ID, "publication", dumps(other))}) == (403, {})
    assert not one.behind
    odd = [None, {}, [], {"number": 4}, told(-1, "a"), told(0, ""), {**told(0, "a"), "more": 1}, told(2**40, "a")]
    for document in [*odd, told(0, "a", "x" * 101), told(0, "x" * 101), told(True, "a"), told(0, "\u00e9")]:  # type: ignore[arg-type]
        with pytest.raises(BandannaError):
            one.witness(document)
    assert one.newest() is None


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
    assert decode_base64url(first["collector"]) == TicketKeys(KEY, TASK, COLLECTOR).key(1, slot)
    assert decode_base64url(first["helper"]) == TicketKeys(OTHER, TASK, HELPER).key(1, slot)
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


def test_a_forged_refusal_gives_no_participation_back(db: Database) -> None:
    one = registrar(db)
    ada, bob = (decode_base64url(each["slot"]) for each in one.tickets([wish("ada", 1), wish("bob", 1)]))
    for forged in (
        proof(1, ada, b"x" * 32),
        [1, encode_base64url(ada), encode_base64url(TicketKeys(KEY, TASK, COLLECTOR).key(1, ada))],
        [1, 2, 3],
        [1],
        7,
    ):
        assert one.tickets([wish("ada", 2, forged)]) == [{"refused": "proof"}]
    for useless in (proof(1, bob), proof(0, ada)):
        assert one.tickets([wish("ada", 2, useless)]) == [{"refused": "participations"}]
    assert one.tickets([wish("ada", 0, proof(1, ada))]) == [{"refused": "participations"}]


def test_invalid_requests_for_tickets_are_refused_by_their_reason(db: Database) -> None:
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
    """Hosts request tickets in any order; collectors refuse unused slots; some proofs are forged."""

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
        """Close an epoch and refuse an unused slot."""
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
    def request_tickets(self, wishes: list[tuple[str, int, str]]) -> None:
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
        assert decode_base64url(answer["collector"]) == TicketKeys(KEY, TASK, COLLECTOR).key(epoch, slot)
        held[epoch] = slot

    @invariant()
    def stored(self) -> None:
        """Compare the table with the model: at most `participations` live tickets of a user, one in an epoch."""
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
def served(folder: Path) -> Iterator[Served]:
    process = Served(folder, "registrar", str(folder / "r.db"))
    yield process
    process.stop()


def request_tickets(served: Served, task: Task, *wishes: dict[str, Any], headers: Any = HOST) -> httpx.Response:
    return served.client.post(f"/tasks/{task.id}/tickets", json={"tickets": list(wishes)}, headers=headers)


def test_a_host_gets_tickets_and_exchanges_a_refused_one_over_http(served: Served, folder: Path, task: Task) -> None:
    answer = request_tickets(served, task, {"user": "ada", "epoch": 0}, {"user": "ada", "epoch": 9})
    given, late = answer.json()["tickets"]
    slot = decode_base64url(given["slot"], 16)
    assert (answer.status_code, late) == (200, {"refused": "epoch"})
    key = Secrets.read(folder, "analyzer", task).ticket_key(task, COLLECTOR)  # which agrees with the registrar's
    assert decode_base64url(given["collector"]) == TicketKeys(key, task.digest, COLLECTOR).key(0, slot)
    assert request_tickets(served, task, {"user": "ada", "epoch": 1}).status_code == 429
    assert request_tickets(served, task, {"user": "", "epoch": 1}).status_code == 409
    proof = [0, encode_base64url(slot), encode_base64url(prove_unused(key, task.digest, 0, slot))]
    moved = request_tickets(served, task, {"user": "ada", "epoch": 1, "refused": [proof]})
    assert (moved.status_code, moved.json()["tickets"][0]["epoch"]) == (200, 1)
    text = served.client.get("/metrics", headers=HOST).text
    assert 'bandanna_tickets_refused_total{reason="participations"} 1' in text
    assert served.client.get("/status", headers=HOST).json()["tickets"] == 1


def test_tickets_need_the_token(served: Served, task: Task) -> None:
    wish = {"user": "eve", "epoch": 0}
    before = tickets_given(served)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic the token of the registrar"}):
        assert request_tickets(served, task, wish, headers=headers).status_code == 401
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
        assert served.client.post(path, content=body, headers=HOST).status_code == 400, body
    assert request_tickets(served, task, *([wish] * 1001)).status_code == 400
    assert served.client.post("/tasks/other/tickets", json={"tickets": [wish]}, headers=HOST).status_code == 404
    assert served.client.get("/status").status_code == 401
    assert tickets_given(served) == before


def tickets_given(served: Served) -> str:
    return next(
        line
        for line in served.client.get("/metrics", headers=HOST).text.splitlines()
        if line.startswith("bandanna_tickets_total")
    )


def test_the_newest_witness_is_answered_to_an_analyzer_that_went_back(served: Served, folder: Path, task: Task) -> None:
    private = Secrets.read(folder, "analyzer", task).sign
    path = f"/tasks/{task.id}/witness"
    assert served.client.get(path).status_code == 404

    def put(number: int, chain: str, key: str = private, previous: str = "") -> httpx.Response:
        document = {"number": number, "previous": previous, "chain": chain, "epoch": number}
        return served.client.put(path, json={**document, "signature": sign(key, task.id, "witness", dumps(document))})

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
        assert served.client.put(path, content=body).status_code == 400
    assert served.client.get(path).json()["number"] == 1


def test_nothing_that_was_answered_is_lost_by_a_kill(folder: Path, task: Task, tmp_path: Path) -> None:
    url = str(tmp_path / "r.db")
    first = Served(folder, "registrar", url)
    given = request_tickets(first, task, *({"user": f"u{i}", "epoch": 0} for i in range(50))).json()
    beside = open_database(url, role="registrar", schema=SCHEMA)
    with pytest.raises(BandannaError, match="another process"):
        beside.claim()
    beside.close()
    first.stop(signal.SIGKILL)
    second = Served(folder, "registrar", url)
    assert request_tickets(second, task, *({"user": f"u{i}", "epoch": 0} for i in range(50))).json() == given
    assert second.stop() == 0


def test_no_person_is_in_the_log(served: Served, task: Task) -> None:
    given = request_tickets(served, task, {"user": "ada.lovelace", "epoch": 0}).json()["tickets"][0]
    request_tickets(served, task, {"user": "ada.lovelace", "epoch": 1})
    served.client.put(f"/tasks/{task.id}/witness", content=b"ada.lovelace")
    said = json.dumps(served.lines())
    assert "serving" in said
    assert not any(word in said for word in ("lovelace", given["slot"], given["collector"], "127.0.0.1"))
