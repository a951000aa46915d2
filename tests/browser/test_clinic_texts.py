"""The clinic's page with titles, treatments, columns, promises and refusals of somebody hostile: texts, all of them.

The payloads are those of the dashboard's pages. A hostile task with the real client and its processes, and every
payload with a client that says nothing else: what is looked at then is the page.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bandanna.deployment.processes import free_ports
from bandanna.deployment.task.creation import create_task, write_task

from ..dashboard.test_pages import PAYLOADS
from .conftest import Opening
from .deployed import CLINIC, Visit, clinic
from .seeing import expect
from .serving import served

pytestmark = pytest.mark.browser

NAMES = [text for text in PAYLOADS if text.isprintable() and len(text) < 100][:4]
MARKUP = "script, img, svg, b, iframe, object, embed, link, style, meta, base"
SAYING = """
globalThis.PAYLOAD = %s;
export class Session {
  static async open(given) { return Object.assign(new Session(), { given, pending: 0 }); }
  async act() {
    const { refused } = await this.given.tickets(0, []);
    return { arm: PAYLOAD, takingPart: !refused, reason: refused };
  }
  async decisions() { return [{ arm: PAYLOAD }]; }
  async report() { return { kept: false, pending: false, reason: PAYLOAD }; }
  async flush() {}
}
"""


@pytest.fixture(scope="module")
def page_of_clinic(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[str]:
    """The clinic's own server, alone: roles are where nobody is."""
    folder, (port, *nobody) = tmp_path_factory.mktemp("clinic"), free_ports(4)
    document = tomllib.loads((CLINIC / "clinic.toml").read_text("utf-8"))
    roles = zip(("registrar", "analyzer", "shuffler"), nobody, strict=True)
    document["roles"] = {role: f"http://127.0.0.1:{port}" for role, port in roles}
    task, secrets = create_task(document, expect=False)
    write_task(folder, task, secrets)
    command = [str(CLINIC / "app.py"), "--task", str(folder), "--port", str(port)]
    with served(command, f"http://127.0.0.1:{port}", folder / "log") as url:
        yield url


def markup(page: Any) -> int:
    """Elements that could do something."""
    return int(page.locator(MARKUP).count())


def answer(route: Any, document: Any) -> None:
    """As the clinic's server would."""
    route.fulfill(body=json.dumps(document), content_type="application/json")


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_whatever_the_page_is_told_is_text(text: str, page_of_clinic: str, opening: Opening) -> None:
    context = opening()
    page = context.new_page()
    ran: list[str] = []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.goto(page_of_clinic)
    plain = markup(page)
    about = {"task": "t", "analyzer": "http://127.0.0.1:9", "collector": text, "promise": text, "staff": True,
             "columns": [[text, [0, 10]], [f"{text}flag", [0, 1]]]}  # fmt: skip
    page.route("**/about", lambda route: answer(route, about))
    page.route("**/tickets", lambda route: answer(route, {"refused": text}))
    page.route(
        "**/bandanna.mjs",
        lambda route: route.fulfill(body=SAYING % json.dumps(text), content_type="text/javascript"),
    )
    page.goto(page_of_clinic)
    expect(page.locator("#line")).to_contain_text("line,")
    page.get_by_role("button", name="Example patient").click()
    page.get_by_label("Patient's number").fill("P-1")
    page.get_by_role("button", name="Recommend a treatment").click()
    expect(page.locator(".arm")).to_have_count(1)
    assert page.evaluate("document.querySelector('.arm').textContent === PAYLOAD")
    assert page.evaluate("document.querySelector('#promise').textContent === PAYLOAD")
    assert page.evaluate("document.querySelector('#treated').textContent.includes(`is given ${PAYLOAD}.`)")
    assert page.evaluate("document.querySelector('#fields label').textContent === PAYLOAD")
    assert page.evaluate(
        "document.querySelector('#advice .note').textContent.includes(PAYLOAD)"
    )  # why it is not counted
    page.get_by_role("button", name="Better: P-1").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate("document.querySelector('#problem').textContent.includes(PAYLOAD)")
    assert markup(page) == plain
    assert ran == []


def test_a_hostile_task_with_the_real_client(tmp_path: Path, client: Path, opening: Opening) -> None:
    """What stands in a task's title or in the name of a treatment is run by the page, or the client cannot read it."""
    assert len(NAMES) == 4
    with clinic(tmp_path, title=PAYLOADS[1], arms=NAMES) as running:
        visit = Visit(opening(), running.url)
        ran: list[str] = []
        visit.page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
        before = markup(visit.page)
        for _ in range(3):
            patient, arm = visit.act()
            assert arm in NAMES
            expect(visit.page.locator("#treated")).to_contain_text(f"{patient} is given {arm}")
            visit.report(patient)
        assert markup(visit.page) == before
        assert ran == []
