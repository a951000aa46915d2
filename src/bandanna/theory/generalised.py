"""Generalised linear contextual bandits: rates of paper 003, logarithms as the abstract has them.

Symbols: T `horizon`, K `n_arms`, d `dim`, epsilon. The instance's kappa is in lower-order terms only, which are left
out. Reference: paper [003], abstract, Theorems 5.1 and 6.2, Lemma 7.1; Sawarni et al. 2024. The displayed formulas of
our copy of [003] are lost: the upper rates are those of its abstract.

The lower rate. Section 7 of [003] adds two bounds. The first, d sqrt(T) of Abeille et al. 2021 (Theorem 2), is for the
unit ball as the set of arms. The second, d/epsilon of Lemma 7.1, is for the 2d arms +e_i and -e_i, scaled. Neither is
for K arms, and d sqrt(T) is false for few of them: SupLinUCB has sqrt(d T) times logarithms at K = 2 (Chu et al. 2011).
Contexts that take turns give a bound for every K >= 2 (ours, not the paper's). Let b = min(d, log2 K):

* Split the d coordinates into d/b blocks of b, and show block after block, its 2^b <= K arms being the signs over
  sqrt b. A block is a bandit of dimension b with T b/d rounds, whose regret is of order b sqrt(T b/d) (Dani et al.
  2008). The d/b blocks together have sqrt(d T b).
* Show the pair +e_i, -e_i to every d-th user: two arms are enough. The actions of the first 1/epsilon users of a pair
  have nearly the same law for both signs of theta_i, so regret is of order min(T, d/epsilon).

With K >= 2^d arms the first term is d sqrt(T), as in [003].
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


@states(
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
    t, e, k = above("horizon", horizon, 0), above("epsilon", epsilon, 0), above("n_arms", n_arms, 2, strict=False)
    return plain(constant * (np.sqrt(dim * t * np.minimum(dim, np.log2(k))) + np.minimum(t, dim / e)))


def of_rs_glinucb(setting: Setting) -> Found:
    """RS-GLinUCB: a rate."""
    yield rs_glinucb_rate, {"dim": setting["dim"]}


def of_glm_jdp(setting: Setting) -> Found:
    """GLM-JDP: rates."""
    yield glm_jdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _lower(setting, private)


def of_glm_sdp(setting: Setting) -> Found:
    """GLM-SDP: rates."""
    yield glm_sdp_rate, (private := {"dim": setting["dim"], "epsilon": setting["epsilon"]})
    yield from _lower(setting, private)


def _lower(setting: Setting, private: dict[str, Any]) -> Found:
    """The lower rate; a single arm has no regret."""
    if setting["n_arms"] > 1:
        yield glm_lower_rate, private | {"n_arms": setting["n_arms"]}
