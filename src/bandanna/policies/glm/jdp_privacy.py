"""The price of GLM-JDP: one continual release of both matrices, and the noisy gradients of both estimates.

See `glm_jdp` for why a replaced user leads one of three lives: explored in both worlds, in neither, or in one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandanna.accounting import accountant
from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.accounting.events import CompositionEvent
from bandanna.accounting.factorisation import factorise
from bandanna.accounting.guarantee import Guarantee, guarantee_of, worst_of
from bandanna.core import require
from bandanna.core.search import least
from bandanna.errors import CalibrationError
from bandanna.glm.links import Link
from bandanna.glm.noisy_gradient import NoisyGradient
from bandanna.policies.glm.leaves import Leaves
from bandanna.protocols.central_continual import CentralContinual

_SIGHT = (
    ("the trusted server", "every user's contexts, action and reward"),
    ("everybody else", "noisy matrices and estimates, and the own action"),
)


@dataclass(frozen=True, kw_only=True)
class JDPMechanisms:
    """Everything that adds noise in GLM-JDP."""

    matrices: CentralContinual  # of leaves (x x^T, (e/L_mu) w x x^T)
    estimate_o: NoisyGradient
    estimate_tau: NoisyGradient

    @property
    def leaves(self) -> Leaves:
        """What the stream sums."""
        assert isinstance(self.matrices.domain, Leaves)
        return self.matrices.domain

    @property
    def lives(self) -> tuple[CompositionEvent, ...]:
        """What a replaced user pays: explored in both worlds, in neither, in exactly one."""
        shared, o, tau = self.matrices.event, self.estimate_o, self.estimate_tau
        return (
            CompositionEvent(events=(shared, o.event)),
            CompositionEvent(events=(shared, tau.event)),
            CompositionEvent(events=(shared, o.half_event, tau.half_event)),
        )

    def satisfies(self, budget: Budget) -> bool:
        """Whether every life keeps within the budget."""
        return all(accountant.satisfies(life, budget) for life in self.lives)

    def guarantee(self, delta: float) -> Guarantee:
        """Of the most expensive life."""
        return worst_of(
            [
                guarantee_of(life, delta=delta, trust="central", protects="contexts and rewards", observers=_SIGHT)
                for life in self.lives
            ]
        )


def calibrate(
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
) -> JDPMechanisms:
    """Least noise: mu_matrix^2 = share mu^2, mu_o^2 = mu_tau^2 = (1 - share) mu^2, all raised by what grids cost."""
    mu, share = finite_mu(budget), require.chance("share", share)
    factors = factorise(mechanism, horizon=horizon)
    std = Leaves(size=dim).sensitivity * factors.sensitivity() / (math.sqrt(share) * mu)

    def mechanisms(raised: float) -> JDPMechanisms:
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
        matrices = CentralContinual(domain=Leaves(size=dim), factorisation=factors, noise_std=raised * std)
        return JDPMechanisms(matrices=matrices, estimate_o=estimates[0], estimate_tau=estimates[1])

    if not mechanisms(1.01).satisfies(budget):
        raise CalibrationError(f"no noise within 1 % of the ideal meets {budget}")
    return mechanisms(least(lambda raised: mechanisms(raised).satisfies(budget), 1.0, 1.01, relative=1e-6))
