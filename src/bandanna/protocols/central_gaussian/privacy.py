"""Privacy of the central Gaussian protocol."""

from __future__ import annotations

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.gaussian import gaussian_std
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.protocols.base import a_domain


def calibrate(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """std = sqrt(M) Delta_2 / mu(epsilon, delta), the analytic Gaussian mechanism (Balle and Wang 2018)."""
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        return paper.gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)
