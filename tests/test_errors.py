"""Errors form one family, say what was given and what is allowed, and can be pickled."""

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
    UnknownArgument,
    ValueSummary,
    WeakPrivacyWarning,
)

FAMILY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
WARNINGS = (ClippingWarning, CommunicationWarning, FeatureWarning, LateRewardWarning, SlowReleaseWarning,
            WeakPrivacyWarning)  # fmt: skip
ARGUMENT = [kind for kind in FAMILY if issubclass(kind, InvalidArgument) and kind is not UnknownArgument]


def test_every_error_is_a_bandanna_error_and_every_warning_a_user_warning() -> None:
    for kind in FAMILY:
        assert issubclass(kind, BandannaError) or kind in WARNINGS
        assert kind.__doc__
    assert all(issubclass(kind, UserWarning) for kind in WARNINGS)
    assert len(FAMILY) >= 11


@pytest.mark.parametrize("kind", ARGUMENT, ids=lambda kind: kind.__name__)
def test_an_invalid_argument_names_argument_value_and_what_is_allowed(kind: type[InvalidArgument]) -> None:
    error = kind("batch", 1, "a whole number >= 2")
    shown = 1 if kind is not InvalidStatistic else ValueSummary("an int")
    assert (error.argument, error.value, error.allowed) == ("batch", shown, "a whole number >= 2")
    assert str(error) == f"batch must be a whole number >= 2, got {shown}"
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.argument, again.value, again.allowed) == ("batch", shown, "a whole number >= 2")


def test_an_unknown_argument_lists_those_that_exist() -> None:
    error = UnknownArgument("seeds", 3, "simulate", "n_seeds, seed", "Did you mean 'n_seeds'?")
    again = pickle.loads(pickle.dumps(error))
    for each in (error, again, error.rename("seeds")):
        assert str(each) == "seeds is not an argument of simulate. Did you mean 'n_seeds'? It takes n_seeds, seed"
        assert isinstance(each, UnknownArgument)


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


def test_a_missing_dependency_names_its_extra_and_survives_pickling() -> None:
    error = MissingExtra("plot", "a figure")
    assert str(error) == "a figure needs an optional dependency: pip install 'bandanna[plot]'"
    assert isinstance(error, ImportError)
    again = pickle.loads(pickle.dumps(error))
    assert (again.extra, again.needed_for, str(again)) == ("plot", "a figure", str(error))


COMPOSED = {*ARGUMENT, UnknownArgument, MissingExtra}  # they make their message from their parts


@pytest.mark.parametrize("kind", [k for k in FAMILY if k not in COMPOSED], ids=lambda k: k.__name__)
def test_plain_errors_keep_their_message_between_processes(kind: type[Exception]) -> None:
    again = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(again) is kind
    assert str(again) == "what happened"


def test_errors_derive_from_the_builtin_errors_that_callers_catch() -> None:
    assert issubclass(errors.UnknownEvent, TypeError)
    assert issubclass(errors.InvalidStatistic, ValueError)
    assert issubclass(errors.InvalidBudget, ValueError)
    assert issubclass(errors.OutsideTheorem, ValueError)
