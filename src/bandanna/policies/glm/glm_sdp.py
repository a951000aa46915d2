"""GLM-SDP: the policy and its price."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandanna import validation
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.errors import CalibrationError
from bandanna.numeric.linalg import positive_inverse
from bandanna.numeric.rng import DeviceRandomness
from bandanna.numeric.search import find_least
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import APPROX, register_algorithm
from bandanna.policies.base import FixedLength, PlayedRounds, SumQuery
from bandanna.policies.glm.base import check_finite_budget, query_descent
from bandanna.policies.glm.batched import BatchedGLMPolicy, BatchedGLMState, BatchEstimate
from bandanna.policies.glm.optimisers import OuterProducts, ShuffledGradient, compute_gradients, make_gradient_ball
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import binomial_noise_for_std, parts_mu
from bandanna.privacy.events import PRICINGS, BinomialEvent, CompositionEvent, Event, RecordEvent, RepetitionEvent
from bandanna.privacy.guarantee import Guarantee, compute_guarantee, find_worst_guarantee
from bandanna.protocols.mixers import describe_shuffler_view
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.storage.encoding import stored_as


@register_algorithm(
    "GLM-SDP",
    paper="003",
    trust="shuffle",
    guarantee="(epsilon, delta)",
    protects="contexts and rewards",
    budgets=(APPROX,),
)
@stored_as("GLMSDP")
@dataclass(frozen=True, kw_only=True)
class GLMSDP(BatchedGLMPolicy):
    """Generalised linear bandit in the shuffle model, for contexts drawn from one law (paper [003], Algorithm 1).

    1. The server publishes the estimates of the batches so far.
    2. The device draws an arm from a design of the arms that no earlier batch rules out; both as in `BatchedGLMPolicy`.
    3. After a batch only its users take part in N + 1 shuffles: they report w(x) x x^T once, and a gradient of the loss
       at each point of step 5.
    4. The server queries the sum of the matrices, for V or H_k.
    5. It queries N sums of gradients and descends along them to theta_k.

    Privacy: users are in one batch each, so batches do not compose. A matrix has sensitivity sqrt 2 (batch 1) or
    sqrt 2 L_mu, whatever the estimates are; a gradient has norm at most G. The N + 1 binomial sums compose in Gaussian
    DP with their tails (docs/appendix/proofs.md, A.3b and 0.4). Unlike in the paper nothing rests on a high-probability
    event. Further parameters: `GLMPolicy`.

    Parameters
    ----------
    privacy
        `bd.shuffle(epsilon=..., delta=...)`.
    warmup
        tau_1. None: T^{2/3}, at most T/4.
    preset
        "tuned": our constants, with Newton steps (docs/appendix/proofs.md, I). "paper": gamma = 30 R S sqrt(d log T)
        + S sqrt(lambda) + sqrt(2(1 + MS) nu), nu the excess loss after the `steps` that run; it rules out nothing at
        feasible horizons.
    share
        Share of the squared price for the matrix of a batch; its gradients get the rest.
    steps
        N, shuffled gradient sums in one estimate.
    width
        Width of the tuned bounds, in sqrt(d) standard deviations; not a theorem's.
    pricing
        "joint", or "separate": as if worst cases of matrix and gradients could meet, with more noise.
    """

    trusts = ("shuffle",)
    execution = replace(BatchedGLMPolicy.execution, has_several_queries=True)

    privacy: Privacy
    preset: str = "tuned"
    share: float = 0.5
    steps: int = 6
    width: float = 0.25
    pricing: str = "joint"

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        domain, features = query.protocol.domain, played.features
        assert features is not None
        if isinstance(domain, OuterProducts):
            outside = np.abs(self.domain.project(played.rewards) - played.rewards) > 1e-9
            return domain.statistic(features, self.weigh_played_arms(self.clip_features(features), query.at), outside)
        assert isinstance(domain, Ball)
        return compute_gradients(self.model, domain, query.at, features, played.rewards)

    def learn(self, state: BatchedGLMState, episode: FixedLength) -> Generator[SumQuery, Estimate, BatchedGLMState]:
        mechanisms, regulariser = self.mechanisms(episode.number), self.regulariser(episode.number)
        first = state.estimates[0] if state.estimates else None
        gram = (yield SumQuery(protocol=mechanisms.matrix, at=first, part=mechanisms.matrix_part)).total
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
        theta = yield from query_descent(points, mechanisms.optimiser.protocol, part=mechanisms.gradient_part)
        steepness = self.curvature if first is None else 1.0
        estimate = BatchEstimate(
            theta=theta,
            inverse=inverse,
            width=self.gamma * math.sqrt(steepness),
            blur=self._blur(mechanisms, episode.number),
        )
        return state.plus(estimate, repaired)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite_budget(self.privacy, (ApproxDP,), "a finite epsilon and delta", "B-GLinUCB")
        validation.one_of("preset", self.preset, ("tuned", "paper"))
        validation.one_of("pricing", self.pricing, PRICINGS)
        validation.set_validated(self, validation.open_probability, "share")
        validation.set_validated(self, validation.integer, "steps")
        validation.set_validated(self, validation.positive, "width")

    @property
    def first(self) -> int:
        default = math.ceil(self.horizon ** (2 / 3))
        return max(2, min(self.horizon // 4, default)) if self.warmup is None else self.warmup

    def mechanisms(self, batch: int) -> GLMSDPMechanisms:
        return self._calibrated[(self.sizes[batch], batch == 0)]

    @cached_property
    def _calibrated(self) -> dict[tuple[int, bool], GLMSDPMechanisms]:
        sizes = {(size, place == 0) for place, size in enumerate(self.released_sizes)}
        return {(size, first): calibrate_glm_sdp(self, size, first=first) for size, first in sizes}

    @property
    def released_sizes(self) -> tuple[int, ...]:
        return self.sizes[:-1]

    @cached_property
    def guarantee(self) -> Guarantee:
        return find_worst_guarantee([each.guarantee for each in self._calibrated.values()])

    @property
    def _bits_per_user(self) -> int:
        return max(each.bits_per_user for each in self._calibrated.values())

    def regulariser(self, batch: int) -> float:
        """Return lambda, twice the bound of the matrix's noise in norm."""
        noise = self.mechanisms(batch).matrix_noise(self.dim, self.failure / len(self.sizes))
        theory = 20 * self.model.reward_bound * self.dim * math.log(self.horizon) if self.preset == "paper" else 1.0
        return max(2 * noise, theory)

    @property
    def gamma(self) -> float:
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
        """Return nu, the excess loss after N steps (Lemma U.2)."""
        users, optimiser = self.sizes[batch], self.mechanisms(batch).optimiser
        failure = self.failure / len(self.sizes)
        return users * optimiser.excess_bound(count=users, ridge=self._ridge(batch), failure=failure)

    def _ridge(self, batch: int) -> float:
        return self.regulariser(batch) if self.preset == "paper" else 1.0

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return contextual_bounds.find_glm_sdp_bounds(setting)

    def _blur(self, mechanisms: GLMSDPMechanisms, batch: int) -> float:
        """Return the std of averaged gradient noise along H^{-1} x; 0 with preset="paper"."""
        if self.preset == "paper":
            return 0.0
        steepness = 1 / self.model.slope_bound if batch == 0 else 1.0
        return steepness * mechanisms.optimiser.std / math.sqrt(max(1, self.steps // 2))


# Price


@dataclass(frozen=True, kw_only=True)
class GLMSDPMechanisms:
    """The calibrated sums of one batch; `delta` is that of the guarantee."""

    matrix: ShuffleBinomial
    optimiser: ShuffledGradient
    delta: float
    joint: bool = True  # matrix and gradients are of the same x, and priced so

    @property
    def matrix_part(self) -> str | None:
        return "weighted" if self.joint else None

    @property
    def gradient_part(self) -> str | None:
        return "vector" if self.joint else None

    @property
    def outer(self) -> OuterProducts:
        domain = self.matrix.domain
        assert isinstance(domain, OuterProducts)
        return domain

    @property
    def event(self) -> Event:
        return self._composed(self.matrix.event, self.optimiser.protocol.event)

    @property
    def local(self) -> Event:
        return self._composed(self.matrix.local_event, self.optimiser.protocol.local_event)

    def _composed(self, matrix: Event, gradient: Event) -> Event:
        if self.joint and isinstance(matrix, BinomialEvent) and isinstance(gradient, BinomialEvent):
            matrix = RecordEvent(event=matrix, part="weighted")
            gradient = RecordEvent(event=gradient, part="vector")
        return CompositionEvent(events=(matrix, RepetitionEvent(event=gradient, times=self.optimiser.steps)))

    @property
    def guarantee(self) -> Guarantee:
        seen = describe_shuffler_view(self.matrix.coins, "counts", "statistics")
        return compute_guarantee(
            self.event,
            delta=self.delta,
            trust="shuffle",
            protects="contexts and rewards",
            observers=(
                ("the shuffler", f"{seen}, in every shuffle of the batch"),
                ("the analyzer and the public", "the totals of each shuffle of a batch"),
            ),
            local=self.local,
            exposed=max(self.matrix.exposed, self.optimiser.protocol.exposed),
        )

    @property
    def bits_per_user(self) -> int:
        return self.matrix.bits_per_user + self.optimiser.steps * self.optimiser.protocol.bits_per_user

    def matrix_noise(self, dim: int, failure: float) -> float:
        """Return s (sqrt(2d) + sqrt(2 log(2/failure))), s the std of a packed entry: a bound on the noise's norm.

        It is exact for Gaussian noise only. The policy's bounds rest on it, privacy does not.
        """
        return self.matrix.noise.std() * (math.sqrt(2 * dim) + math.sqrt(2 * math.log(2 / failure)))


def calibrate_glm_sdp(policy: GLMSDP, users: int, *, first: bool) -> GLMSDPMechanisms:
    """Return the least noise: mu_matrix^2 = share m^2, steps mu_gradient^2 = (1 - share) m^2, with m as in `parts_mu`.

    Both are raised until the accountant finds them within the budget.
    """
    budget, share, joint = policy.privacy.budget, policy.share, policy.pricing == "joint"
    assert isinstance(budget, ApproxDP)
    mu = parts_mu(budget, share, weighted=True, joint=joint)
    outer = OuterProducts(size=policy.dim, bound=1.0 if first else policy.model.slope_bound)
    ball = make_gradient_ball(policy.model, policy.dim, policy.parameter_bound)
    stds = (
        outer.sensitivity / (mu * math.sqrt(share)),
        ball.sensitivity * math.sqrt(policy.steps) / (mu * math.sqrt(1 - share)),
    )

    def mechanisms(raised: float) -> GLMSDPMechanisms:
        sums = [
            ShuffleBinomial(
                domain=domain,
                noise=binomial_noise_for_std(
                    raised * std, sensitivity=domain.sensitivity, dim=domain.dim, users=users, composed=True
                ),
                delta=budget.delta,
                coins=policy.privacy.noise,
            )
            for domain, std in zip((outer, ball), stds, strict=True)
        ]
        gradient = ShuffledGradient(
            link=policy.model, parameter_bound=policy.parameter_bound, steps=policy.steps, protocol=sums[1]
        )
        return GLMSDPMechanisms(matrix=sums[0], optimiser=gradient, delta=budget.delta, joint=joint)

    def meets(raised: float) -> bool:
        return accountant.satisfies(mechanisms(raised).event, budget)

    high = next((raised for raised in (1.02, 1.05, 1.1, 1.5) if meets(raised)), None)
    if high is None:
        raise CalibrationError(f"no binomial noise within 50 % of the ideal meets {budget} in a batch of {users}")
    return mechanisms(find_least(meets, 1.0, high, relative=1e-4))
