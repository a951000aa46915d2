"""Privacy of the central Laplace protocol: pure, and exactly so, since noise and sums are integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.device.noise import LARGEST
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.protocols.base import a_domain

FINEST = 2**20  # lattice steps
_MOST = 2**61  # steps of a sum, which with its noise is a 64-bit integer


def shift(domain: Domain, steps: int) -> float:
    """Most by which one user changes the rounded sum, in l1 and lattice steps.

    |round(a) - round(b)| <= |a - b| + 1 in each coordinate: Delta_1 / h + dim, and no coordinate leaves its range. The
    sums are exact (`core/sums.py`), and so is this number, however many steps there are: floats would lose some.
    """
    step = Fraction(domain.reach / require.whole("steps", steps))
    spare = Fraction(domain.reach) / 2**61  # where `exact_sum` cuts a statistic
    ends = np.stack([domain.lower - domain.origin, domain.upper - domain.origin])  # what is summed
    (lows, highs), counts = np.unique(ends, axis=1, return_counts=True)
    ranges = (Fraction(high) - Fraction(low) + spare for low, high in zip(lows.tolist(), highs.tolist(), strict=True))
    apart = sum(count * math.floor(width / step) for width, count in zip(ranges, counts.tolist(), strict=True))
    longest = Fraction(domain.l1_sensitivity) * (1 + Fraction(domain.dim + 16, 2**52))  # clipped up to rounding errors
    most = min(apart, math.floor(longest / step)) + domain.dim
    return float(most) if float(most) >= most else math.nextafter(float(most), math.inf)


def most_users(steps: int) -> int:
    """So few that 64-bit integers hold their sum on the lattice."""
    return _MOST // steps


def finest(users: int) -> int:
    """Steps of the finest lattice, up to 2^20, that holds sums of so many users."""
    if users > _MOST:
        raise InvalidArgument("users", users, f"at most {_MOST}: no lattice holds their sum")
    return min(FINEST, most_users(users))


def calibrate(domain: Domain, budget: Budget, participations: int, steps: int) -> float:
    """scale = M shift / epsilon, in lattice steps (Ghosh, Roughgarden and Sundararajan 2009)."""
    a_domain(domain)
    if not isinstance(budget, PureDP | ApproxDP) or math.isinf(budget.epsilon):
        raise InvalidBudget("budget", budget, "PureDP(epsilon) with a finite epsilon")
    lost = require.whole("participations", participations) * shift(domain, steps)
    if lost > LARGEST * budget.epsilon:
        raise InvalidBudget("budget", budget, f"epsilon >= {lost / LARGEST:.3g} on a lattice of {steps} steps")
    return lost / budget.epsilon * (1 + 1e-15)  # rounded up: what is stated is never above the budget
