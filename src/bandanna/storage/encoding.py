"""Values as JSON and back, bit for bit: numbers, texts, arrays, and the frozen values of an explicit list - no pickle.

None, bool, int, str, finite float, list       as they are
infinities and NaN                             {"float": "inf"}
tuple                                          {"tuple": [...]}
dict                                           {"dict": [[key, value], ...]}
array                                          {"array": dtype, "shape": [...], "data": base64}
a value of the list                            {"kind": name, "fields": {...}}
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import numpy as np

from bandanna.errors import InvalidArgument, Unreadable, place_in_json, raise_alone
from bandanna.storage.declared import checked, name_of

Parts = dict[str, Any]

DEPTH = 40  # values inside values; what we write stays below 20
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c(8|16)")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Encoding:
    """Turns values into JSON and back; knows the dataclasses that it was given by name, and no others."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}

    def dumps(self, value: Any) -> str:
        """One line of JSON."""
        return json.dumps(self.encode(value), allow_nan=False, separators=(",", ":"))

    def loads(self, text: str | bytes) -> Any:
        """The value of a line of JSON; Unreadable if it is not one that `dumps` makes."""
        try:
            plain = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite)
            return self._decode(plain, DEPTH)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:  # which holds the line
            raise_alone(Unreadable(f"not a line of JSON: {place_in_json(error)}"))
        except (RecursionError, TypeError, ValueError) as error:
            raise_alone(Unreadable(str(error)))

    def encode(self, value: Any) -> Any:
        """Plain values for JSON."""
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
                return tuple(self._decode(_a(list, plain["tuple"]), depth - 1))
            case ("dict",):
                pairs = [self._decode(_a(list, pair), depth - 1) for pair in _a(list, plain["dict"])]
                return dict(_unique(pairs))
            case ("array", "shape", "data"):
                return _read_array(plain["array"], plain["shape"], plain["data"])
            case ("kind", "fields"):
                parts = {name: self._decode(part, depth - 1) for name, part in _a(dict, plain["fields"]).items()}
                return self._made(_one_of(plain["kind"], self._kinds), parts)
        raise ValueError("an object whose keys are not those of a value")

    def _made(self, name: str, parts: Parts) -> Any:
        """One value of the list; whatever its constructor says against the parts, they are not readable."""
        kind = self._kinds[name]
        try:
            return kind(**checked(kind, parts))
        except Exception as error:
            raise ValueError(f"{name}: {str(error) or type(error).__name__}") from error

    def _known(self, value: Any) -> dict[str, Any]:
        name = self._names.get(type(value))
        if name is None:
            if is_dataclass(value) and not isinstance(value, type):
                name_of(type(value))  # which says how to give a name
            allowed = "numbers, texts, arrays, lists, tuples, dictionaries, " + ", ".join(self._kinds)
            raise InvalidArgument("value to store", type(value).__name__, allowed)
        parts = {field.name: self.encode(_plain(getattr(value, field.name))) for field in fields(value) if field.init}
        return {"kind": name, "fields": parts}


def _plain(value: Any) -> Any:
    """An array without axes is a number: which of both it is depends on who has computed it."""
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
    """An array exactly as large as its data: a false shape asks for no memory."""
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError("an array of a type that is not written here")
    if len(_a(list, shape)) > 32 or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array whose shape is not a list of whole numbers >= 0")
    content = base64.b64decode(_a(str, data), validate=True)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(content):
        raise ValueError(f"an array of shape {shape} with {len(content)} bytes of data")
    array = np.frombuffer(content, dtype=dtype).reshape(shape).copy()
    if dtype == "|b1" and np.any(array.view(np.uint8) > 1):
        raise ValueError("an array of truth values other than 0 and 1")
    return array


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(_unique(pairs))


def _unique(pairs: list[Any]) -> list[Any]:
    """Pairs of keys, each once, and values."""
    if not all(len(pair) == 2 for pair in pairs) or len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a dictionary with a key that stands there twice, or without its value")
    return pairs


def _a(kind: type, value: Any) -> Any:
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


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
