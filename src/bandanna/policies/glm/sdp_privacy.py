"""The price of one batch of GLM-SDP: a shuffled matrix sum and N shuffled gradient sums of the same users."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.calibration.binomial import noise_of_std
from bandanna.accounting.calibration.gaussian import parts_mu
from bandanna.accounting.events import BinomialEvent, CompositionEvent, Event, RecordEvent, RepetitionEvent
from bandanna.accounting.guarantee import Guarantee, guarantee_of
from bandanna.core.search import least
from bandanna.errors import CalibrationError
from bandanna.glm.descent import gradient_ball
from bandanna.glm.links import Link
from bandanna.glm.shuffled_gradient import OuterProducts, ShuffledGradient
from bandanna.protocols.roles import shuffler_sees
from bandanna.protocols.shuffle_binomial import ShuffleBinomial


@dataclass(frozen=True, kw_only=True)
class BatchMechanisms:
    """The calibrated sums of one batch; `delta` is where the guarantee is stated."""

    matrix: ShuffleBinomial
    optimiser: ShuffledGradient
    delta: float
    joint: bool = True  # matrix and gradients are of the same x, and priced so

    @property
    def matrix_part(self) -> str | None:
        """Of the features, the matrix."""
        return "weighted" if self.joint else None

    @property
    def gradient_part(self) -> str | None:
        """Of the features, a gradient."""
        return "vector" if self.joint else None

    @property
    def outer(self) -> OuterProducts:
        """The domain of the matrices."""
        domain = self.matrix.domain
        assert isinstance(domain, OuterProducts)
        return domain

    @property
    def event(self) -> Event:
        """What one user of the batch pays, all N + 1 shuffles together."""
        return self._composed(self.matrix.event, self.optimiser.protocol.event)

    @property
    def local(self) -> Event:
        """What the shuffler sees of one user."""
        return self._composed(self.matrix.local_event, self.optimiser.protocol.local_event)

    def _composed(self, matrix: Event, gradient: Event) -> Event:
        """One matrix and N gradients of a user; in the clear they are no parts of anything."""
        if self.joint and isinstance(matrix, BinomialEvent) and isinstance(gradient, BinomialEvent):
            matrix = RecordEvent(event=matrix, part="weighted")
            gradient = RecordEvent(event=gradient, part="vector")
        return CompositionEvent(events=(matrix, RepetitionEvent(event=gradient, times=self.optimiser.steps)))

    @property
    def guarantee(self) -> Guarantee:
        """Shuffle differential privacy, and what is left against the shuffler."""
        seen = shuffler_sees(self.matrix.coins, "counts", "statistics")
        return guarantee_of(
            self.event,
            delta=self.delta,
            trust="shuffle",
            protects="contexts and rewards",
            observers=(
                ("the shuffler", f"{seen}, in every shuffle of the batch"),
                ("the analyzer and everybody else", "the totals of each shuffle of a batch"),
            ),
            local=self.local,
            exposed=max(self.matrix.exposed, self.optimiser.protocol.exposed),
        )

    @property
    def bits_per_user(self) -> int:
        """Of all messages of a user."""
        return self.matrix.bits_per_user + self.optimiser.steps * self.optimiser.protocol.bits_per_user

    def matrix_noise(self, dim: int, failure: float) -> float:
        """The noise of the matrix stays below this in norm except with probability `failure`.

        s (sqrt(2d) + sqrt(2 log(2/failure))) with s the std of a packed entry: exact for Gaussian noise, which the
        sum of very many coins is near to; bounds rest on it, privacy does not.
        """
        return self.matrix.noise.std() * (math.sqrt(2 * dim) + math.sqrt(2 * math.log(2 / failure)))


def calibrate(
    *,
    link: Link,
    dim: int,
    parameter_bound: float,
    budget: ApproxDP,
    users: int,
    weight_bound: float,
    share: float,
    steps: int,
    coins: str = "device",
    joint: bool = True,
) -> BatchMechanisms:
    """Least noise: mu_matrix^2 = share m^2, steps mu_gradient^2 = (1 - share) m^2, raised as the accountant asks.

    m as in `parts_mu`.
    """
    mu = parts_mu(budget, share, weighted=True, joint=joint)
    outer = OuterProducts(size=dim, bound=weight_bound)
    ball = gradient_ball(link, dim, parameter_bound)
    stds = (
        outer.sensitivity / (mu * math.sqrt(share)),
        ball.sensitivity * math.sqrt(steps) / (mu * math.sqrt(1 - share)),
    )

    def mechanisms(raised: float) -> BatchMechanisms:
        sums = [
            ShuffleBinomial(
                domain=domain,
                noise=noise_of_std(
                    raised * std, sensitivity=domain.sensitivity, dim=domain.dim, users=users, composed=True
                ),
                delta=budget.delta,
                coins=coins,
            )
            for domain, std in zip((outer, ball), stds, strict=True)
        ]
        gradient = ShuffledGradient(link=link, parameter_bound=parameter_bound, steps=steps, protocol=sums[1])
        return BatchMechanisms(matrix=sums[0], optimiser=gradient, delta=budget.delta, joint=joint)

    def meets(raised: float) -> bool:
        return accountant.satisfies(mechanisms(raised).event, budget)

    high = next((raised for raised in (1.02, 1.05, 1.1) if meets(raised)), None)
    if high is None:
        raise CalibrationError(f"no binomial noise within 10 % of the ideal meets {budget} in a batch of {users}")
    return mechanisms(least(meets, 1.0, high, relative=1e-4))
