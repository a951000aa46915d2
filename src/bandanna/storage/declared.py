"""The declared types of a dataclass's fields, as a schema for what a file says of them."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np


def checked(kind: type, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass, each of its declared type; ValueError for a wrong type and for a foreign field.

    A whole number that was given as a float, as 20.0, becomes the integer that it is, and a number where an array
    belongs one without axes.
    """
    hints, made = _hints(kind), {}
    for name, value in parts.items():
        if name not in hints:
            raise ValueError(f"{kind.__name__} has no field {name[:40]!r}")
        hint = hints[name]
        whole = hint is int and type(value) is float and value.is_integer()
        made[name] = int(value) if whole else value
        if not conforms(made[name], hint):
            raise ValueError(f"{kind.__name__}.{name} is a {type(value).__name__}, which is not what belongs there")
        if typing.get_origin(hint) is np.ndarray:
            made[name] = np.asarray(value)
    return made


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; truth values are no numbers, whole numbers are floats too."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(conforms(value, one) for one in inside)
    if origin is np.ndarray:
        return _fits_array(value, typing.get_args(inside[1])[0])
    if origin is tuple and inside[-1] is Ellipsis:
        return isinstance(value, tuple) and all(conforms(part, inside[0]) for part in value)
    if origin is tuple:
        fits = isinstance(value, tuple) and len(value) == len(inside)
        return fits and all(conforms(part, one) for part, one in zip(value, inside, strict=True))
    if origin is dict:
        items = value.items() if isinstance(value, dict) else [(None, None)]
        return all(conforms(key, inside[0]) and conforms(part, inside[1]) for key, part in items)
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)
    if hint in (bool, int, str):
        return type(value) is hint
    return hint is Any or isinstance(value, type(None) if hint is None else hint)


def _fits_array(value: Any, number: Any) -> bool:
    """Numbers of the declared kind; an array without axes is written as a number."""
    if type(value) in (bool, int, float):
        return bool(np.asarray(value).dtype == number)
    return isinstance(value, np.ndarray) and value.dtype == number


def kinds_of(*hints: Any) -> dict[str, type]:
    """The dataclasses that values of declared types are made of, each by its module's last name and its own.

    >>> from bandanna.core.estimate import Estimate
    >>> sorted(kinds_of(tuple[Estimate, ...], float | None))
    ['estimate.Estimate']
    """
    found: dict[str, type] = {}
    seen = set[type]()
    for kind in (each for hint in hints for part in _types(hint) for each in _inside(part, seen)):
        name = name_of(kind)
        if name in found:
            raise ValueError(f"two kinds of value are called {name}: {found[name].__module__} and {kind.__module__}")
        found[name] = kind
    return found


def name_of(kind: type) -> str:
    """Its module's last name and its own."""
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"


def _inside(kind: type, seen: set[type]) -> Iterator[type]:
    """Dataclasses in a type, those of their fields and those made from it included; each once, and then in `seen`."""
    if kind in seen:
        return
    seen.add(kind)
    if is_dataclass(kind):
        yield kind
    made_from: list[type] = [] if kind.__module__ == "builtins" else kind.__subclasses__()
    for part in (*_parts(kind), *made_from):
        yield from _inside(part, seen)


@lru_cache(maxsize=1024)
def _parts(kind: type) -> tuple[type, ...]:
    """The types that a dataclass's fields are declared with."""
    return tuple(part for hint in _hints(kind).values() for part in _types(hint)) if is_dataclass(kind) else ()


def _types(hint: Any) -> Iterator[type]:
    """Of which a declared type is made: A, B and C of tuple[A, ...] | dict[B, C]."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
        return
    for part in typing.get_args(hint):
        yield from _types(part)


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}
