"""The clinic's page in Chromium, with the browser client, against real processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import Opening
from .deployed import Clinic, Visit, clinic
from .seeing import LIGHTS, expect, faults, named, shoot

pytestmark = pytest.mark.browser

NO_ANSWER = ("net::ERR",)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, client: Path) -> Iterator[Clinic]:
    """One clinic for all tests of this file."""
    with clinic(tmp_path_factory.mktemp("clinic")) as found:
        yield found


@pytest.mark.parametrize(("size", "dark"), LIGHTS)
def test_a_patient_is_treated(running: Clinic, opening: Opening, size: tuple[int, int], dark: bool) -> None:
    """The page cannot act or report, is not accessible, or sends something to somebody whom the task does not name."""
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


def test_a_batch_closes(running: Clinic, opening: Opening) -> None:
    """Patients of the page are not counted in a batch, the batch is not released, or nobody acts on the release."""
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
def test_the_same_bytes_after_a_reload(running: Clinic, opening: Opening, version: int) -> None:
    """A page that is closed between sending and hearing that the report was kept draws fresh noise for it.

    The report arrives each time: only the answer is lost, once for the report that opens a slot, once for the outcome.
    """
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


def test_offline(running: Clinic, opening: Opening) -> None:
    """An outcome that is entered without a connection is lost, or is not sent when there is one again."""
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


def test_a_patient_counts_once(running: Clinic, opening: Opening) -> None:
    """A patient takes part twice: on one device, or on two, which have the same slot; the first outcome stands."""
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


def test_two_mixers(tmp_path: Path, client: Path, opening: Opening) -> None:
    """With two mixers the page's report cannot be opened, its batch is burned, or the helper's keys cannot be read."""
    with clinic(tmp_path, mixers=2) as running:
        visit = Visit(opening(), running.url)
        visit.report(visit.act()[0])
        running.crowd()
        told = running.snapshot()
        assert (told["number"], told["epoch"]) == (1, 1)
        expect(visit.page.locator("#sent li")).to_have_count(2)
    with closing(sqlite3.connect(tmp_path / "analyzer.db")) as rows:
        assert rows.execute("select outcome from releases where number = 1").fetchone() == ("released",)
