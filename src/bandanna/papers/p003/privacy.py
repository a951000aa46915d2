"""What the noise of paper 003's published runs really gives, and when its criterion I can fire.

As run (nominal epsilon, delta; T `horizon`, m = ceil(log2 T) + 1 levels; M1, M2 calls of the optimiser at most):

    trees       (epsilon/3, delta/3) each: rho = (sqrt(log(3/delta) + epsilon/3) - sqrt(log(3/delta)))^2, noise per node
                for a sensitivity of 1 (V) and 1/kappa* = L_mu (H), while a replaced leaf moves V by sqrt 2 and H by
                sqrt 2 L_mu/e: true prices 2 rho and 2 rho/e^2
    optimiser   (epsilon/3, delta/3) for theta_o and for theta_tau, split over their M1 and M2 calls evenly up to 10
                calls, else by advanced composition; each call's noise by Renyi accounting, but for half of the
                sensitivity that a replacement has (erratum K2): 4 times the accounted rho
    batches     of B = 2048 rows at most; on n > B rows an epoch is k = floor(n/B) batches without a common row, while k
                independent draws of B rows are accounted (K3), each at about 4 (B/n)^2 of a full batch's price. So the
                epochs cost c = n^2/(4 k B^2) times what is accounted: above 1 only beyond 5792 rows
    reuse       theta_tau is fitted to explored rounds too (K5), so an explored user pays V, theta_o and theta_tau

    rho_true = max( 2 rho + 4 c (M1 rho_o + M2 rho_tau),   2 rho/e^2 + 4 c M2 rho_tau ),     mu^2 = 2 rho_true,

with the largest c >= 1 of any n <= T: an upper bound, as calls on fewer rows cost less.

The whole is composed exactly (all noise is Gaussian). It is often *less* than the nominal epsilon, because the split in
thirds and over the calls wastes more than the errata cost. It prices the noise alone: the times of the calls are read
off raw contexts, which no budget covers.
Deviation: dp-accounting's conversion is replaced by ours (`ZCDP.to_approx`), which agrees with it to 1 part in 1000.
"""

from __future__ import annotations

import math

from bandanna.accounting import gdp
from bandanna.accounting.budgets import ZCDP
from bandanna.core import search
from bandanna.glm.links import Link

_BATCH = 2048  # rows, B


def calls_as_run(
    *,
    epsilon: float,
    delta: float,
    dim: int,
    horizon: int,
    parameter_bound: float,
    kappa: float,
    link: Link,
    failure: float,
) -> tuple[int, int, float]:
    """M1, M2 and lambda as run."""
    r, log = link.reward_bound, math.log(4 * horizon / failure)
    spread = math.log(4 / delta) * log**2 * link.slope_bound / epsilon
    regulariser = 2 * spread + 0.75 * dim * log / r**2
    low, high = regulariser - 1.5 * spread, regulariser + 1.5 * spread
    gamma = r * parameter_bound * math.sqrt(dim * math.log(horizon / failure))
    first = dim * r**2 * kappa * gamma**2 * math.log(horizon) / 20_000
    second = 3 * math.log2(high / low + horizon * link.slope_bound**2 / (low * dim))
    return max(1, math.floor(first)), max(1, math.floor(second)), regulariser


def tree_rho(epsilon: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)) = epsilon."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def call_rho(epsilon: float, delta: float, calls: int) -> float:
    """The rho that one call was calibrated to, of `calls` that share (epsilon, delta)."""
    if calls <= 10:
        share, tail = epsilon / calls, delta / calls
    else:
        root, tail = math.sqrt(2 * calls * math.log(2 / delta)), delta / (2 * calls)
        share = search.greatest(lambda e: root * e + calls * e * math.expm1(e) <= epsilon, 1e-9, epsilon)
    return search.greatest(lambda rho: ZCDP(rho=rho).to_approx(tail).epsilon <= share, 1e-12, 50.0, relative=1e-6)


def batch_factor(rows: int) -> float:
    """c: the largest n^2/(4 k B^2) of calls on n <= `rows` rows, at least 1 (erratum K3)."""
    whole = range(1, rows // _BATCH + 1)  # k; the largest n with so many batches
    return max([1.0, *(min(rows, (k + 1) * _BATCH - 1) ** 2 / (4 * k * _BATCH**2) for k in whole)])


def reference_rho(*, epsilon: float, delta: float, calls: tuple[int, int], horizon: int) -> float:
    """rho_true of the noise of a published run."""
    tree, price = tree_rho(epsilon / 3, delta / 3), 4 * batch_factor(horizon)
    o, tau = (price * count * call_rho(epsilon / 3, delta / 3, count) for count in calls)
    return max(2 * tree + o + tau, 2 * tree / math.e**2 + tau)


def reference_epsilon(*, epsilon: float, delta: float, calls: tuple[int, int], horizon: int) -> tuple[float, float]:
    """What that noise gives: epsilon at the nominal delta, and delta at the nominal epsilon."""
    mu = math.sqrt(2 * reference_rho(epsilon=epsilon, delta=delta, calls=calls, horizon=horizon))
    return gdp.epsilon(delta, mu), float(gdp.delta(epsilon, mu))


def criterion_threshold(*, kappa: float, parameter_bound: float, dim: int, link: Link) -> float:
    """Of criterion I as run: 1/(0.01 kappa R^4 S^2 d). Without noise |x|^2_{V^{-1}} <= 1/lambda."""
    return 1 / (0.01 * kappa * link.reward_bound**4 * parameter_bound**2 * dim)
