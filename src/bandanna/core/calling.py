"""Calls with arguments that a function does not have: refused with the nearest that it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument

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
                    raise InvalidArgument(name, value, f"{called} has no such argument: {hint}{takes}")
            try:
                expected.bind(*arguments, **named)
            except TypeError:
                raise _misplaced(called, known, expected.parameters, arguments, named) from None
            return function(*arguments, **named)

        return checked

    return decorate


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
