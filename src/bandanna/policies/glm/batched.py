"""Batched generalised linear policies: B-GLinUCB."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Estimate
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import positive_inverse
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import Execution, FixedLength, SumQuery
from bandanna.policies.glm.base import (
    GLMPolicy,
    NonPrivateGLMPolicy,
    compute_designs,
    compute_linear_scores,
    compute_squared_norms,
)
from bandanna.policies.glm.estimation import maximum_likelihood, project_onto_ball
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@stored_as("BatchEstimate")
@dataclass(frozen=True, kw_only=True)
class BatchEstimate:
    """The estimate theta_j of a batch, the inverse of its released matrix, and its width."""

    theta: Floats  # (*R, d)
    inverse: Floats  # (*R, d, d)
    width: float  # in |x|_{inverse}
    blur: float  # in |inverse x|: the noise of the gradients, by its law

    def middle(self, contexts: Floats) -> Floats:
        return compute_linear_scores(contexts, self.theta)

    def half(self, contexts: Floats) -> Floats:
        inverse = self.inverse[..., None, :, :]
        spread = self.width * np.sqrt(compute_squared_norms(contexts, inverse))
        return np.asarray(spread + self.blur * np.linalg.norm(contexts @ inverse, axis=-1)) if self.blur else spread


@stored_as("BatchedState")
@dataclass(frozen=True, kw_only=True)
class BatchedGLMState:
    """The estimates of the batches so far, and how many matrices had to be shifted."""

    estimates: tuple[BatchEstimate, ...]
    repairs: Ints  # (*R)

    def plus(self, estimate: BatchEstimate, repaired: Ints) -> BatchedGLMState:
        return replace(self, estimates=(*self.estimates, estimate), repairs=self.repairs + repaired)


@dataclass(frozen=True, kw_only=True)
class BatchedGLMPolicy(GLMPolicy[BatchedGLMState]):
    """Base of GLM-SDP and B-GLinUCB: few batches, a design in each, elimination with the estimates of earlier batches.

    1. The server publishes the estimates theta_1, ..., theta_{k-1} with their matrices and bounds.
    2. In batch 1 the device draws x from a design of its arms. In batch k it leaves out the arms that an earlier batch
       rules out, UCB_j(x) < max LCB_j, and draws from a design of sqrt(w(x)) x, with w(x) = mu'(<x, theta_1>) / b(x).
    3. The server estimates V = lambda_V I + sum x x^T and theta_1 from batch 1; H_k = lambda_H I + sum w(x) x x^T and
       theta_k from batch k alone.

    Bounds are <x, theta_1> +- gamma sqrt(kappa) |x|_{V^{-1}} and <x, theta_j> +- gamma |x|_{H_j^{-1}};
    b(x) = exp(M min(2S, gamma sqrt(kappa) |x|_{V^{-1}})) with the self-concordance constant M. Sizes are tau_1 =
    `warmup`, tau_2 = alpha, tau_k = alpha sqrt(tau_{k-1}), cut off at T; alpha = T^{1/(2 (1 - 2^{1-B}))} for B batches
    after the warm-up, 2 sqrt T without `batches`. Reference: Sawarni et al. 2024, Algorithm 1; [003], Algorithm 1.
    """

    execution = Execution(side_by_side=True)

    warmup: int | None = None
    batches: int | None = None

    def publish(self, state: BatchedGLMState) -> tuple[BatchEstimate, ...]:
        return state.estimates

    def act(self, snapshot: tuple[BatchEstimate, ...], contexts: Floats, coins: DeviceRandomness) -> Choice:
        shape = contexts.shape[:-1]
        alive, scaled = self.alive(contexts, snapshot), contexts
        if snapshot:
            scaled = np.sqrt(self.arm_weights(contexts, snapshot[0]))[..., None] * contexts
        flat = scaled.reshape(-1, *scaled.shape[-2:])
        weights = compute_designs(flat, alive.reshape(-1, shape[-1])).reshape(shape)
        uniforms = coins.uniform(shape[:-1], "designs")
        passed = np.cumsum(weights, axis=-1) <= uniforms[..., None] * weights.sum(axis=-1, keepdims=True)
        drawn = np.minimum(passed.sum(axis=-1), shape[-1] - 1)
        held = np.take_along_axis(weights, drawn[..., None], axis=-1)[..., 0] > 0
        drawn = np.where(held, drawn, np.argmax(weights, axis=-1))  # rounding at the end of the sum
        chances = np.take_along_axis(weights, drawn[..., None], axis=-1)[..., 0]
        return Choice(actions=drawn, probabilities=chances)

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.integer, "horizon", least=8)
        if self.warmup is not None and validation.integer("warmup", self.warmup, least=2) >= self.horizon:
            raise InvalidArgument("warmup", self.warmup, f"less than {self.horizon}, the horizon")
        if self.batches is not None:
            validation.set_validated(self, validation.integer, "batches", least=2)

    @property
    @abstractmethod
    def first(self) -> int:
        """Return tau_1, the first size."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """Return the gamma of the bounds."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return tau_1, tau_2, ...: public, with the horizon as their sum."""
        horizon, count = self.horizon, self.batches
        alpha = 2 * math.sqrt(horizon)
        if count is not None and 2 <= count - 1 <= math.log2(max(math.log2(horizon), 1.0)):
            alpha = horizon ** (1 / (2 * (1 - 2.0 ** (2 - count))))  # B = count - 1
        sizes, size = [min(self.first, horizon)], alpha
        while sum(sizes) < horizon:
            last = count is not None and len(sizes) == count - 1
            left = horizon - sum(sizes)
            sizes.append(left if last or left - math.ceil(size) < 2 else math.ceil(size))
            size = alpha * math.sqrt(size)
        return tuple(sizes)

    @property
    def concordance(self) -> float:
        return self.model.concordance(self.parameter_bound)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> BatchedGLMState:
        return BatchedGLMState(estimates=(), repairs=np.zeros(replicates, dtype=np.int64))

    def episode(self, state: BatchedGLMState) -> FixedLength | None:
        batch = len(state.estimates)
        return FixedLength(number=batch, users=self.sizes[batch], released=batch + 1 < len(self.sizes))

    def next_episode(self, episode: FixedLength) -> FixedLength | None:
        batch, count = episode.number + 1, len(self.sizes)
        return FixedLength(number=batch, users=self.sizes[batch], released=batch + 1 < count) if batch < count else None

    def _theta(self, snapshot: tuple[BatchEstimate, ...]) -> Floats | None:
        return snapshot[-1].theta if snapshot else None

    def _run_counts(self, state: BatchedGLMState) -> dict[str, Ints]:
        shape = state.repairs.shape
        counts = {"explorations": self.sizes[0], "switches": len(state.estimates)}
        return {name: np.full(shape, count) for name, count in counts.items()} | {"repairs": state.repairs}

    def alive(self, contexts: Floats, earlier: tuple[BatchEstimate, ...]) -> NDArray[np.bool_]:
        """Return the arms that no earlier batch rules out, at least one: (*R, n, K, d) -> (*R, n, K)."""
        kept = np.ones(contexts.shape[:-1], dtype=bool)
        for estimate in earlier:
            middle, half = estimate.middle(contexts), estimate.half(contexts)
            best = np.max(np.where(kept, middle - half, -np.inf), axis=-1, keepdims=True)
            kept &= middle + half >= best
        return kept

    def arm_weights(self, contexts: Floats, first: BatchEstimate) -> Floats:
        """Return w(x) = mu'(<x, theta_1>) / b(x) <= L_mu: (*R, n, K, d) -> (*R, n, K)."""
        slopes = np.minimum(self.model.slope(first.middle(contexts)), self.model.slope_bound)
        reach = np.minimum(2 * self.parameter_bound, first.half(contexts))
        return np.asarray(slopes * np.exp(-self.concordance * reach))

    def weigh_played_arms(self, features: Floats, first: BatchEstimate | None) -> Floats:
        if first is None:
            return np.ones(features.shape[:-1])
        return self.arm_weights(features[..., None, :], first)[..., 0]


@register_algorithm("B-GLinUCB", paper="003")
@stored_as("BGLinUCB")
@dataclass(frozen=True, kw_only=True)
class BGLinUCB(NonPrivateGLMPolicy[BatchedGLMState], BatchedGLMPolicy):
    """B-GLinUCB without privacy (Sawarni et al. 2024, Algorithm 1): the steps of `BatchedGLMPolicy`.

    Each batch is estimated by maximum likelihood. As printed,

        lambda = 20 R d log T,  gamma = 30 R S sqrt(d log T),  tau_1 = (sqrt(kappa) e^{3S} d^2 gamma^2 alpha / S)^{2/3}.

    This tau_1 exceeds every feasible horizon, so it is cut off at T/4, and this gamma rules out nothing there. Further
    parameters: `GLMPolicy`.

    Parameters
    ----------
    preset
        "published": the printed constants, with R in place of M. "corrected": M, lambda = d log T, and in the norm of H
        gamma = (R/2) sqrt((d log(1 + T/d) + 2 log(T/failure)) / L_mu) + S sqrt(lambda).
    width
        Factor of gamma; 1 is the theorem.
    """

    width: float = 1.0

    def learn(self, state: BatchedGLMState, episode: FixedLength) -> Generator[SumQuery, Estimate, BatchedGLMState]:
        features, rewards, _ = self.rows.parts((yield self.query).total)
        first = state.estimates[0] if state.estimates else None
        weights, eye = self.weigh_played_arms(features, first), np.eye(self.dim)
        theta = maximum_likelihood(self.model, features, rewards, ridge=self.regulariser, tolerance=1e-8).theta
        matrix = np.swapaxes(features * weights[..., None], -1, -2) @ features + self.regulariser * eye
        inverse, repaired = positive_inverse(matrix, self.regulariser)
        width = self.gamma * (math.sqrt(self.curvature) if first is None else 1.0)
        theta = project_onto_ball(theta, self.parameter_bound)
        return state.plus(BatchEstimate(theta=theta, inverse=inverse, width=width, blur=0.0), repaired)

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "width")

    @property
    def first(self) -> int:
        if self.warmup is not None:
            return self.warmup
        alpha, s = 2 * math.sqrt(self.horizon), self.parameter_bound
        log = math.log(math.sqrt(self.curvature) * self.dim**2 * self.gamma**2 * alpha / s) + 3 * s
        return max(2, min(self.horizon // 4, math.ceil(math.exp(min(2 / 3 * log, 60.0)))))

    @property
    def regulariser(self) -> float:
        log = self.dim * math.log(self.horizon)
        return 20 * self.model.reward_bound * log if self.preset == "published" else log

    @property
    def gamma(self) -> float:
        r, s, d = self.model.reward_bound, self.parameter_bound, self.dim
        if self.preset == "published":
            return self.width * 30 * r * s * math.sqrt(d * math.log(self.horizon))
        log = d * math.log(1 + self.horizon / d) + 2 * self.log_term
        stochastic = r / 2 * math.sqrt(log) / math.sqrt(self.model.slope_bound)
        return self.width * (stochastic + s * math.sqrt(self.regulariser))

    @property
    def concordance(self) -> float:
        return self.model.reward_bound if self.preset == "published" else super().concordance
