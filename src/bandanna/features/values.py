"""What stands in a column: numbers, categories; whatever is neither is missing.

Truth values are the numbers 0 and 1. Equal numbers are equal, whatever their type: 1 is 1.0. A text is never a number.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints

Raw = NDArray[Any] | Sequence[Any]  # an array of numbers, with NaN for what is missing, or anything

_PLAIN = frozenset({int, float, bool, type(None), np.float64, np.bool_})
MISSING, UNKNOWN = -2, -1


def number_of(value: Any) -> float:
    """A number as a float, infinite beyond the floats; NaN for what is none, or is missing."""
    if isinstance(value, np.bool_):
        return float(value)
    if not isinstance(value, Real | Decimal) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)  # type: ignore[operator]
    except Exception:  # a foreign number may raise anything, a signalling NaN does
        return math.nan


def numbers(raw: Raw) -> Floats:
    """The numbers of a column, (n,), with NaN where there is none."""
    if isinstance(raw, np.ndarray):
        with np.errstate(over="ignore"):
            return np.asarray(raw, dtype=float)
    if _PLAIN.issuperset(set(map(type, raw))):
        try:
            return np.array(raw, dtype=float)  # None is NaN
        except OverflowError:
            pass
    return np.fromiter(map(number_of, raw), dtype=float, count=len(raw))


def codes(raw: Raw, places: Mapping[Any, int]) -> Ints:
    """The place of each value in a list of categories, (n,); MISSING and UNKNOWN for others."""
    if isinstance(raw, np.ndarray):
        return _numeric_codes(numbers(raw), places)
    try:
        found = np.fromiter((places.get(value, UNKNOWN) for value in raw), dtype=np.int64, count=len(raw))
    except Exception:  # not hashable, or will not be compared
        found = np.fromiter((_place(value, places) for value in raw), dtype=np.int64, count=len(raw))
    for row in np.flatnonzero(found == UNKNOWN).tolist():
        value = raw[row]
        if type(value) is str:
            continue
        if isinstance(value, bytes):
            found[row] = places.get(value.decode("utf-8", "replace"), UNKNOWN)
        elif not isinstance(value, str):
            number = number_of(value)  # as in an array of numbers, which a column is where nobody has a text
            found[row] = MISSING if math.isnan(number) else places.get(number, UNKNOWN)
    return found


def _numeric_codes(given: Floats, places: Mapping[Any, int]) -> Ints:
    found = np.where(np.isnan(given), MISSING, UNKNOWN)
    for value, place in places.items():
        if not isinstance(value, str):
            found[given == value] = place
    return found


def _place(value: Any, places: Mapping[Any, int]) -> int:
    try:
        return places.get(value, UNKNOWN) if isinstance(value, Hashable) else UNKNOWN
    except Exception:
        return UNKNOWN
