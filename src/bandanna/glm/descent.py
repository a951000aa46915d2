"""Projected descent along noisy gradient sums: what the central and the shuffle-private optimisers share.

    theta_{j+1} = Proj( theta_j - A (g_j + ridge theta_j) ),       g_j a noisy sum of gradients at theta_j

A is (eta/t) I with eta = 2S/(L sqrt N), L = G + ridge S/t, the rule of Lemma U.4 [003], and the answer the mean of
theta_1..theta_N; or A is the inverse of a public matrix (noisy Newton steps) and the answer the mean of the later half
of the iterates. `descend` reads no data: everything is post-processing of the sums g_j. What a device adds to them is
`gradients`, clipped: |x| <= 1, residuals in [-G, G], so a user's gradient lies in the ball of radius G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from bandanna.accounting.events import RepetitionEvent
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball, Statistic, all_finite, clip_norm
from bandanna.device.noise import noise_source
from bandanna.glm.likelihood import linear_parts
from bandanna.glm.links import Link
from bandanna.glm.projections import onto_ball
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol

Project = Callable[[Floats], Floats]
Points = Generator[Floats, Floats, Floats]  # where sums of gradients are wanted; is sent them; returns the estimate


def gradient_ball(link: Link, dim: int, parameter_bound: float) -> Ball:
    """Where one user's gradient lies: |clip(mu - r) x| <= G."""
    return Ball(dim=dim, bound=link.residual_bound(parameter_bound))


def gradients(link: Link, ball: Ball, theta: Floats, features: Floats, rewards: Floats) -> Statistic:
    """Clipped gradients at theta, (*R, d), of users: (*R, n, d), (*R, n) -> statistics of the ball."""
    all_finite("features", features)
    all_finite("rewards", rewards)
    x = clip_norm(features, 1.0)
    residuals = np.clip(link.mean(linear_parts(x, theta)) - rewards, -ball.bound, ball.bound)
    values = clip_norm(residuals[..., None] * x, ball.bound)
    return ball.sealed(values, clipped=np.zeros(values.shape[:-2], dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class GradientSums:
    """`steps` noisy sums of gradients an estimate, each a release of `protocol`, which is calibrated on the ball."""

    link: Link
    parameter_bound: float
    steps: int
    protocol: BatchProtocol

    @property
    def residual_bound(self) -> float:
        """G."""
        return self.link.residual_bound(self.parameter_bound)

    @property
    def event(self) -> RepetitionEvent:
        """What one user pays whose data are replaced."""
        return RepetitionEvent(event=self.protocol.event, times=self.steps)

    def gradients(self, theta: Floats, features: Floats, rewards: Floats) -> Statistic:
        """Device: what a user adds to a sum."""
        assert isinstance(self.protocol.domain, Ball)
        return gradients(self.link, self.protocol.domain, theta, features, rewards)

    def descend(
        self,
        start: Floats,
        *,
        count: int,
        ridge: float,
        matrix: Floats | None = None,
        project: Project | None = None,
    ) -> Points:
        """Theta (*R, d) from `start`: yields points, is sent the noisy sums there.

        `count`: the public number t that scales the steps, never a private number of rows; `matrix`: a public positive
        definite matrix (*R, d, d) for Newton steps in place of the lemma's; `project`: onto a public set, the ball
        |theta| <= S by default.
        """
        bound = self.parameter_bound
        onto: Project = project if project is not None else (lambda point: onto_ball(point, bound))
        eta = 2 * bound / (lipschitz(self.residual_bound, ridge, bound, count) * math.sqrt(self.steps))
        inverse = None if matrix is None else np.linalg.inv(matrix)
        theta, total, kept = start, np.zeros_like(start), 0
        for step in range(self.steps):
            if inverse is None:
                total, kept = total + theta, kept + 1
            gradient = (yield theta) + ridge * theta
            move = eta / count * gradient if inverse is None else (inverse @ gradient[..., None])[..., 0]
            theta = onto(theta - move)
            if inverse is not None and 2 * (step + 1) > self.steps:
                total, kept = total + theta, kept + 1
        return np.asarray(onto(total / kept))

    def minimise(
        self,
        features: Floats,
        rewards: Floats,
        source: NoiseSource,
        *,
        ridge: float,
        count: int | None = None,
        start: Floats | None = None,
        matrix: Floats | None = None,
        project: Project | None = None,
        path: str | None = None,
    ) -> Floats:
        """One estimate from features (*R, n, d) and rewards (*R, n): theta (*R, d); see `descend`.

        `count`: None where the number of rows is public; `path`: by messages with a secure source, else by law.
        """
        way = path or ("messages" if noise_source(source).secure else "law")
        begin = np.zeros((*features.shape[:-2], features.shape[-1])) if start is None else np.array(start, dtype=float)
        public = features.shape[-2] if count is None else count
        points = self.descend(begin, count=public, ridge=ridge, matrix=matrix, project=project)
        try:
            theta = next(points)
            while True:
                statistic = self.gradients(theta, features, rewards)
                theta = points.send(self.protocol.release(statistic, source, path=way).total)
        except StopIteration as found:
            return np.asarray(found.value)


def lipschitz(residual_bound: float, ridge: float, parameter_bound: float, count: int) -> float:
    """L of the mean loss on |theta| <= S: G + ridge S/t."""
    return residual_bound + ridge * parameter_bound / count
