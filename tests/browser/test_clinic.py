"""The clinic's page in Chromium, with the browser client, against real processes."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.processes import free_ports
from bandanna.deployment.task.creation import create_task, write_task

from ..dashboard.test_pages import PAYLOADS
from .conftest import Opening
from .support import CLINIC, LIGHTS, Clinic, Visit, clinic, expect, faults, named, served, shoot

pytestmark = pytest.mark.browser

NO_ANSWER = ("net::ERR",)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[Clinic]:
    with clinic(tmp_path_factory.mktemp("clinic")) as found:
        yield found


@pytest.mark.parametrize(("size", "dark"), LIGHTS)
def test_the_page_acts_and_reports_to_the_named_roles_alone(
    running: Clinic, opening: Opening, size: tuple[int, int], dark: bool
) -> None:
    visit = Visit(opening(size=size, dark=dark), running.url)
    assert faults(visit.page) == []
    before = running.open()
    patient, arm = visit.act()
    assert arm in running.task.arms.ids
    expect(visit.page.locator("#treated")).to_contain_text(f"{patient} is given {arm}")
    assert faults(visit.page) == []
    visit.report(patient)
    expect(visit.page.locator("#sent .state").first).to_have_text("kept")
    expect(visit.page.locator("#line")).to_have_text("Online, nothing waits")
    assert faults(visit.page) == []
    shoot(visit.page, named("clinic-reported", size, dark))
    zero, final = visit.bodies
    assert len(zero) == len(final)
    assert zero[:-1] != final[:-1]
    assert running.open() != before
    roles = {running.task.url(role) for role in ("analyzer", "shuffler")}
    assert {each.url.partition("/tasks")[0] for each in visit.asked if "/tasks/" in each.url} == roles
    assert all(each.url.startswith((running.url, *roles)) for each in visit.asked)


def test_the_server_never_sees_features(running: Clinic, opening: Opening) -> None:
    visit = Visit(opening(), running.url)
    page = visit.page
    visit.example()
    page.get_by_label("CD4 per mm³").fill("777")
    page.get_by_role("button", name="Recommend a treatment").click()
    expect(page.locator(".arm")).to_be_visible()
    own = [each for each in visit.asked if each.url.startswith(running.url)]
    (ticket,) = [each for each in own if each.url.endswith("/tickets")]
    assert set(ticket.post_data_json) == {"patient", "epoch", "refused"}
    assert not any("777" in each.url or "777" in (each.post_data or "") for each in own)
    secrets = [path.read_text() for path in running.folder.glob("*.secret.json")]
    answers = [each.response() for each in own]
    texts = [each.text() for each in answers if each is not None and each.status == 200]
    assert len(texts) >= 6
    for secret in secrets:
        token = secret.split('"token":"')[1].split('"')[0]
        assert not any(token in text for text in texts)


def test_patients_of_the_page_are_counted_and_later_ones_act_on_the_release(running: Clinic, opening: Opening) -> None:
    visit = Visit(opening(), running.url)
    number, before = running.snapshot()["number"], running.open()
    patient, _ = visit.act()
    visit.report(patient)
    running.crowd()
    after = running.snapshot()
    assert after["number"] > number
    assert after["epoch"] > before["open"]
    visit.act()
    shown = [each.response() for each in visit.asked if "/snapshot" in each.url]
    assert [each.json()["number"] for each in shown if each is not None and each.status == 200][-1] == after["number"]


@pytest.mark.parametrize("version", [0, 1])
def test_a_report_whose_answer_was_lost_is_sent_again_with_the_same_bytes(
    running: Clinic, opening: Opening, version: int
) -> None:
    visit = Visit(opening(expected=NO_ANSWER), running.url)
    lost: list[bytes] = []

    def lose(route: Any) -> None:
        route.fetch()
        lost.append(route.request.post_data_buffer)
        route.abort()

    page = visit.page
    patient = visit.example()
    if version == 1:
        page.get_by_role("button", name="Recommend a treatment").click()
        expect(page.locator("#advice")).to_contain_text(f"for {patient}")
    visit.context.route("**/reports", lose)
    asked = len(visit.bodies)
    if version == 0:
        page.get_by_role("button", name="Recommend a treatment").click()
    else:
        page.get_by_role("button", name=f"Better: {patient}").click()
    expect(page.locator("#line")).to_have_text("Online, 1 report waits to be sent")
    shoot(page, f"clinic-waiting-{version}")
    visit.context.unroute("**/reports")
    visit.load()
    expect(page.locator("#line")).to_have_text("Online, nothing waits")
    sent = visit.bodies[asked:]
    assert lost
    assert set(sent) == {lost[0]}
    assert len(sent) > len(lost)
    if version == 0:
        visit.report(patient)
        assert visit.bodies[-1] != lost[0]


def test_an_outcome_without_a_connection_is_sent_later(running: Clinic, opening: Opening) -> None:
    visit = Visit(opening(expected=("net::ERR_INTERNET_DISCONNECTED",)), running.url)
    page = visit.page
    patient, _ = visit.act()
    visit.context.set_offline(True)
    expect(page.locator("#line")).to_contain_text("Offline")
    page.get_by_role("button", name=f"Worse: {patient}").click()
    expect(page.locator("#line")).to_have_text("Offline, 1 report waits to be sent")
    assert faults(page) == []
    shoot(page, "clinic-offline")
    visit.example()
    page.get_by_role("button", name="Recommend a treatment").click()
    expect(page.get_by_role("alert")).to_contain_text("no connection")
    visit.context.set_offline(False)
    expect(page.locator("#line")).to_have_text("Online, nothing waits")
    bodies = [body for body in visit.bodies if body[42] == 1]
    assert len(set(bodies)) == 1


def test_a_clock_that_is_wrong(running: Clinic, opening: Opening) -> None:
    context = opening()
    context.clock.set_fixed_time(datetime.now(UTC) + timedelta(hours=1))
    visit = Visit(context, running.url)
    visit.report(visit.act()[0])
    expect(visit.page.locator("#sent .state").first).to_have_text("kept")


def test_a_patient_counts_once_on_one_device_or_two(running: Clinic, opening: Opening) -> None:
    first = Visit(opening(), running.url)
    patient, _ = first.act()
    slots, sent = running.open(), len(first.bodies)
    first.act(patient)
    expect(first.page.locator("#advice")).to_contain_text("who has taken part before: nothing is learned from it")
    assert len(first.bodies) == sent
    second = Visit(opening(expected=("409",)), running.url)
    assert second.act(patient)[0] == patient
    assert running.open() == slots
    first.report(patient, "Better")
    second.report(patient, "Worse")
    expect(second.page.get_by_role("alert")).to_contain_text("another outcome")


def test_without_signing_in_there_are_no_tickets(running: Clinic, opening: Opening) -> None:
    context = opening(expected=("401",))
    page = context.new_page()
    page.goto(running.url)
    page.get_by_role("button", name="Example patient").click()
    page.get_by_role("button", name="Recommend a treatment").click()
    expect(page.get_by_role("alert")).to_contain_text("Sign in first")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Recommend a treatment").click()
    expect(page.locator(".arm")).to_be_visible()
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_a_page_refuses_an_analyzer_that_went_back(running: Clinic, opening: Opening) -> None:
    url = f"{running.task.url('analyzer')}/tasks/{running.task.id}/snapshot"
    if running.snapshot()["number"] == 0:
        running.crowd()
    old = httpx.get(f"{url}/0", trust_env=False)
    visit = Visit(opening(), running.url)
    visit.act()
    headers = {name: old.headers[name] for name in ("signature", "witness")}
    headers |= {"access-control-allow-origin": "*", "access-control-expose-headers": "signature, witness"}
    visit.context.route("**/snapshot*", lambda route: route.fulfill(body=old.content, headers=headers))
    visit.load()
    sent = len(visit.bodies)
    visit.example()
    visit.page.get_by_role("button", name="Recommend a treatment").click()
    expect(visit.page.get_by_role("alert")).to_contain_text("Publication 0")
    shoot(visit.page, "clinic-refuses")
    assert len(visit.bodies) == sent


def test_two_mixers_release_the_reports_of_the_page(tmp_path: Path, client: Path, opening: Opening) -> None:
    with clinic(tmp_path, mixers=2) as running:
        visit = Visit(opening(), running.url)
        visit.report(visit.act()[0])
        running.crowd()
        told = running.snapshot()
        assert (told["number"], told["epoch"]) == (1, 1)
        expect(visit.page.locator("#sent li")).to_have_count(2)
    with closing(sqlite3.connect(tmp_path / "analyzer.db")) as rows:
        assert rows.execute("select outcome from releases where number = 1").fetchone() == ("released",)


# The clinic's page with titles, treatments, columns, promises and refusals of somebody hostile: texts, all of them


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
    return int(page.locator(MARKUP).count())


def answer(route: Any, document: Any) -> None:
    route.fulfill(body=json.dumps(document), content_type="application/json")


@pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
def test_texts_from_the_server_stay_texts(text: str, page_of_clinic: str, opening: Opening) -> None:
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


def test_a_hostile_title_or_arm_is_shown_as_text(tmp_path: Path, client: Path, opening: Opening) -> None:
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
