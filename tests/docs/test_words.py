"""The linter for words finds what its rules name, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import words


def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "page.md") -> list[str]:
    """Return the rules that a page breaks."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "DOCS", tmp_path / "docs")
    page = tmp_path / "docs" / name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return [each.rule for each in words.check_page(page)]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("The server adds noise.", []),
        ("The server adds noise. What it sees is clipped.", ["opening"]),
        ("- Of all sums one is released.", ["opening"]),
        ("# What is private?\n", []),
        ("# What is private\n", []),
        ("| What is private? | sums |\n| --- | --- |\n", []),
        ("| What it sees | sums |\n", ["opening"]),
        ("A *who sees what* table. `What` is code.", []),
        ("```text\nWhat is printed is not prose.\n```\n", []),
        ("Whoever has the key reads it.", ["opening", "house word"]),
        ("The central trust model.", ["house word"]),
        ("[Who sees what](page.md) is a link that opens a sentence.", ["opening"]),
    ],
)
def test_a_page_is_checked_sentence_by_sentence(
    text: str, rules: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(tmp_path, monkeypatch, text) == rules


def test_a_long_page_is_found_outside_of_reference_and_appendix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "word " * 1801
    assert findings(tmp_path, monkeypatch, text) == ["long"]
    assert findings(tmp_path, monkeypatch, text, "reference/page.md") == []
    assert findings(tmp_path, monkeypatch, "word " * 1800) == []


def test_docstrings_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of a module with words."""\n\n\ndef run():\n    """Run it."""\n', encoding="utf-8")
    assert [each.rule for each in words.check_module(module)] == ["opening", "short"]


def test_code_and_markup_are_no_words() -> None:
    assert (
        words.count_words("# A title\n\n| a | b |\n| --- | --- |\n\n```python\nx = 1\n```\n[link text](page.md)\n") == 6
    )


def test_the_documentation_follows_the_rules() -> None:
    assert [str(each) for each in words.check(docs=True, source=False)] == []
