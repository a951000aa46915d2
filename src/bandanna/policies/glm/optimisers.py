"""Private optimisers for generalised linear models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from bandanna import validation
from bandanna.device.domain import Ball, Statistic, SymmetricMatrix, check_all_finite, clip_norm
from bandanna.device.noise import NoiseSource, check_noise_source
from bandanna.mechanisms.noise import GaussianMechanism
from bandanna.policies.glm.estimation import linear_parts, project_onto_ball
from bandanna.policies.glm.links import Link
from bandanna.privacy.events import RepetitionEvent
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats

# Utility (Lemma U.2 [003], derived anew: our copy lacks its formulas). Let F = (loss)/t with minimum F* on |theta| <=
# S, D = 2S, and let the noise of a sum have independent sub-Gaussian coordinates of standard deviation s. One step has
#
#     F(theta_j) - F* <= (|theta_j - theta*|^2 - |theta_{j+1} - theta*|^2)/(2 eta)
#                        + (eta/2) |g + z|^2 - <z, theta_j - theta*>
#
# with g the exact gradient of F and z the noise over t. Summed over N steps, |g + z|^2 = |g|^2 + 2 <g, z> + |z|^2,
# sum |z|^2 <= (s/t)^2 (d N + 2 sqrt(d N l) + 2 l) and sum <z, v_j> <= (s/t) max |v_j| sqrt(2 N l), each except with
# probability e^{-l}, l = log(2/failure) (Hsu, Kakade and Zhang 2012; Azuma), so that
#
#     F(mean) - F* <= D L / sqrt N  +  D (s/t)^2 (d + 2 sqrt(d l/N) + 2 l/N) / (2 L sqrt N)
#                     +  D (s/t) (1 + 1/sqrt N) sqrt(2 l/N),
#
# in the mean without the terms that have an l; and never above D L.


Project = Callable[[Floats], Floats]
Points = Generator[Floats, Floats, Floats]  # yields points, receives the sums of gradients there, returns the estimate


def make_gradient_ball(link: Link, dim: int, parameter_bound: float) -> Ball:
    """Return the domain of one user's gradient: |clip(mu - r) x| <= G."""
    return Ball(dim=dim, bound=link.residual_bound(parameter_bound))


def compute_gradients(link: Link, ball: Ball, theta: Floats, features: Floats, rewards: Floats) -> Statistic:
    """Return users' clipped gradients at theta (*R, d): (*R, n, d), (*R, n)."""
    check_all_finite("features", features)
    check_all_finite("rewards", rewards)
    x = clip_norm(features, 1.0)
    residuals = np.clip(link.mean(linear_parts(x, theta)) - rewards, -ball.bound, ball.bound)
    values = clip_norm(residuals[..., None] * x, ball.bound)
    return ball.sealed(values, clipped=np.zeros(values.shape[:-2], dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class GradientSums(ABC):
    """Projected descent along `steps` noisy sums of gradients g_j, each a release of `protocol`.

        theta_{j+1} = Proj(theta_j - A (g_j + ridge theta_j))

    A is (eta/t) I with eta = 2S/(L sqrt N), L = G + ridge S/t (Lemma U.4 [003]), and the estimate the mean of
    theta_1..theta_N; or A is the inverse of a public matrix (noisy Newton steps) and the estimate the mean of the later
    half. Everything but the sums is post-processing.
    """

    link: Link
    parameter_bound: float
    steps: int
    protocol: BatchProtocol

    @property
    def residual_bound(self) -> float:
        return self.link.residual_bound(self.parameter_bound)

    @property
    def event(self) -> RepetitionEvent:
        return RepetitionEvent(event=self.protocol.event, times=self.steps)

    @property
    @abstractmethod
    def std(self) -> float:
        """Return the noise's standard deviation per coordinate of a sum."""

    def excess_bound(self, *, count: int, ridge: float, failure: float | None = None) -> float:
        """Bound the excess of the mean loss on |theta| <= S by the lemma, for the steps that run.

        `count` is t, at least the number of rows. `failure` is the bound's; None: it holds in expectation.
        """
        slope = lipschitz(self.residual_bound, ridge, self.parameter_bound, count)
        return self._excess(count * slope, failure) / count

    def worst_excess(self, *, horizon: int, ridge: float, failure: float) -> float:
        """Bound the excess of the loss, not divided by t, for every t up to a horizon.

        With u = t L it is D min(u, u/sqrt N + q/u + c), which rises until both are equal and is convex beyond.
        """
        bound, offset = self.residual_bound, ridge * self.parameter_bound
        first, last = bound + offset, horizon * bound + offset
        (q, c), shrunk = self._noise_terms(failure), 1 - 1 / math.sqrt(self.steps)
        equal = (c + math.sqrt(c**2 + 4 * shrunk * q)) / (2 * shrunk) if shrunk > 0 else last
        return max(self._excess(u, failure) for u in (first, min(max(first, equal), last), last))

    def _noise_terms(self, failure: float | None) -> tuple[float, float]:
        d, steps = self.protocol.domain.dim, self.steps
        log = 0.0 if failure is None else math.log(2 / failure)
        size = d + 2 * math.sqrt(d * log / steps) + 2 * log / steps
        root = math.sqrt(steps)
        return self.std**2 * size / (2 * root), self.std * (1 + 1 / root) * math.sqrt(2 * log) / root

    def _excess(self, u: float, failure: float | None) -> float:
        q, c = self._noise_terms(failure)
        return 2 * self.parameter_bound * min(u, u / math.sqrt(self.steps) + q / u + c)

    def gradients(self, theta: Floats, features: Floats, rewards: Floats) -> Statistic:
        assert isinstance(self.protocol.domain, Ball)
        return compute_gradients(self.link, self.protocol.domain, theta, features, rewards)

    def descend(
        self,
        start: Floats,
        *,
        count: int,
        ridge: float,
        matrix: Floats | None = None,
        project: Project | None = None,
    ) -> Points:
        """Yield the points of a descent from `start`, receive the noisy sums there, and return theta (*R, d).

        `count`: the public t that scales the steps, never a private number of rows; `matrix`: public, positive definite
        (*R, d, d), for Newton steps; `project`: onto a public set, |theta| <= S by default.
        """
        bound = self.parameter_bound
        onto: Project = project if project is not None else (lambda point: project_onto_ball(point, bound))
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
        """Return one estimate (*R, d) from features (*R, n, d) and rewards (*R, n); see `descend`.

        `count` may be None only where the number of rows is public.
        """
        way = path or ("messages" if check_noise_source(source).secure else "law")
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
    """Return L = G + ridge S/t of the mean loss."""
    return residual_bound + ridge * parameter_bound / count


@dataclass(frozen=True, kw_only=True)
class NoisyGradient(GradientSums):
    """`calls` estimations of `steps` noisy gradients each, by a trusted server (paper [003], Lemma U.4).

    A sum moves by at most 2G when a user is replaced, by at most G when one is added or removed: a call costs
    rho = N (2G)^2 / (2 std^2).
    """

    protocol: CentralGaussian
    calls: int = 1

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "steps", "calls")
        validation.set_validated(self, validation.positive, "parameter_bound")

    @classmethod
    def of_std(
        cls, std: float, *, link: Link, dim: int, parameter_bound: float, steps: int, calls: int = 1
    ) -> NoisyGradient:
        """Make an optimiser with this standard deviation in every coordinate of a sum."""
        protocol = CentralGaussian(domain=make_gradient_ball(link, dim, parameter_bound), noise_std=std)
        return cls(link=link, parameter_bound=parameter_bound, steps=steps, protocol=protocol, calls=calls)

    @classmethod
    def priced(
        cls, *, link: Link, dim: int, parameter_bound: float, steps: int, mu: float, calls: int = 1
    ) -> NoisyGradient:
        """Make an optimiser whose calls together cost `mu` in Gaussian DP, besides the grid.

        (2G)^2 steps calls / std^2 = mu^2.
        """
        bound = link.residual_bound(parameter_bound)
        std = 2 * bound * math.sqrt(steps * calls) / validation.positive("mu", mu)
        return cls.of_std(std, link=link, dim=dim, parameter_bound=parameter_bound, steps=steps, calls=calls)

    @property
    def std(self) -> float:
        return self.protocol.noise_std

    @property
    def event(self) -> RepetitionEvent:
        return RepetitionEvent(event=self.protocol.event, times=self.steps * self.calls)

    @property
    def half_event(self) -> RepetitionEvent:
        """Return the price of an added or removed user, on the grid that is used."""
        whole = self.protocol.mechanism
        added = GaussianMechanism(std=whole.std, sensitivity=self.residual_bound, dim=whole.dim, grid=whole.step)
        return RepetitionEvent(event=added.event, times=self.steps * self.calls)


def lemma_steps(*, rho: float, count: int, dim: int, failure: float, most: int = 500) -> int:
    """Return N = rho t^2 / (2 (d + log(1/failure))) of Lemma U.4, between 1 and a cap on the work, t N."""
    balanced = math.ceil(rho * count**2 / (2 * (dim + math.log(1 / validation.open_probability("failure", failure)))))
    return max(1, min(most, balanced))


@stored_as("OuterProducts")
@dataclass(frozen=True, kw_only=True)
class OuterProducts(SymmetricMatrix):
    """Positive semi-definite matrices of Frobenius norm at most `bound`, such as w x x^T with |x| <= 1, w <= bound.

    Two of them have <A, B> >= 0, so the sensitivity is sqrt 2 bound.
    """

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.bound

    @property
    def lower(self) -> Floats:
        above = self.dim - self.size
        return np.concatenate([np.zeros(self.size), np.full(above, -self.bound / math.sqrt(2))])

    @property
    def upper(self) -> Floats:
        above = self.dim - self.size
        return np.concatenate([np.full(self.size, self.bound), np.full(above, self.bound / math.sqrt(2))])

    def project(self, values: Floats) -> Floats:
        eigenvalues, vectors = np.linalg.eigh(self.unpack(values))
        positive = (vectors * np.maximum(eigenvalues, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return clip_norm(self.pack((positive + np.swapaxes(positive, -1, -2)) / 2), self.bound)

    def statistic(self, features: Floats, weights: Floats, clipped: Bools | bool = False) -> Statistic:
        """Return w x x^T of features (..., users, d) and weights (..., users), both clipped before it is formed.

        `clipped` marks users with clipped rewards; such a report is counted once.
        """
        check_all_finite("features", features)
        check_all_finite("weights", weights)
        x, w = clip_norm(features, 1.0), np.clip(weights, 0.0, self.bound)
        rows, columns = self._above
        stacked = np.concatenate([x * x, math.sqrt(2) * x[..., rows] * x[..., columns]], axis=-1) * w[..., None]
        moved = np.any(np.abs(x - features) > 1e-9, axis=-1) | (np.abs(w - weights) > 1e-9 * self.bound) | clipped
        return self.sealed(stacked, clipped=moved.sum(axis=-1, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class ShuffledGradient(GradientSums):
    """`steps` shuffled gradient sums of one batch of users (paper [003], Algorithm 7).

    Deviations: tight binomial noise with its composable price, numerical composition, and sums instead of means.
    """

    protocol: ShuffleBinomial

    @property
    def std(self) -> float:
        return self.protocol.noise.std()
