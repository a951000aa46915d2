"""Random directions from caps of the sphere (PrivUnit): their price, and the best cap for an epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device.randomizers import CAP_CANDIDATES, check_direction_dim
from bandanna.errors import CalibrationError, InvalidBudget
from bandanna.numeric import search
from bandanna.privacy.events import CapEvent

# Caps and their price


_BEGIN = 2.0**-34  # of epsilon: the place where the search begins has 53 binary places (proofs.md D.3)
_PLACES = 2.0**53  # of a coin
_ROUNDED = 1e-12  # relative; more than the errors of special functions
_CUT = 2.0**-64  # probability for each pair of coordinates that a candidate is none of our Gaussians
_EDGES = np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 8.0, 0.125)])  # lengths of Gaussian vectors


@dataclass(frozen=True, kw_only=True)
class CapMoments:
    """The cap T >= cosine of a uniform direction: mass = P(cap), first = E[T; cap], second = E[T^2; cap]."""

    mass: float
    first: float
    second: float


@lru_cache(maxsize=4096)
def cap_moments(dim: int, cosine: float) -> CapMoments:
    """Return the moments for 0 <= cosine <= 1. A uniform direction u has T = <u, u0>, T^2 ~ Beta(1/2, (dim - 1)/2).

    E[T; T >= t] = f(0) (1 - t^2)^((dim-1)/2) / (dim - 1), f the density of T.
    """
    half, rest = (dim - 1) / 2, 1 - cosine * cosine
    density = math.exp(special.gammaln(dim / 2) - special.gammaln(half)) / math.sqrt(math.pi)  # f(0)
    return CapMoments(
        mass=float(cap_mass(dim, np.asarray(cosine))),
        first=density * rest**half / (dim - 1),
        second=float(special.betainc(half, 1.5, rest)) / (2 * dim),
    )


def cap_mass(dim: int, cosine: Any) -> Any:
    """Return P(T >= cosine) for cosine in [-1, 1]; numbers beyond are cut to it."""
    near = np.clip(cosine, -1.0, 1.0)
    tail = special.betainc((dim - 1) / 2, 0.5, (1 - near) * (1 + near)) / 2
    return np.where(near >= 0, tail, 1 - tail)


def bound_cap_mass(event: CapEvent) -> tuple[float, float]:
    """Return bounds on the probability that a candidate is inside the cap, for any u0.

    A candidate is within one step of a Gaussian G in every coordinate, and x -> <x, u0> - cosine |x| moves by at most 1
    + cosine times as far as x: so it is inside if T >= cosine + s/|G|, and outside if T < cosine - s/|G|, with s = (1 +
    cosine) sqrt(dim) / steps. T and |G| are independent, and |G| is cut into classes, each as short as its shortest
    (proofs.md D.3).
    """
    return _bound_mass(event.dim, event.cosine, event.steps)


@lru_cache(maxsize=4096)
def _bound_mass(dim: int, cosine: float, steps: int) -> tuple[float, float]:
    """Return the bounds, which hold for any chance and number of candidates."""
    slack = (1 + cosine) * math.sqrt(dim) / steps
    classes = np.diff(special.gammainc(dim / 2, np.append(_EDGES, np.inf) ** 2 / 2))
    with np.errstate(divide="ignore"):
        moved = slack / _EDGES  # infinite for the shortest: all of [-1, 1]
    rare = dim * _CUT
    low = float(np.sum(classes * cap_mass(dim, cosine + moved))) * (1 - _ROUNDED) - rare
    high = float(np.sum(classes * cap_mass(dim, cosine - moved))) * (1 + _ROUNDED) + rare
    return max(low, 0.0), min(high, 1.0)


@lru_cache(maxsize=4096)
def cap_epsilon(event: CapEvent) -> float:
    """Return the log of the largest over the smallest density that any direction's message has at any point.

    Relative to the law of one candidate, with Q the probability that it is inside the cap, c the chance, N candidates:

        inside   c sum_{j<N} (1-Q)^j + (1-c) Q^(N-1),        outside   (1-c) sum_{j<N} Q^j + c (1-Q)^(N-1).

    Both are taken at those ends of the range of Q that make the quotient largest.
    """
    low, high = bound_cap_mass(event)
    if not 0 < low <= high < 1:
        return math.inf
    c, n = math.ceil(event.chance * _PLACES) / _PLACES, event.candidates  # P(coin < chance), exactly
    inside = [c * _series(1 - q, n) + (1 - c) * r ** (n - 1) for q, r in ((low, high), (high, low))]
    outside = [(1 - c) * _series(q, n) + c * (1 - r) ** (n - 1) for q, r in ((high, low), (low, high))]
    largest, smallest = max(inside[0], outside[0]), min(inside[1], outside[1])
    if smallest <= 0:
        return math.inf
    return math.log(largest / smallest) * (1 + _ROUNDED) + _ROUNDED + _BEGIN


def _series(x: float, n: int) -> float:
    """Return 1 + x + ... + x^(n-1)."""
    return -math.expm1(n * math.log(x)) / (1 - x) if x > 0 else 1.0


def probability_inside(event: CapEvent) -> float:
    """Return the probability that the message is inside the cap: c (1 - (1-q)^N) + (1-c) q^N for a cap of mass q."""
    q, c, n = cap_moments(event.dim, event.cosine).mass, event.chance, event.candidates
    return c * -math.expm1(n * math.log1p(-q)) + (1 - c) * q**n


def mean_cosine(event: CapEvent) -> float:
    """Return m = E<u, u0> of a message's direction u: p E[T | cap] + (1-p) E[T | outside]."""
    inside, p = cap_moments(event.dim, event.cosine), probability_inside(event)
    if inside.mass == 0:
        return 0.0  # nothing ever is inside
    return inside.first * (p / inside.mass - (1 - p) / (1 - inside.mass))


def mean_squared_cosine(event: CapEvent) -> float:
    """Return E<u, u0>^2, at least 1/dim."""
    inside, p = cap_moments(event.dim, event.cosine), probability_inside(event)
    return p * inside.second / inside.mass + (1 - p) * (1 / event.dim - inside.second) / (1 - inside.mass)


# The best cap


LEAST, LARGEST = 1e-4, 36.0  # epsilon: below, steps cost too much of it; above, a coin of 53 places cannot tell
_NUMBERS = 2**21  # of all candidates together
_GRID = 16
_SMALLEST = 1e-9  # mass of a cap
_NARROWEST = 1 - 2.0**-10  # cosine: steps are small beside the cap
_WORTH = 0.1  # of what exact candidates would tell


def best_cap(*, dim: int, epsilon: float) -> CapEvent:
    """Return the cosine, chance and number of candidates with the least variance among those that cost at most epsilon.

    An estimate is r u / m, of squared length r^2 / m^2 whatever u is, so the largest m = E<u, u0> has the least
    variance. The search is for exact candidates, p (1-q) / ((1-p) q) = e^epsilon; the chance is then lowered until the
    price of what is drawn, steps included, is met.
    """
    dim, epsilon = check_direction_dim(dim), validation.epsilon(epsilon)
    if not LEAST <= epsilon < math.inf:
        raise InvalidBudget("epsilon", epsilon, f"a finite number >= {LEAST:g} for one report")
    return _search_cap(dim, epsilon)


@lru_cache(maxsize=1024)
def _search_cap(dim: int, epsilon: float) -> CapEvent:
    cosine = _best_cosine(dim, min(epsilon, LARGEST))
    n, p = _candidates_and_share(dim, cosine, min(epsilon, LARGEST))
    q = cap_moments(dim, cosine).mass
    event = CapEvent(cosine=cosine, chance=0.0, candidates=n, dim=dim)
    least, most = ((share - q**n) / (-math.expm1(n * math.log1p(-q)) - q**n) for share in (q, p))
    return replace(event, chance=_largest_affordable(event, least, min(most, 1.0), epsilon))


def _candidates_and_share(dim: int, cosine: float, epsilon: float) -> tuple[int, float]:
    """Return the number N of candidates and the share p inside: p (1-q) / ((1-p) q) = e^epsilon, (1-q)^N <= 1 - p.

    N is as small as that allows, and at least two; if it would be too large, p is what the most candidates reach.
    """
    q, most = cap_moments(dim, cosine).mass, min(CAP_CANDIDATES, max(2, _NUMBERS // dim))
    outside = 1 / (1 + math.exp(epsilon) * q / (1 - q))
    needed = math.log(outside) / math.log1p(-q) * (1 + 1e-12)
    if needed > most:
        return most, -math.expm1(most * math.log1p(-q))
    return max(2, math.ceil(needed)), 1 - outside


def _best_cosine(dim: int, epsilon: float) -> float:
    """Return the cosine of the largest m, by a grid that closes in."""

    def value(cosine: float) -> float:
        cap = cap_moments(dim, cosine)
        if cap.mass < _SMALLEST:
            return -1.0
        _, p = _candidates_and_share(dim, cosine, epsilon)
        return cap.first * (p / cap.mass - (1 - p) / (1 - cap.mass))

    low, high = 0.0, _NARROWEST
    while high - low > 1e-9:
        grid = np.linspace(low, high, _GRID)
        best = int(np.argmax([value(float(cosine)) for cosine in grid]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    return low if value(low) >= value(high) else high


def _largest_affordable(event: CapEvent, least: float, most: float, epsilon: float) -> float:
    """Return the largest affordable chance from `least`, which tells nothing, to `most`, in steps of a coin."""

    def chance(fraction: float) -> float:
        return math.floor((least + fraction * (most - least)) * _PLACES) / _PLACES

    def meets(fraction: float) -> bool:
        return cap_epsilon(replace(event, chance=chance(fraction))) <= epsilon

    if meets(1.0):
        return chance(1.0)
    if not meets(_WORTH):
        raise CalibrationError(f"no cap costs as little as epsilon = {epsilon:g} in {event.dim} coordinates")
    return chance(search.find_greatest(meets, _WORTH, 1.0, relative=1e-12))
