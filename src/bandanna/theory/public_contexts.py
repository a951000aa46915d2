"""Linear contextual bandits whose contexts are public and whose rewards are private: AdaC-OFUL.

Symbols: T `horizon`, d `dim`, rho, delta of the paper `failure`, lambda `ridge`, C `growth` (an episode ends when the
determinant has grown by 1 + C), lambda_0 `least_eigenvalue` of E[A A^T], w `width` of the rewards' range.
Reference: Azize and Basu 2024 [004], Table I, Theorems 5 and 14, appendix F.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.theory.catalogue import above, plain, states
from bandanna.theory.contextual import contextual_lower_rate
from bandanna.theory.settings import Found, Setting, rho_of


@states(
    "upper",
    "004",
    "Theorem 5, with the constants of its proof",
    explicit=True,
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
    """2 sqrt(1 + C) sqrt(2 d log(1 + T/(lambda d))) (beta_T sqrt(T) + sqrt(sum_t g(tau_t)^2)), at most 2 T.

    beta_T = s sqrt(2 log(1/failure) + d log(1 + T/(lambda d))) + sqrt(lambda), s = `reward_std`, bounds the reward
    noise, and g(tau) = sqrt((w^2 l_T / (2 rho)) f / max(lambda, lambda + lambda_0 tau/4 - 8 L - 2 sqrt(tau L))) the
    privacy noise after l_T = d log(1 + T/(lambda d)) / log(1 + C) episodes, L = log((tau + 3) d / failure).
    Deviations: the printed gamma_T / sqrt(tau) needs a denominator that is positive for every tau; it is not for small
    ones, so g keeps at least lambda there. The last update before round t is at
    tau >= (t - 1 + lambda)/(1 + C) - lambda (Step 5 with any ridge; printed for lambda >= 1).
    """
    require.chance("failure", failure)
    t = np.atleast_1d(above("horizon", horizon, 1, strict=False))
    log_det = dim * np.log1p(t / (above("ridge", ridge, 0) * dim))
    beta = reward_std * np.sqrt(2 * math.log(1 / failure) + log_det) + math.sqrt(ridge)
    episodes = log_det / math.log1p(float(above("growth", growth, 0)))
    log_share = np.log(t / failure)
    norm = dim + 2 * np.sqrt(dim * log_share) + 2 * log_share  # f(d, failure / T)
    scale = width**2 / (2 * float(above("rho", rho, 0))) * episodes * norm
    sums = np.array([_harmonic(float(end), dim, failure, ridge, least_eigenvalue, growth) for end in t])
    found = 2 * math.sqrt(1 + growth) * np.sqrt(2 * log_det) * (beta * np.sqrt(t) + np.sqrt(scale * sums))  # Step 6
    return plain(np.minimum(found, 2 * t).reshape(np.shape(horizon)))


def _harmonic(horizon: float, dim: int, failure: float, ridge: float, least_eigenvalue: float, growth: float) -> float:
    """An upper bound of sum_{t <= T} 1 / max(lambda, lambda + lambda_0 tau_t/4 - ...): blocks of rounds 1 % long."""
    starts = np.unique(np.floor(np.geomspace(1, horizon, 2 + int(100 * math.log(max(horizon, math.e)))))).astype(float)
    lengths = np.diff(np.append(starts, horizon + 1))
    tau = np.maximum((starts - 1 + ridge) / (1 + growth) - ridge, 0.0)  # Step 5, at the block's first round
    return float(np.sum(lengths / _eigenvalue(tau, dim, failure, ridge, least_eigenvalue)))  # it never falls with tau


def _eigenvalue(tau: Floats, dim: int, failure: float, ridge: float, least_eigenvalue: float) -> Floats:
    """What lambda_min(V_tau) is at least, by Lemma 12 where it says anything."""
    log = np.log((tau + 3) * dim / failure)
    grown = float(above("least_eigenvalue", least_eigenvalue, 0)) * tau / 4 - 8 * log - 2 * np.sqrt(tau * log)
    return np.asarray(ridge + np.maximum(grown, 0.0))


@states("upper", "004", "Table I (Theorem 5)", explicit=False, holds="AdaC-OFUL under Assumption 2, with high chance")
def adac_oful_rate(*, horizon: Any, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """d log(T) sqrt(T) + d^2 log(T)^2 / sqrt(rho)."""
    t = above("horizon", horizon, 1, strict=False)
    return plain(constant * (dim * np.log(t) * np.sqrt(t) + dim**2 * np.log(t) ** 2 / np.sqrt(above("rho", rho, 0))))


@states("upper", "004", "section V-B2, remark 2", explicit=False, holds="AdaC-OFUL with private contexts (joint DP)")
def adac_oful_joint_rate(*, horizon: Any, rho: Any, constant: float = 1.0) -> Any:
    """sqrt(T) + sqrt(T / rho): then privacy is not free any more."""
    t = above("horizon", horizon, 0)
    return plain(constant * (np.sqrt(t) + np.sqrt(t / above("rho", rho, 0))))


def of_oful(setting: Setting) -> Found:
    """RS-OFUL and AdaC-OFUL: with constants where the contexts' least eigenvalue was given, else the rate.

    The theorem is for features and theta of norm at most 1; the policy gives half of `failure` to each kind of noise.
    """
    problem = {"dim": setting["dim"], "rho": rho_of(setting)}
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


def of_oful_joint(setting: Setting) -> Found:
    """AdaC-OFUL-JDP: a rate."""
    yield adac_oful_joint_rate, {"rho": rho_of(setting)}
    yield contextual_lower_rate, {"dim": setting["dim"]}
