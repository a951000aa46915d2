"""Privacy of the vector sum: Theorem A for the analyzer, and what the shuffler could learn."""

from __future__ import annotations

import math
from dataclasses import replace

from scipy import special

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.binomial import BinomialNoise, binomial_noise
from bandanna.accounting.calibration.refusals import left_for_coins, refusal_tail
from bandanna.accounting.events import BinomialEvent, ClearEvent
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.report import LinearReport
from bandanna.protocols.base import a_domain


def calibrate(
    domain: Domain, budget: Budget, batch: int, participations: int, calibration: str, coins: str = "device"
) -> BinomialNoise:
    """Least noise (A.4), beside what refusals cost (A.9); `paper`: the printed g, b, p [000, Thms C.1 and E.5].

    The printed noise scales with the largest l2 norm of what is summed. That is 1 for either part of a linear report,
    and half of the l2 diameter for other domains: B sqrt(s) for s averages in [-B, B] [001, IV-C and Thm 5.2(iii)].
    """
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        features, bound = domain.dim, domain.sensitivity / 2
        if isinstance(domain, LinearReport):
            features, bound = domain.features, max(1.0, domain.reward_bound)  # Delta_1, Delta_2 of Algorithm 5
        return paper.binomial_noise(
            features=features,
            bound=bound,
            users=batch,
            budget=budget,
            participations=participations,
        )
    return binomial_noise(
        sensitivity=domain.sensitivity,
        reach=domain.reach,
        dim=domain.dim,
        users=batch,
        budget=left_for_coins(budget, batch, domain.dim, participations) if coins == "checked" else budget,
        participations=participations,
    )


def event(domain: Domain, noise: BinomialNoise, coins: str = "device") -> BinomialEvent:
    """The analyzer's view of one batch: totals with Bin(B b, p) noise, whoever has drawn it; A.9 where refused."""
    view = noise.event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)
    return replace(view, tail=refusal_tail(noise.users, domain.dim)) if coins == "checked" else view


def local_event(domain: Domain, noise: BinomialNoise, coins: str = "device") -> BinomialEvent | ClearEvent:
    """The shuffler's view of one user: counts with Bin(b, p) noise only, or the rounded statistic itself."""
    if coins == "mixer":
        return ClearEvent()
    return noise.local_event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)


def exposed(domain: Domain, noise: BinomialNoise, coins: str = "device") -> float:
    """A delta that the shuffler's view of one user reaches for every epsilon (calibration.md A.3c).

    Two users at opposite ends of the widest coordinate have counts in {0..b} and {k..b+k}, k = floor(s reach): outside
    of the overlap the shuffler is sure. P(Bin(b, p) > b - k), or P(Bin(b, p) < k) if that is larger. Without coins it
    is sure unless both are rounded to one point of the lattice.
    """
    if coins == "mixer":
        return min(1.0, noise.scale * domain.reach)
    k, b, p = math.floor(noise.scale * domain.reach), noise.trials, noise.probability
    if k > b:
        return 1.0
    above, below = special.betainc([b - k + 1.0, b - k + 1.0], float(k), [p, 1 - p]) if k else (0.0, 0.0)
    return float(max(above, below))
