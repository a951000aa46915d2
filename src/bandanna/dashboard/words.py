"""Numbers and rules in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.tasks.document import Task

_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def number(value: Any, digits: int = 4) -> str:
    """A few significant digits, thousands set apart; a dash for what is not known.

    >>> number(0.99873), number(12345.6), number(3), number(None)
    ('0.9987', '12,346', '3', '–')
    """
    if type(value) is int:
        return f"{value:,}"
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return "\u2013"
    if abs(value) >= 10 ** (digits - 1):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}") if "e" not in text else text


def band(value: Mapping[str, Any] | None, digits: int = 4) -> str:
    """A number and how far it may be off."""
    if value is None or value["value"] is None:
        return "\u2013"
    if value["half"] is None:
        return number(value["value"], digits)
    return f"{number(value['value'], digits)} \u00b1 {number(value['half'], max(2, digits - 1))}"


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 11th.

    >>> ordinal(1), ordinal(12), ordinal(233)
    ('1st', '12th', '233rd')
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def duration(seconds: float) -> str:
    """In the largest unit that makes it a whole number.

    >>> duration(600), duration(90), duration(1), duration(0.5)
    ('10 minutes', '90 seconds', '1 second', '0.5 seconds')
    """
    for length, unit in _UNITS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count:,} {unit}{'s' * (count != 1)}"
    return f"{seconds:g} seconds"


def closing(task: Task, slots: int) -> str:
    """When a batch of so many slots closes."""
    if task.content["close"] == "answered":
        return f"closes when all {slots:,} have answered (a test)"
    grace = float(task.content["grace"])
    return f"closes {f'{duration(grace)} after' if grace else 'with'} its {ordinal(slots)} slot"


def moment(seconds: float | None) -> str | None:
    """A time of the clock, in UTC."""
    if seconds is None or not 0 <= seconds < 2e11:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def budget(spends: Budget | None) -> tuple[str, float | None]:
    """In words, and its epsilon where it has one."""
    if isinstance(spends, ApproxDP):
        return f"epsilon = {spends.epsilon:g}, delta = {spends.delta:g}", _finite(spends.epsilon)
    if isinstance(spends, PureDP):
        return f"epsilon = {spends.epsilon:g}", _finite(spends.epsilon)
    if isinstance(spends, ZCDP):
        return f"{spends.rho:g}-zCDP", None
    return ("none: nothing is promised" if spends is None else str(spends)), None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
