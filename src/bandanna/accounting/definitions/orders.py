"""The supremum of D_alpha / alpha over all orders alpha > 1, bracketed from both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise


def largest_ratio(renyi: Callable[[float], float], *, relative: float) -> float:
    """An upper bound of sup_{alpha > 1} D_alpha / alpha, at most a factor 1 + `relative` above it.

    Between two orders a < b the curve is bounded by what is known of Renyi divergences (van Erven and Harremoes 2014):
    psi(alpha) = (alpha - 1) D_alpha is convex, hence below its chord, and D_alpha does not fall. Beyond
    alpha = D_infinity / best nothing can be larger. Intervals whose bound is above the best value found are halved.
    """
    top = renyi(math.inf)
    if top == 0 or math.isinf(top):
        return top
    known = {1.0: renyi(1.0), 2.0: renyi(2.0)}
    best = max(value / order for order, value in known.items())
    while max(known) * best < top:
        order = 2 * max(known)
        known[order] = renyi(order)
        best = max(best, known[order] / order)
    orders = sorted(known)
    intervals = [(_bound(a, b, known), a, b) for a, b in pairwise(orders)]
    while True:
        open_ = [each for each in intervals if each[0] > best * (1 + relative)]
        if not open_:
            return max([best, *(bound for bound, _, _ in intervals)])
        intervals = [each for each in intervals if each[0] <= best * (1 + relative)]
        for bound, a, b in open_:
            middle = math.sqrt(a * b) if a > 1 else 1 + (b - 1) / 2
            known[middle] = renyi(middle)
            best = max(best, known[middle] / middle)
            intervals += [(min(bound, _bound(*each, known)), *each) for each in ((a, middle), (middle, b))]


def _bound(a: float, b: float, known: dict[float, float]) -> float:
    """What D_alpha / alpha cannot exceed for alpha in [a, b]."""
    monotone = known[b] / a
    if a == 1:
        return monotone
    low, high = (a - 1) * known[a], (b - 1) * known[b]  # psi at both ends
    slope = (high - low) / (b - a)
    level = low - slope * a  # chord: level + slope alpha
    candidates = [a, b]
    if level * (level + slope) >= 0 and slope > 0:  # d/dalpha (level + slope alpha) / (alpha (alpha - 1)) = 0
        candidates += [(-level + sign * math.sqrt(level * (level + slope))) / slope for sign in (-1, 1)]
    inside = [alpha for alpha in candidates if a <= alpha <= b]
    return min(monotone, max((level + slope * alpha) / (alpha * (alpha - 1)) for alpha in inside))
