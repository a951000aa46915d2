"""Checks of arguments: each returns a plain value, or raises an error naming argument, value and what is allowed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument, InvalidBudget, Summary

EXACT = 2**53  # up to which every whole number is a float
SEEDS = 2**128  # as many as a generator tells apart


def real(argument: str, value: Any, allowed: str, *, error: type[InvalidArgument] = InvalidArgument) -> float:
    """A real number as a float, infinite only if it was given so: one beyond the floats is refused, NaN is none."""
    number = value if type(value) is float else _float_of(argument, value, allowed, error)
    if math.isnan(number) or (math.isinf(number) and number != value):
        raise error(argument, value, allowed)
    return number


def _float_of(argument: str, value: Any, allowed: str, error: type[InvalidArgument]) -> float:
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):
        raise error(argument, value, allowed)
    with suppress(Exception):  # OverflowError of a long integer; a foreign number may raise anything
        return float(value)
    raise error(argument, value, f"{allowed}; this one is too large for a float")


def positive(argument: str, value: Any, *, infinite: bool = False) -> float:
    """A real number > 0; infinity only where it has a meaning."""
    allowed = "a number > 0 (inf for no noise)" if infinite else "a finite number > 0"
    number = real(argument, value, allowed)
    if number <= 0 or (math.isinf(number) and not infinite):
        raise InvalidArgument(argument, value, allowed)
    return number


def finite(
    argument: str, value: Any, allowed: str = "a finite number", *, error: type[InvalidArgument] = InvalidArgument
) -> float:
    """A finite real number."""
    number = real(argument, value, allowed, error=error)
    if math.isinf(number):
        raise error(argument, value, allowed)
    return number


def non_negative(argument: str, value: Any, *, infinite: bool = False) -> float:
    """A real number >= 0; infinity only where it has a meaning."""
    allowed = "a number >= 0 (inf for no noise)" if infinite else "a finite number >= 0"
    number = real(argument, value, allowed)
    if number < 0 or (math.isinf(number) and not infinite):
        raise InvalidArgument(argument, value, allowed)
    return number


def amounts(argument: str, values: Any, *, error: type[InvalidArgument] = InvalidArgument) -> Floats:
    """Numbers >= 0, infinite ones too, as an array of any shape."""
    if type(values) is float and values >= 0:
        return np.asarray(values)
    try:
        array = np.asarray(values)
    except Exception:  # ragged lists; a foreign object may raise anything
        raise error(argument, values, "numbers >= 0") from None
    if array.dtype.kind not in "iuf" or not np.all(array >= 0):
        raise error(argument, values, "numbers >= 0")
    return np.asarray(array, dtype=float)


def moderate(argument: str, value: Any, *, zero: bool = False) -> float:
    """A factor in [1e-12, 1e12], or 0 where that has a meaning: products of a few of them are numbers too."""
    allowed = "a number in [1e-12, 1e12]" + (", or 0" if zero else "")
    number = real(argument, value, allowed)
    if not (1e-12 <= number <= 1e12 or (zero and number == 0)):
        raise InvalidArgument(argument, value, allowed)
    return number


def chance(argument: str, value: Any, *, least: float = 0.0) -> float:
    """A probability strictly between `least` and 1."""
    number = real(argument, value, f"a number in ({least:g}, 1)")
    if not least < number < 1:
        raise InvalidArgument(argument, value, f"a number in ({least:g}, 1)")
    return number


def share(argument: str, value: Any) -> float:
    """A number from 0 to 1, both included."""
    number = real(argument, value, "a number in [0, 1]")
    if not 0 <= number <= 1:
        raise InvalidArgument(argument, value, "a number in [0, 1]")
    return number


def whole(
    argument: str,
    value: Any,
    *,
    least: int = 1,
    most: int | None = EXACT,
    error: type[InvalidArgument] = InvalidArgument,
) -> int:
    """An integer from `least` to `most` (a float such as 20.0 or 1e6 is taken as the integer it is)."""
    allowed = f"a whole number >= {least}"
    if isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64):
        number = int(value)
    else:
        part = real(argument, value, allowed, error=error)
        if not part.is_integer():
            raise error(argument, value, allowed)
        number = int(part)
    if number < least:
        raise error(argument, value, allowed)
    if most is not None and number > most:
        raise error(argument, value, f"{allowed}, at most {most:,}")
    return number


def store(owner: object, check: Callable[..., float], *names: str, **options: Any) -> None:
    """Put the plain value of each of a frozen value's fields in its place: a NumPy scalar would keep its precision."""
    for name in names:
        object.__setattr__(owner, name, check(name, getattr(owner, name), **options))


def flag(argument: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(argument, value, "True or False")
    return bool(value)


def several(argument: str, values: Any, allowed: str) -> list[Any]:
    """The entries of a list, an array or another iterable that has an order; errors show none of them."""
    if type(values) is list or type(values) is tuple:
        return list(values)
    entries = None
    if not isinstance(values, str | bytes | Mapping | Set | np.ma.MaskedArray):
        with suppress(Exception):  # a foreign object may raise anything, and show what it holds
            entries = iter(values)
    if entries is None:
        raise InvalidArgument(argument, Summary.of(values), allowed)
    return list(entries)


def instance(argument: str, value: Any, kind: type[Any], allowed: str) -> None:
    """A value of a kind; its class is not one yet. The error says what was given, and does not show it."""
    if isinstance(value, kind):
        return
    if not isinstance(value, type):
        raise InvalidArgument(argument, type(value).__name__, allowed)
    made = f": {value.__name__}(...) makes one" if issubclass(value, kind) else ""
    raise InvalidArgument(argument, f"the class {value.__name__}", f"{allowed}; a class is none{made}")


def path(argument: str, value: Any, *, folder: bool = False) -> Path:
    """Where a file (or a folder) is or will be."""
    allowed = "a path: a text or a pathlib.Path of at most 4,096 bytes"
    try:
        encoded = os.fsencode(value)
    except Exception:  # half a character, or no path at all
        raise InvalidArgument(argument, value, allowed) from None
    if isinstance(value, bytes) or len(encoded) > 4096 or b"\0" in encoded:
        raise InvalidArgument(argument, value, allowed)
    if not (folder or Path(value).name):
        raise InvalidArgument(argument, value, "the path of a file, not of a folder")
    return Path(value)


def one_of(argument: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a few words; a misspelt one is answered with the nearest."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidArgument(argument, value, f"{did_you_mean(value, allowed)}one of {words}")
    return str(value)


def epsilon(value: Any, *, argument: str = "epsilon") -> float:
    """A privacy parameter (epsilon, rho) > 0; infinity means no privacy."""
    allowed = "a number > 0 (inf for no privacy)"
    number = real(argument, value, allowed, error=InvalidBudget)
    if number <= 0:
        raise InvalidBudget(argument, value, allowed)
    return number


def delta(value: Any, *, argument: str = "delta") -> float:
    """A privacy parameter delta in [0, 1)."""
    number = real(argument, value, "a number in [0, 1)", error=InvalidBudget)
    if not 0 <= number < 1:
        raise InvalidBudget(argument, value, "a number in [0, 1)")
    return number
