"""The dashboard's other pages in Chromium: the list of tasks, the administrator's, a task that is attacked.

The pages of a running task are looked at in test_tutorial.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bandanna.deployment.processes import free_ports

from .conftest import Opening
from .support import LIGHTS, clinic, expect, faults, named, served, shoot

pytestmark = pytest.mark.browser

TOKEN = "an-administrators-token"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, (port,) = tmp_path_factory.mktemp("board"), free_ports(1)
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    with clinic(folder / "task", title=EVIL, arms=[f"{EVIL}{number}" for number in range(4)]) as running:
        running.crowd()
        command = ["-m", "bandanna", "dashboard", str(running.folder)]
        more = ["--port", str(port), "--token-file", str(folder / "token")]
        with served([*command, *more], f"http://127.0.0.1:{port}", folder / "log") as url:
            yield url


@pytest.mark.parametrize(("size", "dark"), LIGHTS)
def test_the_list_of_tasks_is_accessible(board: str, opening: Opening, size: tuple[int, int], dark: bool) -> None:
    page = opening(size=size, dark=dark).new_page()
    page.goto(board)
    assert faults(page) == []
    shoot(page, named("dashboard-overview", size, dark))


def test_titles_and_arms_are_shown_as_texts(board: str, opening: Opening) -> None:
    page = opening().new_page()
    page.goto(board)
    page.locator("a[href^='/tasks/']").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    assert page.locator("script:not([src]), img").count() == 0
    assert "onerror=alert(2)>3" in page.locator("main").text_content()
    assert faults(page) == []
    page.get_by_role("link", name="All releases").click()
    assert faults(page) == []


def test_only_administrators_see_refusals(board: str, opening: Opening) -> None:
    context = opening(expected=("401",))
    page = context.new_page()
    page.goto(board)
    page.get_by_role("link", name="Log in").click()
    assert faults(page) == []
    for token, inside in (("another", False), (TOKEN, True)):
        page.get_by_label("Administrator's token").fill(token)
        page.get_by_role("button", name="Log in").click()
        assert bool(context.cookies()) == inside
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.locator("a[href^='/tasks/']").first.click()
    expect(page.locator("#inside")).to_contain_text("Not public")
    assert faults(page) == []
    page.get_by_role("button", name="Log out").click()
    page.goto(board)
    page.locator("a[href^='/tasks/']").first.click()
    assert page.locator("#inside").count() == 0
