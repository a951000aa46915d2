"""Calls of public functions: wrong arguments are refused with the nearest right ones, and warnings name the call."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from bandanna.core.spelling import did_you_mean
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, Summary

P = ParamSpec("P")
Answer = TypeVar("Answer")

_BOUND = ("self", "cls")  # nobody says them


def by_name(called: str) -> Callable[[Callable[P, Answer]], Callable[P, Answer]]:
    """Above a function that people call: unknown, missing or unnamed arguments get an error that says what it takes."""

    def decorate(function: Callable[P, Answer]) -> Callable[P, Answer]:
        expected = signature(function)
        known = [name for name in expected.parameters if name not in _BOUND]
        takes = f"it takes {', '.join(known)}"

        @wraps(function)
        def checked(*arguments: P.args, **named: P.kwargs) -> Answer:
            for name, value in named.items():
                if name not in known:
                    hint = did_you_mean(name, (each for each in known if each not in named))
                    raise InvalidArgument(name, Summary.of(value), f"{called} has no such argument: {hint}{takes}")
            try:
                expected.bind(*arguments, **named)
            except TypeError:
                raise _misplaced(called, known, expected.parameters, arguments, named) from None
            return function(*arguments, **named)

        return checked

    return decorate


def warn_outside(warning: Warning) -> None:
    """Give a warning that points at the line outside this package that led to it.

    A changed copy of a value (`dataclasses.replace`) gives none: the value that was copied gave it.
    """
    frame, level = sys._getframe(1), 2  # 2: the frame that called this function
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "bandanna":
        frame, level = frame.f_back, level + 1
    if frame.f_globals.get("__name__") != "dataclasses":
        warnings.warn(warning, stacklevel=level)


def result_of(argument: str, function: Callable[[Any], Any], data: Any, allowed: str) -> Any:
    """What a caller's own function makes of users' data; where it raises, the error says the type and the line."""
    try:
        return function(data)
    except BandannaError:
        raise
    except Exception as error:  # whose text, and whose own causes, may hold a user's value
        failure = Summary.of_failure(error)
    raise InvalidStatistic(argument, Summary(f"a function that raised {failure}"), allowed)


def _misplaced(called: str, known: list[str], parameters: Any, given: tuple[Any, ...], named: Any) -> InvalidArgument:
    """What is missing, or should have been named."""
    places = [name for name in parameters if parameters[name].kind is not Parameter.KEYWORD_ONLY]
    if len(given) > len(places):
        rest = next((name for name in known if name not in places and name not in named), "...")
        return InvalidArgument(
            "arguments", f"{len(given) - len({*_BOUND} & {*places})} without names", f"{called}({rest}=...)"
        )
    absent = [
        name
        for name in known
        if parameters[name].default is Parameter.empty and name not in named and name not in places[: len(given)]
    ]
    missing = absent[0] if absent else "arguments"
    return InvalidArgument(missing, None, f"{called} needs it: it takes {', '.join(known)}")
