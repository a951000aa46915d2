"""Regret bounds for finite arms and for linear bandits with a distributed population."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna.policies.theory.base import (
    BoundCalls,
    RunSetting,
    check_above,
    check_between,
    find_rho,
    is_pure,
    register_bound,
    to_scalar,
)
from bandanna.types import Floats

# Finite arms with rho-Interactive zCDP: AdaC-UCB from above, every private policy from below.
#
# Symbols: T `horizon`, K `n_arms`, Delta_a `gaps`, rho, beta `optimism`, w `width` of the rewards' range. The theorems
# are for rewards in [0, 1]; a range of width w is that problem with gaps Delta_a / w, and regret times w.
# Reference: Azize and Basu 2024 [004], Tables I and II, appendices C and G.


_ADAC = "AdaC-UCB (and, with rho = infinity, UCB in doubling episodes), rewards in a range of width w, in expectation"


@register_bound("upper", "004", "Theorem 10", explicit=True, holds=_ADAC)
def adac_ucb_gaps(*, horizon: Any, gaps: Any, rho: Any, optimism: float, width: float = 1.0) -> Any:
    """sum_{a : Delta_a > 0} (8 beta log T / Delta_a + 8 sqrt(beta log T / rho) + 2 beta / (beta - 3))."""
    log_t, beta = np.log(check_above("horizon", horizon, 1, strict=False)), check_above("optimism", optimism, 3)
    total: Any = 0.0
    for gap in _unit(gaps, width):
        learning = 8 * beta * log_t / gap
        privacy = 8 * np.sqrt(beta * log_t / check_above("rho", rho, 0))
        total = total + learning + privacy + 2 * beta / (beta - 3)  # Theorem 10
    return to_scalar(width * total)


@register_bound("upper", "004", "Theorem 11", explicit=True, holds=_ADAC)
def adac_ucb_worst(*, horizon: Any, n_arms: int, rho: Any, optimism: float, width: float = 1.0) -> Any:
    """4 sqrt(2 beta K T log T) + 8 K sqrt(beta log T / rho) + 3 beta (K - 1) / (beta - 3), for any gaps.

    The constants are those of the theorem's proof; gaps sum to at most K - 1 in units of the range.
    """
    t, beta = check_above("horizon", horizon, 1, strict=False), check_above("optimism", optimism, 3)
    n_arms = int(check_above("n_arms", n_arms, 1, strict=False))
    learning = 4 * np.sqrt(2 * beta * n_arms * t * np.log(t))
    privacy = 8 * n_arms * np.sqrt(beta * np.log(t) / check_above("rho", rho, 0))
    return to_scalar(width * (learning + privacy + 3 * beta * (n_arms - 1) / (beta - 3)))  # Theorem 11


@register_bound("upper", "004", "Table I (Theorem 11)", explicit=False, holds=_ADAC)
def adac_ucb_rate(*, horizon: Any, n_arms: int, rho: Any, constant: float = 1.0) -> Any:
    """sqrt(K T log T) + K sqrt(log T / rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(
        constant * (np.sqrt(n_arms * t * np.log(t)) + n_arms * np.sqrt(np.log(t) / check_above("rho", rho, 0)))
    )


@register_bound(
    "upper",
    "004",
    "Table II (from Azize and Basu 2022, Theorem 7)",
    explicit=False,
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), as Table II quotes it",
)
def converted_ucb_gaps_rate(*, horizon: Any, gaps: Any, rho: Any, optimism: float, constant: float = 1.0) -> Any:
    """sum_{a : Delta_a > 0} (8 beta log T / Delta_a + 8 sqrt(beta / rho) log T): sqrt(log T) more than Theorem 10."""
    log_t, beta = np.log(check_above("horizon", horizon, 1, strict=False)), check_above("optimism", optimism, 0)
    private = 8 * np.sqrt(beta / check_above("rho", rho, 0)) * log_t
    return to_scalar(constant * sum(8 * beta * log_t / gap + private for gap in _unit(gaps, 1.0)))


@register_bound(
    "upper",
    "004",
    "Table II (from Azize and Basu 2022, Theorem 12)",
    explicit=False,
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), as Table II quotes it",
)
def converted_ucb_rate(*, horizon: Any, n_arms: int, rho: Any, constant: float = 1.0) -> Any:
    """sqrt(K T log T) + K log T / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(
        constant * (np.sqrt(n_arms * t * np.log(t)) + n_arms * np.log(t) / np.sqrt(check_above("rho", rho, 0)))
    )


@register_bound(
    "lower",
    "004",
    "Theorem 17",
    explicit=True,
    holds="every rho-zCDP policy, worst over arms with Gaussian rewards of variance 1 and any means; K > 1, T >= K - 1",
)
def finite_lower(*, horizon: Any, n_arms: int, rho: Any = np.inf) -> Any:
    """max(sqrt(T (K - 1)) / 27, sqrt((K - 1) / rho) / 124); the second part is proven for rho <= 1, and 0 above.

    0 where nothing is proven, T < K - 1. The hard instances have means (D, 0, ..., 0) and (D, 0, ..., 2 D, ..., 0):
    see `hard_gap` for the private part's D.
    """
    t, others = check_above("horizon", horizon, 0), float(check_above("n_arms", n_arms, 1)) - 1
    budget = check_above("rho", rho, 0)
    private = np.where(budget <= 1, np.sqrt(others / budget) / 124, 0.0)
    return to_scalar(np.where(t >= others, np.maximum(np.sqrt(t * others) / 27, private), 0.0))


def hard_gap(*, horizon: float, n_arms: int, rho: float) -> float:
    """D of Theorem 17's proof: 1/sqrt(b) - c/(2 b), b = rho T^2 / (K - 1) (1 + 1/(K - 1)), c = rho T / (K - 1)."""
    others = float(check_above("n_arms", n_arms, 1)) - 1
    b, c = rho * horizon**2 / others * (1 + 1 / others), rho * horizon / others
    return float(1 / np.sqrt(b) - c / (2 * b))


def _unit(gaps: Any, width: float) -> Floats:
    """Positive gaps, in units of the range."""
    values = check_above("gaps", gaps, 0, strict=False).ravel() / float(check_above("width", width, 0))
    return values[values > 0]


def find_ucb_episodes_bounds(setting: RunSetting) -> BoundCalls:
    """UCB-episodes, AdaC-UCB, AdaP-UCB; the theorems need optimism > 3, else only their rate is left."""
    rho, n_arms = find_rho(setting), setting["n_arms"]
    if is_pure(setting):
        yield converted_ucb_rate, {"n_arms": n_arms, "rho": rho}
    elif setting["optimism"] <= 3:
        yield adac_ucb_rate, {"n_arms": n_arms, "rho": rho}
    else:
        shared = {"rho": rho, "optimism": setting["optimism"], "width": setting.get("reward_width", 1.0)}
        gaps = [gap for gap in setting.get("gaps", ()) if gap > 0]
        if gaps:
            yield adac_ucb_gaps, {"gaps": gaps, **shared}
        yield adac_ucb_worst, {"n_arms": n_arms, **shared}
    yield from find_finite_arm_bounds(setting)


def find_finite_arm_bounds(setting: RunSetting) -> BoundCalls:
    """Every finite-armed policy: the lower bound."""
    if setting["n_arms"] > 1:
        yield finite_lower, {"n_arms": setting["n_arms"], "rho": find_rho(setting)}


# Linear bandits with distributed feedback: DP-DPE in every trust model.
#
# Symbols: T `horizon`, k `n_arms`, d `dim`, alpha `sampling` (2^(alpha l) clients in phase l), sigma `client_std`. The
# paper gives rates; its constants are not stated, so `constant` multiplies them.
# Deviation: there is no lower bound. Remark 5.3 of the paper takes sqrt(d T) from linear bandits with one reward per
# round; here all clients of a phase see every round, and DPE stays below sqrt(d T) (docs/appendix/bounds.md).
# Reference: Li, Zhou and Ji 2024 [001], Table I and Theorem 5.1.


_TABLE = "Table I (Theorem 5.2)"


def _learning(horizon: Any, n_arms: int, sampling: float) -> tuple[Floats, Floats]:
    """T, and Table I's first term T^(1 - alpha/2) sqrt(log(k T))."""
    t = check_above("horizon", horizon, 1, strict=False)
    return t, t ** (1 - float(check_above("sampling", sampling, 0)) / 2) * np.sqrt(np.log(n_arms * t))


@register_bound("upper", "001", "Table I (Theorem 5.1)", explicit=False, holds="DPE, in expectation")
def dpe_rate(*, horizon: Any, n_arms: int, sampling: float, constant: float = 1.0) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T))."""
    return to_scalar(constant * _learning(horizon, n_arms, sampling)[1])


@register_bound("upper", "001", "Theorem 5.1", explicit=False, holds="DPE, in expectation")
def dpe_full_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, client_std: float, constant: float = 1.0
) -> Any:
    """sqrt(d T log(k T)) + sigma T^(1 - alpha/2) sqrt(log(k T)): with the term that Table I leaves out."""
    t, clients = _learning(horizon, n_arms, sampling)
    return to_scalar(constant * (np.sqrt(dim * t * np.log(n_arms * t)) + client_std * clients))


@register_bound("upper", "001", _TABLE, explicit=False, holds="CDP-DPE, (epsilon, delta)-DP, in expectation")
def cdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / check_between("delta", delta, 0, 1)) * np.log(n_arms * t)) / check_above(
        "epsilon", epsilon, 0
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


@register_bound("upper", "001", _TABLE, explicit=False, holds="LDP-DPE, (epsilon, delta)-local DP, in expectation")
def ldp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha/2) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / check_between("delta", delta, 0, 1)) * np.log(n_arms * t)) / check_above(
        "epsilon", epsilon, 0
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling / 2) * noise))


@register_bound("upper", "001", _TABLE, explicit=False, holds="SDP-DPE, (epsilon, delta)-shuffle DP, in expectation")
def sdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) log(d/delta) sqrt(log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = (
        np.log(dim / check_between("delta", delta, 0, 1))
        * np.sqrt(np.log(n_arms * t))
        / check_above("epsilon", epsilon, 0)
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


def find_phased_elimination_bounds(setting: RunSetting) -> BoundCalls:
    """DPE, CDP-DPE, LDP-DPE, SDP-DPE: rates, from Table I of 001."""
    shared = {"n_arms": setting["n_arms"], "sampling": setting["alpha"]}
    private = {"dim": setting["dim"], "epsilon": setting["epsilon"], "delta": setting["delta"]}
    tables = {
        "central": cdp_dpe_rate,
        "local": ldp_dpe_rate,
        "shuffle": sdp_dpe_rate,
    }
    if setting["trust"] == "none" or math.isinf(setting["epsilon"]):
        yield dpe_rate, shared
    elif setting["delta"] > 0:
        yield tables[setting["trust"]], {**shared, **private}
