"""What GLM-SDP and B-GLinUCB share: few batches, a design in each, elimination with the estimates of all earlier ones.

    batch 1        x ~ design of X_t;              V = lambda_V I + sum x x^T,   theta_1 from the batch
    batch k >= 2   X_t without arms that an earlier batch rules out: UCB_j(x) < max LCB_j, j = 1, ..., k-1
                   x ~ design of the scaled arms sqrt(w(x)) x,   w(x) = mu'(<x, theta_1>) / b(x)
                   H_k = lambda_H I + sum w(x) x x^T,   theta_k from batch k alone
    bounds         <x, theta_1> +- gamma sqrt(kappa) |x|_{V^{-1}},      <x, theta_j> +- gamma |x|_{H_j^{-1}}
    b(x)           exp( M min(2S, gamma sqrt(kappa) |x|_{V^{-1}}) )
    sizes          tau_1 `warmup`, tau_2 = alpha, tau_k = alpha sqrt(tau_{k-1}), the last one cut off at T;
                   alpha = T^{1/(2 (1 - 2^{1-B}))} for B batches after the warm-up, 2 sqrt T if there are many

M is the self-concordance constant. Reference: Sawarni et al. 2024, Algorithm 1; paper [003], Algorithm 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.device.choice import Choice
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Frozen
from bandanna.policies.glm.base import GLMPolicy, along, quadratic
from bandanna.policies.glm.designs import designs
from bandanna.storage.declared import stored_as


@stored_as("BatchEstimate")
@dataclass(frozen=True, kw_only=True)
class BatchEstimate:
    """What one batch has left: theta_j, the inverse of its released matrix, and how wide its bounds are."""

    theta: Floats  # (*R, d)
    inverse: Floats  # (*R, d, d)
    width: float  # in |x|_{inverse}
    blur: float  # in |inverse x|: the noise of the gradients, by its law

    def middle(self, contexts: Floats) -> Floats:
        """<x, theta_j>: (*R, n, K, d) -> (*R, n, K)."""
        return along(contexts, self.theta)

    def half(self, contexts: Floats) -> Floats:
        """Half of the distance of the bounds."""
        inverse = self.inverse[..., None, :, :]
        spread = self.width * np.sqrt(quadratic(contexts, inverse))
        return np.asarray(spread + self.blur * np.linalg.norm(contexts @ inverse, axis=-1)) if self.blur else spread


@stored_as("BatchedState")
@dataclass(frozen=True, kw_only=True)
class BatchedState:
    """What the batches so far have left, and how many of their matrices had to be shifted."""

    estimates: tuple[BatchEstimate, ...]
    repairs: Ints  # (*R)

    def plus(self, estimate: BatchEstimate, repaired: Ints) -> BatchedState:
        """After one more batch."""
        return replace(self, estimates=(*self.estimates, estimate), repairs=self.repairs + repaired)


@dataclass(frozen=True, kw_only=True)
class Batched(GLMPolicy[BatchedState]):
    """A batched policy; a subclass says how a batch is turned into an estimate."""

    side_by_side = True

    warmup: int | None = None
    batches: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.whole, "horizon", least=8)
        if self.warmup is not None and require.whole("warmup", self.warmup, least=2) >= self.horizon:
            raise InvalidArgument("warmup", self.warmup, f"below the horizon, {self.horizon}")
        if self.batches is not None:
            require.store(self, require.whole, "batches", least=2)

    @property
    @abstractmethod
    def first(self) -> int:
        """tau_1."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """Of the bounds."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """tau_1, tau_2, ...: public, known before the first round; they sum to the horizon."""
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
        """M, the link's."""
        return self.model.concordance(self.parameter_bound)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> BatchedState:
        """No batch yet."""
        return BatchedState(estimates=(), repairs=np.zeros(replicates, dtype=np.int64))

    def episode(self, state: BatchedState) -> Frozen | None:
        """The next batch; the last is not released, nobody would use it."""
        batch = len(state.estimates)
        return Frozen(number=batch, users=self.sizes[batch], released=batch + 1 < len(self.sizes))

    def following(self, episode: Frozen) -> Frozen | None:
        """Sizes are public."""
        batch = episode.number + 1
        last = batch + 1 == len(self.sizes)
        return Frozen(number=batch, users=self.sizes[batch], released=not last) if batch < len(self.sizes) else None

    def publish(self, state: BatchedState) -> tuple[BatchEstimate, ...]:
        """The estimates."""
        return state.estimates

    def theta(self, snapshot: tuple[BatchEstimate, ...]) -> Floats | None:
        """Of the last batch."""
        return snapshot[-1].theta if snapshot else None

    def counts(self, state: BatchedState) -> dict[str, Ints]:
        """Rounds of the warm-up, and estimates."""
        shape = state.repairs.shape
        counts = {"explorations": self.sizes[0], "switches": len(state.estimates)}
        return {name: np.full(shape, count) for name, count in counts.items()} | {"repairs": state.repairs}

    def alive(self, contexts: Floats, earlier: tuple[BatchEstimate, ...]) -> NDArray[np.bool_]:
        """Arms that no earlier batch rules out: (*R, n, K, d) -> (*R, n, K); one always stays."""
        kept = np.ones(contexts.shape[:-1], dtype=bool)
        for estimate in earlier:
            middle, half = estimate.middle(contexts), estimate.half(contexts)
            best = np.max(np.where(kept, middle - half, -np.inf), axis=-1, keepdims=True)
            kept &= middle + half >= best
        return kept

    def arm_weights(self, contexts: Floats, first: BatchEstimate) -> Floats:
        """w(x) = mu'(<x, theta_1>) / b(x), at most L_mu: (*R, n, K, d) -> (*R, n, K)."""
        slopes = np.minimum(self.model.slope(first.middle(contexts)), self.model.slope_bound)
        reach = np.minimum(2 * self.parameter_bound, first.half(contexts))
        return np.asarray(slopes * np.exp(-self.concordance * reach))

    def own_weights(self, features: Floats, first: BatchEstimate | None) -> Floats:
        """w(x) of the arms that were given, 1 in batch 1: (*R, n, d) -> (*R, n)."""
        if first is None:
            return np.ones(features.shape[:-1])
        return self.arm_weights(features[..., None, :], first)[..., 0]

    def act(self, snapshot: tuple[BatchEstimate, ...], contexts: Floats, coins: Coins) -> Choice:
        """A draw from the design of every context."""
        shape = contexts.shape[:-1]
        alive, scaled = self.alive(contexts, snapshot), contexts
        if snapshot:
            scaled = np.sqrt(self.arm_weights(contexts, snapshot[0]))[..., None] * contexts
        flat = scaled.reshape(-1, *scaled.shape[-2:])
        weights = designs(flat, alive.reshape(-1, shape[-1])).reshape(shape)
        uniforms = coins.uniform(shape[:-1], "designs")
        passed = np.cumsum(weights, axis=-1) <= uniforms[..., None] * weights.sum(axis=-1, keepdims=True)
        drawn = np.minimum(passed.sum(axis=-1), shape[-1] - 1)
        held = np.take_along_axis(weights, drawn[..., None], axis=-1)[..., 0] > 0
        drawn = np.where(held, drawn, np.argmax(weights, axis=-1))  # rounding at the end of the sum
        chances = np.take_along_axis(weights, drawn[..., None], axis=-1)[..., 0]
        return Choice(actions=drawn, probabilities=chances)
