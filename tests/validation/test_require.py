"""Checks return plain values, or name argument, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bandanna import validation
from bandanna.device.domain import read_numeric_array
from bandanna.errors import InvalidArgument, InvalidBudget

from ..trouble import Interrupt


class Rude(float):
    """A number that cannot be read."""

    def __float__(self) -> float:
        raise RuntimeError("no")


NEVER: list[Any] = [True, False, np.True_, None, "1", b"1", [1.0], (1,), {}, 1j, Decimal(1), math.nan, np.nan]
NEVER += [
    Rude(0.5),
    np.timedelta64(1),
    np.datetime64(1, "s"),
    np.array([1.0, 2.0]),
    pd.NA,
    pd.NaT,
    np.ma.masked,
    object(),
]
NAMES = [repr(value) for value in NEVER[:-1]] + ["object"]  # the same in every process


@pytest.mark.parametrize("value", NEVER, ids=NAMES)
@pytest.mark.parametrize(
    "check",
    [validation.positive, validation.finite, validation.non_negative, validation.open_probability, validation.integer],
    ids=["positive", "finite", "non_negative", "chance", "whole"],
)
def test_what_is_no_number_is_refused(check: Callable[[str, Any], Any], value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check("size", value)
    assert caught.value.argument == "size"
    assert caught.value.value is value
    assert str(caught.value).startswith("size must be ")
    assert not isinstance(caught.value, InvalidBudget)


@pytest.mark.parametrize("value", NEVER, ids=NAMES)
def test_budgets_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(InvalidBudget, match="epsilon"):
        validation.epsilon(value)
    with pytest.raises(InvalidBudget, match="delta"):
        validation.delta(value)
    with pytest.raises(InvalidBudget, match="target"):
        validation.epsilon(value, argument="target")
    with pytest.raises(InvalidBudget, match="slack"):
        validation.delta(value, argument="slack")


@pytest.mark.parametrize("value", [1, 2.5, np.float32(0.5), np.int64(3), Fraction(1, 3), 5e-324])
def test_positive_numbers_of_any_type_become_floats(value: Any) -> None:
    assert type(validation.positive("x", value)) is float
    assert validation.positive("x", value) == float(value)
    assert type(validation.non_negative("x", value)) is float
    assert type(validation.epsilon(value)) is float


def test_signs_and_infinities_pass_only_where_allowed() -> None:
    for value in (0, 0.0, -0.0, -1e-300, -math.inf):
        with pytest.raises(InvalidArgument):
            validation.positive("x", value)
        with pytest.raises(InvalidBudget):
            validation.epsilon(value)
    with pytest.raises(InvalidArgument, match="finite"):
        validation.positive("x", math.inf)
    assert validation.positive("x", math.inf, infinite=True) == math.inf
    assert validation.epsilon(math.inf) == math.inf
    assert validation.non_negative("x", 0) == 0.0
    assert validation.non_negative("x", math.inf, infinite=True) == math.inf
    with pytest.raises(InvalidArgument, match=r"a number >= 0 \(inf"):
        validation.non_negative("x", -1, infinite=True)
    for value in (-1e-300, math.inf, -math.inf):
        with pytest.raises(InvalidArgument):
            validation.non_negative("x", value)


def test_delta_lies_in_its_half_open_interval() -> None:
    assert validation.delta(0) == 0.0
    assert validation.delta(1 - 1e-16) == 1 - 1e-16
    for value in (1, 1.0, 1.5, -1e-300, math.inf, -math.inf):
        with pytest.raises(InvalidBudget, match=r"\[0, 1\)"):
            validation.delta(value)


@pytest.mark.parametrize(
    ("value", "number"), [(1, 1), (20.0, 20), (1e6, 10**6), (np.int32(7), 7), (np.float64(3.0), 3), (2**53, 2**53)]
)
def test_integers_of_any_type_become_plain_ones(value: Any, number: int) -> None:
    assert validation.integer("n", value) == number
    assert type(validation.integer("n", value)) is int


def test_fractions_infinities_and_small_numbers_are_not_integers() -> None:
    for value in (1.5, 0.999, math.inf, -math.inf, 0, -3):
        with pytest.raises(InvalidArgument, match="whole number >= 1"):
            validation.integer("n", value)
    assert validation.integer("n", 0, least=0) == 0
    assert validation.integer("n", -3, least=-5) == -3
    with pytest.raises(InvalidArgument, match=">= 2"):
        validation.integer("n", 1, least=2)


BEYOND = [10**400, Fraction(10**400), 10**5000, np.longdouble("1e400")]


@pytest.mark.parametrize("value", BEYOND, ids=["integer", "fraction", "5000 digits", "long double"])
def test_numbers_too_large_for_a_float_are_refused(value: Any) -> None:
    for check in (
        validation.positive,
        validation.finite,
        validation.non_negative,
        validation.open_probability,
        validation.integer,
    ):
        with pytest.raises(InvalidArgument, match=r"^x must be "):
            check("x", value)
    with pytest.raises(InvalidArgument):
        validation.positive("x", value, infinite=True)
    for budget in (validation.epsilon, validation.delta):
        with pytest.raises(InvalidBudget):
            budget(value)


def test_fractions_that_round_to_zero_are_refused() -> None:
    tiny = Fraction(1, 10**400)
    for check in (validation.positive, validation.open_probability):
        with pytest.raises(InvalidArgument):
            check("x", tiny)
    with pytest.raises(InvalidBudget):
        validation.epsilon(tiny)


def test_a_count_has_a_limit_unless_it_is_lifted() -> None:
    with pytest.raises(InvalidArgument, match="at most 9,007,199,254,740,992"):
        validation.integer("n", 2**53 + 1)
    with pytest.raises(InvalidArgument, match=r"n must be a whole number >= 1, at most 10.*, got 11"):
        validation.integer("n", 11, most=10)
    assert validation.integer("seed", 2**127, most=None) == 2**127


def test_a_word_must_be_on_the_list() -> None:
    assert validation.one_of("path", "law", ("messages", "law")) == "law"
    for value in ("Law", "", None, 1, ["law"], np.array(["law", "messages"])):
        with pytest.raises(InvalidArgument, match="one of 'messages', 'law'"):
            validation.one_of("path", value, ("messages", "law"))


@pytest.mark.parametrize(
    "value", ["", ".", "/", "a\0b", "\ud800", "x" * 5000, None, 7, b"file", ["file"], np.array("file")]
)
def test_a_bad_path_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^path must be "):
        validation.path("path", value)
    assert validation.path("path", "a/b") == validation.path("path", Path("a/b")) == Path("a/b")
    assert validation.path("out", ".", folder=True) == Path(".")


def test_truth_values_and_factors_are_checked() -> None:
    assert validation.boolean("clip", np.False_) is False
    for value in (1, 0.0, "yes", None, [True], np.array([True, False])):
        with pytest.raises(InvalidArgument, match="True or False"):
            validation.boolean("clip", value)
    assert validation.bounded_factor("width", 0, zero=True) == 0.0
    for value in (0, -1.0, 1e-13, 1e300, math.inf):
        with pytest.raises(InvalidArgument, match=r"in \[1e-12, 1e12\]"):
            validation.bounded_factor("width", value)


@pytest.mark.parametrize("value", ["ab", b"ab", {"a": 1}, {"a"}, 3, None, np.array(1.0), np.ma.array([1], mask=[1])])
def test_a_value_that_is_not_a_list_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"users must be a list.*, got (an? \w+( of .*)?|None)"):
        validation.list_entries("users", value, "a list")
    assert validation.list_entries("users", (each for each in "ab"), "a list") == ["a", "b"]


class OutOfTime(Exception):
    """What the handler of an alarm raises."""


@pytest.mark.parametrize(
    "check",
    [
        lambda: validation.real("x", 0.5, "a number"),
        lambda: validation.list_entries("x", ["ann", "bob"], "a list"),
        lambda: read_numeric_array("x", np.ones((2, 3)), "numbers"),
    ],
)
def test_a_signal_is_no_fault_of_a_plain_value(check: Callable[[], Any]) -> None:
    for k in range(1, 50):
        interrupt = Interrupt(k, OutOfTime)
        try:
            with interrupt:
                check()
        except OutOfTime:
            continue
        assert not interrupt.fired
        break
    assert 1 < k < 49
