"""What GLM-JDP is configured with, what it costs, and how its releases are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget
from bandanna.accounting.calibration.gaussian import parts_mu
from bandanna.accounting.guarantee import Guarantee
from bandanna.accounting.records import PRICINGS
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.linalg import positive_inverse
from bandanna.errors import InvalidArgument
from bandanna.policies.glm.gradient_asks import finite_budget
from bandanna.policies.glm.jdp_constants import CONSTANTS, SHARE, Constants
from bandanna.policies.glm.jdp_privacy import JDPMechanisms, calibrate
from bandanna.policies.glm.rarely_switching import RarelySwitching
from bandanna.protocols.base import FLOAT_BITS, stated_delta
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.trust import Privacy

State = TypeVar("State")

FLOOR = 0.05  # a released matrix that is not positive definite is shifted to this part of its regulariser
_GROWTH = 2.0  # refit when a released matrix is not below twice its snapshot


@dataclass(frozen=True, kw_only=True)
class JDPRules(RarelySwitching[State]):
    """Configuration, constants and price; released stacks as matrices."""

    trusts = ("central",)

    privacy: Privacy
    preset: str = "tuned"
    constants: Constants | None = None
    pricing: str = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_budget(self.privacy, (ApproxDP, ZCDP), "a finite epsilon and delta, or rho; RS-GLinUCB has no privacy")
        require.one_of("preset", self.preset, tuple(CONSTANTS))
        require.one_of("pricing", self.pricing, PRICINGS)
        if self.constants is not None and not isinstance(self.constants, Constants):
            raise InvalidArgument("constants", self.constants, "Constants(...), or None for those of the preset")

    @property
    def budget(self) -> Budget:
        """Of one user."""
        assert self.privacy.budget is not None
        return self.privacy.budget

    @cached_property
    def used(self) -> Constants:
        """The constants that are used: given, tuned or by theory."""
        if self.constants is not None:
            return self.constants
        mu = parts_mu(self.budget, SHARE, weighted=True, joint=self.pricing == "joint")
        return CONSTANTS[self.preset](self, mu, self.privacy.mechanism)

    @cached_property
    def mechanisms(self) -> JDPMechanisms:
        """Everything that adds noise."""
        found = calibrate(
            link=self.model,
            dim=self.dim,
            horizon=self.horizon,
            parameter_bound=self.parameter_bound,
            budget=self.budget,
            mechanism=self.privacy.mechanism,
            share=self.used.share,
            steps=self.used.steps,
            calls=(self.used.calls_o, self.used.calls_tau),
            joint=self.pricing == "joint",
        )
        for estimate in (found.estimate_o, found.estimate_tau):
            estimate.protocol.check_horizon(self.horizon)  # how many explored is private: no size of a group may decide
        return found

    @cached_property
    def guarantee(self) -> Guarantee:
        """Joint differential privacy, computed for what runs."""
        return self.mechanisms.guarantee(stated_delta(self.budget))

    @property
    def regulariser(self) -> float:
        """lambda_V."""
        return self.used.regulariser_v

    @property
    def threshold(self) -> float:
        """Of criterion I."""
        return self.used.threshold

    @property
    def elimination(self) -> float:
        """Half-width of theta_o's bounds."""
        return self.used.elimination

    @property
    def bonus(self) -> float:
        """beta."""
        return self.used.bonus

    @property
    def stream(self) -> CentralContinual:
        """Of the leaves of all rounds."""
        return self.mechanisms.matrices

    @property
    def bits_per_user(self) -> int:
        """x and the reward, for leaf and gradients; explored or not."""
        return FLOAT_BITS * (self.dim + 1) + 1

    @property
    def numbers_per_user(self) -> int:
        """x and the reward."""
        return self.dim + 1

    def matrices(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Released stacks (..., d(d+1)) as V and H, regularised: (..., d, d) each."""
        eye, unit = np.eye(self.dim), self.model.slope_bound / math.e
        v, h = self.mechanisms.leaves.unpack(stacked)
        return v + self.used.regulariser_v * eye, unit * h + self.used.regulariser_h * eye

    def v_inverse(self, stacked: Floats) -> tuple[Floats, Ints]:
        """V^{-1} of released stacks, and where V had to be shifted."""
        return positive_inverse(self.matrices(stacked)[0], floor=FLOOR * self.used.regulariser_v)

    def leaf_weights(self, theta_o: Floats, features: Floats) -> Floats:
        """w in units of L_mu/e, so that it is at most 1: (*R, d), (*R, n, d) -> (*R, n)."""
        return self.weights(theta_o, features) * math.e / self.model.slope_bound

    def outgrown(self, matrix: Floats, snapshot: Floats) -> NDArray[np.bool_]:
        """Whether matrix <= 2 snapshot fails: a pivot of the difference is not positive; (..., d, d) -> (...)."""
        gap = np.moveaxis(_GROWTH * snapshot - matrix, (-2, -1), (0, 1)).copy()  # (d, d, ...)
        broken = np.zeros(gap.shape[2:], dtype=bool)
        for k in range(self.dim):  # Cholesky pivots, all matrices at once
            broken |= ~(gap[k, k] > 0)
            pivot = np.where(broken, 1.0, gap[k, k])
            gap[k + 1 :, k + 1 :] -= gap[k + 1 :, k, None] * gap[None, k, k + 1 :] / pivot
        return broken
