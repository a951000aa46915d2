"""Least Gaussian noise per report, so that a shuffled batch keeps a promise: amplification by shuffling."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    sensitivity, dim = require.positive("sensitivity", sensitivity), require.whole("dim", dim)
    users = require.whole("batch", users, least=2)
    participations = require.whole("participations", participations, most=100_000)
    central = math.sqrt(participations) / finite_mu(budget)

    def search_std() -> dict[str, float]:
        return {
            "std": amplification.composed_shuffled_gaussian_std(
                sensitivity=1.0, users=users, times=participations, epsilon=budget.epsilon, delta=budget.delta
            )
        }

    def meets(found: Mapping[str, float]) -> bool:
        """One evaluation of the accountant, below a second: a file is never trusted with a promise."""
        if not central / math.sqrt(users) * (1 - 1e-9) <= found["std"] <= central * (1 + 1e-9):
            return False  # less noise than the sums alone need, or more than reports need without a shuffler
        one = events.ShuffledGaussianEvent(std=found["std"], sensitivity=1.0, users=users, dim=dim)
        return accountant.satisfies(events.RepetitionEvent(event=one, times=participations), budget)

    key = {"users": users, "epsilon": budget.epsilon, "delta": budget.delta, "participations": participations}
    key["bound"] = 3  # what was found with the clones bound would do, but has more noise
    return sensitivity * float(cache.remember("shuffled", key, search_std, valid=meets)["std"])
