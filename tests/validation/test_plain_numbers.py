"""Values with NumPy scalars, fractions and other numbers as arguments: kept plain, promising the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball, Bits, Box, SymmetricMatrix
from bandanna.device.linear_report import LinearReport
from bandanna.errors import BandannaError
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
def test_what_is_no_number_is_refused(name: str, wrong: Any) -> None:
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
