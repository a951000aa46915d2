"""A task as it is watched: analyzers that do not answer, that go back, that tell something else than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.dashboard.poller import (
    MOST,
    HttpRoleClient,
    RoleResponse,
    RoleUnavailable,
    parse_batch_status,
    parse_health,
    parse_metrics,
)
from bandanna.deployment.messages.canonical import dumps, encode_base64url, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.errors import BandannaError

from ..deployment.inside import headers_of, shown, signed
from .test_pages import Read
from .town import ROLES, Seen, Town, run


@pytest.fixture
def town(tmp_path: Path) -> Town:
    """With one release."""
    made = Town(tmp_path)
    made.play(40)
    return made


async def tried(seen: Seen) -> None:
    """One turn of the loop that follows, without its pauses."""
    watch = seen.watches[0]
    try:
        await watch.step()
    except RoleUnavailable as error:
        watch.tell(trouble=str(error))
    except BandannaError as error:
        watch.warn(str(error))
    await watch.glance()


def test_an_analyzer_that_does_not_answer_is_waited_for(town: Town) -> None:

    async def work() -> None:
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

    run(work)


def test_the_loops_go_on_whatever_happens(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that follows ends with the first failure, or it asks without pauses."""
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
    return signed(town.task.id, town.secrets, dumps(loads(town.learner.published.document) | changes))


LIES = {
    "gone back": ({"number": 0}, "gone back to publication 0, from 1"),
    "another of the same number": ({"spent": 0.5}, "two publications of number 1"),
    "another history": (
        {"number": 2, "previous": encode_base64url(bytes(32))},
        "does not follow upon the one before it",
    ),
    "less noise": ({"number": 2, "batches": "halved"}, "another plan than the task's policy has"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_an_analyzer_cannot_say_is_said_on_the_page(lie: str, town: Town) -> None:
    changes, words = LIES[lie]
    changes = dict(changes)

    async def work() -> None:
        seen = await Seen(town).look()
        assert seen.watches[0].known.warnings == ()
        if changes.get("batches"):
            batches = loads(town.learner.published.document)["batches"]
            changes["batches"] = [each | {"slots": each["slots"] // 2} for each in batches]
        if "previous" not in changes and changes.get("number") == 2:
            changes["previous"] = town.learner.published.chain
        said = republished(town, **changes)
        town.net.lies["/snapshot"] = lambda _: httpx.Response(200, content=said.document, headers=headers_of(said))
        await tried(seen)
        page = Read(await seen.page(f"/tasks/{town.task.id}"))
        assert words in page.text.replace("There are two", "two")
        assert any(each.get("role") == "alert" for each in page.all("div"))
        assert (await seen.twin("/index.json"))["tasks"][0]["warnings"] >= 1

    run(work)


def test_a_publication_that_the_analyzer_has_not_signed_is_not_shown(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town).look()
        town.play(40)
        forged = dumps(loads(town.learner.published.document) | {"spent": 0.001})
        town.net.lies["/snapshot"] = lambda answer: httpx.Response(200, content=forged, headers=answer.headers)
        await tried(seen)
        document = await seen.twin(f"/tasks/{town.task.id}.json")
        assert document["now"]["publication"] == 1
        assert "not signed" in document["warnings"][0]
        town.net.lies.clear()
        await tried(seen)
        assert (await seen.twin(f"/tasks/{town.task.id}.json"))["now"]["publication"] == 2

    run(work)


def test_a_publication_that_the_registrar_has_not_cosigned_is_not_shown(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town).look()
        earlier = headers_of(shown(town.learner.published))["witness"]
        town.play(40)
        told = shown(town.learner.published)
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

    run(work)


def test_a_ledger_that_disagrees_with_the_signed_publication_is_not_shown(town: Town) -> None:

    async def work() -> None:
        content = dumps({"task": town.task.id, "ledger": {"spent": 0.001, "entries": 99, "prices": []}})
        town.net.lies["/ledger/summary"] = lambda _: httpx.Response(200, content=content)
        seen = await Seen(town).look()
        assert (await seen.twin(f"/tasks/{town.task.id}.json"))["privacy"]["entries"] is None

    run(work)


def test_a_document_that_promises_too_much_is_said_to(town: Town) -> None:
    from bandanna.deployment.task.document import Task

    better = Task.made({**town.task.content, "guarantee": {**town.task.content["guarantee"], "epsilon": 0.1}})

    async def work() -> None:
        seen = Seen(town)
        town.net.lies["/task"] = lambda _: httpx.Response(200, content=better.document)
        with pytest.raises(RoleUnavailable):  # its publications are those of another task
            await seen.watches[0].step()
        assert "promises something else than its policy keeps" in seen.watches[0].known.warnings[0]
        page = Read(await seen.page(f"/tasks/{better.id}")).text
        assert "because it could not be checked" in page
        assert town.task.content["promise"] not in page

    run(work)


def test_answers_are_read_to_an_end(town: Town) -> None:

    class Endless(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            async def parts() -> Any:
                for _ in range(40):
                    yield bytes(1 << 20)

            return httpx.Response(200, content=parts())

    async def work() -> None:
        with pytest.raises(RoleUnavailable, match=f"more than {MOST}"):
            await HttpRoleClient(transport=Endless()).get("http://127.0.0.1:1/")
        elsewhere = {"location": "http://127.0.0.1:2/", "set-cookie": "a=b"}
        web = HttpRoleClient(transport=httpx.MockTransport(lambda _: httpx.Response(302, headers=elsewhere)))
        assert (await web.get("http://127.0.0.1:1/")).status == 302
        assert not list(web._client.cookies.jar)
        for url in ("file:///etc/passwd", "gopher://x", ""):
            with pytest.raises(RoleUnavailable):
                await web.get(url)
        await web.close()

    run(work)


def answer(content: Any, status: int = 200) -> RoleResponse:
    """What a role says."""
    return RoleResponse(status=status, content=content if isinstance(content, bytes) else dumps(content), headers={})


def test_what_roles_tell_is_of_the_kind_that_it_has_to_be() -> None:
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
        assert parse_health(told) == "untold"
    text = (
        b'bandanna_refusals_total{reason="ticket"} 3\nother_total 5\n'
        b'bandanna_requests_in_flight nan\nbandanna_reports_total{result="kept"} 1e3\n' * 80
    )
    counts = parse_metrics("shuffler", answer(text))
    assert len(counts) == 100
    found = {(each.metric, each.label, each.value) for each in counts}
    assert found == {("bandanna_refusals_total", "ticket", 3.0), ("bandanna_reports_total", "kept", 1000.0)}
    assert parse_metrics("shuffler", answer(b"", 403)) == []


def test_a_history_that_could_not_be_read_at_once_is_read_later(town: Town) -> None:
    town.play(40)

    async def work() -> None:
        seen = Seen(town)
        town.net.lies["/snapshot/1"] = lambda _: httpx.Response(503)
        await tried(seen)
        page = f"/tasks/{town.task.id}.json"
        assert [each["publication"] for each in (await seen.twin(page))["series"]] == [0, 2]
        assert "503" in (await seen.twin(page))["trouble"]
        forged = dumps(loads(town.learner.published.document) | {"number": 1})
        town.net.lies["/snapshot/1"] = lambda answer: httpx.Response(200, content=forged, headers=answer.headers)
        await tried(seen)
        document = await seen.twin(page)
        assert document["warnings"] == ["Publication 1: a publication that the task's analyzer has not signed"]
        town.net.lies.clear()
        town.net.asked.clear()
        await tried(seen)
        assert not [path for _, path in town.net.asked if "/snapshot/" in path]  # what is known to be forged stays so
        again = Seen(town)
        await tried(again)
        assert [each["publication"] for each in (await again.twin(page))["series"]] == [0, 1, 2]
        assert (await again.twin(page))["warnings"] == []

    run(work)


def test_an_older_analyzer_is_watched_too(town: Town) -> None:

    async def work() -> None:
        town.net.lies |= dict.fromkeys(("/history", "/ledger/summary"), lambda _: httpx.Response(404))
        seen = await Seen(town).look()
        document = await seen.twin(f"/tasks/{town.task.id}.json")
        assert document["trouble"] == ""
        assert document["privacy"]["entries"] is None
        assert (await seen.client.get(f"/tasks/{town.task.id}/releases")).status_code == 502

    run(work)


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
