"""Propensities as a command line has them, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from bandanna.logs.reading import cell_of


def propensity_of(text: str) -> Any:
    """A probability by design, such as 1/3; one for each arm, A=0.5,B=0.25,...; or the name of a column."""
    pairs = [each.rpartition("=") for each in text.split(",")]
    if all(name and equals for name, equals, _ in pairs):
        return {cell_of(name): _number(chance) for name, _, chance in pairs}
    return _number(text)


def _number(text: str) -> Any:
    """A number, or the text as it is."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        return text
