"""The front page of examples/news in Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bandanna.deployment.processes import free_ports

from .conftest import ROOT, Opening
from .support import DESK, LIGHTS, expect, faults, named, run, served, shoot

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page, which 300 readers have seen."""
    folder, (port,) = tmp_path_factory.mktemp("news"), free_ports(1)
    command = [str(ROOT / "examples/news/app.py"), "--save", str(folder / "a"), "--port", str(port)]
    with served(command, f"http://127.0.0.1:{port}", folder / "log") as url:
        run([str(ROOT / "examples/news/readers.py"), "--url", url, "--readers", "300"])
        yield url


@pytest.mark.parametrize(("size", "dark"), LIGHTS)
def test_a_reader_can_choose_a_headline_at_every_size(
    news: str, opening: Opening, size: tuple[int, int], dark: bool
) -> None:
    page = opening(size=size, dark=dark).new_page()
    page.goto(news)
    headline = page.locator(".lead button").inner_text()
    assert "decision=" in (page.locator(".lead").get_attribute("action") or "")
    assert faults(page) == []
    shoot(page, named("news", size, dark), kept=size == DESK and not dark)
    page.get_by_role("button", name=headline).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(headline)
    assert faults(page) == []
    page.get_by_role("link", name="The Daily Bandanna").click()
    expect(page.locator(".lead button")).to_be_visible()


def test_cookies_are_for_the_server(news: str, opening: Opening) -> None:
    context = opening()
    page = context.new_page()
    page.goto(news)
    (cookie,) = context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("reader", True, "Lax")
    page.get_by_role("button", name="come back as another reader").click()
    (other,) = context.cookies()
    assert other["value"] != cookie["value"]
