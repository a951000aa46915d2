"""Searches for the least or the greatest number with a monotone property."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator


def find_least(meets: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-12) -> float:
    """Return the smallest x in [low, high], 0 < low, from which a monotone condition holds; `meets(high)` must hold.

    Bisection on log x. The returned x meets the condition and is at most a factor 1 + relative too large.
    """
    if meets(low):
        return low
    while high > low * (1 + relative):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def find_greatest(meets: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-12) -> float:
    """Return the largest x in [low, high], 0 < low, up to which a monotone condition holds; `meets(low)` must hold."""
    return 1 / find_least(lambda inverse: meets(1 / inverse), 1 / high, 1 / low, relative=relative)


def find_crossing(excess: Callable[[float], float], low: float, high: float, *, relative: float = 1e-12) -> float:
    """Return the smallest x in [low, high], 0 < low, from which a decreasing function is at most 0, as at `high`.

    False position on log x with the Illinois rule and bisection. The function must be smooth. The returned x is at most
    a factor 1 + relative too large, and has few digits if it can.
    """
    above, below, side, widths = excess(low), excess(high), 0, [math.inf] * 3
    if above <= 0:
        return low
    while high > low * (1 + relative):
        width = math.log(high / low)
        steady = math.isfinite(above - below) and width < widths[0] / 2
        spare = relative / width / 3  # the ends shall close in from both sides
        share = min(max(above / (above - below), spare), 1 - spare) if steady else 0.5
        middle, widths = low * math.exp(width * share), [*widths[1:], width]
        if not low < middle < high:
            break
        value = excess(middle)
        if value > 0:
            low, above, below, side = middle, value, below / 2 if side > 0 else below, 1
        else:
            high, below, above, side = middle, value, above / 2 if side < 0 else above, -1
    return next((x for x in _iterate_shorter(low, high) if excess(x) <= 0), high)


def _iterate_shorter(low: float, high: float) -> Iterator[float]:
    """Yield the number with the fewest digits in (low, high), if it has fewer than `high`."""
    for digits in range(1, 14):
        rounded = float(f"{high:.{digits}g}")
        if low < rounded < high:
            yield rounded
            return


def find_least_integer(meets: Callable[[int], bool], start: int, *, most: int) -> int | None:
    """Return the smallest whole number from which a monotone condition holds; None if it fails at `most`."""
    first = max(1, start // 64)
    low, high, step = 0, max(1, min(start, most)), first
    while not meets(high):
        if high >= most:
            return None
        low, high, step = high, min(most, high + step), 2 * step
    step = first
    while high - step > low and meets(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    return high
