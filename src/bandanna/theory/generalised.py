"""Generalised linear contextual bandits: rates of paper 003, logarithms as the abstract has them.

Symbols: T `horizon`, d `dim`, epsilon. The instance's kappa is in lower-order terms only, which are left out.
Reference: paper [003], abstract, Theorems 5.1 and 6.2, Lemma 7.1; Sawarni et al. 2024. The displayed formulas of our
copy of [003] are lost: the upper rates are those of its abstract, the lower one is put together from its text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.theory.catalogue import above, plain, states
from bandanna.theory.settings import Found, Setting


@states("upper", "003", "Theorem 2 of Sawarni et al. 2024", explicit=False, holds="RS-GLinUCB; any contexts")
def rs_glinucb_rate(*, horizon: Any, dim: int, constant: float = 1.0) -> Any:
    """d sqrt(T) log T."""
    t = above("horizon", horizon, 1, strict=False)
    return plain(constant * dim * np.sqrt(t) * np.log(t))


@states("upper", "003", "Theorem 6.2", explicit=False, holds="GLM-JDP, as printed; any contexts")
def glm_jdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """d sqrt(T) log T + d^(3/4) sqrt(T/epsilon) log T (d + log T)^(1/4)."""
    t, e = above("horizon", horizon, 1, strict=False), above("epsilon", epsilon, 0)
    log = np.log(t)
    private = dim**0.75 * np.sqrt(t / e) * log * (dim + log) ** 0.25
    return plain(constant * (dim * np.sqrt(t) * log + private))


@states("upper", "003", "Theorem 5.1", explicit=False, holds="GLM-SDP, as printed; contexts of one law")
def glm_sdp_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """d^(3/2) sqrt(T log T) max(1, 1/sqrt(epsilon))."""
    t, e = above("horizon", horizon, 1, strict=False), above("epsilon", epsilon, 0)
    return plain(constant * dim**1.5 * np.sqrt(t * np.log(t)) * np.maximum(1.0, 1 / np.sqrt(e)))


@states("lower", "003", "Lemma 7.1 with Abeille et al. 2021", explicit=False, holds="any policy; fixed public contexts")
def glm_lower_rate(*, horizon: Any, dim: int, epsilon: Any, constant: float = 1.0) -> Any:
    """d sqrt(T) + d/epsilon."""
    t, e = above("horizon", horizon, 0), above("epsilon", epsilon, 0)
    return plain(constant * (dim * np.sqrt(t) + dim / e))


def of_rs_glinucb(setting: Setting) -> Found:
    """RS-GLinUCB: a rate."""
    yield rs_glinucb_rate, {"dim": setting["dim"]}


def of_glm_jdp(setting: Setting) -> Found:
    """GLM-JDP: rates."""
    yield glm_jdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield glm_lower_rate, private


def of_glm_sdp(setting: Setting) -> Found:
    """GLM-SDP: rates."""
    yield glm_sdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield glm_lower_rate, private
