"""Counters with k concurrent shufflers: how far the running count can be from the truth, from above and from below.

Symbols: n `horizon` (users), k `shufflers`, epsilon, delta, beta `failure`.
Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Corollary 3.5 and Theorem 4.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.theory.catalogue import above, plain, states, within


@states(
    "upper",
    "002",
    "Corollary 3.5",
    explicit=False,
    holds="the tree of k concurrent shufflers on bits, all prefixes at once; epsilon < 1, delta < 1/2",
)
def counter_rate(
    *, horizon: Any, shufflers: int, epsilon: Any, delta: Any, failure: float = 0.05, constant: float = 1.0
) -> Any:
    """(k^(3/2) / epsilon) sqrt(log(k/delta)) n^(1/(2k+1)) sqrt(log(1/beta) + log n)."""
    n, k = above("horizon", horizon, 0), int(above("shufflers", shufflers, 1, strict=False))
    spread = np.sqrt(np.log(k / within("delta", delta, 0, 1))) * k**1.5 / above("epsilon", epsilon, 0)
    return plain(constant * spread * n ** (1 / (2 * k + 1)) * np.sqrt(np.log(n / within("failure", failure, 0, 1))))


@states(
    "lower",
    "002",
    "Theorem 4.1",
    explicit=False,
    holds="every (epsilon, delta) counter of bits with k shufflers, delta < min(epsilon, 1)/(40 n (k + 1)), n large",
)
def counter_lower_rate(*, horizon: Any, shufflers: int, epsilon: Any, constant: float = 1.0) -> Any:
    """rep_{n,k} = n^(1/(2k+1)) c^(2k/(2k+1)) / 2, c = e^epsilon / (e^(2 epsilon) + 1); k = 0 is n/2.

    With constant probability some reported count is off by Omega(rep); the theorem leaves the constant open.
    """
    n, k = above("horizon", horizon, 0), int(above("shufflers", shufflers, 0, strict=False))
    small = np.exp(-above("epsilon", epsilon, 0))
    c = small / (1 + small**2)  # e^eps / (e^(2 eps) + 1)
    return plain(constant * n ** (1 / (2 * k + 1)) * c ** (2 * k / (2 * k + 1)) / 2)
