"""Environments whose mean rewards are a link function of <x, theta>."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.links import Link, Logistic, link_of
from bandanna.simulation.environments.base import Bernoulli, Environment, RewardLaw, World
from bandanna.simulation.environments.linear import normalize_directions, scale_directions
from bandanna.types import Floats

_MORE = 2  # entries of a direction that is drawn, beyond those of an arm: then these are uniform in the ball
PUBLISHED_SEED = 109832  # of the instances on which paper 003 was run


@dataclass(frozen=True, kw_only=True)
class LinkRewards:
    """Rewards in [0, R] by the law of a link: Bernoulli, binomial or truncated Poisson."""

    link: Link

    @property
    def binary(self) -> bool:
        return self.link.binary

    def draw(self, means: Floats, streams: Streams) -> Floats:
        return self.link.draw(means, streams.uniform("rewards", means.shape[1:]))


@dataclass(frozen=True, kw_only=True)
class GeneralisedLinear(Environment):
    """Arms uniform in the unit ball, drawn in every round; theta in a uniform direction, per seed.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms in a round.
    link : Link or {"logistic", "probit", "linear"}
        The link; with "linear", means below 0 or above 1 are cut off there.
    norm : float
        The norm of theta.
    """

    link: Link | str = Logistic()
    norm: float = 1.0
    reward: RewardLaw = field(init=False, default=Bernoulli())

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "link", link_of(self.link))
        object.__setattr__(self, "norm", validation.positive("norm", self.norm))
        object.__setattr__(self, "reward", LinkRewards(link=link_of(self.link)))

    def begin(self, streams: Streams) -> GLMWorld:
        theta = self.norm * normalize_directions(streams.normal("instance", (self.dim,)))  # (S, d)
        return FreshGLM(environment=self, streams=streams, theta=theta, link=link_of(self.link))


@dataclass(frozen=True, kw_only=True)
class PublishedGLM(Environment):
    """The instances of paper 003: one theta and one sequence of arm sets for all seeds; only rewards differ.

    PCG64 with seed 109832 draws u uniform on [-1, 1]^d for theta = `norm` u/|u|, then for each arm of each round a
    normal vector and a uniform number, which give an arm uniform in the ball.

    Parameters
    ----------
    dim, n_arms, rounds : int
        Coordinates of a feature vector, arms in a round, and rounds of the instance.
    link : Link or str
        The link.
    norm : float
        The norm of theta.
    instance : int
        The seed of the instance.

    Examples
    --------
    >>> round(PublishedGLM(dim=3, link="probit", norm=2.0, rounds=5000).kappa, 2)
    18.39
    """

    dim: int = 3
    n_arms: int = 20
    link: Link | str = "probit"
    norm: float = 2.0
    rounds: int = 5000
    instance: int = PUBLISHED_SEED
    reward: RewardLaw = field(init=False, default=Bernoulli())

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "link", link_of(self.link))
        object.__setattr__(self, "norm", validation.positive("norm", self.norm))
        object.__setattr__(self, "rounds", validation.integer("rounds", self.rounds))
        object.__setattr__(self, "reward", LinkRewards(link=link_of(self.link)))

    @cached_property
    def theta(self) -> Floats:
        """The true parameter, (d,)."""
        u = np.random.default_rng(self.instance).uniform(-1, 1, self.dim)
        return np.asarray(self.norm * u / np.linalg.norm(u))

    @property
    def arms(self) -> Floats:
        """All arm sets, (T, K, d)."""
        return _published_arms(self.dim, self.n_arms, self.rounds, self.instance)

    @cached_property
    def _slopes(self) -> Floats:
        return link_of(self.link).slope(self.arms @ self.theta)

    @property
    def kappa(self) -> float:
        """The largest 1/mu'(<x, theta>) over all arms of all rounds."""
        return float(1 / np.min(self._slopes))

    @property
    def least_kappa(self) -> float:
        """kappa*: the least 1/mu'(<x, theta>) over all arms of all rounds."""
        return float(1 / np.max(self._slopes))

    def begin(self, streams: Streams) -> GLMWorld:
        theta = np.broadcast_to(self.theta, (len(streams.seeds), self.dim))
        return PublishedGLMWorld(environment=self, streams=streams, theta=theta, link=link_of(self.link))


class GLMWorld(World):
    """Worlds with one theta per seed.

    Parameters
    ----------
    environment
        The world's environment.
    streams
        Random streams of S seeds, one world each.
    theta
        Parameters, (S, d).
    link
        Map from <x, theta> to the mean reward, cut to [0, the link's bound].
    """

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, link: Link) -> None:
        super().__init__(environment=environment, streams=streams)
        self.theta, self.link = theta, link  # (S, d)

    def means(self, contexts: Floats) -> Floats:
        z = (contexts @ self.theta[:, None, :, None])[..., 0]
        means = np.asarray(self.link.mean(z))
        return np.clip(means, 0.0, self.link.reward_bound, out=means if means.flags.writeable else None)


class FreshGLM(GLMWorld):
    """Worlds of `GeneralisedLinear`: arms uniform in the unit ball.

    Parameters
    ----------
    environment
        The `GeneralisedLinear` of this world.
    streams
        Random streams of S seeds, one world each.
    theta
        Parameters, (S, d).
    link
        Map from <x, theta> to the mean reward.
    """

    unit = True

    def contexts(self, start: int, rounds: int) -> Floats:
        # d entries of uniform directions in d + 2 dimensions are uniform in the ball: the density of the first d of m
        # entries is (1 - |x|^2)^{(m - d)/2 - 1}. Without powers of radii, every processor gives the same arms.
        d = self.environment.dim
        return scale_directions(self.streams.normal("contexts", (rounds, self.n_arms, d + _MORE)), 1.0, kept=d)


class PublishedGLMWorld(GLMWorld):
    """World that `PublishedGLM` begins."""

    def contexts(self, start: int, rounds: int) -> Floats:
        arms = self.environment.arms  # type: ignore[attr-defined]
        if start + rounds > len(arms):
            raise InvalidArgument("horizon", start + rounds, f"at most {len(arms)}, the rounds of the instance")
        return np.broadcast_to(arms[start : start + rounds], (len(self.theta), rounds, *arms.shape[1:]))


@lru_cache(maxsize=8)
def _published_arms(dim: int, n_arms: int, rounds: int, seed: int) -> Floats:
    """Draw arms (T, K, d) in the order of the authors' generator."""
    rng = np.random.default_rng(seed)
    rng.uniform(-1, 1, dim)  # theta's
    normals, uniforms = np.empty((rounds * n_arms, dim)), np.empty(rounds * n_arms)
    for i in range(rounds * n_arms):
        normals[i], uniforms[i] = rng.normal(size=dim), rng.random()
    arms = normalize_directions(normals) * (uniforms ** (1 / dim))[:, None]
    arms.setflags(write=False)
    return arms.reshape(rounds, n_arms, dim)
