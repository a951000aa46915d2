"""How the price of a user is split over the levels, and how noisy a prefix is then.

A batch of level j has its own release, of variance w_j = 1/mu_j^2 in units of Delta^2. With averaging, its estimate
combines that with the estimates of its d_j parts (Honaker): precisions p_1 = mu_1^2 and

    p_j = mu_j^2 + p_{j-1} / d_j,        prefix variance = sum_j m_j / p_j,

m_j batches of level j in the prefix. Subject to sum_j mu_j^2 = mu^2, i.e. sum_j c_j p_j = mu^2 with c_j = 1 - 1/d_{j+1}
and c_k = 1, the least variance is (sum_j sqrt(m_j c_j))^2 / mu^2, at p_j proportional to sqrt(m_j / c_j). Without
averaging p_j = mu_j^2, c_j = 1: mu_j^2 proportional to sqrt(m_j).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bandanna.accounting.calibration.gaussian import level_prices
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree


def shares(tree: BatchTree, averaging: bool) -> tuple[float, ...]:
    """mu_j^2 / mu^2 of the levels: the split with the least variance of the worst prefix."""
    top = tree.batches[-1]
    tries = [_shares(tree, last, averaging) for last in {top, max(1, top - 1)}]
    return min(tries, key=lambda split: worst_variance(tree, [1 / share for share in split], averaging))


def _shares(tree: BatchTree, top: int, averaging: bool) -> tuple[float, ...]:
    """The least variance for d_{j+1} - 1 batches of level j and `top` of the highest."""
    above = tree.degrees[1:]
    nodes = (*(degree - 1.0 for degree in above), float(top))  # m_j
    if not averaging:
        return tuple(price**2 for price in level_prices(1.0, nodes))
    costs = (*(1 - 1 / degree for degree in above), 1.0)  # c_j
    precision = [math.sqrt(m / c) for m, c in zip(nodes, costs, strict=True)]  # p_j, up to a factor
    own = [precision[0], *(p - q / d for p, q, d in zip(precision[1:], precision[:-1], above, strict=True))]
    return tuple(share / math.fsum(own) for share in own)


def node_variances(tree: BatchTree, own: Sequence[float], averaging: bool) -> list[float]:
    """Variance of a batch's estimate on each level, from that of its own release."""
    variances = [own[0]]
    for release, degree in zip(own[1:], tree.degrees[1:], strict=True):
        parts = degree * variances[-1]
        variances.append(1 / (1 / release + 1 / parts) if averaging else release)  # Honaker: inverse-variance average
    return variances


def worst_variance(tree: BatchTree, own: Sequence[float], averaging: bool) -> float:
    """Largest variance of a prefix's estimate."""
    return float(np.max(tree.covering(tree.worst_steps) @ np.asarray(node_variances(tree, own, averaging))))


def unit_std(tree: BatchTree, averaging: bool) -> float:
    """Std of the worst prefix for Gaussian releases at price mu = 1 and sensitivity 1."""
    return math.sqrt(worst_variance(tree, [1 / share for share in shares(tree, averaging)], averaging))
