"""Checks return plain values, or name argument, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bandanna as bd
from bandanna import validation
from bandanna.device.domain import Ball, Bits, Box, SymmetricMatrix, read_numeric_array
from bandanna.device.linear_report import LinearReport
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget, did_you_mean
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PrivUnit,
    RandomizedResponse,
)
from bandanna.policies.registry import ALGORITHMS
from bandanna.privacy import events
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP, RenyiDP
from bandanna.privacy.calibration import BinomialNoise, binomial_noise, continual_std, gaussian_std, laplace_scale
from bandanna.privacy.factorisation import BLT, BinaryTree, factorise
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

from ..trouble import Interrupt


class Rude(float):
    """A number that cannot be read."""

    def __float__(self) -> float:
        raise RuntimeError("no")


NEVER: list[Any] = [True, False, np.True_, None, "1", b"1", [1.0], (1,), {}, 1j, Decimal(1), math.nan, np.nan]
NEVER += [
    Rude(0.5),
    np.timedelta64(1, "s"),
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


# Values with NumPy scalars, fractions and other numbers as arguments: kept plain, promising the same


DOMAIN, BUDGET = Box(dim=2), ApproxDP(epsilon=1.0, delta=2.0**-10)
NOISE = {"scale": 4.0, "trials": 96, "users": 2}
MAKERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Ball": (Ball, {"dim": 3, "bound": 2.0}),
    "Box": (Box, {"dim": 3, "low": -1.0, "high": 64.0}),
    "Bits": (Bits, {"dim": 1, "low": 0.0, "high": 1.0}),
    "LinearReport": (LinearReport, {"features": 3, "reward_bound": 2.0}),
    "SymmetricMatrix": (SymmetricMatrix, {"size": 3, "bound": 2.0}),
    "PureDP": (PureDP, {"epsilon": 2.0}),
    "ApproxDP": (ApproxDP, {"epsilon": 2.0, "delta": 0.25}),
    "ZCDP": (ZCDP, {"rho": 0.5}),
    "RenyiDP": (RenyiDP, {"alpha": 2.0, "epsilon": 0.5}),
    "Privacy": (Privacy, {"model": "central", "budget": BUDGET, "participations": 2, "shufflers": 2}),
    "BatchTree": (BatchTree, {"horizon": 16, "degrees": (2, 4)}),
    "GaussianEvent": (events.GaussianEvent, {"std": 2.0, "sensitivity": 1.0, "dim": 3, "grid": 0.25}),
    "DiscreteGaussianEvent": (events.DiscreteGaussianEvent, {"std": 2.0, "shift": 1.0, "dim": 3}),
    "LaplaceEvent": (events.LaplaceEvent, {"scale": 2.0, "sensitivity": 1.0, "dim": 3, "grid": 0.25}),
    "DiscreteLaplaceEvent": (events.DiscreteLaplaceEvent, {"scale": 2.0, "shift": 1.0, "dim": 3}),
    "CapEvent": (events.CapEvent, {"cosine": 0.25, "chance": 0.75, "candidates": 4, "dim": 3, "steps": 64}),
    "BinomialEvent": (events.BinomialEvent, {"trials": 100, "shift": 2.0, "reach": 2, "dim": 3, "probability": 0.5}),
    "ShuffledGaussianEvent": (
        events.ShuffledGaussianEvent,
        {"std": 2.0, "sensitivity": 1.0, "users": 10, "dim": 2, "tail": 0.0},
    ),
    "ContinualEvent": (
        events.ContinualEvent,
        {
            "factorisation": factorise("tree", horizon=4),
            "std": 2.0,
            "sensitivity": 1.0,
            "participations": 2,
            "dim": 2,
            "grid": 0.25,
        },
    ),
    "RepetitionEvent": (events.RepetitionEvent, {"event": events.GaussianEvent(std=1.0, sensitivity=1.0), "times": 3}),
    "BLT": (BLT, {"horizon": 100, "theta": (0.75,), "theta_hat": (0.5,)}),
    "BinaryTree": (BinaryTree, {"horizon": 100}),
    "BinomialNoise": (BinomialNoise, {**NOISE, "probability": 0.5}),
    "Gaussian": (GaussianMechanism, {"std": 2.0, "sensitivity": 1.0, "dim": 3}),
    "Gaussian on a grid": (GaussianMechanism, {"std": 2.0, "sensitivity": 1.0, "dim": 3, "grid": 0.25}),
    "Laplace": (LaplaceMechanism, {"scale": 2.0, "sensitivity": 1.0, "dim": 3, "grid": 0.25}),
    "DiscreteGaussian": (DiscreteGaussianMechanism, {"std": 2.0, "shift": 1.0, "dim": 3}),
    "DiscreteLaplace": (DiscreteLaplaceMechanism, {"scale": 2.0, "shift": 1.0, "dim": 3}),
    "Binomial": (BinomialMechanism, {"trials": 100, "shift": 2.0, "reach": 2, "dim": 3, "probability": 0.5}),
    "PrivUnit": (PrivUnit, {"cosine": 0.25, "chance": 0.75, "candidates": 4, "dim": 3, "steps": 64}),
    "RandomizedResponse": (RandomizedResponse, {"epsilon": 2.0, "dim": 3}),
    "ContinualGaussian": (
        ContinualGaussian,
        {
            "factorisation": factorise("tree", horizon=4),
            "std": 2.0,
            "sensitivity": 1.0,
            "dim": 2,
            "participations": 2,
            "grid": 0.25,
        },
    ),
    "Clear": (Clear, {"domain": DOMAIN, "participations": 2}),
    "CentralGaussian": (
        CentralGaussian,
        {"domain": DOMAIN, "noise_std": 2.0, "participations": 2, "delta": 0.0009765625},
    ),
    "CentralLaplace": (CentralLaplace, {"domain": DOMAIN, "scale": 64.0, "steps": 8, "participations": 2}),
    "CentralContinual": (
        CentralContinual,
        {
            "domain": DOMAIN,
            "factorisation": factorise("tree", horizon=4),
            "noise_std": 2.0,
            "participations": 2,
            "delta": 0.0009765625,
        },
    ),
    "LocalGaussian": (LocalGaussian, {"domain": DOMAIN, "noise_std": 2.0, "participations": 2, "delta": 0.0009765625}),
    "LocalBits": (LocalBits, {"epsilon": 2.0, "participations": 2}),
    "LocalUnit": (
        LocalUnit,
        {"domain": DOMAIN, "cosine": 0.25, "chance": 0.75, "candidates": 4, "delta": 0.0009765625},
    ),
    "ShuffleGaussian": (ShuffleGaussian, {"domain": DOMAIN, "noise_std": 2.0, "batch": 4, "delta": 0.0009765625}),
    "ShuffleBinomial": (ShuffleBinomial, {"domain": DOMAIN, "noise": BinomialNoise(**NOISE), "delta": 0.0009765625}),
    "ShuffleBits": (ShuffleBits, {"noise": BinomialNoise(**NOISE), "delta": 0.0009765625}),
}
SCALARS: dict[str, Callable[[float], Any]] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "longdouble": np.longdouble,
    "int8": np.int8,
    "uint8": np.uint8,
    "int64": np.int64,
    "Fraction": Fraction,
    "int": int,
}


def dressed(value: Any, scalar: Callable[[float], Any]) -> Any:
    """A number, or the numbers of a tuple, as scalars of another type, where that type has the same number."""
    if isinstance(value, tuple):
        return tuple(dressed(part, scalar) for part in value)
    if type(value) not in (int, float) or (scalar in (np.uint8, int) and value < 0):
        return value
    other = scalar(value) if float(value).is_integer() or scalar not in (np.int8, np.uint8, np.int64, int) else value
    return other if other == value else value


def check_plain(value: Any) -> None:
    """Plain numbers, texts and values of those all the way down."""
    if is_dataclass(value):
        for field in fields(value):
            check_plain(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            check_plain(part)
    else:
        assert value is None or type(value) in (int, float, bool, str), type(value)


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("name", MAKERS)
def test_values_hold_plain_python_numbers(name: str, scalar: Callable[[float], Any]) -> None:
    make, numbers = MAKERS[name]
    plain, other = make(**numbers), make(**{key: dressed(value, scalar) for key, value in numbers.items()})
    check_plain(other)
    assert repr(other) == repr(plain)
    for stated in ("sensitivity", "l1_sensitivity", "event", "guarantee", "variance"):
        if hasattr(plain, stated):
            assert repr(getattr(other, stated)) == repr(getattr(plain, stated)), stated


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_calibrations_are_those_of_plain_numbers(scalar: Callable[[float], Any]) -> None:
    one, two, four = (dressed(number, scalar) for number in (1.0, 2, 4))
    tree = factorise("tree", horizon=4)
    assert gaussian_std(sensitivity=one, dim=two, budget=BUDGET, participations=four) == gaussian_std(
        sensitivity=1.0, dim=2, budget=BUDGET, participations=4
    )
    assert laplace_scale(sensitivity=one, dim=two, budget=BUDGET) == laplace_scale(
        sensitivity=1.0, dim=2, budget=BUDGET
    )
    assert continual_std(factorisation=tree, sensitivity=one, dim=two, budget=BUDGET) == continual_std(
        factorisation=tree, sensitivity=1.0, dim=2, budget=BUDGET
    )
    assert binomial_noise(sensitivity=one, reach=one, dim=two, users=four, budget=BUDGET) == binomial_noise(
        sensitivity=1.0, reach=1.0, dim=2, users=4, budget=BUDGET
    )


def test_half_precision_loses_no_width() -> None:
    assert Box(dim=1, low=np.float16(-1), high=np.float16(2048)).sensitivity == 2049.0
    assert Box(dim=1, low=np.int8(-100), high=np.int8(100)).sensitivity == 200.0


WRONG = [True, np.True_, None, "1", Decimal(1), 1j, np.complex64(1), np.datetime64(1, "s"), 10**400, np.nan]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: f"{type(value).__name__} {str(value)[:5]}")
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_no_number_is_refused_plain_numbers(name: str, wrong: Any) -> None:
    make, numbers = MAKERS[name]
    optional = {"grid"} if wrong is None else set()
    for key, value in numbers.items():
        if type(value) in (int, float) and key not in optional:
            with pytest.raises(BandannaError):
                make(**{**numbers, key: wrong})


@pytest.mark.parametrize("ends", [(0.0, 1e300), (-1e300, 0.0), (0.0, 1e-300), (1.0, 1.0), (2.0, 1.0), (0.0, np.inf)])
def test_boxes_beyond_the_floats_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(BandannaError, match="low"):
        Box(dim=1, low=ends[0], high=ends[1])
    with pytest.raises(BandannaError, match="bound"):
        Ball(dim=1, bound=1e300)
    with pytest.raises(BandannaError, match="reward_bound"):
        LinearReport(features=2, reward_bound=1e-300)


# What would not fit into memory is refused before it is tried


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 1 GB."""
    monkeypatch.setattr(validation, "read_available_memory", lambda: 10**9)


@pytest.mark.usefixtures("small")
def test_reports_that_do_not_fit_are_refused_with_their_size() -> None:
    with pytest.raises(InvalidArgument, match=r"got 10000. .* 2.8 GB of memory for .* 50,015,000 coordinates"):
        LinearReport(features=10_000)
    assert LinearReport(features=1000).dim == 501_500


@pytest.mark.usefixtures("small")
def test_a_batch_that_does_not_fit_is_refused_by_the_agent() -> None:
    policy = bd.LinUCB(dim=640, horizon=1000, batch=500, privacy=bd.none())
    with pytest.raises(InvalidArgument, match=r"got 500. .* 2.5 GB of memory for .* 205,760 numbers each, .* 1.0"):
        bd.Agent(policy=policy)
    with pytest.raises(InvalidArgument, match="batch must be smaller, got 500"):
        bd.Agent(policy=bd.policies.Anytime(first=policy))
    assert bd.Agent(policy=bd.LinUCB(dim=640, horizon=1000, batch=10, privacy=bd.none())).decisions == 0


def test_the_machine_says_how_much_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10**8 < validation.read_available_memory() < 10**14

    def silent(_: str) -> int:
        raise ValueError

    monkeypatch.setattr("os.sysconf", silent)
    assert validation.read_available_memory() == 2**40


# Calls by wrong names are answered with the right ones


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bd.central(eps=1.0, delta=1e-5), "Did you mean 'epsilon'"),  # type: ignore[call-arg]
        (lambda: bd.shuffle(rho=1.0), "rho is not an argument of bd.shuffle"),  # type: ignore[call-arg]
        (lambda: bd.concurrent(delta=1e-5), "epsilon"),  # type: ignore[call-arg]
        (lambda: bd.central(1.0, 1e-5, 0.5), "3 without names"),  # type: ignore[misc]
        (lambda: bd.Agent(bd.LinUCB(dim=2, horizon=5, privacy=bd.none()), ["a"]), r"bd.Agent\(arms=...\)"),  # type: ignore[misc]
        (lambda: bd.Agent(), "policy"),  # type: ignore[call-arg]
        (lambda: bd.simulate(bd.LinUCB(dim=2, horizon=5, privacy=bd.none()), None, seeds=3), "Did you mean 'n_seeds'"),  # type: ignore[arg-type, call-arg]
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(call: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        call()


# Misspelt words


KEYS = ("epsilon", "delta", "horizon", "batch", "dim", "width", "alpha")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("delat", "delta"),
        ("Epsilon", "epsilon"),
        ("eps", "epsilon"),
        ("horizont", "horizon"),
        ("alfa", "alpha"),
        ("widht", "width"),
    ],
)
def test_the_nearest_word_is_asked_for(word: str, meant: str) -> None:
    assert did_you_mean(word, KEYS) == f"Did you mean {meant!r}?"


@pytest.mark.parametrize("word", ["rho", "x", "", "participations", None, 3, ["delta"], "delta" * 10**6])
def test_what_is_not_near_is_not_asked_for(word: Any) -> None:
    assert did_you_mean(word, KEYS) == ""


def test_a_slip_in_an_algorithm_keeps_its_privacy_model() -> None:
    assert did_you_mean("LinUCB-SPD", ALGORITHMS) == "Did you mean 'LinUCB-SDP-Amp'?"
    assert did_you_mean("linucb-jpd", ALGORITHMS) == "Did you mean 'LinUCB-JDP'?"
    assert did_you_mean("AdaC-UBC", ALGORITHMS) == "Did you mean 'AdaC-UCB'?"
