"""A small problem for every algorithm by its name, and one for policies that have none: what the laws are held against.

`public` says what everybody may know of the users: which arms there are, and for AdaC-OFUL and LinTSRewards the
contexts. Laws about other raw data change only what is not public.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest

import bandanna as bd
from bandanna import environments as worlds
from bandanna.policies.base import Policy
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.simulation.environments.base import Environment

from .own_policy import Greedy, Ridge

_FRESH = worlds.LinearContextual(dim=3, n_arms=6)
_FINITE = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
_SPHERE = worlds.SphereArms(dim=2, n_arms=5)
_CONTEXTS = worlds.SphereContexts(dim=2, n_arms=5)
_GLM = worlds.GeneralisedLinear(dim=2, n_arms=4, norm=2.0)
_PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.1)

_LINEAR = {"dim": 3, "horizon": 80, "width": 0.2}
_EVERY_ROUND = {"horizon": 50}  # of policies that learn after each: enough to meet every branch
_SAMPLED = {"dim": 3, "horizon": 80, "intercept": True}
_PUBLIC = {"public_contexts": True}
_ARMS = {"n_arms": 3, "horizon": 150}
_LOGISTIC = {"dim": 2, "horizon": 150, "parameter_bound": 2.0}
_CLIENTS = {"dim": 2, "horizon": 900}
_DP, _ZCDP, _PURE = {"epsilon": 5.0, "delta": 1e-3}, {"rho": 5.0}, {"epsilon": 5.0}
_BUSY = GLMJDPConstants(  # refits after few rounds, until all calls that are paid for are made
    share=0.4,
    steps=2,
    calls_o=2,
    calls_tau=2,
    regulariser_v=4.0,
    regulariser_h=0.25,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An algorithm in a world; `arguments` make it by its name, `policy` is one that has no name."""

    key: str
    arguments: dict[str, Any] = field(default_factory=dict)
    env: Environment
    public: bool = False
    unnamed: Policy[Any] | None = None

    @cached_property
    def policy(self) -> Policy[Any]:
        """Made once: a value, which is calibrated and priced when it is first asked."""
        return bd.make(self.key, **self.arguments) if self.unnamed is None else self.unnamed

    @cached_property
    def rounds(self) -> int:
        """To be played: the policy's horizon, if it has one."""
        return self.policy.horizon or 150


def _case(key: str, env: Environment, *arguments: dict[str, Any], public: bool = False) -> Case:
    merged = {name: value for each in arguments for name, value in each.items()}
    return Case(key=key, arguments=merged, env=env, public=public)


NAMED = (
    _case("LinTS", _FRESH, _SAMPLED),
    _case("LinTS-JDP", _FRESH, _SAMPLED, _DP),
    _case("LinTS-LDP", _FRESH, _SAMPLED, _DP),
    _case("LinTS-SDP", _FRESH, _SAMPLED, _DP),
    _case("LinTS-CSDP", _FRESH, _SAMPLED, _DP),
    _case("LinTS-JDP-rewards", _FRESH, _SAMPLED, _PUBLIC, _DP, public=True),
    _case("LinTS-LDP-rewards", _FRESH, _SAMPLED, _PUBLIC, _PURE, public=True),
    _case("LinTS-SDP-rewards", _FRESH, _SAMPLED, _PUBLIC, _DP, public=True),
    _case("LinUCB", _FRESH, _LINEAR, _EVERY_ROUND),
    _case("LinUCB-JDP", _FRESH, _LINEAR, _DP, _EVERY_ROUND),
    _case("LinUCB-JDP-batched", _FRESH, _LINEAR, _DP),
    _case("LinUCB-LDP", _FRESH, _LINEAR, _DP),
    _case("LinUCB-LDP-batched", _FRESH, _LINEAR, _DP),
    _case("LinUCB-SDP-Amp", _FRESH, _LINEAR, _DP),
    _case("LinUCB-SDP-Vec", _FRESH, _LINEAR, _DP),
    _case("LinUCB-CSDP", _FRESH, _LINEAR, _DP),
    _case("UCB1", _FINITE, _ARMS, _EVERY_ROUND, public=True),
    _case("Thompson", _FINITE, _ARMS, _EVERY_ROUND, public=True),
    _case("UCB-episodes", _FINITE, _ARMS, public=True),
    _case("AdaC-UCB", _FINITE, _ARMS, _ZCDP, public=True),
    _case("AdaP-UCB", _FINITE, _ARMS, _PURE, public=True),
    _case("DP-SE", _FINITE, _ARMS, _PURE, {"horizon": 3000, "failure": 0.5}, public=True),
    _case("SDP-SE", _FINITE, _ARMS, _DP, {"horizon": 3000, "failure": 0.5}, public=True),
    _case("LDP-UCB", _FINITE, _ARMS, _EVERY_ROUND, {"epsilon": 1.0}, public=True),
    _case("GOPE", _SPHERE, {"dim": 2, "horizon": 3000}, public=True),
    _case("AdaC-GOPE", _SPHERE, {"dim": 2, "horizon": 3000}, _ZCDP, public=True),
    _case("AdaC-GOPE-early", _SPHERE, {"dim": 2, "horizon": 3000}, _ZCDP, public=True),
    _case("RS-OFUL", _CONTEXTS, {"dim": 2, "horizon": 50}, public=True),
    _case("AdaC-OFUL", _CONTEXTS, {"dim": 2, "horizon": 50}, _ZCDP, public=True),
    _case("AdaC-OFUL-JDP", _CONTEXTS, {"dim": 2, "horizon": 80, "growth": 0.1}, {"rho": 50.0}),
    _case("DPE", _PEOPLE, _CLIENTS, public=True),
    _case("CDP-DPE", _PEOPLE, _CLIENTS, _DP, public=True),
    _case("LDP-DPE", worlds.Population(dim=3, n_arms=4, sigma=0.1), _CLIENTS, _DP, {"dim": 3}, public=True),
    _case("SDP-DPE", _PEOPLE, _CLIENTS, _DP, public=True),
    _case("Laplace-DPE", _PEOPLE, _CLIENTS, _PURE, public=True),
    _case("DPE-FixedU", _PEOPLE, _CLIENTS, public=True),
    _case("PE", _PEOPLE, _CLIENTS, public=True),
    _case("GLM-UCB", _GLM, _LOGISTIC, _EVERY_ROUND),
    _case("GLOC", _GLM, _LOGISTIC, _EVERY_ROUND),
    _case("ECOLog", _GLM, _LOGISTIC, _EVERY_ROUND),
    _case("RS-GLinUCB", _GLM, _LOGISTIC, _EVERY_ROUND, {"constants": "published"}),
    _case("B-GLinUCB", _GLM, _LOGISTIC, {"warmup": 30}),
    _case("GLM-JDP", _GLM, _LOGISTIC, {"horizon": 60, "epsilon": 20.0, "delta": 1e-3, "constants": _BUSY}),
    _case("GLM-SDP", _GLM, _LOGISTIC, {"epsilon": 20.0, "delta": 1e-2, "warmup": 30, "steps": 2}),
)
_FIRST = bd.LinUCB(dim=3, horizon=40, width=0.2, batch=10, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
_OWN_MODELS = bd.LinTS(n_arms=4, features=2, horizon=80, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
_OWN_PRIVACY = bd.shuffle(epsilon=5.0, delta=1e-3)
UNNAMED = (
    Case(key="LinTS per arm", env=worlds.DisjointLinear(dim=2, n_arms=4), unnamed=_OWN_MODELS),
    Case(key="Anytime", env=_FRESH, unnamed=bd.policies.Anytime(first=_FIRST)),
    Case(key="one's own", env=_FRESH, unnamed=Greedy(dim=3, horizon=120, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))),
    Case(key="one's own, linear", env=_FRESH, unnamed=Ridge(dim=3, horizon=120, batch=25, privacy=_OWN_PRIVACY)),
)
CASES = {case.key: case for case in (*NAMED, *UNNAMED)}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.key)
# for every player, protocol and kind of data one that is also played by messages before every change
BY_MESSAGES = {
    "LinTS-LDP",
    "LinTS-SDP-rewards",
    "LinUCB-JDP",
    "LinUCB-SDP-Amp",
    "LinUCB-CSDP",
    "LDP-UCB",
    "AdaP-UCB",
    "SDP-SE",
    "AdaC-GOPE",
    "AdaC-OFUL",
    "AdaC-OFUL-JDP",
    "LDP-DPE",
    "PE",
    "GLOC",
    "GLM-JDP",
    "GLM-SDP",
    "Anytime",
    "one's own",
}
# one or two of every class: what they do with states, queries, features and coins does not depend on the noise
OF_EVERY_CLASS = BY_MESSAGES | {
    "LinTS-JDP",
    "LinTS-SDP",
    "LinUCB-SDP-Vec",
    "UCB1",
    "Thompson",
    "AdaC-UCB",
    "GLM-UCB",
    "ECOLog",
    "RS-GLinUCB",
    "B-GLinUCB",
    "LinTS per arm",
}
every_path = pytest.mark.parametrize("path", ["law", "messages"])
