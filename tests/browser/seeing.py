"""Pages as people meet them: checked for accessibility, kept as pictures, at four sizes and lights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conftest import PATIENCE, ROOT, missing

if TYPE_CHECKING:
    from playwright.sync_api import Locator, LocatorAssertions, Page

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
    """What axe-core finds wrong with a page, and a page that is wider than its screen."""
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
    """Of a picture."""
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
