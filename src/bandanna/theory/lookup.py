"""Which bounds belong to a simulated result: by its policy, its guarantee and its problem.

A setting is what `simulate` notes of policy and world, as plain values (`simulation/setting.py`): "policy" (the class),
"trust", "epsilon", "delta", "rho" of the guarantee, "dim" and "arms" of the world, and the policy's own numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.theory import contextual, distributed, finite, generalised, linear, public_contexts
from bandanna.theory.catalogue import BOUNDS, Bound, Floats

Setting = Mapping[str, Any]
Found = Iterator[tuple[Callable[..., Any], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A bound at every horizon that was asked for; a rate, up to a factor, unless `bound.explicit`."""

    bound: Bound
    values: Floats

    @property
    def label(self) -> str:
        """Side and place: `upper bound, Theorem 10`; rates are upper ones unless it says otherwise."""
        kind = (
            f"{self.bound.side} bound"
            if self.bound.explicit
            else "lower rate"
            if self.bound.side == "lower"
            else "rate"
        )
        return f"{kind}, {self.bound.statement.partition(' (')[0].partition(',')[0]} [{self.bound.paper}]"


def bounds_for(setting: Setting, horizons: Any) -> list[Curve]:
    """Upper and lower bounds on the regret after `horizons` rounds; none for a policy that no table of ours covers."""
    rounds = np.atleast_1d(np.asarray(horizons, dtype=float))
    find = _FAMILIES.get(str(setting.get("policy", "")))
    found = [] if find is None else list(find(setting))
    return [
        Curve(bound=BOUNDS[formula.__name__], values=np.asarray(formula(horizon=rounds, **arguments), dtype=float))
        for formula, arguments in found
    ]


def _rho(setting: Setting) -> float:
    """zCDP of the guarantee: stated, or epsilon^2/2 of a pure one; infinite without privacy."""
    return min(float(setting.get("rho", math.inf)), float(setting["epsilon"]) ** 2 / 2 if _pure(setting) else math.inf)


def _pure(setting: Setting) -> bool:
    return bool(setting.get("delta") == 0 and math.isfinite(setting.get("epsilon", math.inf)))


def _ucb_episodes(setting: Setting) -> Found:
    """UCB-episodes, AdaC-UCB, AdaP-UCB; the theorems need optimism > 3, else only their rate is left."""
    rho, arms = _rho(setting), setting["arms"]
    if _pure(setting):
        yield finite.converted_ucb_rate, {"arms": arms, "rho": rho}
    elif setting["optimism"] <= 3:
        yield finite.adac_ucb_rate, {"arms": arms, "rho": rho}
    else:
        shared = {"rho": rho, "optimism": setting["optimism"], "width": setting.get("reward_width", 1.0)}
        gaps = [gap for gap in setting.get("gaps", ()) if gap > 0]
        if gaps:
            yield finite.adac_ucb_gaps, {"gaps": gaps, **shared}
        yield finite.adac_ucb_worst, {"arms": arms, **shared}
    yield from _finite_arms(setting)


def _finite_arms(setting: Setting) -> Found:
    """Every finite-armed policy: the lower bound."""
    if setting["arms"] > 1:
        yield finite.finite_lower, {"arms": setting["arms"], "rho": _rho(setting)}


def _gope(setting: Setting) -> Found:
    """GOPE and AdaC-GOPE; with noise in the beginning, the rate that Table II quotes for such algorithms."""
    problem = {"arms": setting["arms"], "dim": setting["dim"], "rho": _rho(setting)}
    if setting.get("noise") == "beginning":
        yield linear.converted_gope_rate, problem
    else:
        width = setting.get("reward_width", 2.0)
        std = setting.get("reward_std") or width / 2
        yield linear.adac_gope_proof, {**problem, "failure": setting["failure"], "width": width, "reward_std": std}
    yield linear.linear_lower, {"dim": setting["dim"], "rho": _rho(setting)}


def _phased_elimination(setting: Setting) -> Found:
    """DPE, CDP-DPE, LDP-DPE, SDP-DPE: rates, from Table I of 001."""
    shared = {"arms": setting["arms"], "sampling": setting["alpha"]}
    private = {"dim": setting["dim"], "epsilon": setting["epsilon"], "delta": setting["delta"]}
    tables = {
        "central": distributed.cdp_dpe_rate,
        "local": distributed.ldp_dpe_rate,
        "shuffle": distributed.sdp_dpe_rate,
    }
    if setting["trust"] == "none" or math.isinf(setting["epsilon"]):
        yield distributed.dpe_rate, shared
    elif setting["delta"] > 0:
        yield tables[setting["trust"]], {**shared, **private}
    yield distributed.distributed_lower_rate, {"dim": setting["dim"]}


def _linucb(setting: Setting) -> Found:
    """LinUCB: from above by its own radius or rate; from below what every policy pays."""
    yield from _linucb_upper(setting)
    yield contextual.contextual_lower_rate, {"dim": setting["dim"]}


def _linucb_upper(setting: Setting) -> Found:
    """Lemma A.2 with the radius that it ran with; a narrower one is outside of it."""
    if setting.get("width", 1.0) >= 1 and "radius" in setting:
        names = ("dim", "batch", "radius", "smallest")
        yield contextual.linucb_lemma, {name: setting[name] for name in names}
        return
    problem: dict[str, Any] = {"dim": setting["dim"]}
    if setting["trust"] == "none" or math.isinf(setting["epsilon"]):
        yield contextual.linucb_rate, problem
        return
    problem |= {"epsilon": setting["epsilon"], "delta": setting["delta"]}
    if setting.get("shufflers"):
        problem.pop("delta")
        yield contextual.linucb_concurrent_rate, {**problem, "shufflers": setting["shufflers"]}
    elif setting["trust"] == "shuffle":
        returning = setting.get("participations", 1) > 1
        yield (contextual.linucb_returning_best_rate if returning else contextual.linucb_sdp_vec_best_rate), problem
    else:
        rates = {"central": contextual.linucb_jdp_rate, "local": contextual.linucb_ldp_rate}
        yield rates[setting["trust"]], {**problem, "failure": setting["failure"]}


def _oful(setting: Setting) -> Found:
    """RS-OFUL and AdaC-OFUL: with constants where the contexts' least eigenvalue was given, else the rate.

    The theorem is for features and theta of norm at most 1; the policy gives half of `failure` to each kind of noise.
    """
    problem = {"dim": setting["dim"], "rho": _rho(setting)}
    outside = setting.get("width", 1.0) < 1 or setting["feature_bound"] != 1 or setting["parameter_bound"] != 1
    if not setting.get("eigenvalue") or outside:
        yield public_contexts.adac_oful_rate, problem
        yield contextual.contextual_lower_rate, {"dim": setting["dim"]}
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
    yield public_contexts.adac_oful_proof, {**problem, **known}
    yield contextual.contextual_lower_rate, {"dim": setting["dim"]}


def _oful_joint(setting: Setting) -> Found:
    """AdaC-OFUL-JDP: a rate."""
    yield public_contexts.adac_oful_joint_rate, {"rho": _rho(setting)}
    yield contextual.contextual_lower_rate, {"dim": setting["dim"]}


def _generalised(setting: Setting) -> Found:
    """Generalised linear policies of paper 003: rates."""
    problem: dict[str, Any] = {"dim": setting["dim"]}
    private = problem | {"epsilon": setting["epsilon"]}
    if setting["policy"] == "RSGLinUCB":
        yield generalised.rs_glinucb_rate, problem
        return
    yield (generalised.glm_jdp_rate if setting["policy"] == "GLMJDP" else generalised.glm_sdp_rate), private
    yield generalised.glm_lower_rate, private


_FAMILIES: dict[str, Callable[[Setting], Found]] = {
    "Elimination": _finite_arms,
    "GLMJDP": _generalised,
    "GLMSDP": _generalised,
    "GOPE": _gope,
    "LDPUCB": _finite_arms,
    "LinUCB": _linucb,
    "OFUL": _oful,
    "OFULJDP": _oful_joint,
    "PhasedElimination": _phased_elimination,
    "RSGLinUCB": _generalised,
    "Thompson": _finite_arms,
    "UCB1": _finite_arms,
    "UCBEpisodes": _ucb_episodes,
}
