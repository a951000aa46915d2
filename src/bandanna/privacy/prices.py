"""The price of every event in Gaussian, zero-concentrated and pure differential privacy.

Theorem A for noise on the integers, stochastic rounding, grids and caps come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.errors import CalibrationError, UnknownEvent
from bandanna.privacy import events, gdp
from bandanna.privacy.budgets import pure_rho
from bandanna.privacy.gdp import Price
from bandanna.types import Floats

# Theorem A


_DENSE = 1e4  # standard deviation up to which every lattice point is looked at
_BLOCK = 1e-3  # width of a block beyond that, in standard deviations
_NEAR = 0.1  # relative deviations from a mean up to which a series is summed
_SLACK = 1e-9  # relative allowance for rounding errors of the increments (measured below 1e-11)


@dataclass(frozen=True, kw_only=True)
class LatticePrice:
    """Price mu_1 per unit of l2 shift, total-variation mass `tail` per coordinate, valid for shifts up to `reach`."""

    mu: float
    tail: float
    reach: int


@dataclass(frozen=True, kw_only=True)
class LatticeLaw:
    """A log-concave law on the integers: log of its mass function, its mode, standard deviation and support."""

    log_mass: Callable[[Floats], Floats]
    mode: int
    std: float
    least: float = -math.inf
    most: float = math.inf
    even: bool = False  # Q(mode + j) = Q(mode - j)


@lru_cache(maxsize=4096)
def binomial_price(trials: int, probability: float, zmax: float) -> LatticePrice:
    """Return the price of Bin(trials, probability) noise by Theorem A."""
    return price_lattice_law(binomial_law(trials, probability), zmax)


@lru_cache(maxsize=1024)
def discrete_gaussian_price(std: float, zmax: float) -> LatticePrice:
    """Return the price of discrete Gaussian noise, mass proportional to exp(-j^2 / (2 std^2)), by Theorem A."""
    return price_lattice_law(discrete_gaussian_law(std), zmax)


def binomial_law(trials: int, probability: float) -> LatticeLaw:
    """Return Bin(n, p) by the saddle-point form (Loader 2000), within 1e-14 for n <= 1e15 and dyadic p."""
    n, p = float(trials), probability

    def log_mass(j: Floats) -> Floats:
        inner = n > 1 and bool(np.all((j >= 1) & (j <= n - 1)))  # most often
        k = j if inner else np.clip(j, 1, n - 1) if n > 1 else np.ones_like(j)
        rest = n - k
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (
                _stirling_error(np.asarray(n)) - _stirling_error(k) - _stirling_error(rest)
                - _deviance(k, n * p) - _deviance(rest, n * (1 - p))
                + 0.5 * np.log(n / (2 * math.pi * k * rest))
            )  # fmt: skip
        if inner:
            return np.asarray(value)
        ends = np.where(j <= 0, n * math.log1p(-p), n * math.log(p))
        value = np.where((j <= 0) | (j >= n), ends, value)
        return np.where((j < 0) | (j > n), -np.inf, value)

    mode = min(math.floor((trials + 1) * p), trials)
    return LatticeLaw(
        log_mass=log_mass,
        mode=mode,
        std=math.sqrt(n * p * (1 - p)),
        least=0,
        most=trials,
        even=p == 0.5 and trials % 2 == 0,
    )


def discrete_gaussian_law(std: float) -> LatticeLaw:
    """Return the discrete Gaussian; its normaliser is std sqrt(2 pi) up to e^{-19 std^2} (Poisson), else summed."""
    if std > 2:
        log_norm = math.log(std) + 0.5 * math.log(2 * math.pi)
    else:
        points = np.arange(-100, 101, dtype=float)
        log_norm = float(special.logsumexp(-(points**2) / (2 * std**2)))
    return LatticeLaw(log_mass=lambda j: -(j**2) / (2 * std**2) - log_norm, mode=0, std=std, even=True)


def price_lattice_law(law: LatticeLaw, zmax: float) -> LatticePrice:
    """Return the price of log-concave noise on the integers by Theorem A (proofs.md A.2).

    With F(j) = Q(X < j), z_j = Phi^{-1}(F(j)), and lo, hi the first and last j with |z_j| <= `zmax`,

        mu_1 = max_{lo < j <= hi} (z_j - z_{j-1}),        t = max(Phi(z_lo), Phi(-z_hi)).

    An integer shift v with max_k |v_k| <= hi - lo costs mu = mu_1 |v|_2 with tail D t, D the number of coordinates.
    Above a standard deviation of 10000, points are grouped in blocks of w = std/1000, with block sums bounded from
    below by the geometric chord; this overstates mu_1 by a factor below 1 + 1e-3.
    """
    width = math.floor(_BLOCK * law.std) if law.std > _DENSE else 1
    up_z, up_mass = _walk_side(law, zmax, width, +1)  # cuts at mode+1, mode+1+w, ...
    down_z, down_mass = (up_z, up_mass) if law.even else _walk_side(law, zmax, width, -1)  # cuts at mode, mode-w, ...
    if not len(up_z) or not len(down_z):
        raise CalibrationError(f"noise of std {law.std:.3g} is too small for Theorem A at zmax = {zmax:.3g}")
    # z_{mode+1} - z_mode, or Q(mode)/phi at the farther of the two where block sums blur the difference
    peak = float(np.exp(law.log_mass(np.asarray(float(law.mode)))) / _phi(max(abs(up_z[0]), abs(down_z[0]))))
    middle = float(up_z[0] + down_z[0]) if width == 1 else peak
    steepest = max(middle, _steepest(up_z, up_mass, width), _steepest(down_z, down_mass, width))
    tail = float(special.ndtr(-min(up_z[-1], down_z[-1]))) * (1 + 1e-6)  # block sums are a little short
    return LatticePrice(mu=steepest * (1 + _SLACK), tail=tail, reach=1 + width * (len(up_z) + len(down_z) - 2))


def _phi(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _steepest(z: Floats, log_mass: Floats, width: int) -> float:
    if len(z) < 2:
        return 0.0
    if width == 1:
        return float(np.max(np.diff(z)))
    start, reach = np.abs(z[:-1]), np.maximum(np.abs(z[1:]), np.abs(z[:-1]))
    log_root_tau = 0.5 * math.log(2 * math.pi)
    # z_{j+1} - z_j = Q(j)/phi(x) for some x between them. Q(j) lies below the chord of the block before, extended, and
    # z_j below z_a + (j - a) m for any bound m on the block's increments. The logarithm of that bound is convex in j,
    # so its maximum is at an end of the block.
    bound = np.exp(log_mass[:-1] + 0.5 * reach**2 + log_root_tau)  # m: max Q / min phi over the block
    chord = np.append(0.0, np.diff(log_mass)[:-1] / width)  # of the block before; Q falls outwards
    for _ in range(2):  # a better bound m gives a better bound again
        at_start = 0.5 * (start + bound) ** 2
        at_end = (width - 1) * np.minimum(chord, 0.0) + 0.5 * (start + width * bound) ** 2
        bound = np.exp(log_mass[:-1] + np.maximum(at_start, at_end) + log_root_tau)
    return float(np.max(bound))


def _walk_side(law: LatticeLaw, zmax: float, width: int, sign: int) -> tuple[Floats, Floats]:
    """Return |z| at cuts outwards from the mode with |z| <= zmax, and the log mass of the lattice point just outside.

    sign = +1: cuts j = mode+1, mode+1+w, ... and P(X >= j); sign = -1: j = mode, mode-w, ... and P(X < j).
    """
    reach = law.most - law.mode if sign > 0 else law.mode - law.least
    span = min(reach, (zmax + 4 + zmax**2 / max(law.std, 1.0)) * law.std + 40)
    outside = law.mode + sign * (1 + np.arange(0.0, span, width))
    log_mass = law.log_mass(outside)
    log_sums = _chord_sums(log_mass, width)
    with np.errstate(divide="ignore"):
        log_tail = np.log(np.cumsum(np.exp(log_sums[::-1]))[::-1])  # from the far end inwards: small terms first
    z = -special.ndtri_exp(np.minimum(log_tail, -1e-300))
    keep = z <= zmax
    return z[keep], log_mass[keep]


def _chord_sums(log_mass: Floats, width: int) -> Floats:
    """Return lower bounds on the log mass of [j, j + width) by chords; exact for width 1."""
    if width == 1 or len(log_mass) < 2:
        return log_mass
    slope = (log_mass[1:] - log_mass[:-1]) / width  # <= 0 outwards of the mode
    # sum_{i<w} e^{slope i} = expm1(slope w) / expm1(slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        geometric = np.where(slope < 0, np.expm1(slope * width) / np.expm1(slope), float(width))
    return np.append(log_mass[:-1] + np.log(geometric), log_mass[-1])


def _stirling_error(n: Floats) -> Floats:
    """Return log n! - log(sqrt(2 pi n) (n/e)^n) for n >= 0."""
    large = np.maximum(n, 15.0)
    far = 1 / large**2
    series = (1 / 12 - far * (1 / 360 - far * (1 / 1260 - far * (1 / 1680 - far / 1188)))) / large
    if np.all(n > 15):
        return series
    near = np.clip(n, 1.0, 15.0)
    direct = special.gammaln(near + 1) - (near + 0.5) * np.log(near) + near - 0.5 * math.log(2 * math.pi)
    return np.where(n > 15, series, direct)


def _deviance(x: Floats, mean: float) -> Floats:
    """Return x log(x/mean) + mean - x = mean h((x - mean)/mean) without cancellation."""
    e = np.asarray((x - mean) / mean)
    size = np.abs(e)
    if not np.all(near := size < _NEAR):
        series = _deviance_series(np.clip(e, -_NEAR, _NEAR), _NEAR)
        return np.asarray(mean * np.where(near, series, special.xlog1py(1 + e, e) - e))
    return np.asarray(mean * _deviance_series(e, float(np.max(size, initial=0.0))))


def _deviance_series(e: Floats, most: float) -> Floats:
    """Return h(e) = (1+e) log(1+e) - e = sum_{k>=2} (-e)^k / (k (k-1)) for |e| <= most."""
    last = next((k for k in range(3, 20) if most ** (k - 2) < 1e-18 * k * (k - 1)), 20)
    total, turned = np.full(e.shape, 1 / (last * (last - 1))), -e
    for k in range(last - 1, 1, -1):
        total *= turned
        total += 1 / (k * (k - 1))
    return np.asarray(total * e**2)


# Stochastic rounding


_CELLS, _TOGETHER = 2000, 16


def composable_shift(shift: float, dim: int, tail: float) -> float:
    """Bound |v|_2 except with probability `tail` (proofs.md A.3b), for a release that will be composed.

        |v|^2 <= R^2 + D/4 + (2 R + sqrt D) sqrt(log(1/tail)/2),        R = s Delta_2

    v is how far the encodings of two neighbours differ, D the number of coordinates.
    """
    spread = (2 * shift + math.sqrt(dim)) * math.sqrt(math.log(1 / tail) / 2)
    return min(math.sqrt(shift**2 + dim / 4 + spread), shift + math.sqrt(dim))  # the latter always holds


def expected_delta(epsilon: float, mu_unit: float, shift: float, dim: int) -> float:
    """Bound E_v delta_G(epsilon; mu_1 |v|) (proofs.md A.3), for one release at one epsilon only; never to be composed.

    The bound is a minimum over lambda, with C(lambda) bounded cell by cell. Its logarithm is convex in lambda.
    """
    mean, width = shift**2 + dim / 4, 2 * shift + math.sqrt(dim)
    most = (shift + math.sqrt(dim)) ** 2  # |v| <= |s(x'-x)| + sqrt D always
    grid = np.linspace(0.0, 1.0, _CELLS + 1) ** 0.5 * most
    dense = np.linspace(max(mean - 3 * width, 0.0), min(mean + 6 * width, most), _CELLS)
    grid = np.unique(np.concatenate([grid, dense]))
    cells = _CumulantCells(epsilon, mu_unit, grid)
    lambdas = np.geomspace(1e-3, 300.0, 300) / mean

    def bound(log_c: Callable[[float], float], place: int) -> float:
        lambda_ = float(lambdas[place])
        return log_c(lambda_) + lambda_ * mean + lambda_**2 * width**2 / 8

    low, high = 0, len(lambdas) - 1
    while low < high:  # nearly there, at little cost
        middle = (low + high) // 2
        falls = bound(cells.bound_coarsely, middle) > bound(cells.bound_coarsely, middle + 1)
        low, high = (middle + 1, high) if falls else (low, middle)
    found = bound(cells.bound_finely, low)
    for step in (-1, 1):
        while 0 <= low + step < len(lambdas) and (beside := bound(cells.bound_finely, low + step)) < found:
            low, found = low + step, beside
    worst = float(gdp.delta(epsilon, mu_unit * math.sqrt(most)))
    return min(float(np.exp(found)), worst, 1.0)


class _CumulantCells:
    """Upper bounds on log C(lambda) by cells of a grid, or faster and coarser by groups of cells."""

    def __init__(self, epsilon: float, mu_unit: float, grid: Floats) -> None:
        missing = (0, -(len(grid) - 1) % _TOGETHER)
        self._starts, ends = (np.pad(each, missing, "edge").reshape(-1, _TOGETHER) for each in (grid[:-1], grid[1:]))
        self._epsilon, self._mu = epsilon, mu_unit * np.sqrt(ends)
        self._first, self._last = self._starts[:, 0].copy(), self._starts[:, -1].copy()
        self._most = gdp.log_delta(epsilon, self._mu[:, -1])  # delta_G increases: at the end of each
        self._log_delta, self._known = np.empty(ends.shape), np.zeros(len(ends), dtype=bool)

    def bound_coarsely(self, lambda_: float) -> float:
        return float((self._most - lambda_ * self._first).max())

    def bound_finely(self, lambda_: float) -> float:
        reached = (self._most - lambda_ * self._last).max()
        higher = self._most - lambda_ * self._first >= reached
        new = higher & ~self._known
        if new.any():
            self._log_delta[new], self._known[new] = gdp.log_delta(self._epsilon, self._mu[new]), True
        return float((self._log_delta[higher] - lambda_ * self._starts[higher]).max())


# Grids


_FINEST = 20  # at least 2^20 steps per standard deviation
_SHARE = 2.0**-14  # rounding may raise the sensitivity by this share


def fine_grid(std: float, change: float, touched: int) -> float:
    """Return a grid of std / 2^k with grid sqrt(touched) <= change / 2^14, k >= 20: its rounding costs little.

    `change` is the l2 sensitivity before rounding, `touched` the number of released coordinates that one user can
    change (in l1 dim^2).
    """
    std, change = validation.positive("std", std), validation.positive("sensitivity", change)
    steps = std * math.sqrt(touched) / (_SHARE * change)
    return std * 2.0 ** -max(_FINEST, math.ceil(math.log2(steps)))


# Exact profile of binomial noise


MOST_TRIALS = 10**8  # 14 sqrt(n) terms: up to here the sum is quick
_LEFT_OUT = 2 * math.exp(-98)


@lru_cache(maxsize=4096)
def binomial_delta(trials: int, probability: float, shift: int, epsilon: float) -> float:
    """Return the smallest delta at `epsilon` for integers at most `shift` apart with Bin(trials, probability) noise.

        delta(epsilon) = max over both directions of  sum_j (P(X + k = j) - e^epsilon P(X = j))_+ .

    Terms beyond 7 sqrt(n) from the mean hold at most 2 e^-98 (Hoeffding), which is added.
    """
    law = binomial_law(trials, probability)
    mean, reach = trials * probability, 7 * math.sqrt(trials)
    first, last = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    points = np.arange(first - shift, last + shift + 1, dtype=float)
    mass = np.exp(law.log_mass(points))
    moved, still = mass[:-shift], mass[shift:]  # of X + shift and of X, at first .. last + shift
    factor = math.exp(min(epsilon, 700.0))
    upwards = np.sum(np.maximum(moved - factor * still, 0.0))
    downwards = np.sum(np.maximum(still - factor * moved, 0.0))
    return min(1.0, float(max(upwards, downwards)) * (1 + _SLACK) + _LEFT_OUT)


# Random directions from caps of the sphere (PrivUnit)


_SEARCH_START = 2.0**-34  # of epsilon: the place where the search begins has 53 binary places (proofs.md D.3)
COIN_PLACES = 2.0**53  # a coin is a multiple of 2^-53
_CAP_ROUNDING = 1e-12  # relative; more than the errors of special functions
_FAR_CANDIDATE = 2.0**-64  # probability for each pair of coordinates that a candidate is none of our Gaussians
_LENGTHS = np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 8.0, 0.125)])  # lengths of Gaussian vectors


@dataclass(frozen=True, kw_only=True)
class CapMoments:
    """The cap T >= cosine of a uniform direction: mass = P(cap), first = E[T; cap], second = E[T^2; cap]."""

    mass: float
    first: float
    second: float


@lru_cache(maxsize=4096)
def cap_moments(dim: int, cosine: float) -> CapMoments:
    """Return the moments for 0 <= cosine <= 1 of T = <u, u0>, u a uniform direction: T^2 ~ Beta(1/2, (dim - 1)/2).

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
    """Return P(T >= cosine), with cosines cut to [-1, 1]."""
    near = np.clip(cosine, -1.0, 1.0)
    tail = special.betainc((dim - 1) / 2, 0.5, (1 - near) * (1 + near)) / 2
    return np.where(near >= 0, tail, 1 - tail)


def bound_cap_mass(event: events.CapEvent) -> tuple[float, float]:
    """Return bounds on the probability that a candidate is inside the cap, for any u0 (proofs.md D.3).

    |G| is cut into classes, each priced at its shortest.
    """
    return _bound_mass(event.dim, event.cosine, event.steps)


@lru_cache(maxsize=4096)
def _bound_mass(dim: int, cosine: float, steps: int) -> tuple[float, float]:
    slack = (1 + cosine) * math.sqrt(dim) / steps
    classes = np.diff(special.gammainc(dim / 2, np.append(_LENGTHS, np.inf) ** 2 / 2))
    with np.errstate(divide="ignore"):
        moved = slack / _LENGTHS  # infinite for the shortest: all of [-1, 1]
    rare = dim * _FAR_CANDIDATE
    low = float(np.sum(classes * cap_mass(dim, cosine + moved))) * (1 - _CAP_ROUNDING) - rare
    high = float(np.sum(classes * cap_mass(dim, cosine - moved))) * (1 + _CAP_ROUNDING) + rare
    return max(low, 0.0), min(high, 1.0)


@lru_cache(maxsize=4096)
def cap_epsilon(event: events.CapEvent) -> float:
    """Return the log of the largest quotient of two densities of a cap's message (proofs.md D.3).

    The densities inside and outside take those ends of the range of Q, the probability that a candidate is inside, that
    make the quotient largest.
    """
    low, high = bound_cap_mass(event)
    if not 0 < low <= high < 1:
        return math.inf
    c, n = math.ceil(event.chance * COIN_PLACES) / COIN_PLACES, event.candidates  # P(coin < chance), exactly
    inside = [c * _geometric_series(1 - q, n) + (1 - c) * r ** (n - 1) for q, r in ((low, high), (high, low))]
    outside = [(1 - c) * _geometric_series(q, n) + c * (1 - r) ** (n - 1) for q, r in ((high, low), (low, high))]
    largest, smallest = max(inside[0], outside[0]), min(inside[1], outside[1])
    if smallest <= 0:
        return math.inf
    return math.log(largest / smallest) * (1 + _CAP_ROUNDING) + _CAP_ROUNDING + _SEARCH_START


def _geometric_series(x: float, n: int) -> float:
    return -math.expm1(n * math.log(x)) / (1 - x) if x > 0 else 1.0


def probability_inside(event: events.CapEvent) -> float:
    """Return the probability of a message inside the cap: c (1 - (1-q)^N) + (1-c) q^N for mass q."""
    q, c, n = cap_moments(event.dim, event.cosine).mass, event.chance, event.candidates
    return c * -math.expm1(n * math.log1p(-q)) + (1 - c) * q**n


def mean_cosine(event: events.CapEvent) -> float:
    """Return m = E<u, u0> of a message's direction u: p E[T | cap] + (1-p) E[T | outside]."""
    inside, p = cap_moments(event.dim, event.cosine), probability_inside(event)
    if inside.mass == 0:
        return 0.0  # nothing ever is inside
    return inside.first * (p / inside.mass - (1 - p) / (1 - inside.mass))


def mean_squared_cosine(event: events.CapEvent) -> float:
    """Return E<u, u0>^2, at least 1/dim."""
    inside, p = cap_moments(event.dim, event.cosine), probability_inside(event)
    return p * inside.second / inside.mass + (1 - p) * (1 / event.dim - inside.second) / (1 - inside.mass)


# Prices of events


NO_PRICE = Price(mu=math.inf, tail=0.0)


def gaussian_price(event: events.Event, tail: float) -> Price:
    """Return the price of `event` in Gaussian DP: mu-GDP up to a tail of about `tail`, or `NO_PRICE`.

    A larger tail allows a slightly smaller mu. Ideal Gaussians need no tail.
    """
    match event:
        case events.NothingEvent():
            return Price(mu=0.0)
        case events.ClearEvent():
            return NO_PRICE
        case events.GaussianEvent() | events.ContinualEvent():  # Delta_2 or Delta_2 |c_1 + ... + c_M0| over sigma
            change, touched = _measure_shift(event)
            if event.grid == 0.0:
                return Price(mu=change / event.std)
            shift = change / event.grid + math.sqrt(touched)  # rounding moves each number by at most one more step
            return _price_discrete_gaussian(event.std / event.grid, shift, touched=touched, tail=tail)
        case events.DiscreteGaussianEvent():
            return _price_discrete_gaussian(event.std, event.shift, touched=event.dim, tail=tail)
        case events.BinomialEvent() if not event.rounded:
            return _lattice_price(binomial_unit(event, tail), event, event.shift, 0.0)
        case events.BinomialEvent():  # Theorem A with the composable rounding bound of A.3b, half of the tail for each
            shift = composable_shift(event.shift, event.dim, tail / 2)
            return _lattice_price(binomial_unit(event, tail / 2), event, shift, tail / 2)
        case events.ShuffledGaussianEvent():  # a post-processing of the local reports
            return Price(mu=event.sensitivity / event.std, tail=event.tail)
        case events.RecordEvent():
            return gaussian_price(event.event, tail)
    raise UnknownEvent(f"no Gaussian price is known for {type(event).__name__}: {event!r}")


def compute_unrounded_share(event: events.Event, tail: float) -> float:
    """Return the share of a release's mu that is not due to rounding."""
    event = events.unwrap_record(event)
    if isinstance(event, events.BinomialEvent):
        return event.shift / composable_shift(event.shift, event.dim, tail / 2) if event.rounded else 1.0
    if not isinstance(event, events.GaussianEvent | events.ContinualEvent):
        raise UnknownEvent(f"no part of {type(event).__name__} is known to be rounding: {event!r}")
    change, touched = _measure_shift(event)
    return change / (change + event.grid * math.sqrt(touched))


def _measure_shift(event: events.GaussianEvent | events.ContinualEvent) -> tuple[float, int]:
    if isinstance(event, events.GaussianEvent):
        return event.sensitivity, event.dim
    factors, often = event.factorisation, event.participations
    return event.sensitivity * factors.sensitivity(often), event.dim * factors.releases(often)


def binomial_unit(event: events.BinomialEvent, tail: float) -> LatticePrice | None:
    """Return Theorem A for the event's noise, or None if its reach is too short for the event's shifts."""
    try:
        unit = binomial_price(event.trials, event.probability, _choose_zmax(tail / event.dim))
    except CalibrationError:
        return None
    return unit if event.reach <= unit.reach else None


def _lattice_price(unit: LatticePrice | None, event: events.BinomialEvent, shift: float, rounding_tail: float) -> Price:
    if unit is None:
        return NO_PRICE
    return Price(mu=unit.mu * shift, tail=rounding_tail + event.dim * unit.tail + event.tail)


def _price_discrete_gaussian(std: float, shift: float, *, touched: int, tail: float) -> Price:
    try:
        unit = discrete_gaussian_price(std, _choose_zmax(tail / touched))
    except CalibrationError:
        return NO_PRICE
    if shift > unit.reach:
        return NO_PRICE
    return Price(mu=unit.mu * shift, tail=touched * unit.tail)


def _choose_zmax(tail: float) -> float:
    """Return zmax with Phi(-zmax) <= tail, in quarters so that prices can be cached."""
    return math.ceil(-4 * float(special.ndtri(min(max(tail, 1e-300), 0.1)))) / 4


def concentrated_price(event: events.Event) -> float:
    """Return rho of `event` in zCDP, mu^2/2 for every kind of Gaussian; infinity if the release has none."""
    match event:
        case events.NothingEvent():
            return 0.0
        case events.ClearEvent() | events.BinomialEvent():  # bounded support: the Renyi divergence is infinite
            return math.inf
        case events.GaussianEvent() | events.ContinualEvent():
            change, touched = _measure_shift(event)
            return (change + event.grid * math.sqrt(touched)) ** 2 / (2 * event.std**2)
        case events.DiscreteGaussianEvent():  # for integer shifts (Canonne, Kamath and Steinke 2020, Thm 4)
            return event.shift**2 / (2 * event.std**2)
        case events.LaplaceEvent() | events.DiscreteLaplaceEvent() | events.CapEvent():
            return pure_rho(pure_price(event))  # proofs.md F
        case events.RecordEvent():
            return concentrated_price(event.event)
        case events.ShuffledGaussianEvent():
            return math.inf if event.tail > 0 else (event.sensitivity / event.std) ** 2 / 2
    raise UnknownEvent(f"no zCDP price is known for {type(event).__name__}: {event!r}")


_IMPURE = (
    events.ClearEvent | events.GaussianEvent | events.DiscreteGaussianEvent | events.ContinualEvent
    | events.BinomialEvent | events.ShuffledGaussianEvent | events.RecordEvent
)  # fmt: skip


def pure_price(event: events.Event) -> float:
    """Return the pure epsilon of `event`; infinity if it is not pure."""
    match event:
        case events.NothingEvent():
            return 0.0
        case events.LaplaceEvent():  # rounding to a grid adds at most one step per coordinate
            return (event.sensitivity + event.grid * event.dim) / event.scale
        case events.DiscreteLaplaceEvent():
            return event.shift / event.scale
        case events.CapEvent():
            return cap_epsilon(event)
    if isinstance(event, _IMPURE):
        return math.inf
    raise UnknownEvent(f"no pure price is known for {type(event).__name__}: {event!r}")
