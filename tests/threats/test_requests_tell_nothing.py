"""What a client asks for tells nobody who answers, which device it is, or what it has seen before."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import bandanna as bd
from bandanna.deployment.client.session import Session
from bandanna.deployment.messages.canonical import dumps, loads, sealing_key, sign
from bandanna.deployment.messages.publication import SignedPublication, chain_document
from bandanna.deployment.messages.report import FINAL, ZERO, write_seal_key
from bandanna.errors import BandannaError, InvalidArgument

from ..client.town import URLS, Town
from ..deployment.inside import a_task, signed

POLICY = bd.LinTS(dim=2, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
ARMS = [[0.1, 0.2], [0.3, 0.4]]


def watched(town: Town) -> list[tuple[str, str]]:
    """All requests from now on: method and path with its query."""
    asked: list[tuple[str, str]] = []

    def noted(request: httpx.Request) -> str:
        asked.append((request.method, request.url.raw_path.decode().split("/", 3)[-1]))
        return ""

    town.fault = noted
    return asked


@pytest.mark.parametrize("waits", ["nothing", "an answer", "a report", "an unopened slot"])
def test_a_flush_asks_for_one_publication_whatever_waits(waits: str, tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="seen").act(ARMS)
    session = town.session(tmp_path / "outbox.db", user="me")
    if waits == "an unopened slot":
        town.fault = lambda request: "lost" if request.method == "POST" else ""
    decision = session.act(ARMS) if waits != "nothing" else None
    if decision is not None and waits == "a report":
        town.fault = lambda request: "lost"
        assert session.report(decision, 1.0).pending
    asked = watched(town)
    session.flush()
    assert [path for method, path in asked if method == "GET"] == ["snapshot"]


def test_a_session_that_is_opened_asks_for_nothing(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db").act(ARMS)
    asked = watched(town)
    town.session(tmp_path / "outbox.db")
    assert asked == []


def test_requests_with_and_without_a_reward_are_equal_but_for_the_final_report(tmp_path: Path) -> None:
    seen = []
    for answers in (True, False):
        folder = tmp_path / str(answers)
        folder.mkdir()
        town = Town(POLICY, folder)
        asked = watched(town)
        session = town.session(folder / "outbox.db")
        decision = session.act(ARMS)
        if answers:
            assert session.report(decision, 1.0).kept
        session.flush()
        town.session(folder / "outbox.db").flush()
        seen.append(asked)
    with_reward, without = seen
    with_reward.remove(("POST", "reports"))
    assert with_reward == without


def test_no_request_tells_a_device_from_others(tmp_path: Path) -> None:
    town, sent = Town(POLICY, tmp_path), list[httpx.Headers]()
    honest = town._handle

    def marking(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        answer = honest(request)
        answer.headers.update({"set-cookie": "device=7", "etag": '"device 7"', "last-modified": "Thu, 01 Jan 2026"})
        return answer

    for user in ("me", "another"):  # of one device
        with httpx.Client(transport=httpx.MockTransport(marking), cookies={"device": "7"}) as http:
            given: dict[str, Any] = {"tickets": town.ticket, "outbox": tmp_path / "outbox.db", "http": http}
            with Session(town.task.document, id=town.task.id, user=user, **given) as session:
                session.report(session.act(ARMS), 1.0)
                session.flush()
    assert len(sent) == 8
    assert not {"cookie", "if-none-match", "if-modified-since", "referer"} & {name for each in sent for name in each}


@pytest.mark.parametrize("rotated", [False, True])
def test_no_device_asks_the_helper_for_anything(rotated: bool, tmp_path: Path) -> None:
    """Devices seal for the task's key or for the published one, the same for all of them, and never address the helper:
    it sees no address, and cannot give a device a key of its own.
    """
    town, hosts = Town(POLICY, tmp_path, mixers=2), set[str]()
    if rotated:
        told = write_seal_key(1, sealing_key()[1], partial(sign, town.secrets["helper"].sign, town.task.id))
        town.replayed = resigned(town, helper=told)

    def noted(request: httpx.Request) -> str:
        hosts.add(request.url.host)
        return ""

    town.fault = noted
    for user in range(3):
        session = town.session(tmp_path / f"{user}.db", user=str(user))
        session.report(session.act(ARMS), 1.0)
        session.flush()
    assert hosts == {"analyzer.test", "shuffler.test"}
    assert {report[5] for report in town.reports(ZERO) + town.reports(FINAL)} == {int(rotated)}


@pytest.mark.parametrize("change", [{"id": 2}, {"public": "A" * 43}, {"signature": "A" * 86}, {"more": 1}])
def test_a_key_for_seeds_that_the_helper_has_not_signed_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path, mixers=2)
    told = write_seal_key(1, sealing_key()[1], partial(sign, town.secrets["helper"].sign, town.task.id))
    town.replayed = resigned(town, helper={**told, **change})
    with pytest.raises(BandannaError, match="key for sealing"):
        town.session().act(ARMS)
    assert not town.bodies
    assert not town.tickets


@pytest.mark.parametrize("back", ["to another", "to the task's"])
def test_a_device_goes_back_to_no_older_key_of_the_helper(back: str, tmp_path: Path) -> None:
    """A device that has seen a key of the helper seals for no earlier one, which may be stolen, though the helper has
    signed it: the publication is refused, nothing is asked for, nothing is sent, and the newest one stays in force.
    """
    town = Town(POLICY, tmp_path, mixers=2)
    keys = partial(sign, town.secrets["helper"].sign, town.task.id)
    old, new = (write_seal_key(number, sealing_key()[1], keys) for number in (1, 2))
    content = loads(town.inside.learner.published.document)
    town.replayed = first = published(town, {**content, "helper": new}, 0, "")
    town.session(tmp_path / "outbox.db", user="first").act(ARMS)
    sent, asked = len(town.bodies), len(town.tickets)
    older = {**content, "helper": old if back == "to another" else None}
    town.replayed = published(town, older, 1, chain_document("", first.document))
    session = town.session(tmp_path / "outbox.db", user="second")
    with pytest.raises(BandannaError, match=f"names the helper's key {int(back == 'to another')} after key 2"):
        session.act(ARMS)
    assert (len(town.bodies), len(town.tickets)) == (sent, asked)
    town.replayed = first
    session.act(ARMS)
    assert {report[5] for report in town.reports(ZERO)} == {2}


def resigned(town: Town, **changes: Any) -> SignedPublication:
    """The publication in force with other parts, signed by analyzer and registrar."""
    content = loads(town.inside.learner.published.document)
    return signed(town.task.id, town.secrets, dumps({**content, **changes}))


def published(town: Town, content: dict[str, Any], number: int, previous: str) -> SignedPublication:
    """A publication with these parts, signed by analyzer and registrar."""
    return signed(town.task.id, town.secrets, dumps({**content, "number": number, "previous": previous}))


@pytest.mark.parametrize("missed", [0, 1, 2, 299, 600])
@pytest.mark.parametrize("forks", [False, True])
def test_a_fork_after_the_pinned_publication_is_refused(missed: int, forks: bool, tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="a").act(ARMS)
    content = loads(town.inside.learner.published.document)
    first = dumps({**content, "state": "another"} if forks else content)
    documents, chain = [first], chain_document("", first)
    for number in range(1, missed + 2):
        town.replayed = published(town, content, number, chain)
        documents.append(town.replayed.document)
        chain = chain_document(chain, town.replayed.document)
    hashes = b"".join(hashlib.sha256(each).digest() for each in documents)
    honest, asked = town._answer, watched(town)

    def answered(request: httpx.Request) -> httpx.Response:
        if "/links/" not in request.url.path:
            return honest(request)
        block = int(request.url.path.rsplit("/", 1)[1])
        return httpx.Response(200, content=hashes[256 * 32 * block : 256 * 32 * (block + 1)])

    town._answer = answered  # type: ignore[method-assign]
    session = town.session(tmp_path / "outbox.db", user="b")
    if forks:
        with pytest.raises(BandannaError, match=r"follow|another history"):
            session.act(ARMS)
    else:
        assert session.act(ARMS).publication == missed + 1
    blocks = [path for _, path in asked if path.startswith("links")]
    assert blocks == [f"links/{block}" for block in range(missed // 256 + 1)] * bool(missed)


def test_links_are_the_hashes_that_the_chain_is_made_of(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="first").act(ARMS)
    for _ in range(3):
        for _ in range(16 if town.inside.learner.published.number else 15):
            other = town.session()
            other.report(other.act(ARMS), 1.0)
        town.inside.collector._answered = False  # by the clock
        town.inside.pump()
    assert town.inside.learner.published.number == 3
    asked = watched(town)
    assert town.session(tmp_path / "outbox.db", user="second").act(ARMS).publication == 3
    assert [path for _, path in asked][:2] == ["snapshot", "links/0"]


def test_a_document_is_played_under_the_id_that_its_user_has(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    given: dict[str, Any] = {"tickets": town.ticket, "outbox": ":memory:", "http": town.client}
    for served in (town.task.document, town.task):
        with pytest.raises(InvalidArgument, match=r"id must be the id .*, got None"):
            Session(served, **given)
    fewer, _ = a_task(replace(POLICY, privacy=bd.shuffle(epsilon=9.0, delta=1e-4)), seed=None, urls=URLS)
    other = fewer.document
    with pytest.raises(BandannaError, match=r"where .* belongs"):
        Session(other, id=town.task.id, **given)
    file = tmp_path / "task.json"
    file.write_bytes(other)
    with pytest.raises(BandannaError, match=r"where .* belongs"):
        Session(file, id=town.task.id, **given)
    file.write_bytes(town.task.document)
    assert Session(file, **given).act(ARMS).taking_part
    assert Session(town.task.document, id=town.task.id, **{**given, "outbox": ":memory:"}).task.id == town.task.id


def test_errors_name_roles_and_no_address(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.fault = lambda request: "lost"
    with pytest.raises(BandannaError, match="analyzer") as told:
        town.session().act(ARMS)
    assert "://" not in str(told.value)
    assert ".test" not in str(told.value)


def test_what_nobody_reports_on_is_wiped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(POLICY, tmp_path)
    marked = [[0.123456789, 0.2], [0.123456789, 0.4]]

    def kept() -> bool:
        return any(b"0.123456789" in file.read_bytes() for file in tmp_path.glob("outbox.db*"))

    town.session(tmp_path / "outbox.db", user="me").act(marked)
    town.session(tmp_path / "outbox.db", user="me")
    assert kept()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 31 * 86_400)
    session = town.session(tmp_path / "outbox.db", user="me")
    assert not kept()
    assert session.decisions == []
    assert session.act(ARMS).reason == "participations"
