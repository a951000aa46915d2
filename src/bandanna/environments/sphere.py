"""Linear worlds with means in [-1, 1]: arms on the unit sphere that stay, and fresh contexts near it (paper 004)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.environments.levels import Levels, TwoPoint
from bandanna.environments.linear import directions
from bandanna.environments.rewards import Bernoulli, Bounded, RewardLaw
from bandanna.errors import InvalidArgument


def _require_signed(reward: RewardLaw) -> None:
    """Means lie in [-1, 1], and so must what a law of rewards can have as its mean."""
    unit = isinstance(reward, Bernoulli | Bounded)
    if unit or (isinstance(reward, Levels) and not (reward.low <= -1 and reward.high >= 1)):
        raise InvalidArgument(
            "reward", reward, "a law of means in [-1, 1]: TwoPoint or ClippedGaussian, low=-1, high=1"
        )


@dataclass(frozen=True, kw_only=True)
class SphereArms(Environment):
    """Arms and theta uniform on the unit sphere, drawn once per run; the mean of arm x is <x, theta>, in [-1, 1].

    Reference: Azize and Basu 2024 [004], section VII. Rewards are -1 or 1 unless another law of that range is given.
    """

    reward: RewardLaw = TwoPoint(low=-1.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_signed(self.reward)

    def begin(self, streams: Streams) -> SphereWorld:
        """theta from the stream "instance", arms from "arms"."""
        theta = directions(streams.normal("instance", (self.dim,)))  # (S, d)
        arms = directions(streams.normal("arms", (self.n_arms, self.dim)))  # (S, K, d)
        return SphereWorld(environment=self, streams=streams, theta=theta, arms=arms)


class SphereWorld(World):
    """Worlds of `SphereArms`."""

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, arms: Floats) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        self.theta, self.arms = theta, arms

    def contexts(self, start: int, rounds: int) -> Floats:
        """The same arms in every round."""
        return self.arms[:, None]

    def means(self, contexts: Floats) -> Floats:
        """<x, theta>."""
        return np.asarray(np.einsum("srkd,sd->srk", contexts, self.theta))


@dataclass(frozen=True, kw_only=True)
class SphereContexts(Environment):
    """Fresh contexts in every round: N((1, ..., 1)/sqrt d, variance I), scaled to norm 1; theta uniform on the sphere.

    Reference: Azize and Basu 2024 [004], section VII, which leaves the norms as they are (`scaled=False`): then its
    own assumption |x| <= 1 does not hold, and means can leave [-1, 1].
    """

    reward: RewardLaw = TwoPoint(low=-1.0, high=1.0)
    variance: float = 0.1
    scaled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_signed(self.reward)
        require.positive("variance", self.variance)

    def begin(self, streams: Streams) -> SphereContextsWorld:
        """theta from the stream "instance", contexts from "contexts"."""
        return SphereContextsWorld(environment=self, streams=streams)


class SphereContextsWorld(World):
    """Worlds of `SphereContexts`."""

    def __init__(self, *, environment: SphereContexts, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.shape, self.scaled = (environment.n_arms, environment.dim), environment.scaled
        self.std, self.mean = math.sqrt(environment.variance), 1 / math.sqrt(environment.dim)
        self.theta = directions(streams.normal("instance", (environment.dim,)))  # (S, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        """Drawn anew."""
        drawn = self.streams.normal("contexts", (rounds, *self.shape))  # (S, rounds, K, d)
        drawn *= self.std
        drawn += self.mean
        if self.scaled:
            drawn /= np.sqrt(np.einsum("...i,...i->...", drawn, drawn))[..., None]
        return drawn

    def means(self, contexts: Floats) -> Floats:
        """<x, theta>."""
        return np.asarray((contexts @ self.theta[:, None, :, None])[..., 0])
