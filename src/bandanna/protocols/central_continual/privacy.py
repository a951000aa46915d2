"""Privacy of the continual protocol."""

from __future__ import annotations

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.gaussian import continual_std
from bandanna.accounting.events import ContinualEvent
from bandanna.accounting.factorisation import Factorisation, factorise
from bandanna.accounting.grid import fine_grid
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.protocols.base import a_domain


def calibrate(
    domain: Domain, budget: Budget, horizon: int, mechanism: str, participations: int, calibration: str
) -> tuple[Factorisation, float]:
    """std = Delta_2 |C|_M0 / mu(epsilon, delta); `paper`: a binary tree, classical Gaussian formula [000, E.7]."""
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        tree = factorise("tree", horizon=horizon)
        change = participations * domain.sensitivity * tree.sensitivity()
        return tree, paper.gaussian_std(sensitivity=change, budget=budget)
    factors = factorise(mechanism, horizon=horizon)
    std = continual_std(
        factorisation=factors,
        sensitivity=domain.sensitivity,
        dim=domain.dim,
        budget=budget,
        participations=participations,
    )
    return factors, std


def event(domain: Domain, factorisation: Factorisation, std: float, participations: int) -> ContinualEvent:
    """The whole stream as one event, on the grid of the mechanism."""
    change = participations * domain.sensitivity * factorisation.sensitivity()
    return ContinualEvent(
        factorisation=factorisation,
        std=std,
        sensitivity=domain.sensitivity,
        participations=participations,
        dim=domain.dim,
        grid=fine_grid(std, change, domain.dim * factorisation.releases(participations)),
    )
