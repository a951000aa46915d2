"""Generated parts of the documentation are up to date: `python -m tools.pages` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages import DOCS, PARTS, REGION, fill, list_commands, list_packages

PAGES = [page for page in sorted(DOCS.rglob("*.md")) if REGION.search(page.read_text(encoding="utf-8"))]
ARGUMENTS = {(found[2], found[3] or "") for page in PAGES for found in REGION.finditer(page.read_text("utf-8"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_generated_parts_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text


def test_every_generated_part_is_on_a_page() -> None:
    assert {name for name, _ in ARGUMENTS} == set(PARTS)


def test_every_command_and_package_has_its_part() -> None:
    assert {path for name, path in ARGUMENTS if name == "command"} == set(list_commands())
    assert {package for name, package in ARGUMENTS if name == "api"} == set(list_packages())


def test_a_changed_part_is_written_anew() -> None:
    page = "before\n<!-- generated: algorithms -->\nold\n<!-- end -->\nafter\n"
    filled = fill(page)
    assert "old" not in filled
    assert filled.startswith("before\n<!-- generated")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "`LinTS-SDP`" in filled
