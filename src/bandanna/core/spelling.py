"""Misspelt words: what an error says first about a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

_NEAR = 0.65  # resemblance, from 0 to 1, below which a word is not meant


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """A question with the nearest known word, to stand before all of them; nothing where none is near."""
    close = nearest(word, known)
    return f"did you mean {close!r}? " if close else ""


def similar_column(name: str, columns: Sequence[Any]) -> str:
    """Where a column of a similar name is; its name is not told, because it may be a cell of a file without header."""
    close = nearest(name, [each for each in columns if isinstance(each, str)])
    return f"column {list(columns).index(close)} has a similar name; " if close else ""


def nearest(word: Any, known: Iterable[str]) -> str:
    """The known word that is meant; an empty one where none is near."""
    if not isinstance(word, str) or not 0 < len(word) <= 100:  # comparing a long text takes its time
        return ""
    resemblance = {each: _resemblance(word.lower(), each.lower()) for each in known}
    close = max(resemblance, key=resemblance.__getitem__, default="")
    return close if close and resemblance[close] >= _NEAR else ""


def _resemblance(word: str, known: str) -> float:
    """With the known word or, nearly as good, with its beginning: the end may be missing."""
    begun = SequenceMatcher(None, word, known[: len(word)]).ratio()
    return max(SequenceMatcher(None, word, known).ratio(), 0.97 * begun)
