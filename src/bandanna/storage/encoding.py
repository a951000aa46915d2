"""Values of listed dataclasses as JSON, written and read bit for bit, without pickle."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import isabstract
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from bandanna.errors import BandannaError, InvalidArgument, Unreadable, describe_json_error, raise_without_context

# Stored names and declared types


Kind = TypeVar("Kind", bound=type)

_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_KINDS: WeakValueDictionary[str, type] = WeakValueDictionary()  # every class that has a name
_registered: list[str] = []  # every name, as often as a class took it


def check_fields(kind: type, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass, each of its declared type; raise ValueError for a wrong type or a foreign
    field.

    A whole number given as a float, as 20.0, becomes an integer; a number where an array belongs becomes an array
    without axes.
    """
    hints, made = _hints(kind), {}
    for name, value in parts.items():
        if name not in hints:
            raise ValueError(f"{kind.__name__} has no field {name[:40]!r}")
        hint = hints[name]
        whole = hint is int and type(value) is float and value.is_integer()
        made[name] = int(value) if whole else value
        if not matches_type(made[name], hint):
            raise ValueError(f"{kind.__name__}.{name} is a {type(value).__name__}, which is not what belongs there")
        if typing.get_origin(hint) is np.ndarray:
            made[name] = np.asarray(value)
    return made


def matches_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type. Truth values are no numbers; whole numbers are floats too."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(matches_type(value, one) for one in inside)
    if origin is np.ndarray:
        return _fits_array(value, typing.get_args(inside[1])[0])
    if origin is tuple and inside[-1] is Ellipsis:
        return isinstance(value, tuple) and all(matches_type(part, inside[0]) for part in value)
    if origin is tuple:
        fits = isinstance(value, tuple) and len(value) == len(inside)
        return fits and all(matches_type(part, one) for part, one in zip(value, inside, strict=True))
    if origin is dict:
        items = value.items() if isinstance(value, dict) else [(None, None)]
        return all(matches_type(key, inside[0]) and matches_type(part, inside[1]) for key, part in items)
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)
    if hint in (bool, int, str):
        return type(value) is hint
    return hint is Any or isinstance(value, type(None) if hint is None else hint)


def _fits_array(value: Any, number: Any) -> bool:
    """Return whether numbers are of the declared kind; an array without axes is written as a number."""
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
    >>> find_stored_name(Tally)
    'Tally'

    The name is part of the format of files and messages, so it stays when the class or its module is renamed. A class
    that is defined again in the same module, as in a notebook, replaces its earlier definition.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", name, 'letters and digits that begin with a capital, as in "LinTSState"')

    def named(kind: Kind) -> Kind:
        other = _KINDS.get(name)
        if other is not None and not _replaces(kind, other):
            raise InvalidArgument("name", name, f"a name that is not taken: {_describe_location(other)} has this one")
        kind._stored_as = name  # type: ignore[attr-defined]
        _KINDS[name] = kind
        _registered.append(name)
        return kind

    return named


def has_name(kind: type) -> bool:
    """Return whether a class itself, not one of its bases, has a stored name."""
    return "_stored_as" in vars(kind)


def find_stored_name(kind: type) -> str:
    """Return the name that `stored_as` gave to a class, or raise an error that says how to give one."""
    if not has_name(kind):
        name = kind.__name__.strip("_")
        raise BandannaError(
            f"{_describe_location(kind)} cannot be saved or sent without a name: "
            f'write @bd.stored_as("{name}") above the class'
        )
    return str(vars(kind)["_stored_as"])


def index_by_stored_name(*kinds: type) -> dict[str, type]:
    """Return classes by their stored names, for an `Encoding`."""
    return {find_stored_name(kind): kind for kind in kinds}


def count_registrations() -> int:
    """Return how often `stored_as` has named a class. When it has grown, caches over all classes are out of date."""
    return len(_registered)


def dataclasses_in(*hints: Any) -> dict[str, type]:
    """Return the dataclasses that values of declared types are made of, by their stored names.

    A declared dataclass without a name is refused. A subclass without one is left out, and refused when it is encoded.

    >>> from bandanna.device.domain import Estimate
    >>> sorted(dataclasses_in(tuple[Estimate, ...], float | None))
    ['Estimate']
    """
    seen = set[type]()
    return index_by_stored_name(
        *(each for hint in hints for part in _iterate_types(hint) for each in _iterate_dataclasses(part, seen))
    )


def _replaces(kind: type, other: type) -> bool:
    """Return whether a class is a later definition of another one: in the same module, or in a script or notebook.

    A script is `__main__`, `__mp_main__` in the workers that it starts, and has its own name when it is imported.
    """
    modules = {kind.__module__, other.__module__}
    return kind.__qualname__ == other.__qualname__ and (
        len(modules) == 1 or bool(modules & {"__main__", "__mp_main__"})
    )


def _describe_location(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _iterate_dataclasses(kind: type, seen: set[type]) -> Iterator[type]:
    """Yield the dataclasses in a type, in their fields and among their subclasses; each once, noted in `seen`."""
    if kind in seen:
        return
    seen.add(kind)
    if is_dataclass(kind) and not isabstract(kind):
        yield kind
    made_from: list[type] = [] if kind.__module__ == "builtins" else kind.__subclasses__()
    for part in (*_parts(kind), *filter(_is_stored, made_from)):
        yield from _iterate_dataclasses(part, seen)


def _is_stored(kind: type) -> bool:
    """Return whether a subclass's values may be stored: its stored name is still its own, or it is abstract."""
    return isabstract(kind) or (has_name(kind) and _KINDS.get(find_stored_name(kind)) is kind)


@lru_cache(maxsize=1024)
def _parts(kind: type) -> tuple[type, ...]:
    """Return the declared types of a dataclass's fields."""
    return tuple(part for hint in _hints(kind).values() for part in _iterate_types(hint)) if is_dataclass(kind) else ()


def _iterate_types(hint: Any) -> Iterator[type]:
    """Yield the types in a declared type: A, B and C of tuple[A, ...] | dict[B, C]."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
        return
    for part in typing.get_args(hint):
        yield from _iterate_types(part)


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


# Values as JSON


Parts = dict[str, Any]

DEPTH = 40  # values inside values; what we write stays below 20
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c(8|16)")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Encoding:
    """Turns values into JSON and back; knows only the dataclasses that it was given by name.

    None, bool, int, str, finite float, list       as they are
    infinities and NaN                             {"float": "inf"}
    tuple                                          {"tuple": [...]}
    dict                                           {"dict": [[key, value], ...]}
    array                                          {"array": dtype, "shape": [...], "data": base64}
    a dataclass                                    {"kind": name, "fields": {...}}
    """

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}

    def dumps(self, value: Any) -> str:
        """Return one line of JSON."""
        return json.dumps(self.encode(value), allow_nan=False, separators=(",", ":"))

    def loads(self, text: str | bytes) -> Any:
        """Return the value of a line of JSON; raise Unreadable if `dumps` would not write it."""
        try:
            plain = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)
            return self._decode(plain, DEPTH)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:  # which holds the line
            raise_without_context(Unreadable(f"not a line of JSON: {describe_json_error(error)}"))
        except (RecursionError, TypeError, ValueError) as error:
            raise_without_context(Unreadable(str(error)))

    def encode(self, value: Any) -> Any:
        """Return plain values for JSON."""
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float | np.floating):
            number = float(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, bool | np.bool_):
            return bool(value)
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, np.ndarray):
            return _array(value)
        if isinstance(value, tuple):
            return {"tuple": [self.encode(part) for part in value]}
        if isinstance(value, list):
            return [self.encode(part) for part in value]
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(part)] for key, part in value.items()]}
        return self._known(value)

    def _decode(self, plain: Any, depth: int) -> Any:
        if not isinstance(plain, list | dict):
            return plain
        if not depth:
            raise ValueError(f"values are nested more than {DEPTH} deep")
        if isinstance(plain, list):
            return [self._decode(part, depth - 1) for part in plain]
        match tuple(plain):
            case ("float",):
                return _SPECIAL[_one_of(plain["float"], _SPECIAL)]
            case ("tuple",):
                return tuple(self._decode(_expect_type(list, plain["tuple"]), depth - 1))
            case ("dict",):
                pairs = [
                    self._decode(_expect_type(list, pair), depth - 1) for pair in _expect_type(list, plain["dict"])
                ]
                return dict(_check_unique_keys(pairs))
            case ("array", "shape", "data"):
                return _read_array(plain["array"], plain["shape"], plain["data"])
            case ("kind", "fields"):
                parts = {
                    name: self._decode(part, depth - 1) for name, part in _expect_type(dict, plain["fields"]).items()
                }
                return self._made(_one_of(plain["kind"], self._kinds), parts)
        raise ValueError("an object whose keys are not those of a value")

    def _made(self, name: str, parts: Parts) -> Any:
        """Build one dataclass value; if its constructor refuses the fields, they are unreadable."""
        kind = self._kinds[name]
        try:
            return kind(**check_fields(kind, parts))
        except Exception as error:
            raise ValueError(f"{name}: {str(error) or type(error).__name__}") from error

    def _known(self, value: Any) -> dict[str, Any]:
        name = self._names.get(type(value))
        if name is None:
            if is_dataclass(value) and not isinstance(value, type):
                find_stored_name(type(value))  # which says how to give a name
            allowed = "numbers, texts, arrays, lists, tuples, dictionaries, " + ", ".join(self._kinds)
            raise InvalidArgument("value to store", type(value).__name__, allowed)
        parts = {field.name: self.encode(_plain(getattr(value, field.name))) for field in fields(value) if field.init}
        return {"kind": name, "fields": parts}


def _plain(value: Any) -> Any:
    """Return an array without axes as a number: which of both it is depends on how it was computed."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    if value.dtype.kind not in "biufc":
        raise InvalidArgument("value to store", f"array of dtype {value.dtype}", "arrays of numbers")
    portable = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    if not _DTYPE.fullmatch(portable.dtype.str):
        raise InvalidArgument("value to store", f"array of dtype {value.dtype}", "arrays of at most 64 bits a number")
    data = base64.b64encode(portable.tobytes()).decode("ascii")
    return {"array": portable.dtype.str, "shape": list(value.shape), "data": data}


def _read_array(dtype: Any, shape: Any, data: Any) -> np.ndarray[Any, Any]:
    """Return an array exactly as large as its data: a false shape allocates no memory."""
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError("an array of a type that is not written here")
    if len(_expect_type(list, shape)) > 32 or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array whose shape is not a list of whole numbers >= 0")
    content = base64.b64decode(_expect_type(str, data), validate=True)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(content):
        raise ValueError(f"an array of shape {shape} with {len(content)} bytes of data")
    array = np.frombuffer(content, dtype=dtype).reshape(shape).copy()
    if dtype == "|b1" and np.any(array.view(np.uint8) > 1):
        raise ValueError("an array of truth values other than 0 and 1")
    return array


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(_check_unique_keys(pairs))


def _check_unique_keys(pairs: list[Any]) -> list[Any]:
    """Return pairs of keys, each once, and values."""
    if not all(len(pair) == 2 for pair in pairs) or len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a dictionary with a key that stands there twice, or without its value")
    return pairs


def _expect_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _one_of(name: Any, names: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"{str(name)[:40]!r} is not the name of a known value")
    return name


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond the floats")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


# Checks of file contents


_HEX = re.compile("[0-9a-f]+")


def check_readable(fits: Any, fault: str) -> None:
    """Raise Unreadable unless `fits`."""
    if not fits:
        raise Unreadable(fault)


def is_hex(text: Any, length: int) -> bool:
    """Return whether a text has exactly `length` hexadecimal digits."""
    return isinstance(text, str) and len(text) == length and _HEX.fullmatch(text) is not None


def check_source(source: Any) -> None:
    """Refuse a state that NumPy's generator of seeded noise cannot have."""
    check_readable(
        matches_type(source, dict[str, Any]) and source.get("bit_generator") == "PCG64", "an unknown generator"
    )
    check_readable(set(source) == {"bit_generator", "state", "has_uint32", "uinteger"}, "a generator without its parts")
    inner = source["state"]
    check_readable(
        matches_type(inner, dict[str, int]) and set(inner) == {"state", "inc"}, "a generator without its state"
    )
    bounds = (inner["state"], 128), (inner["inc"], 128), (source["has_uint32"], 1), (source["uinteger"], 32)
    check_readable(
        all(type(number) is int and 0 <= number < 1 << bits for number, bits in bounds), "a generator out of range"
    )
