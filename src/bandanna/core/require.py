"""Checks of arguments: each returns the value, or raises an error that names argument, value and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from bandanna.errors import InvalidArgument, InvalidBudget


def positive(argument: str, value: Any, *, infinite: bool = False) -> float:
    """A real number > 0; infinity only where it has a meaning."""
    allowed = "a number > 0" + (" (math.inf for no noise)" if infinite else "")
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value) or value <= 0:
        raise InvalidArgument(argument, value, allowed)
    if math.isinf(value) and not infinite:
        raise InvalidArgument(argument, value, "a finite number > 0")
    return float(value)


def non_negative(argument: str, value: Any) -> float:
    """A finite real number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise InvalidArgument(argument, value, "a finite number >= 0")
    return float(value)


def chance(argument: str, value: Any) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InvalidArgument(argument, value, "a number in (0, 1)")
    return float(value)


def whole(argument: str, value: Any, *, least: int = 1) -> int:
    """An integer >= `least` (a float such as 20.0 or 1e6 is taken as the integer it is)."""
    allowed = f"a whole number >= {least}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgument(argument, value, allowed)
    if not isinstance(value, Integral) and not float(value).is_integer():
        raise InvalidArgument(argument, value, allowed)
    number = int(float(value)) if not isinstance(value, Integral) else int(value)
    if number < least:
        raise InvalidArgument(argument, value, allowed)
    return number


def one_of(argument: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise InvalidArgument(argument, value, "one of " + ", ".join(repr(word) for word in allowed))
    return str(value)


def epsilon(value: Any, *, argument: str = "epsilon") -> float:
    """A privacy parameter (epsilon, rho) > 0; infinity means no privacy."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value) or value <= 0:
        raise InvalidBudget(argument, value, "a number > 0 (math.inf for no privacy)")
    return float(value)


def delta(value: Any, *, argument: str = "delta") -> float:
    """A privacy parameter delta in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise InvalidBudget(argument, value, "a number in [0, 1)")
    return float(value)
