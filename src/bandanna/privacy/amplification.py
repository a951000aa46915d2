"""Amplification by shuffling of reports that are private on their own: the clones bound and the printed closed form.

Symbols: n `users`, eps0 `local_epsilon`, C `clones`, Delta_2 `sensitivity`, sigma `std` (per user).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna import validation
from bandanna.errors import InvalidBudget, OutsideTheorem
from bandanna.privacy import gdp

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


# The clones pair


_DEVIATIONS = 10.0  # of C, left and right of its mean, that are resolved; beyond them two coarse buckets
_MARGIN = 40  # clones added to that range, for means of a few clones where the law is not Gaussian


@lru_cache(maxsize=64)  # searches over epsilon ask for the same ones
def clone_buckets(
    *, users: int, local_epsilon: float, fineness: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return C ~ Bin(n - 1, e^-eps0) in buckets: their least values and their masses, (K,) each.

    A bucket is no wider than E[C] / `fineness`; if that is below 2, every value of C has its own. A pair with more
    clones is a post-processing of one with fewer (toss the missing coins). So replacing C by the least value of its
    bucket is a valid upper bound, for the divergence and for compositions alike, and batches of a million users take
    milliseconds.
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
    """Return the hockey-stick divergence of the clones pair at `epsilon` (scalar or array): delta of the shuffle of n
    users.

    Feldman, McMillan and Talwar ("Hiding among the clones", FOCS 2021, arXiv 2012.12803, theorem 3.2): if every user
    runs an eps0-locally private randomizer, the shuffled reports of two neighbouring batches are a post-processing of

        P = (A + D, C - A + 1 - D)   and   Q = (A + 1 - D, C - A + D),
        C ~ Bin(n - 1, e^-eps0),  A ~ Bin(C, 1/2),  D ~ Bernoulli(e^eps0 / (1 + e^eps0)).

    Given m = C + 1 (which the pair shows), the first count k has, with r = tanh(eps0/2) (2k/m - 1),

        P(k | m) = Bin(m, 1/2)(k) (1 + r),   Q(k | m) = Bin(m, 1/2)(k) (1 - r),   privacy loss 2 artanh(r),

    so that swapping P and Q mirrors k: one direction serves both. Given C = c and with j* = ceil((1 - tau) (c + 1)) -
    1, 1 - tau = (1 - tanh(epsilon/2) / tanh(eps0/2)) / 2,

        delta_c = (p - q e^epsilon) Bin(c, 1/2)(j*) - (e^epsilon - 1) P(Bin(c, 1/2) < j*),   p = 1 - q = P(D = 1),

    is the sum over k > tau m of P - e^epsilon Q. Exact to rounding while E[C] < 2 `fineness`; beyond, an upper bound
    that is too large by 2e-4 at most (relative, delta >= 1e-13). Zero for epsilon >= eps0: the local guarantee is pure.
    """
    users, local = validation.integer("users", users), validation.positive("local_epsilon", local_epsilon)
    target = validation.non_negative_array("epsilon", epsilon, error=InvalidBudget)
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
    """Return P(Bin(c, 1/2) < j) for 0 <= j <= c + 1."""
    inside = (j > 0) & (j <= c)
    tail = special.betainc(np.where(inside, c - j + 1, 1.0), np.where(inside, j, 1.0), 0.5)
    return np.where(inside, tail, np.where(j > 0, 1.0, 0.0))


def clones_tail(*, std: float, sensitivity: float, users: int, local_epsilon: float) -> float:
    """Bound the total variation between a shuffle of Gaussian reports and one that the clones pair dominates.

        t = `tail_weight` delta_G(eps0; Delta_2 / sigma),

    for each of the two neighbours' views: it costs (1 + e^epsilon) t of delta.
    """
    local = validation.positive("local_epsilon", local_epsilon)
    mu = validation.positive("sensitivity", sensitivity) / validation.positive("std", std)
    return tail_weight(users=validation.integer("users", users), local_epsilon=local) * float(gdp.delta(local, mu))


def tail_weight(*, users: int, local_epsilon: float) -> float:
    """Return h + (n - 1) e^-eps0 (1 + h), h = 1/(1 + e^eps0): by how many delta0 a shuffle of (eps0, delta0)-reports
    moves.

    h is the person's share, e^-eps0 (1 + h) that of each other user (proofs.md B.3). Theorem 3.8 of the same paper
    has n (1 + e^-eps0 / 2), which is more.
    """
    half = float(special.expit(-local_epsilon))
    return half + (users - 1) * math.exp(-local_epsilon) * (1 + half)


# The printed lemma


def amplification_closed_form(
    *, users: int, local_epsilon: float, local_delta: float, delta: float
) -> tuple[float, float]:
    """Return (epsilon, delta) of a shuffle of n reports, each (eps0, delta0)-locally private, by paper 000, lemma B.4.

        epsilon = log(1 + (e^eps0 - 1)/(e^eps0 + 1) (8 sqrt(e^eps0 log(4/delta')) / sqrt(n) + 8 e^eps0 / n)),
        delta = delta' + (e^epsilon + 1) (1 + e^-eps0 / 2) n delta0,   if eps0 <= log(n / (16 log(2/delta'))).

    Symbols: n `users`, eps0 `local_epsilon`, delta0 `local_delta`, delta' the argument `delta`. The returned delta may
    exceed 1, which promises nothing. Outside the lemma's range (B = 20 never meets it) `OutsideTheorem` is raised.
    Reference: Chowdhury and Zhou, "Shuffle private linear contextual bandits", after Feldman, McMillan and Talwar.
    """
    users, local = validation.integer("users", users), validation.positive("local_epsilon", local_epsilon)
    local_delta, spare = validation.delta(local_delta, argument="local_delta"), validation.delta(delta)
    if spare == 0.0:
        raise InvalidBudget("delta", delta, "a number in (0, 1)")
    ratio = users / (16 * math.log(2 / spare))
    if ratio <= 1 or local > math.log(ratio):
        most = f"at most log(n / (16 log(2/delta))) = {math.log(ratio):.4g}" if ratio > 1 else "none: n is too small"
        raise OutsideTheorem("local_epsilon", local_epsilon, f"{most} for n = {users}, delta = {spare:g} (lemma B.4)")
    grown = math.exp(local)
    spread = 8 * math.sqrt(grown * math.log(4 / spare) / users) + 8 * grown / users
    epsilon = math.log1p(math.tanh(local / 2) * spread)  # lemma B.4
    return epsilon, spare + (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2) * users * local_delta  # lemma B.4


# Composition for users who return


_LOST = 1e-20  # mass cut from either end of the list of losses, counted as an infinite loss
_FINENESS = 20.0  # grid steps per standard deviation of one batch's loss: inflates its variance by less than 0.1 %
_BUCKET_FINENESS = 5e2  # buckets of C are at most a 500th of its mean, which lowers it by 0.1 % on average


def clones_pld(*, users: int, local_epsilon: float, discretization: float | None = None) -> PrivacyLossDistribution:
    """Return the privacy loss distribution of the clones pair, rounded so that it dominates the pair.

    Batches of users who return compose by convolution of privacy losses (dp-accounting). A shuffled batch of (eps0,
    delta0)-private reports lies within a total variation `tail_weight` delta0 of one that the clones pair dominates, so
    M batches cost the M-fold composition of the pair and M tails.

    Every outcome has mass w under P and w e^-loss under Q. It is split into two outcomes whose losses g <= loss <= g +
    h are grid points, keeping both masses:

        share of the upper one = (1 - e^-(loss - g)) / (1 - e^-h).

    Forgetting the split gives the pair back, so the split pair dominates it; the error is of second order in h
    (`discretization`; the default is a tenth of the standard deviation of one loss). Outcomes beyond ten standard
    deviations count as an infinite loss. The pair is its own mirror image, so one direction is stored.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    users, local = validation.integer("users", users), validation.positive("local_epsilon", local_epsilon)
    step = loss_std(users=users, local_epsilon=local) / _FINENESS if discretization is None else discretization
    step = validation.positive("discretization", step)
    loss, mass, infinite = _outcomes(users, local)
    grid = np.floor(loss / step)
    upper = mass * np.minimum(np.expm1(grid * step - loss) / math.expm1(-step), 1.0)
    cell = (grid - grid.min()).astype(np.int64)
    cells = int(cell.max()) + 2
    masses = np.bincount(cell, mass - upper, cells) + np.bincount(cell + 1, upper, cells)
    inside = (np.cumsum(masses) > _LOST) & (np.cumsum(masses[::-1])[::-1] > _LOST)
    first, last = int(np.argmax(inside)), cells - int(np.argmax(inside[::-1]))
    infinite += float(masses[:first].sum() + masses[last:].sum())
    pmf = pld_pmf.DensePLDPmf(step, int(grid.min()) + first, masses[first:last], infinite, True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def loss_std(*, users: int, local_epsilon: float) -> float:
    """Return the standard deviation of the pair's privacy loss to first order, 2 tanh(eps0/2) / sqrt(E[C] + 1)."""
    return 2 * math.tanh(local_epsilon / 2) / math.sqrt((users - 1) * math.exp(-local_epsilon) + 1)


def _outcomes(users: int, local: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return losses log((1 + r) / (1 - r)) and P-masses of the outcomes (m, k) that matter; the mass of the others."""
    least, weight = clone_buckets(users=users, local_epsilon=local, fineness=_BUCKET_FINENESS)
    m = least[:, None] + 1  # (K, 1)
    half = math.ceil(_DEVIATIONS * math.sqrt(float(m.max())) / 2) + 1
    k = np.floor(m / 2) + np.arange(-half, half + 1)  # (K, 2 half + 1)
    listed = (k >= 0) & (k <= m)
    k = np.where(listed, k, 0.0)
    log_ways = special.gammaln(m + 1) - special.gammaln(k + 1) - special.gammaln(m - k + 1) - m * math.log(2)
    coins = np.where(listed, np.exp(log_ways), 0.0)  # Bin(m, 1/2)(k)
    coins /= coins.sum(axis=-1, keepdims=True)  # undoes the rounding of gammaln, about 1e-9
    first, second = k + (m - k) * math.exp(-local), m - k + k * math.exp(-local)  # proportional to 1 + r and 1 - r
    mass = weight[:, None] * coins * (2 * first / (first + second))
    beyond = 4 * math.exp(-(_DEVIATIONS**2) / 2)  # Hoeffding, times 1 + r <= 2
    kept = mass > 0
    return np.log(first[kept]) - np.log(second[kept]), mass[kept], beyond
