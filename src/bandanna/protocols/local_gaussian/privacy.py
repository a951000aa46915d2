"""Privacy of the local Gaussian protocol."""

from __future__ import annotations

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.gaussian import gaussian_std
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.report import LinearReport
from bandanna.protocols.base import a_domain


def calibrate(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """std = sqrt(M) Delta_2 / mu(epsilon, delta) per report; `paper`: [000, Prop. F.1] or [001, Thm 4.4]."""
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        if isinstance(domain, LinearReport) and domain.reward_bound == 1.0:
            return paper.report_std(budget=budget, participations=participations)
        return paper.gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)
