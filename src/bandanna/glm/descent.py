"""Projected descent along noisy gradient sums: what the central and the shuffle-private optimisers share.

    theta_{j+1} = Proj( theta_j - A (g_j + ridge theta_j) ),       g_j a noisy sum of gradients at theta_j

A is (eta/t) I with eta = 2S/(L sqrt N), L = G + ridge S/t, the rule of Lemma U.4 [003], and the answer the mean of
theta_1..theta_N; or A is the inverse of a public matrix (noisy Newton steps) and the answer the mean of the later half
of the iterates. `descend` reads no data: everything is post-processing of the sums g_j. What a device adds to them is
`gradients`, clipped: |x| <= 1, residuals in [-G, G], so a user's gradient lies in the ball of radius G.

Utility (Lemma U.2 [003], derived anew: our copy lacks its formulas). Let F = (loss)/t with minimum F* on
|theta| <= S, D = 2S, and let the noise of a sum have independent coordinates that are sub-Gaussian with standard
deviation s: Gaussian ones, or sums of fair coins and of rounding. One step of the lemma's rule has

    F(theta_j) - F* <= (|theta_j - theta*|^2 - |theta_{j+1} - theta*|^2)/(2 eta)
                       + (eta/2) |g + z|^2 - <z, theta_j - theta*>

with g the exact gradient of F and z the noise over t. Summed over N steps, |g + z|^2 = |g|^2 + 2 <g, z> + |z|^2,
sum |z|^2 <= (s/t)^2 (d N + 2 sqrt(d N l) + 2 l) and sum <z, v_j> <= (s/t) max |v_j| sqrt(2 N l), each except with
probability e^{-l}, l = log(2/failure) (Hsu, Kakade and Zhang 2012; Azuma), so that

    F(mean) - F* <= D L / sqrt N  +  D (s/t)^2 (d + 2 sqrt(d l/N) + 2 l/N) / (2 L sqrt N)
                    +  D (s/t) (1 + 1/sqrt N) sqrt(2 l/N),

in the mean without the terms that have an l; and never above D L.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
class GradientSums(ABC):
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

    @property
    @abstractmethod
    def std(self) -> float:
        """Of the noise in each coordinate of a sum."""

    def excess_bound(self, *, count: int, ridge: float, failure: float | None = None) -> float:
        """Bound the excess of the mean loss by the lemma's rule, for the steps that run.

        Parameters
        ----------
        count
            t, at least the number of rows.
        ridge
            Of the loss.
        failure
            Probability with which the excess may be above the bound; None: the bound is on the expected excess.

        Returns
        -------
        float
            The excess over the minimum on |theta| <= S of the mean loss, which is the loss divided by t.
        """
        slope = lipschitz(self.residual_bound, ridge, self.parameter_bound, count)
        return self._excess(count * slope, failure) / count

    def worst_excess(self, *, horizon: int, ridge: float, failure: float) -> float:
        """Bound the excess of the loss, not divided by t, for every t up to a horizon.

        With u = t L it is D min(u, u/sqrt N + q/u + c): it rises until both are equal, and is convex from there on.

        Parameters
        ----------
        horizon
            The largest t.
        ridge
            Of the loss.
        failure
            Probability with which the excess of one estimate may be above the bound.

        Returns
        -------
        float
            The largest of `count * excess_bound(count=count, ...)`, or a little more.
        """
        bound, offset = self.residual_bound, ridge * self.parameter_bound
        first, last = bound + offset, horizon * bound + offset
        (q, c), shrunk = self._noise_terms(failure), 1 - 1 / math.sqrt(self.steps)
        equal = (c + math.sqrt(c**2 + 4 * shrunk * q)) / (2 * shrunk) if shrunk > 0 else last
        return max(self._excess(u, failure) for u in (first, min(max(first, equal), last), last))

    def _noise_terms(self, failure: float | None) -> tuple[float, float]:
        """q and c of `worst_excess`."""
        d, steps = self.protocol.domain.dim, self.steps
        log = 0.0 if failure is None else math.log(2 / failure)
        size = d + 2 * math.sqrt(d * log / steps) + 2 * log / steps
        root = math.sqrt(steps)
        return self.std**2 * size / (2 * root), self.std * (1 + 1 / root) * math.sqrt(2 * log) / root

    def _excess(self, u: float, failure: float | None) -> float:
        """Bound the excess of the loss, not divided by t, where u = t L."""
        q, c = self._noise_terms(failure)
        return 2 * self.parameter_bound * min(u, u / math.sqrt(self.steps) + q / u + c)

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
