"""One-dimensional searches for a threshold, always answering on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable


def least(meets: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-12) -> float:
    """Smallest x in [low, high], 0 < low, from which a monotone condition holds; `meets(high)` must hold.

    Bisection on log x. The returned x itself meets the condition and is at most a factor 1 + relative too large.
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


def greatest(meets: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-12) -> float:
    """Largest x in [low, high], 0 < low, up to which a monotone condition holds; `meets(low)` must hold."""
    return 1 / least(lambda inverse: meets(1 / inverse), 1 / high, 1 / low, relative=relative)


def least_whole(meets: Callable[[int], bool], start: int, *, most: int) -> int | None:
    """Smallest whole number from which a monotone condition holds, searched outwards from a good guess.

    None if it does not hold at `most`.
    """
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
