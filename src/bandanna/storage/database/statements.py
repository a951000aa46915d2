"""Portable SQL: statements apart, types and placeholders as a dialect has them, values that every dialect keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from bandanna.errors import InvalidArgument

_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|[?;]|\{\w*\}""")
_KINDS = frozenset({int, bool, float, str, bytes, type(None)})
_ALLOWED = "None, text without NUL, bytes, 64-bit integers and floats that are numbers; plain ones, no arrays"


def statements(script: str, types: Mapping[str, str]) -> list[str]:
    """The statements of a script, with `{blob}` and others replaced by what a dialect calls them."""

    def placed(found: re.Match[str]) -> str:
        part = found[0]
        if part == ";":
            return "\0"
        if part[0] != "{":
            return "" if part.startswith("--") else part
        if part[1:-1] not in types:
            raise InvalidArgument("schema", part, "the placeholders " + ", ".join(f"{{{name}}}" for name in types))
        return types[part[1:-1]]

    return [one.strip() for one in _PARTS.sub(placed, script).split("\0") if one.strip()]


@lru_cache(maxsize=512)
def numbered(sql: str) -> str:
    """The statement with $1, $2, ... for its question marks; those in texts and names stay."""
    count = 0

    def placed(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] != "?":
            return found[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(placed, sql)


def check(values: Sequence[Any]) -> None:
    """Refuse what some dialect would store as something else."""
    for value in values:
        kind = type(value)
        if kind not in _KINDS or value != value:  # NaN
            raise InvalidArgument("value to store", value, _ALLOWED)
        if kind is int and not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgument("value to store", value, _ALLOWED)
        if kind is str and ("\0" in value or _half(value)):
            raise InvalidArgument("value to store", value, _ALLOWED)


def checked(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Rows of values, of which none would be stored as something else."""
    listed = list(rows)
    lengths = {len(row) for row in listed}
    for column in zip(*listed, strict=True) if len(lengths) == 1 else listed:  # by columns: most are of one kind
        kinds = set(map(type, column))
        if kinds == {int}:
            check((min(column), max(column)))
        elif kinds != {bytes}:
            check(column)
    return listed


def _half(text: str) -> bool:
    """Whether it holds half a character (a lone surrogate), which no encoding has."""
    return not text.isascii() and text.encode(errors="replace").decode() != text
