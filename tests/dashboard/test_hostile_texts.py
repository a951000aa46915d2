"""Titles, arms, features, publications, roles and files of somebody hostile: shown as texts everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.dashboard.pages import TEMPLATES
from bandanna.deployment.dashboard.poller import RoleUnavailable
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.task.document import Task
from bandanna.policies.registry import make_encoding

from ..deployment.inside import headers_of, signed
from .payloads import PAYLOADS, harmless
from .test_pages import Read
from .town import TOKEN, Seen, Town, run

often = pytest.mark.often(of=lambda text: PAYLOADS.index(text) % 3 == 0)  # all are escaped by one function, below


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


def test_nothing_is_left_of_characters_that_turn_or_hide_what_is_around_them() -> None:
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


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """With one release."""
    made = Town(tmp_path_factory.mktemp("town"))
    made.play(40)
    return made


@often
@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_titles_and_algorithms_are_escaped(text: str, town: Town) -> None:
    task = renamed(town, title=text, algorithm=text, promise=text)
    content = loads(town.learner.published.document) | {"task": task.id}
    document = dumps(content)
    answers = {
        "/task": SignedPublication(task.document, "", ""),
        f"/tasks/{task.id}/snapshot": signed(task.id, town.secrets, document),
    }
    check(run(lambda: visited(town, task, answers)))


async def visited(town: Town, task: Task, answers: dict[str, SignedPublication]) -> list[tuple[str, str]]:
    """All pages of a task whose analyzer answers so, and whatever else it is asked the same."""
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
        """One question."""
        given = self.answers.get(request.url.path, next(reversed(self.answers.values())))
        return httpx.Response(200, content=given.document, headers=headers_of(given))


@often
@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_names_of_arms_and_features_are_escaped(text: str, tmp_path: Path) -> None:
    town = shared(tmp_path)
    assert town.task.arms is not None
    arms = make_encoding().dumps(((f"{text}1", f"{text}2"), town.task.arms.features, True))
    schema = {"names": [text, f"{text} too"], "ranges": {}}
    task = renamed(town, arms=arms, schema=schema, urls={**town.task.content["urls"], "registrar": text})
    content = loads(town.learner.published.document) | {"task": task.id}
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
    """One task with named arms and features for all payloads."""
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
    document = dumps(loads(town.learner.published.document) | {field: text})
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
