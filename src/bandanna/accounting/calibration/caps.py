"""The best cap for an epsilon: the direction that leans furthest towards the statistic, E<u, u0> = m, at that price.

An estimate is r u / m, of squared length r^2 / m^2 whatever u is: the largest m has the least variance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from bandanna.accounting import caps
from bandanna.accounting.events import CapEvent
from bandanna.core import require, search
from bandanna.device.caps import CAP_CANDIDATES, few_coordinates
from bandanna.errors import CalibrationError, InvalidBudget

LEAST, LARGEST = 1e-4, 36.0  # epsilon: below, steps cost too much of it; above, a coin of 53 places cannot tell
_NUMBERS = 2**21  # of all candidates together
_PLACES = 2.0**53  # of a coin
_GRID = 16
_SMALLEST = 1e-9  # mass of a cap
_NARROWEST = 1 - 2.0**-10  # cosine: steps are small beside the cap
_WORTH = 0.1  # of what exact candidates would tell


def best_cap(*, dim: int, epsilon: float) -> CapEvent:
    """Cosine, chance and number of candidates of the least variance among those that cost at most epsilon.

    Searched for exact candidates, p (1-q) / ((1-p) q) = e^epsilon; the chance is then lowered until the price of what
    is drawn, steps included, is met.
    """
    dim, epsilon = few_coordinates(dim), require.epsilon(epsilon)
    if not LEAST <= epsilon < math.inf:
        raise InvalidBudget("epsilon", epsilon, f"a finite number >= {LEAST:g} for one report")
    return _searched(dim, epsilon)


@lru_cache(maxsize=1024)
def _searched(dim: int, epsilon: float) -> CapEvent:
    cosine = _best_cosine(dim, min(epsilon, LARGEST))
    n, p = _inside(dim, cosine, min(epsilon, LARGEST))
    q = caps.cap(dim, cosine).mass
    event = CapEvent(cosine=cosine, chance=0.0, candidates=n, dim=dim)
    least, most = ((share - q**n) / (-math.expm1(n * math.log1p(-q)) - q**n) for share in (q, p))
    return replace(event, chance=_affordable(event, least, min(most, 1.0), epsilon))


def _inside(dim: int, cosine: float, epsilon: float) -> tuple[int, float]:
    """The number N of candidates and the share p inside: p (1-q) / ((1-p) q) = e^epsilon and (1-q)^N <= 1 - p.

    As few candidates as that takes, and at least two; where it takes more than there may be, the p that they reach.
    """
    q, most = caps.cap(dim, cosine).mass, min(CAP_CANDIDATES, max(2, _NUMBERS // dim))
    outside = 1 / (1 + math.exp(epsilon) * q / (1 - q))
    needed = math.log(outside) / math.log1p(-q) * (1 + 1e-12)
    if needed > most:
        return most, -math.expm1(most * math.log1p(-q))
    return max(2, math.ceil(needed)), 1 - outside


def _best_cosine(dim: int, epsilon: float) -> float:
    """Of the largest m: a grid that closes in."""

    def value(cosine: float) -> float:
        cap = caps.cap(dim, cosine)
        if cap.mass < _SMALLEST:
            return -1.0
        _, p = _inside(dim, cosine, epsilon)
        return cap.first * (p / cap.mass - (1 - p) / (1 - cap.mass))

    low, high = 0.0, _NARROWEST
    while high - low > 1e-9:
        grid = np.linspace(low, high, _GRID)
        best = int(np.argmax([value(float(cosine)) for cosine in grid]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    return low if value(low) >= value(high) else high


def _affordable(event: CapEvent, least: float, most: float, epsilon: float) -> float:
    """The largest chance from `least`, which tells nothing, to `most`, in whole steps of a coin, that costs epsilon."""

    def chance(fraction: float) -> float:
        return math.floor((least + fraction * (most - least)) * _PLACES) / _PLACES

    def meets(fraction: float) -> bool:
        return caps.epsilon(replace(event, chance=chance(fraction))) <= epsilon

    if meets(1.0):
        return chance(1.0)
    if not meets(_WORTH):
        raise CalibrationError(f"no cap costs as little as epsilon = {epsilon:g} in {event.dim} coordinates")
    return chance(search.greatest(meets, _WORTH, 1.0, relative=1e-12))
