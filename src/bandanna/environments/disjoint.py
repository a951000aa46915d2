"""Worlds whose arms have no features of their own: a user's features are the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.environments.linear import directions


@dataclass(frozen=True, kw_only=True)
class DisjointLinear(Environment):
    """Every arm k has a parameter of its own, theta_k: a user with features z, a uniform direction, has means

        (1 + c_k/2 + <z, theta_k>/2)/2,   c_k uniform in [-1, 1], theta_k a uniform direction.

    All rows of a context are z.
    """

    def begin(self, streams: Streams) -> DisjointWorld:
        """Parameters from the stream "instance", constants from "constants"."""
        theta = directions(streams.normal("instance", (self.n_arms, self.dim)))  # (S, K, d)
        constants = 2 * streams.uniform("constants", (self.n_arms,)) - 1  # (S, K)
        return DisjointWorld(environment=self, streams=streams, theta=theta, constants=constants)


class DisjointWorld(World):
    """Worlds of `DisjointLinear`."""

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, constants: Floats) -> None:
        super().__init__(environment=environment, streams=streams)
        self.theta, self.constants = theta, constants

    def contexts(self, start: int, rounds: int) -> Floats:
        """Uniform directions from the stream "contexts", one for each user."""
        z = directions(self.streams.normal("contexts", (rounds, 1, self.environment.dim)))
        return np.repeat(z, self.n_arms, axis=2)

    def means(self, contexts: Floats) -> Floats:
        """(1 + c_k/2 + <z, theta_k>/2)/2."""
        along = (contexts[..., None, :] @ self.theta[:, None, :, :, None])[..., 0, 0]
        return np.asarray((1 + self.constants[:, None] / 2 + along / 2) / 2)
