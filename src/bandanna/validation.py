"""Checks of public arguments, of calls, of tables read from files, and of memory.

A check returns a plain value, or raises an error that names the argument, the value and what is allowed.
"""

from __future__ import annotations

import math
import os
import sys
import tomllib
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidBudget,
    InvalidStatistic,
    UnknownArgument,
    ValueSummary,
    did_you_mean,
)
from bandanna.types import Floats

# Arguments


LARGEST_EXACT_INTEGER = 2**53  # up to which every whole number is a float
SEED_LIMIT = 2**128  # as many as a generator tells apart


def real(argument: str, value: Any, allowed: str, *, error: type[InvalidArgument] = InvalidArgument) -> float:
    """Return a real number as a float; refuse NaN, and infinity unless given as such."""
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
    """Return a real number > 0; infinity only if it has a meaning."""
    allowed = "a number > 0 (inf for no noise)" if infinite else "a finite number > 0"
    number = real(argument, value, allowed)
    if number <= 0 or (math.isinf(number) and not infinite):
        raise InvalidArgument(argument, value, allowed)
    return number


def finite(
    argument: str, value: Any, allowed: str = "a finite number", *, error: type[InvalidArgument] = InvalidArgument
) -> float:
    """Return a finite real number."""
    number = real(argument, value, allowed, error=error)
    if math.isinf(number):
        raise error(argument, value, allowed)
    return number


def non_negative(argument: str, value: Any, *, infinite: bool = False) -> float:
    """Return a real number >= 0; infinity only if it has a meaning."""
    allowed = "a number >= 0 (inf for no noise)" if infinite else "a finite number >= 0"
    number = real(argument, value, allowed)
    if number < 0 or (math.isinf(number) and not infinite):
        raise InvalidArgument(argument, value, allowed)
    return number


def non_negative_array(argument: str, values: Any, *, error: type[InvalidArgument] = InvalidArgument) -> Floats:
    """Return numbers >= 0, infinite ones too, as an array of any shape."""
    if type(values) is float and values >= 0:
        return np.asarray(values)
    try:
        array = np.asarray(values)
    except Exception:  # ragged lists; a foreign object may raise anything
        raise error(argument, values, "numbers >= 0") from None
    if array.dtype.kind not in "iuf" or not np.all(array >= 0):
        raise error(argument, values, "numbers >= 0")
    return np.asarray(array, dtype=float)


def bounded_factor(argument: str, value: Any, *, zero: bool = False) -> float:
    """Return a factor in [1e-12, 1e12], or 0 if allowed: products of a few factors stay finite."""
    allowed = "a number in [1e-12, 1e12]" + (", or 0" if zero else "")
    number = real(argument, value, allowed)
    if not (1e-12 <= number <= 1e12 or (zero and number == 0)):
        raise InvalidArgument(argument, value, allowed)
    return number


def open_probability(argument: str, value: Any, *, least: float = 0.0) -> float:
    """Return a probability strictly between `least` and 1."""
    number = real(argument, value, f"a number in ({least:g}, 1)")
    if not least < number < 1:
        raise InvalidArgument(argument, value, f"a number in ({least:g}, 1)")
    return number


def unit_interval(argument: str, value: Any) -> float:
    """Return a number from 0 to 1, both included."""
    number = real(argument, value, "a number in [0, 1]")
    if not 0 <= number <= 1:
        raise InvalidArgument(argument, value, "a number in [0, 1]")
    return number


def integer(
    argument: str,
    value: Any,
    *,
    least: int = 1,
    most: int | None = LARGEST_EXACT_INTEGER,
    error: type[InvalidArgument] = InvalidArgument,
) -> int:
    """Return an integer from `least` to `most`; 20.0 and 1e6 count as integers."""
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


def set_validated(owner: object, check: Callable[..., float], *names: str, **options: Any) -> None:
    """Replace fields of a frozen value by checked plain values: a NumPy scalar would keep its precision."""
    for name in names:
        object.__setattr__(owner, name, check(name, getattr(owner, name), **options))


def boolean(argument: str, value: Any) -> bool:
    """Return True or False only."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(argument, value, "True or False")
    return bool(value)


def list_entries(argument: str, values: Any, allowed: str) -> list[Any]:
    """Return the entries of an ordered iterable; errors show none of them."""
    if type(values) is list or type(values) is tuple:
        return list(values)
    entries = None
    if not isinstance(values, str | bytes | Mapping | Set | np.ma.MaskedArray):
        with suppress(Exception):  # a foreign object may raise anything, and show what it holds
            entries = iter(values)
    if entries is None:
        raise InvalidArgument(argument, ValueSummary.of(values), allowed)
    return list(entries)


def instance(argument: str, value: Any, kind: type[Any], allowed: str) -> None:
    """Check that a value is an instance of a kind; the error does not show the value."""
    if isinstance(value, kind):
        return
    if not isinstance(value, type):
        raise InvalidArgument(argument, ValueSummary.of(value), allowed)
    hint = f"Call it: {value.__name__}(...)" if issubclass(value, kind) else ""
    raise InvalidArgument(argument, ValueSummary(f"the class {value.__name__}"), allowed, hint)


def path(argument: str, value: Any, *, folder: bool = False) -> Path:
    """Return the path of a file or a folder, which need not exist."""
    allowed = "a path: a text or a pathlib.Path of at most 4,096 bytes"
    try:
        encoded = os.fsencode(value)
    except Exception:  # half a character, or no path at all
        raise InvalidArgument(argument, value, allowed) from None
    if isinstance(value, bytes) or len(encoded) > 4096 or b"\0" in encoded:
        raise InvalidArgument(argument, value, allowed)
    if not (folder or Path(value).name):
        raise InvalidArgument(argument, value, "the path of a file, not of a directory")
    return Path(value)


def one_of(argument: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of a few words; an error suggests the nearest one."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise InvalidArgument(argument, value, f"one of {words}", did_you_mean(value, allowed))
    return str(value)


def epsilon(value: Any, *, argument: str = "epsilon") -> float:
    """Return a privacy parameter (epsilon, rho) > 0; infinity means no privacy."""
    allowed = "a number > 0 (inf for no privacy)"
    number = real(argument, value, allowed, error=InvalidBudget)
    if number <= 0:
        raise InvalidBudget(argument, value, allowed)
    return number


def delta(value: Any, *, argument: str = "delta") -> float:
    """Return a privacy parameter delta in [0, 1)."""
    number = real(argument, value, "a number in [0, 1)", error=InvalidBudget)
    if not 0 <= number < 1:
        raise InvalidBudget(argument, value, "a number in [0, 1)")
    return number


# Calls


P = ParamSpec("P")
Answer = TypeVar("Answer")

_BOUND = ("self", "cls")  # nobody says them


def checked_keywords(called: str) -> Callable[[Callable[P, Answer]], Callable[P, Answer]]:
    """Decorate a public function: wrong arguments get an error that says what it takes."""

    def decorate(function: Callable[P, Answer]) -> Callable[P, Answer]:
        expected = signature(function)
        known = [name for name in expected.parameters if name not in _BOUND]

        @wraps(function)
        def checked(*arguments: P.args, **named: P.kwargs) -> Answer:
            for name, value in named.items():
                if name not in known:
                    hint = did_you_mean(name, (each for each in known if each not in named))
                    raise UnknownArgument(name, ValueSummary.of(value), called, ", ".join(known), hint)
            try:
                expected.bind(*arguments, **named)
            except TypeError:
                raise _describe_bad_arguments(called, known, expected.parameters, arguments, named) from None
            return function(*arguments, **named)

        return checked

    return decorate


def warn_outside(warning: Warning) -> None:
    """Give a warning that points at the line outside this package that led to it.

    A changed copy of a value (`dataclasses.replace`) gives none.
    """
    frame, level = sys._getframe(1), 2  # 2: the frame that called this function
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "bandanna":
        frame, level = frame.f_back, level + 1
    if frame.f_globals.get("__name__") != "dataclasses":
        warnings.warn(warning, stacklevel=level)


def call_with_user_data(argument: str, function: Callable[[Any], Any], data: Any, allowed: str) -> Any:
    """Call a caller's function on users' data; if it raises, the error gives only type and line."""
    try:
        return function(data)
    except BandannaError:
        raise
    except Exception as error:  # whose text, and whose own causes, may hold a user's value
        failure = ValueSummary.of_failure(error)
    raise InvalidStatistic(argument, ValueSummary(f"a function that raised {failure}"), allowed)


def _describe_bad_arguments(
    called: str, known: list[str], parameters: Any, given: tuple[Any, ...], named: Any
) -> InvalidArgument:
    places = [name for name in parameters if parameters[name].kind is not Parameter.KEYWORD_ONLY]
    if len(given) > len(places):
        rest = next((name for name in known if name not in places and name not in named), "...")
        bound = len({*_BOUND} & {*places})
        free = len(places) - bound
        allowed = "named" + (" after the first" + f" {free}" * (free > 1)) * (free > 0)
        unnamed = ValueSummary(f"{len(given) - bound} without names")
        return InvalidArgument("arguments", unnamed, allowed, f"Write {called}({rest}=...)")
    absent = [
        name
        for name in known
        if parameters[name].default is Parameter.empty and name not in named and name not in places[: len(given)]
    ]
    missing = absent[0] if absent else "arguments"
    return InvalidArgument(missing, None, "given", f"{called} takes {', '.join(known)}")


# Tables read from files


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word in quotes"}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document of a TOML file; errors begin with the file's name."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BandannaError(f"{path} is not a text file in UTF-8: its byte {error.start:,} is none") from error
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except ValueError as error:  # a number of too many digits is one too
        last = f"at line {max(1, len(text.splitlines()))}, the end of the file"
        raise BandannaError(f"{path}: bad TOML: {str(error).replace('at end of document', last)}") from error
    except RecursionError as error:
        raise BandannaError(f"{path}: bad TOML: too many brackets inside each other") from error


def check_keys(
    table: Mapping[str, Any], where: str, known: Iterable[str], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the table if all its keys are known and none is missing."""
    prefix = f"{where}." if where else ""
    owner = table["name"] if isinstance(table.get("name"), str) else where or "the file"
    for key, value in table.items():
        if key not in list(known):
            shown = "a table" if isinstance(value, Mapping) else value
            raise UnknownArgument(f"{prefix}{key}", shown, owner, ", ".join(known), did_you_mean(key, known))
    for key in needed:
        if key not in table:
            raise BandannaError(f"{prefix}{key} is missing. Required keys: {', '.join(needed)}")
    return dict(table)


def check_type(where: str, value: Any, expected: Any) -> Any:
    """Return the value if it has the expected type; owners check types without a word in `_WORDS`."""
    kinds = [kind for kind in typing.get_args(expected) or (expected,) if kind is not type(None)]
    if len(kinds) != 1 or kinds[0] not in _WORDS:
        return value
    kind = kinds[0]
    if kind in (int, float):
        fits = real(where, value, _WORDS[kind]).is_integer() or kind is float
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise InvalidArgument(where, value, _WORDS[kind])
    return value


@contextmanager
def prefix_errors(where: str) -> Iterator[None]:
    """Add a place to errors about an argument."""
    try:
        yield
    except InvalidArgument as error:
        raise error.rename(f"{where}{error.argument}") from error
    except BandannaError as error:
        raise BandannaError(f"{where.rstrip('.: ')}: {error}") from error


# Memory


_UNKNOWN = 2**40  # where the system does not say: nothing that anybody has is refused


def read_available_memory() -> int:
    """Return the bytes of memory of the machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def check_memory(argument: str, value: Any, needed: int, *, content: str) -> None:
    """Refuse an argument whose consequences would not fit into memory."""
    if needed > (room := read_available_memory()):
        hint = f"It needs {needed / 1e9:,.1f} GB of memory for {content}, and there are {room / 1e9:,.1f} GB"
        raise InvalidArgument(argument, value, "smaller", hint)
