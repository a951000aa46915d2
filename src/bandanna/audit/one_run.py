"""One run with many canaries: for targets that are too expensive to be run thousands of times.

m people toss a fair coin each, which decides which of two statistics they have. From the one output r coins are guessed
(the others are left open), v of them rightly. If the target is epsilon-private, every guess is right with probability
at most q = e^epsilon / (1 + e^epsilon) given all others, so that v is at most binomial; with delta > 0,

    P(v or more right) <= beta + 2 m delta alpha,     W ~ Bin(r, q),
    beta = P(W >= v),     alpha = max over i >= 1 of P(v > W >= v - i) / i.

A claim is refuted where this is below 1 - confidence. Replacement adjacency suits it: a coin chooses between a person's
two statistics, and the number of people is public.
Reference: Steinke, Nasr and Jagielski 2023, Theorem 5.2 (the two chances of a canary there, in and out, are two
statistics here). The bound holds for every number of guesses that is fixed before the output is seen.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from bandanna.core import require, search

_MOST = 100.0


def chance_of(right: int, *, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """At most this likely are so many right guesses, if the claim is true."""
    q = 1 / (1 + math.exp(-epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, q))
    if delta == 0.0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, q))  # P(v > W >= v - i), i = 1, 2, ...
    alpha = float(np.max(below / np.arange(1, right + 1)))
    return min(1.0, beta + 2 * canaries * delta * alpha)


def one_run_bound(right: int, *, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """The least epsilon at delta that so many right guesses leave possible, with confidence."""
    right = require.whole("right", right, least=0, most=guesses)
    require.whole("guesses", guesses, most=canaries)
    failure = 1 - require.chance("confidence", confidence)

    def refuted(epsilon: float) -> bool:
        return chance_of(right, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta) <= failure

    if not refuted(1e-9):
        return 0.0
    return _MOST if refuted(_MOST) else search.greatest(refuted, 1e-9, _MOST, relative=1e-6)
