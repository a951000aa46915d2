"""Pages and their twins over a small real deployment: they agree with each other and with the command line."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app as command
from bandanna.deployment.dashboard import charts
from bandanna.deployment.dashboard.app import CONTENT_POLICY
from bandanna.deployment.dashboard.charts import Chart, Curve, Point
from bandanna.deployment.dashboard.pages import TEMPLATES
from bandanna.deployment.dashboard.poller import RoleUnavailable
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.task import document, export
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.export import describe_progress, fetch_progress
from bandanna.policies.registry import make_encoding

from ..deployment.inside import headers_of, shown, signed
from .town import TOKEN, Read, Seen, Town, run, url


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    made = Town(tmp_path_factory.mktemp("town"))
    made.play(120)
    return made


def addresses(town: Town) -> list[str]:
    root = f"/tasks/{town.task.id}"
    return ["/", root, f"{root}/releases", f"{root}/releases/0", f"{root}/releases/3", "/login"]


async def test_the_page_its_twin_and_task_show_have_the_same_numbers(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(address: str) -> tuple[bytes, dict[str, str]]:
        path = address.removeprefix(url("analyzer"))
        published = town.processor.published
        return (town.task.document, {}) if path == "/task" else (published.document, headers_of(shown(published)))

    for module in (export, document):
        monkeypatch.setattr(module, "fetch_url", fetched)
    told = json.loads(CliRunner().invoke(command, ["task", "show", url("analyzer"), "--json"]).stdout)["now"]
    assert told == fetch_progress(town.task, url("analyzer"))
    seen = await Seen(town).look()
    twin = await seen.twin(f"/tasks/{town.task.id}.json")
    page = Read(await seen.page(f"/tasks/{town.task.id}")).text
    assert twin["now"] == told
    assert twin["now"]["publication"] == 3
    assert describe_progress(told) in page
    assert f"Publication {told['publication']} seen here since {twin['since']}" in page
    assert f"Epsilon spent {told['spent']:.4g} of epsilon = 5, delta = 0.001" in page
    listed = (await seen.twin("/index.json"))["tasks"][0]
    assert {name: listed[name] for name in ("status", "publication", "spent")} == {
        name: told[name] for name in ("status", "publication", "spent")
    }
    assert twin["privacy"]["entries"] == 3
    assert twin["privacy"]["promise"] == town.task.content["promise"]
    assert town.task.content["promise"] in page
    for each in twin["estimates"]["theta"]["rows"] + twin["estimates"]["plays"]["rows"]:
        assert each["name"] in page


async def test_a_twin_is_had_by_its_address_or_by_asking_for_json(town: Town) -> None:
    seen = await Seen(town, token=TOKEN).look()
    for path in addresses(town):
        named = await seen.twin("/index.json" if path == "/" else f"{path}.json")
        requested = await seen.twin(path, headers={"accept": "application/json"})
        assert named == requested
        alternate = [each for each in Read(await seen.page(path)).all("link") if each.get("rel") == "alternate"]
        assert await seen.twin(str(alternate[0]["href"])) == named


async def test_a_batch_is_followed_until_it_closes(tmp_path: Path) -> None:
    town = Town(tmp_path, test={})
    seen = await Seen(town).look()
    page = Read(await seen.page(f"/tasks/{town.task.id}"))
    assert "Batch 0: 0 of 40 users. It closes 10 minutes after the last of them joins." in page.text
    assert "Batch 1 follows, with 40 users." in page.text
    assert page.all("progress")[0]["max"] == "40"
    assert "Waiting for the first 40 users." in page.text
    assert not page.all("svg")
    version = seen.board.version(town.task.id)
    town.inside.collector._fillings[0].open(b"a slot of 16 byt")
    await seen.watches[0].glance(health=False)
    assert seen.board.version(town.task.id) != version
    assert (await seen.twin(f"/tasks/{town.task.id}.json"))["batch"]["slots"] == 1


async def test_a_new_publication_changes_the_page(tmp_path: Path) -> None:
    own = Town(tmp_path)
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


async def test_an_unknown_page_is_a_404_page(town: Town) -> None:
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


async def test_pages_have_no_inline_script_style_or_foreign_address(town: Town) -> None:
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


async def test_pages_can_be_used_without_seeing_them(town: Town) -> None:
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


# Ticks of charts of few numbers


def list_ticks(chart: Chart | None) -> list[str]:
    assert chart is not None
    return [shape.text for shape in chart.shapes if shape.attributes["class"] == "tick"]


def test_a_single_release_has_one_mark_and_users_are_counted_in_whole_numbers() -> None:
    (one, three) = (
        charts.draw_curves("a", "a", "a", [Curve(points=points, kind="one")], axis="users")
        for points in ([Point(200.0, 0.5, 0.1)], [Point(x, 7.0) for x in (1.0, 2.0, 3.0)])
    )
    assert [tick for tick in list_ticks(one) if float(tick) >= 2] == ["200"]
    assert list_ticks(three)[-3:] == ["1", "2", "3"]


def test_bars_of_counts_do_not_begin_below_zero() -> None:
    rows = [{"name": "a", "value": 3.0, "half": 40.0}, {"name": "b", "value": 90.0, "half": 40.0}]
    assert list_ticks(charts.draw_rows("a", "a", rows, bars=True))[0] == "0"
    assert list_ticks(charts.draw_rows("a", "a", rows, bars=False))[0].startswith("\N{MINUS SIGN}")


def test_spending_is_drawn_as_steps() -> None:
    series = [{"publication": n, "users": None, "spent": spent} for n, spent in enumerate((0.0, 1.0, 1.5))]
    chart = charts.draw_spending("a", "a", series, 2.0)
    assert chart is not None
    steps, budget = (shape.attributes["points"].split() for shape in chart.shapes if shape.tag == "polyline")
    assert [len(steps), len(budget)] == [5, 2]
    assert [point.split(",")[1] for point in steps[:2]] == [steps[0].split(",")[1]] * 2
    assert charts.draw_spending("a", "a", series[:1], 2.0) is None


# Titles, arms, features, publications, roles and files of somebody hostile: shown as texts everywhere


PAYLOADS = (
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</script><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "]]><!--<b>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "a\u202egpj.exe",
    "line\u2028break\u0085",
    "\x00\x1b[31mred",
    "\ud800lone",
    "<\u0000script>alert(1)</script>",
    "x" * 5000,
)
MARK = "alert(1)"


def harmless(text: str) -> bool:
    """Whether no payload stands in a page, or its twin, as markup."""
    low = text.lower()
    return not any(
        each in low for each in ("<script>alert", "<svg onload", "<img src=x", "onmouseover='", "<b>", "\u202e", "\x1b")
    )


often = pytest.mark.often(when=lambda text: PAYLOADS.index(text) % 3 == 0)  # all are escaped by one function, below


TEMPLATE = """<html><body>
<p title="{{ text }}" class="a">{{ text }}</p>
{% set inside %}<i>{{ text }}</i>{% endset %}
{{ parts.table(text, [text], [[inside], [text]]) }}
{{ parts.chart(charts.draw_rows("c", text, [{"name": text, "value": 1.0, "half": None}], bars=True)) }}
</body></html>"""


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_text_stays_a_text_in_elements_attributes_tables_and_charts(text: str) -> None:
    content = TEMPLATES.from_string("{% import 'parts.html' as parts %}" + TEMPLATE).render(text=text)
    assert harmless(content)
    read = Read(content)
    tags = {"html", "body", "p", "i", "div", "table", "caption", "thead", "tr", "th", "tbody"}
    assert {tag for tag, _ in read.tags} == tags | {"svg", "title", "desc", "line", "text", "rect"}
    assert not any(name.startswith("on") or name == "style" for _, attributes in read.tags for name in attributes)
    plain = [each for each in text if each.isprintable()]
    assert all(each in read.all("p")[0]["title"] for each in plain)  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(TEMPLATES.list_templates(extensions=["html"])))
def test_templates_have_no_inline_script_style_or_foreign_address(name: str) -> None:
    source = TEMPLATES.loader.get_source(TEMPLATES, name)[0]  # type: ignore[union-attr]
    assert not re.search(r"<(style|base|object|embed|iframe|use|animate|set)\b|<script>|srcdoc", source)
    assert not re.search(r"\s(style|on[a-z]+)\s*=", source)
    assert not re.search(r"\|\s*safe|autoescape|Markup", source)
    for address in re.findall(r"""(?:href|src|action|data-events)=["']?([^"'\s>]*)""", source):
        assert re.match(r"/(?!/)|#|\{\{", address), address


def test_characters_that_turn_or_hide_text_are_replaced() -> None:
    template = TEMPLATES.from_string("{{ text }}")
    assert template.render(text="a\u202eb\u2066c\x00d\x9be\ud800") == "a\ufffdb\ufffdc\ufffdd\ufffde\ufffd"
    assert template.render(text="å, 中, 😀, \n\t") == "å, 中, 😀, \n\t"


async def every(seen: Seen, task: str) -> list[tuple[str, str]]:
    """Texts of all pages and twins of a task, as an administrator sees them."""
    root = f"/tasks/{task}"
    pages = ["/", root, f"{root}/releases", f"{root}/releases/0", f"{root}/releases/1", "/login", "/tasks/none"]
    twins = ["/index.json", f"{root}.json", f"{root}/releases.json", f"{root}/releases/1.json"]
    found = []
    for path in [*pages, *twins]:
        answer = await seen.client.get(path, headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code in (200, 404, 502), (path, answer.text)
        found.append((path, answer.text))
    return found


def check(found: list[tuple[str, str]]) -> None:
    """No page and no twin is more than text; pages are well formed."""
    for path, text in found:
        assert harmless(text), path
        if text.startswith("<!doctype"):
            Read(text)
        else:
            json.loads(text)


def renamed(town: Town, **changes: Any) -> Task:
    """The task with other texts in its document, as somebody hostile would serve it: its id is another one."""
    return Task.made({**town.task.content, **changes})


@often
@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_titles_and_algorithms_are_escaped(text: str, town: Town) -> None:
    task = renamed(town, title=text, algorithm=text, promise=text)
    content = loads(town.processor.published.document) | {"task": task.id}
    document = dumps(content)
    answers = {
        "/task": SignedPublication(task.document, "", ""),
        f"/tasks/{task.id}/snapshot": signed(task.id, town.secrets, document),
    }
    check(run(lambda: visited(town, task, answers)))


async def visited(town: Town, task: Task, answers: dict[str, SignedPublication]) -> list[tuple[str, str]]:
    """All pages of a task whose analyzer answers so, and the same whatever else is requested."""
    seen = Seen(town, token=TOKEN)
    seen.web._client = httpx.AsyncClient(transport=Lying(answers))
    try:
        await seen.watches[0].step()
    except Exception as error:
        seen.watches[0].warn(str(error))
    await seen.watches[0].glance()
    return await every(seen, task.id)


class Lying(httpx.AsyncBaseTransport):
    """Answers by path; what is not there is answered by the last of them."""

    def __init__(self, answers: dict[str, SignedPublication]) -> None:
        self.answers = answers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        given = self.answers.get(request.url.path, next(reversed(self.answers.values())))
        return httpx.Response(200, content=given.document, headers=headers_of(given))


@often
@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_names_of_arms_and_features_are_escaped(text: str, tmp_path: Path) -> None:
    town = shared(tmp_path)
    assert town.task.arms is not None
    arms = make_encoding().dumps(((f"{text}1", f"{text}2"), town.task.arms.features, True))
    schema = {"names": [text, f"{text} too"], "ranges": {}}
    task = renamed(
        town,
        arms=arms,
        schema=schema,
        urls={**town.task.content["urls"], "registrar": text},
    )
    content = loads(town.processor.published.document) | {"task": task.id}
    document = dumps(content)
    answers = {
        "/task": SignedPublication(task.document, "", ""),
        f"/tasks/{task.id}/snapshot": signed(task.id, town.secrets, document),
    }
    found = run(lambda: visited(town, task, answers))
    check(found)
    escaped = TEMPLATES.from_string("{{ text }}").render(text=f"{text}2: {text} too")
    assert escaped in dict(found)[f"/tasks/{task.id}"]  # it was there to be escaped


_SHARED: dict[str, Town] = {}


def shared(folder: Path) -> Town:
    if "town" not in _SHARED:
        policy = {"n_arms": 2, "features": 2, "horizon": 100, "epsilon": 5.0, "delta": 1e-3, "batch": 40}
        schema = {"age": [0, 110], "weight": [30, 160]}
        _SHARED["town"] = Town(folder, policy=policy, arms={"names": ["a", "b"]}, schema=schema)
        _SHARED["town"].play(40)
    return _SHARED["town"]


_ODD = [*PAYLOADS[:4], PAYLOADS[-3], 7, None, [], {"a": "<script>alert(1)</script>"}, 1e308, -1]


_FIELDS = ["status", "epoch", "round", "spent", "state", "snapshot", "batches", "answers"]
_SIGNED = [  # often, every third: each field has some of the texts, and each text comes in some of the fields
    pytest.param(field, text, id=f"{field}-{number}", marks=() if (place + number) % 3 == 0 else pytest.mark.full)
    for place, field in enumerate(_FIELDS)
    for number, text in enumerate(_ODD)
]


@pytest.mark.parametrize(("field", "text"), _SIGNED)
def test_a_hostile_analyzer_can_sign_anything(field: str, text: Any, town: Town) -> None:
    task = town.task
    document = dumps(loads(town.processor.published.document) | {field: text})
    line = {"number": 1, "epoch": 0, "round": 0, "outcome": text, "chain": text, "status": text, "spent": text}
    batch = {"epoch": text, "round": 0, "slots": text, "of": 3, "open": text, "closes_at": text}
    metrics = f'bandanna_refusals_total{{reason="{text}"}} 3\nbandanna_refusals_total{{reason="<b>"}} 1\n'
    ledger = dumps({"ledger": {"spent": text, "entries": text, "prices": [{"event": text, "entries": 3}, text]}})
    root = f"/tasks/{task.id}"
    answers = {
        "/task": SignedPublication(task.document, "", ""),
        f"{root}/history": SignedPublication(dumps({"lines": [line] * 3}), "", ""),
        f"{root}/ledger/summary": SignedPublication(ledger, "", ""),
        f"{root}/open": SignedPublication(dumps(batch), "", ""),
        "/readyz": SignedPublication(dumps({"ok": text}), "", ""),
        "/metrics": SignedPublication(metrics.encode("utf-8", "replace"), "", ""),
        "/status": SignedPublication(dumps({"said": text}), "", ""),
        f"{root}/snapshot": signed(task.id, town.secrets, document),
    }  # fmt: skip
    check(run(lambda: visited(town, task, answers)))


def test_a_task_that_is_none_is_said_to_be_none(town: Town) -> None:
    for text in (b"{}", b"[]", b"<script>alert(1)</script>", b"\xff", dumps({"title": "<script>alert(1)</script>"})):

        async def work(text: bytes = text) -> None:
            seen = Seen(town)
            seen.web._client = httpx.AsyncClient(transport=Lying({"/task": SignedPublication(text, "", "")}))
            with pytest.raises(RoleUnavailable, match="no task that this program can read") as caught:
                await seen.watches[0].step()
            seen.watches[0].tell(trouble=f"{caught.value} <script>alert(1)</script>")
            answer = await seen.client.get("/")
            assert answer.status_code == 200
            assert "no task that this program can read" in answer.text
            assert harmless(answer.text)

        run(work)
