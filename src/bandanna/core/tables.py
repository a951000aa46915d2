"""Checks of tables read from files: errors name the key with its table, and what is allowed there."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bandanna.core import require
from bandanna.core.spelling import did_you_mean
from bandanna.errors import BandannaError, InvalidArgument

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word in quotes"}


def read_toml(path: Path) -> dict[str, Any]:
    """The document of a TOML file; errors begin with its name."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BandannaError(f"{path} is not a text file in UTF-8: its byte {error.start:,} is none") from error
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except ValueError as error:  # a number of too many digits is one too
        last = f"at line {max(1, len(text.splitlines()))}, the end of the file"
        raise BandannaError(f"{path}: bad TOML: {str(error).replace('at end of document', last)}") from error
    except RecursionError as error:
        raise BandannaError(f"{path}: bad TOML: too many brackets inside each other") from error


def keys(table: Mapping[str, Any], where: str, known: Iterable[str], needed: Iterable[str] = ()) -> dict[str, Any]:
    """The table, if all its keys are known and the needed ones are there."""
    prefix = f"{where}." if where else ""
    owner = f" of {table['name']}" if isinstance(table.get("name"), str) else ""
    for key, value in table.items():
        if key not in list(known):
            shown = "a table" if isinstance(value, Mapping) else value
            allowed = f"unknown key{owner}, {did_you_mean(key, known)}known are {', '.join(known)}"
            raise InvalidArgument(f"{prefix}{key}", shown, allowed)
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
    if kind in (int, float):
        fits = require.real(where, value, _WORDS[kind]).is_integer() or kind is float
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise InvalidArgument(where, value, _WORDS[kind])
    return value


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Errors about an argument name its place too."""
    try:
        yield
    except InvalidArgument as error:
        raise type(error)(f"{where}{error.argument}", error.value, error.allowed) from error
    except BandannaError as error:
        raise BandannaError(f"{where.rstrip('.: ')}: {error}") from error
