"""The errors and warnings of the library, and suggestions for misspelt names.

Each error says on one line what was wrong and what is allowed. Errors about users' data show types and shapes only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import PurePath
from typing import Any, NoReturn

_LONGEST = 120  # characters of a value in a message
_KINDS = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "c": "complex numbers", "U": "texts",
          "S": "bytes", "M": "dates", "m": "durations", "V": "records"}  # fmt: skip


def format_value(value: Any) -> str:
    """Return a value as messages show it: on one line, shortened, even if its own `repr` fails."""
    try:
        plain = str(value) if isinstance(value, PurePath) else value
        text = " ".join(line.strip() for line in repr(plain).splitlines())
    except Exception:  # a foreign object may raise anything, a long integer ValueError
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 30]} ... ({len(text):,} characters)"


class ValueSummary(str):
    """A value's type and shape in words, which errors show instead of a user's value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def of(cls, value: Any) -> ValueSummary:
        """Return a value's type and shape, and nothing of its contents."""
        if value is None or isinstance(value, ValueSummary):
            return cls(value)
        name = type(value).__name__.replace("ndarray", "array")
        article = "an" if name[:1].lower() in tuple("aeio") else "a"
        return cls(f"{article} {name}{_describe_extent(value)}")

    @classmethod
    def of_failure(cls, error: BaseException) -> ValueSummary:
        """Return the type and line of an error from a caller's own function.

        Its text is left out, because it may hold a user's value.
        """
        name, place = type(error).__name__, error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if place is None:
            return cls(name)
        return cls(f"{name} in line {place.tb_lineno} of {PurePath(place.tb_frame.f_code.co_filename).name}")


def _describe_extent(value: Any) -> str:
    """Return the shape or length of a value in words; for a number, whether it is not finite."""
    try:
        if isinstance(value, float):
            return "" if math.isfinite(value) else " that is not finite"
        shape = getattr(value, "shape", None)
        if (
            isinstance(shape, tuple)
            and (shape or hasattr(value, "__setitem__"))
            and all(type(length) is int for length in shape)
        ):
            kind = getattr(getattr(value, "dtype", None), "kind", None)
            return f" of shape {shape}" + (f" of {_KINDS.get(kind, 'objects')}" if isinstance(kind, str) else "")
        return f" of length {len(value)}" if isinstance(value, list | tuple | dict | set | frozenset) else ""
    except Exception:  # a foreign object may raise anything
        return ""


class BandannaError(Exception):
    """Base of all errors raised by Bandanna. The message is one line, whatever it quotes."""

    def __str__(self) -> str:
        return " ".join(line.strip() for line in super().__str__().splitlines())


def raise_without_context(error: Exception) -> NoReturn:
    """Raise an error without keeping the handled one, which may hold a user's value.

    `raise ... from None` hides that one from tracebacks, but keeps it as `__context__`.
    """
    try:
        raise error
    except Exception:
        error.__context__ = None
        raise


def describe_json_error(error: Exception) -> str:
    """Say where a document stops being JSON; never quote it."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}"
    return f"byte {error.start}" if isinstance(error, UnicodeDecodeError) else type(error).__name__


class InvalidArgument(BandannaError, ValueError):
    """An argument has a value that is not allowed: "X must be Y, got Z".

    Parameters
    ----------
    argument
        The name of the argument.
    value
        The given object, which the message shows on one line, shortened.
    allowed
        What the argument must be: a noun phrase such as "a number in (0, 1)".
    hint
        One sentence that says what to do, or empty.
    """

    def __init__(self, argument: str, value: Any, allowed: str, hint: str = "") -> None:
        self.argument = argument
        self.value = value
        self.allowed = allowed
        self.hint = hint
        super().__init__(f"{argument} must be {allowed}, got {format_value(value)}{hint and f'. {hint}'}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the parts."""
        return type(self), (self.argument, self.value, self.allowed, self.hint)

    def rename(self, argument: str) -> InvalidArgument:
        """Return the same error about an argument that the caller knows by another name."""
        return type(self)(argument, self.value, self.allowed, self.hint)


class UnknownArgument(InvalidArgument):
    """A function, class or table was given an argument that it does not have.

    Parameters
    ----------
    argument
        The name that was given.
    value
        The value that was given with it.
    owner
        The function, class or table, as the caller writes it.
    known
        The names that exist, joined by commas.
    hint
        "Did you mean 'seed'?", or empty.
    """

    def __init__(self, argument: str, value: Any, owner: str, known: str, hint: str = "") -> None:
        super().__init__(argument, value, "left out", hint)
        self.owner = owner
        self.known = known
        self.args = (f"{argument} is not an argument of {owner}. {hint}{hint and ' '}It takes {known}",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.value, self.owner, self.known, self.hint)

    def rename(self, argument: str) -> UnknownArgument:
        return type(self)(argument, self.value, self.owner, self.known, self.hint)


class InvalidBudget(InvalidArgument):
    """A privacy budget is malformed, or the mechanism cannot meet it (delta = 0 for Gaussian noise)."""


class InvalidStatistic(InvalidArgument):
    """Data from users (contexts, rewards, ids, tables and statistics of them) is not allowed.

    `value` and the message describe it by type and shape, and `argument` says where it is, by numbers and declared
    names: neither holds a user's value. A text is shown only if it is a `ValueSummary`.
    """

    def __init__(self, argument: str, value: Any, allowed: str, hint: str = "") -> None:
        super().__init__(argument, ValueSummary.of(value), allowed, hint)


class OutsideTheorem(InvalidArgument):
    """`calibration="paper"` was used outside the range in which the paper's theorem holds."""


class CalibrationError(BandannaError):
    """No noise level that the search tries meets the target."""


class UnknownEvent(BandannaError, TypeError):
    """The accountant has no price for this event."""


class HorizonReached(InvalidArgument):
    """The policy's horizon has no more decisions. Nothing was recorded; recommendations still work."""


class BudgetExceeded(BandannaError):
    """The release would spend more than the ledger's budget. Nothing was spent or released."""


class ConflictingRelease(BandannaError):
    """Other data (or another mechanism) was given under an id that is already released."""


class Unreadable(BandannaError, ValueError):
    """A stored value is not one that this library writes."""


class InsecureSource(BandannaError):
    """A noise source may not be used here: it is seeded, or cannot sample securely."""


class MissingExtra(BandannaError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        self.needed_for = needed_for
        super().__init__(f"{needed_for} needs an optional dependency: pip install 'bandanna[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.extra, self.needed_for)


class ClippingWarning(UserWarning):
    """Most reports had to be clipped."""

    @classmethod
    def of(cls, clipped: int, reports: int) -> ClippingWarning | None:
        """Return the warning if most reports were clipped, else None."""
        if 2 * clipped <= reports:
            return None
        return cls(
            f"{clipped:,} of {reports:,} reports were clipped, because their features (norm at most 1, unless the "
            "policy allows more) or their rewards were out of range. Scale them by public limits first"
        )


class WeakPrivacyWarning(UserWarning):
    """A budget protects little: its epsilon is more than 10, or its delta is more than 1/horizon."""


class LateRewardWarning(UserWarning):
    """A reward was dropped because its batch had closed, or its decision is in no batch. Given once by each agent."""


class FeatureWarning(UserWarning):
    """Most records had features that the map does not expect: clipped, unknown or missing."""


class SlowReleaseWarning(UserWarning):
    """A release is estimated to take more than a second, in which an agent answers no call."""


class CommunicationWarning(UserWarning):
    """A protocol's messages are longer than the limit that was set."""


# Suggestions for misspelt names


_NEAR = 0.65  # resemblance, from 0 to 1, below which a word is not meant


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """Return a question that names the nearest known word, if one is near."""
    close = find_nearest_word(word, known)
    return f"Did you mean {close!r}?" if close else ""


def suggest_column(name: str, columns: Sequence[Any]) -> str:
    """Say where a similar column is, without its name, which may be a cell of a file without header."""
    close = find_nearest_word(name, [each for each in columns if isinstance(each, str)])
    return f"Column {list(columns).index(close)} has a similar name." if close else ""


def find_nearest_word(word: Any, known: Iterable[str]) -> str:
    """Return the nearest known word; empty if none is near."""
    if not isinstance(word, str) or not 0 < len(word) <= 100:  # comparing a long text takes its time
        return ""
    known = tuple(known)
    if f"n_{word.lower()}" in known:  # `seeds` means `n_seeds`, not `seed`
        return f"n_{word.lower()}"
    resemblance = {each: _resemblance(word.lower(), each.lower()) for each in known}
    close = max(resemblance, key=resemblance.__getitem__, default="")
    return close if close and resemblance[close] >= _NEAR else ""


def _resemblance(word: str, known: str) -> float:
    # the resemblance to the known word or, with a small discount, to its beginning
    begun = SequenceMatcher(None, word, known[: len(word)]).ratio()
    return max(SequenceMatcher(None, word, known).ratio(), 0.97 * begun)
