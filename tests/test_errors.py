"""One family of errors, each saying what was wrong and what is allowed, and able to travel between processes."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from bandanna import errors
from bandanna.errors import (
    BandannaError,
    ClippingWarning,
    CommunicationWarning,
    FeatureWarning,
    InvalidArgument,
    InvalidStatistic,
    LateRewardWarning,
    MissingExtra,
    SlowReleaseWarning,
    ValueSummary,
    WeakPrivacyWarning,
)

FAMILY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
WARNINGS = (ClippingWarning, CommunicationWarning, FeatureWarning, LateRewardWarning, SlowReleaseWarning,
            WeakPrivacyWarning)  # fmt: skip
ARGUMENT = [kind for kind in FAMILY if issubclass(kind, InvalidArgument)]


def test_one_family() -> None:
    """Catching BandannaError misses an error that is raised on purpose."""
    for kind in FAMILY:
        assert issubclass(kind, BandannaError) or kind in WARNINGS
        assert kind.__doc__
    assert all(issubclass(kind, UserWarning) for kind in WARNINGS)
    assert len(FAMILY) >= 11


@pytest.mark.parametrize("kind", ARGUMENT, ids=lambda kind: kind.__name__)
def test_argument_value_allowed(kind: type[InvalidArgument]) -> None:
    """The message omits the argument, the value or what is allowed, or does not survive pickling."""
    error, shown = (
        kind("batch", 1, "a whole number >= 2"),
        1 if kind is not InvalidStatistic else ValueSummary("an int"),
    )
    assert (error.argument, error.value, error.allowed) == ("batch", shown, "a whole number >= 2")
    assert str(error) == f"batch must be a whole number >= 2, got {shown}"
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.argument, again.value, again.allowed) == ("batch", shown, "a whole number >= 2")


class _Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, "a\nb" * 1000, list(range(10**5)), np.eye(30), 10**5000, _Rude(), {"k": "v" * 9999}, b"\n" * 999],
    ids=["text", "lines", "list", "array", "5000 digits", "rude", "table", "bytes"],
)
def test_a_message_is_one_short_line(value: object) -> None:
    error = InvalidArgument("name", value, "something else")
    assert error.value is value
    assert len(str(error)) < 200
    assert len(str(error).splitlines()) == 1
    assert str(error).startswith("name must be something else, got ")
    assert str(error).endswith("  must be something else")


def test_missing_extra() -> None:
    """The error about a missing dependency does not name the extra, is no ImportError, or does not survive pickling."""
    error = MissingExtra("plot", "a figure")
    assert str(error) == "a figure needs an optional dependency: pip install 'bandanna[plot]'"
    assert isinstance(error, ImportError)
    again = pickle.loads(pickle.dumps(error))
    assert (again.extra, again.needed_for, str(again)) == ("plot", "a figure", str(error))


COMPOSED = {*ARGUMENT, MissingExtra, LateRewardWarning}  # they make their message from their parts


@pytest.mark.parametrize("kind", [k for k in FAMILY if k not in COMPOSED], ids=lambda k: k.__name__)
def test_plain_errors_carry_their_message(kind: type[Exception]) -> None:
    """A plain error loses its message between processes."""
    again = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(again) is kind
    assert str(again) == "what happened"


def test_kinds_that_callers_catch() -> None:
    """An unknown event is no TypeError, or an invalid statistic no ValueError."""
    assert issubclass(errors.UnknownEvent, TypeError)
    assert issubclass(errors.InvalidStatistic, ValueError)
    assert issubclass(errors.InvalidBudget, ValueError)
    assert issubclass(errors.OutsideTheorem, ValueError)
