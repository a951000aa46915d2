"""Regret bounds of the papers for linear and generalised linear contextual bandits.

Rates for best batches, and those of `linucb_jdp_returning_rate` and `linucb_concurrent_rate`, leave out logarithms.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.policies.regret_bounds import (
    BoundCalls,
    RunSetting,
    check_above,
    check_between,
    find_rho,
    register_bound,
    to_scalar,
)
from bandanna.types import Floats

# Linear contextual bandits with private contexts and rewards: LinUCB in every privacy model.
#
# Symbols: T `horizon`, d `dim`, B `batch`, epsilon, delta, alpha of the paper `failure`, M `batches` that a returning
# user may be in, k `shufflers`, sigma `reward_std`.
# `linucb_lemma` and `regular_linucb` have all their constants; the theorems for each privacy model put the noise's size
# into them and keep rates only, so `constant` multiplies those.
# References: Chowdhury and Zhou 2022 [000]; Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002].


_lower_rate = partial(register_bound, "lower", explicit=False)
_rate = partial(register_bound, "upper", explicit=False)
_upper = partial(register_bound, "upper", explicit=True)
_ARBITRARY = "arbitrary contexts, features and theta in the unit ball; except with probability `failure`"


@_upper("000", "Lemma A.2", holds="LinUCB in batches, any noise within its bounds; " + _ARBITRARY)
def linucb_lemma(*, horizon: Any, dim: int, batch: float, radius: Any, smallest: float) -> Any:
    """Return d B log(1 + T/(d l)) / log 2 + 8 beta sqrt(d T log(1 + T/(d l))), l `smallest`, beta `radius`."""
    t = check_above("horizon", horizon, 0)
    growth = np.log1p(t / (dim * check_above("smallest", smallest, 0)))
    return to_scalar(
        dim * batch * growth / math.log(2) + 8 * np.asarray(radius) * np.sqrt(dim * t * growth)
    )  # Lemma A.2


@_upper(
    "000",
    "Lemma A.2 for the summed ellipsoid",
    holds="LinUCB in batches with the ellipsoid of docs/appendix/proofs.md; " + _ARBITRARY,
)
def linucb_ellipsoid(*, horizon: Any, dim: int, batch: float, ellipsoid: Any, smallest: float) -> Any:
    """Return B (1 + d L / log 2) + sqrt(8) Gamma sqrt(d T L / (b log(1 + 1/b))), L = log(1 + T/(d b)).

    radius |x|_{P^{-1}} <= Gamma |x|_{(A + b I)^{-1}} after every batch; b is `smallest`.
    """
    t, least = check_above("horizon", horizon, 0), float(check_above("smallest", smallest, 0))
    growth = np.log1p(t / (dim * least))
    known = np.sqrt(dim * t * growth / (least * math.log1p(1 / least)))
    return to_scalar(batch * (1 + dim * growth / math.log(2)) + math.sqrt(8) * np.asarray(ellipsoid) * known)


@_upper("002", "Theorem C.2", holds="LinUCB that learns every round; " + _ARBITRARY)
def regular_linucb(
    *,
    horizon: Any,
    dim: int,
    smallest: float,
    largest: float,
    shift: float,
    failure: float,
    reward_std: float = 0.5,
    reward_bound: float = 1.0,
    parameter_bound: float = 1.0,
) -> Any:
    """Return B sqrt(8 T) (s (2 log(2/a) + d log(l'/l + T/(d l))) + (S sqrt(l') + g) sqrt(d log(1 + T/(d l)))).

    l is `smallest`, l' `largest`, g `shift`, s `reward_std`, B `reward_bound`, S `parameter_bound`.
    """
    t, least = check_above("horizon", horizon, 0), float(check_above("smallest", smallest, 0))
    certain = 2 * math.log(2 / float(check_between("failure", failure, 0, 1)))
    rewards = reward_std * (certain + dim * np.log(largest / least + t / (dim * least)))
    noise = (parameter_bound * math.sqrt(largest) + shift) * np.sqrt(dim * np.log1p(t / (dim * least)))
    return to_scalar(reward_bound * np.sqrt(8 * t) * (rewards + noise))  # Theorem C.2


@_rate("000", "Lemma 3.9", holds="LinUCB in batches without noise; " + _ARBITRARY)
def linucb_rate(*, horizon: Any, dim: int, batch: float = 1.0, constant: float = 1.0) -> Any:
    """Return d B + d sqrt(T), without logarithms."""
    return to_scalar(constant * (dim * batch + dim * np.sqrt(check_above("horizon", horizon, 0))))


@_rate("000", "Proposition F.3", holds="LinUCB-JDP, batched or not; " + _ARBITRARY)
def linucb_jdp_rate(
    *, horizon: Any, dim: int, epsilon: Any, delta: Any, failure: float, batch: float = 1.0, constant: float = 1.0
) -> Any:
    """Return d B + sqrt(T) d^(3/4) log(1/delta)^(1/4) log(T/alpha) / sqrt(epsilon)."""
    t, privacy = _private(horizon, epsilon, np.log(1 / check_between("delta", delta, 0, 1)) ** 0.25)
    return to_scalar(constant * (dim * batch + np.sqrt(t) * dim**0.75 * privacy * np.log(t / failure)))


@_rate("000", "Proposition F.1", holds="LinUCB-LDP, batched or not; " + _ARBITRARY)
def linucb_ldp_rate(
    *, horizon: Any, dim: int, epsilon: Any, delta: Any, failure: float, batch: float = 1.0, constant: float = 1.0
) -> Any:
    """Return d B + T^(3/4) d^(3/4) log(1/delta)^(1/4) log(T/alpha) / sqrt(epsilon)."""
    t, privacy = _private(horizon, epsilon, np.log(1 / check_between("delta", delta, 0, 1)) ** 0.25)
    return to_scalar(constant * (dim * batch + t**0.75 * dim**0.75 * privacy * np.log(t / failure)))


@_rate("000", "Theorem 3.2 (B.1)", holds="LinUCB-SDP-Amp, nominal epsilon; " + _ARBITRARY)
def linucb_sdp_amp_rate(
    *, horizon: Any, dim: int, batch: float, epsilon: Any, delta: Any, failure: float, constant: float = 1.0
) -> Any:
    """Return the rate of P_Amp for batches of B (appendix B).

    d B log T + log(B/delta)^(1/4) log(2/delta)^(1/4) d^(3/4) T^(3/4) log T log(T/alpha) / (epsilon^(1/2) B^(1/4)), for
    epsilon <= sqrt(log(2/delta)/B) and O(epsilon, delta).
    """
    tail = check_between("delta", delta, 0, 1)
    t, privacy = _private(horizon, epsilon, (np.log(batch / tail) * np.log(2 / tail)) ** 0.25)
    return to_scalar(constant * _batched(t, dim, batch, privacy, failure))


@_rate("000", "Theorem 3.5 (C.1)", holds="LinUCB-SDP-Vec; " + _ARBITRARY)
def linucb_sdp_vec_rate(
    *, horizon: Any, dim: int, batch: float, epsilon: Any, delta: Any, failure: float, constant: float = 1.0
) -> Any:
    """Return d B log T + log(d^2/delta)^(1/2) d^(3/4) T^(3/4) log T log(T/alpha) / (epsilon^(1/2) B^(1/4))."""
    t, privacy = _private(horizon, epsilon, np.sqrt(np.log(dim**2 / check_between("delta", delta, 0, 1))))
    return to_scalar(constant * _batched(t, dim, batch, privacy, failure))


@_rate("000", "Corollary B.2", holds="LinUCB-SDP-Amp, best batch; " + _ARBITRARY)
def linucb_sdp_amp_best_rate(*, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0) -> Any:
    """Return d^(4/5) T^(3/5) epsilon^(-2/5) (log(T/delta) log(2/delta))^(1/5)."""
    t, tail = check_above("horizon", horizon, 0), check_between("delta", delta, 0, 1)
    logs = (np.log(t / tail) * np.log(2 / tail)) ** 0.2
    return to_scalar(constant * dim**0.8 * t**0.6 * check_above("epsilon", epsilon, 0) ** -0.4 * logs)


@_rate("000", "Corollary C.2", holds="LinUCB-SDP-Vec, best batch; " + _ARBITRARY)
def linucb_sdp_vec_best_rate(*, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0) -> Any:
    """Return d^(4/5) T^(3/5) epsilon^(-2/5) log(d^2/delta)^(2/5)."""
    logs = np.log(dim**2 / check_between("delta", delta, 0, 1)) ** 0.4
    return to_scalar(
        constant
        * dim**0.8
        * check_above("horizon", horizon, 0) ** 0.6
        * check_above("epsilon", epsilon, 0) ** -0.4
        * logs
    )


@_rate("000", "Corollary 3.3", holds="LinUCB-SDP-Amp, batches of T^(3/5); " + _ARBITRARY)
def linucb_sdp_fixed_rate(*, horizon: Any, epsilon: Any, delta: Any, constant: float = 1.0) -> Any:
    """Return T^(3/5) log(T/delta)^(1/2) / sqrt(epsilon), for Vec log(d^2/delta) (Remark 3.6)."""
    t, privacy = _private(horizon, epsilon, 1.0)
    return to_scalar(constant * t**0.6 * privacy * np.sqrt(np.log(t / check_between("delta", delta, 0, 1))))


@_rate("000", "Corollary B.3", holds="LinUCB-SDP-Amp, each report local DP; " + _ARBITRARY)
def linucb_sdp_amp_local_rate(*, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0) -> Any:
    """Return d^(3/4) T^(3/4) log(1/delta)^(1/4) / sqrt(epsilon), for the local epsilon and delta."""
    t, privacy = _private(horizon, epsilon, np.log(1 / check_between("delta", delta, 0, 1)) ** 0.25)
    return to_scalar(constant * dim**0.75 * t**0.75 * privacy)


@_rate("000", "Corollary C.3", holds="LinUCB-SDP-Vec, each report local DP; " + _ARBITRARY)
def linucb_sdp_vec_local_rate(*, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0) -> Any:
    """Return d^(3/4) T^(3/4) log(d^2/delta)^(1/2) / sqrt(epsilon), for the local epsilon and delta."""
    t, privacy = _private(horizon, epsilon, np.sqrt(np.log(dim**2 / check_between("delta", delta, 0, 1))))
    return to_scalar(constant * dim**0.75 * t**0.75 * privacy)


@_rate("000", "Theorem 4.2(i) (E.3)", holds="LinUCB-SDP-Amp, returning users; " + _ARBITRARY)
def linucb_sdp_amp_returning_rate(
    *, horizon: Any, dim: int, batches: float, epsilon: Any, delta: Any, failure: float, constant: float = 1.0
) -> Any:
    """Return d T log(T)/M + sqrt(M T/epsilon) d^(3/4) log(T/delta)^(1/4) log(2/delta)^(1/2) log T log(T/alpha)."""
    tail = check_between("delta", delta, 0, 1)
    t, privacy = _private(horizon, epsilon, np.log(2 / tail) ** 0.5)
    privacy = privacy * np.log(t / tail) ** 0.25
    return to_scalar(constant * _returning(t, dim, batches, privacy, failure))


@_rate("000", "Theorem 4.2(ii) (E.5)", holds="LinUCB-SDP-Vec, returning users; " + _ARBITRARY)
def linucb_sdp_vec_returning_rate(
    *, horizon: Any, dim: int, batches: float, epsilon: Any, delta: Any, failure: float, constant: float = 1.0
) -> Any:
    """Return d T log(T)/M + sqrt(M T/epsilon) d^(3/4) log(d^2 M/delta)^(3/4) log T log(T/alpha)."""
    t, privacy = _private(horizon, epsilon, np.log(dim**2 * batches / check_between("delta", delta, 0, 1)) ** 0.75)
    return to_scalar(constant * _returning(t, dim, batches, privacy, failure))


@_rate("000", "Corollary E.4", holds="LinUCB-SDP-Amp, returning users, best batch; " + _ARBITRARY)
def linucb_sdp_amp_returning_best_rate(
    *, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return d^(5/6) T^(2/3) epsilon^(-1/3) log(T/delta)^(1/2)."""
    t = check_above("horizon", horizon, 0)
    logs = np.sqrt(np.log(t / check_between("delta", delta, 0, 1)))
    return to_scalar(constant * dim ** (5 / 6) * t ** (2 / 3) * check_above("epsilon", epsilon, 0) ** (-1 / 3) * logs)


@_rate("000", "Corollary E.6", holds="LinUCB-SDP-Vec, returning users, best batch; " + _ARBITRARY)
def linucb_sdp_vec_returning_best_rate(
    *, horizon: Any, dim: int, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return d^(5/6) T^(2/3) epsilon^(-1/3) log(d^2 T/delta)^(1/2)."""
    t = check_above("horizon", horizon, 0)
    logs = np.sqrt(np.log(dim**2 * t / check_between("delta", delta, 0, 1)))
    return to_scalar(constant * dim ** (5 / 6) * t ** (2 / 3) * check_above("epsilon", epsilon, 0) ** (-1 / 3) * logs)


@_rate("000", "Proposition 4.3 (E.7)", holds="LinUCB-JDP per user of M rounds; " + _ARBITRARY)
def linucb_jdp_returning_rate(
    *, horizon: Any, dim: int, batches: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return d sqrt(T) + sqrt(M T/epsilon) d^(3/4) log(1/delta)^(1/4)."""
    t, privacy = _private(horizon, epsilon, np.log(1 / check_between("delta", delta, 0, 1)) ** 0.25)
    return to_scalar(constant * (dim * np.sqrt(t) + np.sqrt(batches * t) * dim**0.75 * privacy))


@_rate("002", "Theorem 5.1", holds="LinUCB with k concurrent shufflers, epsilon < 1; expectation")
def linucb_concurrent_rate(
    *, horizon: Any, dim: int, shufflers: int, epsilon: Any, reward_std: float = 0.5, constant: float = 1.0
) -> Any:
    """Return k^(3/4) T^((k+1)/(2k+1)) (sigma + d) / sqrt(epsilon); Corollary 5.2 is k = log T."""
    t, privacy = _private(horizon, epsilon, 1.0)
    k = float(check_above("shufflers", shufflers, 1, strict=False))
    return to_scalar(constant * k**0.75 * t ** ((k + 1) / (2 * k + 1)) * privacy * (reward_std + dim))


@_lower_rate("000", "introduction (Chu et al. 2011)", holds="every policy, private or not; K < infinity")
def contextual_lower_rate(*, horizon: Any, dim: int, constant: float = 1.0) -> Any:
    """Return sqrt(d T)."""
    return to_scalar(constant * np.sqrt(dim * check_above("horizon", horizon, 0)))


def _private(horizon: Any, epsilon: Any, logs: Any) -> tuple[Floats, Floats]:
    return check_above("horizon", horizon, 1, strict=False), np.asarray(
        logs / np.sqrt(check_above("epsilon", epsilon, 0))
    )


def _batched(t: Floats, dim: int, batch: float, privacy: Floats, failure: float) -> Floats:
    size = check_above("batch", batch, 1, strict=False)
    slow = privacy * dim**0.75 * t**0.75 * np.log(t) * np.log(t / check_between("failure", failure, 0, 1)) / size**0.25
    return np.asarray(dim * size * np.log(t) + slow)


def _returning(t: Floats, dim: int, batches: float, privacy: Floats, failure: float) -> Floats:
    m = check_above("batches", batches, 1, strict=False)
    slow = np.sqrt(m * t) * privacy * dim**0.75 * np.log(t) * np.log(t / check_between("failure", failure, 0, 1))
    return np.asarray(dim * t * np.log(t) / m + slow)


def find_linucb_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the bound of LinUCB's radius, or its rate, and a lower rate."""
    yield from _linucb_upper(setting)
    yield contextual_lower_rate, {"dim": setting["dim"]}


def _linucb_upper(setting: RunSetting) -> BoundCalls:
    """Yield Lemma A.2 with the set that ran; otherwise a rate."""
    for formula, size in ((linucb_lemma, "radius"), (linucb_ellipsoid, "ellipsoid")):
        if setting.get("width", 1.0) >= 1 and size in setting:
            yield formula, {name: setting[name] for name in ("dim", "batch", size, "smallest")}
            return
    problem: dict[str, Any] = {"dim": setting["dim"]}
    times = setting.get("participations", 1)
    if setting["trust"] == "none" or math.isinf(setting["epsilon"]):
        yield linucb_rate, {**problem, "batch": setting["batch"]}
        return
    problem |= {"epsilon": setting["epsilon"], "delta": setting["delta"]}
    if setting.get("shufflers"):
        problem.pop("delta")
        yield linucb_concurrent_rate, {**problem, "shufflers": setting["shufflers"]}
    elif setting["trust"] == "shuffle":
        rates = {
            ("gaussian", False): linucb_sdp_amp_best_rate,
            ("binomial", False): linucb_sdp_vec_best_rate,
            ("gaussian", True): linucb_sdp_amp_returning_best_rate,
            ("binomial", True): linucb_sdp_vec_returning_best_rate,
        }
        yield rates[setting["protocol"], times > 1], problem
    elif times == 1:
        rate = linucb_jdp_rate if setting["trust"] == "central" else linucb_ldp_rate
        yield rate, {**problem, "batch": setting["batch"], "failure": setting["failure"]}
    elif setting["trust"] == "central":  # the paper has none for returning users in the local model
        yield linucb_jdp_returning_rate, {**problem, "batches": times}


# Linear contextual bandits whose contexts are public and whose rewards are private: AdaC-OFUL.
#
# Symbols: T `horizon`, d `dim`, rho, delta of the paper `failure`, lambda `ridge`, C `growth` (an episode ends when the
# determinant has grown by 1 + C), lambda_0 `least_eigenvalue` of E[A A^T], w `width` of the rewards' range. Reference:
# Azize and Basu 2024 [004], Table I, Theorems 5 and 14, appendix F.


@_upper(
    "004",
    "Theorem 5, with the constants of its proof",
    holds="AdaC-OFUL with unit features that satisfy Assumption 2, |theta| <= 1; except with probability 3 `failure`",
)
def adac_oful_proof(
    *,
    horizon: Any,
    dim: int,
    rho: float,
    failure: float,
    ridge: float,
    least_eigenvalue: float,
    growth: float = 1.0,
    width: float = 2.0,
    reward_std: float = 1.0,
) -> Any:
    """Return 2 sqrt(1 + C) sqrt(2 d log(1 + T/(lambda d))) (beta_T sqrt(T) + sqrt(sum_t g(tau_t)^2)), at most 2 T.

    beta_T = s sqrt(2 log(1/failure) + d log(1 + T/(lambda d))) + sqrt(lambda), s = `reward_std`, bounds the reward
    noise, and g(tau) = sqrt((w^2 l_T / (2 rho)) f / max(lambda, lambda + lambda_0 tau/4 - 8 L - 2 sqrt(tau L))) the
    privacy noise after l_T = d log(1 + T/(lambda d)) / log(1 + C) episodes, L = log((tau + 3) d / failure). The last
    update is at tau >= (t - 1 + lambda)/(1 + C) - lambda. Deviations: docs/appendix/bounds.md.
    """
    validation.open_probability("failure", failure)
    t = np.atleast_1d(check_above("horizon", horizon, 1, strict=False))
    log_det = dim * np.log1p(t / (check_above("ridge", ridge, 0) * dim))
    beta = reward_std * np.sqrt(2 * math.log(1 / failure) + log_det) + math.sqrt(ridge)
    episodes = log_det / math.log1p(float(check_above("growth", growth, 0)))
    log_share = np.log(t / failure)
    norm = dim + 2 * np.sqrt(dim * log_share) + 2 * log_share  # f(d, failure / T)
    scale = width**2 / (2 * float(check_above("rho", rho, 0))) * episodes * norm
    sums = np.array([_harmonic(float(end), dim, failure, ridge, least_eigenvalue, growth) for end in t])
    found = 2 * math.sqrt(1 + growth) * np.sqrt(2 * log_det) * (beta * np.sqrt(t) + np.sqrt(scale * sums))  # Step 6
    return to_scalar(np.minimum(found, 2 * t).reshape(np.shape(horizon)))


def _harmonic(horizon: float, dim: int, failure: float, ridge: float, least_eigenvalue: float, growth: float) -> float:
    """Bound sum_t 1 / max(lambda, lambda + lambda_0 tau_t/4 - ...) by blocks of rounds 1 % long."""
    starts = np.unique(np.floor(np.geomspace(1, horizon, 2 + int(100 * math.log(max(horizon, math.e)))))).astype(float)
    lengths = np.diff(np.append(starts, horizon + 1))
    tau = np.maximum((starts - 1 + ridge) / (1 + growth) - ridge, 0.0)  # Step 5, at the block's first round
    return float(np.sum(lengths / _eigenvalue(tau, dim, failure, ridge, least_eigenvalue)))  # it never falls with tau


def _eigenvalue(tau: Floats, dim: int, failure: float, ridge: float, least_eigenvalue: float) -> Floats:
    """Bound lambda_min(V_tau) below (Lemma 12)."""
    log = np.log((tau + 3) * dim / failure)
    grown = float(check_above("least_eigenvalue", least_eigenvalue, 0)) * tau / 4 - 8 * log - 2 * np.sqrt(tau * log)
    return np.asarray(ridge + np.maximum(grown, 0.0))


@_rate("004", "Table I (Theorem 5)", holds="AdaC-OFUL under Assumption 2, with high chance")
def adac_oful_rate(*, horizon: Any, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """Return d log(T) sqrt(T) + d^2 log(T)^2 / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(
        constant * (dim * np.log(t) * np.sqrt(t) + dim**2 * np.log(t) ** 2 / np.sqrt(check_above("rho", rho, 0)))
    )


@_rate("004", "section V-B2, remark 2", holds="AdaC-OFUL with private contexts (joint DP)")
def adac_oful_joint_rate(*, horizon: Any, rho: Any, constant: float = 1.0) -> Any:
    """Return sqrt(T) + sqrt(T / rho)."""
    t = check_above("horizon", horizon, 0)
    return to_scalar(constant * (np.sqrt(t) + np.sqrt(t / check_above("rho", rho, 0))))


def find_oful_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the bounds of RS-OFUL and AdaC-OFUL: with constants if the contexts' least eigenvalue was given.

    Either kind of noise gets half of `failure`.
    """
    problem = {"dim": setting["dim"], "rho": find_rho(setting)}
    outside = setting.get("width", 1.0) < 1 or setting["feature_bound"] != 1 or setting["parameter_bound"] != 1
    if not setting.get("eigenvalue") or outside:
        yield adac_oful_rate, problem
        yield contextual_lower_rate, {"dim": setting["dim"]}
        return
    width = setting.get("reward_width", 2.0)
    known = {
        "least_eigenvalue": setting["eigenvalue"],
        "failure": setting["failure"] / 2,
        "ridge": setting["ridge"],
        "growth": setting["growth"],
        "width": width,
        "reward_std": setting.get("reward_std") or width / 2,
    }
    yield adac_oful_proof, {**problem, **known}
    yield contextual_lower_rate, {"dim": setting["dim"]}


def find_oful_joint_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the rate of AdaC-OFUL-JDP."""
    yield adac_oful_joint_rate, {"rho": find_rho(setting)}
    yield contextual_lower_rate, {"dim": setting["dim"]}


# Generalised linear contextual bandits: rates of paper 003, logarithms as the abstract has them.
#
# Symbols: T `horizon`, K `n_arms`, d `dim`, epsilon. The instance's kappa is in lower-order terms only, which are left
# out. Reference: paper [003], abstract, Theorems 5.1 and 6.2, Lemma 7.1; Sawarni et al. 2024. The displayed formulas of
# our copy of [003] are lost: the upper rates are those of its abstract.
#
# The lower rate. Section 7 of [003] adds two bounds. The first, d sqrt(T) of Abeille et al. 2021 (Theorem 2), is for
# the unit ball as the set of arms. The second, d/epsilon of Lemma 7.1, is for the 2d arms +e_i and -e_i, scaled.
# Neither is for K arms, and d sqrt(T) is false for few of them: SupLinUCB has sqrt(d T) times logarithms at K = 2 (Chu
# et al. 2011). Contexts that take turns give a bound for every K >= 2 (ours, not the paper's). Let b = min(d, log2 K):
#
# * Split the d coordinates into d/b blocks of b, and show block after block, its 2^b <= K arms being the signs over
#   sqrt b. A block is a bandit of dimension b with T b/d rounds, whose regret is of order b sqrt(T b/d) (Dani et al.
#   2008). The d/b blocks together have sqrt(d T b).
# * Show the pair +e_i, -e_i to every d-th user: two arms are enough. The actions of the first 1/epsilon users of a
# pair
#   have nearly the same law for both signs of theta_i, so regret is of order min(T, d/epsilon).
#
# With K >= 2^d arms the first term is d sqrt(T), as in [003].


@_rate("003", "Theorem 2 of Sawarni et al. 2024", holds="RS-GLinUCB; any contexts")
def rs_glinucb_rate(*, horizon: Any, dim: int, constant: float = 1.0) -> Any:
    """Return d sqrt(T) log T."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(constant * dim * np.sqrt(t) * np.log(t))


@_rate("003", "Theorem 6.2", holds="GLM-JDP, as printed; any contexts")
def glm_jdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """Return d sqrt(T) log T + d^(3/4) sqrt(T/epsilon) log T (d + log T)^(1/4)."""
    t, e = check_above("horizon", horizon, 1, strict=False), check_above("epsilon", epsilon, 0)
    log = np.log(t)
    private = dim**0.75 * np.sqrt(t / e) * log * (dim + log) ** 0.25
    return to_scalar(constant * (dim * np.sqrt(t) * log + private))


@_rate("003", "Theorem 5.1", holds="GLM-SDP, as printed; contexts of one law")
def glm_sdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """Return d^(3/2) sqrt(T log T) max(1, 1/sqrt(epsilon))."""
    t, e = check_above("horizon", horizon, 1, strict=False), check_above("epsilon", epsilon, 0)
    return to_scalar(constant * dim**1.5 * np.sqrt(t * np.log(t)) * np.maximum(1.0, 1 / np.sqrt(e)))


@_lower_rate(
    "003",
    "Section 7 for K arms",
    holds="any policy with differentially private rewards; worst public contexts with K arms",
)
def glm_lower_rate(*, horizon: Any, dim: int, n_arms: Any, epsilon: Any, constant: float = 1.0) -> Any:
    """Return sqrt(d T min(d, log2 K)) + min(T, d/epsilon), K >= 2; `math.inf` for the unit ball."""
    t, e, k = (
        check_above("horizon", horizon, 0),
        check_above("epsilon", epsilon, 0),
        check_above("n_arms", n_arms, 2, strict=False),
    )
    return to_scalar(constant * (np.sqrt(dim * t * np.minimum(dim, np.log2(k))) + np.minimum(t, dim / e)))


def find_rs_glinucb_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the rate of RS-GLinUCB."""
    yield rs_glinucb_rate, {"dim": setting["dim"]}


def find_glm_jdp_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the rates of GLM-JDP."""
    yield glm_jdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _find_lower_rate(setting, private)


def find_glm_sdp_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the rates of GLM-SDP."""
    yield glm_sdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _find_lower_rate(setting, private)


def _find_lower_rate(setting: RunSetting, private: dict[str, Any]) -> BoundCalls:
    if setting["n_arms"] > 1:
        yield glm_lower_rate, private | {"n_arms": setting["n_arms"]}
