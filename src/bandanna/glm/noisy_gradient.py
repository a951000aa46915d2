"""Private estimation by noisy projected gradient steps, priced in zCDP (paper [003], Lemma U.4).

    g_j = sum_i clip(mu(<x_i, theta_j>) - r_i) x_i + z_j,       z_j ~ N(0, std^2 I),

with the steps of `descent`. Symbols: N `steps`; S `parameter_bound`; G = sup |mu - r| the residuals' bound; t `count`,
a public number.

Privacy. Features are clipped to |x| <= 1 and residuals to [-G, G], so one user's gradient has norm at most G and the
sum moves by at most 2G when a user is replaced, by at most G when one is added or removed. Step sizes, N, the start and
the projection depend on public quantities only, the regulariser on no data at all. Hence every step is a Gaussian
release of price 2G/std, and a call costs rho = N (2G)^2 / (2 std^2) in zCDP; later gradients are taken at points that
depend on earlier releases, which adaptive composition allows.

Utility. For the lemma's rule, on the mean loss F = L/t over |theta| <= S:

    E[F(mean)] - min F <= 2S L / sqrt N + S d std^2 / (t^2 L sqrt N)

(the usual bound D^2/(2 eta N) + (eta/2)(L^2 + d std^2/t^2) with D = 2S). With std^2 = 2 G^2 N / rho and
N = rho t^2 / (2 (d + log(1/failure))) this is at most 2.13 * 2S L sqrt(d + log(1/failure)) / (t sqrt rho).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.events import RepetitionEvent
from bandanna.core import require
from bandanna.core.domain import all_finite, clip_norm
from bandanna.core.sums import Pair, exact_sum
from bandanna.device.noise import noise_source
from bandanna.glm.descent import Project, descend, lipschitz
from bandanna.glm.likelihood import linear_parts
from bandanna.glm.links import Link
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class NoisyGradient:
    """`calls` estimations of `steps` noisy gradients each, with Gaussian noise of standard deviation `std`."""

    link: Link
    dim: int
    parameter_bound: float
    steps: int
    std: float
    calls: int = 1

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", "steps", "calls")
        require.store(self, require.positive, "parameter_bound", "std")

    @classmethod
    def priced(
        cls, *, link: Link, dim: int, parameter_bound: float, steps: int, mu: float, calls: int = 1
    ) -> NoisyGradient:
        """All calls together cost `mu` in Gaussian DP (rho = mu^2/2), the grid's share aside.

        (2G)^2 steps calls / std^2 = mu^2.
        """
        bound = link.residual_bound(parameter_bound)
        std = 2 * bound * math.sqrt(steps * calls) / require.positive("mu", mu)
        return cls(link=link, dim=dim, parameter_bound=parameter_bound, steps=steps, std=std, calls=calls)

    @property
    def residual_bound(self) -> float:
        """G."""
        return self.link.residual_bound(self.parameter_bound)

    @cached_property
    def mechanism(self) -> Gaussian:
        """One noisy sum of gradients under replacement: sensitivity 2G."""
        return Gaussian(std=self.std, sensitivity=2 * self.residual_bound, dim=self.dim)

    @property
    def event(self) -> RepetitionEvent:
        """What a user whose data are replaced pays over all calls."""
        return RepetitionEvent(event=self.mechanism.event, times=self.steps * self.calls)

    @property
    def half_event(self) -> RepetitionEvent:
        """What a user pays whose data are added or removed: sensitivity G, on the grid that is used."""
        added = Gaussian(std=self.std, sensitivity=self.residual_bound, dim=self.dim, grid=self.mechanism.step)
        return RepetitionEvent(event=added.event, times=self.steps * self.calls)

    def clipped_sum(
        self,
        theta: Floats,
        features: Floats,
        rewards: Floats,
        weights: Floats | None = None,
        *,
        exact: bool = False,
    ) -> Pair:
        """sum_i w_i clip(mu - r) x_i with |x_i| <= 1, w_i 0 or 1: (*R, n, d), (*R, n) -> (*R, d), terms of norm <= G.

        exact: without the rounding errors of a plain sum, by which neighbours could differ beyond 2G. A pair of floats.
        """
        residuals = self.link.mean(linear_parts(features, theta)) - rewards
        residuals = np.clip(residuals, -self.residual_bound, self.residual_bound)
        if weights is not None:
            residuals = residuals * (weights != 0)
        if exact:
            return exact_sum(residuals[..., None] * features, self.residual_bound)
        total = np.asarray((residuals[..., None, :] @ features)[..., 0, :])
        return total, np.zeros_like(total)

    def minimise(
        self,
        features: Floats,
        rewards: Floats,
        source: NoiseSource,
        *,
        count: int,
        ridge: float,
        start: Floats | None = None,
        weights: Floats | None = None,
        matrix: Floats | None = None,
        project: Project | None = None,
    ) -> Floats:
        """One call on features (*R, n, d), rewards (*R, n), `weights` 0 or 1 (*R, n): theta (*R, d).

        `count`: the public number t that scales the steps, never the private number of rows; `matrix`: a public
        positive definite matrix (*R, d, d) for Newton steps in place of the lemma's; `project`: onto a public set,
        the ball |theta| <= S by default.
        """
        all_finite("features", features)
        all_finite("rewards", rewards)
        x, exact = clip_norm(features, 1.0), noise_source(source).secure

        def noisy_sum(theta: Floats) -> Floats:
            total, rest = self.clipped_sum(theta, x, rewards, weights, exact=exact)
            return self.mechanism.release(total, source, rest=rest)

        return descend(
            noisy_sum,
            np.zeros((*x.shape[:-2], self.dim)) if start is None else np.array(start, dtype=float),
            steps=self.steps,
            ridge=ridge,
            count=count,
            residual_bound=self.residual_bound,
            parameter_bound=self.parameter_bound,
            matrix=matrix,
            project=project,
        )

    def excess_bound(self, *, count: int, ridge: float) -> float:
        """Expected excess of the mean loss by the lemma's rule, from the formula above, for any `count` rows."""
        s, root = self.parameter_bound, math.sqrt(self.steps)
        slope = lipschitz(self.residual_bound, ridge, s, count)
        return 2 * s * slope / root + s * self.dim * self.std**2 / (count**2 * slope * root)


def lemma_steps(*, rho: float, count: int, dim: int, failure: float, most: int = 500) -> int:
    """N = rho t^2 / (2 (d + log(1/failure))) of Lemma U.4, between 1 and a cap (which only loses the 1/sqrt N term)."""
    balanced = math.ceil(rho * count**2 / (2 * (dim + math.log(1 / require.chance("failure", failure)))))
    return max(1, min(most, balanced))
