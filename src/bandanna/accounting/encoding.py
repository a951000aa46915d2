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
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from bandanna.accounting import events
from bandanna.accounting.factorisation import BLT, BinaryTree, HonakerTree, SquareRootToeplitz
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument

EVENTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        events.NothingEvent,
        events.ClearEvent,
        events.GaussianEvent,
        events.DiscreteGaussianEvent,
        events.LaplaceEvent,
        events.DiscreteLaplaceEvent,
        events.BinomialEvent,
        events.ShuffledGaussianEvent,
        events.ContinualEvent,
        events.CompositionEvent,
        events.RepetitionEvent,
        BLT,
        BinaryTree,
        HonakerTree,
        SquareRootToeplitz,
        Estimate,
    )
}


class Encoding:
    """Turns values into JSON and back; knows the dataclasses that it was given by name, and no others."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._kinds = dict(kinds)
        self._names = {kind: name for name, kind in kinds.items()}

    def dumps(self, value: Any) -> str:
        """One line of JSON."""
        return json.dumps(self.encode(value), allow_nan=False, separators=(",", ":"))

    def loads(self, text: str) -> Any:
        """The value of a line of JSON."""
        return self.decode(json.loads(text))

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

    def decode(self, plain: Any) -> Any:
        """The value; ValueError, TypeError or LookupError for anything that `encode` does not make."""
        if isinstance(plain, list):
            return [self.decode(part) for part in plain]
        if not isinstance(plain, dict):
            return plain
        match plain:
            case {"float": text}:
                return float(text)
            case {"tuple": parts}:
                return tuple(self.decode(part) for part in parts)
            case {"dict": pairs}:
                return {self.decode(key): self.decode(part) for key, part in pairs}
            case {"array": dtype, "shape": shape, "data": data}:
                content = np.frombuffer(base64.b64decode(data, validate=True), dtype=_numeric(np.dtype(dtype)))
                return content.reshape(shape).copy()
            case {"kind": name, "fields": parts}:
                return self._kinds[name](**{field: self.decode(part) for field, part in parts.items()})
        raise ValueError(f"an object with the keys {sorted(plain)} is not a value")

    def _known(self, value: Any) -> dict[str, Any]:
        name = self._names.get(type(value))
        if name is None:
            allowed = "numbers, texts, arrays, lists, tuples, dictionaries, " + ", ".join(self._kinds)
            raise InvalidArgument("value to store", type(value).__name__, allowed)
        parts = {field.name: self.encode(getattr(value, field.name)) for field in fields(value) if field.init}
        return {"kind": name, "fields": parts}


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    portable = np.ascontiguousarray(value, dtype=_numeric(value.dtype).newbyteorder("<"))
    data = base64.b64encode(portable.tobytes()).decode("ascii")
    return {"array": portable.dtype.str, "shape": list(value.shape), "data": data}


def _numeric(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biufc":
        raise InvalidArgument("value to store", f"array of dtype {dtype}", "arrays of numbers")
    return dtype
