"""Environments with a population of users, each with a model of their own (paper 001)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from bandanna import validation
from bandanna.device.domain import check_all_finite, read_real_array
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.design import check_arms_matrix, check_unit_ball
from bandanna.simulation.environments.base import Environment, RewardLaw, World
from bandanna.simulation.environments.finite import TwoPoint
from bandanna.simulation.environments.linear import normalize_directions
from bandanna.types import Floats, Ints

_BLOCK = 1 << 15  # local averages drawn at once: few enough to stay in a core's cache
_POINT = 1e-300  # a spread of 0, that can be divided by


@dataclass(frozen=True, kw_only=True)
class Population(Environment):
    """Users with linear models theta_u = theta* + xi_u, xi_u ~ N(0, sigma^2 I); the global reward of x is <theta*, x>.

    A client's reward of x has the mean <theta_u, x> and the values -B and B, so the sum of n rewards is one binomial
    number. A mean outside of [-B, B] becomes its end and is counted as clipped. Clients are drawn when they are queried
    and never queried twice.

    Reference: Li, Zhou and Ji 2024 [001], section II.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms; given by `arms` if there are any.
    reward : TwoPoint
        `TwoPoint(low=-B, high=B)`.
    sigma : float
        The standard deviation of a user's model, per coordinate.
    size : int, optional
        The number of users; unlimited by default.
    arms : array_like, optional
        (K, d) of norm at most 1, the same for every seed; by default uniform directions for every seed.
    theta : array_like, optional
        (d,) of norm at most 1; by default a uniform direction for every seed.
    """

    dim: int = 0
    n_arms: int = 0
    reward: RewardLaw = TwoPoint(low=-1.0, high=1.0)
    sigma: float = 0.1
    size: int | None = None
    arms: ArrayLike | None = None
    theta: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", validation.non_negative("sigma", self.sigma))
        if self.size is not None:
            object.__setattr__(self, "size", validation.integer("size", self.size))
        if not isinstance(self.reward, TwoPoint) or self.reward.low != -self.reward.high:
            allowed = "TwoPoint(low=-B, high=B), whose sums are drawn at once"
            raise InvalidArgument("reward", self.reward, allowed)
        if self.arms is not None:
            rows = check_unit_ball("arms", check_arms_matrix(self.arms))
            for name, derived in (("dim", rows.shape[1]), ("n_arms", len(rows))):
                if getattr(self, name) not in (0, derived):
                    raise InvalidArgument(name, getattr(self, name), f"{derived}, as many as the arms have")
                object.__setattr__(self, name, derived)
            object.__setattr__(self, "arms", tuple(map(tuple, rows.tolist())))
        super().__post_init__()
        if self.theta is not None:
            theta = read_real_array("theta", self.theta)
            if theta.shape != (self.dim,):
                raise InvalidArgument("shape of theta", theta.shape, f"({self.dim},)")
            check_all_finite("theta", theta)
            object.__setattr__(self, "theta", tuple(check_unit_ball("theta", theta[None])[0].tolist()))

    @property
    def bound(self) -> float:
        """B, the largest local reward."""
        assert isinstance(self.reward, TwoPoint)
        return self.reward.high

    def begin(self, streams: Streams) -> PopulationWorld:
        seeds, given_theta, given_arms = len(streams.seeds), self.theta, self.arms
        if given_theta is None:
            theta = normalize_directions(streams.normal("instance", (self.dim,)))  # (S, d)
        else:
            theta = np.broadcast_to(np.asarray(given_theta, dtype=float), (seeds, self.dim))
        if given_arms is None:
            arms = normalize_directions(streams.normal("arms", (self.n_arms, self.dim)))  # (S, K, d)
        else:
            arms = np.broadcast_to(np.asarray(given_arms, dtype=float), (seeds, self.n_arms, self.dim))
        return PopulationWorld(environment=self, streams=streams, theta=theta, arms=arms)


class PopulationWorld(World):
    """Worlds of `Population`: global models and arms of S seeds, and clients.

    Parameters
    ----------
    environment
        The `Population` of this world.
    streams
        Random streams of S seeds, one world each.
    theta
        Global models, (S, d).
    arms
        Features of the arms, (S, K, d), the same in every round.
    """

    environment: Population

    def __init__(self, *, environment: Population, streams: Streams, theta: Floats, arms: Floats) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        self.theta, self.arms = theta, arms  # (S, d), (S, K, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        allowed = (
            "phased elimination (DPE and others) for its policy; from Python also OneClientPerRound(population=...)"
        )
        raise InvalidArgument("env", "Population", allowed)

    def means(self, contexts: Floats) -> Floats:
        return self.contexts(0, 1)

    def global_means(self) -> Floats:
        """Return <theta*, x>, (S, K)."""
        return np.asarray((self.arms @ self.theta[..., None])[..., 0])

    def clients(self, index: int, arms: Floats, plays: Ints, count: int, *, each: bool = False) -> ClientBlocks:
        """Draw `count` fresh clients of seed number `index`: averages of `plays` rewards of `arms`, in blocks.

        With `each` every reward is drawn by itself; otherwise a client's sum is one binomial number.
        """
        return ClientBlocks(self, index, arms, plays, count, each=each)

    def strangers(self, index: int, arms: Floats, plays: Ints) -> tuple[Ints, int]:
        """Draw how many rewards are B if each comes from a fresh client, (s,), and how many clients were clipped.

        The numbers of clients beyond either end are multinomial; the others' rewards are one binomial number.
        """
        population, rng = self.environment, self.streams.generators("clients one by one")[index]
        bound, centres = population.bound, arms @ self.theta[index]
        lower, upper, inside = clipped_normal_moments(centres, population.sigma * np.linalg.norm(arms, axis=1), bound)
        chances = np.maximum(np.stack([lower, upper, 1 - lower - upper], axis=1), 0.0)
        beyond = rng.multinomial(plays, chances / np.sum(chances, axis=1, keepdims=True))  # (s, 3)
        ones = beyond[:, 1] + rng.binomial(beyond[:, 2], np.clip((1 + inside / bound) / 2, 0.0, 1.0))
        return np.asarray(ones), int(np.sum(beyond[:, :2]))


class ClientBlocks:
    """Averages of fresh clients, (block, s) at a time; `clipped` counts entries whose mean left the range."""

    def __init__(
        self, world: PopulationWorld, index: int, arms: Floats, plays: Ints, count: int, *, each: bool
    ) -> None:
        self.population, self.arms, self.plays, self.count, self.each = world.environment, arms, plays, count, each
        self.centres = arms @ world.theta[index]  # (s,)
        self.models = world.streams.generators("clients")[index]
        self.rewards = world.streams.generators("local rewards")[index]
        self.clipped = 0

    @property
    def size(self) -> int:
        """The clients in a block; it does not change the numbers."""
        return max(1, _BLOCK // len(self.plays))

    def __iter__(self) -> Iterator[Floats]:
        bound = self.population.bound
        for ones in self.counts():
            yield ones * (2 * bound / self.plays) - bound

    def counts(self) -> Iterator[Ints]:
        """Yield how many of each client's rewards of an action are B."""
        bound, sigma = self.population.bound, self.population.sigma
        left, values, _ = np.linalg.svd(self.arms, full_matrices=False)
        factor = (sigma * left * values).T  # <xi_u, x> jointly: r normal numbers a client
        for begin in range(0, self.count, self.size):
            chances = np.broadcast_to(self.centres, (min(self.size, self.count - begin), len(self.plays)))
            if sigma:
                chances = chances + self.models.standard_normal((len(chances), len(factor))) @ factor
            chances = np.multiply(chances, 0.5 / bound)
            chances += 0.5  # (1 + <theta_u, x>/B)/2
            outside = np.count_nonzero(np.abs(chances - 0.5) > 0.5)
            self.clipped += int(outside)
            yield self._ones(np.clip(chances, 0.0, 1.0, out=chances) if outside else chances)

    def _ones(self, chances: Floats) -> Ints:
        if not self.each:
            return np.asarray(self.rewards.binomial(self.plays, chances))
        rounds = [
            np.sum(self.rewards.random((len(chances), n)) < chances[:, [x]], axis=1) for x, n in enumerate(self.plays)
        ]
        return np.stack(rounds, axis=1)


def clipped_normal_moments(centres: Floats, spread: Floats, bound: float) -> tuple[Floats, Floats, Floats]:
    """Return P(X < -bound), P(X > bound) and the mean of X inside the bounds, for X ~ N(centre, spread^2)."""
    spread = np.maximum(spread, _POINT)
    low, high = (-bound - centres) / spread, (bound - centres) / spread
    lower, upper = special.ndtr(low), special.ndtr(-high)
    if np.any(sure := spread <= _POINT):  # a mean at the very end of the range has not left it
        lower, upper = np.where(sure, centres < -bound, lower), np.where(sure, centres > bound, upper)
    density = [np.exp(-(np.minimum(np.abs(z), 1e10) ** 2) / 2) / np.sqrt(2 * np.pi) for z in (low, high)]
    inside = centres + spread * (density[0] - density[1]) / np.maximum(1 - lower - upper, 1e-300)
    return lower, upper, np.clip(inside, -bound, bound)


@dataclass(frozen=True, kw_only=True)
class OneClientPerRound(Environment):
    """The population as a contextual policy sees it: one fresh client a round, rewards mapped from [-B, B] to [0, 1].

    Features are (x, 1)/sqrt 2: the mean (1 + <theta*, x>/B)/2 is linear in them. Regret is that of the population
    divided by 2 B.

    Parameters
    ----------
    population : Population
        The population; `dim`, `n_arms` and `reward` follow from it.
    """

    dim: int = 0
    n_arms: int = 0
    population: Population

    def __post_init__(self) -> None:
        validation.instance("population", self.population, Population, "a Population")
        object.__setattr__(self, "dim", self.population.dim + 1)
        object.__setattr__(self, "n_arms", self.population.n_arms)
        super().__post_init__()

    def check_rounds(self, rounds: int) -> int:
        size = self.population.size
        if size is not None and size < rounds:
            allowed = f"at least {rounds}, because every round asks a new client"
            raise InvalidArgument("population.size", size, allowed)
        return rounds

    def begin(self, streams: Streams) -> OneClientWorld:
        return OneClientWorld(environment=self, streams=streams, worlds=self.population.begin(streams))


class OneClientWorld(World):
    """World that `OneClientPerRound` begins.

    Parameters
    ----------
    environment
        The `OneClientPerRound` of this world.
    streams
        Random streams of S seeds, one world each.
    worlds
        World of the population with the same seeds; it gives arms, (S, K, d), and global means.
    """

    def __init__(self, *, environment: OneClientPerRound, streams: Streams, worlds: PopulationWorld) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        population, self.arms = environment.population, worlds.arms
        spread = population.sigma * np.linalg.norm(self.arms, axis=-1)
        lower, upper, inside = clipped_normal_moments(worlds.global_means(), spread, population.bound)
        local = population.bound * (upper - lower) + (1 - lower - upper) * inside  # a fresh client's mean reward
        self.table = np.clip((1 + local / population.bound) / 2, 0.0, 1.0)  # (S, K)

    def contexts(self, start: int, rounds: int) -> Floats:
        ones = np.ones((*self.arms.shape[:-1], 1))
        return np.asarray(np.concatenate([self.arms, ones], axis=-1)[:, None] / np.sqrt(2))

    def means(self, contexts: Floats) -> Floats:
        return self.table[:, None]
