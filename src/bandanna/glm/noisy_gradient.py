"""Private estimation by noisy projected gradient steps, priced in zCDP (paper [003], Lemma U.4).

    g_j = sum_i clip(mu(<x_i, theta_j>) - r_i) x_i + z_j,       z_j ~ N(0, std^2 I),

with the steps of `descent`. Symbols: N `steps`; S `parameter_bound`; G = sup |mu - r| the residuals' bound; t `count`,
a public number.

Privacy. Features are clipped to |x| <= 1 and residuals to [-G, G], so one user's gradient has norm at most G and the
sum moves by at most 2G when a user is replaced, by at most G when one is added or removed. Step sizes, N, the start and
the projection depend on public quantities only, the regulariser on no data at all. Hence every step is a Gaussian
release of price 2G/std, and a call costs rho = N (2G)^2 / (2 std^2) in zCDP; later gradients are taken at points that
depend on earlier releases, which adaptive composition allows.

Utility. For the lemma's rule the excess of the mean loss is bounded in `descent`; in expectation by

    2S L / sqrt N + S d std^2 / (t^2 L sqrt N).

With std^2 = 2 G^2 N / rho and N = rho t^2 / (2 (d + log(1/failure))) this is at most
2.13 * 2S L sqrt(d + log(1/failure)) / (t sqrt rho); with fewer steps than that the first term is larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandanna.accounting.events import RepetitionEvent
from bandanna.core import require
from bandanna.glm.descent import GradientSums, gradient_ball
from bandanna.glm.links import Link
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.protocols.central_gaussian import CentralGaussian


@dataclass(frozen=True, kw_only=True)
class NoisyGradient(GradientSums):
    """`calls` estimations of `steps` noisy gradients each, by a trusted server."""

    protocol: CentralGaussian
    calls: int = 1

    def __post_init__(self) -> None:
        require.store(self, require.whole, "steps", "calls")
        require.store(self, require.positive, "parameter_bound")

    @classmethod
    def of_std(
        cls, std: float, *, link: Link, dim: int, parameter_bound: float, steps: int, calls: int = 1
    ) -> NoisyGradient:
        """With Gaussian noise of this standard deviation in every coordinate of a sum."""
        protocol = CentralGaussian(domain=gradient_ball(link, dim, parameter_bound), noise_std=std)
        return cls(link=link, parameter_bound=parameter_bound, steps=steps, protocol=protocol, calls=calls)

    @classmethod
    def priced(
        cls, *, link: Link, dim: int, parameter_bound: float, steps: int, mu: float, calls: int = 1
    ) -> NoisyGradient:
        """All calls together cost `mu` in Gaussian DP (rho = mu^2/2), the grid's share aside.

        (2G)^2 steps calls / std^2 = mu^2.
        """
        bound = link.residual_bound(parameter_bound)
        std = 2 * bound * math.sqrt(steps * calls) / require.positive("mu", mu)
        return cls.of_std(std, link=link, dim=dim, parameter_bound=parameter_bound, steps=steps, calls=calls)

    @property
    def std(self) -> float:
        """Of the noise in each coordinate of a sum."""
        return self.protocol.noise_std

    @property
    def event(self) -> RepetitionEvent:
        """What a user whose data are replaced pays over all calls: sensitivity 2G."""
        return RepetitionEvent(event=self.protocol.event, times=self.steps * self.calls)

    @property
    def half_event(self) -> RepetitionEvent:
        """What a user pays whose data are added or removed: sensitivity G, on the grid that is used."""
        whole = self.protocol.mechanism
        added = Gaussian(std=whole.std, sensitivity=self.residual_bound, dim=whole.dim, grid=whole.step)
        return RepetitionEvent(event=added.event, times=self.steps * self.calls)


def lemma_steps(*, rho: float, count: int, dim: int, failure: float, most: int = 500) -> int:
    """N = rho t^2 / (2 (d + log(1/failure))) of Lemma U.4, between 1 and a cap.

    Each step reads all rows, so N steps cost t N: uncapped that is t^3. Fewer steps have a larger `excess_bound`.
    """
    balanced = math.ceil(rho * count**2 / (2 * (dim + math.log(1 / require.chance("failure", failure)))))
    return max(1, min(most, balanced))
