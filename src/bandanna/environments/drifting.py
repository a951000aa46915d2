"""Adversarially drifting contexts: what has to be known turns away while it is being learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment
from bandanna.environments.linear import FixedArms, LinearWorld

_BEST = 0.75  # |theta|, the mean of the best arm


@dataclass(frozen=True, kw_only=True)
class DriftingContexts(Environment):
    """Arms on an arc through the best direction, at angles of every scale, in a plane that turns with the rounds.

    Every seed draws a uniform orthonormal frame g, b_1, ..., b_m, m = d - 1. In round t = 0, 1, ...

        x_k(t) = cos(a_k) g + sin(a_k) o(t),    theta = 3/4 g,    mean 3/4 cos(a_k)
        a_k    = h, -h, h/2, -h/2, h/4, -h/4, ...   (n_arms - 1 of them), and 0 for the last arm, which is the best
        h      = 2^{-U_t}, U_t uniform on [0, 1), fresh in every round: the ladder of angles covers every scale
        o(t)   = cos(f pi/2) b_i + sin(f pi/2) b_{i+1},   i + f = m turns t / horizon,  i whole, indices modulo m

    Features have norm 1, means lie in [0.4, 0.75], gaps 3/4 (1 - cos a) ~ 3/8 a^2 are spread over all scales down to
    4^{-n_arms/2}. The rule of the drift is deterministic; it is the adversary's, who knows theta. One turn leads o(t)
    through all coordinate planes of the frame and back to b_1, so that whatever was learned about o(t) is stale after
    horizon / (m turns) rounds. Beyond the horizon it turns on at the same speed. With turns = 0 nothing moves: the
    arms (h drawn once) are fixed. For dim = 2 there is no plane to turn; for dim = 1 there is no o(t), and the arms
    are the numbers cos(a_k) g.

    Why this family measures rates. The best arm says nothing about o; an arm at angle a costs ~ a^2 and adds ~ a^2 to
    the Gram matrix along o. An optimist of radius beta plays a ~ beta / sqrt(V_o), hence V_o ~ beta sqrt t and its
    regret is of order beta sqrt T: the order of the theorems' upper bounds (paper 000), also where beta grows with T
    because of the noise. On contexts drawn at random, small gaps are rare, and the regret grows more slowly. (Random
    play is cheap here, as most gaps are small; an optimist starts with the widest angles and beats it only later.)

    >>> DriftingContexts(dim=4, n_arms=21, horizon=10_000)
    DriftingContexts(dim=4, n_arms=21, reward=Bernoulli(), horizon=10000, turns=1.0)
    """

    horizon: int
    turns: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "horizon", require.whole("horizon", self.horizon))
        object.__setattr__(self, "turns", require.non_negative("turns", self.turns))

    def begin(self, streams: Streams) -> LinearWorld:
        """The frame from the stream "instance", the heights of the ladders from "contexts"."""
        frame = _frame(streams.normal("instance", (self.dim, self.dim)))  # (S, d, d): rows g, b_1, ..., b_m
        world = DriftingWorld(environment=self, streams=streams, frame=frame)
        if self.turns > 0:
            return world
        return FixedArms(environment=self, streams=streams, theta=world.theta, arms=world.contexts(0, 1)[:, 0])

    def weights(self, rounds: NDArray[np.int64]) -> Floats:
        """o(t) in the basis b_1, ..., b_m: (rounds,) -> (rounds, m)."""
        m = self.dim - 1
        weights = np.zeros((len(rounds), m))
        if m < 2:
            weights[:] = 1.0
            return weights
        whole, part = np.divmod(m * self.turns * rounds / self.horizon, 1.0)  # i, f
        plane, rows = whole.astype(np.int64) % m, np.arange(len(rounds))
        weights[rows, plane] = np.cos(part * math.pi / 2)
        weights[rows, (plane + 1) % m] = np.sin(part * math.pi / 2)
        return weights

    @property
    def ladder(self) -> Floats:
        """The angles of a round with h = 1: (K,)."""
        steps = np.arange(self.n_arms - 1)
        return np.append(np.where(steps % 2, -1.0, 1.0) * 0.5 ** (steps // 2), 0.0)


class DriftingWorld(LinearWorld):
    """Worlds of `DriftingContexts`."""

    def __init__(self, *, environment: DriftingContexts, streams: Streams, frame: Floats) -> None:
        super().__init__(environment=environment, streams=streams, theta=_BEST * frame[:, 0])
        self.drift = environment
        self.best, self.basis = frame[:, 0], frame[:, 1:]  # g: (S, d); b: (S, m, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        """x_k(t)."""
        towards = self.drift.weights(np.arange(start, start + rounds)) @ self.basis  # o(t): (S, rounds, d)
        height = 2.0 ** -self.streams.uniform("contexts", (rounds,))  # h: (S, rounds)
        angles = height[..., None] * self.drift.ladder  # a_k: (S, rounds, K)
        centre, side = np.cos(angles)[..., None], np.sin(angles)[..., None]
        return np.asarray(centre * self.best[:, None, None] + side * towards[:, :, None])


def _frame(normals: Floats) -> Floats:
    """A uniform orthonormal frame as rows: Gram-Schmidt (QR with a positive diagonal) of Gaussian vectors."""
    q, r = np.linalg.qr(np.swapaxes(normals, -1, -2))
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)  # (S, d)
    return np.asarray(signs[..., None] * np.swapaxes(q, -1, -2))
