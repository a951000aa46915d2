"""An outbox keeps decisions and bytes over crashes, forks and races: a report is drawn once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.client.device_logic import DocumentDevice
from bandanna.deployment.messages.report import FINAL, ZERO

from ..trouble import in_a_fork
from .test_session import POLICY, contexts
from .test_session import town as town
from .town import Town


def test_a_killed_client_sends_the_same_bytes_again(town: Town, tmp_path: Path) -> None:
    first = town.session(tmp_path / "outbox.db")
    decision = first.act(contexts())
    town.fault = lambda request: "unanswered" if request.method == "POST" else ""
    assert first.report(decision, 1.0).pending
    del first  # killed: nothing was closed
    town.fault = lambda request: ""
    again = town.session(tmp_path / "outbox.db")
    assert again.flush() == 0
    one, two = (report[6] for report in town.reports(FINAL))
    assert one == two
    assert not again.report(decision, 1.0).kept  # over


def test_a_session_goes_on_where_the_last_one_died(town: Town, tmp_path: Path) -> None:
    town.session().act(contexts())
    session = town.session(tmp_path / "outbox.db")
    town.fault = lambda request: "unanswered" if request.method == "POST" else ""
    decision = session.act(contexts())  # nobody knows whether the slot is open
    assert decision.taking_part
    town.fault = lambda request: ""
    later = town.session(tmp_path / "outbox.db")
    assert later.report(decision.id, 0.0).pending
    assert later.flush() == 0
    zeros = [report for report in town.reports(ZERO) if report[0] in {r[0] for r in town.reports(FINAL)}]
    assert len(zeros) == 2
    assert zeros[0] == zeros[1]


def test_offline_reports_are_kept_and_sent_later(town: Town, tmp_path: Path) -> None:
    session = town.session(tmp_path / "outbox.db")
    decision = session.act(contexts())
    town.fault = lambda request: "lost"
    offline = session.act(contexts())  # on the snapshot that it has
    assert offline.publication == 0
    assert offline.reason == "participations"
    assert session.report(decision, 1.0).pending
    assert session.pending == 1
    town.fault = lambda request: ""
    assert session.flush() == 0
    assert len(town.reports(FINAL)) == 1


def test_of_two_processes_with_one_outbox_one_draws(town: Town, tmp_path: Path, monkeypatch: Any) -> None:
    first, second = (town.session(tmp_path / "outbox.db") for _ in range(2))
    decision = first.act(contexts())
    honest, others = DocumentDevice.final, list[Any]()

    def meanwhile(*arguments: Any) -> bytes:
        if not others:
            others.append(None)
            others.append(second.report(decision, 1.0))
        return honest(*arguments)

    monkeypatch.setattr(DocumentDevice, "final", meanwhile)
    outcome = first.report(decision, 1.0)
    assert others[1].kept
    assert not outcome.pending
    assert len({report[6] for report in town.reports(FINAL)}) == 1


@pytest.mark.parametrize("place", [":memory:", "outbox.db"])
def test_a_forked_outbox_is_refused(place: str, town: Town, tmp_path: Path) -> None:
    session = town.session(place if place == ":memory:" else tmp_path / place)
    decision = session.act(contexts())
    with session.outbox._write_transaction():  # a thread at work
        refused = in_a_fork(
            lambda: session.report(decision, 1.0),
            session.flush,
            lambda: session.act(contexts()),
            lambda: session.pending,
        )
    assert refused == ["BandannaError"] * 4
    assert in_a_fork(session.close) == ["done"]
    assert session.report(decision, 1.0).kept  # the original's


def test_a_report_between_looking_and_keeping_is_not_drawn_again(town: Town, tmp_path: Path, monkeypatch: Any) -> None:
    first, second = (town.session(tmp_path / "outbox.db") for _ in range(2))
    decision, real, done = first.act(contexts()), first.outbox.find, list[int]()

    def find(*arguments: Any) -> Any:
        found = real(*arguments)
        if not done:
            done.append(1)
            town.fault = lambda request: "unanswered" if request.method == "POST" else ""
            assert second.report(decision, 1.0).pending
            town.fault = lambda request: ""
        return found

    monkeypatch.setattr(first.outbox, "find", find)
    assert first.report(decision, 1.0).kept
    assert len({report[6] for report in town.reports(FINAL)}) == 1


def test_two_flushes_at_once_draw_one_report(town: Town, tmp_path: Path, monkeypatch: Any) -> None:
    town.session().act(contexts())
    first, second = (town.session(tmp_path / "outbox.db") for _ in range(2))
    town.fault = lambda request: "unanswered" if request.method == "POST" else ""
    decision = first.act(contexts())
    assert first.report(decision, 1.0).pending
    town.fault = lambda request: ""
    real, done = first._asked, list[int]()

    def asked(wanted: Any) -> Any:
        answer = real(wanted)
        if wanted.method == "POST" and not done:
            done.append(1)
            assert second.flush() == 0
        return answer

    monkeypatch.setattr(first, "_asked", asked)
    assert first.flush() == 0
    assert len({report[6] for report in town.reports(FINAL)}) == 1


def test_features_of_a_finished_decision_are_erased_from_the_disk(town: Town, tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    session = town.session(path)
    marked = np.array([[0.123456789, 0.1, 1.0], [0.123456789, 0.1, 1.0]])
    decision = session.act(marked)
    files = list(tmp_path.glob("one.db*"))
    assert any(b"0.123456789" in file.read_bytes() for file in files)
    assert session.report(decision, 1.0).kept
    assert not any(b"0.123456789" in file.read_bytes() for file in tmp_path.glob("one.db*"))


KILLED = """
import sys, os, signal
import httpx
from bandanna.deployment.client.session import Session; from bandanna.deployment.messages.report import Ticket

def answer(request):
    if request.method == "GET":
        headers = {"signature": sys.argv[3], "witness": sys.argv[7]}
        return httpx.Response(200, content=open(sys.argv[2], "rb").read(), headers=headers)
    with open(sys.argv[4], "ab") as sent:
        sent.write(request.content.hex().encode() + b"\\n")
    if request.content[4 + 38] == 1 and sys.argv[6] == "die":  # a final report: dead before its answer
        os.kill(os.getpid(), signal.SIGKILL)
    return httpx.Response(201, json={"places": [0]})

http = httpx.Client(transport=httpx.MockTransport(answer))
ticket = lambda epoch, refused: Ticket(slot=b"s" * 16, collector=b"k" * 16, epoch=epoch)
session = Session(sys.argv[1], tickets=ticket, outbox=sys.argv[5], http=http)
if sys.argv[6] == "die":
    session.report(session.act([[0.1, 0.2, 1.0], [0.3, 0.1, 1.0]]), 1.0)
print(session.flush())
"""


def test_a_process_that_was_killed_sends_the_same_bytes_again(town: Town, tmp_path: Path) -> None:
    published = town.inside.processor.published
    (tmp_path / "task.json").write_bytes(town.task.document)
    (tmp_path / "published").write_bytes(published.document)
    places = [tmp_path / each for each in ("task.json", "published")]
    arguments = [*map(str, places), published.signature, str(tmp_path / "sent"), str(tmp_path / "outbox.db")]
    witness = published.cosignature
    runs = [
        subprocess.run([sys.executable, "-c", KILLED, *arguments, how, witness], capture_output=True, text=True)
        for how in ("die", "go on")
    ]
    assert runs[0].returncode == -signal.SIGKILL
    assert (runs[1].returncode, runs[1].stdout.strip()) == (0, "0")
    _, first, again = (tmp_path / "sent").read_text().split()
    assert first == again


def test_open_decisions_are_found_after_a_crash(town: Town, tmp_path: Path) -> None:
    decision = town.session(tmp_path / "outbox.db").act({"tea": [0.1, 0.2, 1.0], "rest": [0.2, 0.2, 1.0]})
    later = town.session(tmp_path / "outbox.db")
    (found,) = later.decisions
    assert found == decision
    assert later.pending == 0
    assert later.report(found, 1.0).kept
    assert later.decisions == []


@pytest.mark.parametrize("point", ["before the ticket", "before the answer", "before the choice"])
def test_a_decision_of_a_process_that_ended_is_finished_by_the_next_one(point: str, tmp_path: Path) -> None:
    town, outbox = Town(POLICY, tmp_path), tmp_path / "outbox.db"
    contexts = np.zeros((3, POLICY.dim))

    class Killed(BaseException):
        """The process ends here."""

    def kill(*_: Any) -> Any:
        raise Killed

    first = town.session(outbox, **({"tickets": kill} if point == "before the ticket" else {}))
    if point == "before the answer":
        town.fault = lambda request: kill() if request.method == "POST" else ""
    if point == "before the choice":
        first._steps._seen = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        first.act(contexts)
    del first
    town.fault = lambda _: ""
    with town.session(outbox) as session:
        decision = session.act(contexts)
        assert decision.taking_part
        assert session.act(contexts).reason == "participations"
        assert session.report(decision, 1.0).kept
    assert len({body[4:20] for body in town.bodies}) == 1
