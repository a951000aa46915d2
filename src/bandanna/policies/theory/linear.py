"""Regret bounds for linear and generalised linear bandits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.policies.theory.base import BoundCalls, RunSetting, check_above, find_rho, register_bound, to_scalar

# Linear bandits with a fixed set of arms and rho-Interactive zCDP: AdaC-GOPE from above, every policy from below.
#
# Symbols: T `horizon`, K `n_arms`, d `dim`, rho, delta of the paper `failure`, w `width` of the rewards' range (2 in
# the paper: rewards in [-1, 1]). Reference: Azize and Basu 2024 [004], Tables I and II, Theorems 4 and 9, appendices E
# and G.


_LARGEST_PHASES = 64


@register_bound(
    "upper",
    "004",
    "Theorem 4, with the constants of its proof",
    explicit=True,
    holds="AdaC-GOPE with c_l plays as printed, any gaps; except with probability `failure`",
)
def adac_gope_proof(
    *,
    horizon: Any,
    n_arms: int,
    dim: int,
    rho: float,
    failure: float,
    width: float = 2.0,
    reward_std: float = 1.0,
    support: int | None = None,
) -> Any:
    """min_L sum_{l=1}^L 4 beta_{l-1} T_l + 4 beta_L T, with beta_l = s 2^-l and T_l <= support + c_l.

    c_l = (8 d s^2 / beta_l^2) log(4 / p_l) + (w d / beta_l) sqrt((2/rho) f(d, p_l)), p_l = failure / (K l (l + 1)),
    f(d, p) = d + 2 sqrt(d log(2/p)) + 2 log(2/p). Step 3 of the proof for every number of phases L instead of one
    Delta: arms that are left after phase l have gaps of at most 4 beta_l, and of at most w. `support` bounds the arms
    of a design, d (d + 1) / 2 by default; s = `reward_std` is 1 in the paper.
    """
    t = check_above("horizon", horizon, 1, strict=False)
    validation.open_probability("failure", failure)
    check_above("rho", rho, 0)
    most = dim * (dim + 1) // 2 if support is None else support
    spent, best = np.zeros_like(t), width * t
    for phase in range(1, _LARGEST_PHASES):
        beta, share = reward_std * 2.0**-phase, failure / (n_arms * phase * (phase + 1))
        rounds = most + phase_length(
            beta=beta, dim=dim, rho=rho, failure=share, width=width, reward_std=reward_std
        )  # Step 4
        spent = spent + min(4 * 2 * beta, width) * np.minimum(rounds, t)
        best = np.minimum(best, spent + 4 * beta * t)  # Step 3
    return to_scalar(best)


def phase_length(
    *, beta: float, dim: int, rho: float, failure: float, width: float = 2.0, reward_std: float = 1.0
) -> float:
    """c_l of [004, (4)]: plays after which every arm's value is known up to beta, except with probability `failure`."""
    log = math.log(2 / failure)
    norm = dim + 2 * math.sqrt(dim * log) + 2 * log  # f(d, delta)
    return 8 * dim * (reward_std / beta) ** 2 * math.log(4 / failure) + width * dim / beta * math.sqrt(2 * norm / rho)


@register_bound(
    "upper", "004", "Table I (Theorem 4)", explicit=False, holds="AdaC-GOPE with failure = 1/T, in expectation"
)
def adac_gope_rate(*, horizon: Any, n_arms: int, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """sqrt(d T log(K T)) + d log(K T)^(3/2) / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    log = np.log(n_arms * t)
    return to_scalar(constant * (np.sqrt(dim * t * log) + dim * log**1.5 / np.sqrt(check_above("rho", rho, 0))))


@register_bound(
    "upper",
    "004",
    "Table II (from Hanna et al. 2022, (17))",
    explicit=False,
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), noise in the beginning, as Table II quotes it",
)
def converted_gope_rate(*, horizon: Any, n_arms: int, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """sqrt(d T log(K T)) + d^2 log(K T)^2 / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    log = np.log(n_arms * t)
    return to_scalar(constant * (np.sqrt(dim * t * log) + dim**2 * log**2 / np.sqrt(check_above("rho", rho, 0))))


@register_bound(
    "lower",
    "004",
    "Theorem 9",
    explicit=True,
    holds="every rho-Interactive zCDP policy, worst over theta in R^d and K arms, Gaussian rewards of variance 1",
)
def linear_lower(*, horizon: Any, dim: int, n_arms: Any = math.inf, rho: Any = np.inf, as_printed: bool = False) -> Any:
    """max(e^-2 b sqrt(T) / 8, e^-2.25 b / (8 sqrt(rho))), b = min(d, floor(log2 K)); its second part is 0 for rho > 1.

    The theorem is for the arms [-1, 1]^d. The best of them is a corner for every theta, so the 2^d corners are enough;
    fewer arms can be the corners of b coordinates. The paper prints e^-2.25 / 4 (`as_printed`): its Step 1 applies
    Markov's inequality at T/2 and drops the factor 1/2 that the non-private part keeps. Hard instances: theta in
    {-1, 1}^d / (T sqrt(rho)), or / sqrt(T) without privacy.

    Parameters
    ----------
    horizon
        T.
    dim
        d.
    n_arms
        K, at least 2; `math.inf` for all of [-1, 1]^d.
    rho
        Of the guarantee; infinite without privacy.
    as_printed
        Whether the private part has the printed constant.

    Returns
    -------
    float or array
        The bound at every horizon.
    """
    t, budget = check_above("horizon", horizon, 0), check_above("rho", rho, 0)
    size = np.minimum(dim, np.floor(np.log2(check_above("n_arms", n_arms, 2, strict=False))))
    private = math.exp(-2.25) / (4 if as_printed else 8) * size / np.sqrt(budget)
    return to_scalar(np.maximum(math.exp(-2) / 8 * size * np.sqrt(t), np.where(budget <= 1, private, 0.0)))


def find_gope_bounds(setting: RunSetting) -> BoundCalls:
    """GOPE and AdaC-GOPE; with noise in the beginning, the rate that Table II quotes for such algorithms."""
    problem = {"n_arms": setting["n_arms"], "dim": setting["dim"], "rho": find_rho(setting)}
    if setting.get("noise") == "beginning":
        yield converted_gope_rate, problem
    else:
        width = setting.get("reward_width", 2.0)
        std = setting.get("reward_std") or width / 2
        yield adac_gope_proof, {**problem, "failure": setting["failure"], "width": width, "reward_std": std}
    if setting["n_arms"] > 1:
        yield linear_lower, problem


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


@register_bound("upper", "003", "Theorem 2 of Sawarni et al. 2024", explicit=False, holds="RS-GLinUCB; any contexts")
def rs_glinucb_rate(*, horizon: Any, dim: int, constant: float = 1.0) -> Any:
    """d sqrt(T) log T."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(constant * dim * np.sqrt(t) * np.log(t))


@register_bound("upper", "003", "Theorem 6.2", explicit=False, holds="GLM-JDP, as printed; any contexts")
def glm_jdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """d sqrt(T) log T + d^(3/4) sqrt(T/epsilon) log T (d + log T)^(1/4)."""
    t, e = check_above("horizon", horizon, 1, strict=False), check_above("epsilon", epsilon, 0)
    log = np.log(t)
    private = dim**0.75 * np.sqrt(t / e) * log * (dim + log) ** 0.25
    return to_scalar(constant * (dim * np.sqrt(t) * log + private))


@register_bound("upper", "003", "Theorem 5.1", explicit=False, holds="GLM-SDP, as printed; contexts of one law")
def glm_sdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """d^(3/2) sqrt(T log T) max(1, 1/sqrt(epsilon))."""
    t, e = check_above("horizon", horizon, 1, strict=False), check_above("epsilon", epsilon, 0)
    return to_scalar(constant * dim**1.5 * np.sqrt(t * np.log(t)) * np.maximum(1.0, 1 / np.sqrt(e)))


@register_bound(
    "lower",
    "003",
    "Section 7 for K arms",
    explicit=False,
    holds="any policy with differentially private rewards; worst public contexts with K arms",
)
def glm_lower_rate(*, horizon: Any, dim: int, n_arms: Any, epsilon: Any, constant: float = 1.0) -> Any:
    """sqrt(d T min(d, log2 K)) + min(T, d/epsilon).

    Parameters
    ----------
    horizon
        T.
    dim
        d.
    n_arms
        K, at least 2; `math.inf` for the unit ball.
    epsilon
        Of the guarantee.
    constant
        The unknown factor.

    Returns
    -------
    float or array
        The rate at every horizon.
    """
    t, e, k = (
        check_above("horizon", horizon, 0),
        check_above("epsilon", epsilon, 0),
        check_above("n_arms", n_arms, 2, strict=False),
    )
    return to_scalar(constant * (np.sqrt(dim * t * np.minimum(dim, np.log2(k))) + np.minimum(t, dim / e)))


def find_rs_glinucb_bounds(setting: RunSetting) -> BoundCalls:
    """RS-GLinUCB: a rate."""
    yield rs_glinucb_rate, {"dim": setting["dim"]}


def find_glm_jdp_bounds(setting: RunSetting) -> BoundCalls:
    """GLM-JDP: rates."""
    yield glm_jdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _lower(setting, private)


def find_glm_sdp_bounds(setting: RunSetting) -> BoundCalls:
    """GLM-SDP: rates."""
    yield glm_sdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _lower(setting, private)


def _lower(setting: RunSetting, private: dict[str, Any]) -> BoundCalls:
    """The lower rate; a single arm has no regret."""
    if setting["n_arms"] > 1:
        yield glm_lower_rate, private | {"n_arms": setting["n_arms"]}
