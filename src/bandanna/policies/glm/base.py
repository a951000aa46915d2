"""The base class of generalised linear policies, their designs and gradient queries."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice, make_certain_choice
from bandanna.device.domain import Box, Estimate, RawRowDomain, Statistic, clip_norm
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.linalg import first_best, inner
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import Execution, FixedLength, PlayedRounds, Policy, SumQuery
from bandanna.policies.glm.links import Link, Logistic, link_of
from bandanna.policies.glm.optimisers import Points
from bandanna.privacy.budgets import Budget
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.clear import ClearRows
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.types import Floats, Ints

State = TypeVar("State")

_PRESETS = ("published", "corrected")


@dataclass(frozen=True, kw_only=True)
class GLMPolicy(Policy[State]):
    """Base of generalised linear contextual bandits: mean rewards are mu(<x, theta>).

    Features are clipped to the unit ball and rewards to [0, R] before anything is computed from them.

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of rounds.
    link
        mu: a `Link`, or "logistic", "probit" or "linear".
    parameter_bound
        S, a bound on |theta|.
    kappa
        Upper bound on 1/mu'(<x, theta>) over all arms. None: the maximum over |z| <= S.
    failure
        Probability with which the confidence sets may fail.
    privacy
        Privacy model and budget.
    """

    sees_unit: ClassVar[bool] = True  # features that are no longer than 1 as they are

    dim: int
    horizon: int
    link: Link | str = Logistic()
    parameter_bound: float = 1.0
    kappa: float | None = None
    failure: float = 0.05
    privacy: Privacy

    def __post_init__(self) -> None:
        self._check_privacy_model()
        validation.set_validated(self, validation.integer, "dim", "horizon")
        object.__setattr__(self, "link", link_of(self.link))
        validation.set_validated(self, validation.positive, "parameter_bound")
        validation.set_validated(self, validation.open_probability, "failure")
        if self.kappa is not None:
            validation.set_validated(self, validation.positive, "kappa")
            if self.kappa * (least := self.model.slope_bound) < 1 - 1e-9:
                raise InvalidArgument("kappa", self.kappa, f"at least {1 / least:g}, which is 1/sup mu'")
        elif math.isinf(self.model.kappa(self.parameter_bound)):
            allowed = "a bound at which mu' is positive in double precision"
            raise InvalidArgument("parameter_bound", self.parameter_bound, allowed, "Make it smaller, or give kappa")

    @cached_property
    def model(self) -> Link:
        return link_of(self.link)

    @cached_property
    def curvature(self) -> float:
        return self.model.kappa(self.parameter_bound) if self.kappa is None else float(self.kappa)

    @cached_property
    def domain(self) -> Box:
        return Box(dim=1, low=0.0, high=self.model.reward_bound)

    @property
    def log_term(self) -> float:
        return math.log(self.horizon / self.failure)

    @property
    def numbers_per_user(self) -> int | None:
        return None

    def clip_features(self, contexts: Floats) -> Floats:
        return clip_norm(contexts, 1.0)

    def best(self, snapshot: Any, contexts: Floats) -> Ints:
        theta = self._theta(snapshot)
        return first_best(
            compute_linear_scores(self.clip_features(contexts), np.zeros(self.dim) if theta is None else theta)
        )


@dataclass(frozen=True, kw_only=True)
class NonPrivateGLMPolicy(GLMPolicy[State]):
    """A policy that sees users' rows, with constants as published or corrected (`preset`)."""

    _private_siblings = '. Private generalised linear policies: "GLM-JDP" (central), "GLM-SDP" (shuffle)'

    preset: str = "corrected"
    privacy: Privacy = none()

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.one_of("preset", self.preset, _PRESETS)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(trust="none", epsilon=math.inf, delta=0.0, protects="contexts and rewards")

    @property
    def _bits_per_user(self) -> int:
        return 0

    @cached_property
    def rows(self) -> RawRowDomain:
        return RawRowDomain(
            size=self.dim, reward_bound=self.model.reward_bound, groups=max(1, len(self.execution.retained_groups))
        )

    @cached_property
    def query(self) -> SumQuery:
        return SumQuery(protocol=ClearRows(domain=self.rows))

    def query_rows(self, group: str, step: int) -> SumQuery:
        return SumQuery(protocol=self.query.protocol, group=group, step=step)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        assert played.features is not None
        return self.rows.statistic(played.features, played.rewards, played.groups)


@dataclass(frozen=True, kw_only=True)
class PerRoundGLMPolicy(NonPrivateGLMPolicy[State]):
    """A policy that learns after every round; its state counts them in `rounds`."""

    execution = Execution(learns_every_round=True, side_by_side=True)

    def episode(self, state: Any) -> FixedLength | None:
        return FixedLength(number=state.rounds, users=1) if state.rounds < self.horizon else None

    def row(self, released: Estimate) -> tuple[Floats, Floats]:
        values = released.total[..., 0, :]
        return values[..., : self.dim], values[..., self.dim]


def compute_squared_norms(contexts: Floats, inverse: Floats) -> Floats:
    """Return |x|^2_{A^{-1}}: (*R, n, K, d), (*R, n or 1, d, d) -> (*R, n, K)."""
    return np.asarray(np.maximum(np.einsum("...i,...i->...", contexts @ inverse, contexts), 0.0))


def compute_linear_scores(contexts: Floats, theta: Floats) -> Floats:
    """Return <x, theta>: (*R, n, K, d), (*R, d) -> (*R, n, K)."""
    return np.asarray((contexts @ theta[..., None, :, None])[..., 0])


def choose_optimistic(values: Floats, spread: Floats) -> Choice:
    """Choose the first arm with the largest value plus spread, both (*R, n, K)."""
    return make_certain_choice(first_best(values + spread))


def update_inverse(inverse: Floats, x: Floats, weight: Floats | float = 1.0) -> Floats:
    """Return (A + w x x^T)^{-1} from A^{-1}: (*R, d, d), (*R, d), (*R) -> (*R, d, d)."""
    y = (inverse @ x[..., None])[..., 0]  # A^{-1} x
    shrink = np.asarray(weight / (1 + weight * inner(y, x)))
    return np.asarray(inverse - shrink[..., None, None] * y[..., :, None] * y[..., None, :])


# Near-G-optimal designs of many small sets of arms at once: one distribution for every context.
#
#     g(pi) = max_x |x|^2_{V(pi)^{-1}} <= 2 r,     V(pi) = sum_x pi(x) x x^T,     r the dimension of the span
#
# Start and steps as in `design.optimal_design` (Fedorov and Wynn with the exact line search), for all sets side by side
# and with some arms left out of each. Arms that do not span are kept in their span by a tiny multiple of the identity.


_TINY = 1e-10


def compute_designs(arms: Floats, alive: NDArray[np.bool_], *, factor: float = 2.0, most_steps: int = 200) -> Floats:
    """Return weights (n, K) on living arms (n, K, d), with g <= factor r if the steps suffice."""
    weights, rank = _start(arms, alive)
    open_ = np.arange(len(arms))
    for _ in range(most_steps):
        squares = np.where(alive[open_], _leverages(arms[open_], weights[open_]), 0.0)
        worst = np.argmax(squares, axis=1)
        top = squares[np.arange(len(open_)), worst]
        going = top > factor * rank[open_]
        if not np.any(going):
            break
        open_, worst, top = open_[going], worst[going], top[going]
        step = (top / rank[open_] - 1) / np.maximum(top - 1, 1e-12)  # exact line search
        weights[open_] *= (1 - step)[:, None]
        weights[open_, worst] += step
    return weights


def _start(arms: Floats, alive: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """Return equal weights on up to d spread arms, and the rank."""
    n, _, d = arms.shape
    rest, weights, index = np.where(alive[..., None], arms, 0.0), np.zeros(arms.shape[:2]), np.arange(n)
    scale = np.max(np.sum(rest**2, axis=2), axis=1)
    rank = np.zeros(n, dtype=np.int64)
    for _ in range(d):
        lengths = np.sum(rest**2, axis=2)
        chosen = np.argmax(lengths, axis=1)
        length = lengths[index, chosen]
        new = length > 1e-12 * np.maximum(scale, 1e-300)
        weights[index[new], chosen[new]] += 1.0
        rank += new
        axis = rest[index, chosen] / np.sqrt(np.maximum(length, 1e-300))[:, None]
        rest = rest - (rest @ axis[:, :, None]) * axis[:, None, :]
    lost = rank == 0  # all arms are zero: any of them will do
    weights[lost] = alive[lost]
    return weights / np.sum(weights, axis=1, keepdims=True), np.maximum(rank, 1)


def _leverages(arms: Floats, weights: Floats) -> Floats:
    matrix = np.swapaxes(arms * weights[..., None], 1, 2) @ arms
    trace = np.trace(matrix, axis1=1, axis2=2)[:, None, None]
    inverse = np.linalg.inv(matrix + (_TINY * trace + 1e-200) * np.eye(arms.shape[2]))
    return np.asarray(np.einsum("nkd,nkd->nk", arms @ inverse, arms))


# Sums of gradients as queries: what the two private policies share.


def query_descent(
    points: Points, protocol: BatchProtocol, *, group: str = "episode", step: int = 1, part: str | None = None
) -> Generator[SumQuery, Estimate, Floats]:
    """Query the sums of gradients at a descent's points; return its estimate."""
    try:
        point = next(points)
        while True:
            released = yield SumQuery(protocol=protocol, at=point, group=group, step=step, part=part)
            point, step = points.send(released.total), step + 1
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]


def check_finite_budget(privacy: Privacy, kinds: tuple[type[Budget], ...], allowed: str, sibling: str) -> None:
    """Refuse other budgets, returning users and printed noise; `sibling` is the policy without privacy."""
    if not isinstance(privacy.budget, kinds) or math.isinf(getattr(privacy.budget, "epsilon", 0.0)):
        raise InvalidBudget("privacy", privacy.budget, allowed, f"{sibling} is the policy without privacy")
    if privacy.participations != 1:
        raise InvalidArgument("participations", privacy.participations, "1", "A user takes part once")
    for name, own in (("calibration", "tight"), ("protocol", "binomial")):
        if getattr(privacy, name) != own:
            raise InvalidArgument(name, getattr(privacy, name), f"{own!r}", "This policy has no other")
