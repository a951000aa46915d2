"""Extras that pages and messages name can be installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
TEXTS = ("*.md", "docs/**/*.md", "examples/**/*.*", "deploy/**/*.*", "src/**/*.py", "clients/js/src/*.ts", "Makefile")
NAMED = (
    re.compile(r"(?:bandanna|pip install '?\.)\[([\w, -]+)\]"),  # bandanna[...] and '.[...]'
    re.compile(r"\bextra `(\w+)`"),
    re.compile(r'MissingExtra\("(\w+)"'),
)


def named(text: str) -> set[str]:
    """The extras that a text names."""
    return {each.strip() for form in NAMED for found in form.findall(text) for each in found.split(",")}


def test_extras_that_are_named_exist() -> None:
    files = [path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()]
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in files}
    unknown = {str(path.relative_to(ROOT)): left for path, text in texts.items() if (left := named(text) - EXTRAS)}
    assert unknown == {}
    assert len({each for text in texts.values() for each in named(text)}) > 4  # something was found


def test_every_way_to_name_an_extra_is_seen() -> None:
    text = 'bandanna[one,two], pip install .[three], the extra `four`, bandanna[five, six], MissingExtra("x", "y")'
    assert named(text) == {"one", "two", "three", "four", "five", "six", "x"}


def test_every_extra_for_users_is_explained() -> None:
    ours = {"all", "test", "browser", "check", "docs", "dist", "supply"}
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    assert [each for each in sorted(EXTRAS - ours) if f"| `{each}` |" not in page] == []
