"""Environments with finitely many fixed arms, and reward laws with finitely many values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from bandanna import validation
from bandanna.device.domain import read_real_array
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Environment, World
from bandanna.types import Floats

_TAIL_STDS = 9.0  # centres are searched up to so many standard deviations outside of the range
_TABLE = 4096
_CELLS, _MARGIN = 1 << 13, 1 / 16  # of means; of the range, at either end


@dataclass(frozen=True, kw_only=True)
class Levels(ABC):
    """A reward law with finitely many values v_0 < ... < v_n in [low, high].

    The counts of the values among n rewards of one mean are multinomial, so a sum of any number of rewards is one draw.

    Parameters
    ----------
    low, high : float
        The range of rewards and means.
    """

    low: float = 0.0
    high: float = 1.0

    binary = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not -np.inf < self.low < self.high < np.inf:
            raise InvalidArgument("low, high", (self.low, self.high), "finite numbers with low < high")

    @property
    @abstractmethod
    def values(self) -> Floats:
        """The possible values of a reward, (V,)."""

    @abstractmethod
    def chances(self, means: Floats) -> Floats:
        """Return the probabilities of the values: (...) -> (..., V)."""

    @abstractmethod
    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Draw one reward per mean, rounds on the second axis: (S, rounds, ...) -> (S, rounds, ...)."""

    def checked(self, means: Floats) -> Floats:
        """Return means in the range, with rounding errors cut off; refuse others."""
        slack = 1e-9 * (self.high - self.low)
        if np.any((means < self.low - slack) | (means > self.high + slack) | np.isnan(means)):
            worst = means.ravel()[np.argmax(np.abs(means - (self.low + self.high) / 2))]
            raise InvalidArgument("mean", float(worst), f"a mean reward in [{self.low:g}, {self.high:g}]")
        return np.clip(means, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class TwoPoint(Levels):
    """Rewards of `high` with the probability that gives the mean, else `low`.

    Parameters
    ----------
    low, high : float
        The two values.
    """

    @property
    def values(self) -> Floats:
        return np.array([self.low, self.high])

    def chances(self, means: Floats) -> Floats:
        upper = (self.checked(means) - self.low) / (self.high - self.low)
        return np.stack([1 - upper, upper], axis=-1)

    def draw(self, means: Floats, streams: Streams) -> Floats:
        upper = (self.checked(means) - self.low) / (self.high - self.low)
        return np.where(streams.uniform("rewards", means.shape[1:]) < upper, self.high, self.low)


@dataclass(frozen=True, kw_only=True)
class ClippedGaussian(Levels):
    """Rewards clip(c + std Z, low, high), Z ~ N(0, 1), rounded at random and without bias to one of `levels` values.

    The centre c is such that the clipped reward has the given mean. Rounding adds at most (high - low)^2 / (4 (levels -
    1)^2) to the variance.

    Parameters
    ----------
    low, high : float
        The range.
    std : float
        The standard deviation of the noise before clipping.
    levels : int
        The number of values, equally spaced.
    """

    std: float = 1.0
    levels: int = 101

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "std", validation.positive("std", self.std))
        object.__setattr__(self, "levels", validation.integer("levels", self.levels, least=2))

    @cached_property
    def values(self) -> Floats:
        return np.linspace(self.low, self.high, self.levels)

    @property
    def step(self) -> float:
        """The distance between two values."""
        return (self.high - self.low) / (self.levels - 1)

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        centres = np.linspace(self.low - _TAIL_STDS * self.std, self.high + _TAIL_STDS * self.std, _TABLE)
        return centres, self._clipped_mean(centres)

    def _above(self, centre: Floats, threshold: Floats | float) -> Floats:
        """E (c + std Z - v)^+ = (c - v) Phi(u) + std phi(u), u = (c - v)/std."""
        u = (centre - threshold) / self.std
        return self._excess(centre - threshold, u, special.ndtr(u))

    def _excess(self, distance: Floats, u: Floats, chance: Floats) -> Floats:
        """Return distance Phi(u) + std phi(u) given Phi(u)."""
        return np.asarray(distance * chance + self.std * (np.exp(-u * u / 2) / np.sqrt(2 * np.pi)))

    def _clipped_mean(self, centre: Floats) -> Floats:
        return self.low + self._above(centre, self.low) - self._above(centre, self.high)

    def centre(self, means: Floats) -> Floats:
        """Return the c whose clipped reward has this mean, up to parts in 10^13."""
        target = self.checked(means)
        first, width, cubics = self._cells
        t = (target - first) / width
        cell = t.astype(np.int64)
        outside = (t < 0) | (t >= len(cubics))
        if np.any(outside):
            cell[outside] = 0
        t -= cell
        a = cubics.take(cell, axis=0)  # (..., 4)
        c = a[..., 0] + t * (a[..., 1] + t * (a[..., 2] + t * a[..., 3]))
        if np.any(outside):
            c[outside] = self._solved(target[outside])
        return np.asarray(c)

    @cached_property
    def _cells(self) -> tuple[float, float, Floats]:
        """Return begin, width and Hermite cubics of equal cells of means."""
        margin = _MARGIN * (self.high - self.low)
        means, width = np.linspace(self.low + margin, self.high - margin, _CELLS + 1, retstep=True)
        c = self._solved(means)
        slope = width / (special.ndtr((c - self.low) / self.std) - special.ndtr((c - self.high) / self.std))
        rise, begin, end = np.diff(c), slope[:-1], slope[1:]
        cubics = np.stack([c[:-1], begin, 3 * rise - 2 * begin - end, begin + end - 2 * rise], axis=1)
        return float(means[0]), float(width), cubics

    def _solved(self, target: Floats) -> Floats:
        """Return the centres of means by a table and Newton steps."""
        centres, table = self._table
        c = np.interp(target, table, centres)
        for _ in range(3):
            u, v = (c - self.low) / self.std, (c - self.high) / self.std
            over, under = special.ndtr(u), special.ndtr(v)
            found = self.low + self._excess(c - self.low, u, over) - self._excess(c - self.high, v, under)
            move = (target - found) / np.maximum(over - under, 1e-12)
            c = np.clip(c + np.clip(move, -self.std, self.std), centres[0], centres[-1])
        return c

    def chances(self, means: Floats) -> Floats:
        c = self.centre(np.asarray(means, dtype=float))[..., None]
        tail = self._above(c, self.values) - self._above(c, self.high)  # E (X - v_k)^+
        fall = np.clip((tail[..., :-1] - tail[..., 1:]) / self.step, 0.0, 1.0)  # E of the ramp from v_k to v_{k+1}
        ends = np.concatenate([np.ones_like(c), fall, np.zeros_like(c)], axis=-1)
        chances = np.maximum(ends[..., :-1] - ends[..., 1:], 0.0)
        return np.asarray(chances / np.sum(chances, axis=-1, keepdims=True))

    def draw(self, means: Floats, streams: Streams) -> Floats:
        noise = streams.normal("reward noise", means.shape[1:])
        clipped = np.clip(self.centre(means) + self.std * noise, self.low, self.high)
        below = np.floor((clipped - self.low) / self.step + streams.uniform("rewards", means.shape[1:]))
        return self.values[np.minimum(below.astype(np.int64), self.levels - 1)]


@dataclass(frozen=True, kw_only=True)
class FiniteArms(Environment):
    """K arms with the same `means` for every seed; only the rewards are random.

    The features of arm a are the unit vector e_a, so `dim` = K and linear policies can play too.

    Parameters
    ----------
    means : array_like
        Mean rewards, (K,).
    reward : RewardLaw
        `Bernoulli()` or `Bounded(...)` with means in [0, 1]; `TwoPoint(...)` or `ClippedGaussian(...)` with means in
        their own range.

    Examples
    --------
    >>> FiniteArms(means=(0.75, 0.5))
    FiniteArms(dim=2, n_arms=2, reward=Bernoulli(), means=(0.75, 0.5))
    """

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    means: ArrayLike

    def __post_init__(self) -> None:
        means = read_real_array("means", self.means, "a list of numbers, one per arm")
        if means.ndim != 1 or not len(means):
            raise InvalidArgument("shape of means", means.shape, "(K,) with at least one arm")
        low, high = (self.reward.low, self.reward.high) if isinstance(self.reward, Levels) else (0.0, 1.0)
        for arm, mean in enumerate(means):
            if not low <= mean <= high:
                raise InvalidArgument(f"means[{arm}]", float(mean), f"a mean reward in [{low:g}, {high:g}]")
        derived: dict[str, Any] = {"means": tuple(means.tolist()), "dim": len(means), "n_arms": len(means)}
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def begin(self, streams: Streams) -> FiniteWorld:
        return FiniteWorld(environment=self, streams=streams)


class FiniteWorld(World):
    """World that `FiniteArms` begins.

    Parameters
    ----------
    environment
        The `FiniteArms` of this world.
    streams
        Random streams of S seeds, one world each.
    """

    def __init__(self, *, environment: FiniteArms, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        self.table: Floats = np.asarray(environment.means, dtype=float)  # (K,)

    def contexts(self, start: int, rounds: int) -> Floats:
        return np.broadcast_to(np.eye(self.n_arms), (len(self.streams.seeds), 1, self.n_arms, self.n_arms))

    def means(self, contexts: Floats) -> Floats:
        return np.broadcast_to(self.table, (len(self.streams.seeds), 1, self.n_arms))
