"""A real Chromium for tests that carry the marker `browser`.

They run by `make test-browser`. Where Chromium, Node or what npm installs is missing they are skipped, by a message
that names the command to install it; with BANDANNA_BROWSER=required, as in `.ci/run`, they fail. Nothing here imports
Playwright before it is used: `make test` has none, and collects these files too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60_000  # milliseconds until something that is awaited has failed
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

Opening = Callable[..., "BrowserContext"]


def missing(what: str, command: str) -> Any:
    said = f"{what} is not installed: {command}"
    if os.environ.get("BANDANNA_BROWSER") == "required":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)


@pytest.fixture(scope="session")
def node() -> str:
    return shutil.which("node") or missing("Node.js", "make test-browser installs it, or: apt install nodejs npm")


@pytest.fixture(scope="session")
def client() -> Path:
    path = ROOT / "clients" / "js" / "dist" / "bandanna.mjs"
    return path if path.exists() else missing("the browser client", "make client")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The machine's own, without a window. Not for longer than a file: while it runs, asyncio.run cannot."""
    given = os.environ.get("BANDANNA_CHROMIUM")
    path = given or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing("Chromium", "apt install chromium (or name one: BANDANNA_CHROMIUM=/path/to/chrome)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright", "make test-browser, or: pip install 'bandanna[browser]'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opening(chromium: Browser) -> Iterator[Opening]:
    """Browsers with cookies and storage of their own; whatever a page complains about fails the test at its end.

    opening(size=(390, 844), dark=True) is a phone in the dark. Complaints that a test provokes are named beforehand:
    opening(expected=("net::ERR_FAILED",)).
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(*, size: tuple[int, int] = (1280, 800), dark: bool = False, expected: tuple[str, ...] = ()) -> Any:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            is_mobile=size[0] < 600,
            has_touch=size[0] < 600,
        )
        context.set_default_timeout(PATIENCE)

        def complain(kind: str, text: str) -> None:
            if not any(each in text for each in expected):
                complaints.append(f"{kind}: {text}")

        context.on("console", lambda said: said.type in ("error", "warning") and complain(said.type, said.text))
        context.on("weberror", lambda error: complain("uncaught", str(error.error)))
        contexts.append(context)
        return context

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
