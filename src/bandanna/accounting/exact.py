"""The exact privacy profile of binomial noise on one integer: no bound, a finite sum.

For X ~ Bin(n, p) and an integer shift k, the neighbours' views are X + k and X; binomial laws have monotone likelihood
ratios, so a smaller shift is never easier to see than k, and

    delta(epsilon) = max over both directions of  sum_j (P(X + k = j) - e^epsilon P(X = j))_+ .

Terms farther than 7 sqrt(n) from the mean are left out: by Hoeffding they hold at most 2 e^-98, which is added.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bandanna.accounting.lattice import binomial_law

MOST_TRIALS = 10**8  # 14 sqrt(n) terms: up to here the sum is quick
_LEFT_OUT = 2 * math.exp(-98)
_SLACK = 1e-9  # relative allowance for rounding errors of the masses (about 1e-13) and of the sum


@lru_cache(maxsize=4096)
def binomial_delta(trials: int, probability: float, shift: int, epsilon: float) -> float:
    """Smallest delta at `epsilon` for integers that differ by at most `shift`, with Bin(trials, probability) noise."""
    law = binomial_law(trials, probability)
    mean, reach = trials * probability, 7 * math.sqrt(trials)
    first, last = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    points = np.arange(first - shift, last + shift + 1, dtype=float)
    mass = np.exp(law.log_mass(points))
    moved, still = mass[:-shift], mass[shift:]  # of X + shift and of X, at first .. last + shift
    factor = math.exp(min(epsilon, 700.0))
    upwards = np.sum(np.maximum(moved - factor * still, 0.0))
    downwards = np.sum(np.maximum(still - factor * moved, 0.0))
    return min(1.0, float(max(upwards, downwards)) * (1 + _SLACK) + _LEFT_OUT)
