"""The privacy loss distribution of the clones pair, for users who return: their batches compose numerically.

Compositions are convolutions of privacy losses (dp-accounting). A shuffled batch of (eps0, delta0)-private reports lies
within a total variation `tail_weight` delta0 of one that the clones pair dominates, so M batches cost the M-fold
composition of the pair and M tails.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from bandanna.accounting.amplification.clones import clone_buckets
from bandanna.core import require

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_DEVIATIONS = 10.0  # of the first count k about m/2 that are listed; Hoeffding bounds what lies beyond
_LOST = 1e-20  # mass cut from either end of the list of losses, counted as an infinite loss
_FINENESS = 20.0  # grid steps per standard deviation of one batch's loss: inflates its variance by less than 0.1 %
_BUCKET_FINENESS = 5e2  # buckets of C are at most a 500th of its mean, which lowers it by 0.1 % on average


def clones_pld(*, users: int, local_epsilon: float, discretization: float | None = None) -> PrivacyLossDistribution:
    """Privacy loss distribution of the clones pair, rounded so that it dominates the pair (pessimistic, composable).

    Every outcome has mass w under P and w e^-loss under Q. It is split into two outcomes whose losses g <= loss <= g
    + h are grid points, keeping both masses:

        share of the upper one = (1 - e^-(loss - g)) / (1 - e^-h).

    Forgetting the split gives the pair back, so the split pair dominates it; the error is of second order in h
    (`discretization`; the default is a tenth of the standard deviation of one loss). Outcomes beyond ten standard
    deviations count as an infinite loss. The pair is its own mirror image, so one direction is stored.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    users, local = require.whole("users", users), require.positive("local_epsilon", local_epsilon)
    step = loss_std(users=users, local_epsilon=local) / _FINENESS if discretization is None else discretization
    step = require.positive("discretization", step)
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
    """Standard deviation of the pair's privacy loss to first order: 2 tanh(eps0/2) / sqrt(E[C] + 1)."""
    return 2 * math.tanh(local_epsilon / 2) / math.sqrt((users - 1) * math.exp(-local_epsilon) + 1)


def _outcomes(users: int, local: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses log((1 + r) / (1 - r)) and P-masses of the outcomes (m, k) that matter, flat; the mass of the others."""
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
