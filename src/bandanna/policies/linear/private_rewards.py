"""LinTS with public contexts and private rewards."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.device.action_selection import Choice, ThompsonSelector
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.statistics import PublicStatistic, WeightedStatistic
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.algorithm import APPROX, PURE, register_algorithm
from bandanna.policies.base import Execution, FixedLength, PlayedRounds, SumQuery
from bandanna.policies.finite.base import PROTECTS
from bandanna.policies.linear.base import InformedBatches, Schedule, ScheduledLinearPolicy
from bandanna.policies.linear.lints import LinTS, Posterior, compute_posterior
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.clear import PublicSum
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.protocols.randomized_response import LocalSigns
from bandanna.protocols.running_sum import RunningSumProtocol, running_sum_protocol_for
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_CONSTANT = 0.25  # weight of the constant in a private report
_SHRINK = 1 - 1e-15  # rounding errors leave a weighted vector in the unit ball
_PUBLIC = (("everybody", "every user's features and arm, and whether a reward arrived"),)


@stored_as("LinTSRewardsState")
@dataclass(frozen=True, kw_only=True)
class LinTSRewardsState:
    """The released sums of rewards, the public sums of features, and the snapshot."""

    released: Floats  # (d,): sum of w x (r - 1/2), noisy
    public: Floats  # (d + d(d+1)/2): sums of x/2 and x x^T, stacked
    batches: int
    snapshot: Posterior


_named = partial(register_algorithm, paper="-", protects="rewards")


@_named("LinTS-JDP-rewards", trust="central", guarantee="joint DP or zCDP")
@_named(
    "LinTS-LDP-rewards",
    trust="local",
    guarantee="local DP, pure",
    budgets=(PURE, APPROX, ("rho",)),
    options=("participations",),
)
@_named("LinTS-SDP-rewards", trust="shuffle", guarantee="shuffle DP")
@stored_as("LinTSRewards")
@dataclass(frozen=True, kw_only=True)
class LinTSRewards(ScheduledLinearPolicy[LinTSRewardsState]):
    """Thompson sampling with `dim` features over `horizon` rounds that protects rewards; features are public.

    1. The server publishes the posterior of theta given the released sums (`publish`).
    2. Each device of a batch draws a parameter from it and plays the best arm (`act`).
    3. Each device reports w x (r - 1/2) by the protocol, and x/2 and x x^T in the clear (`report`).
    4. The server queries both sums and computes the posterior anew (`learn`).

    Rewards are clipped to [0, 1] before a statistic is formed.

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of users.
    privacy
        `bd.central(...)`, `bd.local(...)` (pure: delta is not spent), `bd.shuffle(...)` or `bd.none()`.
    public_contexts
        True states that everybody may know every user's features. Otherwise arms must be fixed.
    intercept, batch, alpha, prior, reward_std
        As those of `LinTS`.
    """

    trusts = ("none", "central", "local", "shuffle")
    execution = Execution(has_several_queries=True)

    dim: int
    horizon: int
    privacy: Privacy
    public_contexts: bool = False
    intercept: bool = False
    batch: int | str | Schedule | None = "auto"
    alpha: float = 0.5
    prior: float | None = None
    reward_std: float = 0.5

    def publish(self, state: LinTSRewardsState) -> Posterior:
        return state.snapshot

    def act(self, snapshot: Posterior, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return self.sampler.act(snapshot, contexts, coins)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        assert played.features is not None
        private, public = self._statistics
        statistic = public if isinstance(query.protocol.domain, LinearReport) else private
        return statistic.statistic(query.protocol.domain, played.features, played.rewards, None, coins)

    def learn(self, state: LinTSRewardsState, episode: FixedLength) -> Generator[SumQuery, Estimate, LinTSRewardsState]:
        answer = yield SumQuery(protocol=self._channel.protocols[episode.users])
        features = yield self.public
        released = answer.total if self._channel.stream is not None else state.released + answer.total
        public, batches = state.public + features.total, state.batches + 1
        snapshot = self._posterior(released, public, batches)
        return LinTSRewardsState(released=released, public=public, batches=batches, snapshot=snapshot)

    def __post_init__(self) -> None:
        self._check_privacy_model()
        validation.set_validated(self, validation.integer, "dim", most=1_000)
        validation.set_validated(self, validation.integer, "horizon", most=10**15)
        validation.set_validated(self, validation.boolean, "intercept", "public_contexts")
        for name in ("alpha", "prior", "reward_std"):  # which the sampler checks
            object.__setattr__(self, name, getattr(self.sampler, name))
        if self.privacy.noisy and self.privacy.pure and self.privacy.model != "local":
            raise InvalidBudget("delta", 0.0, "a number in (0, 1)", "Only bd.local can have delta = 0")
        if self.privacy.calibration != "tight":
            raise InvalidArgument(
                "calibration", self.privacy.calibration, '"tight"', "LinTSRewards has no printed noise"
            )
        if self.privacy.model == "local" and self.privacy.protocol not in ("default", "auto"):
            raise InvalidArgument(
                "protocol", self.privacy.protocol, "left out", "A reward is reported as one random bit"
            )
        _ = self._schedule

    @cached_property
    def sampler(self) -> LinTS:
        """The LinTS policy whose devices draw and choose in the same way."""
        shared = {name: getattr(self, name) for name in ("dim", "horizon", "intercept", "alpha", "prior", "reward_std")}
        return LinTS(**shared, privacy=none())  # sums are queried here

    @property
    def _answers(self) -> bool:
        return self.privacy.model == "local" and self.privacy.noisy

    @cached_property
    def domain(self) -> Ball:
        return Ball(dim=self.dim, bound=0.5)

    @cached_property
    def public(self) -> SumQuery:
        return SumQuery(protocol=PublicSum(domain=LinearReport(features=self.dim)), step=1)

    @cached_property
    def _weights(self) -> Floats:
        """w, (d,), whose products with (z, 1), |z| <= 1, or with |x| <= 1 are in the unit ball."""
        if not self.intercept:
            return np.ones(self.dim)
        return np.append(np.ones(self.dim - 1), _CONSTANT) * (_SHRINK / math.hypot(1.0, _CONSTANT))

    @property
    def _scale(self) -> float:
        return 0.5 if self.intercept else 1.0

    @property
    def _batch_privacy(self) -> Privacy:
        return self.privacy

    @cached_property
    def _schedule(self) -> Schedule:
        found = self._plan_batches(dim=self.dim, domain=self.domain)
        doubling = self.privacy.model == "shuffle" and self.privacy.noisy and found is not self.batch
        return replace(found, ratio=max(found.ratio, 2.0)) if doubling and isinstance(found, InformedBatches) else found

    @cached_property
    def _channel(self) -> RunningSumProtocol:
        privacy = self.privacy
        if not self._answers:
            return running_sum_protocol_for(privacy, domain=self.domain, sizes=self.batch_sizes)
        assert privacy.budget is not None
        answered = LocalSigns.calibrate(
            domain=self.domain, budget=privacy.budget, participations=privacy.participations
        )
        return RunningSumProtocol(protocols=dict.fromkeys(self.batch_sizes.counts(), answered), sizes=self.batch_sizes)

    @cached_property
    def guarantee(self) -> Guarantee:
        stated = self._channel.guarantee
        observers = (*stated.observers, *_PUBLIC)
        return replace(stated, protects=PROTECTS, adjacency="replacement of one user's reward", observers=observers)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> LinTSRewardsState:
        if arms is None and not self.public_contexts:
            hint = (
                "Only rewards are protected. Pass public_contexts=True if everybody may know every user's features, "
                "use fixed arms (Agent(arms=...), fixed=True), or bd.LinTS, which protects contexts too"
            )
            raise InvalidArgument("public_contexts", False, "True", hint)
        released, public = np.zeros(self.dim), np.zeros(self.public.protocol.domain.dim)
        return LinTSRewardsState(
            released=released, public=public, batches=0, snapshot=self._posterior(released, public, 0)
        )

    def clip_features(self, contexts: Floats) -> Floats:
        return self.sampler.clip_features(contexts)

    def probabilities(self, snapshot: Posterior, contexts: Floats, actions: Ints) -> tuple[Floats, Floats]:
        return self.sampler.probabilities(snapshot, contexts, actions)

    def best(self, snapshot: Posterior, contexts: Floats) -> Ints:
        return self.sampler.best(snapshot, contexts)

    def _theta(self, snapshot: Posterior) -> Floats:
        return self.sampler._theta(snapshot)

    @property
    def _selector(self) -> ThompsonSelector:
        return self.sampler._selector

    @cached_property
    def _statistics(self) -> tuple[WeightedStatistic, PublicStatistic]:
        """The private statistic, randomized to a bit in the local model, and the public one."""
        seen, weights = self.sampler._domain, tuple(self._weights.tolist())
        return WeightedStatistic(seen=seen, weights=weights, bits=self._answers), PublicStatistic(
            seen=seen, scale=self._scale
        )

    @cached_property
    def _noise(self) -> Floats:
        if self._answers:
            return np.zeros(1 + len(self.batch_sizes))
        return np.append(0.0, self._channel.prefix_std() ** 2)

    @property
    def _reward_std(self) -> float:
        if not self._answers:
            return self.reward_std
        (answered,) = set(self._channel.protocols.values())
        assert isinstance(answered, LocalSigns)
        return 0.5 / answered.mechanism.truth

    def _posterior(self, released: Floats, public: Floats, batches: int) -> Posterior:
        report = self.public.protocol.domain
        assert isinstance(report, LinearReport)
        half, gram = report.unpack(public)
        vector = released / self._weights
        if not self.intercept:
            vector = vector + half  # sum x r = sum x (r - 1/2) + sum x/2
        size = (0.5 if self.intercept else 1.0) if self.prior is None else self.prior
        mean, root, _ = compute_posterior(
            vector,
            gram / self._scale**2,
            noise=(self._noise[batches] / self._weights**2, np.zeros_like(gram)),
            second_moments=size**2 * self.sampler._domain.second_moments,
            reward_std=self._reward_std,
        )
        return Posterior(theta=mean, root=self.alpha * root)

    def _result_facts(self) -> dict[str, Any]:
        return {"batch": max(self.batch_sizes.counts()), "participations": self.privacy.participations}
