"""The built documentation: links, accessibility, search from disk, and tables of parameters in the API reference."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

import bandanna as bd

from .conftest import ROOT
from .support import DESK, ENV, PHONE, faults, shoot

if TYPE_CHECKING:
    from .conftest import Opening

pytestmark = pytest.mark.browser
PAGES = ["index.html", "tutorials/quickstart.html", "how-to/deploy.html", "concepts/guarantees.html"]
PAGES += ["reference/api/agent.html", "reference/cli.html", "appendix/proofs.html"]
# Faults of the theme, whose markup is not ours.
THEME = ("aria-dialog-name", "color-contrast", "landmark-unique", "link-in-text-block", "region")
THEME += ("scrollable-region-focusable",)
# Axe reads stylesheets again, which files do not allow.
FROM_AXE = ("XMLHttpRequest", "net::ERR_FAILED", "preload assets")


class Links(HTMLParser):
    """Collect the addresses that a page links to, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and ids of a start tag."""
        given = dict(attrs)
        self.addresses += [value for name in ("href", "src") if (value := given.get(name))]
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=ENV | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_internal_link_of_the_site_leads_to_a_file_and_an_anchor_that_exist(site: Path) -> None:
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, links in pages.items():
        for address in links.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address.startswith(("data:", "javascript:")):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            missing = not target.exists()
            if missing or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids):
                broken.append(f"{path.relative_to(site)}: {address}")
    assert not [each for each in broken if "__skip" not in each], broken


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"<(?:script|img|iframe)[^>]*src=\"https?://|<link[^>]*rel=\"stylesheet\"[^>]*https?://", text
        )


def exported_names() -> dict[str, Any]:
    """The classes and functions with arguments that the package and its public modules export, errors aside."""
    modules = [bd, *(found for name in dir(bd) if inspect.ismodule(found := getattr(bd, name)))]
    found: dict[str, Any] = {}
    for thing in (getattr(module, name) for module in modules for name in getattr(module, "__all__", ())):
        ours = callable(thing) and thing.__module__.startswith("bandanna")
        if ours and not (isinstance(thing, type) and issubclass(thing, Exception)):
            parameters = inspect.signature(thing).parameters.values()
            if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


def test_the_api_reference_shows_a_table_of_parameters_for_every_exported_class_and_function(site: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((site / "reference/api").glob("*.html")))
    blocks = dict(re.findall(r'<h[1-6] id="(bandanna[\w.]+)"(.*?)(?=<h[1-6] id="bandanna|\Z)', text, re.DOTALL))
    without = [name for name in exported_names() if "doc-section-title" not in blocks.get(name, "")]
    assert not without


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_of_the_site_are_accessible_and_not_wider_than_the_screen(
    site: Path, opening: Opening, size: tuple[int, int], dark: bool
) -> None:
    page = opening(size=size, dark=dark, expected=FROM_AXE).new_page()
    for name in PAGES:
        page.goto((site / name).as_uri())
        found = [each for each in faults(page) if not each.startswith(THEME)]
        assert not found, (name, found)
        if name == "index.html":
            shoot(page, f"site-{'desk' if size == DESK else 'phone'}-{'dark' if dark else 'light'}", whole=False)


def test_search_works_from_disk(site: Path, opening: Opening) -> None:
    page = opening().new_page()
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.locator("input.md-search__input").first.press_sequentially("epsilon")
    page.locator(".md-search-result__link").first.wait_for(state="attached")
