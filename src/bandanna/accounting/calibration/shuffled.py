"""Least Gaussian noise per report, so that a shuffled batch keeps a promise: amplification by shuffling."""

from __future__ import annotations

from bandanna.accounting import accountant, amplification, cache, events
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.core import require
from bandanna.errors import InvalidBudget


def shuffled_gaussian_std(
    *, sensitivity: float, dim: int, users: int, budget: Budget, participations: int = 1
) -> float:
    """Least std of every report, a user being in at most `participations` shuffled batches of `users`.

    At most that of the local mechanism (which needs no shuffler), and never below what the exact accounting proves.
    """
    if not isinstance(budget, ApproxDP):
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta): amplification by shuffling has no other form")
    users = require.whole("batch", users, least=2)
    participations = require.whole("participations", participations)
    finite_mu(budget)

    def search_std() -> dict[str, float]:
        return {
            "std": amplification.composed_shuffled_gaussian_std(
                sensitivity=1.0, users=users, times=participations, epsilon=budget.epsilon, delta=budget.delta
            )
        }

    key = {"users": users, "epsilon": budget.epsilon, "delta": budget.delta, "participations": participations}
    std = float(cache.remember("shuffled", key, search_std)["std"]) * sensitivity
    if participations == 1:  # quick to check: never trust a file with a promise (composition takes seconds to redo)
        one = events.ShuffledGaussianEvent(std=std, sensitivity=sensitivity, users=users, dim=dim)
        if not accountant.satisfies(one, budget):
            std = search_std()["std"] * sensitivity
    return std
