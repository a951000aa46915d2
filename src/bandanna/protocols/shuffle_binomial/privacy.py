"""Privacy of the vector sum: Theorem A for the analyzer, and what the shuffler could learn."""

from __future__ import annotations

import math

from scipy import special

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.binomial import BinomialNoise, binomial_noise
from bandanna.accounting.events import BinomialEvent
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.report import LinearReport
from bandanna.protocols.base import a_domain


def calibrate(domain: Domain, budget: Budget, batch: int, participations: int, calibration: str) -> BinomialNoise:
    """Least noise (A.4); `paper`: the printed g, b, p [000, Thms C.1 and E.5]."""
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        features = domain.features if isinstance(domain, LinearReport) else domain.dim
        return paper.binomial_noise(
            features=features,
            bound=domain.reach / 2,
            users=batch,
            budget=budget,
            participations=participations,
        )
    return binomial_noise(
        sensitivity=domain.sensitivity,
        reach=domain.reach,
        dim=domain.dim,
        users=batch,
        budget=budget,
        participations=participations,
    )


def event(domain: Domain, noise: BinomialNoise) -> BinomialEvent:
    """The analyzer's view of one batch: totals with Bin(B b, p) noise."""
    return noise.event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)


def local_event(domain: Domain, noise: BinomialNoise) -> BinomialEvent:
    """The shuffler's view of one user: counts with Bin(b, p) noise only."""
    return noise.local_event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)


def exposed(domain: Domain, noise: BinomialNoise) -> float:
    """A delta that the shuffler's view of one user reaches for every epsilon (calibration.md A.3c).

    Two users at opposite ends of the widest coordinate have counts in {0..b} and {k..b+k}, k = floor(s reach): outside
    of the overlap the shuffler is sure. P(Bin(b, p) > b - k), or P(Bin(b, p) < k) if that is larger.
    """
    k, b, p = math.floor(noise.scale * domain.reach), noise.trials, noise.probability
    if k > b:
        return 1.0
    above, below = special.betainc([b - k + 1.0, b - k + 1.0], float(k), [p, 1 - p]) if k else (0.0, 0.0)
    return float(max(above, below))
