"""The catalogue of bounds: what each says about which policies and worlds, and where it is proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument

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
class Curve:
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


def states(side: str, paper: str, statement: str, *, explicit: bool, holds: str) -> Callable[[Formula], Formula]:
    """Enter a function in the catalogue under its own name."""

    def enter(formula: Formula) -> Formula:
        name = getattr(formula, "__name__", "")
        BOUNDS[name] = Bound(
            name=name, side=side, paper=paper, statement=statement, explicit=explicit, holds=holds, formula=formula
        )
        return formula

    return enter


def above(argument: str, value: Any, least: float, *, strict: bool = True) -> Floats:
    """Numbers, each above `least` (or equal to it, unless `strict`)."""
    numbers = np.asarray(value, dtype=float)
    if not np.all(numbers > least if strict else numbers >= least):
        raise InvalidArgument(argument, value, f"a number {'>' if strict else '>='} {least:g}")
    return numbers


def within(argument: str, value: Any, low: float, high: float) -> Floats:
    """Numbers in the open interval (low, high)."""
    numbers = np.asarray(value, dtype=float)
    if not np.all((numbers > low) & (numbers < high)):
        raise InvalidArgument(argument, value, f"a number in ({low:g}, {high:g})")
    return numbers


def plain(value: Any) -> Any:
    """A float if it is a single number."""
    return float(value) if np.ndim(value) == 0 else value
