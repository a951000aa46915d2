"""The mechanisms and the price of GLM-JDP."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandanna import validation
from bandanna.errors import CalibrationError
from bandanna.numeric.search import find_least
from bandanna.policies.base import SumQuery
from bandanna.policies.glm.links import Link
from bandanna.policies.glm.optimisers import NoisyGradient
from bandanna.policies.glm.rs_glinucb import LeafDomain
from bandanna.privacy import accountant
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import parts_mu
from bandanna.privacy.events import CompositionEvent, Event, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import Guarantee, compute_guarantee, find_worst_guarantee
from bandanna.protocols.continual import CentralContinual

RAISED = 1.01  # at most so many times the ideal noise is used

_SIGHT = (
    ("the trusted server", "every user's contexts, arm and reward"),
    ("the public", "noisy matrices and estimates, and each user the arm chosen for them"),
)


@dataclass(frozen=True, kw_only=True)
class GLMJDPMechanisms:
    """Everything that adds noise in GLM-JDP."""

    matrices: CentralContinual  # of leaves (x x^T, (e/L_mu) w x x^T)
    estimate_o: NoisyGradient
    estimate_tau: NoisyGradient
    joint: bool = True  # leaf and gradients are of the same x, and priced so

    @property
    def leaf_part(self) -> str | None:
        """Of the features, the leaf."""
        return "weighted" if self.joint else None

    @property
    def gradient_part(self) -> str | None:
        """Of the features, a gradient."""
        return "vector" if self.joint else None

    @property
    def leaves(self) -> LeafDomain:
        """What the stream sums."""
        assert isinstance(self.matrices.domain, LeafDomain)
        return self.matrices.domain

    @property
    def lives(self) -> tuple[CompositionEvent, ...]:
        """What a replaced user pays: explored in both worlds, in neither, in exactly one."""
        shared: Event = SumQuery(protocol=self.matrices, part=self.leaf_part).event()
        whole = [
            RepetitionEvent(
                event=SumQuery(protocol=each.protocol, part=self.gradient_part).event(), times=each.event.times
            )
            for each in (self.estimate_o, self.estimate_tau)
        ]
        halves = self.estimate_o.half_event, self.estimate_tau.half_event
        return (
            *(CompositionEvent(events=(shared, each)) for each in whole),
            CompositionEvent(events=(shared, *halves)),
        )

    def satisfies(self, budget: Budget) -> bool:
        """Whether every life keeps within the budget."""
        return all(accountant.satisfies(life, budget) for life in self.lives)

    def guarantee(self, delta: float) -> Guarantee:
        """Of the most expensive life."""
        return find_worst_guarantee(
            [
                compute_guarantee(life, delta=delta, trust="central", protects="contexts and rewards", observers=_SIGHT)
                for life in self.lives
            ]
        )


def calibrate_glm_jdp(
    *,
    link: Link,
    dim: int,
    horizon: int,
    parameter_bound: float,
    budget: Budget,
    mechanism: str,
    share: float,
    steps: int,
    calls: tuple[int, int],
    joint: bool = True,
) -> GLMJDPMechanisms:
    """Least noise: mu_matrix^2 = share m^2, mu_o^2 = mu_tau^2 = (1 - share) m^2, all raised by what grids cost.

    m^2 is mu^2, divided by the share of these that worst cases can cost together where they are priced jointly.
    """
    share = validation.open_probability("share", share)
    mu = parts_mu(budget, share, weighted=True, joint=joint)
    factors = factorise(mechanism, horizon=horizon)
    std = LeafDomain(size=dim).sensitivity * factors.sensitivity() / (math.sqrt(share) * mu)

    def mechanisms(raised: float) -> GLMJDPMechanisms:
        estimates = [
            NoisyGradient.priced(
                link=link,
                dim=dim,
                parameter_bound=parameter_bound,
                steps=steps,
                mu=math.sqrt(1 - share) * mu / raised,
                calls=count,
            )
            for count in calls
        ]
        matrices = CentralContinual(domain=LeafDomain(size=dim), factorisation=factors, noise_std=raised * std)
        return GLMJDPMechanisms(matrices=matrices, estimate_o=estimates[0], estimate_tau=estimates[1], joint=joint)

    if not mechanisms(RAISED).satisfies(budget):
        raise CalibrationError(f"no noise within 1 % of the ideal meets {budget}")
    return mechanisms(find_least(lambda raised: mechanisms(raised).satisfies(budget), 1.0, RAISED, relative=1e-6))
