"""A task as it is watched: analyzers that do not answer, that go back, that tell something else than before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.analyzer import publication
from bandanna.deployment.dashboard import poller
from bandanna.deployment.dashboard.app import board_for_places
from bandanna.deployment.dashboard.poller import (
    HttpRoleClient,
    RoleResponse,
    RoleUnavailable,
    TaskPoller,
    parse_batch_status,
    parse_health,
    parse_metrics,
)
from bandanna.deployment.dashboard.views import MOST, PAGE, HistoryPoint, PublicationHistory
from bandanna.deployment.messages.canonical import dumps, encode_base64url, loads
from bandanna.deployment.messages.publication import SignedPublication, chain_document
from bandanna.errors import BandannaError, InvalidArgument

from ..deployment.inside import headers_of, shown, signed
from .town import FILE, ROLES, TOKEN, Net, Read, Seen, Town, run, url


@pytest.fixture
def town(tmp_path: Path) -> Town:
    made = Town(tmp_path)
    made.play(40)
    return made


async def tried(seen: Seen) -> None:
    watch = seen.watches[0]
    try:
        await watch.step()
    except RoleUnavailable as error:
        watch.tell(trouble=str(error))
    except BandannaError as error:
        watch.warn(str(error))
    await watch.glance()


async def test_an_analyzer_that_does_not_answer_is_waited_for(town: Town) -> None:
    seen = Seen(town)
    town.net.down = {ROLES["analyzer"]}
    await tried(seen)
    assert "No news from the analyzer: it cannot be reached (ConnectError)" in Read(await seen.page("/")).text
    town.net.down = set()
    await tried(seen)
    page = f"/tasks/{town.task.id}"
    assert "No news" not in Read(await seen.page(page)).text
    town.net.down = {ROLES["analyzer"], ROLES["shuffler"]}
    await tried(seen)
    text = Read(await seen.page(page)).text
    assert "No news from the analyzer: it cannot be reached" in text
    assert "the numbers below are old" in text
    assert "Its collector does not say how many have joined." in text
    roles = {each["name"]: each["state"] for each in (await seen.twin(f"{page}.json"))["roles"]}
    assert roles == {"registrar": "well", "analyzer": "silent", "shuffler": "silent"}
    assert (await seen.client.get(f"{page}/releases")).status_code == 502
    town.net.down = set()
    await tried(seen)
    assert (await seen.client.get(f"{page}/releases")).status_code == 200


def test_polling_goes_on_after_any_failure_with_pauses(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    from bandanna.deployment.dashboard import poller

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            town.net.lies["/snapshot"] = lambda _: httpx.Response(200, content=b"[]", headers={"signature": "none"})
            town.net.down = set()
        if len(pauses) >= 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(poller.asyncio, "sleep", sleep)
    town.net.down = {ROLES["analyzer"]}
    seen = Seen(town)
    with pytest.raises(KeyboardInterrupt):
        run(seen.watches[0].follow)
    assert pauses[:6] == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8]
    assert "not signed" in seen.watches[0].known.warnings[0]


def republished(town: Town, **changes: Any) -> SignedPublication:
    """The newest publication with some parts changed, signed by analyzer and registrar themselves."""
    return signed(town.task.id, town.secrets, dumps(loads(town.processor.published.document) | changes))


LIES = {
    "gone back": ({"number": 0}, "gone back to publication 0, from 1"),
    "another of the same number": ({"spent": 0.5}, "two publications of number 1"),
    "another history": (
        {"number": 2, "previous": encode_base64url(bytes(32))},
        "does not follow the one before it",
    ),
    "less noise": ({"number": 2, "batches": "halved"}, "another plan than the task's policy has"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_impossible_claims_of_an_analyzer_become_warnings(lie: str, town: Town) -> None:
    changes, words = LIES[lie]
    changes = dict(changes)
    seen = await Seen(town).look()
    assert seen.watches[0].known.warnings == ()
    if changes.get("batches"):
        batches = loads(town.processor.published.document)["batches"]
        changes["batches"] = [each | {"slots": each["slots"] // 2} for each in batches]
    if "previous" not in changes and changes.get("number") == 2:
        changes["previous"] = town.processor.published.chain
    said = republished(town, **changes)
    town.net.lies["/snapshot"] = lambda _: httpx.Response(200, content=said.document, headers=headers_of(said))
    await tried(seen)
    page = Read(await seen.page(f"/tasks/{town.task.id}"))
    assert words in page.text.replace("There are two", "two")
    assert any(each.get("role") == "alert" for each in page.all("div"))
    assert (await seen.twin("/index.json"))["tasks"][0]["warnings"] >= 1


async def test_a_publication_that_the_analyzer_has_not_signed_is_not_shown(town: Town) -> None:
    seen = await Seen(town).look()
    town.play(40)
    forged = dumps(loads(town.processor.published.document) | {"spent": 0.001})
    town.net.lies["/snapshot"] = lambda answer: httpx.Response(200, content=forged, headers=answer.headers)
    await tried(seen)
    document = await seen.twin(f"/tasks/{town.task.id}.json")
    assert document["now"]["publication"] == 1
    assert "not signed" in document["warnings"][0]
    town.net.lies.clear()
    await tried(seen)
    assert (await seen.twin(f"/tasks/{town.task.id}.json"))["now"]["publication"] == 2


async def test_a_publication_that_the_registrar_has_not_cosigned_is_not_shown(town: Town) -> None:
    seen = await Seen(town).look()
    earlier = headers_of(shown(town.processor.published))["witness"]
    town.play(40)
    told = shown(town.processor.published)
    for witness in ("", earlier):
        headers = {**headers_of(told), "witness": witness}
        town.net.lies["/snapshot"] = lambda _, headers=headers: httpx.Response(
            200, content=told.document, headers=headers
        )
        await tried(seen)
        document = await seen.twin(f"/tasks/{town.task.id}.json")
        assert document["now"]["publication"] == 1
        assert "not cosigned" in document["warnings"][0]
    town.net.lies.clear()
    await tried(seen)
    assert (await seen.twin(f"/tasks/{town.task.id}.json"))["now"]["publication"] == 2


async def test_a_ledger_that_disagrees_with_the_signed_publication_is_not_shown(town: Town) -> None:
    content = dumps({"task": town.task.id, "ledger": {"spent": 0.001, "entries": 99, "prices": []}})
    town.net.lies["/ledger/summary"] = lambda _: httpx.Response(200, content=content)
    seen = await Seen(town).look()
    assert (await seen.twin(f"/tasks/{town.task.id}.json"))["privacy"]["entries"] is None


async def test_a_document_that_promises_too_much_is_said_to(town: Town) -> None:
    from bandanna.deployment.task.document import Task

    better = Task.made({**town.task.content, "guarantee": {**town.task.content["guarantee"], "epsilon": 0.1}})
    seen = Seen(town)
    town.net.lies["/task"] = lambda _: httpx.Response(200, content=better.document)
    with pytest.raises(RoleUnavailable):  # its publications are those of another task
        await seen.watches[0].step()
    assert "promises something else than its policy keeps" in seen.watches[0].known.warnings[0]
    page = Read(await seen.page(f"/tasks/{better.id}")).text
    assert "because it could not be checked" in page
    assert town.task.content["promise"] not in page


async def test_answers_are_read_to_an_end(town: Town) -> None:
    class Endless(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            async def parts() -> Any:
                for _ in range(40):
                    yield bytes(1 << 20)

            return httpx.Response(200, content=parts())

    with pytest.raises(RoleUnavailable, match=f"more than {poller.MOST}"):
        await HttpRoleClient(transport=Endless()).get("http://127.0.0.1:1/")
    elsewhere = {"location": "http://127.0.0.1:2/", "set-cookie": "a=b"}
    web = HttpRoleClient(transport=httpx.MockTransport(lambda _: httpx.Response(302, headers=elsewhere)))
    assert (await web.get("http://127.0.0.1:1/")).status == 302
    assert not list(web._client.cookies.jar)
    for place in ("file:///etc/passwd", "gopher://x", ""):
        with pytest.raises(RoleUnavailable):
            await web.get(place)
    await web.close()


def answer(content: Any, status: int = 200) -> RoleResponse:
    return RoleResponse(status=status, content=content if isinstance(content, bytes) else dumps(content), headers={})


def test_answers_of_roles_must_have_the_right_types() -> None:
    good = {"epoch": 3, "round": 0, "open": 4, "slots": 7, "of": 9, "closes_at": None}
    assert parse_batch_status(answer(good)).slots == 7
    for name, wrong in (("epoch", -1), ("slots", 1.5), ("of", "9"), ("open", True), ("round", 2**60)):
        with pytest.raises(RoleUnavailable):
            parse_batch_status(answer(good | {name: wrong}))
    for told in (b"", b"[]", b"{", b"\xff"):
        with pytest.raises(RoleUnavailable):
            parse_batch_status(answer(told))
    assert parse_health(answer({"ok": True})) == "well"
    assert parse_health(answer({"ok": False}, 503)) == "unwell"
    assert parse_health(answer({"ok": True}, 503)) == "unwell"
    for told in (answer({"ok": 1}), answer({}, 404), answer(b"<html>"), answer({"ok": True}, 401)):
        assert parse_health(told) == "unclear"
    text = (
        b'bandanna_refusals_total{reason="ticket"} 3\nother_total 5\n'
        b'bandanna_requests_in_flight nan\nbandanna_reports_total{result="kept"} 1e3\n' * 80
    )
    counts = parse_metrics("shuffler", answer(text))
    assert len(counts) == 100
    found = {(each.metric, each.label, each.value) for each in counts}
    assert found == {("bandanna_refusals_total", "ticket", 3.0), ("bandanna_reports_total", "kept", 1000.0)}
    assert parse_metrics("shuffler", answer(b"", 403)) == []


async def test_a_history_that_could_not_be_read_at_once_is_read_later(town: Town) -> None:
    town.play(40)
    seen = Seen(town)
    town.net.lies["/snapshot/1"] = lambda _: httpx.Response(503)
    await tried(seen)
    page = f"/tasks/{town.task.id}.json"
    assert [each["publication"] for each in (await seen.twin(page))["series"]] == [0, 2]
    assert "503" in (await seen.twin(page))["trouble"]
    forged = dumps(loads(town.processor.published.document) | {"number": 1})
    town.net.lies["/snapshot/1"] = lambda answer: httpx.Response(200, content=forged, headers=answer.headers)
    await tried(seen)
    document = await seen.twin(page)
    assert document["warnings"] == ["Publication 1: a publication that the task's analyzer has not signed"]
    town.net.lies.clear()
    town.net.requested.clear()
    await tried(seen)
    assert not [path for _, path in town.net.requested if "/snapshot/" in path]  # what is known to be forged stays so
    again = Seen(town)
    await tried(again)
    assert [each["publication"] for each in (await again.twin(page))["series"]] == [0, 1, 2]
    assert (await again.twin(page))["warnings"] == []


async def test_an_older_analyzer_is_watched_too(town: Town) -> None:
    town.net.lies |= dict.fromkeys(("/history", "/ledger/summary"), lambda _: httpx.Response(404))
    seen = await Seen(town).look()
    document = await seen.twin(f"/tasks/{town.task.id}.json")
    assert document["trouble"] == ""
    assert document["privacy"]["entries"] is None
    assert (await seen.client.get(f"/tasks/{town.task.id}/releases")).status_code == 502


def test_points_of_a_history_are_brief(tmp_path: Path) -> None:
    policy = {"dim": 30, "horizon": 400, "epsilon": 5.0, "delta": 1e-3, "batch": 40}
    arms = {"features": {f"arm {place}": [float(place == each) for each in range(30)] for place in range(31)}}
    town = Town(tmp_path, policy=policy, arms=arms)
    town.play(40)

    async def work() -> None:
        seen = await Seen(town).look()
        known = seen.watches[0].known
        assert {len(each.reading.theta) + len(each.reading.plays) for each in known.points} == {30}
        root = f"/tasks/{town.task.id}"
        assert len((await seen.twin(f"{root}.json"))["estimates"]["theta"]["rows"]) == 30
        assert len((await seen.twin(f"{root}/releases/0.json"))["theta"]["rows"]) == 30

    from bandanna.deployment.dashboard import readings

    run(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "BRIEF", 10)

        async def brief() -> None:
            seen = await Seen(town).look()
            assert {len(each.reading.theta) for each in seen.watches[0].known.points} == {0}
            root = f"/tasks/{town.task.id}"
            assert len((await seen.twin(f"{root}.json"))["estimates"]["theta"]["rows"]) == 30
            assert len((await seen.twin(f"{root}/releases/0.json"))["theta"]["rows"]) == 30

        run(brief)


# Whom a dashboard calls: whom its operator has named, not whom a document names; real servers listen


class Listening(BaseHTTPRequestHandler):
    """Records the requests, and answers that all is well."""

    server: Any

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        if self.path.startswith("/drip"):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not self.server.enough.is_set():
                    self.wfile.write(b" ")
                    self.server.enough.wait(0.02)
            return
        content = b'{"ok": true}'
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quietly."""


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server inside, which nobody outside should be able to have called: its address, and the requests."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Listening)
    server.requested, server.enough = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.requested
    finally:
        server.enough.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Both(Net):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.apps, self.lies, self._real = net.apps, net.lies, httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.port in self.apps:
            return await super().handle_async_request(request)
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


def hostile(folder: Path, inside: str) -> Town:
    """An honest analyzer whose document says that all other roles are where somebody else listens."""
    roles = {role: url("analyzer") if role == "analyzer" else f"{inside}/{role}" for role in FILE["roles"]}
    return Town(folder, roles=roles)


async def watched(town: Town, **more: Any) -> Seen:
    """A dashboard that has looked everywhere, with an administrator who would see metrics, too."""
    web = HttpRoleClient(transport=Both(town.net))
    seen = Seen(token=TOKEN, watches=(TaskPoller(url("analyzer"), web, inside=True, **more),))
    try:
        return await seen.look()
    finally:
        await web.close()


def test_a_document_from_elsewhere_sends_us_nowhere(tmp_path: Path) -> None:
    with listening() as (inside, requested):
        town = hostile(tmp_path, inside)

        async def work() -> None:
            seen = await watched(town)
            page = f"/tasks/{town.task.id}"
            roles = {each["name"]: each for each in (await seen.twin(f"{page}.json"))["roles"]}
            states = {name: each["state"] for name, each in roles.items()}
            assert states == {"registrar": "unnamed", "analyzer": "well", "shuffler": "unnamed"}
            assert roles["shuffler"]["url"] == f"{inside}/shuffler"
            text = Read(await seen.page(page)).text
            assert "not queried: its address was not given with --role-url" in text
            assert "--role-url ADDRESS" in text
            assert f"{inside}/shuffler" in text
            assert "Its collector does not say how many have joined." in text

        run(work)
        assert requested == []


def test_addresses_of_the_operator_are_called(tmp_path: Path) -> None:
    with listening() as (inside, requested):
        town = hostile(tmp_path, inside)
        run(lambda: watched(town, named=(f"{inside}/shuffler/",)))
        assert set(requested) == {f"/shuffler/{what}" for what in (f"tasks/{town.task.id}/open", "readyz")}
        requested.clear()
        run(lambda: watched(town, task=town.task))  # the document is the operator's own
        assert {each.split("/")[1] for each in requested} == {"shuffler", "registrar"}


def test_the_analyzer_of_an_address_is_queried_there_alone(tmp_path: Path) -> None:
    with listening() as (inside, requested):
        town = Town(tmp_path, roles=FILE["roles"] | {"analyzer": inside})
        run(lambda: watched(town))
        assert requested == []


@pytest.mark.parametrize("path", ["/task", "/snapshot", "/summary", "/readyz", "/metrics"])
def test_redirects_are_not_followed(path: str, tmp_path: Path) -> None:
    with listening() as (inside, requested):
        town = Town(tmp_path)
        for code in (301, 302, 307, 308):
            town.net.lies[path] = lambda _, code=code: httpx.Response(code, headers={"location": f"{inside}/secret"})

            async def work() -> None:
                with suppress(RoleUnavailable):
                    await watched(town)

            run(work)
        assert requested == []


def test_a_role_that_sends_single_bytes_times_out(tmp_path: Path) -> None:
    with listening() as (inside, requested):

        async def work() -> None:
            web = HttpRoleClient()
            begun = time.monotonic()
            with pytest.raises(RoleUnavailable, match="cannot be reached"):
                await web.get(f"{inside}/drip", seconds=0.3)
            assert time.monotonic() - begun < 300
            await web.close()

        run(work)
        assert requested == ["/drip"]


def test_ask_takes_addresses_only() -> None:
    with pytest.raises(InvalidArgument, match="--role-url"):
        board_for_places([url("analyzer")], HttpRoleClient(), None, ["shuffler.example"])
    board = board_for_places([url("analyzer")], HttpRoleClient(), None, [f"http://127.0.0.1:{ROLES['shuffler']}"])
    assert len(board.watches) == 1


# What the public stream tells: that something public has changed, and nothing else


def test_news_for_administrators_do_not_change_the_public_version() -> None:
    watch = TaskPoller("http://analyzer.test", web=None)  # type: ignore[arg-type]
    watch.tell(counts=("answers", 1))
    assert (watch.version, watch.changes) == (0, 1)
    watch.tell(counts=("answers", 1))
    watch.tell(statuses=(("shuffler", "well"),), warnings=("late",))
    assert (watch.version, watch.changes) == (1, 2)


# A task with 2e4 publications: what a page costs does not depend on how many there are


MANY = 20_000


def lengthened(town: Town, count: int, whole: Callable[[int], bool]) -> None:
    """So many publications more, as if a batch had been released for each: chained, and those that are read `whole`."""
    last = town.processor.published
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
    with town.processor._database.transaction() as written:
        written.many("insert into releases values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    with town.processor._database.reading() as read:
        town.processor.published = publication.read_publication_row(read)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Town:
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
        requested = [path for _, path in long.net.requested]
        documents = [path for path in requested if "/snapshot" in path]
        assert len(documents) <= MOST + 2
        assert len(requested) <= MOST + 20
        document = await seen.twin(f"/tasks/{long.task.id}.json")
        assert document["now"]["publication"] == MANY + 1
        assert len(document["series"]) <= MOST + 1
        assert [each["publication"] for each in document["series"]][:2] == [0, 128]
        assert document["privacy"]["entries"] == 1
        long.net.requested.clear()
        root = f"/tasks/{long.task.id}"
        pages = ["/", root, f"{root}/releases", f"{root}/releases?page=300", f"{root}/releases/17312"]
        sizes = [len(await seen.page(path)) for path in pages]
        assert len(long.net.requested) <= 4  # a page of the history each, and two publications
        lines = await seen.twin(f"{root}/releases.json?page=300")
        assert len(lines["rows"]) == PAGE
        assert lines["pages"] == -(-(MANY + 2) // PAGE)
        assert lines["rows"][0]["number"] == MANY + 1 - 299 * PAGE
        return len(document["series"]), sizes

    _, sizes = run(work)
    assert max(sizes) < 100_000


async def test_lines_of_history_agree_with_the_publications(long: Town) -> None:
    seen = await Seen(long).look()
    lines = await seen.watches[0].lines(-1, 5)
    assert [each["number"] for each in lines] == [0, 1, 2, 3, 4]
    assert [each["outcome"] for each in lines[:3]] == ["begun", "released", "released"]
    with long.processor._database.reading() as rows:
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


def test_one_answer_reads_no_more_letters_than_its_bound(long: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_LETTERS", 100_000)
    with long.processor._database.reading() as rows:
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
    view, summary = town.processor.ledger_view(), town.processor.ledger_summary()
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
    assert free.processor.ledger_summary() is None

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
