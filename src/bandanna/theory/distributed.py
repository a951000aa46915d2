"""Linear bandits with distributed feedback: DP-DPE in every trust model.

Symbols: T `horizon`, k `n_arms`, d `dim`, alpha `sampling` (2^(alpha l) clients in phase l), sigma `client_std`. The
paper gives rates; its constants are not stated, so `constant` multiplies them.
Deviation: there is no lower bound. Remark 5.3 of the paper takes sqrt(d T) from linear bandits with one reward per
round; here all clients of a phase see every round, and DPE stays below sqrt(d T) (docs/bounds.md).
Reference: Li, Zhou and Ji 2024 [001], Table I and Theorem 5.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.theory.catalogue import above, plain, states, within
from bandanna.theory.settings import Found, Setting

_TABLE = "Table I (Theorem 5.2)"


def _learning(horizon: Any, n_arms: int, sampling: float) -> tuple[Floats, Floats]:
    """T, and Table I's first term T^(1 - alpha/2) sqrt(log(k T))."""
    t = above("horizon", horizon, 1, strict=False)
    return t, t ** (1 - float(above("sampling", sampling, 0)) / 2) * np.sqrt(np.log(n_arms * t))


@states("upper", "001", "Table I (Theorem 5.1)", explicit=False, holds="DPE, in expectation")
def dpe_rate(*, horizon: Any, n_arms: int, sampling: float, constant: float = 1.0) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T))."""
    return plain(constant * _learning(horizon, n_arms, sampling)[1])


@states("upper", "001", "Theorem 5.1", explicit=False, holds="DPE, in expectation")
def dpe_full_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, client_std: float, constant: float = 1.0
) -> Any:
    """sqrt(d T log(k T)) + sigma T^(1 - alpha/2) sqrt(log(k T)): with the term that Table I leaves out."""
    t, clients = _learning(horizon, n_arms, sampling)
    return plain(constant * (np.sqrt(dim * t * np.log(n_arms * t)) + client_std * clients))


@states("upper", "001", _TABLE, explicit=False, holds="CDP-DPE, (epsilon, delta)-DP, in expectation")
def cdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / within("delta", delta, 0, 1)) * np.log(n_arms * t)) / above("epsilon", epsilon, 0)
    return plain(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


@states("upper", "001", _TABLE, explicit=False, holds="LDP-DPE, (epsilon, delta)-local DP, in expectation")
def ldp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha/2) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / within("delta", delta, 0, 1)) * np.log(n_arms * t)) / above("epsilon", epsilon, 0)
    return plain(constant * (clients + dim**1.5 * t ** (1 - sampling / 2) * noise))


@states("upper", "001", _TABLE, explicit=False, holds="SDP-DPE, (epsilon, delta)-shuffle DP, in expectation")
def sdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) log(d/delta) sqrt(log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.log(dim / within("delta", delta, 0, 1)) * np.sqrt(np.log(n_arms * t)) / above("epsilon", epsilon, 0)
    return plain(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


def of_phased_elimination(setting: Setting) -> Found:
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
