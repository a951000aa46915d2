"""What every generalised linear policy knows: the link, the bound S on |theta|, and kappa.

Policies without privacy ask for the rows of users in the clear (`InTheClear`); some of them in every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import Box, Statistic, clip_norm
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import first_best, inner
from bandanna.core.rows import Rows
from bandanna.device.choice import Choice, certain
from bandanna.errors import InvalidArgument
from bandanna.glm.links import Link, Logistic, link_of
from bandanna.policies.base import Ask, Frozen, Played, Policy
from bandanna.protocols.clear.rows import ClearRows
from bandanna.protocols.trust import Privacy, none

State = TypeVar("State")

_PRESETS = ("published", "corrected")


@dataclass(frozen=True, kw_only=True)
class GLMPolicy(Policy[State]):
    """A contextual bandit with `dim` features over `horizon` rounds and mean rewards mu(<x, theta>).

    link             a `Link`, or "logistic", "probit", "linear"
    parameter_bound  S, a bound on |theta|
    kappa            an upper bound on 1/mu'(<x, theta>) over all arms; None: what S implies, max over |z| <= S
    failure          probability with which the confidence sets may fail

    Features are clipped to the unit ball and rewards to [0, R] before anything is computed from them.
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
        self.check_trust()
        require.store(self, require.whole, "dim", "horizon")
        object.__setattr__(self, "link", link_of(self.link))
        require.store(self, require.positive, "parameter_bound")
        require.store(self, require.chance, "failure")
        if self.kappa is not None:
            require.store(self, require.positive, "kappa")
            if self.kappa * (least := self.model.slope_bound) < 1 - 1e-9:
                raise InvalidArgument("kappa", self.kappa, f"a bound on 1/mu', so at least 1/sup mu' = {1 / least:g}")
        elif math.isinf(self.model.kappa(self.parameter_bound)):
            raise InvalidArgument(
                "parameter_bound", self.parameter_bound, "smaller, or kappa given: mu' vanishes there"
            )

    @cached_property
    def model(self) -> Link:
        """The link."""
        return link_of(self.link)

    @cached_property
    def curvature(self) -> float:
        """kappa, as given or as S implies."""
        return self.model.kappa(self.parameter_bound) if self.kappa is None else float(self.kappa)

    @cached_property
    def domain(self) -> Box:
        """Of rewards."""
        return Box(dim=1, low=0.0, high=self.model.reward_bound)

    @property
    def log_term(self) -> float:
        """log(T/failure)."""
        return math.log(self.horizon / self.failure)

    @property
    def numbers_per_user(self) -> int | None:
        """In a user's report, where one is made."""
        return None

    def seen(self, contexts: Floats) -> Floats:
        """Features, clipped to the unit ball."""
        return clip_norm(contexts, 1.0)

    def best(self, snapshot: Any, contexts: Floats) -> Ints:
        """The largest <x, theta>: mu increases."""
        theta = self.theta(snapshot)
        return first_best(along(self.seen(contexts), np.zeros(self.dim) if theta is None else theta))


@dataclass(frozen=True, kw_only=True)
class InTheClear(GLMPolicy[State]):
    """A policy that is given users' rows as they are, with constants as published or corrected (`preset`)."""

    preset: str = "corrected"
    privacy: Privacy = none()

    def __post_init__(self) -> None:
        super().__post_init__()
        require.one_of("preset", self.preset, _PRESETS)

    @property
    def guarantee(self) -> Guarantee:
        """None: everything is computed from raw data."""
        return Guarantee(trust="none", epsilon=math.inf, delta=0.0, protects="contexts and rewards")

    @property
    def bits_per_user(self) -> int:
        """Nothing is encoded."""
        return 0

    @cached_property
    def rows(self) -> Rows:
        """What a user tells."""
        return Rows(size=self.dim, reward_bound=self.model.reward_bound, groups=max(1, len(self.keeps)))

    @cached_property
    def ask(self) -> Ask:
        """The rows of an episode's users."""
        return Ask(protocol=ClearRows(domain=self.rows))

    def ask_of(self, whose: str, step: int) -> Ask:
        """Rows, of some of the users."""
        return Ask(protocol=self.ask.protocol, of=whose, step=step)

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """The row itself."""
        assert played.features is not None
        return self.rows.statistic(played.features, played.rewards, played.groups)


@dataclass(frozen=True, kw_only=True)
class EveryRound(InTheClear[State]):
    """A policy that learns after every round; its state knows how many there were, in `rounds`."""

    every_round = True
    side_by_side = True

    def episode(self, state: Any) -> Frozen | None:
        """One round."""
        return Frozen(number=state.rounds, users=1) if state.rounds < self.horizon else None

    def row(self, released: Estimate) -> tuple[Floats, Floats]:
        """Features (*R, d) and reward (*R) of the round's user."""
        values = released.total[..., 0, :]
        return values[..., : self.dim], values[..., self.dim]


def quadratic(contexts: Floats, inverse: Floats) -> Floats:
    """|x|^2_{A^{-1}} for every arm: (*R, n, K, d), (*R, n or 1, d, d) -> (*R, n, K)."""
    return np.asarray(np.maximum(np.einsum("...i,...i->...", contexts @ inverse, contexts), 0.0))


def along(contexts: Floats, theta: Floats) -> Floats:
    """<x, theta> for every arm: (*R, n, K, d), (*R, d) -> (*R, n, K)."""
    return np.asarray((contexts @ theta[..., None, :, None])[..., 0])


def optimistic(values: Floats, spread: Floats) -> Choice:
    """The first arm with the largest value plus spread, both (*R, n, K)."""
    return certain(first_best(values + spread))


def rank_one(inverse: Floats, x: Floats, weight: Floats | float = 1.0) -> Floats:
    """(A + w x x^T)^{-1} from A^{-1}: (*R, d, d), (*R, d), (*R) -> (*R, d, d) (Sherman and Morrison 1950)."""
    y = (inverse @ x[..., None])[..., 0]  # A^{-1} x
    shrink = np.asarray(weight / (1 + weight * inner(y, x)))
    return np.asarray(inverse - shrink[..., None, None] * y[..., :, None] * y[..., None, :])
