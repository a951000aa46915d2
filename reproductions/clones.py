"""The clones bound: shuffled reports of which nothing is known but their local epsilon.

Papers use it (000, after Feldman, McMillan and Talwar); docs/appendix/proofs.md B compares Theorem B with it. Symbols:
n `users`, eps0 `local_epsilon`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna import validation
from bandanna.errors import InvalidBudget

_DEVIATIONS = 10.0  # of C, left and right of its mean, that are resolved; beyond them two coarse buckets
_MARGIN = 40  # clones added to that range, for means of a few clones where the law is not Gaussian


@lru_cache(maxsize=64)  # searches over epsilon repeat the same arguments
def clone_buckets(
    *, users: int, local_epsilon: float, fineness: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return C ~ Bin(n - 1, e^-eps0) in buckets: their least values and their masses, (K,) each.

    A bucket is at most E[C] / `fineness` wide. A pair with more clones is a post-processing of one with fewer (toss the
    missing coins), so the least value of a bucket may stand for all its values.
    """
    others, absent = users - 1, -math.expm1(-local_epsilon)  # n - 1, 1 - e^-eps0
    mean = others * math.exp(-local_epsilon)
    reach = _DEVIATIONS * math.sqrt(mean * absent) + _MARGIN
    first, last = max(0, math.floor(mean - reach)), min(others, math.ceil(mean + reach))
    least = np.arange(first, last + 1, max(1, math.floor(mean / fineness)), dtype=float)  # (K,)
    if first > 0:
        least = np.concatenate([[0.0], least])  # everything below the range counts as no clone at all
    fewer = special.betainc(others - least + 1, np.maximum(least, 1.0), absent)  # P(C < least), for least > 0
    mass = np.maximum(np.diff(np.where(least > 0, fewer, 0.0), append=1.0), 0.0)
    least.flags.writeable = mass.flags.writeable = False
    return least, mass


def clones_delta(*, users: int, local_epsilon: float, epsilon: ArrayLike, fineness: float = 1e5) -> NDArray[np.float64]:
    """Return the hockey-stick divergence of the clones pair at `epsilon` (scalar or array).

    It bounds delta for shuffled reports of which nothing is known but their eps0 (Feldman, McMillan and Talwar, FOCS
    2021, arXiv 2012.12803, Theorem 3.2). They are a post-processing of

        P = (A + D, C - A + 1 - D)   and   Q = (A + 1 - D, C - A + D),
        C ~ Bin(n - 1, e^-eps0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(e^eps0 / (1 + e^eps0)).

    Given C = c, the divergence is the sum of P - e^epsilon Q over first counts k > tau (c + 1),

        (p - q e^epsilon) Bin(c, 1/2)(j*) - (e^epsilon - 1) P(Bin(c, 1/2) < j*),   p = 1 - q = P(D = 1),
        j* = ceil((1 - tau) (c + 1)) - 1,   1 - tau = (1 - tanh(epsilon/2) / tanh(eps0/2)) / 2.

    Exact to rounding while E[C] < 2 `fineness`; beyond, too large by at most 2e-4 (relative, delta >= 1e-13).
    """
    users, local = validation.integer("users", users), validation.positive("local_epsilon", local_epsilon)
    target = validation.non_negative_array("epsilon", epsilon, error=InvalidBudget)
    least, mass = clone_buckets(users=users, local_epsilon=local, fineness=fineness)
    inner = np.minimum(target, local)[..., None]  # (..., 1): beyond eps0 the divergence is 0, as at eps0
    gain = -np.expm1(inner - local) * special.expit(local)  # p - q e^epsilon
    share = gain * special.expit(-inner) / math.tanh(local / 2)  # 1 - tau
    j = np.maximum(np.ceil(share * (least + 1)) - 1, 0.0)  # (..., K)
    under = _binomial_below(j, least)
    grown = np.expm1(np.minimum(inner, 700.0))  # e^epsilon - 1; beyond 700 j* = 0 and it has no weight
    value = gain * (_binomial_below(j + 1, least) - under) - grown * under  # delta_c
    return np.asarray(np.where(target < local, np.maximum(value, 0.0) @ mass, 0.0))


def _binomial_below(j: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(Bin(c, 1/2) < j) for 0 <= j <= c + 1."""
    inside = (j > 0) & (j <= c)
    tail = special.betainc(np.where(inside, c - j + 1, 1.0), np.where(inside, j, 1.0), 0.5)
    return np.where(inside, tail, np.where(j > 0, 1.0, 0.0))


def tail_weight(*, users: int, local_epsilon: float) -> float:
    """Return h + (n - 1) e^-eps0 (1 + h), h = 1/(1 + e^eps0): by how many delta0 a shuffle of (eps0, delta0)-reports
    moves (proofs.md B.3).
    """
    half = float(special.expit(-local_epsilon))
    return half + (users - 1) * math.exp(-local_epsilon) * (1 + half)
