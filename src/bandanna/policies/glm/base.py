"""What every generalised linear policy knows: the link, the bound S on |theta|, and kappa."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.linalg import first_best
from bandanna.errors import InvalidArgument
from bandanna.glm.links import Link, Logistic, link_of

Floats = NDArray[np.float64]

PRESETS = ("published", "corrected")


@dataclass(frozen=True, kw_only=True)
class GLMPolicy:
    """A contextual bandit with `dim` features over `horizon` rounds and mean rewards mu(<x, theta>).

    link             a `Link`, or "logistic", "probit", "linear"
    parameter_bound  S, a bound on |theta|
    kappa            an upper bound on 1/mu'(<x, theta>) over all arms; None: what S implies, max over |z| <= S
    failure          probability with which the confidence sets may fail

    Features are clipped to the unit ball and rewards to [0, R] before anything is computed from them.
    """

    dim: int
    horizon: int
    link: Link | str = Logistic()
    parameter_bound: float = 1.0
    kappa: float | None = None
    failure: float = 0.05

    def __post_init__(self) -> None:
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

    @property
    def model(self) -> Link:
        """The link."""
        return link_of(self.link)

    @cached_property
    def curvature(self) -> float:
        """kappa, as given or as S implies."""
        return self.model.kappa(self.parameter_bound) if self.kappa is None else float(self.kappa)

    @property
    def guarantee(self) -> Guarantee:
        """None: everything is computed from raw data."""
        return Guarantee(trust="none", epsilon=math.inf, delta=0.0, protects="contexts and rewards")

    @property
    def log_term(self) -> float:
        """log(T/failure)."""
        return math.log(self.horizon / self.failure)


def quadratic(contexts: Floats, inverse: Floats) -> Floats:
    """|x|^2_{A^{-1}} for every arm: (*R, K, d), (*R, d, d) -> (*R, K)."""
    return np.asarray(np.maximum(np.einsum("...i,...i->...", contexts @ inverse, contexts), 0.0))


def optimistic(values: Floats, spread: Floats) -> NDArray[np.int64]:
    """The first arm with the largest value plus spread, both (*R, K)."""
    return first_best(values + spread)


def rank_one(inverse: Floats, x: Floats, weight: Floats | float = 1.0) -> Floats:
    """(A + w x x^T)^{-1} from A^{-1}: (*R, d, d), (*R, d), (*R) -> (*R, d, d) (Sherman and Morrison 1950)."""
    y = (inverse @ x[..., None])[..., 0]  # A^{-1} x
    shrink = np.asarray(weight) / (1 + np.asarray(weight) * np.sum(y * x, axis=-1))
    return np.asarray(inverse - shrink[..., None, None] * y[..., :, None] * y[..., None, :])
