"""A task with 2e4 publications: what a page costs does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandanna.deployment.analyzer import publication
from bandanna.deployment.dashboard.views import MOST, PAGE, HistoryPoint, PublicationHistory
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.deployment.messages.publication import chain_document

from ..deployment.inside import signed
from .town import ROLES, Seen, Town, run

MANY = 20_000


def lengthened(town: Town, count: int, whole: Callable[[int], bool]) -> None:
    """So many publications more, as if a batch had been released for each: chained, and those that are read `whole`."""
    last = town.learner.published
    content = loads(last.document)
    stub = dict.fromkeys(content, "") | {"status": "running", "spent": content["spent"]}
    rows, previous = [], last.chain
    for number in range(last.number + 1, last.number + 1 + count):
        own = content if whole(number) else stub
        document = dumps(own | {"number": number, "previous": previous, "epoch": number})
        previous = chain_document(previous, document)
        signatures = signed(town.task.id, town.secrets, document)[1:] if own is content else ("", "")
        text = document.decode()
        rows.append(
            (number, number - 1, 0, "released", text, signatures[0], previous, "{}", last.entries, signatures[1])
        )
    with town.learner._database.transaction() as written:
        written.many("insert into releases values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    with town.learner._database.reading() as read:
        town.learner.published = publication.read_publication_row(read)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """With so many of them."""
    policy = {"dim": 2, "horizon": 40 * (MANY + 9), "epsilon": 5.0, "delta": 1e-3, "batch": 40}
    town = Town(tmp_path_factory.mktemp("long"), policy=policy, arms={"features": {"a": [1.0, 0.0], "b": [0.0, 1.0]}})
    town.play(40)
    lengthened(town, MANY, lambda number: number % 128 == 0 or number in (17311, 17312, MANY, MANY + 1))
    return town


def test_a_page_of_a_long_history_reads_and_shows_no_more_than_that_of_a_short_one(long: Town, tmp_path: Path) -> None:
    short = Town(tmp_path)
    short.play(40)

    async def work() -> tuple[int, list[int]]:
        seen = await Seen(long).look()
        asked = [path for _, path in long.net.asked]
        documents = [path for path in asked if "/snapshot" in path]
        assert len(documents) <= MOST + 2
        assert len(asked) <= MOST + 20
        document = await seen.twin(f"/tasks/{long.task.id}.json")
        assert document["now"]["publication"] == MANY + 1
        assert len(document["series"]) <= MOST + 1
        assert [each["publication"] for each in document["series"]][:2] == [0, 128]
        assert document["privacy"]["entries"] == 1
        long.net.asked.clear()
        root = f"/tasks/{long.task.id}"
        pages = ["/", root, f"{root}/releases", f"{root}/releases?page=300", f"{root}/releases/17312"]
        sizes = [len(await seen.page(path)) for path in pages]
        assert len(long.net.asked) <= 4  # a page of the history each, and two publications
        lines = await seen.twin(f"{root}/releases.json?page=300")
        assert len(lines["rows"]) == PAGE
        assert lines["pages"] == -(-(MANY + 2) // PAGE)
        assert lines["rows"][0]["number"] == MANY + 1 - 299 * PAGE
        return len(document["series"]), sizes

    _, sizes = run(work)
    assert max(sizes) < 100_000


def test_lines_of_history_say_what_the_publications_say(long: Town) -> None:

    async def work() -> None:
        seen = await Seen(long).look()
        lines = await seen.watches[0].lines(-1, 5)
        assert [each["number"] for each in lines] == [0, 1, 2, 3, 4]
        assert [each["outcome"] for each in lines[:3]] == ["begun", "released", "released"]
        with long.learner._database.reading() as rows:
            for each in [*lines, *(await seen.watches[0].lines(19_000, 1000))[-3:]]:
                found = publication.read_publication_row(rows, each["number"])
                content = loads(found.document)
                assert each["chain"] == found.chain
                assert (each["status"], each["spent"]) == (content["status"], content["spent"])
        told = await seen.web.get(f"{seen.watches[0].known.url}/tasks/{long.task.id}/history?after=10&most=1e9")
        document = told.document()
        assert [each["number"] for each in document["lines"]] == list(range(11, 1011))
        assert document["newest"] == MANY + 1
        for wrong in ("after=x", "after=nan", "after=-7", "after=1e300", "most=0", "most=-1"):
            answer = await seen.web.get(f"{seen.watches[0].known.url}/tasks/{long.task.id}/history?{wrong}")
            assert answer.status == 400
        assert (await seen.web.get(f"{seen.watches[0].known.url}/tasks/other/history")).status == 404

    run(work)


def test_one_answer_reads_no_more_letters_than_its_bound(long: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_LETTERS", 100_000)
    with long.learner._database.reading() as rows:
        first = publication.read_history(rows, -1, 1000, MANY + 9)
        texts = rows.execute("select document from releases where number < ? order by number", len(first))
        rest = publication.read_history(rows, first[-1]["number"], 3, MANY + 9)
    lengths = [len(text) for (text,) in texts]
    assert 0 < len(first) == len(lengths) < 1000
    assert sum(lengths[:-50]) < 100_000 <= sum(lengths)  # in pieces of 50
    assert [each["number"] for each in rest] == [len(first), len(first) + 1, len(first) + 2]


def test_the_ledgers_summary_is_the_ledger_without_its_entries(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.play(80)
    view, summary = town.learner.ledger_view(), town.learner.ledger_summary()
    assert view is not None
    assert summary is not None
    assert summary["spent"] == view["spent"]
    assert (summary["budget"], summary["participations"]) == (view["budget"], view["participations"])
    assert summary["entries"] == len(view["entries"]) == 2
    events = [each["event"] for each in view["entries"]]
    assert {each["event"]: each["entries"] for each in summary["prices"]} == {
        each: events.count(each) for each in events
    }
    free = Town(tmp_path / "free", algorithm="LinTS", policy={"dim": 3, "horizon": 100, "batch": 20}, roles={})
    assert free.learner.ledger_summary() is None

    async def work() -> Any:
        seen = await Seen(town).look()
        answer = await seen.web.get(f"http://127.0.0.1:{ROLES['analyzer']}/tasks/{town.task.id}/ledger/summary")
        return answer.document()

    assert run(work) == {"task": town.task.id, "ledger": summary}


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_a_series_keeps_the_same_points_however_it_was_read(steps: int) -> None:
    series = PublicationHistory()
    make = partial(HistoryPoint, epoch=0, chain="", previous="", spent=None, reading=None)  # type: ignore[arg-type]
    newest = 0
    for newest in range(0, 5_000, steps):
        for number in series.missing(newest):
            series.put(make(number=number))
        series.put(make(number=newest))
        assert len(series.points) <= MOST + 1
    numbers = [each.number for each in series.points]
    stride = 32
    assert numbers == sorted({*range(0, newest + 1, stride), newest})
