"""Linear worlds: the mean reward of an arm with features x is <x, theta>, in [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, Floats, World
from bandanna.environments.rewards import Bernoulli, RewardLaw

_HALF = math.sqrt(0.5)


@dataclass(frozen=True, kw_only=True)
class LinearContextual(Environment):
    """Features and theta of norm 1: a uniform direction of norm 1/sqrt 2 in d-1 dimensions and a last entry 1/sqrt 2.

    Means are (1 + cos angle)/2. With `fixed`, arms are drawn once per run; otherwise anew in every round.
    """

    fixed: bool = False
    reward: RewardLaw = field(default_factory=Bernoulli)

    def begin(self, streams: Streams) -> LinearWorld:
        """theta (and fixed arms) from the stream "instance"."""
        theta = _with_half(_directions(streams.normal("instance", (self.dim - 1,))) * _HALF)  # (S, d)
        arms = None
        if self.fixed:
            arms = _with_half(_directions(streams.normal("arms", (self.n_arms, self.dim - 1))) * _HALF)  # (S, K, d)
        return LinearWorld(environment=self, streams=streams, theta=theta, arms=arms)


class LinearWorld(World):
    """Worlds of `LinearContextual`."""

    def __init__(self, *, environment: LinearContextual, streams: Streams, theta: Floats, arms: Floats | None) -> None:
        self.environment = environment
        self.streams = streams
        self.theta = theta  # (S, d)
        self.arms = arms  # (S, K, d) or None
        self.fixed = arms is not None
        self.n_arms = environment.n_arms
        self.binary = environment.reward.binary

    def contexts(self, start: int, rounds: int) -> Floats:
        """Uniform directions from the stream "contexts", or the fixed arms."""
        if self.arms is not None:
            return self.arms[:, None]
        normals = self.streams.normal("contexts", (rounds, self.environment.n_arms, self.environment.dim - 1))
        return _with_half(_directions(normals) * _HALF)

    def means(self, contexts: Floats) -> Floats:
        """<x, theta>."""
        return np.asarray((contexts @ self.theta[:, None, :, None])[..., 0])

    def rewards(self, means: Floats) -> Floats:
        """By the environment's law."""
        return self.environment.reward.draw(means, self.streams)

    def reward_sums(self, means: Floats, rounds: int) -> Floats:
        """One binomial for binary rewards."""
        if self.environment.reward.binary:
            return np.asarray(self.streams.binomial("reward sums", rounds, means), dtype=float)
        return super().reward_sums(means, rounds)


def _directions(normals: Floats) -> Floats:
    """Uniform on the sphere: normalised Gaussian vectors."""
    norms = np.sqrt(np.einsum("...i,...i->...", normals, normals))
    return np.asarray(normals / np.maximum(norms, 1e-300)[..., None])


def _with_half(vectors: Floats) -> Floats:
    """A last entry of 1/sqrt 2."""
    full = np.empty((*vectors.shape[:-1], vectors.shape[-1] + 1))
    full[..., :-1] = vectors
    full[..., -1] = _HALF
    return full
