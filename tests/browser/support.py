"""The clinic of examples/clinic with all its processes: roles, the clinic's server, and patients who are simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

import bandanna
from bandanna.deployment.processes import RunningDeployment, free_ports
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Task

from .conftest import PATIENCE, ROOT, missing

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, LocatorAssertions, Page, Request


CLINIC = ROOT / "examples" / "clinic"
BATCH = 30  # patients, so that tests are quick
NUMBERS = count(1)  # of patients


@dataclass(frozen=True, kw_only=True)
class Clinic:
    task: Task
    folder: Path
    url: str
    running: RunningDeployment

    def crowd(self, users: int = BATCH) -> None:
        """So many simulated patients, who fill batches and wait until they are released."""
        run(["-m", "bandanna", "simulate-clients", "--task", str(self.folder), "--users", str(users), "--json"])

    def snapshot(self) -> dict[str, Any]:
        url = f"{self.task.url('analyzer')}/tasks/{self.task.id}/snapshot"
        found: dict[str, Any] = httpx.get(url, trust_env=False).json()
        return found

    def open(self) -> dict[str, Any]:
        url = f"{self.task.url(self.task.collector)}/tasks/{self.task.id}/open"
        found: dict[str, Any] = httpx.get(url, trust_env=False).json()
        return found


@contextmanager
def clinic(
    folder: Path, *, mixers: int = 1, grace: float = 1.0, title: str | None = None, arms: list[str] | None = None
) -> Iterator[Clinic]:
    """The task of clinic.toml with smaller batches, on free ports, with another title or names where they are given."""
    document = tomllib.loads((CLINIC / "clinic.toml").read_text("utf-8"))
    document["title"] = title or document["title"]
    document["arms"]["names"] = arms or document["arms"]["names"]
    roles = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    *ports, own = free_ports(len(roles) + 1)
    document["policy"] |= {"batch": BATCH, "horizon": 20 * BATCH}
    document["rules"] |= {"grace": grace, "mixers": mixers}
    document["roles"] = {role: f"http://127.0.0.1:{port}" for role, port in zip(roles, ports, strict=True)}
    task, secrets = create_task(document, expect=False)
    write_task(folder, task, secrets)
    command = [str(CLINIC / "app.py"), "--task", str(folder), "--port", str(own)]
    with (
        RunningDeployment(task, folder) as running,
        served(command, f"http://127.0.0.1:{own}", folder / "clinic.log") as url,
    ):
        yield Clinic(task=task, folder=folder, url=url, running=running)


class Visit:
    """The clinic's page, and all that it has asked others for."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.asked: list[Request] = []
        context.on("request", lambda asked: self.asked.append(asked))
        self.page = context.new_page()
        self.load()

    def load(self) -> None:
        self.page.goto(self.url)
        expect(self.page.locator("#line")).to_contain_text("line,")
        if self.page.locator("#sign-in").is_visible():
            self.page.get_by_role("button", name="Sign in").click()

    def example(self, patient: str = "") -> str:
        """Fill in an example patient, of this number or of one that nobody has; the number."""
        self.page.get_by_role("button", name="Example patient").click()
        number = patient or f"T-{next(NUMBERS)}"
        self.page.get_by_label("Patient's number").fill(number)
        return number

    def act(self, patient: str = "") -> tuple[str, str]:
        """A patient is recommended a treatment: the patient's number, and the treatment."""
        page, patient = self.page, self.example(patient)
        page.get_by_role("button", name="Recommend a treatment").click()
        expect(page.locator("#advice")).to_contain_text(f"for {patient}")
        return patient, page.locator(".arm").inner_text()

    def report(self, patient: str, outcome: str = "Better") -> None:
        self.page.get_by_role("button", name=f"{outcome}: {patient}").click()
        expect(self.page.locator("#treated")).not_to_contain_text(patient)

    @property
    def bodies(self) -> list[bytes]:
        return [each.post_data_buffer or b"" for each in self.asked if each.url.endswith("/reports")]


# Pages as people meet them: checked for accessibility, kept as pictures, at four sizes and lights


DESK, PHONE = (1280, 800), (390, 844)
LIGHTS = [(DESK, False), (DESK, True), (PHONE, False), (PHONE, True)]
AXE = ROOT / "tests" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = ROOT / "build" / "screenshots"
KEPT = ROOT / "docs" / "images"
KEEPING = os.environ.get("BANDANNA_SCREENSHOTS") == "docs"  # whether pictures of the docs are made anew


def expect(what: Locator) -> LocatorAssertions:
    """Playwright's `expect`: waits until it is so, long enough for a machine that is busy."""
    from playwright.sync_api import expect as expected

    expected.set_options(timeout=PATIENCE)
    return expected(what)


def faults(page: Page) -> list[str]:
    source = AXE.read_text("utf-8") if AXE.exists() else missing("axe-core", "make test-browser, or: npm ci")
    page.evaluate(source)  # not a script of the page's: its Content-Security-Policy stays in force
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    said = [
        f"{each['id']}: {each['help']} ({'; '.join(' '.join(map(str, node['target'])) for node in each['nodes'][:3])})"
        for each in found["violations"]
    ]
    return said + ["the page must be scrolled sideways"] * bool(wide)


def named(page: str, size: tuple[int, int], dark: bool) -> str:
    return f"{page}-{'desk' if size == DESK else 'phone'}-{'dark' if dark else 'light'}"


def shoot(page: Page, name: str, *, kept: bool = False, whole: bool = True) -> Path:
    """A picture in build/screenshots; one that the docs show is written there too, if that is asked for."""
    path = SHOTS / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=whole)
    if kept and KEEPING:
        from PIL import Image

        KEPT.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.convert("RGB").quantize(128).save(KEPT / f"{name}.png", optimize=True)
    return path


# Programs that serve pages, as processes


ENV = {**os.environ, "PYTHONPATH": str(Path(bandanna.__file__).parents[1])}  # the package under test
_BEGIN = 60.0  # seconds in which a program must answer


@contextmanager
def served(command: Sequence[str], url: str, log: Path, cwd: Path = ROOT) -> Iterator[str]:
    """`python command...`, until the end of the block; its url when it answers there."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=out, cwd=cwd, env=ENV)
    try:
        end = time.monotonic() + _BEGIN
        while not _answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(command: Sequence[str], cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=cwd, env=ENV)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _answers(url: str) -> bool:
    try:
        httpx.get(url, trust_env=False, timeout=5)
    except httpx.HTTPError:
        return False
    return True
