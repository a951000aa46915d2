"""Checks of tables read from files: errors name the key with its table, and what is allowed there."""

from __future__ import annotations

import difflib
import math
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

from bandanna.errors import BandannaError, InvalidArgument

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word in quotes"}


def keys(table: Mapping[str, Any], where: str, known: Iterable[str], needed: Iterable[str] = ()) -> dict[str, Any]:
    """The table, if all its keys are known and the needed ones are there."""
    prefix = f"{where}." if where else ""
    owner = f" of {table['name']}" if isinstance(table.get("name"), str) else ""
    for key, value in table.items():
        if key not in list(known):
            shown = "a table" if isinstance(value, Mapping) else value
            raise InvalidArgument(f"{prefix}{key}", shown, f"unknown key{owner}, " + suggest(key, known, "known are"))
    for key in needed:
        if key not in table:
            raise BandannaError(f"{prefix}{key} is missing: needed are {', '.join(needed)}")
    return dict(table)


def typed(where: str, value: Any, wanted: Any) -> Any:
    """The value, if it is of the wanted type; types that have no word of their own are checked by their owners."""
    kinds = [kind for kind in typing.get_args(wanted) or (wanted,) if kind is not type(None)]
    if len(kinds) != 1 or kinds[0] not in _WORDS:
        return value
    kind = kinds[0]
    number = isinstance(value, Real) and not isinstance(value, bool)
    fits = number if kind in (int, float) else isinstance(value, kind)
    if not fits or (kind is int and not float(value).is_integer()) or (number and math.isnan(value)):
        raise InvalidArgument(where, value, _WORDS[kind])
    return value


def suggest(word: Any, known: Iterable[str], words: str) -> str:
    """What is known, and first what the word resembles."""
    begun = [each for each in known if str(word) and each.startswith(str(word))]
    close = begun or difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return (f"did you mean {close[0]}? " if close else "") + f"{words} {', '.join(known)}"


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Errors about an argument name its place too."""
    try:
        yield
    except InvalidArgument as error:
        raise type(error)(f"{where}{error.argument}", error.value, error.allowed) from error
    except BandannaError as error:
        raise BandannaError(f"{where.rstrip('.: ')}: {error}") from error
