"""Pages and their twins over a small real deployment: they agree with each other and with the command line."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app as command
from bandanna.deployment.dashboard.app import CONTENT_POLICY
from bandanna.deployment.task import document, export
from bandanna.deployment.task.export import describe_progress, fetch_progress

from ..deployment.inside import headers_of, shown
from .town import TOKEN, Seen, Town, run, url


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """Of a task whose first three batches are over, and whose fourth has some people."""
    made = Town(tmp_path_factory.mktemp("town"))
    made.play(120)
    return made


def addresses(town: Town) -> list[str]:
    """Of every page."""
    root = f"/tasks/{town.task.id}"
    return ["/", root, f"{root}/releases", f"{root}/releases/0", f"{root}/releases/3", "/login"]


class Read(HTMLParser):
    """What of a page matters here."""

    void = frozenset({"meta", "link", "input", "img", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """One more."""
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closed as it was opened."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.words.append(data)

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every such element."""
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_its_twin_and_task_show_have_the_same_numbers(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:

    def fetched(address: str) -> tuple[bytes, dict[str, str]]:
        path = address.removeprefix(url("analyzer"))
        published = town.learner.published
        return (town.task.document, {}) if path == "/task" else (published.document, headers_of(shown(published)))

    for module in (export, document):
        monkeypatch.setattr(module, "fetch_url", fetched)
    told = json.loads(CliRunner().invoke(command, ["task", "show", url("analyzer"), "--json"]).stdout)["now"]
    assert told == fetch_progress(town.task, url("analyzer"))

    async def work() -> None:
        seen = await Seen(town).look()
        document = await seen.twin(f"/tasks/{town.task.id}.json")
        page = Read(await seen.page(f"/tasks/{town.task.id}")).text
        assert document["now"] == told
        assert document["now"]["publication"] == 3
        assert describe_progress(told) in page
        assert f"Publication {told['publication']} seen here since {document['since']}" in page
        assert f"Epsilon spent {told['spent']:.4g} of epsilon = 5, delta = 0.001" in page
        listed = (await seen.twin("/index.json"))["tasks"][0]
        assert {name: listed[name] for name in ("status", "publication", "spent")} == {
            name: told[name] for name in ("status", "publication", "spent")
        }
        assert document["privacy"]["entries"] == 3
        assert document["privacy"]["promise"] == town.task.content["promise"]
        assert town.task.content["promise"] in page
        for each in document["estimates"]["theta"]["rows"] + document["estimates"]["plays"]["rows"]:
            assert each["name"] in page

    run(work)


def test_a_twin_is_had_by_its_address_or_by_asking_for_json(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town, token=TOKEN).look()
        for path in addresses(town):
            named = await seen.twin("/index.json" if path == "/" else f"{path}.json")
            asked = await seen.twin(path, headers={"accept": "application/json"})
            assert named == asked
            alternate = [each for each in Read(await seen.page(path)).all("link") if each.get("rel") == "alternate"]
            assert await seen.twin(str(alternate[0]["href"])) == named

    run(work)


def test_a_batch_is_followed_until_it_closes(tmp_path: Path) -> None:
    town = Town(tmp_path, test={})

    async def work() -> None:
        seen = await Seen(town).look()
        page = Read(await seen.page(f"/tasks/{town.task.id}"))
        assert "Batch 0: 0 of 40 users. It closes 10 minutes after the last of them joins." in page.text
        assert "Batch 1 follows, with 40 users." in page.text
        assert page.all("progress")[0]["max"] == "40"
        assert "Waiting for the first 40 users." in page.text
        assert not page.all("svg")
        version = seen.board.version(town.task.id)
        town.inside.collector._fillings[0].open(b"a slot of 16 byt")
        await seen.watches[0].glance(everybody=False)
        assert seen.board.version(town.task.id) != version
        assert (await seen.twin(f"/tasks/{town.task.id}.json"))["batch"]["slots"] == 1

    run(work)


def test_news_change_the_page(tmp_path: Path) -> None:
    """A new publication is not read, or the page does not change with it."""
    own = Town(tmp_path)

    async def work() -> None:
        seen = await Seen(own).look()
        before = seen.board.version(own.task.id)
        assert (await seen.twin(f"/tasks/{own.task.id}.json"))["now"]["publication"] == 0
        own.play(40)
        await seen.look()
        assert seen.board.version(own.task.id) != before
        document = await seen.twin(f"/tasks/{own.task.id}.json")
        assert document["now"]["publication"] == 1
        assert [each["publication"] for each in document["series"]] == [0, 1]
        assert document["released"]["users"] == 40
        after = seen.board.version(own.task.id)
        await seen.look()
        assert seen.board.version(own.task.id) == after  # no news

    run(work)


def test_what_is_not_there_is_said_so(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town).look()
        root = f"/tasks/{town.task.id}"
        for path in ("/tasks/none", f"{root}/releases/4", f"{root}/releases?page=2"):
            answer = await seen.client.get(path)
            assert answer.status_code == 404
            assert answer.headers["content-security-policy"] == CONTENT_POLICY
            assert "There is nothing at this address." in Read(answer.text).text
        for path in (f"{root}/releases/-1", f"{root}/releases/x", f"{root}/releases?page=-1", "/login", "/nowhere"):
            assert (await seen.client.get(path)).status_code == 404
        assert (await seen.client.get(f"{root}/releases?page={'9' * 40}")).status_code == 404

    run(work)


def test_pages_obey_a_strict_content_policy(town: Town) -> None:
    """A page has an inline script or style, something from elsewhere, or lacks the policy that forbids it."""

    async def work() -> None:
        seen = await Seen(town, token=TOKEN).look()
        for path in [*addresses(town), "/index.json", "/assets/style.css", "/assets/live.js", "/assets/icon.svg"]:
            answer = await seen.client.get(path)
            assert answer.headers["content-security-policy"] == CONTENT_POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            page = Read(answer.text)
            assert not page.all("style")
            for tag, attributes in page.tags:
                assert not [name for name in attributes if name == "style" or name.startswith("on")]
                for name in ("src", "href", "action", "data-events"):
                    assert re.match(r"/(?!/)|#|\?", attributes.get(name) or "/"), (tag, attributes)
            assert all(each.get("src") == "/assets/live.js" for each in page.all("script"))
        script = (await seen.client.get("/assets/live.js")).text
        assert "innerHTML" not in script
        assert "eval" not in script
        style = (await seen.client.get("/assets/style.css")).text
        assert not re.search(r"url\(|@import|https?:", style)
        tag = (await seen.client.get("/assets/style.css")).headers["etag"]
        assert (await seen.client.get("/assets/style.css", headers={"if-none-match": tag})).status_code == 304

    run(work)


def test_pages_can_be_used_without_seeing_them(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town, token=TOKEN).look()
        for path in addresses(town):
            page = Read(await seen.page(path))
            assert page.all("html")[0]["lang"] == "en"
            assert page.tags[[tag for tag, _ in page.tags].index("a")][1]["href"] == "#main"
            for landmark in ("header", "nav", "main", "footer"):
                assert page.all(landmark)
            levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
            assert levels[0] == 1
            assert levels.count(1) == 1
            assert all(after <= before + 1 for before, after in pairwise(levels))
            assert all(each.get("scope") in ("row", "col") for each in page.all("th"))
            assert len(page.all("caption")) == len(page.all("table"))
            ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
            assert len(ids) == len(set(ids))
            for _, attributes in page.tags:
                assert set((attributes.get("aria-labelledby") or "").split()) <= set(ids)
            for chart in [each for each in page.all("svg") if not each.get("aria-hidden")]:
                assert chart["role"] == "img"
                assert len((chart["aria-labelledby"] or "").split()) == 2
            labelled = {each["for"] for each in page.all("label")}
            assert {each["id"] for each in page.all("input")} <= labelled

    run(work)
