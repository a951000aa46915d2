"""Check the words of the documentation and of docstrings.

    python -m tools.words            documentation and docstrings
    python -m tools.words --docs     documentation only
    python -m tools.words --src      docstrings only
    python -m tools.words --count    print the words of each page, and of all docstrings

Rules:

opening      a sentence begins with Of, What, Who or Whoever; headings, and cells of tables that are questions, may
house word   a word that the glossary has replaced
short        a docstring has fewer than four words
long         a page outside of reference and appendix has more than 1,800 words
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "bandanna"
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")]
LONGEST, SHORTEST = 1_800, 4

OPENING = re.compile(r"(?:Of|What|Who|Whoever)\b")
HOUSE_WORDS = {  # the word, and what to write instead
    r"trust models?": "privacy model",
    r"who(?:m)?ever": "the party, or any party that",
    r"somebody|someone": "a user, a party",
    r"told(?! apart| from)": "reported, sent, shown",
    r"is asked|are asked|was asked|were asked": "is queried, is requested",
    r"for ever": "without limit, permanently",
    r"episodes? that is over": "a released batch",
    r"report of nothing": "report of zeros",
    r"in one's own": "in your own",
}
_HOUSE = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): instead for word, instead in HOUSE_WORDS.items()}
_FENCE = re.compile(r"^([ \t]*)(```|~~~).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_][\w'’.-]*")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A place that breaks a rule."""

    path: Path
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        """Return the place, the rule, and the words."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {self.words}"


def count_words(text: str) -> int:
    """Return the number of words of a page, fenced code and markup left out."""
    return len(_WORD.findall(_LINK.sub(r"\1", _COMMENT.sub("", _FENCE.sub("", text)))))


def _blank(found: re.Match[str]) -> str:
    """Return as many empty lines as the text has."""
    return "\n" * found[0].count("\n")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [part.strip(" *_\"'(") for part in re.split(r"(?<=[.!?:;])\s+", text) if part.strip()]


def read_units(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text and whether it may be a question, for each cell, item and paragraph of a page."""
    plain = _CODE.sub(
        "`code`", _LINK.sub(r"\1", _COMMENT.sub(_blank, _GENERATED.sub(_blank, _FENCE.sub(_blank, text))))
    )
    paragraph: list[str] = []
    start = 0
    for number, line in enumerate([*plain.splitlines(), ""], start=1):
        stripped = line.strip()
        alone = not stripped or stripped.startswith(("|", "#"))
        begins = re.match(r"(?:[-*]|\d+\.)\s+", stripped)
        if paragraph and (alone or begins):
            yield start, " ".join(paragraph), False
            paragraph = []
        if stripped.startswith("|"):
            for cell in stripped.strip("|").split(" | "):
                yield number, cell.strip(), True
        elif stripped.startswith("#"):
            continue  # a heading may be a question, or a noun clause
        elif stripped:
            if not paragraph:
                start = number
            paragraph.append(stripped[begins.end() :] if begins else stripped)


def check_text(path: Path, line: int, text: str, *, questions: bool) -> Iterator[Finding]:
    """Yield what is wrong with the words of a text."""
    for sentence in split_sentences(text):
        if OPENING.match(sentence) and not (questions and sentence.endswith("?")):
            yield Finding(path=path, line=line, rule="opening", words=sentence[:60])
    for pattern, instead in _HOUSE.items():
        for found in pattern.finditer(text):
            yield Finding(path=path, line=line, rule="house word", words=f"{found[0]} (write: {instead})")


def check_page(path: Path) -> Iterator[Finding]:
    """Yield what is wrong with a page."""
    text = path.read_text(encoding="utf-8")
    for line, unit, questions in read_units(text):
        yield from check_text(path, line, unit, questions=questions)
    free = path.parent == ROOT or {"reference", "appendix"} & set(path.relative_to(DOCS).parts)
    if not free and (words := count_words(text)) > LONGEST:
        yield Finding(path=path, line=1, rule="long", words=f"{words} words, at most {LONGEST}")


def read_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=True)
            if text is not None:
                yield getattr(node, "lineno", 1), text


def check_module(path: Path) -> Iterator[Finding]:
    """Yield what is wrong with the docstrings of a module."""
    for line, text in read_docstrings(path):
        if len(_WORD.findall(text)) < SHORTEST:
            yield Finding(path=path, line=line, rule="short", words=text)
        for paragraph in re.split(r"\n\s*\n", text):
            words = _CODE.sub("`code`", " ".join(paragraph.split()))
            yield from check_text(path, line, words, questions=False)


def list_pages() -> list[Path]:
    """Return the pages of the documentation."""
    return [page for page in PAGES if page.exists()] + sorted(DOCS.rglob("*.md"))


def check(*, docs: bool, source: bool) -> list[Finding]:
    """Return all findings."""
    found = [each for page in list_pages() for each in check_page(page)] if docs else []
    if source:
        found += [each for path in sorted(SOURCE.rglob("*.py")) for each in check_module(path)]
    return found


def print_counts() -> None:
    """Print the words of each page, tables of the appendix left out, and of all docstrings."""
    pages = {}
    for page in list_pages():
        text = page.read_text(encoding="utf-8")
        pages[page] = count_words(_TABLE.sub("", text) if "appendix" in page.parts else text)
    for page, words in pages.items():
        print(f"{words:7,} {page.relative_to(ROOT)}")
    proofs = sum(words for page, words in pages.items() if page.name == "proofs.md")
    print(f"{sum(pages.values()) - proofs:7,} pages without the proofs ({proofs:,})")
    docstrings = [text for path in SOURCE.rglob("*.py") for _, text in read_docstrings(path)]
    print(f"{sum(len(text.split()) for text in docstrings):7,} words in {len(docstrings):,} docstrings")


def main(arguments: list[str]) -> int:
    """Print findings, or counts; return the exit code."""
    if arguments == ["--count"]:
        print_counts()
        return 0
    found = check(docs="--src" not in arguments, source="--docs" not in arguments)
    for each in found:
        print(each)
    if found:
        rules = {each.rule for each in found}
        parts = [f"{sum(each.rule == rule for each in found)} {rule}" for rule in sorted(rules)]
        print(f"{len(found)} findings: {', '.join(parts)}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
