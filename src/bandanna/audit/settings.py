"""A small problem for every algorithm by its name: large enough that it asks, small enough to be run often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bandanna import environments as worlds
from bandanna.core import require
from bandanna.environments import Environment
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.glm import Constants
from bandanna.policies.registry import ALGORITHMS, known_as, make

_FRESH = worlds.LinearContextual(dim=3, n_arms=6)
_FINITE = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
_SPHERE = worlds.SphereArms(dim=2, n_arms=5)
_CONTEXTS = worlds.SphereContexts(dim=2, n_arms=5)
_GLM = worlds.GeneralisedLinear(dim=2, n_arms=4, norm=2.0)
_PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.1)
_BUSY = Constants(  # refits after few rounds, until all calls that are paid for are made
    share=0.4,
    steps=2,
    calls_o=2,
    calls_tau=2,
    regulariser_v=4.0,
    regulariser_h=1.0,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)
HORIZON = 200  # of a policy of one's own


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A world, and the arguments of a policy in it beside its budget."""

    env: Environment
    arguments: dict[str, Any] = field(default_factory=dict)
    rounds: int
    rho: float | None = None  # where the budget is in zCDP


def _linear(horizon: int = 24) -> Setting:
    return Setting(env=_FRESH, arguments={"dim": 3, "horizon": horizon, "width": 0.2}, rounds=horizon)


def _sampled(**more: Any) -> Setting:
    return Setting(env=_FRESH, arguments={"dim": 3, "horizon": 40, "intercept": True, **more}, rounds=40)


def _finite(horizon: int = 40, rho: float | None = None, **more: Any) -> Setting:
    return Setting(env=_FINITE, arguments={"n_arms": 3, "horizon": horizon, **more}, rounds=horizon, rho=rho)


def _logistic(horizon: int = 60, **more: Any) -> Setting:
    arguments = {"dim": 2, "horizon": horizon, "parameter_bound": 2.0, **more}
    return Setting(env=_GLM, arguments=arguments, rounds=horizon)


_SPHERES = Setting(env=_SPHERE, arguments={"dim": 2, "horizon": 3000}, rounds=3000, rho=0.5)
_OFUL = Setting(env=_CONTEXTS, arguments={"dim": 2, "horizon": 40}, rounds=40, rho=0.5)
_CLIENTS = Setting(env=_PEOPLE, arguments={"dim": 2, "horizon": 300}, rounds=300)

SETTINGS: dict[str, Setting] = {
    **dict.fromkeys(("LinTS", "LinTS-JDP", "LinTS-LDP", "LinTS-SDP", "LinTS-CSDP"), _sampled()),
    **dict.fromkeys(("LinTS-JDP-rewards", "LinTS-LDP-rewards", "LinTS-SDP-rewards"), _sampled(public_contexts=True)),
    **dict.fromkeys(("LinUCB", "LinUCB-JDP", "LinUCB-JDP-batched", "LinUCB-LDP"), _linear()),
    **dict.fromkeys(("LinUCB-LDP-batched", "LinUCB-SDP-Amp", "LinUCB-SDP-Vec", "LinUCB-CSDP"), _linear(40)),
    **dict.fromkeys(("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"), _CLIENTS),
    **dict.fromkeys(("UCB1", "Thompson", "UCB-episodes", "AdaP-UCB", "LDP-UCB"), _finite()),
    "AdaC-UCB": _finite(rho=0.5),
    **dict.fromkeys(("DP-SE", "SDP-SE"), _finite(3000, failure=0.5)),
    **dict.fromkeys(("GOPE", "AdaC-GOPE", "AdaC-GOPE-early"), _SPHERES),
    **dict.fromkeys(("RS-OFUL", "AdaC-OFUL"), _OFUL),
    "AdaC-OFUL-JDP": Setting(env=_CONTEXTS, arguments={"dim": 2, "horizon": 60, "growth": 0.1}, rounds=60, rho=50.0),
    **dict.fromkeys(("GLM-UCB", "GLOC", "ECOLog"), _logistic(30)),
    "RS-GLinUCB": _logistic(30, constants="published"),
    "B-GLinUCB": _logistic(warmup=30),
    "GLM-JDP": _logistic(40, constants=_BUSY),
    "GLM-SDP": _logistic(60, warmup=30, steps=2),
}


def setting_for(name: str) -> Setting:
    """Of an algorithm; of one that is not listed, and of a policy of one's own, by the arguments that it takes."""
    if name in SETTINGS:
        return SETTINGS[name]
    own = {each for each in known_as(name).kind.__dataclass_fields__ if not each.startswith("_")}
    if "dim" in own:
        return Setting(env=_FRESH, arguments={"dim": 3, "horizon": HORIZON}, rounds=HORIZON)
    return Setting(env=_FINITE, arguments={"n_arms": 3, "horizon": HORIZON}, rounds=HORIZON)


def policy_of(
    name: str, *, epsilon: float, delta: float, given: bool = False, trust: str | None = None
) -> tuple[Policy[Any], Setting]:
    """The algorithm in its setting, at a budget in the form that it takes.

    given: somebody wants this very budget; otherwise settings of zCDP have a rho of their own. trust: of a policy of
    one's own, the first that it has unless given.
    """
    setting, entry = setting_for(name), known_as(name)
    options = set(entry.options)
    budget: dict[str, Any] = {}
    if "rho" in options and setting.rho is not None and not (given and "delta" in options):
        budget = {"rho": setting.rho}
    elif "epsilon" in options:
        budget = {"epsilon": epsilon} | ({"delta": delta} if "delta" in options else {})
    if "trust" in options:
        noisy = [each for each in entry.kind.trusts if each != "none"]
        if not noisy:
            raise InvalidArgument("target", name, "a policy with some privacy: it has only bd.none()")
        budget["trust"] = noisy[0] if trust is None else require.one_of("trust", trust, tuple(noisy))
    elif trust is not None:
        raise InvalidArgument("trust", trust, f"left out: {name} says whom its users trust")
    return make(name, **{**setting.arguments, **budget}), setting


def names() -> tuple[str, ...]:
    """Every algorithm."""
    return tuple(ALGORITHMS)
