"""Every public module has its page in the reference, and every public name is on one."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import bandanna

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "api"
GLOSSARY = PAGES.parent / "glossary.md"
ELSEWHERE = {"__init__", "__main__", "_lazy", "cli"}  # commands are described in docs/reference/cli.md
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
    page = PAGES / f"{module}.md"
    assert page.is_file(), f"docs/reference/api/{module}.md is missing"
    assert documented(page)
    assert f"reference/api/{module}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"(api/{module}.md)" in (PAGES.parent / "api.md").read_text(encoding="utf-8")


def test_pages_are_about_modules_that_exist() -> None:
    for page in sorted(PAGES.glob("*.md")):
        assert page.stem in MODULES
        for each in documented(page):
            assert each.split(".")[1] == page.stem
            importlib.import_module(each)


def test_every_public_name_is_on_a_page() -> None:
    listed = {each for page in PAGES.glob("*.md") for each in documented(page)}
    missing = set()
    for place in (bandanna, *(getattr(bandanna, name) for name in dir(bandanna))):
        if not inspect.ismodule(place):
            continue
        for name in getattr(place, "__all__", ()):
            home = getattr(getattr(place, name), "__module__", "")
            if home.startswith("bandanna") and not shown(home, listed):
                missing.add(f"{place.__name__}.{name}, of {home}")
    assert not missing, "\n".join(sorted(missing))


def glossary_rows() -> list[tuple[str, str, str]]:
    """The rows of the glossary: term, meaning, modules."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [row for row in rows if row[0] not in ("term", "---")]


def test_the_glossary_defines_each_term_once() -> None:
    """Each term has one row, and the terms of a table are in alphabetical order."""
    tables = [
        re.findall(r"^\| (.+?) \|", part, re.MULTILINE)[2:]
        for part in GLOSSARY.read_text(encoding="utf-8").split("\n## ")[1:]
    ]
    assert all(terms == sorted(terms, key=str.lower) for terms in tables)
    terms = [term for term, _, _ in glossary_rows()]
    assert len(terms) == sum(map(len, tables)) >= 50
    assert len(terms) == len({term.lower() for term in terms})


@pytest.mark.parametrize(("term", "modules"), [(term, modules) for term, _, modules in glossary_rows()])
def test_the_glossary_names_modules_that_exist(term: str, modules: str) -> None:
    named = re.findall(r"`([\w/]+)`", modules)
    assert named, term
    for each in named:
        importlib.import_module("bandanna." + each.replace("/", "."))
