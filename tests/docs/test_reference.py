"""Every public module has its page in the reference, and every public name is on one."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import bandanna

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
ELSEWHERE = {"__init__", "__main__", "cli"}  # commands are described in docs/cli.md
MODULES = sorted(
    path.stem
    for path in (ROOT / "src" / "bandanna").iterdir()
    if (path.suffix == ".py" or (path / "__init__.py").is_file()) and path.stem not in ELSEWHERE
)


def documented(page: Path) -> list[str]:
    """The modules whose docstrings a page shows."""
    return re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def shown(home: str, listed: set[str]) -> bool:
    """Whether a module, or its package, is on a page."""
    return home in listed or any(home.startswith(each + ".") for each in listed if each.count(".") > 1)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_page(module: str) -> None:
    """A module of the package has no page in the reference, or nobody finds it."""
    page = PAGES / f"{module}.md"
    assert page.is_file(), f"docs/reference/{module}.md is missing"
    assert documented(page)
    assert f"reference/{module}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"(reference/{module}.md)" in (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_pages_are_about_modules_that_exist() -> None:
    """A page is about nothing, or shows a module that is not there, or one of another page."""
    for page in PAGES.glob("*.md"):
        assert page.stem in MODULES
        for each in documented(page):
            assert each.split(".")[1] == page.stem
            importlib.import_module(each)


def test_every_public_name_is_on_a_page() -> None:
    """A name that `import bandanna` or one of its public folders offers is in no page of the reference."""
    listed = {each for page in PAGES.glob("*.md") for each in documented(page)}
    missing = set()
    for place in (bandanna, *(getattr(bandanna, name) for name in bandanna.__all__)):
        if not inspect.ismodule(place):
            continue
        for name in getattr(place, "__all__", ()):
            home = getattr(getattr(place, name), "__module__", "")
            if home.startswith("bandanna") and not shown(home, listed):
                missing.add(f"{place.__name__}.{name}, of {home}")
    assert not missing, "\n".join(sorted(missing))
