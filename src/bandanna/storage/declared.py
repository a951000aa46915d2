"""The names under which classes are saved and sent, and the declared types of their fields as a schema of files."""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import isabstract
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from bandanna.errors import BandannaError, InvalidArgument

Kind = TypeVar("Kind", bound=type)

_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_KINDS: WeakValueDictionary[str, type] = WeakValueDictionary()  # every class that has a name
_registered: list[str] = []  # every name, as often as a class took it


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


def stored_as(name: str) -> Callable[[Kind], Kind]:
    """Give a class the name under which its values are saved and sent; a subclass needs a name of its own.

    >>> from dataclasses import dataclass
    >>> @stored_as("Tally")
    ... @dataclass(frozen=True, kw_only=True)
    ... class Tally:
    ...     total: int
    >>> name_of(Tally)
    'Tally'

    The name is part of the format of files and messages, so it stays when the class or its module is renamed. A class
    that is defined again in the same module, as in a notebook, replaces its earlier definition.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", name, 'letters and digits that begin with a capital, as in "LinTSState"')

    def named(kind: Kind) -> Kind:
        other = _KINDS.get(name)
        if other is not None and not _replaces(kind, other):
            raise InvalidArgument("name", name, f"a name that is not taken: {_place(other)} has this one")
        kind._stored_as = name  # type: ignore[attr-defined]
        _KINDS[name] = kind
        _registered.append(name)
        return kind

    return named


def has_name(kind: type) -> bool:
    """Whether a class itself, not a class that it is made from, has a name to be stored under."""
    return "_stored_as" in vars(kind)


def name_of(kind: type) -> str:
    """The name that `stored_as` gave to a class; an error says how to give one."""
    if not has_name(kind):
        name = kind.__name__.strip("_")
        raise BandannaError(
            f'{_place(kind)} cannot be saved or sent without a name: write @bd.stored_as("{name}") above the class'
        )
    return str(vars(kind)["_stored_as"])


def by_name(*kinds: type) -> dict[str, type]:
    """Classes by their stored names, for an `Encoding`."""
    return {name_of(kind): kind for kind in kinds}


def registrations() -> int:
    """How often `stored_as` has named a class: what was made from all kinds is made anew when this number has grown."""
    return len(_registered)


def kinds_of(*hints: Any) -> dict[str, type]:
    """The dataclasses that values of declared types are made of, by their stored names.

    A declared dataclass without a name is refused. A subclass without one is left out, and refused when it is encoded.

    >>> from bandanna.core.estimate import Estimate
    >>> sorted(kinds_of(tuple[Estimate, ...], float | None))
    ['Estimate']
    """
    seen = set[type]()
    return by_name(*(each for hint in hints for part in _types(hint) for each in _inside(part, seen)))


def _replaces(kind: type, other: type) -> bool:
    """Whether a class is a later definition of another one: in the same module, or in a script or notebook that is run.

    A script is `__main__`, `__mp_main__` in the workers that it starts, and has its own name when it is imported.
    """
    modules = {kind.__module__, other.__module__}
    return kind.__qualname__ == other.__qualname__ and (
        len(modules) == 1 or bool(modules & {"__main__", "__mp_main__"})
    )


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _inside(kind: type, seen: set[type]) -> Iterator[type]:
    """Dataclasses in a type, those of their fields and those made from it included; each once, and then in `seen`."""
    if kind in seen:
        return
    seen.add(kind)
    if is_dataclass(kind) and not isabstract(kind):
        yield kind
    made_from: list[type] = [] if kind.__module__ == "builtins" else kind.__subclasses__()
    for part in (*_parts(kind), *filter(_is_stored, made_from)):
        yield from _inside(part, seen)


def _is_stored(kind: type) -> bool:
    """Whether values of a subclass may be stored: it has a name that no later definition took, or is abstract."""
    return isabstract(kind) or (has_name(kind) and _KINDS.get(name_of(kind)) is kind)


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
