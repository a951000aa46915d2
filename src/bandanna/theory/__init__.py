"""Regret bounds of the papers as functions: where each is proven, for what, and whether its constants are known.

    from bandanna.theory import finite
    finite.adac_ucb_worst(horizon=1e7, n_arms=5, rho=0.1, optimism=3.1)

`BOUNDS` lists them all; those that belong to a policy are named by its `bounds` (`result.bounds()` evaluates them).
"""

from __future__ import annotations

from bandanna.theory import contextual, counting, distributed, finite, generalised, linear, public_contexts
from bandanna.theory.catalogue import BOUNDS, Bound

__all__ = [
    "BOUNDS",
    "Bound",
    "contextual",
    "counting",
    "distributed",
    "finite",
    "generalised",
    "linear",
    "public_contexts",
]
