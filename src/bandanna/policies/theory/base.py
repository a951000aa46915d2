"""The catalogue of regret bounds, and the settings for which they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bandanna.errors import InvalidArgument
from bandanna.types import Floats

# The catalogue of bounds: what each says about which policies and worlds, and where it is proven.


Formula = TypeVar("Formula", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One statement about regret (or, in `counting`, about the error of a counter).

    side      "upper": the policy's regret is at most this; "lower": no policy does better on every instance
    explicit  True: a number with all its constants; False: a rate, times an unknown constant (the argument `constant`)
    holds     for whom, and with what probability
    """

    name: str
    side: str
    paper: str
    statement: str
    explicit: bool
    holds: str
    formula: Callable[..., Any]

    def __call__(self, **arguments: Any) -> Any:
        """The formula."""
        return self.formula(**arguments)


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundCurve:
    """A bound at every horizon that was asked for; a rate, up to a factor, unless `bound.explicit`."""

    bound: Bound
    values: Floats

    @property
    def label(self) -> str:
        """Side and place: `upper bound, Theorem 10`; rates are upper ones unless it says otherwise."""
        kind = (
            f"{self.bound.side} bound"
            if self.bound.explicit
            else "lower rate"
            if self.bound.side == "lower"
            else "rate"
        )
        return f"{kind}, {self.bound.statement.partition(' (')[0].partition(',')[0]} [{self.bound.paper}]"


BOUNDS: dict[str, Bound] = {}


def register_bound(
    side: str, paper: str, statement: str, *, explicit: bool, holds: str
) -> Callable[[Formula], Formula]:
    """Enter a function in the catalogue under its own name."""

    def enter(formula: Formula) -> Formula:
        name = getattr(formula, "__name__", "")
        BOUNDS[name] = Bound(
            name=name, side=side, paper=paper, statement=statement, explicit=explicit, holds=holds, formula=formula
        )
        return formula

    return enter


def check_above(argument: str, value: Any, least: float, *, strict: bool = True) -> Floats:
    """Numbers, each above `least` (or equal to it, unless `strict`)."""
    numbers = np.asarray(value, dtype=float)
    if not np.all(numbers > least if strict else numbers >= least):
        raise InvalidArgument(argument, value, f"a number {'>' if strict else '>='} {least:g}")
    return numbers


def check_between(argument: str, value: Any, low: float, high: float) -> Floats:
    """Numbers in the open interval (low, high)."""
    numbers = np.asarray(value, dtype=float)
    if not np.all((numbers > low) & (numbers < high)):
        raise InvalidArgument(argument, value, f"a number in ({low:g}, {high:g})")
    return numbers


def to_scalar(value: Any) -> Any:
    """A float if it is a single number."""
    return float(value) if np.ndim(value) == 0 else value


# What a bound may know of a simulated result, as plain values: its setting.
#
# `simulate` notes it of policy and world (`simulation.engine`): "policy" (the class), "trust", "epsilon",
# "delta", "rho" of the guarantee, "dim" and "n_arms" of the world, and the policy's own numbers. A function
# `of_...(setting)` beside the formulas yields those that belong to a policy, each with its arguments but the horizon.


RunSetting = Mapping[str, Any]
BoundCalls = Iterator[tuple[Callable[..., Any], dict[str, Any]]]


def find_rho(setting: RunSetting) -> float:
    """zCDP of the guarantee: stated, or epsilon tanh(epsilon/2) of a pure one; infinite without privacy."""
    epsilon = float(setting["epsilon"]) if is_pure(setting) else math.inf
    pure = epsilon * math.tanh(epsilon / 2)
    return min(float(setting.get("rho", math.inf)), pure)


def is_pure(setting: RunSetting) -> bool:
    """Whether the guarantee has delta = 0."""
    return bool(setting.get("delta") == 0 and math.isfinite(setting.get("epsilon", math.inf)))


# Counters with k concurrent shufflers: how far the running count can be from the truth, from above and from below.
#
# Symbols: n `horizon` (users), k `shufflers`, epsilon, delta, beta `failure`.
# Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Corollary 3.5 and Theorem 4.1.


@register_bound(
    "upper",
    "002",
    "Corollary 3.5",
    explicit=False,
    holds="the tree of k concurrent shufflers on bits, all prefixes at once; epsilon < 1, delta < 1/2",
)
def counter_rate(
    *, horizon: Any, shufflers: int, epsilon: Any, delta: Any, failure: float = 0.05, constant: float = 1.0
) -> Any:
    """(k^(3/2) / epsilon) sqrt(log(k/delta)) n^(1/(2k+1)) sqrt(log(1/beta) + log n)."""
    n, k = check_above("horizon", horizon, 0), int(check_above("shufflers", shufflers, 1, strict=False))
    spread = np.sqrt(np.log(k / check_between("delta", delta, 0, 1))) * k**1.5 / check_above("epsilon", epsilon, 0)
    return to_scalar(
        constant * spread * n ** (1 / (2 * k + 1)) * np.sqrt(np.log(n / check_between("failure", failure, 0, 1)))
    )


@register_bound(
    "lower",
    "002",
    "Theorem 4.1",
    explicit=False,
    holds="every (epsilon, delta) counter of bits with k shufflers, delta < min(epsilon, 1)/(40 n (k + 1)), n large",
)
def counter_lower_rate(*, horizon: Any, shufflers: int, epsilon: Any, constant: float = 1.0) -> Any:
    """rep_{n,k} = n^(1/(2k+1)) c^(2k/(2k+1)) / 2, c = e^epsilon / (e^(2 epsilon) + 1); k = 0 is n/2.

    With constant probability some reported count is off by Omega(rep); the theorem leaves the constant open.
    """
    n, k = check_above("horizon", horizon, 0), int(check_above("shufflers", shufflers, 0, strict=False))
    small = np.exp(-check_above("epsilon", epsilon, 0))
    c = small / (1 + small**2)  # e^eps / (e^(2 eps) + 1)
    return to_scalar(constant * n ** (1 / (2 * k + 1)) * c ** (2 * k / (2 * k + 1)) / 2)
