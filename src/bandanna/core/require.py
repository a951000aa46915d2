"""Checks of arguments: each returns a plain value, or raises an error naming argument, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument, InvalidBudget

EXACT = 2**53  # up to which every whole number is a float
SEEDS = 2**128  # as many as a generator tells apart


def real(argument: str, value: Any, allowed: str, *, error: type[InvalidArgument] = InvalidArgument) -> float:
    """A real number as a float, infinite only if it was given so: one beyond the floats is refused, NaN is none."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):
        raise error(argument, value, allowed)
    try:
        number = float(value)
    except Exception:  # OverflowError of a long integer; a foreign number may raise anything
        raise error(argument, value, f"{allowed}; this one is too large for a float") from None
    if math.isnan(number) or (math.isinf(number) and number != value):
        raise error(argument, value, allowed)
    return number


def positive(argument: str, value: Any, *, infinite: bool = False) -> float:
    """A real number > 0; infinity only where it has a meaning."""
    allowed = "a number > 0 (math.inf for no noise)" if infinite else "a finite number > 0"
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


def non_negative(argument: str, value: Any) -> float:
    """A finite real number >= 0."""
    number = finite(argument, value, "a finite number >= 0")
    if number < 0:
        raise InvalidArgument(argument, value, "a finite number >= 0")
    return number


def chance(argument: str, value: Any) -> float:
    """A probability strictly between 0 and 1."""
    number = real(argument, value, "a number in (0, 1)")
    if not 0 < number < 1:
        raise InvalidArgument(argument, value, "a number in (0, 1)")
    return number


def whole(argument: str, value: Any, *, least: int = 1, most: int | None = EXACT) -> int:
    """An integer from `least` to `most` (a float such as 20.0 or 1e6 is taken as the integer it is)."""
    allowed = f"a whole number >= {least}"
    if isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64):
        number = int(value)
    else:
        part = real(argument, value, allowed)
        if not part.is_integer():
            raise InvalidArgument(argument, value, allowed)
        number = int(part)
    if number < least:
        raise InvalidArgument(argument, value, allowed)
    if most is not None and number > most:
        raise InvalidArgument(argument, value, f"{allowed}, at most {most:,}")
    return number


def store(owner: object, check: Callable[..., float], *names: str, **options: Any) -> None:
    """Put the plain value of each of a frozen value's fields in its place: a NumPy scalar would keep its precision."""
    for name in names:
        object.__setattr__(owner, name, check(name, getattr(owner, name), **options))


def one_of(argument: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of a few words; a misspelt one is answered with the nearest."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidArgument(argument, value, f"{did_you_mean(value, allowed)}one of {words}")
    return str(value)


def epsilon(value: Any, *, argument: str = "epsilon") -> float:
    """A privacy parameter (epsilon, rho) > 0; infinity means no privacy."""
    allowed = "a number > 0 (math.inf for no privacy)"
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
