"""The clones pair: what a shuffle of n reports, each locally private, can reveal at most.

Feldman, McMillan and Talwar ("Hiding among the clones", FOCS 2021, arXiv 2012.12803, theorem 3.2): if every user runs
an eps0-locally private randomizer, the shuffled reports of two neighbouring batches are a post-processing of

    P = (A + D, C - A + 1 - D)   and   Q = (A + 1 - D, C - A + D),
    C ~ Bin(n - 1, e^-eps0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(e^eps0 / (1 + e^eps0)).

Given m = C + 1 (which the pair shows), the first count k has, with r = tanh(eps0/2) (2k/m - 1),

    P(k | m) = Bin(m, 1/2)(k) (1 + r),   Q(k | m) = Bin(m, 1/2)(k) (1 - r),   privacy loss 2 artanh(r),

so that swapping P and Q mirrors k: one direction serves both. A pair with more clones is a post-processing of one with
fewer (toss the missing coins). Replacing C by the least value of its bucket is therefore a valid upper bound, for the
divergence and for compositions alike; that is how batches of a million users are evaluated in milliseconds.

Symbols: n `users`, eps0 `local_epsilon`, C `clones`, Delta_2 `sensitivity`, sigma `std` (per user).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna.accounting import gdp
from bandanna.core import require
from bandanna.errors import InvalidBudget

_DEVIATIONS = 10.0  # of C, left and right of its mean, that are resolved; beyond them two coarse buckets
_MARGIN = 40  # clones added to that range, for means of a few clones where the law is not Gaussian


@lru_cache(maxsize=64)  # searches over epsilon ask for the same ones
def clone_buckets(
    *, users: int, local_epsilon: float, fineness: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """C ~ Bin(n - 1, e^-eps0) in buckets: their least values and their masses, (K,) each.

    A bucket is no wider than E[C] / `fineness`; where that is less than 2, every value of C has its own.
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
    """Hockey-stick divergence of the clones pair at `epsilon` (scalar or array): delta of the shuffle of n users.

    Given C = c and with j* = ceil((1 - tau) (c + 1)) - 1, 1 - tau = (1 - tanh(epsilon/2) / tanh(eps0/2)) / 2,

        delta_c = (p - q e^epsilon) Bin(c, 1/2)(j*) - (e^epsilon - 1) P(Bin(c, 1/2) < j*),   p = 1 - q = P(D = 1),

    the sum over k > tau m of P - e^epsilon Q. Exact to rounding while E[C] < 2 `fineness`; beyond, an upper bound that
    is too large by 2e-4 at most (relative, delta >= 1e-13). Zero for epsilon >= eps0: the local guarantee is pure.
    """
    users, local = require.whole("users", users), require.positive("local_epsilon", local_epsilon)
    target = require.amounts("epsilon", epsilon, error=InvalidBudget)
    least, mass = clone_buckets(users=users, local_epsilon=local, fineness=fineness)
    inner = np.minimum(target, local)[..., None]  # (..., 1): beyond eps0 the divergence is 0, as at eps0
    gain = -np.expm1(inner - local) * special.expit(local)  # p - q e^epsilon
    share = gain * special.expit(-inner) / math.tanh(local / 2)  # 1 - tau
    j = np.maximum(np.ceil(share * (least + 1)) - 1, 0.0)  # (..., K)
    under = _below(j, least)
    grown = np.expm1(np.minimum(inner, 700.0))  # e^epsilon - 1; beyond 700 j* = 0 and it has no weight
    value = gain * (_below(j + 1, least) - under) - grown * under  # delta_c
    return np.asarray(np.where(target < local, np.maximum(value, 0.0) @ mass, 0.0))


def _below(j: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(Bin(c, 1/2) < j) for 0 <= j <= c + 1."""
    inside = (j > 0) & (j <= c)
    tail = special.betainc(np.where(inside, c - j + 1, 1.0), np.where(inside, j, 1.0), 0.5)
    return np.where(inside, tail, np.where(j > 0, 1.0, 0.0))


def clones_tail(*, std: float, sensitivity: float, users: int, local_epsilon: float) -> float:
    """Total variation between a shuffle of Gaussian reports and one that the clones pair dominates:

        t = `tail_weight` delta_G(eps0; Delta_2 / sigma),

    at most, for each of the two neighbours' views: it costs (1 + e^epsilon) t of delta.
    """
    local = require.positive("local_epsilon", local_epsilon)
    mu = require.positive("sensitivity", sensitivity) / require.positive("std", std)
    return tail_weight(users=require.whole("users", users), local_epsilon=local) * float(gdp.delta(local, mu))


def tail_weight(*, users: int, local_epsilon: float) -> float:
    """h + (n - 1) e^-eps0 (1 + h), h = 1/(1 + e^eps0): by how many delta0 a shuffle of (eps0, delta0)-reports moves.

    h for the person, e^-eps0 (1 + h) for everybody else (calibration.md B.3). Theorem 3.8 of the same paper has
    n (1 + e^-eps0 / 2), which is more.
    """
    half = float(special.expit(-local_epsilon))
    return half + (users - 1) * math.exp(-local_epsilon) * (1 + half)
