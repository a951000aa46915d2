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
from numpy.typing import NDArray

from bandanna.errors import BandannaError, InvalidArgument, Unreadable, describe_json_error, raise_without_context

# Stored names and declared types


Kind = TypeVar("Kind", bound=type)

_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_KINDS: WeakValueDictionary[str, type] = WeakValueDictionary()  # every class that has a name
_registered: list[str] = []  # every name, as often as a class took it


def check_fields(kind: type, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dataclass's fields with their declared types; raise ValueError for wrong types or unknown fields.

    20.0 becomes an integer, and a number an array without axes, where declared.
    """
    hints, made = _find_hints(kind), {}
    for name, value in parts.items():
        if name not in hints:
            raise ValueError(f"{kind.__name__} has no field {name[:40]!r}")
        hint = hints[name]
        whole = hint is int and type(value) is float and value.is_integer()
        made[name] = int(value) if whole else value
        if not matches_type(made[name], hint):
            raise ValueError(f"{kind.__name__}.{name} has the wrong type, {type(value).__name__}")
        if _find_number(hint) is not None:
            made[name] = np.asarray(value)
    return made


def _find_number(hint: Any) -> Any:
    """Return the type of the numbers of an array, else None; with NumPy 2.5, NDArray is an origin of its own."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return typing.get_args(inside[1])[0]
    return inside[0] if origin is NDArray else None


def matches_type(value: Any, hint: Any) -> bool:
    """Return whether a value has a declared type. A bool is not a number, and an int is a float too."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(matches_type(value, one) for one in inside)
    number = _find_number(hint)
    if number is not None:
        if type(value) in (bool, int, float):  # an array without axes is written as a number
            return bool(np.asarray(value).dtype == number)
        return isinstance(value, np.ndarray) and value.dtype == number
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


def stored_as(name: str) -> Callable[[Kind], Kind]:
    """Return a decorator that gives a class its name in files and messages.

    The name is part of the format, so it stays when the class is renamed. A subclass needs its own. A class that is
    defined again in the same module, as in a notebook, replaces its earlier definition.

    Parameters
    ----------
    name
        Letters and digits that begin with a capital.

    >>> from dataclasses import dataclass
    >>> @stored_as("Tally")
    ... @dataclass(frozen=True, kw_only=True)
    ... class Tally:
    ...     total: int
    >>> find_stored_name(Tally)
    'Tally'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", name, 'letters and digits that begin with a capital, as in "LinTSState"')

    def named(kind: Kind) -> Kind:
        other = _KINDS.get(name)
        if other is not None and not _replaces(kind, other):
            raise InvalidArgument("name", name, "a name that is not taken", f"{_describe_location(other)} has this one")
        kind._stored_as = name  # type: ignore[attr-defined]
        _KINDS[name] = kind
        _registered.append(name)
        return kind

    return named


def has_name(kind: type) -> bool:
    """Return whether a class itself, not a base, has a stored name."""
    return "_stored_as" in vars(kind)


def find_stored_name(kind: type) -> str:
    """Return the name that `stored_as` gave to a class, or raise an error."""
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
    """Return how often `stored_as` has named a class; caches over all classes hold for one count."""
    return len(_registered)


def dataclasses_in(*hints: Any) -> dict[str, type]:
    """Return the dataclasses in declared types by their stored names.

    A dataclass without a name is refused, a subclass without one left out.

    >>> from bandanna.device.domain import Estimate
    >>> sorted(dataclasses_in(tuple[Estimate, ...], float | None))
    ['Estimate']
    """
    visited = set[type]()
    return index_by_stored_name(
        *(each for hint in hints for part in _iterate_types(hint) for each in _iterate_dataclasses(part, visited))
    )


def _replaces(kind: type, other: type) -> bool:
    """Return whether a class is a later definition of another one, in the same module or a notebook."""
    modules = {kind.__module__, other.__module__}
    same_module = len(modules) == 1 or bool(modules & {"__main__", "__mp_main__"})  # a script, and in its workers
    return kind.__qualname__ == other.__qualname__ and same_module


def _describe_location(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _iterate_dataclasses(kind: type, visited: set[type]) -> Iterator[type]:
    """Yield dataclasses in a type, its fields and subclasses, each once."""
    if kind in visited:
        return
    visited.add(kind)
    if is_dataclass(kind) and not isabstract(kind):
        yield kind
    subclasses: list[type] = [] if kind.__module__ == "builtins" else kind.__subclasses__()
    for part in (*_parts(kind), *filter(_can_be_stored, subclasses)):
        yield from _iterate_dataclasses(part, visited)


def _can_be_stored(kind: type) -> bool:
    return isabstract(kind) or (has_name(kind) and _KINDS.get(find_stored_name(kind)) is kind)


@lru_cache(maxsize=1024)
def _parts(kind: type) -> tuple[type, ...]:
    return (
        tuple(part for hint in _find_hints(kind).values() for part in _iterate_types(hint))
        if is_dataclass(kind)
        else ()
    )


def _iterate_types(hint: Any) -> Iterator[type]:
    """Yield the types in a declared type: A, B and C of tuple[A, ...] | dict[B, C]."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
        return
    for part in typing.get_args(hint):
        yield from _iterate_types(part)


@lru_cache(maxsize=256)
def _find_hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


# Values as JSON


DEPTH = 40  # most levels of nested values; written values have fewer than 20
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c(8|16)")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Encoding:
    """Convert values to JSON and back. Only the given dataclasses are written or read.

    None, bool, int, str, finite floats and lists are written as they are; others as objects: `{"float": "inf"}`,
    `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"array": dtype, "shape": [...], "data": base64}` and
    `{"kind": name, "fields": {...}}` for a dataclass.
    """

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}

    def dumps(self, value: Any) -> str:
        """Return a value as one line of JSON."""
        return json.dumps(self.encode(value), allow_nan=False, separators=(",", ":"))

    def loads(self, text: str | bytes) -> Any:
        """Return a line's value; raise Unreadable if `dumps` would not write the line."""
        try:
            plain = json.loads(
                text,
                object_pairs_hook=lambda pairs: dict(_check_unique_keys(pairs)),
                parse_constant=_refuse_constant,
                parse_float=_read_finite,
            )
            return self._decode(plain, DEPTH)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:  # the error holds the line
            raise_without_context(Unreadable(f"not a line of JSON: {describe_json_error(error)}"))
        except (RecursionError, TypeError, ValueError) as error:
            raise_without_context(Unreadable(str(error)))

    def encode(self, value: Any) -> Any:
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
            return _encode_array(value)
        if isinstance(value, tuple):
            return {"tuple": [self.encode(part) for part in value]}
        if isinstance(value, list):
            return [self.encode(part) for part in value]
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(part)] for key, part in value.items()]}
        name = self._names.get(type(value))
        if name is None:
            if is_dataclass(value) and not isinstance(value, type):
                find_stored_name(type(value))  # raises the error that says how to give a name
            allowed = ", ".join(("a number, text, array, list, tuple, dictionary", *self._kinds))
            raise InvalidArgument("value to store", type(value).__name__, allowed)
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        for key, part in parts.items():  # whether a number or an array without axes depends on how it was computed
            parts[key] = self.encode(part[()] if isinstance(part, np.ndarray) and not part.ndim else part)
        return {"kind": name, "fields": parts}

    def _decode(self, plain: Any, depth: int) -> Any:
        if not isinstance(plain, list | dict):
            return plain
        if not depth:
            raise ValueError(f"values are nested more than {DEPTH} deep")
        if isinstance(plain, list):
            return [self._decode(part, depth - 1) for part in plain]
        match tuple(plain):
            case ("float",):
                return _SPECIAL[_check_name(plain["float"], _SPECIAL)]
            case ("tuple",):
                return tuple(self._decode(_check_type(list, plain["tuple"]), depth - 1))
            case ("dict",):
                pairs = [self._decode(_check_type(list, pair), depth - 1) for pair in _check_type(list, plain["dict"])]
                return dict(_check_unique_keys(pairs))
            case ("array", "shape", "data"):
                return _decode_array(plain["array"], plain["shape"], plain["data"])
            case ("kind", "fields"):
                content = _check_type(dict, plain["fields"])
                parts = {name: self._decode(part, depth - 1) for name, part in content.items()}
                name = _check_name(plain["kind"], self._kinds)
                try:
                    return self._kinds[name](**check_fields(self._kinds[name], parts))
                except Exception as error:  # a constructor may raise anything
                    raise ValueError(f"{name}: {str(error) or type(error).__name__}") from error
        raise ValueError("an object whose keys are not those of a value")


def _encode_array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    portable = value
    if value.dtype.kind in "biufc":
        portable = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    if not _DTYPE.fullmatch(portable.dtype.str):
        allowed = "an array of numbers of at most 64 bits, or 128 bits for complex numbers"
        raise InvalidArgument("value to store", f"array of dtype {value.dtype}", allowed)
    data = base64.b64encode(portable.tobytes()).decode("ascii")
    return {"array": portable.dtype.str, "shape": list(value.shape), "data": data}


def _decode_array(dtype: Any, shape: Any, data: Any) -> np.ndarray[Any, Any]:
    """Return an array exactly as large as its data: a false shape allocates no memory."""
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError("an array of an unknown type")
    if len(_check_type(list, shape)) > 32 or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array whose shape is not a list of whole numbers >= 0")
    content = base64.b64decode(_check_type(str, data), validate=True)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(content):
        raise ValueError(f"an array of shape {shape} with {len(content)} bytes of data")
    array = np.frombuffer(content, dtype=dtype).reshape(shape).copy()
    if dtype == "|b1" and np.any(array.view(np.uint8) > 1):
        raise ValueError("an array of truth values other than 0 and 1")
    return array


def _check_unique_keys(pairs: list[Any]) -> list[Any]:
    if not all(len(pair) == 2 for pair in pairs) or len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a dictionary with a repeated key, or with a key without its value")
    return pairs


def _check_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _check_name(name: Any, names: Mapping[str, Any]) -> str:
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"{str(name)[:40]!r} is not the name of a known value")
    return name


def _read_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number that is too large for a float")
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
    """Return whether a text is so many hexadecimal digits."""
    return isinstance(text, str) and len(text) == length and _HEX.fullmatch(text) is not None


def check_source(source: Any) -> None:
    """Raise Unreadable for a state that no NumPy generator has."""
    known = matches_type(source, dict[str, Any]) and source.get("bit_generator") == "PCG64"
    check_readable(known, "an unknown generator")
    check_readable(set(source) == {"bit_generator", "state", "has_uint32", "uinteger"}, "a generator without its parts")
    state = source["state"]
    known = matches_type(state, dict[str, int]) and set(state) == {"state", "inc"}
    check_readable(known, "a generator without its state")
    bounds = (state["state"], 128), (state["inc"], 128), (source["has_uint32"], 1), (source["uinteger"], 32)
    fits = all(type(number) is int and 0 <= number < 1 << bits for number, bits in bounds)
    check_readable(fits, "a generator out of range")
