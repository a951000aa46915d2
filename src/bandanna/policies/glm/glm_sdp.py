"""GLM-SDP: generalised linear bandits in the shuffle model, for contexts drawn from one law (paper [003], Algorithm 1).

The batches of `batched`; after a batch its users, and nobody else, take part in N + 1 shuffles: one vector sum of
w(x) x x^T (for V or H_k) and N of gradients (for theta_k). While a batch is collected nothing changes.

Privacy: users are in one batch each, so batches do not compose. A user's matrix is positive semi-definite of Frobenius
norm at most 1 (batch 1) or L_mu (later ones; b(x) >= 1, whatever the estimates are): sensitivity sqrt 2 times that;
a gradient has norm at most G: sensitivity 2G. The N + 1 binomial sums compose in Gaussian DP with their tails
(calibration.md A.3b): of mu_matrix^2 + N mu_gradient^2, `share` of it for the matrix, 0.78 is paid at 1/2, because
they are of the same x (0.4), and what rounding adds. Unlike in the paper nothing
rests on a high-probability event, and what a user sends is calibrated exactly instead of by the printed constants.

Constants (`preset`): "tuned", ours and disclosed in docs/glm.md - warm-up T^{2/3}, lambda twice the noise's bound,
Newton steps with the released matrix, bounds from the law of the noise and a `width` that is not a theorem's; "paper":
the theorem's form, gamma = 30 R S sqrt(d log T) + S sqrt(lambda) + sqrt(2(1 + MS) nu), lambda also of the losses and nu
the excess loss after the `steps` that run (`descent`; Lemma U.3's number of steps is not run), for the worst batch.
With it nothing is ever ruled out at a horizon that one can run.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.guarantee import Guarantee, worst_of
from bandanna.accounting.records import PRICINGS
from bandanna.core import require
from bandanna.core.coins import Coins
from bandanna.core.domain import Ball, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import positive_inverse
from bandanna.glm.descent import gradients
from bandanna.glm.shuffled_gradient import OuterProducts
from bandanna.policies.base import Ask, Frozen, Played
from bandanna.policies.glm.batched import Batched, BatchedState, BatchEstimate
from bandanna.policies.glm.gradient_asks import asked, finite_budget
from bandanna.policies.glm.sdp_privacy import BatchMechanisms, calibrate
from bandanna.policies.named import APPROX, algorithm
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as
from bandanna.theory import generalised
from bandanna.theory.settings import Found, Setting


@algorithm(
    "GLM-SDP",
    paper="003",
    trust="shuffle",
    guarantee="(epsilon, delta)",
    protects="contexts and rewards",
    budgets=(APPROX,),
)
@stored_as("GLMSDP")
@dataclass(frozen=True, kw_only=True)
class GLMSDP(Batched):
    """Shuffle differential privacy for contexts and rewards.

    privacy  bd.shuffle(epsilon=..., delta=...)
    warmup   tau_1; None: T^{2/3}, at most T/4
    share    of the squared price for the matrix of a batch; its gradients get the rest
    steps    N, shuffled gradient sums in one estimate
    width    of the bounds, in sqrt(d) standard deviations
    pricing  "joint", or "separate": as if worst cases of matrix and gradients could meet, with more noise
    """

    trusts = ("shuffle",)
    asks_again = True

    privacy: Privacy
    preset: str = "tuned"
    share: float = 0.5
    steps: int = 6
    width: float = 0.25
    pricing: str = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_budget(self.privacy, (ApproxDP,), "a finite epsilon and delta; B-GLinUCB has no privacy")
        require.one_of("preset", self.preset, ("tuned", "paper"))
        require.one_of("pricing", self.pricing, PRICINGS)
        require.store(self, require.chance, "share")
        require.store(self, require.whole, "steps")
        require.store(self, require.positive, "width")

    @property
    def first(self) -> int:
        """tau_1."""
        default = math.ceil(self.horizon ** (2 / 3))
        return max(2, min(self.horizon // 4, default)) if self.warmup is None else self.warmup

    @property
    def budget(self) -> ApproxDP:
        """Of one user."""
        assert isinstance(self.privacy.budget, ApproxDP)
        return self.privacy.budget

    def mechanisms(self, batch: int) -> BatchMechanisms:
        """The calibrated vector sums of a batch."""
        return self._calibrated[(self.sizes[batch], batch == 0)]

    @cached_property
    def _calibrated(self) -> dict[tuple[int, bool], BatchMechanisms]:
        return {
            (size, first): calibrate(
                link=self.model,
                dim=self.dim,
                parameter_bound=self.parameter_bound,
                budget=self.budget,
                users=size,
                weight_bound=1.0 if first else self.model.slope_bound,
                share=self.share,
                steps=self.steps,
                coins=self.privacy.noise,
                joint=self.pricing == "joint",
            )
            for size, first in {(size, place == 0) for place, size in enumerate(self.released_sizes)}
        }

    @property
    def released_sizes(self) -> tuple[int, ...]:
        """Batches that are released: all but the last, after which nobody would use it."""
        return self.sizes[:-1]

    @cached_property
    def guarantee(self) -> Guarantee:
        """Of every number the worst over the batches; a user is in one."""
        return worst_of([each.guarantee for each in self._calibrated.values()])

    @property
    def bits_per_user(self) -> int:
        """Of all N + 1 messages of a user."""
        return max(each.bits_per_user for each in self._calibrated.values())

    def regulariser(self, batch: int) -> float:
        """lambda: twice what the matrix's noise reaches in norm, so that half of it is left."""
        noise = self.mechanisms(batch).matrix_noise(self.dim, self.failure / len(self.sizes))
        theory = 20 * self.model.reward_bound * self.dim * math.log(self.horizon) if self.preset == "paper" else 1.0
        return max(2 * noise, theory)

    @property
    def gamma(self) -> float:
        """Of the bounds: `width` sqrt(d), or the theorem's form for the worst batch."""
        if self.preset == "tuned":
            return self.width * math.sqrt(self.dim)
        r, s, released = self.model.reward_bound, self.parameter_bound, range(len(self.released_sizes))
        curved = 2 * (1 + self.concordance * s)
        return (
            30 * r * s * math.sqrt(self.dim * math.log(self.horizon))
            + s * math.sqrt(max(self.regulariser(batch) for batch in released))
            + math.sqrt(curved * max(self._excess(batch) for batch in released))
        )

    def _excess(self, batch: int) -> float:
        """nu: what the loss of an estimate is above its minimum after the N steps that run (Lemma U.2)."""
        users, optimiser = self.sizes[batch], self.mechanisms(batch).optimiser
        failure = self.failure / len(self.sizes)
        return users * optimiser.excess_bound(count=users, ridge=self._ridge(batch), failure=failure)

    def _ridge(self, batch: int) -> float:
        """Of the loss: lambda in the theorem's form."""
        return self.regulariser(batch) if self.preset == "paper" else 1.0

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """Rates of [003]."""
        return generalised.of_glm_sdp(setting)

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """w(x) x x^T with the estimate of batch 1, or the gradient at theta."""
        domain, features = ask.protocol.domain, played.features
        assert features is not None
        if isinstance(domain, OuterProducts):
            outside = np.abs(self.domain.project(played.rewards) - played.rewards) > 1e-9
            return domain.statistic(features, self.own_weights(self.seen(features), ask.at), outside)
        assert isinstance(domain, Ball)
        return gradients(self.model, domain, ask.at, features, played.rewards)

    def learn(self, state: BatchedState, episode: Frozen) -> Generator[Ask, Estimate, BatchedState]:
        """N + 1 shuffles of the batch's users."""
        mechanisms, regulariser = self.mechanisms(episode.number), self.regulariser(episode.number)
        first = state.estimates[0] if state.estimates else None
        gram = (yield Ask(protocol=mechanisms.matrix, at=first, part=mechanisms.matrix_part)).total
        matrix = mechanisms.outer.unpack(gram) + regulariser * np.eye(self.dim)
        inverse, repaired = positive_inverse(matrix, regulariser / 4)
        newton = None
        if self.preset == "tuned":  # batch 1: L_mu V bounds the Hessian; later: twice H_k
            scale = self.model.slope_bound if first is None else 2.0
            newton = scale * np.asarray(np.linalg.inv(inverse), dtype=float)
        start = np.zeros((*state.repairs.shape, self.dim)) if first is None else first.theta
        points = mechanisms.optimiser.descend(
            start, count=episode.users, ridge=self._ridge(episode.number), matrix=newton
        )
        theta = yield from asked(points, mechanisms.optimiser.protocol, part=mechanisms.gradient_part)
        steepness = self.curvature if first is None else 1.0
        estimate = BatchEstimate(
            theta=theta,
            inverse=inverse,
            width=self.gamma * math.sqrt(steepness),
            blur=self._blur(mechanisms, episode.number),
        )
        return state.plus(estimate, repaired)

    def _blur(self, mechanisms: BatchMechanisms, batch: int) -> float:
        """One standard deviation of the averaged gradient noise along H^{-1} x; none in the theorem's form."""
        if self.preset == "paper":
            return 0.0
        steepness = 1 / self.model.slope_bound if batch == 0 else 1.0
        return steepness * mechanisms.optimiser.std / math.sqrt(max(1, self.steps // 2))
