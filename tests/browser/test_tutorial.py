"""The tutorial docs/tutorials/clinic.md, as a newcomer follows it: its commands, its clicks, and the dashboard beside.

What differs from the page: the environment is there already, all ports are free ones, and examples/ is a copy.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from bandanna.deployment.processes import free_ports

from ..docs.test_examples import command_folder
from .conftest import ROOT, Opening
from .support import CLINIC, DESK, ENV, KEEPING, LIGHTS, PHONE, Visit, expect, faults, named, shoot

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PAGE = (ROOT / "docs" / "tutorials" / "clinic.md").read_text("utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", "\n".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE)
DONE = ["make tutorial", ". .venv/bin/activate"]  # `make test-browser` has done as much
SERVED = ("bandanna serve all", "bandanna dashboard", "python examples/clinic/app.py")
ROLES = ("registrar", "analyzer", "shuffler")


class Newcomer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(5)
        *_, self._clinic, self._board = ports
        self._ports = dict(zip(("8700", "8701", "8702", "8711", "8710"), map(str, ports), strict=True))
        shutil.copytree(CLINIC, folder / "examples" / "clinic")
        (folder / "clients").symlink_to(ROOT / "clients")
        roles = "\n".join(f'{role} = "http://127.0.0.1:{port}"' for role, port in zip(ROLES, ports, strict=False))
        with (folder / "examples" / "clinic" / "clinic.toml").open("a", encoding="utf-8") as file:
            file.write(f"\n[roles]\n{roles}\n")
        shims = command_folder(folder)
        (shims / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (shims / "python").chmod(0o755)
        self._env = {**ENV, "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}"}

    def url(self, address: str) -> str:
        for told, own in self._ports.items():
            address = address.replace(f":{told}", f":{own}")
        return address

    def command(self, text: str) -> list[str]:
        more = {"bandanna dashboard": self._board, "python examples": self._clinic}
        port = next((f" --port {port}" for start, port in more.items() if text.startswith(start)), "")
        return ["bash", "-c", f"exec {self.url(text)}{port}"]

    def run(self, text: str) -> str:
        done = subprocess.run(self.command(text), cwd=self.folder, env=self._env, capture_output=True, text=True)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, text: str) -> Iterator[None]:
        """Until Ctrl-C, from when it says that it is ready."""
        log = self.folder / f"{re.sub(r'[^a-z]+', '-', text)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(self.command(text), cwd=self.folder, env=self._env, stdout=out, stderr=out)
        try:
            end = time.monotonic() + 60
            while not re.search("All roles answer|Dashboard: |Uvicorn running", log.read_text()):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


def test_the_tutorial_works_and_the_dashboard_follows(tmp_path: Path, client: Path, opening: Opening) -> None:
    assert COMMANDS[:2] == DONE
    create, serve, dashboard, page, crowd, show, export = COMMANDS[2:]
    assert [each.startswith(SERVED) for each in COMMANDS[2:]] == [False, True, True, True, False, False, False]
    newcomer = Newcomer(tmp_path)
    assert "epsilon = 0.9999" in newcomer.run(create)
    with ExitStack() as running:
        for each in (serve, dashboard, page):
            running.enter_context(newcomer.serving(each))
        visit = Visit(opening(), newcomer.url("http://127.0.0.1:8711"))
        patient, _ = visit.act()
        for size, dark in ((PHONE, True), (DESK, False)):
            _lit(visit.page, size, dark)
            visit.page.locator("#recommendation" if size == PHONE else "header").scroll_into_view_if_needed()
            shoot(visit.page, named("clinic", size, dark), kept=True, whole=size == DESK)
        visit.report(patient)

        board = opening().new_page()
        board.goto(newcomer.url("http://127.0.0.1:8710"))
        assert faults(board) == []
        board.get_by_role("link", name="Which treatment").click()
        expect(board.locator("#now")).to_contain_text("1 of 263 users")
        expect(board.locator("#now dl")).to_contain_text("Publication0")
        board.evaluate("window.untouched = true")

        assert "full: 1" in newcomer.run(crowd)
        expect(board.locator("#now dl")).to_contain_text("Publication1")
        assert board.evaluate("window.untouched")  # no reload: the page followed by itself
        told = board.locator("#now").inner_text()
        twin = httpx.get(f"{board.url}.json", trust_env=False).json()
        shown = json.loads(newcomer.run(f"{show} --json"))
        assert twin["released"]["users"] == shown["first batch"] == 263
        for name in ("status", "publication", "spent"):
            assert twin["now"][name] == shown["now"][name]
        assert f"{shown['now']['spent']:.4g}" in told
        assert f"Publication\n{shown['now']['publication']}\n" in told
        assert "Users in releases\n263\n" in told
        assert shown["promise"] in board.locator("main").inner_text()
        assert f"{shown['now']['publication']} release published" in newcomer.run(show)
        if KEEPING:  # pictures for the docs have more to show
            newcomer.run(crowd.replace("263", "2500"))
            expect(board.locator("#now dl")).to_contain_text("Publication4")
        _look(board)

        visit.act()  # on what was learned
        visit.page.close()
        board.close()
        newcomer.run(export)
    assert (tmp_path / "clinic-public").is_dir()


def _lit(page: Page, size: tuple[int, int], dark: bool) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme="dark" if dark else "light")


def _look(board: Page) -> None:
    for size, dark in LIGHTS:
        _lit(board, size, dark)
        assert faults(board) == []
        shoot(board, named("dashboard-whole", size, dark))
        shoot(board, named("dashboard", size, dark), kept=(size == DESK) != dark, whole=False)
    board.get_by_role("link", name="All releases").click()
    assert faults(board) == []
    board.locator("table a").first.click()
    assert faults(board) == []
