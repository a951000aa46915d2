"""Short runs of every algorithm by its name, in every kind of world that suits it, along both paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import bandanna as bd
from bandanna import environments as worlds
from bandanna.policies.base import Policy
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.result import Result

_FIXED = worlds.LinearContextual(dim=3, n_arms=6, fixed=True)
_FRESH = worlds.LinearContextual(dim=3, n_arms=6)
_GRADED = worlds.LinearContextual(dim=3, n_arms=6, fixed=True, reward=worlds.Bounded())
_FINITE = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
_SPHERE = worlds.SphereArms(dim=2, n_arms=5)
_CONTEXTS = worlds.SphereContexts(dim=2, n_arms=5)
_GLM = worlds.GeneralisedLinear(dim=2, n_arms=5, norm=2.0)
_PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.1)

_LINEAR = {"dim": 3, "horizon": 300, "width": 0.2, "confidence": "lemma"}
_SAMPLED = {"dim": 3, "horizon": 300, "intercept": True}
_PUBLIC = {"public_contexts": True}
_DP, _ZCDP, _PURE = {"epsilon": 5.0, "delta": 1e-3}, {"rho": 20.0}, {"epsilon": 20.0}
_ARMS = {"n_arms": 3, "horizon": 400}
_SPHERICAL = {"dim": 2, "horizon": 3000}
_LOGISTIC = {"dim": 2, "horizon": 400, "parameter_bound": 2.0}
_CLIENTS = {"dim": 2, "horizon": 3000}

# name -> (arguments, worlds)
RUNS: dict[str, tuple[dict[str, Any], tuple[Environment, ...]]] = {
    "LinTS": (_SAMPLED, (_FIXED, _FRESH, _GRADED)),
    "LinTS-JDP": (_SAMPLED | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-LDP": (_SAMPLED | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-SDP": (_SAMPLED | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-CSDP": (_SAMPLED | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-JDP-rewards": (_SAMPLED | _PUBLIC | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-LDP-rewards": (_SAMPLED | _PUBLIC | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinTS-SDP-rewards": (_SAMPLED | _PUBLIC | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB": (_LINEAR, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-JDP": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-JDP-batched": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-LDP": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-LDP-batched": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-SDP-Amp": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-SDP-Vec": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "LinUCB-CSDP": (_LINEAR | _DP, (_FIXED, _FRESH, _GRADED)),
    "UCB1": (_ARMS, (_FINITE,)),
    "Thompson": (_ARMS, (_FINITE,)),
    "UCB-episodes": (_ARMS, (_FINITE,)),
    "AdaC-UCB": (_ARMS | _ZCDP, (_FINITE,)),
    "AdaP-UCB": (_ARMS | _PURE, (_FINITE,)),
    "DP-SE": (_ARMS | _PURE | {"horizon": 6000, "failure": 0.5}, (_FINITE,)),
    "SDP-SE": (_ARMS | _DP | {"horizon": 6000, "failure": 0.5}, (_FINITE,)),
    "LDP-UCB": (_ARMS | _PURE, (_FINITE,)),
    "GOPE": (_SPHERICAL, (_SPHERE,)),
    "AdaC-GOPE": (_SPHERICAL | _ZCDP, (_SPHERE,)),
    "AdaC-GOPE-early": (_SPHERICAL | _ZCDP, (_SPHERE,)),
    "RS-OFUL": (_SPHERICAL | {"horizon": 400}, (_SPHERE, _CONTEXTS)),
    "AdaC-OFUL": (_SPHERICAL | _ZCDP | {"horizon": 400}, (_SPHERE, _CONTEXTS)),
    "AdaC-OFUL-JDP": (_SPHERICAL | {"rho": 2000.0, "horizon": 400}, (_SPHERE, _CONTEXTS)),
    "DPE": (_CLIENTS, (_PEOPLE,)),
    "CDP-DPE": (_CLIENTS | _DP, (_PEOPLE,)),
    "LDP-DPE": (_CLIENTS | _DP, (_PEOPLE,)),
    "SDP-DPE": (_CLIENTS | _DP, (_PEOPLE,)),
    "Laplace-DPE": (_CLIENTS | _PURE, (_PEOPLE,)),
    "DPE-FixedU": (_CLIENTS, (_PEOPLE,)),
    "PE": (_CLIENTS, (_PEOPLE,)),
    "GLM-UCB": (_LOGISTIC, (_GLM,)),
    "GLOC": (_LOGISTIC, (_GLM,)),
    "ECOLog": (_LOGISTIC, (_GLM,)),
    "RS-GLinUCB": (_LOGISTIC, (_GLM,)),
    "B-GLinUCB": (_LOGISTIC, (_GLM,)),
    "GLM-JDP": (_LOGISTIC | {"epsilon": 50.0, "delta": 0.1}, (_GLM,)),
    "GLM-SDP": (_LOGISTIC | {"epsilon": 20.0, "delta": 0.01}, (_GLM,)),
}


@cache
def made(name: str) -> Policy[Any]:
    """Calibrated and priced once for all worlds and paths."""
    return bd.make(name, **RUNS[name][0])


@dataclass(frozen=True, kw_only=True)
class GoldenRun:
    """One short simulation, told by `key`."""

    name: str
    arguments: dict[str, Any]
    env: Environment
    path: str

    @property
    def key(self) -> str:
        """Name, world and path."""
        world = type(self.env).__name__
        world += " fixed" * bool(getattr(self.env, "fixed", False)) + " graded" * (self.env is _GRADED)
        return f"{self.name} | {world} | {self.path}"

    def simulate(self) -> Result:
        """Two seeds side by side."""
        return bd.simulate(made(self.name), self.env, n_seeds=2, seed=11, path=self.path, checkpoints=20)

    def numbers(self, result: bd.simulation.Result | None = None) -> dict[str, Any]:
        """What must not change: all that does not depend on the clock."""
        result = self.simulate() if result is None else result
        return {
            "regret": result.regret.tolist(),
            "rewards": result.rewards.tolist(),
            "releases": int(result.releases),
            "clipped": result.clipped.tolist(),
            "repairs": result.repairs.tolist(),
            "counts": {name: counted.tolist() for name, counted in sorted(result.counts.items())},
            "epsilon": repr(result.guarantee.epsilon),
        }


def all_runs() -> Iterator[GoldenRun]:
    """Every name, world and path."""
    for name, (arguments, envs) in RUNS.items():
        for env in envs:
            for path in ("law", "messages"):
                yield GoldenRun(name=name, arguments=arguments, env=env, path=path)
