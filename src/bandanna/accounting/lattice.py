"""Theorem A: the price of log-concave noise on the integers, by its quantile transform.

Let Q be a log-concave law on Z, F(j) = Q(X < j), z_j = Phi^{-1}(F(j)). For a cut `zmax`, let lo, hi be the first and
last j with |z_j| <= zmax, and

    mu_1 = max_{lo < j <= hi} (z_j - z_{j-1}),        t = max(Phi(z_lo), Phi(-z_hi)).

Then for every integer shift v with max_k |v_k| <= hi - lo, noise Q per coordinate and D coordinates,

    HS_epsilon(Q^D + v, Q^D) <= delta_G(epsilon; mu_1 |v|_2) + D (1 + e^epsilon) t,

that is: a shift v costs mu = mu_1 |v|_2 in Gaussian DP with tail D t. (Monotone likelihood ratio makes the tests {X
>= j} optimal; their trade-off points lie above those of a Gaussian pair with mass t moved; Blackwell's theorem makes
the pair a post-processing of that one, and Gaussian pairs tensorise.)

Where the standard deviation is above 10000, points are grouped in blocks of w = std/1000. Outwards from the mode,
block sums of Q are bounded from below by the geometric chord (log-concavity). An increment d_j = z_{j+1} - z_j equals
Q(j)/phi(x) for some x between them, Q(j) lies below the chord of the block before, extended, and z_j below z_a + (j -
a) m for any bound m on the block's increments; the resulting bound on log d_j is convex in j, so its maximum is at an
end of the block. This overstates mu_1 by a factor of about 1 + zmax/std + (zmax w/std)^2, below 1 + 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats
from bandanna.errors import CalibrationError

_DENSE = 1e4  # standard deviation up to which every lattice point is looked at
_BLOCK = 1e-3  # width of a block beyond that, in standard deviations
_NEAR = 0.1  # relative deviations from a mean of which a series is summed
_SLACK = 1e-9  # relative allowance for rounding errors of the increments (measured below 1e-11)


@dataclass(frozen=True, kw_only=True)
class LatticePrice:
    """mu_1 per unit of l2 shift, total-variation mass `tail` per coordinate, valid for shifts up to `reach`."""

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
    """Price of Bin(trials, probability) noise by Theorem A."""
    return price(binomial_law(trials, probability), zmax)


@lru_cache(maxsize=1024)
def discrete_gaussian_price(std: float, zmax: float) -> LatticePrice:
    """Price of discrete Gaussian noise, mass proportional to exp(-j^2 / (2 std^2)), by Theorem A."""
    return price(discrete_gaussian_law(std), zmax)


def binomial_law(trials: int, probability: float) -> LatticeLaw:
    """Bin(n, p), its mass by the saddle-point form, to about 1e-14 for n up to 1e15 and dyadic p (Loader 2000)."""
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
    """Discrete Gaussian; its normaliser is std sqrt(2 pi) up to e^{-19 std^2} (Poisson summation), else summed."""
    if std > 2:
        log_norm = math.log(std) + 0.5 * math.log(2 * math.pi)
    else:
        points = np.arange(-100, 101, dtype=float)
        log_norm = float(special.logsumexp(-(points**2) / (2 * std**2)))
    return LatticeLaw(log_mass=lambda j: -(j**2) / (2 * std**2) - log_norm, mode=0, std=std, even=True)


def price(law: LatticeLaw, zmax: float) -> LatticePrice:
    """Theorem A for any log-concave law on the integers."""
    width = math.floor(_BLOCK * law.std) if law.std > _DENSE else 1
    up_z, up_mass = _side(law, zmax, width, +1)  # cuts at mode+1, mode+1+w, ...
    down_z, down_mass = (up_z, up_mass) if law.even else _side(law, zmax, width, -1)  # cuts at mode, mode-w, ...
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
    """Largest increment of |z| between lattice neighbours, outwards along one side."""
    if len(z) < 2:
        return 0.0
    if width == 1:
        return float(np.max(np.diff(z)))
    start, reach = np.abs(z[:-1]), np.maximum(np.abs(z[1:]), np.abs(z[:-1]))
    log_root_tau = 0.5 * math.log(2 * math.pi)
    bound = np.exp(log_mass[:-1] + 0.5 * reach**2 + log_root_tau)  # m: max Q / min phi over the block
    chord = np.append(0.0, np.diff(log_mass)[:-1] / width)  # of the block before; Q falls outwards
    for _ in range(2):  # a better bound m gives a better bound again
        at_start = 0.5 * (start + bound) ** 2
        at_end = (width - 1) * np.minimum(chord, 0.0) + 0.5 * (start + width * bound) ** 2
        bound = np.exp(log_mass[:-1] + np.maximum(at_start, at_end) + log_root_tau)
    return float(np.max(bound))


def _side(law: LatticeLaw, zmax: float, width: int, sign: int) -> tuple[Floats, Floats]:
    """Cuts outwards from the mode with |z| <= zmax: |z| there, and the log mass of the lattice point just outside.

    sign = +1: cuts j = mode+1, mode+1+w, ... and the tail P(X >= j); sign = -1: j = mode, mode-w, ... and P(X < j).
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
    """Lower bounds on the log of the mass of [j, j + width) from the chord of log mass; exact for width 1."""
    if width == 1 or len(log_mass) < 2:
        return log_mass
    slope = (log_mass[1:] - log_mass[:-1]) / width  # <= 0 outwards of the mode
    # sum_{i<w} e^{slope i} = expm1(slope w) / expm1(slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        geometric = np.where(slope < 0, np.expm1(slope * width) / np.expm1(slope), float(width))
    return np.append(log_mass[:-1] + np.log(geometric), log_mass[-1])


def _stirling_error(n: Floats) -> Floats:
    """log n! - log(sqrt(2 pi n) (n/e)^n): series for n > 15, direct below."""
    large = np.maximum(n, 15.0)
    far = 1 / large**2
    series = (1 / 12 - far * (1 / 360 - far * (1 / 1260 - far * (1 / 1680 - far / 1188)))) / large
    if np.all(n > 15):
        return series
    near = np.clip(n, 1.0, 15.0)
    direct = special.gammaln(near + 1) - (near + 0.5) * np.log(near) + near - 0.5 * math.log(2 * math.pi)
    return np.where(n > 15, series, direct)


def _deviance(x: Floats, mean: float) -> Floats:
    """x log(x/mean) + mean - x = mean h((x - mean)/mean), h(e) = (1+e) log(1+e) - e, without cancellation."""
    e = np.asarray((x - mean) / mean)
    size = np.abs(e)
    if not np.all(near := size < _NEAR):
        series = mean * np.where(near, _series(np.clip(e, -_NEAR, _NEAR), _NEAR), special.xlog1py(1 + e, e) - e)
        return np.asarray(series)
    return np.asarray(mean * _series(e, float(np.max(size, initial=0.0))))


def _series(e: Floats, most: float) -> Floats:
    """h(e) = sum_{k>=2} (-e)^k / (k (k-1)) for |e| <= most: as many terms as double precision can tell."""
    last = next((k for k in range(3, 20) if most ** (k - 2) < 1e-18 * k * (k - 1)), 20)
    total, turned = np.full(e.shape, 1 / (last * (last - 1))), -e
    for k in range(last - 1, 1, -1):
        total *= turned
        total += 1 / (k * (k - 1))
    return np.asarray(total * e**2)
