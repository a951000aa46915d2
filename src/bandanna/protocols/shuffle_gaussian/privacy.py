"""Privacy of the shuffled Gaussian protocol: amplification by shuffling, a Gaussian report among Gaussian reports."""

from __future__ import annotations

import math

from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration import paper
from bandanna.accounting.calibration.shuffled import shuffled_gaussian_std
from bandanna.accounting.events import ClearEvent, GaussianEvent, ShuffledGaussianEvent
from bandanna.accounting.prices import gaussian_price
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.report import LinearReport
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.protocols.base import a_domain

_TAIL = 1e-280  # of discrete noise, per coordinate of a report: next to nothing, even times the largest e^epsilon


def calibrate(domain: Domain, budget: Budget, batch: int, participations: int, calibration: str) -> float:
    """Least std per report; `paper`: [000, Thms 3.2 and E.3], for reports of features and rewards in the unit ball."""
    a_domain(domain)
    if require.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        if not (isinstance(domain, LinearReport) and domain.reward_bound == 1.0):
            raise InvalidArgument("domain", domain, "LinearReport with rewards in [-1, 1]: the paper's statistic")
        return paper.shuffled_report_std(users=batch, budget=budget, participations=participations)
    std = shuffled_gaussian_std(
        sensitivity=domain.sensitivity, dim=domain.dim, users=batch, budget=budget, participations=participations
    )
    assert isinstance(budget, ApproxDP)
    beyond = participations * 1e4 * batch**2 * domain.dim * _TAIL * (1 + math.exp(budget.epsilon))  # all reports' tails
    if budget.delta < 1e6 * beyond:
        raise InvalidBudget("delta", budget.delta, f"at least {1e6 * beyond:.1g}: less is lost in the reports' tails")
    return std * (1 + 2.0**-13)  # room for the grid of the reports, whose rounding and discreteness cost below 1e-4


def event(report: GaussianEvent, batch: int) -> ShuffledGaussianEvent | ClearEvent:
    """A batch of reports; what the grid costs a report (rounding, discrete noise) is charged to its sensitivity."""
    price = gaussian_price(report, _TAIL * report.dim)
    if math.isinf(price.mu):  # next to no noise: nothing is proven
        return ClearEvent()
    return ShuffledGaussianEvent(
        std=report.std,
        sensitivity=report.std * price.mu,
        users=batch,
        dim=report.dim,
        tail=price.tail,
    )
