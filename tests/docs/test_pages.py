"""Pages that the documentation leads to are there: in its navigation, and wherever a link points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bandanna

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAV = re.findall(r"^ +- (?:[^:]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")
FENCED = re.compile(r"^([ \t]*)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What a link may name: headings as mkdocs spells them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", each)).strip().lower() for each in headings]
    return {re.sub(r"[-\s]+", "-", each) for each in plain}


def test_the_navigation_has_every_page_once() -> None:
    assert sorted(NAV) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link leads to a file or a heading that is not there."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    lost = []
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        aim = (page.parent / target) if target else page
        if not aim.exists() or (anchor and aim.suffix == ".md" and anchor not in anchors(aim)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name)
def test_the_first_page_says_who_is_trusted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    first = " ".join(text.partition("\n## ")[0].split())
    for words in (
        "Central model**: one server sees the data of all users",
        "Users trust the shuffler",
        "Users trust their own device only",
        "that process sees all data, and users must trust it",
    ):
        assert words in first
    examples = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "bd.Agent(" in block]
    assert examples
    for block in examples:
        assert "bd.central(" in block
        assert not re.search(r"bd\.(shuffle|local|concurrent)\(", block)
    assert "nobody can be recognised" not in text


def test_links_of_llms_txt_lead_to_pages() -> None:
    links = re.findall(r"\]\(([\w/.-]+)\)", (DOCS / "llms.txt").read_text(encoding="utf-8"))
    assert [each for each in links if not (DOCS / each.replace(".html", ".md")).is_file()] == []
    pages = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES}
    assert {page for page in pages if page.split("/")[0] in ("how-to", "concepts")} <= set(links)


def test_every_alert_is_on_the_page_for_operators() -> None:
    rules = (ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")
    page = (DOCS / "how-to" / "operate.md").read_text(encoding="utf-8")
    assert set(re.findall(r"alert: (\w+)", rules)) == set(re.findall(r"^\| `(Bandanna\w+)` \|", page, re.MULTILINE))


@pytest.mark.parametrize("page", ["llms.txt", "concepts/for-privacy-officers.md"])
def test_a_page_that_names_the_version_names_the_present_one(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.findall(r"\b\d+\.\d+\.\d+\b", text) == [bandanna.__version__]
