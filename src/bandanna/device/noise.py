"""Noise sources: secure noise for deployments, and seeded noise for simulations and tests."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.domain import read_real_array
from bandanna.device.samplers import GAUSSIAN, LAPLACE, draw_binomials, sample_discrete
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric import exact_sums
from bandanna.numeric.rng import Streams

# Interface


Size = int | tuple[int, ...]

# Noise of at most this parameter, added to integers below 2^62, stays inside int64: leaving it would need noise
# 2^10 times its parameter, an event of probability below e^-1000.
LARGEST_PARAMETER = 2.0**52


class NoiseSource(ABC):
    """A source of fresh, independent noise; mechanisms draw noise only from it.

    `gaussian` and `laplace` add noise to real values. With `grid` > 0 the release is grid * (round(value / grid) +
    discrete noise), which a secure source draws exactly and a fast one approximates.
    """

    secure: ClassVar[bool]

    @abstractmethod
    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """Return value + Gaussian noise of standard deviation `std`, fresh in every entry."""

    @abstractmethod
    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """Return value + Laplace noise of parameter `scale`, fresh in every entry."""

    def gaussian_steps(self, steps: NDArray[np.int64], *, std: float, grid: float) -> NDArray[np.int64]:
        """Return steps of the grid plus a discrete Gaussian of at least std / grid steps, fresh in every entry."""
        ratio = divide_rounding_up("std", validation.positive("std", std), grid)
        return np.asarray(steps + self.discrete_gaussian(std=ratio, size=steps.shape))

    def named(self, name: str) -> NoiseSource:
        """Return the source for a part of a message: its own stream, if the source has named streams."""
        return self

    @abstractmethod
    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Draw integers with P(k) proportional to exp(-k^2 / (2 std^2))."""

    @abstractmethod
    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """Draw integers with P(k) proportional to exp(-|k| / scale)."""

    @abstractmethod
    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Draw counts of successes among `trials` independent trials."""

    @abstractmethod
    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw Bin(count, chance) elementwise, chances in [0, 1]: a shortcut of simulations."""

    def heads(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw sum over g of Bin(counts_g, chances_g), (..., G), (..., G, m) -> (..., m)."""
        return np.asarray(np.sum(self.coins(np.broadcast_to(counts[..., None], chances.shape), chances), axis=-2))

    @abstractmethod
    def uniform(self, size: Size) -> NDArray[np.float64]:
        """Draw uniform multiples of 2^-53 in [0, 1)."""

    @abstractmethod
    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """Draw independent uniform permutations of 0..n-1 along the last axis, (*size, n)."""


def check_noise_parameter(argument: str, value: Any) -> float:
    """Return the parameter of integer noise, a number in (0, 2^52]."""
    if validation.positive(argument, value) > LARGEST_PARAMETER:
        raise InvalidArgument(argument, value, "at most 2^52 steps, so that sums stay inside 64-bit integers")
    return float(value)


def to_shape(size: Size) -> tuple[int, ...]:
    """Return a size as a shape: 3 means (3,)."""
    axes = size if isinstance(size, tuple) else (size,)
    if all(type(axis) is int and axis >= 0 for axis in axes):  # shapes of arrays: nothing to convert
        return axes
    return tuple(validation.integer("size", axis, least=0) for axis in axes)


def read_protected_values(value: ArrayLike) -> NDArray[np.float64]:
    """Return real values to be protected as floats; error messages never show them."""
    array = read_real_array("value", value)
    if not np.isfinite(array).all():
        broken = int(np.count_nonzero(~np.isfinite(array)))
        raise InvalidStatistic(
            "value", ValueSummary(f"an array with {broken} entries that are not finite"), "finite numbers"
        )
    return array


def round_to_grid(value: ArrayLike, grid: float) -> NDArray[np.int64]:
    """Return the nearest multiple of the grid in steps; exact, ties to even."""
    if validation.non_negative("grid", grid) == 0:
        raise InsecureSource("grid = 0 is not allowed: a secure source adds integer noise on a grid > 0")
    exact = read_protected_values(value)
    return exact_sums.count_grid_steps(exact, np.zeros_like(exact), grid)


@lru_cache(maxsize=64)
def divide_rounding_up(argument: str, scale: float, grid: float) -> float:
    """Return scale / grid, never below the real quotient: rounding may only add noise."""
    ratio = check_noise_parameter(f"{argument} / grid", scale / grid)
    below = Fraction(ratio) * Fraction(grid) < Fraction(scale)
    return math.nextafter(ratio, math.inf) if below else ratio


def check_noise_source(source: Any) -> NoiseSource:
    """Return the noise source, or raise an error that says what one is."""
    if not isinstance(source, NoiseSource):
        raise InvalidArgument(
            "source", source, "a NoiseSource: FastNoise(numpy.random.default_rng(seed)) or SecureNoise()"
        )
    return source


# Secure noise


class SecureNoise(NoiseSource):
    """Exact noise from the operating system's randomness, without seed.

    Gaussian and Laplace releases are grid * (round(value / grid) + discrete noise): a function of an integer, so
    floating point reveals nothing about the value.
    """

    secure = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if arguments or named:
            raise InsecureSource(
                "SecureNoise() takes no argument: it draws from the operating system and cannot be seeded"
            )

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        return np.asarray(self.gaussian_steps(round_to_grid(value, grid), std=std, grid=grid) * grid)

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        steps = round_to_grid(value, grid)
        ratio = divide_rounding_up("scale", validation.positive("scale", scale), grid)
        return np.asarray((steps + self.discrete_laplace(scale=ratio, size=steps.shape)) * grid)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        shape = to_shape(size)
        return sample_discrete(GAUSSIAN, check_noise_parameter("std", std), math.prod(shape), _draw_words).reshape(
            shape
        )

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        shape = to_shape(size)
        return sample_discrete(LAPLACE, check_noise_parameter("scale", scale), math.prod(shape), _draw_words).reshape(
            shape
        )

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        chance = Fraction(validation.open_probability("probability", probability))
        shape, trials = to_shape(size), validation.integer("trials", trials, least=0)
        return draw_binomials(trials, chance, math.prod(shape), _draw_words).reshape(shape)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        raise InsecureSource("coins of many users at once are a shortcut of simulations; a secure source draws each")

    def uniform(self, size: Size) -> NDArray[np.float64]:
        return np.asarray((_draw_words(to_shape(size)) >> np.uint64(11)) * 2.0**-53)

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """Sort random 64-bit keys, drawn anew for a row with equal keys."""
        shape = (*to_shape(size), validation.integer("n", n))
        keys = _draw_words(shape).reshape(-1, n)
        while (again := (np.diff(np.sort(keys, axis=-1), axis=-1) == 0).any(axis=-1)).any():
            keys[again] = _draw_words((int(again.sum()), n))
        return np.argsort(keys, axis=-1).astype(np.int64).reshape(shape)


def _draw_words(shape: tuple[int, ...]) -> NDArray[np.uint64]:
    return np.frombuffer(bytearray(os.urandom(8 * math.prod(shape))), dtype=np.uint64).reshape(shape)


# Time of secure noise


# Seconds on one core of a server of 2026
RELEASE_SECONDS = 1e-3  # any release: checks, linear algebra, the ledger
GAUSSIAN_SECONDS = 2.5e-7  # a discrete Gaussian or Laplace
WORD_SECONDS = 1e-7  # a binomial of up to 2^24 trials
NUMBER_SECONDS = 1e-7  # a number of a user's statistic: clipped, rounded, added, fingerprinted


@dataclass(frozen=True, kw_only=True)
class ReleaseCost:
    """The random numbers of a release."""

    gaussians: int = 0
    words: int = 0
    numbers: int = 0

    def seconds(self, *, secure: bool) -> float:
        """Estimate the time within a factor of about 3; seeded noise takes no time."""
        noise = GAUSSIAN_SECONDS * self.gaussians + WORD_SECONDS * self.words if secure else 0.0
        return RELEASE_SECONDS + noise + NUMBER_SECONDS * self.numbers


# Distance of fast noise from secure noise


def gaussian_grid_distance(*, std: float, grid: float) -> float:
    """Bound sup_x |P(fast <= x) - P(secure <= x)| for a Gaussian release of the same value, grid <= std.

        fast = v + N(0, std^2),   secure = grid (round(v / grid) + discrete Gaussian(std / grid)),
        distance <= grid / (std sqrt(2 pi)) + (grid / std)^2 / 16.

    Proof, in units of the grid, s = std / grid >= 1, f the density of N(0, s^2), S = sum_j f(j).
    (1) Rounding v moves it by at most 1/2, hence the distribution function by at most f(0)/2. Then v = 0.
    (2) For k >= 0 and x in [k, k+1), P(N > x) is within f(0)/2 of P(N > k + 1/2); by symmetry k >= 0 is enough.
    (3) Midpoint rule with its Peano kernel (1/2 - |t|)^2 / 2 <= 1/8:
        |sum_{j>k} f(j) - P(N > k + 1/2)| <= (1/8) int_0^inf |f''| = (1/4) max |f'| < 0.0606 / s^2.
    (4) Dividing by S moves a tail <= 1/2 by at most (S - 1)/2 = sum_{m>=1} exp(-2 pi^2 s^2 m^2) < 1e-8 / s^2 (Poisson
        summation); 0.0606 + 1e-8 < 1/16.
    """
    ratio = validation.positive("grid", grid) / validation.positive("std", std)
    if ratio > 1:
        raise InvalidArgument("grid", grid, f"at most std = {std!r}")
    return min(1.0, ratio / math.sqrt(2 * math.pi) + ratio**2 / 16)


def laplace_grid_distance(*, scale: float, grid: float) -> float:
    """Bound sup_x |P(fast <= x) - P(secure <= x)| for a Laplace release of the same value.

        distance <= grid / (2 scale) + (grid / scale)^2 / 16.

    Proof, in units of the grid, s = scale / grid. The density is at most 1 / (2s): steps (1) and (2) of
    `gaussian_grid_distance` cost 1 / (4s) each. For k >= 0 the discrete tail is P(Y > k) = e^{-(k+1)/s} / (1 +
    e^{-1/s}) = P(L > k + 1/2) sech(1 / (2s)), and 1 - sech(x) <= x^2 / 2.
    """
    ratio = validation.positive("grid", grid) / validation.positive("scale", scale)
    return min(1.0, ratio / 2 + ratio**2 / 16)


# Fast noise


class FastNoise(NoiseSource):
    """Seeded noise for simulation, from a NumPy generator.

    Real-valued noise is continuous, within `gaussian_grid_distance` or `laplace_grid_distance` of the secure source's.
    Integer noise has the secure source's distribution, up to the resolution of double-precision uniforms.

    Parameters
    ----------
    rng
        Seeded generator. A party that knows the seed can subtract the noise, so it protects nobody.
    """

    secure = False

    def __init__(self, rng: np.random.Generator) -> None:
        if not isinstance(rng, np.random.Generator):
            raise InvalidArgument(
                "rng",
                rng,
                "a numpy.random.Generator, such as numpy.random.default_rng(seed): the randomness is an argument",
            )
        self._rng = rng

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        validation.positive("std", std)
        validation.non_negative("grid", grid)
        exact = read_protected_values(value)
        drawn = np.asarray(self._rng.normal(0.0, std, exact.shape))
        drawn += exact
        return drawn

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        validation.positive("scale", scale)
        validation.non_negative("grid", grid)
        exact = read_protected_values(value)
        return np.asarray(exact + self._rng.laplace(0.0, scale, exact.shape))

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Draw by rejection from discrete Laplace(floor(std) + 1) (Canonne, Kamath and Steinke 2020, Algorithm 3)."""
        std, shape = check_noise_parameter("std", std), to_shape(size)
        t = math.floor(std) + 1.0
        accepted = np.empty(0, dtype=np.int64)
        while accepted.size < math.prod(shape):
            y = self._two_sided_geometric(t, (2 * (math.prod(shape) - accepted.size) + 16,))
            with np.errstate(over="ignore"):
                accept = np.exp(-((np.abs(y) / std - std / t) ** 2) / 2)  # CKS 2020, Algorithm 3
            accepted = np.concatenate([accepted, y[self.uniform(y.size) < accept]])
        return accepted[: math.prod(shape)].reshape(shape)

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """Draw G - G' with G and G' geometric: P(G = k) proportional to exp(-k / scale), k >= 0."""
        return self._two_sided_geometric(check_noise_parameter("scale", scale), to_shape(size))

    def _two_sided_geometric(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        geometric = np.floor(self._rng.exponential(scale, (2, *shape))).astype(np.int64)  # (2, *size)
        return np.asarray(geometric[0] - geometric[1])

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        draws = self._rng.binomial(
            validation.integer("trials", trials, least=0),
            validation.open_probability("probability", probability),
            to_shape(size),
        )
        return np.asarray(draws, dtype=np.int64)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.asarray(self._rng.binomial(counts, np.clip(chances, 0.0, 1.0)), dtype=np.int64)

    def uniform(self, size: Size) -> NDArray[np.float64]:
        return np.asarray(self._rng.random(to_shape(size)))

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        rows = np.broadcast_to(np.arange(validation.integer("n", n), dtype=np.int64), (*to_shape(size), n))
        return self._rng.permuted(rows, axis=-1)  # (*size, n)


# Noise of several seeds


class ReplicatedNoise(NoiseSource):
    """Fast noise whose first axis is the seeds of `streams`; other seeds do not change a seed's numbers."""

    secure = False

    def __init__(self, streams: Streams, part: str = "") -> None:
        self._streams, self._part = streams, part
        self._seeds = len(streams.seeds)

    def named(self, name: str) -> ReplicatedNoise:
        return ReplicatedNoise(self._streams, f"{self._part}{name} ")

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        exact = np.asarray(value, dtype=float)
        drawn = std * self._streams.normal(self._part + "noise", exact.shape[1:])
        drawn += exact
        return drawn

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        exact = np.asarray(value, dtype=float)
        return np.stack([source.laplace(row, scale=scale, grid=grid) for source, row in self._each("laplace", exact)])

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        rest = self._rest(size)
        return np.stack([s.discrete_gaussian(std=std, size=rest) for s in self._sources("discrete gaussian")])

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        rest = self._rest(size)
        return np.stack([s.discrete_laplace(scale=scale, size=rest) for s in self._sources("discrete laplace")])

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        trials, chance = (
            validation.integer("trials", trials, least=0),
            validation.open_probability("probability", probability),
        )
        return self._streams.coins(self._part + "coins", trials, chance, self._rest(size))

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        rows = zip(self._sources("group coins"), counts, chances, strict=True)
        return np.stack([source.coins(n, p) for source, n, p in rows])

    def heads(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Flip every user's coin by the first 16 bits of a uniform, and by more bits only if those do not decide.

        All seeds have the same number of users, and chances are below 1.
        """
        ends = np.cumsum(counts, axis=1)
        users = np.arange(int(ends[0, -1]))
        group = np.zeros((self._seeds, len(users)), dtype=np.int64)
        for end in ends[:, :-1].T:
            group += users >= end[:, None]
        scaled = 2.0**16 * chances
        first = scaled.astype(np.uint16)  # (S, G, m), rounded down
        chosen = first[np.arange(self._seeds)[:, None], group]
        drawn = self._streams.sixteen_bits(self._part + "rounding bits", chosen.shape[1:])
        below = (drawn < chosen).view(np.uint8)
        for each in np.flatnonzero(drawn == chosen):
            seed, user, place = np.unravel_index(each, chosen.shape)
            of = seed, group[seed, user], place
            rest = self._streams.generators(self._part + "further bits")[seed].random()
            below[seed, user, place] = rest < scaled[of] - first[of]
        wide = np.uint8 if len(users) < 256 else np.int64
        return np.asarray(np.add.reduce(below, axis=1, dtype=wide), dtype=np.int64)

    def uniform(self, size: Size) -> NDArray[np.float64]:
        return self._streams.uniform(self._part + "rounding", self._rest(size))

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        rest = self._rest(size)
        return np.stack([s.permutation(n, size=rest) for s in self._sources("order")])

    def _rest(self, size: Size) -> tuple[int, ...]:
        axes = to_shape(size)
        if not axes or axes[0] != self._seeds:
            raise ValueError(f"the first axis of {axes} must be the {self._seeds} seeds")
        return axes[1:]

    def _sources(self, name: str) -> list[FastNoise]:
        return [FastNoise(rng) for rng in self._streams.generators(self._part + name)]

    def _each(self, name: str, rows: NDArray[np.float64]) -> list[tuple[FastNoise, NDArray[np.float64]]]:
        return list(zip(self._sources(name), rows, strict=True))
