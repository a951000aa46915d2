"""Regret bounds of the papers: their catalogue, and those for finite arms and fixed arms with features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.types import Floats

Formula = TypeVar("Formula", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A statement about regret, or about the error of a counter.

    Attributes
    ----------
    side
        "upper": the policy's regret is at most this. "lower": no policy does better on every instance.
    explicit
        Whether all constants are known; else a rate times an unknown `constant`.
    holds
        Policies for which it holds, and its probability.
    """

    name: str
    side: str
    paper: str
    statement: str
    explicit: bool
    holds: str
    formula: Callable[..., Any]

    def __call__(self, **arguments: Any) -> Any:
        return self.formula(**arguments)


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundCurve:
    """A bound at every horizon; up to a factor, unless `bound.explicit`."""

    bound: Bound
    values: Floats

    @property
    def label(self) -> str:
        """Return side and place: `upper bound, Theorem 10`; rates are upper by default."""
        kind = (
            f"{self.bound.side} bound"
            if self.bound.explicit
            else "lower rate"
            if self.bound.side == "lower"
            else "rate"
        )
        return f"{kind}, {self.bound.statement.partition(' (')[0].partition(',')[0]} [{self.bound.paper}]"


BOUNDS: dict[str, Bound] = {}


def register_bound(
    side: str, paper: str, statement: str, *, explicit: bool, holds: str
) -> Callable[[Formula], Formula]:
    """Enter a function in the catalogue."""

    def enter(formula: Formula) -> Formula:
        name = getattr(formula, "__name__", "")
        BOUNDS[name] = Bound(
            name=name, side=side, paper=paper, statement=statement, explicit=explicit, holds=holds, formula=formula
        )
        return formula

    return enter


_lower = partial(register_bound, "lower", explicit=True)
_lower_rate = partial(register_bound, "lower", explicit=False)
_rate = partial(register_bound, "upper", explicit=False)
_upper = partial(register_bound, "upper", explicit=True)


def check_above(argument: str, value: Any, least: float, *, strict: bool = True) -> Floats:
    """Return numbers above `least`, or at it unless `strict`."""
    numbers = np.asarray(value, dtype=float)
    if not np.all(numbers > least if strict else numbers >= least):
        raise InvalidArgument(argument, value, f"a number {'>' if strict else '>='} {least:g}")
    return numbers


def check_between(argument: str, value: Any, low: float, high: float) -> Floats:
    """Return numbers strictly between two ends."""
    numbers = np.asarray(value, dtype=float)
    if not np.all((numbers > low) & (numbers < high)):
        raise InvalidArgument(argument, value, f"a number in ({low:g}, {high:g})")
    return numbers


def to_scalar(value: Any) -> Any:
    """Convert a single number to float."""
    return float(value) if np.ndim(value) == 0 else value


# What a bound may know of a simulated result, as plain values: its setting.
#
# `simulate` notes it of policy and world (`simulation.engine`): "policy" (the class), "trust", "epsilon",
# "delta", "rho" of the guarantee, "dim" and "n_arms" of the world, and the policy's own numbers. A function
# `of_...(setting)` beside the formulas yields those that belong to a policy, each with its arguments but the horizon.


RunSetting = Mapping[str, Any]
BoundCalls = Iterator[tuple[Callable[..., Any], dict[str, Any]]]


def find_rho(setting: RunSetting) -> float:
    """Return the zCDP of the guarantee; epsilon tanh(epsilon/2) if pure."""
    epsilon = float(setting["epsilon"]) if is_pure(setting) else math.inf
    pure = epsilon * math.tanh(epsilon / 2)
    return min(float(setting.get("rho", math.inf)), pure)


def is_pure(setting: RunSetting) -> bool:
    """Return whether delta is 0."""
    return bool(setting.get("delta") == 0 and math.isfinite(setting.get("epsilon", math.inf)))


# Counters with k concurrent shufflers: how far the running count can be from the truth, from above and from below.
#
# Symbols: n `horizon` (users), k `shufflers`, epsilon, delta, beta `failure`.
# Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Corollary 3.5 and Theorem 4.1.


@_rate(
    "002",
    "Corollary 3.5",
    holds="the tree of k concurrent shufflers on bits, all prefixes at once; epsilon < 1, delta < 1/2",
)
def counter_rate(
    *, horizon: Any, shufflers: int, epsilon: Any, delta: Any, failure: float = 0.05, constant: float = 1.0
) -> Any:
    """Return (k^(3/2) / epsilon) sqrt(log(k/delta)) n^(1/(2k+1)) sqrt(log(1/beta) + log n)."""
    n, k = check_above("horizon", horizon, 0), int(check_above("shufflers", shufflers, 1, strict=False))
    spread = np.sqrt(np.log(k / check_between("delta", delta, 0, 1))) * k**1.5 / check_above("epsilon", epsilon, 0)
    return to_scalar(
        constant * spread * n ** (1 / (2 * k + 1)) * np.sqrt(np.log(n / check_between("failure", failure, 0, 1)))
    )


@_lower_rate(
    "002",
    "Theorem 4.1",
    holds="every (epsilon, delta) counter of bits with k shufflers, delta < min(epsilon, 1)/(40 n (k + 1)), n large",
)
def counter_lower_rate(*, horizon: Any, shufflers: int, epsilon: Any, constant: float = 1.0) -> Any:
    """Return rep_{n,k} = n^(1/(2k+1)) c^(2k/(2k+1)) / 2, c = e^epsilon / (e^(2 epsilon) + 1); k = 0 is n/2."""
    n, k = check_above("horizon", horizon, 0), int(check_above("shufflers", shufflers, 0, strict=False))
    small = np.exp(-check_above("epsilon", epsilon, 0))
    c = small / (1 + small**2)  # e^eps / (e^(2 eps) + 1)
    return to_scalar(constant * n ** (1 / (2 * k + 1)) * c ** (2 * k / (2 * k + 1)) / 2)


# Finite arms with rho-Interactive zCDP: AdaC-UCB from above, every private policy from below.
#
# Symbols: T `horizon`, K `n_arms`, Delta_a `gaps`, rho, beta `optimism`, w `width` of the rewards' range. The theorems
# are for rewards in [0, 1]; a range of width w is that problem with gaps Delta_a / w, and regret times w.
# Reference: Azize and Basu 2024 [004], Tables I and II, appendices C and G.


_ADAC = "AdaC-UCB (and, with rho = infinity, UCB in doubling episodes), rewards in a range of width w, in expectation"


@_upper("004", "Theorem 10", holds=_ADAC)
def adac_ucb_gaps(*, horizon: Any, gaps: Any, rho: Any, optimism: float, width: float = 1.0) -> Any:
    """Return sum_{a : Delta_a > 0} (8 beta log T / Delta_a + 8 sqrt(beta log T / rho) + 2 beta / (beta - 3))."""
    log_t, beta = np.log(check_above("horizon", horizon, 1, strict=False)), check_above("optimism", optimism, 3)
    total: Any = 0.0
    for gap in _unit(gaps, width):
        learning = 8 * beta * log_t / gap
        privacy = 8 * np.sqrt(beta * log_t / check_above("rho", rho, 0))
        total = total + learning + privacy + 2 * beta / (beta - 3)  # Theorem 10
    return to_scalar(width * total)


@_upper("004", "Theorem 11", holds=_ADAC)
def adac_ucb_worst(*, horizon: Any, n_arms: int, rho: Any, optimism: float, width: float = 1.0) -> Any:
    """Return 4 sqrt(2 beta K T log T) + 8 K sqrt(beta log T / rho) + 3 beta (K - 1) / (beta - 3)."""
    t, beta = check_above("horizon", horizon, 1, strict=False), check_above("optimism", optimism, 3)
    n_arms = int(check_above("n_arms", n_arms, 1, strict=False))
    learning = 4 * np.sqrt(2 * beta * n_arms * t * np.log(t))
    privacy = 8 * n_arms * np.sqrt(beta * np.log(t) / check_above("rho", rho, 0))
    return to_scalar(width * (learning + privacy + 3 * beta * (n_arms - 1) / (beta - 3)))  # Theorem 11


@_rate("004", "Table I (Theorem 11)", holds=_ADAC)
def adac_ucb_rate(*, horizon: Any, n_arms: int, rho: Any, constant: float = 1.0) -> Any:
    """Return sqrt(K T log T) + K sqrt(log T / rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(
        constant * (np.sqrt(n_arms * t * np.log(t)) + n_arms * np.sqrt(np.log(t) / check_above("rho", rho, 0)))
    )


@_rate(
    "004",
    "Table II (from Azize and Basu 2022, Theorem 7)",
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), as Table II quotes it",
)
def converted_ucb_gaps_rate(*, horizon: Any, gaps: Any, rho: Any, optimism: float, constant: float = 1.0) -> Any:
    """Return sum_{a : Delta_a > 0} (8 beta log T / Delta_a + 8 sqrt(beta / rho) log T)."""
    log_t, beta = np.log(check_above("horizon", horizon, 1, strict=False)), check_above("optimism", optimism, 0)
    private = 8 * np.sqrt(beta / check_above("rho", rho, 0)) * log_t
    return to_scalar(constant * sum(8 * beta * log_t / gap + private for gap in _unit(gaps, 1.0)))


@_rate(
    "004",
    "Table II (from Azize and Basu 2022, Theorem 12)",
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), as Table II quotes it",
)
def converted_ucb_rate(*, horizon: Any, n_arms: int, rho: Any, constant: float = 1.0) -> Any:
    """Return sqrt(K T log T) + K log T / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    return to_scalar(
        constant * (np.sqrt(n_arms * t * np.log(t)) + n_arms * np.log(t) / np.sqrt(check_above("rho", rho, 0)))
    )


@_lower(
    "004",
    "Theorem 17",
    holds="every rho-zCDP policy, worst over arms with Gaussian rewards of variance 1 and any means; K > 1, T >= K - 1",
)
def finite_lower(*, horizon: Any, n_arms: int, rho: Any = np.inf) -> Any:
    """Return max(sqrt(T (K - 1)) / 27, sqrt((K - 1) / rho) / 124), the second part only for rho <= 1.

    It is 0 for T < K - 1. Hard instances have means (D, 0, ..., 0) and (D, 0, ..., 2 D, ..., 0), with D of `hard_gap`.
    """
    t, others = check_above("horizon", horizon, 0), float(check_above("n_arms", n_arms, 1)) - 1
    budget = check_above("rho", rho, 0)
    private = np.where(budget <= 1, np.sqrt(others / budget) / 124, 0.0)
    return to_scalar(np.where(t >= others, np.maximum(np.sqrt(t * others) / 27, private), 0.0))


def hard_gap(*, horizon: float, n_arms: int, rho: float) -> float:
    """Return D of Theorem 17: 1/sqrt(b) - c/(2 b), b = rho T^2 / (K - 1) (1 + 1/(K - 1)), c = rho T / (K - 1)."""
    others = float(check_above("n_arms", n_arms, 1)) - 1
    b, c = rho * horizon**2 / others * (1 + 1 / others), rho * horizon / others
    return float(1 / np.sqrt(b) - c / (2 * b))


def _unit(gaps: Any, width: float) -> Floats:
    values = check_above("gaps", gaps, 0, strict=False).ravel() / float(check_above("width", width, 0))
    return values[values > 0]


def find_ucb_episodes_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the bounds of UCB in episodes; only a rate for optimism <= 3."""
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
    """Yield every finite-armed policy's lower bound."""
    if setting["n_arms"] > 1:
        yield finite_lower, {"n_arms": setting["n_arms"], "rho": find_rho(setting)}


# Linear bandits with distributed feedback: DP-DPE in every privacy model.
#
# Symbols: T `horizon`, k `n_arms`, d `dim`, alpha `sampling` (2^(alpha l) clients in phase l), sigma `client_std`. The
# paper gives rates; its constants are not stated, so `constant` multiplies them.
# Deviation: there is no lower bound. Remark 5.3 of the paper takes sqrt(d T) from linear bandits with one reward per
# round; here all clients of a phase see every round, and DPE stays below sqrt(d T) (docs/appendix/bounds.md).
# Reference: Li, Zhou and Ji 2024 [001], Table I and Theorem 5.1.


_TABLE = "Table I (Theorem 5.2)"


def _learning(horizon: Any, n_arms: int, sampling: float) -> tuple[Floats, Floats]:
    t = check_above("horizon", horizon, 1, strict=False)
    return t, t ** (1 - float(check_above("sampling", sampling, 0)) / 2) * np.sqrt(np.log(n_arms * t))


@_rate("001", "Table I (Theorem 5.1)", holds="DPE, in expectation")
def dpe_rate(*, horizon: Any, n_arms: int, sampling: float, constant: float = 1.0) -> Any:
    """Return T^(1 - alpha/2) sqrt(log(k T))."""
    return to_scalar(constant * _learning(horizon, n_arms, sampling)[1])


@_rate("001", "Theorem 5.1", holds="DPE, in expectation")
def dpe_full_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, client_std: float, constant: float = 1.0
) -> Any:
    """Return sqrt(d T log(k T)) + sigma T^(1 - alpha/2) sqrt(log(k T)); Table I leaves out the first term."""
    t, clients = _learning(horizon, n_arms, sampling)
    return to_scalar(constant * (np.sqrt(dim * t * np.log(n_arms * t)) + client_std * clients))


@register_bound("upper", "001", _TABLE, explicit=False, holds="CDP-DPE, (epsilon, delta)-DP, in expectation")
def cdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / check_between("delta", delta, 0, 1)) * np.log(n_arms * t)) / check_above(
        "epsilon", epsilon, 0
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


@register_bound("upper", "001", _TABLE, explicit=False, holds="LDP-DPE, (epsilon, delta)-local DP, in expectation")
def ldp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha/2) sqrt(log(1/delta) log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = np.sqrt(np.log(1 / check_between("delta", delta, 0, 1)) * np.log(n_arms * t)) / check_above(
        "epsilon", epsilon, 0
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling / 2) * noise))


@register_bound("upper", "001", _TABLE, explicit=False, holds="SDP-DPE, (epsilon, delta)-shuffle DP, in expectation")
def sdp_dpe_rate(
    *, horizon: Any, n_arms: int, dim: int, sampling: float, epsilon: Any, delta: Any, constant: float = 1.0
) -> Any:
    """Return T^(1 - alpha/2) sqrt(log(k T)) + d^(3/2) T^(1 - alpha) log(d/delta) sqrt(log(k T)) / epsilon."""
    t, clients = _learning(horizon, n_arms, sampling)
    noise = (
        np.log(dim / check_between("delta", delta, 0, 1))
        * np.sqrt(np.log(n_arms * t))
        / check_above("epsilon", epsilon, 0)
    )
    return to_scalar(constant * (clients + dim**1.5 * t ** (1 - sampling) * noise))


def find_phased_elimination_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the rates of Table I of 001."""
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


# Linear bandits with a fixed set of arms and rho-Interactive zCDP: AdaC-GOPE from above, every policy from below.
#
# Symbols: T `horizon`, K `n_arms`, d `dim`, rho, delta of the paper `failure`, w `width` of the rewards' range (2 in
# the paper: rewards in [-1, 1]). Reference: Azize and Basu 2024 [004], Tables I and II, Theorems 4 and 9, appendices E
# and G.


_LARGEST_PHASES = 64


@_upper(
    "004",
    "Theorem 4, with the constants of its proof",
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
    """Return min_L sum_{l=1}^L 4 beta_{l-1} T_l + 4 beta_L T, with beta_l = s 2^-l and T_l <= support + c_l.

    c_l = (8 d s^2 / beta_l^2) log(4 / p_l) + (w d / beta_l) sqrt((2/rho) f(d, p_l)), p_l = failure / (K l (l + 1)),
    f(d, p) = d + 2 sqrt(d log(2/p)) + 2 log(2/p). `support` bounds the arms of a design; s is `reward_std`.
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
    """Return c_l of [004, (4)]: then every arm is known up to beta, except with probability `failure`."""
    log = math.log(2 / failure)
    norm = dim + 2 * math.sqrt(dim * log) + 2 * log  # f(d, delta)
    return 8 * dim * (reward_std / beta) ** 2 * math.log(4 / failure) + width * dim / beta * math.sqrt(2 * norm / rho)


@_rate("004", "Table I (Theorem 4)", holds="AdaC-GOPE with failure = 1/T, in expectation")
def adac_gope_rate(*, horizon: Any, n_arms: int, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """Return sqrt(d T log(K T)) + d log(K T)^(3/2) / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    log = np.log(n_arms * t)
    return to_scalar(constant * (np.sqrt(dim * t * log) + dim * log**1.5 / np.sqrt(check_above("rho", rho, 0))))


@_rate(
    "004",
    "Table II (from Hanna et al. 2022, (17))",
    holds="a pure-DP algorithm at epsilon = sqrt(2 rho), noise in the beginning, as Table II quotes it",
)
def converted_gope_rate(*, horizon: Any, n_arms: int, dim: int, rho: Any, constant: float = 1.0) -> Any:
    """Return sqrt(d T log(K T)) + d^2 log(K T)^2 / sqrt(rho)."""
    t = check_above("horizon", horizon, 1, strict=False)
    log = np.log(n_arms * t)
    return to_scalar(constant * (np.sqrt(dim * t * log) + dim**2 * log**2 / np.sqrt(check_above("rho", rho, 0))))


@_lower(
    "004",
    "Theorem 9",
    holds="every rho-Interactive zCDP policy, worst over theta in R^d and K arms, Gaussian rewards of variance 1",
)
def linear_lower(*, horizon: Any, dim: int, n_arms: Any = math.inf, rho: Any = np.inf, as_printed: bool = False) -> Any:
    """Return max(e^-2 b sqrt(T) / 8, e^-2.25 b / (8 sqrt(rho))), b = min(d, floor(log2 K)).

    The second part is 0 for rho > 1. The theorem is for the arms [-1, 1]^d; fewer arms can be the corners of b
    coordinates. `as_printed` has e^-2.25 / 4 (docs/appendix/bounds.md). Hard instances: theta in
    {-1, 1}^d / (T sqrt(rho)), or / sqrt(T) without privacy.
    """
    t, budget = check_above("horizon", horizon, 0), check_above("rho", rho, 0)
    size = np.minimum(dim, np.floor(np.log2(check_above("n_arms", n_arms, 2, strict=False))))
    private = math.exp(-2.25) / (4 if as_printed else 8) * size / np.sqrt(budget)
    return to_scalar(np.maximum(math.exp(-2) / 8 * size * np.sqrt(t), np.where(budget <= 1, private, 0.0)))


def find_gope_bounds(setting: RunSetting) -> BoundCalls:
    """Yield the bounds of GOPE; with initial noise, Table II's rate."""
    problem = {"n_arms": setting["n_arms"], "dim": setting["dim"], "rho": find_rho(setting)}
    if setting.get("noise") == "beginning":
        yield converted_gope_rate, problem
    else:
        width = setting.get("reward_width", 2.0)
        std = setting.get("reward_std") or width / 2
        yield adac_gope_proof, {**problem, "failure": setting["failure"], "width": width, "reward_std": std}
    if setting["n_arms"] > 1:
        yield linear_lower, problem
