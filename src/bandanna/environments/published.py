"""The instances on which paper 000 was run by its authors: fixed arms of norm sqrt 2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment
from bandanna.environments.linear import FixedArms, LinearWorld, appended, directions


@dataclass(frozen=True, kw_only=True)
class PublishedLinear(Environment):
    """Arms x = (u, 1), theta = (v, 1/2): u uniform on the unit sphere of R^{d-1}, v uniform with |v| = 1/2.

    The first d arms are the basis vectors of R^d with their last entry set to 1: e_1 + e_d, ..., e_{d-1} + e_d, and
    e_d itself, whose last entry is 1 already (fewer than d arms: the first `n_arms` of these). Arms and theta are drawn
    once per seed and stay for the whole run. Means <u, v> + 1/2 lie in [0, 1]; rewards are Bernoulli unless said
    otherwise. In dim = 1 all arms equal 1, with mean 1/2.

    |x| = sqrt 2 (e_d alone has norm 1), while the paper's text says 1. A policy whose reports are bounded by norm 1
    would clip these features; for such a policy take `normalised=True`: x / sqrt 2 and sqrt 2 theta, both of norm at
    most 1, with the same means. Drawn from the same numbers, the two describe the same instances.

    >>> PublishedLinear(dim=5, normalised=True)
    PublishedLinear(dim=5, n_arms=100, reward=Bernoulli(), normalised=True)

    Reference: Chowdhury and Zhou 2022 [000], section 5 and figures 1 and 2.
    """

    n_arms: int = 100
    normalised: bool = False

    def begin(self, streams: Streams) -> LinearWorld:
        """theta from the stream "instance", arms from "arms"."""
        scale = math.sqrt(2) if self.normalised else 1.0
        v, u = self.normals(streams)
        theta = appended(directions(v), 0.5, scale=0.5)  # (S, d)
        arms = appended(directions(u), 1.0)  # (S, K, d)
        basis = np.eye(self.dim)[: self.n_arms]
        basis[:, -1] = 1.0
        arms[:, : self.dim] = basis
        return FixedArms(environment=self, streams=streams, theta=scale * theta, arms=arms / scale)

    def normals(self, streams: Streams) -> tuple[Floats, Floats]:
        """Normal numbers whose directions are those of v and u: (S, d-1) and (S, K, d-1)."""
        return streams.normal("instance", (self.dim - 1,)), streams.normal("arms", (self.n_arms, self.dim - 1))
